"""``docs/calibration.md``: what the traces of real models say about the static model."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from analyzer.toml import parse_toml
from estimator.calibration import nets, sweep
from estimator.calibration.variants import CASES, DEPTHS, RANK, RESERVED, STEPS, TRACES, VARIANTS, Variant
from estimator.memory import candidates
from estimator.memory.setup import Setup
from estimator.memory.timeline import timeline
from estimator.models.choose import choose_model
from estimator.models.known import find_model
from estimator.runconfig import RunConfig
from estimator.sourced import Origin
from estimator.units import GIB

PAGE = Path(__file__).parents[2] / "docs" / "calibration.md"
_INTRO = """# The static model beside real ones

Written by `python -m estimator.calibration page`; do not edit. Every row is a model of transformers, built
with {depths} layers and trained for two steps on tensors without data (`estimator/calibration/`; torch 2.13,
transformers 5.24, batch {batch}, {seq} tokens): what a GPU's autocast and dropout do otherwise than a CPU's
is emulated, its kernels' workspaces are not. *Kept*: bytes that one layer keeps for backward, per token, from
the difference of the two depths. *Peak*: the most during forward and backward of the deeper one. Nothing here
is fitted; a deviation is a term missing or too much.

Known reasons: the traced OPT has no dropout on attention maps; a CPU's attention repeats grouped keys where a
GPU's takes them (Llama 3, Mistral, Qwen), which the static model leaves open; fake tensors add a tied
embedding's two gradients into a third tensor, where autograd adds real ones in place (Gemma, OPT);
transformers' output object, which holds the 16-bit logits, is dropped before backward here; a tanh GELU
written out, and a LayerNorm's result, are fp32 under autocast, which adapters do not tell (phi-2, BART, Whisper);
a CPU's attention whose values are narrower than its keys keeps the scores (DeepSeek-V2, sdpa: as much as eager
attention, 6 bytes per score, and without them 1 % is left), a GPU's does not;
kernels of state-space models are stand-ins that keep what the real ones keep (`kernels.py`);
a CPU's attention returns another layout than a GPU's, so Whisper copies its result (sdpa).
"""


@dataclass(frozen=True, slots=True)
class Compared:
    """One case: bytes traced and bytes computed."""

    model: str
    variant: str
    kept: tuple[float, float]
    peak: tuple[float, float]

    @property
    def deviations(self) -> tuple[float, float]:
        """Computed over traced, less one: of what a layer keeps, and of the peak."""
        return self.kept[1] / self.kept[0] - 1, self.peak[1] / self.peak[0] - 1


def compared() -> list[Compared]:
    """Every case of ``traces.csv``."""
    with TRACES.open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    pairs = {(row["model"], row["variant"]) for row in rows}
    variants = {variant.name: variant for variant in VARIANTS}
    order = [case["id"] for case in cases()]
    found = []
    for model, name in sorted(pairs, key=lambda pair: (order.index(pair[0]), list(variants).index(pair[1]))):
        traced = {int(row["layers"]): row for row in rows if (row["model"], row["variant"]) == (model, name)}
        found.append(_compare(model, variants[name], traced))
    return found


@dataclass(frozen=True, slots=True)
class Reserve:
    """How much more the allocator held than lived, in one trace of a whole model."""

    model: str
    variant: Variant
    step: str
    ratio: float
    state_share: float


def traced_reserves() -> list[Reserve]:
    """Every row of ``reserved.csv``."""
    variants = {variant.name: variant for variant in VARIANTS}
    with RESERVED.open(encoding="utf-8") as handle:
        return [_reserve(row, variants[row["variant"]]) for row in csv.DictReader(handle)]


def _reserve(row: Mapping[str, str], variant: Variant) -> Reserve:
    """AdamW keeps two tensors in the weights' precision; of adapters they are nothing beside the rest."""
    facts, live = find_model(row["model"]), int(row["live"])
    assert facts is not None
    state = 2 * facts.params * (2 if variant.weights == "bf16" else 4) if variant.method == "full" else 0
    return Reserve(row["model"], variant, row["step"], int(row["reserved"]) / live, state / live)


def cases() -> list[dict[str, Any]]:
    """The models of ``cases.toml``."""
    found: list[dict[str, Any]] = parse_toml(CASES.read_text(encoding="utf-8"))["model"]
    return found


def _compare(model: str, variant: Variant, traced: Mapping[int, Mapping[str, str]]) -> Compared:
    shallow, deep = (traced[depth] for depth in DEPTHS)
    batch, seq = int(deep["batch"]), int(deep["seq"])
    few, many = (_setup(model, variant, depth, batch, seq) for depth in DEPTHS)
    tokens = batch * seq * (DEPTHS[1] - DEPTHS[0])
    loaded = int(deep["load"]) - int(shallow["load"])
    state = 2 * loaded
    if variant.method == "lora":  # only the adapters, held in fp32, have any
        state = 2 * (loaded - 2 * (many.block_params - few.block_params))
    kept = int(deep["forward end"]) - int(shallow["forward end"]) - loaded - state
    moments = {moment.name: moment for moment in timeline(many)}
    names = ("forward end", "loss forward", "loss backward", "deepest backward", "backward end")
    scratch = sum(term.num_bytes for term in moments["forward end"].terms if term.name == "library workspaces")
    peak = max(moments[name].num_bytes for name in names) - scratch
    computed = (_kept(many) - _kept(few)) / tokens
    return Compared(
        model, variant.name, (kept / tokens, computed), (max(int(deep["forward"]), int(deep["backward"])), peak)
    )


