"""What a name of a constructor or of a `forward` can hold: Python's own constants and containers, shapes, modules.

`Missing` is a value the text does not show; it says why and where, and whatever is computed from it is missing for the
same reason. `Stuck` ends a forward pass: a shape that cannot be is a fact as well (the input was another one).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from analyzer.networks import strides
from analyzer.networks.strides import Strides
from analyzer.syntax import ir

if TYPE_CHECKING:
    from analyzer.networks.world import Globals

DType = Literal["float", "int", "bool"]


class Stuck(Exception):
    """The forward pass cannot go on: `reason`, at `path` and `at`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place: tuple[str, int] | None = None


class Spent(Exception):
    """The budget of steps or of depth is used up."""


@dataclass(eq=False, slots=True)
class Missing:
    """Not in the text. `path` and `at` are where it was first missed."""

    reason: str
    path: str = ""
    at: int = 0


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor as a shape (batch first). `is_full`: autocast computes it in fp32. `is_parameter`: it is trained unless
    `is_frozen`. `is_grad`: a parameter went into it, so backward passes through. `kept`: what of it is counted already,
    shared by its views. `most`: the largest number in it, where that is known: a table may not have it."""

    shape: tuple[int, ...]
    dtype: DType = "float"
    is_parameter: bool = False
    is_frozen: bool = False
    is_grad: bool = False
    is_full: bool = False
    kept: set[str] = field(default_factory=set)
    strides: Strides = None
    whole: int = 0
    most: int | None = None

    @property
    def stored(self) -> int:
        """How many numbers lie in memory for it: fewer than it has where it is expanded, those of the `whole` where it
        is a part of another tensor."""
        return self.whole or strides.stored(self.shape, self.strides)

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    @property
    def needs_grad(self) -> bool:
        """Whether a backward pass computes its gradient."""
        return self.is_grad or (self.is_parameter and not self.is_frozen)


@dataclass(eq=False, slots=True)
class External:
    """A library's name (``torch.nn.functional.relu``), as far as the text shows it."""

    name: str


@dataclass(eq=False, slots=True)
class Function:
    """A function with the variables around it; `owner` is the class whose method it is."""

    node: ir.FunctionDef | ir.Lambda
    home: Globals
    around: tuple[dict[str, object], ...] = ()
    owner: Class | None = None


@dataclass(eq=False, slots=True)
class Bound:
    """A function or a library method with its first argument."""

    func: object
    this: object


@dataclass(eq=False, slots=True)
class Partial:
    """``functools.partial(func, *args, **keywords)``."""

    func: object
    args: tuple[object, ...]
    keywords: dict[str, object]


@dataclass(eq=False, slots=True)
class Class:
    """A class of the repository or of the library of layers. `name` is qualified for the latter."""

    node: ir.ClassDef
    home: Globals
    name: str
    bases: tuple[object, ...] = ()
    around: tuple[dict[str, object], ...] = ()
    attributes: dict[str, object] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Instance:
    """An object. A module is one whose class derives from ``torch.nn.Module``; then `items` are the children of a
    container (``Sequential``, ``ModuleList``), in order."""

    cls: Class
    fields: dict[str, object] = field(default_factory=dict)
    is_module: bool = False
    items: list[object] | None = None
    buffers: set[str] = field(default_factory=set)
    gaps: list[Missing] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Super:
    """``super()``: `this` as an instance of the classes behind `after`."""

    this: object
    after: Class


@dataclass(eq=False, slots=True)
class Space:
    """A namespace of plain values: argparse's, a dict with attributes, a configuration object."""

    fields: dict[str, object]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of a network that the text does not show, in words, with its place."""

    reason: str
    path: str
    at: int
