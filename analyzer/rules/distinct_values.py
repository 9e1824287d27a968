"""Whether a place inside a loop is reached in at most one of its iterations."""

from __future__ import annotations

from analyzer.engine.control import sets_flag
from analyzer.engine.events import Event, Loop
from analyzer.engine.program import Program
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, target_values, walk

_DISTINCT = frozenset({"unique", "unique_consecutive", "set", "keys"})
_OF_DICTS = frozenset({"keys", "values", "items"})
_COUNTS = frozenset({"range", "enumerate"})


def is_reached_once(program: Program, event: Event, loop: Loop) -> bool:
    """Whether a condition around an event holds for one iteration of a loop: its values differ from each other
    (``for i in range(n)``, ``for label in labels.unique()``), and one of them is asked for (``if label == first:``)."""
    statement = program.statement_of(loop) if event.guards else None  # most have none: no walk through the loop
    name = _distinct(program, loop, statement) if statement is not None else ""
    if not name or statement is None:
        return False
    inside = {node.at for node in walk(statement.body, False) if isinstance(node, ir.If)}
    for guard in event.guards:
        node = words(program).node(guard.site) if guard.site.path == loop.site.path else None
        if isinstance(node, ir.If) and node.at in inside and _is_for_one(node.test, name, taken=guard.taken):
            return True
    return False


def is_done_once(program: Program, event: Event) -> bool:
    """Whether a condition around an event makes itself false: ``if not self.logged: self.logged = True``."""
    asked = (words(program).node(guard.site) for guard in event.guards if guard.taken)
    return any(isinstance(node, ir.If) and sets_flag(node) for node in asked)


def is_over_distinct(program: Program, loop: Loop) -> bool:
    """Whether a loop goes over what differs in a tensor, which is less than its elements (``labels.unique()``), or over
    a dict of outputs by their names."""
    statement = program.statement_of(loop)
    if statement is None:
        return False
    callee = _callee(statement.iter)
    is_dict = loop.runs_over == "tensor" and callee in _OF_DICTS
    return is_dict or (callee not in _COUNTS and bool(_distinct(program, loop, statement)))


def _distinct(program: Program, loop: Loop, statement: ir.For) -> str:
    """The variable of a loop that has another value in each iteration; empty if none is seen to."""
    target, drawn = statement.target, statement.iter
    callee = _callee(drawn)
    if callee == "enumerate" and isinstance(target, ir.Display) and target.items:
        return dotted(target.items[0]) or ""
    name = dotted(target) or ""
    if isinstance(drawn, ir.Name):
        function, unit = program.function_around(loop.site), program.unit(loop.site.path)
        body = function.body if function is not None else unit.body if unit is not None else ()
        assigned = (node for node in walk(body, False) if isinstance(node, ir.Assign))
        given = [value for node in assigned for to, value in target_values(node) if dotted(to) == drawn.id]
        return name if given and all(_callee(value) in _DISTINCT for value in given) else ""
    return name if callee == "range" or callee in _DISTINCT else ""


def _callee(value: ir.Expr) -> str:
    """``unique`` of ``torch.unique(x)``, ``x.view(-1).unique()`` and ``x.unique().tolist()``."""
    while isinstance(value, ir.Call):
        callee = value.callee
        name = last_name(callee)
        if name not in {"tolist", "cpu", "to", "long", "int", "sorted", "list"}:
            return name
        value = callee.value if isinstance(callee, ir.Attribute) else value.args[0].value if value.args else callee
    return ""


def _is_for_one(test: ir.Expr, name: str, *, taken: bool) -> bool:
    """Whether a test that went this way holds for one value of a variable."""
    if not isinstance(test, ir.Operation):
        return False
    if test.op == "not":
        return _is_for_one(test.left, name, taken=not taken)
    sides = [test.left] if test.right is None else [test.left, test.right]
    if test.op in {"and", "or"}:
        found = [_is_for_one(each, name, taken=taken) for each in sides]
        return any(found) if (test.op == "and") == taken else all(found)
    if test.op != ("==" if taken else "!="):
        return False
    names = [name in {dotted(part) for part in walk((side,), False) if isinstance(part, ir.Name)} for side in sides]
    return sum(names) == 1 and any(dotted(side) == name for side in sides)
