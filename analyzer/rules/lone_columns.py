"""One of several numbers per sample is left flat where the others are made columns, by the text of a function."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.knowledge.words import pattern
from analyzer.syntax import ir
from analyzer.syntax.scope import base_name, dotted, last_name, of_type, walk

_COLUMNS = re.compile(rb"unsqueeze\(\s*-?1\s*\)|(?:view|reshape)\(\s*-1\s*,\s*1\s*\)")
_KEEPS = frozenset(
    ["to", "cuda", "float", "double", "half", "detach", "type", "contiguous", "int", "long", "logical_not", "bool"]
)
_MAKES = frozenset(
    ["FloatTensor", "Tensor", "tensor", "as_tensor", "from_numpy", "IntTensor", "LongTensor", "BoolTensor"]
)
_ARITHMETIC = frozenset(["+", "-", "*"])


def lone_flat(program: Program) -> Iterator[tuple[Site, Site, Site, str, str]]:
    """Arithmetic of a reward and an end of episode that came with it, of which one was made a column: where they meet,
    where the flat one and the column are made, and their names."""
    for path in program.modules:
        if not _COLUMNS.search(program.project.read(path) or b""):
            continue
        for function in of_type(program.unit(path), ir.FunctionDef):
            if sum(pattern("one per sample").search(name) is not None for name in function.locals) < 2:
                continue
            made = _made(function)
            shapes = {shape for shape, _, _ in made.values()}
            if shapes == {"flat", "column"}:
                yield from _meetings(path, function, made)


def _made(function: ir.FunctionDef) -> dict[str, tuple[str, str, int]]:
    """For the numbers per sample that a function takes out of a batch: whether it makes a column of them, what it takes
    them out of, and where. Names that are made in two ways are left out."""
    found: dict[str, tuple[str, str, int]] = {}
    twice: set[str] = set()
    together = _unpacked(function)
    for node in walk(function.body, into_functions=False):
        if not isinstance(node, ir.Assign) or node.value is None or len(node.targets) != 1:
            continue
        target = node.targets[0]
        if not isinstance(target, ir.Name) or not pattern("one per sample").search(target.id):
            continue
        shape, root = _shape(node.value)
        if not shape and root == target.id:  # ``done = done.logical_not()``
            continue
        if not shape or target.id in found:
            twice.add(target.id)
        elif (source := together.get(root) or _source(node.value)) is not None:
            found[target.id] = shape, source, node.at
    return {name: each for name, each in found.items() if name not in twice}


def _unpacked(function: ir.FunctionDef) -> dict[str, str]:
    """The names that one call gives together (``s, a, r, s2, d = memory.sample(n)``), each with that call."""
    return {
        item.id: f"call {node.at}"
        for node in walk(function.body, into_functions=False)
        if isinstance(node, ir.Assign) and not isinstance(node.value, ir.Display)
        for target in node.targets
        if isinstance(target, ir.Display)
        for item in target.items
        if isinstance(item, ir.Name)
    }


def _shape(value: ir.Expr) -> tuple[str, str]:
    """Whether an expression makes a column of what it is given, or a tensor that nothing shapes; and the name of what
    it is given."""
    shape = ""
    while isinstance(value, ir.Call):
        name = last_name(value.callee)
        of = value.callee.value if isinstance(value.callee, ir.Attribute) else None
        if name in {"unsqueeze", "view", "reshape"} and of is not None:
            if shape != "" or not _is_column(name, value):
                return "", ""
            shape, value = "column", of
        elif name in _KEEPS and of is not None:
            value = of
        elif name in _MAKES and value.args:
            shape, value = shape or "flat", value.args[0].value
        else:
            return "", ""
    return shape, base_name(value)


def _is_column(name: str, call: ir.Call) -> bool:
    given = [_number(arg.value) for arg in call.args]
    return given in ([1], [-1]) if name == "unsqueeze" else given == [-1, 1]


def _number(expr: ir.Expr) -> object:
    if isinstance(expr, ir.Operation) and expr.op == "-" and expr.right is None and isinstance(expr.left, ir.Constant):
        return -expr.left.value if isinstance(expr.left.value, int) else None
    return expr.value if isinstance(expr, ir.Constant) else None


def _source(value: ir.Expr) -> str | None:
    """``batch`` of ``torch.tensor(batch.reward)`` and ``batch["reward"]``."""
    while isinstance(value, ir.Call):
        of = value.callee.value if isinstance(value.callee, ir.Attribute) else None
        value = value.args[0].value if last_name(value.callee) in _MAKES and value.args else of or ir.Opaque(value.at)
    return dotted(value.value) if isinstance(value, (ir.Attribute, ir.Subscript)) else None


def _meetings(
    path: str, function: ir.FunctionDef, made: dict[str, tuple[str, str, int]]
) -> Iterator[tuple[Site, Site, Site, str, str]]:
    """The first operation that a flat and a column of one batch meet in."""
    inner: set[int] = set()
    for node in walk(function.body, into_functions=False):
        if not isinstance(node, ir.Operation) or node.op not in _ARITHMETIC or node.at in inner:
            continue
        names = list(_leaves(node, inner))
        for flat in names:
            for column in names:
                one, other = made.get(flat), made.get(column)
                if one and other and (one[0], other[0]) == ("flat", "column") and one[1] == other[1]:
                    yield Site(path, node.at), Site(path, one[2]), Site(path, other[2]), flat, column
                    return


def _leaves(node: ir.Expr, inner: set[int]) -> Iterator[str]:
    """The names of element-wise arithmetic."""
    if isinstance(node, ir.Operation) and (node.op in _ARITHMETIC or node.op == "/"):
        inner.add(node.at)
        yield from _leaves(node.left, inner)
        if node.right is not None:
            yield from _leaves(node.right, inner)
    elif isinstance(node, ir.Name):
        yield node.id
