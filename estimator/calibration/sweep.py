"""Sizes and optimizers beside the static model: whole peaks of models of four layers, traced and computed.

    python -m estimator.calibration sweep [WORD ...]   # torch, transformers: writes sweep.csv

Every model of `[sweep]` in cases.toml: each batch and sequence with AdamW, and each optimizer at one size; under each
variant, tensor by tensor and on lists.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from analyzer.toml import parse_toml
from estimator.calibration.variants import CASES, STEPS, VARIANTS
from estimator.memory.setup import Setup
from estimator.memory.timeline import timeline

SWEEP = Path(__file__).with_name("sweep.csv")
COLUMNS = ("model", "variant", "optimizer", "step", "batch", "seq", "peak")


@dataclass(frozen=True, slots=True)
class Point:
    """One training of the sweep."""

    model: str
    variant: str
    optimizer: str
    step: str
    batch: int
    seq: int

    @property
    def cells(self) -> tuple[str, ...]:
        """As a row has them."""
        return (self.model, self.variant, self.optimizer, self.step, str(self.batch), str(self.seq))


def plan() -> Mapping[str, Any]:
    """What the file of cases says of it."""
    found: Mapping[str, Any] = parse_toml(CASES.read_text(encoding="utf-8"))["sweep"]
    return found


def points() -> Iterator[Point]:
    """Everything that is traced."""
    said = plan()
    usual = said["optimizers"][0]
    sizes = [(batch, seq) for batch in said["batches"] for seq in said["seqs"]]
    for model in said["models"]:
        for variant in said["variants"]:
            for step in STEPS:
                yield from (Point(model, variant, usual, step, *size) for size in sizes)
                yield from (Point(model, variant, name, step, *sizes[0]) for name in said["optimizers"][1:])


def trace_all(words: Sequence[str], cases: Sequence[Mapping[str, Any]]) -> None:
    """Trace what holds every word; keep the other rows."""
    from estimator.calibration.traced import trace

    found = {point.cells: peak for point, peak in traced()}
    known = {case["id"]: case for case in cases}
    variants = {variant.name: variant for variant in VARIANTS}
    for point in points():
        if not all(word in " ".join(point.cells) for word in words):
            continue
        moments = trace(
            known[point.model], variants[point.variant], plan()["layers"], point.batch, point.seq,
            has_lists=point.step == STEPS[1], optimizer=point.optimizer,
        )  # fmt: skip
        found[point.cells] = max(moments[name] for name in ("forward", "backward", "optimizer step"))
        print(*point.cells, found[point.cells], flush=True)
        with SWEEP.open("w", encoding="utf-8", newline="") as handle:
            writer = csv.writer(handle, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows([*cells, peak] for cells, peak in found.items())


def traced() -> list[tuple[Point, int]]:
    """The rows of ``sweep.csv``."""
    if not SWEEP.exists():
        return []
    with SWEEP.open(encoding="utf-8", newline="") as handle:
        return [
            (Point(row["model"], row["variant"], row["optimizer"], row["step"], int(row["batch"]), int(row["seq"])),
             int(row["peak"]))
            for row in csv.DictReader(handle)
        ]  # fmt: skip


def computed(setup: Setup, step: str) -> int:
    """The static peak of the same run, without a GPU's workspaces."""
    setup = replace(setup, has_foreach_step=step == STEPS[1], steps_alone=step == STEPS[0])
    return max(
        sum(term.num_bytes for term in moment.terms if term.name != "library workspaces")
        for moment in timeline(setup) if moment.name != "evaluation"
    )  # fmt: skip


def section(setup_of: Callable[..., Setup]) -> list[str]:
    """The part of the page: deviations by model, variant, optimizer and size. `setup_of` makes the static setup of a
    model, a variant, layers, batch, sequence and optimizer."""
    variants, layers = {variant.name: variant for variant in VARIANTS}, plan()["layers"]
    found = []
    for point, peak in traced():
        setup = setup_of(point.model, variants[point.variant], layers, point.batch, point.seq, point.optimizer)
        found.append((point, computed(setup, point.step) / peak - 1))
    lines = ["", "## Sizes and optimizers", "", *_INTRO.format(layers=layers).splitlines(), ""]
    lines += ["| by | of | runs | median deviation | least | most |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for kind, key in _KINDS.items():
        for name in dict.fromkeys(key(point) for point, _ in found):
            mine = [off for point, off in found if key(point) == name]
            ends = f"{median(map(abs, mine)):.1%} | {min(mine):+.0%} | {max(mine):+.0%}"
            lines.append(f"| {kind} | {name} | {len(mine)} | {ends} |")
    return lines


_KINDS: dict[str, Callable[[Point], str]] = {
    "model": lambda point: point.model,
    "trained as": lambda point: point.variant,
    "optimizer": lambda point: f"{point.optimizer}, {point.step}",
    "size": lambda point: f"{point.batch} x {point.seq} tokens",
}
_INTRO = """Whole peaks, the optimizer's step included, of models of {layers} layers: every size with AdamW, every
optimizer at the smallest (`python -m estimator.calibration sweep`). Computed over traced, less one. Known reasons: SGD
is traced without weight decay, which makes the tensor or list that is counted; torch's Adafactor works in the weights'
precision, the static model counts transformers', which works in fp32; fake tensors keep both gradients of a tied
embedding."""
