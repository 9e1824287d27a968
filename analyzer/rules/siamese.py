"""Two views of a sample that are pulled together: a predictor on the one side, a constant on the other.

Read from the text of a function, as the networks are often classes that nobody sees: ``p1 = h(z1)``, ``p2 = h(z2)``,
``D(p1, z2) + D(p2, z1)``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from analyzer.engine.program import Program, functions
from analyzer.engine.trace import Site
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, walk

_PULLS = frozenset(["cosine_similarity", "CosineSimilarity", "mse_loss", "MSELoss", "smooth_l1_loss"])
_MAX_CALLS = 60
_STOPS = frozenset([".detach", ".data", "no_grad", ".no_grad", ".stop_gradient", "inference_mode", ".inference_mode"])


@dataclass(frozen=True, slots=True)
class Pair:
    """Where one view is compared with the other: the first call, what is predicted and what stays as it is."""

    compared: Site
    predicted: Site
    other: Site
    name: str


def pairs(program: Program) -> Iterator[Pair]:
    """The comparisons of the target file both sides of which carry gradients."""
    path = next(iter(program.modules), "")
    unit = program.unit(path)
    source = program.project.read(path) or b""
    if unit is None or not any(word.encode() in source for word in _PULLS):
        return
    for function, _ in functions(unit):
        nodes = list(walk(function.body, False))
        calls = _assigned(nodes)
        compared = [node for node in nodes if isinstance(node, ir.Call) and _may_compare(node, calls)]
        if not 2 <= len(compared) <= _MAX_CALLS or not _STOPS.isdisjoint(spelled_in(function.body)):
            continue
        for one, two in itertools.combinations(sorted(compared, key=lambda node: node.at), 2):
            found = _views(one, two, calls)
            if found is not None and _pulls(unit, one):
                predicted, other = found
                yield Pair(
                    Site(path, one.at), Site(path, predicted.at), Site(path, other.at), dotted(one.args[1].value) or ""
                )
                break


def _may_compare(call: ir.Call, calls: dict[str, ir.Call]) -> bool:
    """Whether the second of two arguments is a name that a call gave."""
    second = call.args[1].value if len(call.args) > 1 else None
    return isinstance(second, ir.Name) and second.id in calls


def spelled_in(body: ir.Block) -> frozenset[str]:
    """The names that a body says."""
    exprs = (node for node in walk(body, True) if isinstance(node, (ir.Name, ir.Attribute)))
    return frozenset(f".{node.attr}" if isinstance(node, ir.Attribute) else node.id for node in exprs)


def _assigned(nodes: Iterable[object]) -> dict[str, ir.Call]:
    """The calls that names get their only value from."""
    found: dict[str, list[ir.Expr | None]] = {}
    for node in nodes:
        if not isinstance(node, ir.Assign) or node.value is None or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        sides = [(target, value)]
        if isinstance(target, ir.Display):
            items = value.items if isinstance(value, ir.Display) else ()
            sides = list(itertools.zip_longest(target.items, items if len(items) == len(target.items) else ()))
        for one, given in sides:
            if isinstance(one, ir.Name):
                found.setdefault(one.id, []).append(given)
    return {name: values[0] for name, values in found.items() if len(values) == 1 and isinstance(values[0], ir.Call)}


def _views(one: ir.Call, two: ir.Call, calls: dict[str, ir.Call]) -> tuple[ir.Call, ir.Call] | None:
    """``D(h(z1), z2)`` and ``D(h(z2), z1)`` with one predictor, and one network that gives both views."""
    if dotted(one.callee) != dotted(two.callee) or dotted(one.callee) is None:
        return None
    (left, right), (left2, right2) = ((call.args[0].value, call.args[1].value) for call in (one, two))
    first, second = (calls.get(side.id) if isinstance(side, ir.Name) else side for side in (left, left2))
    if not (isinstance(first, ir.Call) and isinstance(second, ir.Call) and first.args and second.args):
        return None
    if not (isinstance(right, ir.Name) and isinstance(right2, ir.Name) and right.id != right2.id):
        return None
    head = dotted(first.callee)
    is_crossed = dotted(first.args[0].value) == right2.id and dotted(second.args[0].value) == right.id
    views = calls.get(right.id), calls.get(right2.id)
    if head is None or dotted(second.callee) != head or not is_crossed or views[0] is None or views[1] is None:
        return None
    maker = dotted(views[0].callee)
    return (first, views[0]) if maker is not None and maker == dotted(views[1].callee) and maker != head else None


def _pulls(unit: ir.Unit, call: ir.Call) -> bool:
    """Whether a call measures how near two things are, with nothing that they are kept apart from."""
    name = last_name(call.callee)
    if name in _PULLS:
        return True
    for node in walk(unit.body, True):
        if isinstance(node, ir.FunctionDef) and node.name == name:
            said = {each.lstrip(".") for each in spelled_in(node.body)}
            return bool(said & _PULLS) and _STOPS.isdisjoint(spelled_in(node.body))
        made = node.value if isinstance(node, ir.Assign) else None
        if isinstance(node, ir.Assign) and isinstance(made, ir.Call) and dotted(node.targets[0]) == dotted(call.callee):
            return last_name(made.callee) in _PULLS
    return False
