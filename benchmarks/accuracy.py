"""Score the estimator on the public measured rows and write ``docs/accuracy.md``.

    python -m benchmarks.accuracy [--check | --records FILE]

`--records` scores the peaks that ``VRAMGuard`` wrote, and prints the table instead of writing the page.

A row is compared with the interval of the same kind: what it measured as allocated with `allocated`, as reserved with
`reserved`, with nvidia-smi with `peak`; where nobody says how it was measured, with `reserved`.
"""

from __future__ import annotations

import argparse
import collections
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import calibrate, peer
from benchmarks.measured import Scored, load, score

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
_HEAD = "| {} | rows | with a number | median error | mean error | inside | width | false-OOM | false-fit |"
_INTRO = """# How accurate the estimates are

Written by `python -m benchmarks.accuracy`; do not edit. Rows: GPU memory that people published, the public half
of a collection ({rows} runs, {file}). Hybrid and vision-language models that `data/models.csv` does not describe, and
diffusion networks that `data/pixels.csv` does not know, are counted as if their layers were a decoder's, and get wide
intervals; point clouds get no number.

*Error*: point against measured, without sign. *Inside*: measured within low and high. *Width*: high less low over
point, the median. *False-OOM*: verdict `exceeds`, but it ran. *False-fit*: verdict `fits`, but it ran out of memory.
Quality A is an instrumented number with a complete configuration, B has inferred fields, C is approximate or has gaps.

The interval was fitted on these rows, so the first tables flatter it. Those of what was not seen are the honest ones:
there every source, and every category, is scored with a table fitted on the others.

{rate}
"""
_ESTABLISHED = 60
"""Rows that died from which on a rate of false fits says something: none of them wrong would bound it at 5 %."""
_BESIDE = """
## Beside torch-preflight 0.5

Its own command, asked by the scorer that came with the rows; its answers are in `benchmarks/peer.csv` (written by
`python -m benchmarks.peer`). *Sayable*: rows whose run its options can express and that it gives a number for; errors
and coverage are of the measured ones among them, ours of the same rows. *Asked anyway*: what its options cannot say is
left out. It was fitted on the source `tpf-calibration`, eight of the rows; ours on all.

| quality A and B | rows | sayable | its median error | its mean | its inside | our median | our mean | our inside \
| its false-OOM, asked anyway | our false-OOM |
""".replace("\\\n", "")
_RATE = "Of quality A and B {died} runs died on a known card, and {wrong} of them are said to fit: {rate}."


def table(title: str, items: Sequence[Scored], key: Callable[[Scored], str]) -> list[str]:
    """One table, a line per group."""
    groups: dict[str, list[Scored]] = collections.defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    lines = [
        "",
        f"## By {title}" if title != "all" else "## All rows",
        "",
        _HEAD.format(title),
        "| --- " + "| ---: " * 8 + "|",
    ]
    lines += [f"| {name} | " + " | ".join(line(groups[name])) + " |" for name in sorted(groups)]
    return lines


def line(items: Sequence[Scored]) -> list[str]:
    """The numbers of one group."""
    numbers = [item for item in items if item.comparable is not None]
    pairs = [(item, item.measured_bytes) for item in numbers if item.measured_bytes is not None]
    errors, widths, inside = [], [], 0
    for item, measured in pairs:
        interval = item.comparable
        assert interval is not None
        errors.append(abs(interval.point / measured - 1))
        widths.append((interval.high - interval.low) / interval.point)
        inside += interval.low <= measured <= interval.high
    return [
        str(len(items)),
        str(len(numbers)),
        f"{statistics.median(errors):.1%}" if errors else "",
        f"{statistics.mean(errors):.1%}" if errors else "",
        _share(inside, len(pairs)),
        f"{statistics.median(widths):.0%}" if widths else "",
        _share(*false_oom(numbers)),
        _share(*false_fit(numbers)),
    ]


def false_oom(items: Sequence[Scored]) -> tuple[int, int]:
    """Of the runs that ran on a known card, those we said cannot."""
    ran = [item for item in items if not item.row["oom"] and item.result.verdict != "unknown"]
    return sum(item.result.verdict == "exceeds" for item in ran), len(ran)


def false_fit(items: Sequence[Scored]) -> tuple[int, int]:
    """Of the runs that ran out of memory, those we said would fit."""
    died = [item for item in items if item.row["oom"] and item.result.verdict != "unknown"]
    return sum(item.result.verdict == "fits" for item in died), len(died)


def _is_near_capacity(item: Scored) -> bool:
    """Whether what was measured is within a tenth of what a card has: where a verdict is hard."""
    sizes = [target.usable_bytes for target in item.result.targets if target.usable_bytes]
    measured = item.measured_bytes
    return measured is not None and any(0.9 <= measured / size <= 1.1 for size in sizes)


