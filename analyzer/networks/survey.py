"""One network, counted: its parameters, and what a forward pass keeps for the inputs that fit it.

An input is not in the constructor: it is tried. The first layer with weights says what kind of input a network takes
(pixels, tokens, features), and the sizes for which every shape on the way fits are those it can be given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from analyzer.api import ForwardPass
from analyzer.networks.attributes import held, parameters, walk
from analyzer.networks.expressions import Frame
from analyzer.networks.machine import Machine
from analyzer.networks.tape import Tape
from analyzer.networks.values import Bound, Function, Gap, Instance, Missing, Spent, Stuck, Tensor
from analyzer.networks.world import MISSING

BATCH = 7
"""A prime, so that no shape of the network divides by accident what is the batch's."""
SIDES = (224, 32, 128, 512, 1024)
"""Sides that networks of any image size are given; the likeliest first. Those of one size have another, maybe."""
OTHER_SIDES = (28, 64, 96, 256, 299, 384, 48, 40, 84, 112, 160, 227, 572, 300, 448, 640)
LENGTHS = (1024, 128, 512, 256, 4096, 64)
OTHER_LENGTHS = (2048, 100, 50, 32, 16, 8, 200, 197)
MAX_TRIES = 80
MAX_OUTPUTS = 4096
STEPS_PER_TRY = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """See `analyzer.api.Network`; places are numbers of nodes."""

    name: str
    path: str
    at: int
    params: int = 0
    trained: int = 0
    largest: int = 0
    layers: int = 0
    gaps: tuple[Gap, ...]
    passes: tuple[ForwardPass, ...] = ()
    problem: Gap | None = None


@dataclass(slots=True)
class Wanted:
    """What is known of the input: pixels of a side, tokens of a sequence."""

    image: tuple[int, int] | None = None
    length: int | None = None


def surveyed(machine: Machine, made: Instance, wanted: Wanted) -> Survey:
    """Count a module that is built."""
    found = [each for _, each in parameters(made)]
    modules = list(walk(made))
    gaps = [
        Gap(gap.reason, *((gap.path, gap.at) if gap.path else (each.cls.home.path, each.cls.node.at)))
        for each in modules for gap in each.gaps if not each.cls.home.path.startswith("<") or gap.path
    ]  # fmt: skip
    hidden = [gap for each in modules for gap in each.gaps]
    passes, stuck = _passes(machine, made, wanted)
    if hidden and not gaps:
        gaps = [Gap(hidden[0].reason, made.cls.home.path, made.cls.node.at)]
    problem = Gap(stuck.reason, *(stuck.place or ("", 0))) if not passes and stuck is not None else None
    with_weights = [
        each for each in modules
        if any(isinstance(value, Tensor) and value.is_parameter for value in each.fields.values())
    ]  # fmt: skip
    return Survey(
        name=made.cls.node.name, path=made.cls.home.path, at=made.cls.node.at,
        params=sum(each.elements for each in found),
        trained=sum(each.elements for each in found if not each.is_frozen),
        largest=max((each.elements for each in found), default=0),
        layers=len(with_weights), gaps=tuple(dict.fromkeys(gaps)), passes=tuple(passes), problem=problem,
    )  # fmt: skip


def _passes(machine: Machine, made: Instance, wanted: Wanted) -> tuple[list[ForwardPass], Stuck | None]:
    forward = _forward(machine, made)
    if isinstance(forward, Stuck):
        return [], forward
    kind, channels = _first_layer(made)
    if not kind:
        return [], Stuck("no layer with weights is in the text")
    found: list[ForwardPass] = []
    problem: Stuck | None = None
    others = _others(forward)
    for tries, given in enumerate(_inputs(kind, channels, wanted)):
        if given is None:
            if found:
                break
            continue
        if tries * len(others) >= MAX_TRIES:
            break
        made_pass = _tried(machine, made, given, others)
        if isinstance(made_pass, Stuck):
            problem = problem or made_pass
        elif isinstance(made_pass, ForwardPass):
            found.append(made_pass)
        else:
            return found, Stuck("its forward pass takes too many steps to follow")
    return found, problem


def _forward(machine: Machine, made: Instance) -> object:
    """The forward pass; a `Stuck` where there is none, or where getting at it fails."""
    try:
        found = machine.get(made, "forward")
    except Stuck as stuck:
        return stuck
    except (Spent, RecursionError):
        return Stuck("its forward pass takes too many steps to follow")
    return Stuck(f"`{made.cls.node.name}` has no `forward` in the repository") if found is MISSING else found


def _tried(
    machine: Machine, made: Instance, given: Tensor, others: Sequence[Sequence[str]]
) -> ForwardPass | Stuck | None:
    """One input, with each of what the other parameters may be; None where it takes too long."""
    problem: Stuck | None = None
    furthest = STEPS_PER_TRY
    for rest in others:
        machine.tape = Tape()
        machine.steps = STEPS_PER_TRY
        first = Tensor(given.shape, given.dtype)
        try:
            result = machine.call(machine.get(made, "forward"), [first, *_made(rest, given)], {}, Frame(made.cls.home))
            if isinstance(result, Missing):
                raise Stuck(result.reason)
            return _pass(given, machine.tape, result)
        except Stuck as stuck:
            if problem is None or machine.steps < furthest:  # what the pass that got furthest met is what is missing
                problem, furthest = stuck, machine.steps
        except (Spent, RecursionError):
            return None
    return problem


