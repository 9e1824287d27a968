"""Networks that the repository defines: counted by the analyzer, carried in a run config as plain numbers.

A document's ``network`` holds the parameter counts and, for each input that fits the network, what one sample's forward
pass keeps. It is data: whoever estimates needs neither the repository nor the analyzer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import exp, log
from typing import Any

from analyzer.api import ForwardPass

MAX_PASSES = 16
_MAX_COUNT = 1 << 60


@dataclass(frozen=True, slots=True)
class Pass(ForwardPass):
    """One sample's forward pass as a run config carries it."""

    @property
    def image(self) -> tuple[int, int] | None:
        """Height and width in pixels, of a network that reads images."""
        return (self.shape[-2], self.shape[-1]) if self.kind in ("image", "volume") and len(self.shape) > 2 else None

    @property
    def length(self) -> int | None:
        """Tokens, steps or samples, of a network that reads a sequence."""
        if self.kind == "signal":
            return self.shape[-1]
        return self.shape[0] if self.kind in ("tokens", "sequence") else None

    @property
    def size(self) -> tuple[int, ...]:
        """What of the shape may vary: height and width, a length, or nothing."""
        return self.image or ((self.length,) if self.length else ())

    @property
    def size_text(self) -> str:
        """As in a sentence: ``224x224``, ``1,024``."""
        return "x".join(f"{each:,}" if len(self.size) == 1 else str(each) for each in self.size)


NOTHING = Pass("", (1,), 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""A forward pass of which nothing is known."""


@dataclass(frozen=True, slots=True)
class LocalNet:
    """A network by its name, with what it counts. `is_partial`: some of its parameters are not in the text. Of several
    networks together `parts` are the single ones: perhaps the script trains only one of them. `problem` says why it has
    no passes."""

    name: str
    params: int
    trained: int
    largest: int
    layers: int
    is_partial: bool = False
    passes: tuple[Pass, ...] = ()
    parts: tuple[LocalNet, ...] = ()
    problem: str = ""

    @property
    def every_pass(self) -> tuple[Pass, ...]:
        """Its own passes and those of its parts."""
        return (*self.passes, *(each for part in self.parts for each in part.every_pass))

    def to_document(self) -> dict[str, Any]:
        """As in a run config; `parse` reads it back."""
        document = asdict(self)
        document["passes"] = [{**each, "shape": list(each["shape"])} for each in document["passes"]]
        document["parts"] = [each.to_document() for each in self.parts]
        return document


def parse(value: object, *, is_part: bool = False) -> LocalNet:
    """The network of a document. Raises ValueError naming what is wrong."""
    if isinstance(value, LocalNet):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("must be an object as `preflight launches` writes it")
    known = {item.name for item in fields(LocalNet)}
    if strange := sorted(map(str, value.keys() - known)):
        raise ValueError(f"has no entry {strange[0][:40]!r}")
    name = value.get("name")
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 200:
        raise ValueError("needs a printable `name`")
    passes = value.get("passes", [])
    if not isinstance(passes, Sequence) or isinstance(passes, str) or len(passes) > MAX_PASSES:
        raise ValueError(f"`passes` must be a list of at most {MAX_PASSES}")
    parts = value.get("parts", [])
    if not isinstance(parts, Sequence) or isinstance(parts, str) or len(parts) > (0 if is_part else MAX_PASSES):
        raise ValueError("`parts` must be a short list of networks without parts")
    problem = value.get("problem", "")
    if not isinstance(problem, str):
        raise ValueError("`problem` must be a text")
    counts = {key: _count(value, key) for key in ("params", "trained", "largest", "layers")}
    return LocalNet(
        name=name,
        is_partial=value.get("is_partial") is True,
        passes=tuple(_pass(each) for each in passes),
        parts=tuple(parse(each, is_part=True) for each in parts),
        problem="".join(char for char in problem[:400] if char.isprintable()),
        **counts,
    )


def _pass(value: object) -> Pass:
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
        raise ValueError("a pass must be an object with a `kind`")
    shape = value.get("shape")
    if not isinstance(shape, Sequence) or isinstance(shape, str) or not 0 < len(shape) <= 8:
        raise ValueError("a pass needs the `shape` of a sample")
    counts = {name: _count(value, name) for name in _COUNTS}
    return Pass(kind=value["kind"][:20], shape=tuple(_whole(each, "shape") for each in shape), **counts)


def _count(value: Mapping[str, object], key: str) -> int:
    return _whole(value.get(key), key)


def _whole(value: object, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"`{key}` must be a whole number")
    return value


# --- of one size ----------------------------------------------------------------------------------------------------


def of_size(net: LocalNet, image: tuple[int, int] | None, length: int | None) -> LocalNet:
    """The network with the passes of one input size. A document has passes of usual sizes: for one between them, what
    lies on the line between its neighbours, and the smaller of them, which holds no more. What has no size stays."""
    passes = net.passes
    if image is not None:
        passes = _of_image(passes, image)
    if length is not None:
        passes = _of_length(passes, length)
    return replace(net, passes=passes, parts=tuple(of_size(part, image, length) for part in net.parts))


def _of_image(passes: tuple[Pass, ...], image: tuple[int, int]) -> tuple[Pass, ...]:
    exact = tuple(each for each in passes if each.image in (None, image))
    if exact or not passes:
        return exact
    squares = [each for each in passes if each.kind == "image" and each.shape[-2] == each.shape[-1]]
    side = (image[0] * image[1]) ** 0.5  # maps are as large as the picture, whatever its sides
    return _between(((each, each.shape[-1]) for each in squares), min(image), side, lambda shape: (*shape[:-2], *image))


def _of_length(passes: tuple[Pass, ...], length: int) -> tuple[Pass, ...]:
    exact = tuple(each for each in passes if each.length in (None, length))
    if exact or not passes:
        return exact
    at = -1 if passes[0].kind == "signal" else 0

    def shaped(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:at], length) if at else (length, *shape[1:])

    alike = [each for each in passes if each.kind == passes[0].kind]
    return _between(((each, each.shape[at]) for each in alike), length, length, shaped)


def _between(
    sized: Iterable[tuple[Pass, int]], least: float, size: float, shaped: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> tuple[Pass, ...]:
    """What is kept is a sum of powers of the size: as logarithms convex, so the line between two sizes is above it."""
    ordered = sorted(sized, key=lambda each: each[1])
    below = [each for each in ordered if each[1] <= least]
    above = [each for each in ordered if each[1] >= size]
    if not below or not above:
        return ()
    (small, from_), (large, to) = below[-1], above[0]
    share = log(size / from_) / log(to / from_) if to > from_ else 0.0
    counts = {
        name: round(exp((1 - share) * log(max(getattr(small, name), 1)) + share * log(max(getattr(large, name), 1))))
        if getattr(large, name) else 0
        for name in _COUNTS
    }  # fmt: skip
    return (Pass(large.kind, shaped(large.shape), **counts), replace(small, shape=shaped(small.shape)))


_COUNTS = tuple(item.name for item in fields(Pass) if item.name not in ("kind", "shape"))