def _worst(items: Sequence[Scored], limit: int = 15) -> list[str]:
    """The rows of quality A and B that lie furthest outside their interval's point, with what was not known."""
    lines = [
        "",
        "## Worst rows of quality A and B",
        "",
        "| row | measured GiB | low / point / high | what widened it |",
    ]
    lines.append("| --- | ---: | ---: | --- |")
    found = []
    for item in items:
        interval, measured = item.comparable, item.measured_bytes
        if item.row["quality"] != "C" and interval is not None and measured is not None:
            found.append((abs(math.log(interval.point / measured)), item, interval, measured))
    for _, item, interval, measured in sorted(found, key=lambda one: -one[0])[:limit]:
        ends = " / ".join(f"{size / 2**30:.1f}" for size in (interval.low, interval.point, interval.high))
        known = [unknown.partition(":")[0] for unknown in item.result.unknowns]
        why = "shape is guessed" if "resemble" in item.result.model.source or "like" in item.result.model.source else ""
        reasons = ", ".join(filter(None, [why, *known[:4]]))
        lines.append(f"| {item.row['id']} | {measured / 2**30:.1f} | {ends} | {reasons} |")
    return lines


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%} ({part}/{whole})" if whole else ""


def _held_out() -> list[str]:
    """Sources and categories left out in turn. What an unknown instrument measured is judged and not fitted on."""
    rows = load(qualities="AB")
    used = calibrate.points(row for row in rows if row["measured_kind"] != "unknown")
    unclear = calibrate.points(row for row in rows if row["measured_kind"] == "unknown")
    lines = _left_out("Sources not seen when fitting", "source", calibrate.leave_one_out(used, unclear))
    found = calibrate.leave_one_out(used, unclear, key=lambda point: point.group)
    return [*lines, *_left_out("Categories not seen when fitting", "category", found)]


def _left_out(title: str, name: str, found: Sequence[calibrate.HeldOut]) -> list[str]:
    lines = ["", f"## {title}", "", f"| {name} | rows | inside | median error | mean error | median width |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for item in found:
        ends = (f"{share:.1%}" for share in (item.median_error, item.mean_error))
        cells = [item.source, item.num_rows, _share(item.num_inside, item.num_rows), *ends, f"{item.median_width:.0%}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _rate(items: Sequence[Scored]) -> str:
    """What the runs that died say about the rate of false fits, or that they are too few to say it."""
    wrong, died = false_fit(items)
    if died < _ESTABLISHED:
        return _RATE.format(died=died, wrong=wrong, rate=f"with fewer than {_ESTABLISHED} the rate is not established")
    return _RATE.format(died=died, wrong=wrong, rate=f"{wrong / died:.1%}")


def _beside(items: Sequence[Scored]) -> list[str]:
    """torch-preflight on the same rows: where its command line can say the run, and asked anyway."""
    answers = peer.answers()
    lines = [*_BESIDE.splitlines(), "| --- " + "| ---: " * 10 + "|"]
    groups: dict[str, list[Scored]] = collections.defaultdict(list)
    for item in items:
        groups[item.row["category"]].append(item)
    for name, mine in [*sorted(groups.items()), ("all", list(items))]:
        lines.append(f"| {name} | {' | '.join(_beside_line(mine, answers))} |")
    return lines


def _beside_line(items: Sequence[Scored], answers: Mapping[tuple[str, str], peer.Answer]) -> list[str]:
    said = [(item, found) for item in items if (found := answers.get((item.row["id"], "strict"))) is not None]
    pairs = [(item, found, value / 2**30) for item, found in said if (value := item.measured_bytes) is not None]
    theirs = [abs(found.point / value - 1) for _, found, value in pairs]
    inside = sum(found.low <= value <= found.high for _, found, value in pairs)
    ran = [item for item in items if not item.row["oom"] and item.row["gpu_mem_gib"]]
    asked = [found for item in ran if (found := answers.get((item.row["id"], "naive"))) is not None]
    own = line([item for item, _, _ in pairs])
    return [
        str(len(items)), str(len(said)), *_ends(theirs), _share(inside, len(pairs)), *own[2:5],
        _share(sum(found.says_oom for found in asked), len(asked)), _share(*false_oom(items)),
    ]  # fmt: skip


def _ends(errors: Sequence[float]) -> tuple[str, str]:
    return (f"{statistics.median(errors):.1%}", f"{statistics.mean(errors):.1%}") if errors else ("", "")


def page() -> str:
    """The whole page."""
    items = score(load())
    gated = [item for item in items if item.row["quality"] != "C"]
    intro = _INTRO.format(rows=len(items), file="`tests/data/measured_peaks_public.jsonl.gz`", rate=_rate(gated))
    lines = intro.splitlines()
    lines += table("all", items, lambda item: "every row")
    lines.append(f"| quality A and B | {' | '.join(line(gated))} |")
    lines.append(
        f"| of them, within 10 % of a card's size | {' | '.join(line(list(filter(_is_near_capacity, gated))))} |"
    )
    lines += table("quality", items, lambda item: str(item.row["quality"]))
    lines += table("category", items, lambda item: str(item.row["category"]))
    lines += table("category, quality A and B", gated, lambda item: str(item.row["category"]))
    lines += table("category, quality A and B, within 10 % of a card's size", list(filter(_is_near_capacity, gated)),
                   lambda item: str(item.row["category"]))  # fmt: skip
    lines += _held_out()
    lines += _beside(gated)
    lines += _worst(items)
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail when the committed page is stale")
    parser.add_argument("--records", type=Path, metavar="FILE", help="score what VRAMGuard recorded")
    args = parser.parse_args(argv)
    if args.records:
        print("\n".join(table("model", score(load(args.records)), lambda item: str(item.row["model"]))))
        return 0
    text = page()
    if args.check:
        is_fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print("fresh" if is_fresh else "stale: run python -m benchmarks.accuracy", file=sys.stderr)
        return 0 if is_fresh else 1
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
