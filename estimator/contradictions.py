"""Words of a run that cannot all be true. The number stands for a run like it that can, so the answer names them.

What no run can be (`is_impossible`) is an error where an option says it: who typed it can type it right. In a file it
stays a note, for a file may set right elsewhere what we read of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from analyzer.errors import InputError
from estimator.hardware import Card, find
from estimator.memory.extents import SECOND, counts_samples
from estimator.models import pixels
from estimator.models.choose import ModelChoice
from estimator.models.facts import ModelFacts
from estimator.models.known import find_model
from estimator.models.nets import TracedNet
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Sourced, Unknown
from estimator.tables import rows
from estimator.units import GIB

_T = TypeVar("_T")
_SHARDS = ("zero1", "zero2", "zero3", "fsdp")
_TOO_FAR = 2
"""A given size and a listed one that differ by more are of different models; names and their sizes round."""
_OTHER_SIZE = 0.15
"""Labels, usable memory and a driver's reserve differ by less of one card's size."""
_BF16 = ("amp-bf16", "pure-bf16", "bf16-master")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A sentence, the words that it is about, and whether a run of them would only fail."""

    text: str
    words: tuple[str, ...]
    is_impossible: bool = False

    def __str__(self) -> str:
        return f"cannot run: {self.text}" if self.is_impossible else self.text


def contradictions(run: RunConfig, model: ModelChoice, cards: Sequence[Card] = ()) -> list[Contradiction]:
    """Of words that are written, never of assumed ones."""
    found = [*_of_ranks(run), *_of_training(run), *_of_cards(run, cards), *_of_flash(run, cards)]
    found += _of_memory(run)
    return [*found, *_of_size(run, model), *(_of_model(run, model.readings[0]) if model.readings else ())]


def refuse_impossible(run: RunConfig, found: Sequence[Contradiction]) -> None:
    """Raises `InputError` for what an option says and no run can be."""
    for item in found:
        if item.is_impossible and any(is_typed(getattr(run, name)) for name in item.words):
            raise InputError(str(item))


def is_typed(sourced: Sourced[object]) -> bool:
    """Whether an option says it, or a document that holds nothing but the run."""
    origin = sourced.origin
    return sourced.is_known and (origin.text.startswith("--") or bool(origin.path and not origin.text))


def _of_training(run: RunConfig) -> Iterator[Contradiction]:
    """How a run trains, or that it does not."""
    if _written(run.task) in ("infer", "generate"):
        asked = (("optimizer", run.optimizer), ("grad_checkpointing", run.grad_checkpointing), ("method", run.method))
        for name, word in asked:
            if _written(word) not in (None, "none"):
                yield Contradiction(f"{name} {_written(word)} is given, and nothing is trained", (name, "task"))
        if _written(run.offload) == "optimizer":
            text = "offload optimizer is given, and nothing is trained: it is taken for the weights'"
            yield Contradiction(text, ("offload", "task"))
    else:
        yield from _of_method(run)
        sharding = _written(run.sharding)
        if _written(run.offload) in ("params", "both") and sharding in ("none", "ddp", "zero1", "zero2"):
            text = f"parameters are kept in host memory by ZeRO-3 and FSDP alone, and the sharding is {sharding}"
            yield Contradiction(text, ("offload", "sharding"))
    yield from _of_steps(run)
    for target in _written(run.lora_targets) or ():
        words = {part for part in re.split(r"[^a-z0-9_]+", target.lower().replace("-", "_")) if part}
        if words and not any(word in _modules() or word.startswith("all_") for word in words):
            text = f"{target[:40]!r} is no module name of a transformer that we know"
            yield Contradiction(text, ("lora_targets",))


