"""Whether what a tree saves was moved to the host before: then any machine can read it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import spelled
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import assigned_names, dotted, of_type, walk

_SAVES = re.compile(rb"\btorch\.save\(")
_MAX_FILES = 12
_MAX_NAMES = 12
_MAX_DEPTH = 2


_OTHERS = re.compile(r"optim|sched|\bopt_", re.IGNORECASE)


def are_saved_from_host(program: Program, *, but_optimizers: bool) -> bool:
    """Whether every ``torch.save`` of the program, or else of the files beside it, is given what was moved to the
    host: the model right before, each tensor on the way, or as it is written down. Only asked where a file is read.
    `but_optimizers`: files that hold nothing but the state of an optimizer or a schedule do not count."""
    own = [path for path in program.modules if _SAVES.search(program.project.read(path) or b"")]
    given = [(path, call) for path in own for call in _that_count(program, path, but_optimizers)]
    if not given:
        others = [path for path in program.project.naming("save", "", _SAVES) if path not in own][: _MAX_FILES + 1]
        if len(others) > _MAX_FILES:
            return False
        given = [(path, call) for path in others for call in _that_count(program, path, but_optimizers)]
    return bool(given) and all(_is_from_host(program, path, call) for path, call in given)


def _that_count(program: Program, path: str, but_optimizers: bool) -> Iterator[ir.Call]:
    return (
        call
        for call in _saves(program, path)
        if not (but_optimizers and call.args and _is_of_optimizer(call.args[0].value))
    )


def _is_of_optimizer(value: ir.Expr) -> bool:
    """``self.optimizer.state_dict()``, ``opt_state``."""
    if isinstance(value, (ir.Name, ir.Attribute)):
        return bool(_OTHERS.search(dotted(value) or ""))
    callee = value.callee if isinstance(value, ir.Call) else None
    is_state = isinstance(callee, ir.Attribute) and callee.attr == "state_dict"
    return is_state and isinstance(callee, ir.Attribute) and bool(_OTHERS.search(spelled(callee.value)))


def _saves(program: Program, path: str) -> Iterator[ir.Call]:
    for node in of_type(program.unit(path), ir.Call):
        if dotted(node.callee) == "torch.save":
            yield node


def _is_from_host(program: Program, path: str, save: ir.Call, depth: int = 0) -> bool:
    """Whether the first argument of a call was moved to the host before, by its function or by those that call it."""
    given = save.args[0].value if save.args else save
    return _was_moved(program, path, save.at, given) or (
        depth < _MAX_DEPTH and _by_callers(program, path, given, depth)
    )


def _was_moved(program: Program, path: str, at: int, given: ir.Expr) -> bool:
    function, unit = program.function_around(Site(path, at)), program.unit(path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    before = [node for node in walk(body, False) if isinstance(node, (ir.Expr, ir.Stmt)) and node.at <= at]
    names, hosts = _sources(before, given), _hosts(unit)
    movers = {each.name for found in (path, *program.modules) for each in _movers(program, found)}
    if any(_is_moved(value, movers, hosts) for value in (given, *_given_to(before, names))):
        return True
    moves = [node for node in before if isinstance(node, ir.Call) and _moves(node, hosts) and _root(node) in names]
    last = max(moves, key=lambda node: node.at, default=None)
    return last is not None and _moves(last, hosts) == "cpu"


def _by_callers(program: Program, path: str, given: ir.Expr, depth: int) -> bool:
    """Whether a function saves what it is given, and every call of it that was read gives what was moved."""
    function = program.function_around(Site(path, given.at))
    params = [param.name for param in function.params if param.name not in {"self", "cls"}] if function else []
    names = [name for name in params if name in _names(given)]
    if function is None or len(names) != 1:
        return False
    place = params.index(names[0])
    calls = [
        (other, call)
        for other in dict.fromkeys((path, *program.modules))
        for call in of_type(program.unit(other), ir.Call)
        if (name := dotted(call.callee)) != "torch.save" and (name or "").rpartition(".")[2] == function.name
    ]
    values = [(other, call, _argument(call, place, names[0])) for other, call in calls]
    return bool(values) and all(
        value is not None
        and (
            _was_moved(program, other, call.at, value)
            or (depth + 1 < _MAX_DEPTH and _by_callers(program, other, value, depth + 1))
        )
        for other, call, value in values
    )


def _argument(call: ir.Call, place: int, name: str) -> ir.Expr | None:
    """What a call gives a parameter."""
    plain = [arg for arg in call.args if not arg.keyword]
    named = next((arg.value for arg in call.args if arg.keyword == name), None)
    return named if named is not None else plain[place].value if place < len(plain) else None


def _hosts(unit: ir.Unit | None) -> frozenset[str]:
    """Names that a file gives the host, and nothing else: ``cpu = torch.device("cpu")``."""
    given: dict[str, list[ir.Expr | None]] = {}
    for node in of_type(unit, ir.Assign):
        for name in assigned_names(node):
            given.setdefault(name, []).append(node.value)
    none: frozenset[str] = frozenset()
    return frozenset(
        name for name, values in given.items() if all(value is not None and _is_host(value, none) for value in values)
    )


def _sources(before: list[ir.Expr | ir.Stmt], given: ir.Expr) -> set[str]:
    """The names that what is saved was made of, in the same function."""
    names = _names(given)
    todo = sorted(names)  # not every name is followed: the order must not be that of a set
    while todo and len(names) < _MAX_NAMES:
        name = todo.pop()
        for value in _given_to(before, {name}):
            new = _names(value) - names
            names |= new
            todo += sorted(new)
    return names


def _given_to(before: list[ir.Expr | ir.Stmt], names: set[str]) -> Iterator[ir.Expr]:
    """What these names, or their items (``state[key] = …``), are given."""
    for node in before:
        if isinstance(node, ir.Assign) and node.value is not None:
            items = {_root(target) for target in node.targets if isinstance(target, ir.Subscript)}
            if names & (set(assigned_names(node)) | items):
                yield node.value


def _names(value: ir.Expr) -> set[str]:
    return {part.id for part in walk((ir.Evaluate(value.at, value),), True) if isinstance(part, ir.Name)}


def _movers(program: Program, path: str) -> tuple[ir.FunctionDef, ...]:
    """Functions of a file that move something to the host: ``def to_cpu(state): … state.cpu()``."""
    unit = program.unit(path)
    says = b"cpu" in (program.project.read(path) or b"")  # most files do not, and a walk through all of them is dear
    return _moving(unit) if says and unit is not None else ()


@remembered(maxsize=128)
def _moving(unit: ir.Unit) -> tuple[ir.FunctionDef, ...]:
    hosts, functions = _hosts(unit), of_type(unit, ir.FunctionDef)
    return tuple(
        each
        for each in functions
        if any(_moves(node, hosts) == "cpu" for node in walk(each.body, into_functions=False))
    )


def _is_moved(value: ir.Expr, movers: set[str], hosts: frozenset[str]) -> bool:
    """``model.cpu().state_dict()``, ``{k: v.cpu() for …}``, ``to_cpu(model.state_dict())``."""
    parts = tuple(walk((ir.Evaluate(value.at, value),), True))
    helpers = (dotted(part.callee) for part in parts if isinstance(part, ir.Call))
    return any(_moves(part, hosts) == "cpu" for part in parts) or any(name in movers for name in helpers)


def _moves(node: object, hosts: frozenset[str]) -> str:
    """``cpu`` of ``model.eval().cpu()`` and ``v.to("cpu")``; the name of another method that moves; else nothing."""
    if not isinstance(node, ir.Call) or not isinstance(node.callee, ir.Attribute):
        return ""
    name = node.callee.attr
    if name == "to" and node.args and _is_host(node.args[0].value, hosts):
        return "cpu"
    return name if name in {"cpu", "cuda", "to"} else ""


def _is_host(value: ir.Expr, hosts: frozenset[str]) -> bool:
    """``"cpu"``, ``torch.device("cpu")``, or a name for it."""
    if isinstance(value, ir.Name):
        return value.id in hosts
    if isinstance(value, ir.Call) and dotted(value.callee) in {"torch.device", "device"} and value.args:
        value = value.args[0].value
    return isinstance(value, ir.Constant) and value.value == "cpu"


def _root(node: ir.Expr) -> str:
    """``model`` of ``model.module.eval().cpu()`` and of ``model["net"]``."""
    while isinstance(node, (ir.Call, ir.Attribute, ir.Subscript)):
        node = node.callee if isinstance(node, ir.Call) else node.value
    return node.id if isinstance(node, ir.Name) else ""
