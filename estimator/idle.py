"""Options that change nothing where they stand: named, so that nobody believes them counted.

Only of what an option or a run's document says: a launch file says many things that are for other runs of its script.
A word at its neutral value (``--offload none``) asks for nothing. `tests/estimator/test_idle.py` tries every option on
every kind of run, and fails where the estimate stays the same and no line says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from estimator.contradictions import is_typed
from estimator.memory.setup import ONLINE, Setup
from estimator.memory.weights import LOW_MEMORY_OPTIMIZERS
from estimator.runconfig import RunConfig
from estimator.sourced import Unknown

NEUTRAL = {
    "dora": False, "ema": False, "compile": False, "optimizer_in_backward": False,
    "bucket_view": False, "sharded_load": False, "offload": "none", "grad_checkpointing": "none", "sharding": "none",
    "objective": "sft", "loss_impl": "full", "companion_params": 0, "grad_accum": 1, "tp_degree": 1, "pp_degree": 1,
    "cp_degree": 1, "sp_degree": 1, "ep_degree": 1, "num_gpus": 1, "nodes": 1, "frames": 1, "engine_share": 0.0,
}  # fmt: skip
"""Values that ask for nothing."""
_TRAINING = (
    "optimizer_impl", "lora_rank", "lora_targets", "dora", "trained_layers", "grad_accum", "objective", "ema",
    "bucket_view", "optimizer_in_backward",
)  # fmt: skip
_TEXT = ("decoder", "encoder", "encdec")


@dataclass(frozen=True, slots=True)
class _Case:
    """One run, with the words as decided."""

    run: RunConfig
    setup: Setup

    def says(self, name: str) -> Any:
        """What is written; None where nothing is."""
        value = getattr(self.run, name).value
        return None if isinstance(value, Unknown) else value

    @property
    def kind(self) -> str:
        return self.setup.facts.kind

    @property
    def has_volume(self) -> bool:
        """Whether a network of the repository reads frames, or slices."""
        return self.setup.facts.local is not None and self.setup.facts.local.kind == "volume"

    @property
    def reads(self) -> str:
        """What a network of the repository reads; empty where it is none, or reads several things."""
        net = self.says("network")
        if self.setup.facts.local is None or net is None:
            return ""
        passes = net.every_pass
        has_images, has_lengths = any(one.image for one in passes), any(one.length for one in passes)
        if has_images or has_lengths:
            return "" if has_images and has_lengths else "images" if has_images else "a sequence"
        return "features"


_Rule = tuple[tuple[str, ...], Callable[[_Case], bool], str]

_RULES: tuple[_Rule, ...] = (
    (_TRAINING, lambda case: not case.setup.is_training, "nothing is trained"),
    (("loss_impl",), lambda case: case.setup.task == "generate", "nothing is trained"),
    (("sharding",), lambda case: not case.setup.is_training and not case.setup.is_gathered and
     case.says("sharding") in ("ddp", "zero1", "zero2"), "only ZeRO-3 and FSDP spread what is not trained"),
    (("kv_cache_dtype",), lambda case: case.setup.task != "generate" and case.setup.objective not in ONLINE,
     "no cache of keys and values is held"),
    (("max_context",), lambda case: case.setup.is_training, "nothing is generated (--mode generate)"),
    (("packing",), lambda case: not case.setup.is_training and case.says("max_context") is not None,
     "the context is what is counted"),
    (("seq_len",), lambda case: not case.setup.is_training and
     0 < (case.says("max_context") or 0) <= case.says("seq_len"), "it leaves no room for an answer in the context"),
    (("packing", "max_context", "loss_impl", "kv_cache_dtype"), lambda case: case.kind in ("image", "vit", "dit"),
     "the model reads no text"),
    (("image_size",), lambda case: case.reads == "a sequence", "the network reads a sequence (--seq-len)"),
    (("seq_len",), lambda case: case.reads == "images", "the network reads images (--image-size)"),
    (("image_size", "seq_len"), lambda case: case.reads == "features", "what the network reads has one size"),
    (("seq_len",), lambda case: case.kind == "vit", "the model reads an image (--image-size)"),
    (("seq_len",), lambda case: case.setup.facts.pixel_net is not None,
     "the model reads latent pixels (--image-size, --frames)"),
    (("image_size",), lambda case: case.kind in _TEXT and case.setup.facts.tower is None, "the model reads no image"),
    (("image_size",), lambda case: case.setup.facts.tower is not None,
     "pictures are counted at the size that the model's image encoder was trained on"),
    (("frames",), lambda case: not case.has_volume and
     (case.setup.facts.pixel_net is None or not case.setup.facts.pixel_net.stride),
     "the model makes no video that we know of"),
    (("loss_impl",), lambda case: not case.setup.facts.has_head, "the model makes no logits over a vocabulary"),
    (("attention",), lambda case: not case.setup.facts.has_attention, "the model has no attention"),
    (("attention",), lambda case: case.setup.facts.relative_span > 0, "its attention has one implementation, eager"),
    (("attention",), lambda case: case.setup.facts.local is not None, "the repository's own code decides it"),
    (("attention",), lambda case: case.setup.facts.pixel_net is not None and not case.setup.facts.pixel_net.scores,
     "its attention was traced in one implementation"),
    (("compile",), lambda case: case.kind in ("image", "dit"),
     "what torch.compile saves in such a network is not known"),
    (("compile",), lambda case: not case.setup.is_training, "what torch.compile saves without a backward is not known"),
    (("cp_degree", "sp_degree"), lambda case: case.kind == "image", "the network reads no sequence"),
    (("sp_degree",), lambda case: case.setup.tp == 1,
     "there is no tensor parallelism that it would go with (sequences split over ranks: --context-parallel)"),
    (("ep_degree",), lambda case: case.setup.facts.experts > 0 and case.setup.sharding in ("fsdp", "zero3"),
     "FSDP and ZeRO-3 spread the experts over all ranks"),
    (("ep_degree",), lambda case: case.setup.facts.is_guessed and not case.setup.facts.experts,
     "the shape that stands for the model has no experts"),
    (("lora_rank", "dora"), lambda case: case.setup.method not in ("lora", "qlora") and
     case.setup.optimizer != "galore", "no adapters of low rank are trained (--method lora)"),
    (("lora_targets",), lambda case: case.setup.method == "freeze", "no adapters are trained (--method lora)"),
    (("trained_layers",), lambda case: case.setup.method != "freeze",
     "the rest is not frozen (--method freeze)"),
    (("optimizer_impl",), lambda case: case.setup.offload in ("optimizer", "both"), "the step runs on the host"),
    (("optimizer_impl",), lambda case: case.setup.steps_in_backward, "the step runs inside backward"),
    (("optimizer_impl",), lambda case: case.setup.optimizer in LOW_MEMORY_OPTIMIZERS,
     "it says nothing about this optimizer, which makes no list of all parameters"),
    (("optimizer_impl",), lambda case: case.setup.has_master, "the step works on fp32 masters, partition by partition"),
    (("bucket_view",), lambda case: case.setup.sharding != "ddp" or case.setup.replicas == 1,
     "no DDP buckets are held"),
    (("sharded_load",), lambda case: not case.setup.is_gathered, "the weights are not sharded"),
)  # fmt: skip
"""Words, when they change nothing, and why. The first that holds speaks."""


def idle_words(run: RunConfig, setup: Setup) -> Iterator[str]:
    """A sentence for each reason, with the words that it is about."""
    case, found = _Case(run, setup), defaultdict[str, list[str]](list)
    for name, sourced in run.words().items():
        value = sourced.value
        if not is_typed(sourced) or (name in NEUTRAL and NEUTRAL[name] == value):
            continue
        if why := next((why for names, holds, why in _RULES if name in names and holds(case)), None):
            found[why].append(f"{name}{_shown(value)}")
    for why, words in found.items():
        yield f"{' and '.join(words)} {'is' if len(words) == 1 else 'are'} not counted: {why}"


def _shown(value: object) -> str:
    if value is True:
        return ""
    if not isinstance(value, tuple):
        return f" {value}"
    return f" {('x' if isinstance(value[0], int) else ', ').join(map(str, value))}"
