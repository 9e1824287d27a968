"""``python -m estimator.calibration trace | reserve | sweep | nets | measure | page``."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from analyzer.errors import InputError
from analyzer.toml import parse_toml
from estimator.calibration import gpu, nets, sweep
from estimator.calibration.compare import PAGE, cases, page
from estimator.calibration.variants import (
    CASES,
    COLUMNS,
    DEPTHS,
    MOMENTS,
    RESERVED,
    RESERVED_COLUMNS,
    STEPS,
    TRACES,
    VARIANTS,
)
from estimator.models.known import find_model


def _trace(words: Sequence[str]) -> None:
    """Trace every case, or those in whose model and variant every word occurs; keep the other rows."""
    from estimator.calibration.traced import trace

    with TRACES.open(encoding="utf-8") as handle:
        rows = {(row["model"], row["variant"], row["layers"]): row for row in csv.DictReader(handle)}
    size = parse_toml(CASES.read_text(encoding="utf-8"))
    for case in cases():
        for variant in VARIANTS:
            is_traceable = case.get("attention", variant.attention) == variant.attention
            if is_traceable and all(word in f"{case['id']} {variant.name}" for word in words):
                for layers in DEPTHS:
                    found = trace(case, variant, layers, size["batch"], size["seq"])
                    about = (case["id"], variant.name, str(layers), str(size["batch"]), str(size["seq"]))
                    cells = dict(zip(COLUMNS, (*about, *(str(found[name]) for name in MOMENTS)), strict=True))
                    rows[about[:3]] = cells
                    print(cells)
    with TRACES.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


def _reserve(words: Sequence[str]) -> None:
    """Trace the models of full depth, or those in whose model and variant every word occurs; keep the other rows."""
    from estimator.calibration.traced import trace

    with RESERVED.open(encoding="utf-8") as handle:
        rows = {tuple(row[name] for name in RESERVED_COLUMNS[:5]): row for row in csv.DictReader(handle)}
    known = {case["id"]: case for case in cases()}
    for deep in parse_toml(CASES.read_text(encoding="utf-8"))["deep"]:
        facts = find_model(deep["id"])
        assert facts is not None
        for variant in VARIANTS:
            for step in STEPS:
                about = (deep["id"], variant.name, step, str(deep["batch"]), str(deep["seq"]))
                is_adapter = variant.method == "lora"
                if not all(word in " ".join(about) for word in words) or (is_adapter and facts.kind != "decoder"):
                    continue
                found = trace(known[deep["id"]], variant, facts.layers, deep["batch"], deep["seq"],
                              has_lists=step == STEPS[1])  # fmt: skip
                live = max(found[name] for name in ("forward", "backward", "optimizer step"))
                cells = (*about, str(live), str(found["reserved"]))
                rows[about] = dict(zip(RESERVED_COLUMNS, cells, strict=True))
                print(rows[about], flush=True)
                with RESERVED.open("w", encoding="utf-8", newline="") as handle:
                    writer = csv.DictWriter(handle, RESERVED_COLUMNS, lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(rows.values())


def _measure(args: argparse.Namespace) -> int:
    """On a real GPU; the child's answer is its last line."""
    if args.command == "measure-one":
        run = gpu.Run(**json.loads(args.run))
        print(json.dumps(gpu.one(run, next(case for case in cases() if case["id"] == run.model))))
        return 0
    deep = parse_toml(CASES.read_text(encoding="utf-8"))["deep"]
    wanted = list(gpu.runs(cases(), deep, args.words, args.batch, args.seq))
    if args.list:
        print(*wanted, sep="\n")
        return 0
    return 1 if gpu.measure(wanted, args.records) else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Trace, or write or check the page."""
    parser = argparse.ArgumentParser(prog="python -m estimator.calibration", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("trace", help="needs torch and transformers").add_argument("words", nargs="*")
    commands.add_parser("reserve", help="needs torch and transformers").add_argument("words", nargs="*")
    commands.add_parser("sweep", help="needs torch and transformers").add_argument("words", nargs="*")
    of_nets = commands.add_parser("nets", help="networks of pictures and sound; needs torch and their libraries")
    of_nets.add_argument("words", nargs="*", help="parts of a library's and a network's name")
    of_nets.add_argument("--table", action="store_true", help="trace none, write data/nets.csv from what was traced")
    measuring = commands.add_parser("measure", help="needs torch, transformers and a GPU with nothing else on it")
    measuring.add_argument("words", nargs="*", help="parts of a model's id, a variant's and an optimizer's name")
    measuring.add_argument("--records", type=Path, default=gpu.RECORDS, metavar="FILE", help="appended to")
    measuring.add_argument(
        "--batch", type=int, nargs="+", default=[], metavar="N", help="instead of those of cases.toml"
    )
    measuring.add_argument("--seq", type=int, nargs="+", default=[], metavar="N")
    measuring.add_argument("--list", action="store_true", help="print the runs and measure none")
    commands.add_parser("measure-one", help="what `measure` starts").add_argument("run")
    commands.add_parser("page").add_argument("--check", action="store_true")
    args = parser.parse_args(argv)
    if args.command == "trace":
        _trace(args.words)
        return 0
    if args.command == "nets":
        if not args.table:
            nets.trace_all(args.words)
        nets.TABLE.write_text(nets.table(nets.rows()), encoding="utf-8")
        return 0
    if args.command == "sweep":
        sweep.trace_all(args.words, cases())
        return 0
    if args.command == "reserve":
        _reserve(args.words)
        return 0
    if args.command in ("measure", "measure-one"):
        try:
            return _measure(args)
        except InputError as error:
            print(error, file=sys.stderr)
            return 2
    text = page()
    if args.check:
        is_fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print("fresh" if is_fresh else "stale: run python -m estimator.calibration page", file=sys.stderr)
        return 0 if is_fresh else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