def _of_method(run: RunConfig) -> Iterator[Contradiction]:
    """A full training of what is frozen, or beside adapters."""
    if _written(run.method) != "full":
        return
    stored = _written(run.quantization)
    if stored is not None and stored != "fp8":
        text = f"weights stored as {stored} are frozen, and the method is full: no run is both"
        yield Contradiction(text, ("quantization", "method"), is_impossible=stored != "mxfp4")
    has_rank = run.lora_rank.is_known and run.optimizer.value != "galore"  # its projections have that rank
    if has_rank or run.lora_targets.is_known or _written(run.dora):
        text = "adapters are described, and the method is full: they are not counted"
        yield Contradiction(text, ("lora_rank", "lora_targets", "dora", "method"))


def _of_steps(run: RunConfig) -> Iterator[Contradiction]:
    """Steps inside backward, which consume what accumulation would add to."""
    steps = _written(run.grad_accum) or 1
    if steps == 1:
        return
    if _written(run.optimizer_in_backward):
        text = f"an optimizer that steps inside backward cannot accumulate over {steps} micro-batches"
        yield Contradiction(text, ("optimizer_in_backward", "grad_accum"), is_impossible=True)
    elif _written(run.optimizer) == "lomo":
        text = f"LOMO steps inside backward and cannot accumulate over {steps} micro-batches"
        yield Contradiction(text, ("optimizer", "grad_accum"), is_impossible=True)


@cache
def _modules() -> frozenset[str]:
    """What published transformers and diffusion networks call their layers, and the parts these are in."""
    return frozenset(row["name"] for row in rows("modules")) | pixels.module_names()


def _of_cards(run: RunConfig, cards: Sequence[Card]) -> Iterator[Contradiction]:
    """What a card computes in, and how much it holds."""
    precision = _written(run.precision)
    is_trained = _written(run.task) in (None, "train") and not run.max_context.is_known  # else fp8 may be storage alone
    for card in cards:
        if precision == "fp8" and not is_trained:
            continue
        if (precision in _BF16 and not card.has_bf16) or (precision == "fp8" and not card.has_fp8):
            text = f"{card.label} has no arithmetic in {'fp8' if precision == 'fp8' else 'bf16'}"
            yield Contradiction(text, ("precision", "gpu"))


def _of_memory(run: RunConfig) -> Iterator[Contradiction]:
    """A size that no card of the name has."""
    size, names = _written(run.gpu_memory), _written(run.gpu)
    if size is None or names is None or len(names) != 1:
        return
    try:
        sizes = [card.usable_bytes for card in find(names[0]) if card.usable_bytes]
    except InputError:
        return
    if sizes and all(abs(one / size - 1) > _OTHER_SIZE for one in sizes):
        listed = " or ".join(f"{one / GIB:.1f}" for one in sorted(set(sizes)))
        text = f"{names[0]} has {listed} GiB; {size / GIB:.4g} GiB are given, and counted"
        yield Contradiction(text, ("gpu_memory", "gpu"))


def _of_flash(run: RunConfig, cards: Sequence[Card]) -> Iterator[Contradiction]:
    """FlashAttention 2 by its name: the word stands for xformers and flex attention too, which run anywhere."""
    if _written(run.attention) != "flash" or "flash" not in run.attention.origin.text:
        return
    if _written(run.precision) == "fp32":
        text = "FlashAttention computes in 16 bits alone, and the precision is fp32"
        yield Contradiction(text, ("attention", "precision"))
    for card in cards:
        if card.name.startswith("NVIDIA") and not card.has_bf16:
            yield Contradiction(f"FlashAttention 2 does not run on {card.label}", ("attention", "gpu"))


def _of_size(run: RunConfig, model: ModelChoice) -> Iterator[Contradiction]:
    """A size beside the name of a model that has another one."""
    given = _written(run.params)
    if not (given and model.id and model.readings) or model.readings[0].is_guessed:
        return
    listed = find_model(model.id) or model.readings[0]
    if not 1 / _TOO_FAR < given / listed.params < _TOO_FAR:
        which = "given, and counted" if model.params == given else "given, and not counted"
        text = f"{model.id} has {_count(listed.params)} parameters; {_count(given)} are {which}"
        yield Contradiction(text, ("params", "model"))


