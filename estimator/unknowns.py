"""What an estimate does not know, in words: each line names what an option would say, and what the interval is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from estimator.memory import candidates
from estimator.memory.choice import Choices
from estimator.memory.timeline import timeline
from estimator.models.facts import ModelFacts
from estimator.runconfig import NOT_GIVEN, NOT_SAID, RunConfig
from estimator.sourced import Origin, Sourced, Unknown

READABLE = {
    "micro_batch": "micro-batch", "seq_len": "sequence length", "precision": "precision", "optimizer": "optimizer",
    "attention": "attention implementation", "checkpointing": "gradient checkpointing", "lora_rank": "LoRA rank",
    "lora_targets": "modules with adapters", "facts": "model architecture", "sharding": "sharding",
    "offload": "offload", "grad_accum": "gradient accumulation", "quantization": "quantization",
    "target_len": "length of what the decoder reads",
    "method": "training method", "image": "image size", "classes": "number of classes",
    "companions": "text encoders and other frozen models on the same GPU",
    "whole_gradients": "whether FSDP reduces every micro-batch's gradients, and wraps adapters alone",
    "shards": "number of GPUs",
    "loads_whole": "whether the whole model is on one GPU before it is sharded",
    "has_foreach_step": "optimizer implementation", "loss_impl": "loss implementation", "is_compiled": "torch.compile",
    "steps_in_backward": "whether the optimizer steps inside backward", "has_ema": "moving average of the weights",
    "is_dora": "whether adapters learn magnitudes", "trained_layers": "how many layers are trained",
    "has_bucket_views": "whether DDP's gradients are views of its buckets", "frames": "frames of a video",
}  # fmt: skip
"""What of an estimate can be open, in words."""
WORD_OF = {
    "shards": "num_gpus", "checkpointing": "grad_checkpointing", "facts": "model", "loads_whole": "sharded_load",
    "has_foreach_step": "optimizer_impl", "is_compiled": "compile", "steps_in_backward": "optimizer_in_backward",
    "has_ema": "ema", "is_dora": "dora", "has_bucket_views": "bucket_view", "companions": "companion_params",
    "image": "image_size",
}  # fmt: skip
_PARTS = "whether all of the network is trained"
_NETWORKS = "which of the networks are trained"


def unknown_lines(run: RunConfig, found: Choices) -> tuple[str, ...]:
    """What widened the interval, in words; and every field of a document that is not in the number. `found` is what
    the words of the run may be, empty where there is no number."""
    reasons = {
        name: f"{name}: {sourced.value.reason}{_place(sourced.origin, sourced.value.reason)}"
        for name, sourced in run.words().items()
        if isinstance(sourced.value, Unknown) and _is_worth_a_line(sourced, sourced.value)
    }
    open_choices = [name for name, choice in found.items() if choice.is_open and _matters(found, name)]
    if found and found["micro_batch"].is_open and "micro_batch" not in open_choices:
        open_choices.append("micro_batch")  # one sample is taken for it, and any more are not in the interval
    spans = {asked: _span(found, name, asked) for name in open_choices for asked in _asked(found, run, name)}
    said = {WORD_OF.get(name, name): span for name, span in spans.items() if span}
    reasons |= {name: f"{reasons[name]}, so {span}" for name, span in said.items() if name in reasons}
    lines = [
        READABLE.get(name, name) + (f": {span}" if span else "")
        for name, span in spans.items()
        if WORD_OF.get(name, name) not in reasons
    ]
    lines += reasons.values()
    lines += [f"{name}: {reason}" for name, reason in run.not_understood if name != "not counted"]
    if not run.gpu.is_known and not run.gpu_memory.is_known:
        lines.append("target GPU")
    return tuple(dict.fromkeys(lines))


def _asked(found: Choices, run: RunConfig, name: str) -> list[str]:
    """Which words would say what is open: what a model reads has one length in here, and several options."""
    facts: ModelFacts = found["facts"].typical
    if name == "facts" and facts.local is not None:
        return _inputs_of(found["facts"].probable)
    if name == "facts" and facts.image_net is not None:  # its id is known, and of whom it is
        return [_PARTS]
    if name == "target_len" and facts.source_tokens:  # of speech a run's one length is the text's
        return ["seq_len"]
    if name == "seq_len" and facts.kind in ("vit", "dit"):
        has_frames = facts.pixel_net is not None and bool(facts.pixel_net.stride)
        asked = ["image"] if facts.kind == "vit" or not run.image_size.is_known else []
        return asked + (["frames"] if has_frames and not run.frames.is_known else []) or [name]
    return [name]


def _inputs_of(readings: Sequence[ModelFacts]) -> list[str]:
    """What differs between readings of the repository's networks: how large what they read is, or which they are."""
    passes = [facts.local for facts in readings if facts.local is not None]
    images, lengths = ({size for one in passes if (size := getattr(one, name))} for name in ("image", "length"))
    found = (["image"] if len(images) > 1 else []) + (["seq_len"] if len(lengths) > 1 else [])
    return found or [_NETWORKS]


def _span(found: Choices, name: str, asked: str) -> str:
    """What the interval takes a size for that has no upper end: more of it is not in the interval."""
    facts: ModelFacts = found["facts"].typical
    if name == "facts":
        return _span_of_inputs(found["facts"].probable, asked)
    if name == "image":
        sides = sorted(found[name].probable, key=lambda size: (size[0] * size[1], size))
        return _between(["x".join(map(str, size)) for size in sides], "")
    units = {"micro_batch": "samples", "seq_len": _units(facts), "target_len": "tokens"}.get(name, "")
    if not units:
        return ""
    sizes = sorted(found[name].probable)
    return _between([f"{size:,}" for size in sizes], f" {units.removesuffix('s') if sizes[-1] == 1 else units}")


def _units(facts: ModelFacts) -> str:
    if facts.kind == "dit":
        return "latent positions"
    if facts.image_net is not None:
        return "samples of sound"
    return "tokens" if facts.kind in ("decoder", "encoder", "encdec") else ""


def _span_of_inputs(readings: Sequence[ModelFacts], asked: str) -> str:
    """From the smallest to the largest input that the interval is for."""
    sizes = {"image": "image", "seq_len": "length"}
    passes = [one.local for one in readings if one.local and asked in sizes and getattr(one.local, sizes[asked])]
    return _between([one.size_text for one in sorted(passes, key=lambda one: one.size)], "")


def _between(sizes: Sequence[str], units: str) -> str:
    ends = " to ".join(dict.fromkeys((sizes[0], sizes[-1]))) if sizes else ""
    return f"the interval is for {ends}{units}" if ends else ""


def _matters(found: Choices, name: str) -> bool:
    """Whether any value of a word changes any term: not what a decoder's loss is like, of a network without a head."""
    setup, choice = candidates.typical(found, ""), found[name]
    usual = timeline(setup)
    others = dict.fromkeys((*choice.probable, *choice.cheapest))
    return any(timeline(replace(setup, **{name: value})) != usual for value in others if value != choice.typical)


def _place(origin: Origin, reason: str) -> str:
    """Where it is, without the words that the reason repeats."""
    where = Origin("", origin.path, origin.line) if origin.text == reason else origin
    return f" ({where})" if origin.path else ""


def _is_worth_a_line(sourced: Sourced[Any], unknown: Unknown) -> bool:
    """A reason that says more than the name of the word."""
    return unknown.reason not in (NOT_GIVEN, NOT_SAID) or (unknown.reason == NOT_SAID and bool(sourced.origin.path))
