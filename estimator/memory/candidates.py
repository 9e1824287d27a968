"""From a run config to decided runs: what an unknown or absent word plausibly is.

Three cases, never mixed. A *known* word has one value. An *absent* word (nobody wrote it) has the library's default,
except where there is none. An *unknown* word (somebody wrote it and we cannot read it) may be anything listed:
`probable` values span the interval, `cheapest` ones join them for the floor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Any

from estimator.memory.setup import ADAPTERS, Setup
from estimator.models import images
from estimator.models.facts import ModelFacts
from estimator.models.pixels import PixelNet
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Sourced, Unknown

_MLP_MODULE = re.compile(r"all|gate|up_proj|down_proj|fc|dense|mlp|w[123]\b")
"""Module names that mean the feed-forward part gets adapters too."""


_USUAL_PATCHES = (16, 14, 32)  # sides of a ViT's patches, where neither the table nor the id says which


@dataclass(frozen=True, slots=True)
class Choice:
    """What one word may be. `typical` is the point's; `is_open` says that nobody knows and the answer says so;
    `is_even` that the probable values are about as likely as the typical one, so the point lies between them."""

    typical: Any
    probable: tuple[Any, ...] = ()
    cheapest: tuple[Any, ...] = ()
    is_open: bool = False
    is_even: bool = False


Choices = dict[str, Choice]


def _choose(sourced: Sourced[Any], absent: Choice, unknown: Choice) -> Choice:
    if sourced.is_known:
        return Choice(sourced.value)
    if sourced is UNSET or sourced == UNSET:
        return absent
    assert isinstance(sourced.value, Unknown)
    if sourced.value.plausible:
        options = tuple(sourced.value.plausible)
        return Choice(options[-1], options, options, True)
    return replace(unknown, is_open=True)


def _fixed(value: Any) -> Choice:
    return Choice(value)


def _open(typical: Any, *others: Any, cheapest: tuple[Any, ...] = ()) -> Choice:
    return Choice(typical, (typical, *others), cheapest, True)


def choices(run: RunConfig, readings: tuple[ModelFacts, ...]) -> Choices:
    """What every word of the run may be, with the models it may be about."""
    task = _task(run)
    if task == "generate" and readings[0].kind == "dit":  # every denoising step is a forward pass without a cache
        task = "infer"
    is_training = task == "train"
    method = _method(run, is_training)
    world = _world(run)
    found: Choices = {
        "facts": Choice(readings[0], readings, (), len(readings) > 1),
        "task": _fixed(task),
        "method": _possible_methods(run, method, is_training),
        **_shape(run, readings[0], is_training),
        **_numbers(run, is_training, method, readings[0]),
        "quantization": _quantization(run, readings[0], is_training, method),
        **_parallel(run, world, readings[0], is_training=is_training),
        **_switches(run, is_training, method),
        "keeps_gradients": _gradients_kept(run, readings[0], method) if is_training else _fixed(False),
        "is_activation_fused": _fixed(False),
        "loads_whole": _fixed(False),
        "repeats_keys": _fixed(False),
        "keeps_quantized_inputs": _fixed(False),
        "stores_fp8": _fixed(False),
        "keeps_scores": _fixed(False),
    }
    if readings[0].local is not None:  # the repository's own forward pass says how
        found |= {"attention": _fixed("eager"), "shifts_logits": _fixed(False), "loss_impl": _fixed("full")}
    if (image := readings[0].image_net) is not None:
        found["attention"] = _fixed("eager")  # there is none
        if is_training and images.is_of_its_time(image):  # frameworks that most people run with a torch of their time
            found["keeps_scores"] = Choice(True, (True, False))
    if (net := readings[0].pixel_net) is not None and net.scores and not run.attention.is_known:
        found["attention"] = replace(_open("sdpa", "eager", cheapest=("flash",)), is_even=True)  # before torch 2: eager
    if readings[0].caps_scores and found["attention"].typical == "sdpa":
        found["attention"] = Choice("eager", ("eager",), ("flash",))  # scaled_dot_product_attention has no cap
    if is_training and any(facts.activation == "gelu_new" for facts in readings):
        found["is_activation_fused"] = Choice(
            False, (False, True), is_even=True
        )  # transformers writes it out, others do not
    likely = typical(found, "")
    found["loads_whole"] = _loading(run, likely)
    return {**found, **_implementations(likely)}


def _implementations(likely: Setup) -> Choices:
    """What versions of the same library do differently, where it matters. scaled_dot_product_attention takes grouped
    keys since torch 2.5; before, and with a mask still, transformers repeats them. FlashAttention always took them."""
    facts = likely.facts
    is_grouped = likely.is_training and likely.attention == "sdpa" and facts.kv_width < facts.q_width
    is_four_bit = likely.is_training and (likely.quantization or "").startswith("nf4")
    undecided, settled = Choice(False, (False, True), is_even=True), _fixed(False)
    return {
        "repeats_keys": undecided if is_grouped else settled,
        "keeps_quantized_inputs": undecided if is_four_bit else settled,
        "stores_fp8": undecided if likely.is_training and likely.is_frozen and likely.precision == "fp8" else settled,
    }


def _gradients_kept(run: RunConfig, facts: ModelFacts, method: str) -> Choice:
    """Whether gradients of the step before are alive during forward. `zero_grad` between forward and backward keeps
    them (mmcv's OptimizerHook, detectron2's SimpleTrainer), and before torch 2.0 it zeroed them wherever it was
    called; after the step it frees them (transformers' Trainer). Accumulation keeps them anyway."""
    if run.grad_accum.is_known and run.grad_accum.value != 1:
        return _fixed(False)
    if facts.image_net is not None:
        return Choice(True, (True, False))
    return Choice(False, (False, True), is_even=method == "full")


def _loading(run: RunConfig, likely: Setup) -> Choice:
    """FSDP shards what is on the device: a model moved there first is whole for a moment. DeepSpeed partitions
    parameters as they are made (zero.Init); models beyond any device are loaded in shards."""
    if not isinstance(run.sharded_load.value, Unknown):
        return _fixed(not run.sharded_load.value)
    is_usual = likely.is_training and likely.sharding == "fsdp" and likely.shards > 1 and likely.offload == "none"
    return Choice(False, (False, True), (), True, is_even=True) if is_usual else _fixed(False)


def _task(run: RunConfig) -> str:
    if not isinstance(run.task.value, Unknown):
        return run.task.value
    return "generate" if run.max_context.is_known else "train"


def _method(run: RunConfig, is_training: bool) -> str:
    if not is_training:
        return "full"
    if not isinstance(run.method.value, Unknown):
        return run.method.value
    if run.quantization.is_known:
        return "qlora"
    return "lora" if run.lora_rank.is_known or run.lora_targets.is_known else "full"


def _possible_methods(run: RunConfig, method: str, is_training: bool) -> Choice:
    """Where a word about the method or the quantisation is there and cannot be read, adapters are possible."""
    is_unclear = any(not word.is_known and word != UNSET for word in (run.method, run.quantization))
    if is_training and is_unclear and not run.method.is_known and method == "full":
        return Choice(method, (method,), ("lora", "qlora"), True)
    return _fixed(method)


def _world(run: RunConfig) -> int:
    gpus = 1 if isinstance(run.num_gpus.value, Unknown) else run.num_gpus.value
    nodes = 1 if isinstance(run.nodes.value, Unknown) else run.nodes.value
    return gpus * nodes


def _shape(run: RunConfig, facts: ModelFacts, is_training: bool) -> Choices:
    batch = _open(1, 4, cheapest=(1,)) if is_training else _open(1, cheapest=(1,))
    limit = facts.max_position or 4096
    lengths = sorted({min(limit, length) for length in ((512, 1024, 2048) if is_training else (512, 2048, 4096))})
    length = _open(lengths[len(lengths) // 2 if is_training else 0], *lengths, cheapest=(min(limit, 64),))
    if facts.image_net is not None:
        return {
            **_image(run, facts.image_net),
            "micro_batch": _choose(run.micro_batch, batch, batch),
            "seq_len": _fixed(1),
        }
    if facts.local is not None:
        return {"micro_batch": _choose(run.micro_batch, batch, batch), "seq_len": _fixed(1)}
    if facts.kind == "dit":
        return {**_latent(run, facts), "micro_batch": _choose(run.micro_batch, batch, batch)}
    if facts.kind == "vit":
        length = _image_tokens(run, facts)
    elif not is_training and run.max_context.is_known:
        length = Choice(run.max_context.value)
    else:
        length = _choose(run.seq_len, length, length)
    return {"micro_batch": _choose(run.micro_batch, batch, batch), "seq_len": length}


def _image(run: RunConfig, net: images.ImageNet) -> Choices:
    """Pixels of one image, and classes: the id names neither. Without a size, ImageNet's, COCO's or a camera's."""
    usual = {
        "classify": ((224, 224),),
        "detect": ((800, 1333), (640, 640), (900, 1600)),
        "segment": ((512, 512), (512, 1024)),
    }[net.task]
    if not isinstance(run.image_size.value, Unknown):
        sizes: Choice = _fixed(images.padded(net, *run.image_size.value))
        classes = images.classes_of(net, sizes.typical)
    else:
        sizes = _open(*usual, cheapest=((64, 64),))
        classes = images.classes_of(net)
    return {"image": sizes, "classes": Choice(classes[0], classes, (2,), len(classes) > 1, is_even=len(classes) > 1)}


_LATENT_SIDE = 16  # pixels per token: an autoencoder divides by eight, patches by two (SD3, FLUX, CogVideoX)
_PROMPT_TOKENS = 512
_TEXT_ENCODER = 4_900_000_000  # T5-XXL, which most transformers of this size read; smaller ones read CLIP
_SMALL_ENCODERS = 350_000_000  # CLIP's text encoders and the autoencoder


def _latent(run: RunConfig, facts: ModelFacts) -> Choices:
    """Tokens of a latent image or video beside the prompt's, and the frozen models on the same device: an id names
    neither."""
    net = facts.pixel_net
    if net is not None:
        return _positions(run, net)
    if run.seq_len.is_known:
        length = Choice(run.seq_len.value)
    elif not isinstance(run.image_size.value, Unknown):
        height, width = run.image_size.value
        tokens = max(height // _LATENT_SIDE, 1) * max(width // _LATENT_SIDE, 1) + _PROMPT_TOKENS
        length = _open(tokens, 13 * tokens, cheapest=(tokens - _PROMPT_TOKENS,))
    else:
        length = _open(4096, 1024, 17_776, cheapest=(64,))
    beside = _TEXT_ENCODER if facts.params > 1_500_000_000 else _SMALL_ENCODERS
    return {"seq_len": length, "companions": _open(0, beside)}


_USUAL_IMAGES = ((512, 512), (1024, 1024))
_USUAL_VIDEOS = ((512, 768), (480, 720), (480, 832))  # of LTX-Video, CogVideoX and Wan, in their model cards
_USUAL_FRAMES = (49, 81)  # of CogVideoX and Wan


def _positions(run: RunConfig, net: PixelNet) -> Choices:
    """Latent positions of one sample, and the text encoder and autoencoder beside: held by a pipeline, and by a
    training that has not computed their results before."""
    sizes: tuple[tuple[int, int], ...] = _USUAL_VIDEOS if net.stride else _USUAL_IMAGES
    frames: tuple[int, ...] = _USUAL_FRAMES if net.stride else (1,)
    if not isinstance(run.image_size.value, Unknown):
        sizes = (run.image_size.value,)
    if not isinstance(run.frames.value, Unknown):
        frames = (run.frames.value,)
    counts = [net.positions(*size, count) for size in sizes for count in frames]
    counts = list(dict.fromkeys(counts))
    length = _fixed(counts[0]) if len(counts) == 1 else _open(*counts, cheapest=(net.positions(256, 256, 1),))
    beside = net.text + net.coder
    if _task(run) == "train":
        return {"seq_len": length, "companions": _open(0, net.coder, beside, cheapest=(0,))}
    return {"seq_len": length, "companions": _open(beside, net.text, 0, cheapest=(0,))}


def _image_tokens(run: RunConfig, facts: ModelFacts) -> Choice:
    """Patches of the image and one class token; without a size, the usual 224 or what the model was trained on."""
    patches = (facts.patch,) if facts.patch else _USUAL_PATCHES
    if not isinstance(run.image_size.value, Unknown):
        height, width = run.image_size.value
        counts = [max((height // patch) * (width // patch), 1) + 1 for patch in patches]
    else:
        sides = dict.fromkeys((min(facts.image or 224, 224), facts.image or 224))
        counts = [max(side // patch, 1) ** 2 + 1 for side in sides for patch in patches]
    return _fixed(counts[0]) if run.image_size.is_known and facts.patch else _open(*counts)


def _numbers(run: RunConfig, is_training: bool, method: str, facts: ModelFacts) -> Choices:
    is_adapter, is_tied = method in ADAPTERS, facts.is_tied and facts.kind == "decoder"
    if not is_training or is_adapter:
        precision = _open("pure-bf16", cheapest=("fp8",) if not is_training else ())
    else:
        precision = _open("amp-bf16", "pure-bf16", "fp32")
        if (
            facts.kind == "dit"
        ):  # whose scripts hold the trained network in fp32 (diffusers) or in 16 bits (finetrainers)
            precision = replace(precision, probable=("amp-bf16", "pure-bf16"), is_even=True)
    optimizer = _open("adamw", cheapest=("sgd",)) if is_training else _fixed("sgd")
    kv = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
    kv_dtype = run.kv_cache_dtype.value
    kv_bytes = 2.0 if isinstance(kv_dtype, Unknown) else kv[kv_dtype]
    return {
        "precision": _choose(run.precision, precision, precision),
        "optimizer": _choose(run.optimizer, optimizer, replace(optimizer, cheapest=("sgd", "lomo"))),
        "lora_rank": _choose(run.lora_rank, _open(16, 8, 64), _open(16, 8, 64)) if is_adapter else _fixed(8),
        "lora_targets": _targets(run, method) if is_adapter else _fixed("attention"),
        "kv_bytes": _fixed(kv_bytes),
        "has_foreach_step": Choice(False, (False, True)) if is_training else _fixed(False),
        "adapter_copy": Choice(3, (3, 5, 0)) if method in ("lora", "qlora") else _fixed(0),
        "widens_adapters": Choice(True, (True, False), (False,)) if method in ("lora", "qlora") else _fixed(False),
        "unties": Choice(False, (False, True)) if is_training and is_tied else _fixed(False),
        "widens_logits": Choice(True, (True, False)) if is_training else _fixed(True),
        "shifts_logits": Choice(False, (False, True), is_even=True) if is_training else _fixed(False),
        "prompt_share": Choice(0.0, (0.0, 1.0)) if run.max_context.is_known or not is_training else _fixed(1.0),
    }


def _quantization(run: RunConfig, facts: ModelFacts, is_training: bool, method: str) -> Choice:
    """What nobody wrote is what the weights are stored in; quantised weights cannot be trained, so a full training of
    them, and a GPU without their format, works on a 16-bit copy."""
    if method == "qlora" and not facts.stored_as:
        absent = _fixed("nf4")
    elif facts.stored_as and (not is_training or method != "full"):
        absent = _open(facts.stored_as, None)
    else:
        absent = _fixed(None)
    unknown = _open(absent.typical, *absent.probable, cheapest=("nf4",))
    chosen = _choose(run.quantization, absent, unknown)
    category = "" if isinstance(run.category.value, Unknown) else run.category.value
    has_experts = facts.experts > 0 or (facts.is_guessed and category.startswith("moe"))
    if is_training and has_experts and chosen.typical in ("nf4", "int8"):
        # bitsandbytes quantises nn.Linear; transformers 5 holds all experts of a layer in one parameter
        return Choice(chosen.typical, (chosen.typical, None), chosen.cheapest, chosen.is_open)
    if chosen.typical == "nf4" and not chosen.is_open:  # bitsandbytes quantises the scales only where it is asked to
        return Choice("nf4", ("nf4", "nf4-plain"), is_even=True)
    return chosen


def _targets(run: RunConfig, method: str) -> Choice:
    """Queries and values for LoRA (its paper, section 4.2, and the default of peft); every linear layer for QLoRA (its
    paper, section 4)."""
    if method == "adapter-v2":  # a scale and a bias behind every linear layer (LLaMA-Adapter v2, section 3.2)
        return _fixed("all-linear")
    targets = run.lora_targets.value
    if isinstance(targets, Unknown):
        if method == "other":  # prompts beside the layers, or a scale behind each: nothing says which
            return replace(_open("attention", "all-linear"), is_even=True)
        return _open("all-linear", "attention") if method == "qlora" else _open("attention", "all-linear")
    is_wide = any(_MLP_MODULE.search(name) for name in targets)
    return _fixed("all-linear" if is_wide else "attention")


def _degree(sourced: Sourced[int]) -> int:
    return 1 if isinstance(sourced.value, Unknown) else sourced.value


def _parallel(run: RunConfig, world: int, facts: ModelFacts, *, is_training: bool) -> Choices:
    tp, pp, cp = _degree(run.tp_degree), _degree(run.pp_degree), _degree(run.cp_degree)
    world = max(world, tp * pp * cp, _degree(run.sharding_degree))
    replicas = max(world // (tp * pp * cp), 1)
    shards = _degree(run.sharding_degree) if run.sharding_degree.is_known else replicas
    guess = _fixed("none") if max(replicas, shards) == 1 else _open("ddp", cheapest=("zero1", "zero2", "fsdp"))
    return {
        "tp": _fixed(tp),
        "pp": _fixed(pp),
        "cp": _fixed(cp),
        "sp": _sequence_parallel(run, tp),
        "replicas": _fixed(replicas),
        "shards": _fixed(shards),
        "sharding": _choose(run.sharding, guess, guess),
        "grad_accum": _choose(run.grad_accum, _fixed(1), _open(1, 2)),
        "ep": _expert_parallel(run, facts, replicas),
        "offload": _offload(run, is_training),
    }


def _offload(run: RunConfig, is_training: bool) -> Choice:
    """``cpu`` alone is the optimizer's in DeepSpeed's habit; FSDP has one offload, of parameters and all that belongs
    to them; and where nothing is trained only the weights can be meant."""
    chosen = _choose(run.offload, _fixed("none"), _open("none", cheapest=("optimizer", "both")))
    if chosen.typical != "optimizer":
        return chosen
    if not is_training:
        return _fixed("params")
    is_fsdp = run.sharding.is_known and run.sharding.value == "fsdp"
    return Choice("both", ("both", "optimizer"), ("both",)) if is_fsdp else chosen


def _expert_parallel(run: RunConfig, facts: ModelFacts, replicas: int) -> Choice:
    """Over how many ranks a layer's experts are spread. FSDP and ZeRO-3 spread every parameter over all ranks, so it
    changes nothing there; where nobody says it, it may be as many ranks as there are."""
    most = min(facts.experts, replicas)
    is_spread = run.sharding.is_known and run.sharding.value in ("fsdp", "zero3")
    if most < 2 or is_spread:
        return _fixed(1)
    return _fixed(min(_degree(run.ep_degree), most)) if run.ep_degree.is_known else Choice(1, (1,), (most,))


def _sequence_parallel(run: RunConfig, tp: int) -> Choice:
    """Over how many ranks norms and residual stream are spread: over those of the tensor parallelism where FSDP goes
    with it (torchtitan), in Megatron where it is asked to (``--sequence-parallel``), in transformers never."""
    if tp == 1 or run.sp_degree.is_known:
        return _fixed(tp if _degree(run.sp_degree) > 1 else 1)
    is_titan = run.sharding.is_known and run.sharding.value == "fsdp"
    return Choice(tp, (tp,) if is_titan else (tp, 1), (tp,), is_even=not is_titan)


def _switches(run: RunConfig, is_training: bool, method: str) -> Choices:
    checkpointing = Choice("none", ("none", "full"), ("full", "selective"), True) if is_training else _fixed("none")
    attention = _open("sdpa", cheapest=("flash",))
    loss_impl = Choice("full", ("full",), ("fused",))
    return {
        "checkpointing": _choose(run.grad_checkpointing, _fixed("none"), checkpointing),
        "attention": _choose(run.attention, attention, attention),
        "is_compiled": _choose(run.compile, _fixed(False), Choice(False, (False,), (True,), False)),
        "steps_in_backward": _choose(run.optimizer_in_backward, _fixed(False), Choice(False, (False,), (True,))),
        "loss_impl": _choose(run.loss_impl, loss_impl, loss_impl),
    }


def typical(found: Choices, architecture: str) -> Setup:
    """The likeliest reading."""
    return Setup(architecture=architecture, **{name: choice.typical for name, choice in found.items()})


Size = Callable[[Setup], int]
_MAX_PASSES = 4


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of the plausible readings in bytes, and how far they reach to each side as natural logarithms."""

    middle: float
    down: float
    up: float


def spread(start: Setup, found: Choices, size: Size) -> Spread:
    """How far the undecided words move the size, one word at a time.

    Nobody's ignorance of one word says anything about another, so they do not all sit at their worst at once: their
    effects are factors, and the logarithms add as independent errors do, by squares.
    """
    base, values = size(start), {name: getattr(start, name) for name in Setup.__dataclass_fields__}
    shift = down = up = 0.0
    for name, choice in found.items():
        others = [value for value in choice.probable if value != values[name]]
        effects = [log(size(Setup(**{**values, name: value})) / base) for value in others]
        less, more = max(0.0, -min(effects, default=0.0)), max(0.0, *effects, 0.0)
        if choice.is_even:
            shift += (more - less) / 2
            less = more = (more + less) / 2
        down, up = down + less**2, up + more**2
    return Spread(base * exp(shift), sqrt(down), sqrt(up))


def cheapest(start: Setup, found: Choices, size: Size) -> Setup:
    """The reading with the least bytes: one word after the other until nothing improves.

    Words can hide each other (offload hides what sharding saves), so it is also searched from the reading in which
    every open word is at its cheapest.
    """
    all_cheap = {name: item.cheapest[-1] for name, item in found.items() if item.cheapest}
    return min((_climb(one, found, size) for one in (start, replace(start, **all_cheap))), key=size)


def _climb(start: Setup, found: Choices, size: Size) -> Setup:
    best, best_size = start, size(start)
    values = {name: getattr(start, name) for name in Setup.__dataclass_fields__}
    alternatives = list(_alternatives(found))
    for _ in range(_MAX_PASSES):
        before = best
        for name, value in alternatives:
            if values[name] == value:
                continue
            candidate = Setup(**{**values, name: value})  # dataclasses.replace takes three times as long
            candidate_size = size(candidate)
            if candidate_size < best_size:
                best, best_size, values[name] = candidate, candidate_size, value
        if best is before:
            break
    return best


def _alternatives(found: Choices) -> Iterator[tuple[str, Any]]:
    for name, choice in found.items():
        for value in (*choice.probable, *choice.cheapest):
            yield name, value
