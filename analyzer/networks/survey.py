"""One network, counted: its parameters, and what a forward pass keeps for the inputs that fit it.

An input is not in the constructor: it is tried. The first layer with weights says what kind of input a network takes
(pixels, tokens, features), and the sizes for which every shape on the way fits are those it can be given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
CLIP = 16  # frames
_SHOWN = 6
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
    """What is known of the input: height and width in pixels, frames, and how long a sequence is."""

    image: tuple[int, int] | None = None
    length: int | None = None
    frames: int | None = None

    @property
    def is_anything(self) -> bool:
        """Whether a size is known."""
        return self.image is not None or self.length is not None


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
    if wanted.is_anything and not passes and stuck is not None:
        stuck = _unfit(wanted, stuck, _passes(machine, made, Wanted())[0])
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
        made_pass = _tried(machine, made, *given, others)
        if isinstance(made_pass, Stuck):
            problem = problem or made_pass
        elif isinstance(made_pass, ForwardPass):
            found.append(made_pass)
        else:
            return found, Stuck("its forward pass takes too many steps to follow")
    return found, problem


def _unfit(wanted: Wanted, stuck: Stuck, usual: Sequence[ForwardPass]) -> Stuck:
    """That no input of the size that is asked for fits, why, and which do."""
    asked = f"an image of {wanted.image[0]}x{wanted.image[1]}" if wanted.image else f"a length of {wanted.length}"
    names = ["x".join(map(str, each.shape)) for each in sorted(usual, key=lambda each: each.shape)[:_SHOWN]]
    fitting = f"; of usual sizes {', '.join(names)} {'fits' if len(names) == 1 else 'fit'}" if names else ""
    made = Stuck(f"{asked} does not fit it: {stuck.reason}{fitting}")
    made.place = stuck.place
    return made


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
    machine: Machine, made: Instance, kind: str, given: Tensor, others: Sequence[Sequence[str]]
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
            return _pass(kind, given, machine.tape, result)
        except Stuck as stuck:
            if problem is None or machine.steps < furthest:  # what the pass that got furthest met is what is missing
                problem, furthest = stuck, machine.steps
        except (Spent, RecursionError):
            return None
    return problem


def _pass(kind: str, given: Tensor, tape: Tape, result: object) -> ForwardPass:
    outputs = [each for each in _tensors(result) if each.dtype == "float" and each.shape and each.shape[0] == BATCH]

    def share(count: int) -> int:
        return -(-count // BATCH)

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
        weight, size = fields.get("weight"), fields.get("input_size")
        if isinstance(size, int) and each.cls.home.prefix:  # recurrent
            return "features", size
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
    own = next((each for _, each in parameters(made) if len(each.shape) in (2, 4)), None)
    if own is None:
        return "", 0
    return ("image" if len(own.shape) == 4 else "features"), own.shape[1]


_MAPS = {3: "signal", 4: "image", 5: "volume"}
"""What a convolution reads, by the dimensions of its weight."""
_Input = tuple[str, Tensor]
"""What kind of input it is (`analyzer.api.ForwardPass`), and a batch of it."""


def _inputs(kind: str, channels: int, wanted: Wanted) -> Iterator[_Input | None]:
    """What may be put in, the likeliest first; None before what is tried only where nothing of that fits. A size that
    is known goes before inputs that have none: a layer of features takes them position by position."""
    if kind == "image":
        yield from _images((channels,), wanted)
    elif kind == "latent":  # noise, which a generator makes an image of
        for shape in ((1, 1), (4, 4), ()):
            yield kind, Tensor((BATCH, channels, *shape))
            yield None
    elif kind == "volume":
        yield from _volumes(channels, wanted)
    elif kind == "tokens":
        for length in _lengths(wanted):
            yield (kind, Tensor((BATCH, length), "int")) if length else None
    elif kind == "signal":
        yield from _sequences(kind, channels, wanted)
        yield None
        yield from _sequences("sequence", channels, wanted)
    else:
        yield from _features(channels, wanted)


def _features(channels: int, wanted: Wanted) -> Iterator[_Input | None]:
    if wanted.image:
        yield from _images((3, 1), wanted)
    if wanted.length:
        yield from _sequences("sequence", channels, wanted)
        yield None
    yield "features", Tensor((BATCH, channels))
    yield None
    yield from _sequences("sequence", channels, wanted)
    yield None
    yield from _images((3, 1), wanted)


def _sequences(kind: str, channels: int, wanted: Wanted) -> Iterator[_Input | None]:
    for length in _lengths(wanted):
        shape = (channels, length or 0) if kind == "signal" else (length or 0, channels)
        yield (kind, Tensor((BATCH, *shape))) if length else None


def _volumes(channels: int, wanted: Wanted) -> Iterator[_Input | None]:
    """A scan is as deep as it is wide, a clip has its frames."""
    height, width = wanted.image or (112, 112)
    if wanted.frames is None:
        for side in ((height,) if height == width else ()) if wanted.image else (64, 128, 32):
            yield "volume", Tensor((BATCH, channels, side, side, side))
        yield None
    yield "volume", Tensor((BATCH, channels, wanted.frames or CLIP, height, width))


def _images(channels: Sequence[int], wanted: Wanted) -> Iterator[_Input | None]:
    for count in channels:
        for sides in ((wanted.image[0],) if wanted.image else SIDES, () if wanted.image else OTHER_SIDES):
            for side in sides:
                yield "image", Tensor((BATCH, count, side, wanted.image[1] if wanted.image else side))
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