def _count(params: int) -> str:
    return f"{params / 1e9:.3g}B" if params >= 10**8 else f"{params / 1e6:.3g}M" if params >= 10**6 else f"{params:,}"


def _of_ranks(run: RunConfig) -> Iterator[Contradiction]:
    """How ranks are divided, where somebody wrote how many there are."""
    degrees = {"tensor": run.tp_degree, "pipeline": run.pp_degree, "context": run.cp_degree}
    known = {name: value for name, sourced in degrees.items() if (value := _written(sourced)) and value > 1}
    world = _world(run)
    if world is None:
        return
    gpus = "1 GPU is" if world == 1 else f"{world} GPUs are"
    ways = 1
    for degree in known.values():
        ways *= degree
    words = ("num_gpus", "nodes")
    if world % ways:
        said = " x ".join(f"{degree} ({name} parallel)" for name, degree in known.items())
        asked = ("tp_degree", "pp_degree", "cp_degree", *words)
        yield Contradiction(f"{gpus} not divisible by {said}", asked, is_impossible=True)
        return
    sharding, replicas = _written(run.sharding), world // ways
    if sharding in _SHARDS and replicas == 1 and run.sharding_degree == UNSET:
        text = f"{sharding} on one {'GPU' if ways == 1 else 'rank'} shards nothing"
        yield Contradiction(text, ("sharding", *words))
    shards = _written(run.sharding_degree)
    if shards and shards > 1 and replicas % shards:
        text = f"{replicas} data-parallel ranks are not divisible by a sharding degree of {shards}"
        yield Contradiction(text, ("sharding_degree", *words), is_impossible=True)
    sequence, tensor = _written(run.sp_degree) or 1, _written(run.tp_degree) or 1
    if tensor > 1 and sequence not in (1, tensor):
        text = f"sequence parallelism is over the {tensor} tensor-parallel ranks, not over {sequence}"
        yield Contradiction(text, ("sp_degree", "tp_degree"))
    experts = _written(run.ep_degree)
    if experts and experts > 1 and world % experts:
        text = f"{gpus} not divisible by {experts} (expert parallel)"
        yield Contradiction(text, ("ep_degree", *words), is_impossible=True)


_NO_TOKENS = {
    "image": "an image network reads no sequence: its length is not counted",
    "video": "a network of video reads frames (--frames): a sequence length is not counted",
    "frames": "a network of video reads frames (--frames): a sequence length is not counted",
    "sound": f"a network of sound counts samples, {SECOND:,} a second: so short a sequence length is not counted",
    "spectrum": "a network of spectra reads them at one length: a sequence length is not counted",
}
"""What a length of tokens means to a network that reads none, by what it reads."""


def _of_model(run: RunConfig, facts: ModelFacts) -> Iterator[Contradiction]:
    """What the model cannot be divided into or read."""
    if not facts.is_guessed:
        yield from _of_division(run, facts)
    yield from _of_purpose(run, facts)
    rank = _written(run.lora_rank)
    if facts.image_net is not None and run.seq_len.is_known and not counts_samples(run, facts.image_net):
        reads = facts.image_net.reads if isinstance(facts.image_net, TracedNet) else "image"
        yield Contradiction(_NO_TOKENS.get(reads, _NO_TOKENS["image"]), ("seq_len", "model"))
    if facts.image_net is not None and (rank or _written(run.method) in ("lora", "qlora")):
        text = "adapters are counted for the projections of transformers: beside convolutions the number is rough"
        yield Contradiction(text, ("method", "lora_rank", "model"))
    ways = max(_written(run.tp_degree) or 1, _written(run.pp_degree) or 1)
    if facts.image_net is not None and ways > 1:
        text = "tensor and pipeline parallelism are counted for transformers: of convolutions the number is rough"
        yield Contradiction(text, ("tp_degree", "pp_degree", "model"))
    if (
        rank
        and facts.image_net is None
        and facts.kind in ("decoder", "encoder", "encdec", "vit")
        and rank >= facts.hidden
    ):
        text = f"adapters of rank {rank} are not smaller than the model's width of {facts.hidden}"
        yield Contradiction(text, ("lora_rank", "model"))
    yield from _of_length(run, facts)
    side = max(_written(run.image_size) or (0, 0))
    if facts.kind == "vit" and facts.image and side > facts.image:
        text = f"{side} pixels are beyond the {facts.image} that the model's positions are for: it runs only where they"
        yield Contradiction(f"{text} are interpolated", ("image_size", "model"))