def _kept(setup: Setup) -> int:
    """After autocast's context has ended: what the graph holds, copies of weights among it."""
    moment = next(moment for moment in timeline(setup) if moment.name == "loss backward")
    return sum(term.num_bytes for term in moment.terms if term.name in ("saved activations", "autocast weight copies"))


def _setup(model: str, variant: Variant, layers: int, batch: int, seq: int, optimizer: str = "adamw") -> Setup:
    words: dict[str, Any] = {
        "model": model, "task": "train", "micro_batch": batch, "seq_len": seq, "precision": variant.precision,
        "optimizer": optimizer, "method": variant.method, "attention": variant.attention, "num_gpus": 1,
        "grad_checkpointing": variant.is_checkpointed,
    }  # fmt: skip
    if variant.method == "lora":
        words |= {"lora_rank": RANK, "lora_targets": ["all-linear"]}
    run = RunConfig.from_document(words, Origin("trace"))
    setup = candidates.typical(candidates.choices(run, choose_model(run).readings), "")
    setup = replace(setup, holds_logits=False)  # the trace takes the loss out of the model's result
    if variant.method == "lora" and not variant.mixed:
        setup = replace(setup, adapter_copy=5)  # peft holds adapters in fp32, and nothing narrows what they read
    facts = setup.facts
    if facts.decoder_layers:
        facts = replace(facts, decoder_layers=layers, params=facts.embedding_params + facts.layer_params * 2 * layers)
        return replace(setup, facts=replace(facts, layers=2 * layers), target_len=seq)
    params = facts.embedding_params + facts.layer_params * layers
    parts = tuple((name, count * layers // facts.layers) for name, count in facts.parts)
    facts = replace(facts, parts=parts, dense_layers=0)
    return replace(setup, facts=replace(facts, layers=layers, params=params))


def page() -> str:
    """The whole page."""
    found = compared()
    lines = _INTRO.format(depths=" and ".join(map(str, DEPTHS)), **_size()).splitlines()
    lines += ["", "| trained as | models | kept: median deviation | worst | peak: median deviation | worst |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    lines += [_summary(name, [each for each in found if each.variant == name]) for name in _names(found)]
    lines += _reserves(traced_reserves())
    lines += sweep.section(_setup)
    lines += nets.section()
    lines += _MEASURING.splitlines()
    lines += [
        "",
        "## Every trace",
        "",
        "| model | trained as | kept: traced | computed | off | peak: traced | computed | off |",
    ]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for each in found:
        kept, peak = each.deviations
        cells = (
            each.model, each.variant, f"{each.kept[0]:,.0f} B", f"{each.kept[1]:,.0f} B", f"{kept:+.0%}",
            f"{each.peak[0] / GIB:.2f} GiB", f"{each.peak[1] / GIB:.2f} GiB", f"{peak:+.0%}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


_RESERVES = """
## What the allocator reserves

The same models at full depth, and the rules of torch's caching allocator (`estimator/calibration/caching.py`) for
every tensor that was made and freed in two steps: bytes reserved over the most bytes alive. The excess is what became
of the first step's free blocks when the optimizer's state, made at its end, was cut from them: it grows with the
share of that state in the peak, and the estimates count it so. *Lists* is an optimizer
that works on lists of all parameters (torch's default), *one by one* stands for loops and fused kernels.

| trained as | optimizer | runs | least | median | most |
| --- | --- | ---: | ---: | ---: | ---: |
"""


_MEASURING = """
## On a real GPU

`python -m estimator.calibration measure [WORD ...] [--batch N ...] [--seq N ...] [--records FILE]` trains the same
models at full depth for three steps on a CUDA device, each in a process of its own, and appends what was allocated,
reserved and in use as measured rows; `--list` says what it would run. `python -m benchmarks.accuracy --records FILE`
scores the estimates on them. No GPU was at hand when this page was written: the harness was run on a CPU, with torch's
CUDA calls checked against their declarations.
"""


def _reserves(found: Sequence[Reserve]) -> list[str]:
    lines = _RESERVES.splitlines()
    for variant in VARIANTS:
        for step in STEPS:
            ratios = [each.ratio for each in found if (each.variant, each.step) == (variant, step)]
            if ratios:
                ends = f"{min(ratios):.2f} | {median(ratios):.2f} | {max(ratios):.2f}"
                lines.append(f"| {variant.name} | {step} | {len(ratios)} | {ends} |")
    return lines


def _size() -> dict[str, int]:
    document = parse_toml(CASES.read_text(encoding="utf-8"))
    return {"batch": int(document["batch"]), "seq": int(document["seq"])}


def _names(found: Sequence[Compared]) -> Iterator[str]:
    return (variant.name for variant in VARIANTS if any(each.variant == variant.name for each in found))


def _summary(name: str, found: Sequence[Compared]) -> str:
    kept, peak = zip(*(each.deviations for each in found), strict=True)
    cells = [f"{median(map(abs, side)):.1%} | {max(side, key=abs):+.0%}" for side in (kept, peak)]
    return f"| {name} | {len(found)} | {' | '.join(cells)} |"
