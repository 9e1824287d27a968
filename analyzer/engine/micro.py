"""Whether the iterations of a loop each take a part of a batch, or a small batch, of their own."""

from __future__ import annotations

from analyzer.engine.events import Loop
from analyzer.engine.program import Program
from analyzer.knowledge.words import pattern
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import assigned_names, dotted, of_type, target_names, walk

_PARTS = frozenset(["chunk", "split", "tensor_split"])
"""Methods of a tensor, and functions of torch, that cut it into parts."""


def takes_parts(program: Program, loop: Loop) -> bool:
    """Whether a loop goes over parts that something is cut into, cuts them by its counter, or asks for a batch."""
    node = program.statement_of(loop)
    return node is not None and (_takes_parts(node) or _is_cut_by_generator(program, loop, node))


def goes_over_parts(program: Program, loop: Loop) -> bool:
    """Whether a loop goes over parts that something is cut into."""
    node = program.statement_of(loop)
    return node is not None and (_is_cut(node.iter) or _is_cut_by_generator(program, loop, node))


def _is_cut_by_generator(program: Program, loop: Loop, node: ir.For) -> bool:
    """``for part in parts_of(batch, size)``: a generator of the same file that cuts what it is given."""
    name = dotted(node.iter.callee) if isinstance(node.iter, ir.Call) and node.iter.args else None
    unit = program.unit(loop.site.path) if name is not None else None
    last = (name or "").rpartition(".")[2]
    return any(
        isinstance(each, ir.For) and _cuts(each) and any(isinstance(part, ir.Yield) for part in walk(each.body, False))
        for function in of_type(unit, ir.FunctionDef)
        if function.name == last and function.is_generator
        for each in function.body
    )


def is_averaged_over(program: Program, loop: Loop) -> bool:
    """Whether the function of a loop over ``batches`` divides something by ``len(batches)``."""
    node, function = program.statement_of(loop), program.function_around(loop.site)
    if node is None or function is None or not isinstance(node.iter, ir.Name):
        return False
    name = node.iter.id
    return any(
        isinstance(each, ir.Operation)
        and each.op == "/"
        and isinstance(each.right, ir.Call)
        and isinstance(each.right.callee, ir.Name)
        and each.right.callee.id == "len"
        and any(isinstance(arg.value, ir.Name) and arg.value.id == name for arg in each.right.args)
        for each in walk(function.body, False)
    )


@remembered(maxsize=256)
def _takes_parts(node: ir.For) -> bool:
    return _is_cut(node.iter) or _cuts(node) or _asks(node)


def _is_cut(iterable: ir.Expr) -> bool:
    """``zip(x.chunk(n), y.chunk(n))``; the parts of a text are no tensors."""
    calls = [node for node in _within(iterable) if isinstance(node, ir.Call)]
    return any(
        isinstance(call.callee, ir.Attribute)
        and call.callee.attr in _PARTS
        and bool(call.args)
        and not any(isinstance(a.value, ir.Constant) and isinstance(a.value.value, str) for a in call.args)
        for call in calls
    )


def _cuts(node: ir.For) -> bool:
    """``x[i : i + n]`` with the counter of the loop."""
    counters = set(target_names(node.target))
    cuts = [each.index for each in walk(node.body, False) if isinstance(each, ir.Subscript)]
    slices = [cut for cut in cuts if isinstance(cut, ir.Slice) and cut.lower is not None and cut.upper is not None]
    return any(
        isinstance(name, ir.Name) and name.id in counters
        for cut in slices
        for side in (cut.lower, cut.upper)
        if side is not None
        for name in _within(side)
    )


def _asks(node: ir.For) -> bool:
    """``x, y = get_batch("train")``, handed to a call: nothing that the loop has goes in, so what comes is new; nor
    does anything that it makes where the name says that it is a batch, ``get_batch(reader, device=device)``."""
    handed = {
        arg.value.id
        for call in walk(node.body, False)
        if isinstance(call, ir.Call)
        for arg in call.args
        if isinstance(arg.value, ir.Name)
    }
    return any(
        isinstance(each, ir.Assign)
        and isinstance(each.value, ir.Call)
        and _is_asked(each.value)
        and any(name in handed for name in assigned_names(each))
        for each in node.body
    )


def _is_asked(call: ir.Call) -> bool:
    name = (dotted(call.callee) or "").rpartition(".")[2]
    if pattern("gives a batch").search(name):
        return all(isinstance(arg.value, ir.Constant) or dotted(arg.value) is not None for arg in call.args)
    return isinstance(call.callee, ir.Name) and all(isinstance(arg.value, ir.Constant) for arg in call.args)


def _within(expr: ir.Expr) -> list[object]:
    return list(walk((ir.Evaluate(expr.at, expr),), False))