def _of_purpose(run: RunConfig, facts: ModelFacts) -> Iterator[Contradiction]:
    """What the model is asked to do and does not."""
    if facts.kind not in ("encoder", "vit", "image"):
        return
    is_asked = _written(run.task) == "generate" or (run.max_context.is_known and not run.task.is_known)
    if is_asked:
        word = "task" if run.task.is_known else "max_context"
        yield Contradiction("the model generates no text: the number is that of one forward pass", (word, "model"))
    objective = _written(run.objective)
    if objective not in (None, "sft", "reward"):
        text = f"{objective} learns from answers, and the model writes none: the number is rough"
        yield Contradiction(text, ("objective", "model"))


def _of_division(run: RunConfig, facts: ModelFacts) -> Iterator[Contradiction]:
    """Heads, layers and experts over ranks."""
    tensor, pipeline, spread = _written(run.tp_degree), _written(run.pp_degree), _written(run.ep_degree)
    if tensor and facts.kind in ("decoder", "encoder") and facts.has_attention and facts.heads % tensor:
        text = f"the model's {facts.heads} attention heads are not divisible by {tensor} (tensor parallel)"
        yield Contradiction(text, ("tp_degree", "model"), is_impossible=True)
    if pipeline and pipeline > facts.layers:
        text = f"the model's {facts.layers} layers are fewer than {pipeline} pipeline stages"
        yield Contradiction(text, ("pp_degree", "model"), is_impossible=True)
    if spread and spread > 1 and not facts.experts:
        yield Contradiction(f"the model has no experts to spread over {spread} ranks", ("ep_degree", "model"))
    elif spread and facts.experts % spread:
        text = f"the model's {facts.experts} experts are not divisible by {spread} (expert parallel)"
        yield Contradiction(text, ("ep_degree", "model"), is_impossible=True)
    trained = _written(run.trained_layers)
    if trained and trained > facts.layers:
        text = f"the model's {facts.layers} layers are fewer than the {trained} that are to be trained"
        yield Contradiction(text, ("trained_layers", "model"), is_impossible=facts.kind != "image")


def _of_length(run: RunConfig, facts: ModelFacts) -> Iterator[Contradiction]:
    """More tokens than the model has positions for."""
    length, context = _written(run.seq_len) or 0, _written(run.max_context) or 0
    most, longest = longest_of(facts), max(length, context)
    if most is None or longest <= most:
        return
    word = "seq_len" if length > context else "max_context"
    if facts.has_learned_positions:
        reader = "its decoder's table" if facts.source_tokens else "the model's table"
        text = f"{longest} tokens are beyond the {most} positions of {reader}, which ends there"
        yield Contradiction(text, (word, "model"), is_impossible=True)
    else:
        text = f"{longest} tokens are beyond the {most} positions that the model was trained on; it runs all the same"
        yield Contradiction(text, (word, "model"))


def longest_of(facts: ModelFacts) -> int | None:
    """The most tokens that the model has positions for, or was trained on; None where nothing says."""
    return facts.max_position if facts.kind in ("decoder", "encoder", "encdec") else None


def _written(sourced: Sourced[_T]) -> _T | None:
    return None if isinstance(sourced.value, Unknown) else sourced.value


def _world(run: RunConfig) -> int | None:
    """All ranks, where somebody wrote how many GPUs there are; one node where nobody wrote how many."""
    gpus, nodes = _written(run.num_gpus), _written(run.nodes)
    if gpus is None or (nodes is None and run.nodes != UNSET):
        return None
    return gpus * (nodes or 1)
