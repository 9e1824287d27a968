"""Networks of public libraries that were traced: what a sample keeps by how much it holds (pixels, frames, samples).

``data/nets.csv`` holds the counts, `estimator.calibration.nets` made them. Saved tensors grow with what a sample holds:
``base + slope x units``, and where attention maps are written out with its square (``bend``), from traces of two sizes
(of one where the network takes no other, or is convolutions and nothing else). A unit is a pixel, of
video a pixel of one frame, of sound one of 16,000 samples a second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from estimator.tables import number, rows

_REQUIRED = ("library", "id", "task", "reads", "params", "slope_fp32", "slope_amp", "source")
_FILES = re.compile(r"\.(?:pt|pth|yaml|yml|safetensors|onnx)$")


@dataclass(frozen=True, slots=True)
class Regime:
    """Bytes per sample, per sample and unit, and per sample and square of units, kept for backward; and per sample and
    unit above that when most is alive in backward and in forward."""

    base: float
    slope: float
    bend: float
    working: float
    passing: float

    def kept(self, units: int) -> float:
        """Bytes that one sample of so many units keeps."""
        return self.base + self.slope * units + self.bend * units**2


@dataclass(frozen=True, slots=True)
class TracedNet:
    """One network. `size` is what it was traced at: height and width, frames before them of video. Counts per unit:
    `operands` are elements that meet trained weights, `other` bytes of masks and indices, `outputs` elements that the
    loss reads. `cast` are bytes of weights that autocast copies, `late` of gradients that are there when most is alive.
    `variant` says what is frozen."""

    name: str
    library: str
    variant: str
    task: str
    reads: str
    params: int
    trained: int
    classes: int
    size: tuple[int, ...]
    fp32: Regime
    amp: Regime
    other: float
    operands: float
    outputs: float
    widest: float
    cast: int
    late: int
    source: str

    @property
    def frames(self) -> int:
        """Frames of a video as it was traced; 1 of a picture."""
        return self.size[0] if self.reads in ("video", "frames") else 1

    @property
    def side(self) -> tuple[int, int]:
        """Height and width as it was traced; of sound nothing."""
        return (self.size[-2], self.size[-1]) if len(self.size) > 1 else (1, 1)

    def regime(self, precision: str) -> Regime:
        """What is kept in ``fp32``, under autocast (``amp``) or with everything in 16 bits (``half``)."""
        if precision == "amp":
            return self.amp
        if precision == "fp32":
            return self.fp32
        whole = self.fp32
        return Regime(
            whole.base / 2, (whole.slope - self.other) / 2 + self.other, whole.bend / 2, whole.working / 2,
            whole.passing / 2,
        )  # fmt: skip


def find(name: str) -> tuple[TracedNet, ...]:
    """The networks that an id names, the likeliest first: several where the same id is trained whole or in part."""
    text = name.strip().lower()
    library = next((word for word in re.split(r"[/:]", text)[:-1] if word in _libraries()), "")
    last = _plain(re.split(r"[/:]", text)[-1])
    shorter = last.split(".")[0]
    for key in dict.fromkeys((_FILES.sub("", last), shorter)):
        if key in _index():
            found = _index()[key]
            return tuple(net for net in found if net.library == library) or _first(found)
    for key in dict.fromkeys((_FILES.sub("", last), shorter)):
        for pattern, named in _patterns():
            if pattern.fullmatch(key):
                return _first(_index()[named])
    return ()


def names() -> tuple[str, ...]:
    """Every id of the table, for suggestions."""
    return tuple(dict.fromkeys(row["id"] for row in rows("nets", _REQUIRED)))


def every() -> tuple[TracedNet, ...]:
    """All of the table."""
    return tuple(net for found in _index().values() for net in found)


def _plain(text: str) -> str:
    return re.sub(r"[\s\-]+", "_", text)


def _first(found: tuple[TracedNet, ...]) -> tuple[TracedNet, ...]:
    """Of an id that several libraries have, that of the first: they build the same network."""
    return tuple(net for net in found if net.library == found[0].library)


@lru_cache(maxsize=1)
def _libraries() -> frozenset[str]:
    return frozenset(row["library"] for row in rows("nets", _REQUIRED))


@lru_cache(maxsize=1)
def _index() -> Mapping[str, tuple[TracedNet, ...]]:
    found: dict[str, list[TracedNet]] = {}
    for row in rows("nets", _REQUIRED):
        found.setdefault(_plain(row["id"].lower().rpartition("/")[2]), []).append(_net(row))
    return {key: tuple(nets) for key, nets in found.items()}


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (re.compile(row["also"]), _plain(row["id"].lower().rpartition("/")[2]))
        for row in rows("nets", _REQUIRED)
        if row["also"]
    )


def _net(row: dict[str, str]) -> TracedNet:
    def value(name: str) -> float:
        return number(row, name) or 0.0

    def regime(name: str) -> Regime:
        return Regime(*(value(f"{each}_{name}") for each in ("base", "slope", "bend", "working", "passing")))

    return TracedNet(
        name=row["id"], library=row["library"], variant=row["variant"], task=row["task"], reads=row["reads"],
        params=int(value("params")), trained=int(value("trained")), classes=int(value("classes")),
        size=tuple(int(each) for each in row["size"].split("x")), fp32=regime("fp32"), amp=regime("amp"),
        other=value("other"), operands=value("operands"), outputs=value("outputs"), widest=value("widest"),
        cast=int(value("cast")), late=int(value("late")), source=row["source"],
    )  # fmt: skip
