"""The intermediate representation: what a program does, without how it was typed.

About thirty small node types. A node carries `at`, the number of the LibCST node it came from (its index in the order
in which `lower` met them), never that node itself, so that the representation of a file can be cached by its bytes and
the file is parsed again only if something in it is reported. Nodes compare and hash by identity.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from analyzer.records import dataclass

NodeId = int
MAX_INT = 1 << 4096
"""Python writes a longer number only in hexadecimal and does not print it; nobody means one."""


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """Base of the expressions."""

    at: NodeId


@dataclass(frozen=True, slots=True, eq=False)
class Name(Expr):
    """A variable."""

    id: str


@dataclass(frozen=True, slots=True, eq=False)
class Attribute(Expr):
    """``value.attr``."""

    value: Expr
    attr: str


@dataclass(frozen=True, slots=True, eq=False)
class Subscript(Expr):
    """``value[index]``; several indices are a tuple `Display`."""

    value: Expr
    index: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Expr):
    """``lower:upper:step`` inside a subscript."""

    lower: Expr | None
    upper: Expr | None
    step: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Arg:
    """One argument of a call; `star` is ``*`` or ``**`` for an unpacked one."""

    value: Expr
    keyword: str | None = None
    star: Literal["", "*", "**"] = ""


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    """``callee(args)``."""

    callee: Expr
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Expr):
    """A literal: number (within `MAX_INT`), string, bytes, True, False, None or Ellipsis."""

    value: object


def literal(value: object) -> object:
    """The value of a literal as a `Constant` holds it."""
    return MAX_INT if isinstance(value, int) and value > MAX_INT else value


@dataclass(frozen=True, slots=True, eq=False)
class Display(Expr):
    """A tuple, list or set written out; items may be `Starred`."""

    kind: Literal["tuple", "list", "set"]
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DictDisplay(Expr):
    """A dict written out; a key of None is ``**value``."""

    items: tuple[tuple[Expr | None, Expr], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Starred(Expr):
    """``*value`` in a display or an assignment target."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Expr):
    """A binary or unary operation, a comparison or ``and`` / ``or``; a unary one has no `right`."""

    op: str
    left: Expr
    right: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Expr):
    """``body if test else orelse``."""

    test: Expr
    body: Expr
    orelse: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Clause:
    """``for target in iter if conditions`` of a comprehension."""

    target: Expr
    iter: Expr
    conditions: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension(Expr):
    """A comprehension or generator expression; `key` only in a dict."""

    kind: Literal["list", "set", "dict", "generator"]
    element: Expr
    key: Expr | None
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Joined(Expr):
    """An f-string or adjacent strings: constants and expressions in turn."""

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Yield(Expr):
    """``yield value`` or ``yield from value``."""

    value: Expr | None
    is_from: bool


@dataclass(frozen=True, slots=True, eq=False)
class Await(Expr):
    """``await value``."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Walrus(Expr):
    """``target := value``."""

    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Opaque(Expr):
    """An expression form the engine does not model; it evaluates to unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Stmt:
    """Base of the statements."""

    at: NodeId


Block = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """One parameter. `kind` is ``*`` or ``**`` for the collecting ones, ``kw`` for keyword-only ones."""

    name: str
    at: NodeId
    default: Expr | None = None
    annotation: Expr | None = None
    kind: Literal["", "*", "**", "kw"] = ""


@dataclass(frozen=True, slots=True, eq=False)
class Lambda(Expr):
    """``lambda params: body``."""

    params: tuple[Param, ...]
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Evaluate(Stmt):
    """An expression as a statement."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Stmt):
    """``targets = value``; an annotated assignment has one target and may lack the value."""

    targets: tuple[Expr, ...]
    value: Expr | None
    annotation: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Augment(Stmt):
    """``target op= value``."""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Delete(Stmt):
    """``del targets``."""

    targets: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Return(Stmt):
    """``return value``."""

    value: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Raise(Stmt):
    """``raise value``."""

    value: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Assert(Stmt):
    """``assert test``."""

    test: Expr


@dataclass(frozen=True, slots=True, eq=False)
class If(Stmt):
    """``if test: body else: orelse`` (an ``elif`` is an `If` alone in `orelse`)."""

    test: Expr
    body: Block
    orelse: Block


@dataclass(frozen=True, slots=True, eq=False)
class For(Stmt):
    """``for target in iter: body else: orelse``."""

    target: Expr
    iter: Expr
    body: Block
    orelse: Block


@dataclass(frozen=True, slots=True, eq=False)
class While(Stmt):
    """``while test: body else: orelse``."""

    test: Expr
    body: Block
    orelse: Block


@dataclass(frozen=True, slots=True, eq=False)
class With(Stmt):
    """``with items: body``; each item is a context and perhaps a target."""

    items: tuple[tuple[Expr, Expr | None], ...]
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """``except type as name: body``."""

    at: NodeId
    type: Expr | None
    name: str | None
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class Try(Stmt):
    """``try: body except …: else: orelse finally: final``."""

    body: Block
    handlers: tuple[Handler, ...]
    orelse: Block
    final: Block


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One ``case`` of a match: the names its pattern binds, guard and body."""

    names: tuple[str, ...]
    guard: Expr | None
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class Match(Stmt):
    """``match subject``."""

    subject: Expr
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Jump(Stmt):
    """``break`` or ``continue``."""

    kind: Literal["break", "continue"]


@dataclass(frozen=True, slots=True, eq=False)
class Import(Stmt):
    """``import a.b as c``: pairs of dotted name and bound name (None: the first part is bound)."""

    names: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ImportFrom(Stmt):
    """``from ..module import name as bound``; the name ``*`` imports all."""

    module: str
    level: int
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Outer(Stmt):
    """``global names`` or ``nonlocal names``."""

    kind: Literal["global", "nonlocal"]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDef(Stmt):
    """A function or method. `uses` maps each plain or ``self.x`` name to the methods called on it in the body:
    what a value is used for says what it is (see `analyzer.engine.typing`)."""

    name: str
    params: tuple[Param, ...]
    decorators: tuple[Expr, ...]
    body: Block
    returns: Expr | None
    locals: frozenset[str]
    outer: frozenset[str]
    is_generator: bool
    is_async: bool
    uses: dict[str, frozenset[str]] = field(default_factory=dict)
    has_inner: bool = False
    """Whether it defines a function, class or lambda, which may outlive the call and read its variables."""
    last: NodeId = 0
    """The number of the last node in its text: what lies between `at` and it is inside."""
    lines: tuple[int, int] | None = field(default=None, compare=False)
    """The first line of its text, decorators included, and the last, where Python's parser read the file."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassDef(Stmt):
    """A class with its bases and body."""

    name: str
    bases: tuple[Arg, ...]
    decorators: tuple[Expr, ...]
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One lowered file. `num_nodes` is how many numbers were given out."""

    path: str
    body: Block
    num_nodes: int
    uses: dict[str, frozenset[str]]
