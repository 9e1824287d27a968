"""Over which loops a running sum adds up: those inside of which nothing begins it anew."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.engine.events import Loop, Store
from analyzer.engine.program import Program
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, each_target, target_names, walk


def born_under(program: Program, store: Store) -> int:
    """How many of the loops around a running sum are around its beginning as well. It lives at least over the innermost
    one: it was seen to hold what an earlier iteration left."""
    least = max(0, len(store.loops) - 1)
    target = _target(program, store)
    if isinstance(target, ir.Subscript) and isinstance(target.value, ir.Name):
        target = target.value  # ``sums[name] += loss``: an item begins with the dict
    if isinstance(target, ir.Name):
        return min(least, _of_name(program, store, target.id, least))
    if isinstance(target, ir.Attribute) and store.owner is not None:
        return min(least, _of_attribute(program, store, target.attr, len(program.objects[store.owner].loops)))
    return least


def is_set_back(program: Program, store: Store) -> bool:
    """Whether every n-th iteration begins what is kept anew (``if step % 100 == 0: …; total = 0``): it holds no more
    than the iterations between two logs."""
    bodies = [_body(program, loop) or () for loop in store.loops if loop.site.path == store.site.path][-1:]
    target = _target(program, store) or next((found for body in bodies for found in _appended_to(body, store)), None)
    name = dotted(target) if target is not None else None
    return name is not None and any(
        isinstance(each, ir.Assign) and each.at != store.site.at and name in map(dotted, each_target(each))
        for body in bodies
        for branch in walk(body, False)
        if isinstance(branch, ir.If) and _is_every_nth(branch.test)
        for each in walk(branch.body, False)
    )


def _target(program: Program, store: Store) -> ir.Expr | None:
    """What a running sum is assigned to."""
    node = words(program).node(store.site)
    return node.target if isinstance(node, ir.Augment) else node.targets[0] if isinstance(node, ir.Assign) else None


def _appended_to(body: ir.Block, store: Store) -> Iterator[ir.Expr]:
    """``losses`` of ``losses.append(loss)``."""
    for node in walk(body, False):
        if not isinstance(node, ir.Call) or not isinstance(node.callee, ir.Attribute):
            continue
        if any(arg.value.at == store.value_at for arg in node.args):
            yield node.callee.value


def _is_every_nth(test: ir.Expr) -> bool:
    parts = walk((ir.Evaluate(test.at, test),), False)
    return any(isinstance(part, ir.Operation) and part.op == "%" for part in parts)


def _of_name(program: Program, store: Store, name: str, least: int) -> int:
    """A variable begins with the call of its function, or where it is given another value."""
    function = program.function_around(store.site)
    own = [index for index, loop in enumerate(store.loops) if loop.depth == len(store.calls)]
    if not own or (function is not None and name in function.outer):
        return least
    born = own[0]
    for index in own:
        body = _body(program, store.loops[index])
        if body is None or any(_gives(each, name, store) for each in walk(body, False)):
            born = index + 1
    return born


def _gives(node: object, name: str, store: Store) -> bool:
    """Whether a statement gives a variable a value, and is not the sum itself."""
    if isinstance(node, ir.For):
        return name in target_names(node.target)
    if not isinstance(node, ir.Assign) or node.at == store.site.at:
        return False
    return any(name in target_names(target) for target in node.targets)


def _of_attribute(program: Program, store: Store, name: str, born: int) -> int:
    """An attribute begins with its object, or where a method is called that gives it a value (``meter.reset()``)."""
    setters = _setters(program, store, name)
    for index, loop in enumerate(store.loops[born:], born):
        body = _body(program, loop)
        if body is None or any(_sets(each, name, setters, store) for each in walk(body, False)):
            born = index + 1
    return born


def _setters(program: Program, store: Store, name: str) -> set[str]:
    """The methods of the class, but its constructor, that give an attribute a value."""
    function, unit = program.function_around(store.site), program.unit(store.site.path)
    classes = (each for each in walk(unit.body, True) if isinstance(each, ir.ClassDef)) if unit is not None else ()
    own = next((each for each in classes if any(part is function for part in each.body)), None)
    methods = [each for each in own.body if isinstance(each, ir.FunctionDef)] if own is not None else []
    return {
        method.name
        for method in methods
        if method.name != "__init__" and any(_sets(each, name, set(), store) for each in walk(method.body, False))
    }


def _sets(node: object, name: str, setters: set[str], store: Store) -> bool:
    if isinstance(node, ir.Call):
        return isinstance(node.callee, ir.Attribute) and node.callee.attr in setters
    if not isinstance(node, ir.Assign) or node.at == store.site.at:
        return False
    return any((dotted(target) or "").endswith(f".{name}") for target in node.targets)


def _body(program: Program, loop: Loop) -> ir.Block | None:
    """What a loop repeats, where its statement is at hand; a framework repeats what was read."""
    statement = program.statement_of(loop)
    return statement.body if statement is not None else () if loop.kind == "framework" else None
