"""Networks that the repository defines: counted by the analyzer, carried in a run config as plain numbers.

A document's ``network`` holds the parameter counts and, for each input that fits the network, what one sample's forward
pass keeps. It is data: whoever estimates needs neither the repository nor the analyzer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
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
        """Tokens, of a network that reads a sequence."""
        return self.shape[0] if self.kind == "tokens" else None


NOTHING = Pass("", (1,), 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""A forward pass of which nothing is known."""


@dataclass(frozen=True, slots=True)
class LocalNet:
    """A network by its name, with what it counts. `is_partial`: some of its parameters are not in the text. Of several
    networks together `parts` are the single ones: perhaps the script trains only one of them."""

    name: str
    params: int
    trained: int
    largest: int
    layers: int
    is_partial: bool = False
    passes: tuple[Pass, ...] = ()
    parts: tuple[LocalNet, ...] = ()

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
    counts = {key: _count(value, key) for key in ("params", "trained", "largest", "layers")}
    return LocalNet(
        name=name,
        is_partial=value.get("is_partial") is True,
        passes=tuple(_pass(each) for each in passes),
        parts=tuple(parse(each, is_part=True) for each in parts),
        **counts,
    )


def _pass(value: object) -> Pass:
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
        raise ValueError("a pass must be an object with a `kind`")
    shape = value.get("shape")
    if not isinstance(shape, Sequence) or isinstance(shape, str) or not 0 < len(shape) <= 8:
        raise ValueError("a pass needs the `shape` of a sample")
    counts = {item.name: _count(value, item.name) for item in fields(Pass) if item.name not in ("kind", "shape")}
    return Pass(kind=value["kind"][:20], shape=tuple(_whole(each, "shape") for each in shape), **counts)


def _count(value: Mapping[str, object], key: str) -> int:
    return _whole(value.get(key), key)


def _whole(value: object, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"`{key}` must be a whole number")
    return value