def _pass(given: Tensor, tape: Tape, result: object) -> ForwardPass:
    outputs = [each for each in _tensors(result) if each.dtype == "float" and each.shape and each.shape[0] == BATCH]

    def share(count: int) -> int:
        return -(-count // BATCH)

    kind = _KINDS["int" if given.dtype == "int" else len(given.shape)]
    return ForwardPass(
        kind, given.shape[1:], share(tape.kept), share(tape.half), share(tape.full), share(tape.operands),
        share(tape.indices), share(tape.masks), share(tape.widest), share(sum(each.elements for each in outputs)),
        share(tape.recomputed),
    )  # fmt: skip


def _tensors(value: object) -> Iterator[Tensor]:
    """The tensors in what a forward pass gives; of very many the first."""
    pending, left = [value], MAX_OUTPUTS
    while pending and left:
        left -= 1
        one = pending.pop()
        if isinstance(one, Tensor):
            yield one
        elif isinstance(one, (list, tuple)):
            pending += one[:MAX_OUTPUTS][::-1]
        elif isinstance(one, dict):
            pending += list(islice(one.values(), MAX_OUTPUTS))[::-1]


def _first_layer(made: Instance) -> tuple[str, int]:
    """What kind of input the first layer with weights takes, and how many channels or features."""
    for each in held(made):
        name, fields = each.cls.name.rpartition(".")[2], each.fields
        weight = fields.get("weight")
        if not isinstance(weight, Tensor) or not each.cls.home.prefix or len(weight.shape) < 2:
            continue
        if name.startswith("Conv") and not name.startswith("ConvTranspose") and len(weight.shape) in _MAPS:
            groups = fields.get("groups")
            channels = weight.shape[1] * (groups if isinstance(groups, int) else 1)
            return _MAPS[len(weight.shape)], channels
        if name == "ConvTranspose2d" and len(weight.shape) == 4:
            return "latent", weight.shape[0]
        if name == "Embedding":
            return "tokens", weight.shape[0]
        if name == "Linear":
            return "features", weight.shape[1]
    recurrent = next((each for each in held(made) if isinstance(each.fields.get("input_size"), int)), None)
    if recurrent is not None:
        size = recurrent.fields["input_size"]
        assert isinstance(size, int)
        return "features", size
    own = next((each for _, each in parameters(made) if len(each.shape) in (2, 4)), None)
    if own is None:
        return "", 0
    return ("image" if len(own.shape) == 4 else "features"), own.shape[1]


_MAPS = {3: "sequence", 4: "image", 5: "volume"}
"""What a convolution reads, by the dimensions of its weight."""
_KINDS: dict[object, str] = {"int": "tokens", 2: "features", 3: "sequence", 4: "image", 5: "volume"}
"""What an input is, by its numbers and dimensions."""


def _inputs(kind: str, channels: int, wanted: Wanted) -> Iterator[Tensor | None]:
    """What may be put in, the likeliest first; None before what is tried only where nothing of that fits."""
    if kind == "image":
        yield from _images((channels,), wanted)
    elif kind == "latent":  # noise, which a generator makes an image of
        for shape in ((1, 1), (4, 4), ()):
            yield Tensor((BATCH, channels, *shape))
            yield None
    elif kind == "volume":
        for side in (64, 128, 32):
            yield Tensor((BATCH, channels, side, side, side))
        yield None
        yield Tensor((BATCH, channels, 16, 112, 112))
    elif kind == "tokens":
        for length in _lengths(wanted):
            yield length if length is None else Tensor((BATCH, length), "int")
    elif kind == "sequence":
        yield from _sequences(wanted, lambda length: (channels, length))
        yield None
        yield from _sequences(wanted, lambda length: (length, channels))
    else:
        yield Tensor((BATCH, channels))
        yield None
        yield from _sequences(wanted, lambda length: (length, channels))
        yield None
        yield from _images((3, 1), wanted)


def _sequences(wanted: Wanted, shape: Callable[[int], tuple[int, ...]]) -> Iterator[Tensor | None]:
    for length in _lengths(wanted):
        yield length if length is None else Tensor((BATCH, *shape(length)))


def _images(channels: Sequence[int], wanted: Wanted) -> Iterator[Tensor | None]:
    for count in channels:
        for sides in ((wanted.image[0],) if wanted.image else SIDES, () if wanted.image else OTHER_SIDES):
            for side in sides:
                yield Tensor((BATCH, count, side, wanted.image[1] if wanted.image else side))
            yield None


def _lengths(wanted: Wanted) -> Iterator[int | None]:
    if wanted.length:
        yield wanted.length
        return
    yield from LENGTHS
    yield None
    yield from OTHER_LENGTHS


def _others(forward: object) -> list[tuple[str, ...]]:
    """What the other required parameters may be: like the first, one number per sample, nothing."""
    func = forward.func if isinstance(forward, Bound) else forward
    if not isinstance(func, Function):
        return [()]
    required = [param for param in func.node.params if not param.kind and param.default is None]
    count = len(required) - (2 if isinstance(forward, Bound) else 1)
    if count <= 0:
        return [()]
    return [("like",) * count, ("steps",) * count, ("none",) * count, ("like", *("none",) * (count - 1))]


def _made(rest: Sequence[str], given: Tensor) -> list[object]:
    made: dict[str, object] = {"like": Tensor(given.shape, given.dtype), "steps": Tensor((BATCH,), "int"), "none": None}
    return [made[each] for each in rest]
