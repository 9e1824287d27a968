"""Whether code does itself what ``nn.Module`` would do for a registered part: asks what an attribute holds for its
parameters, moves it, switches it, saves it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from analyzer.engine.program import Program
from analyzer.syntax import ir
from analyzer.syntax.scope import base_name, target_names, walk

_DOES = frozenset([
    "parameters", "named_parameters", "to", "cuda", "cpu", "half", "state_dict", "load_state_dict", "train", "eval",
    "zero_grad", "requires_grad_", "apply", "_apply",
])  # fmt: skip
_DONE = re.compile(
    rb"\.(?:parameters|named_parameters|to|cuda|cpu|half|state_dict|load_state_dict|train|eval|zero_grad"
    rb"|requires_grad_|apply)\("
)


def is_handled(program: Program, name: str, path: str) -> bool:
    """Whether a place of the program, or of a file of the tree that names the attribute, does so with what stands in
    an attribute `name`: ``for layer in net.layers: layer.to(device)``, ``net.layers[0].parameters()``."""
    others = (other for other in program.project.naming(name, path, _DONE) if program.project.imports(other, path))
    for each in (path, *others):
        unit = program.unit(each)
        if unit is not None and any(_handles(node, name) for node in walk(unit.body, True)):
            return True
    return False


def is_stored_by_hand(function: ir.FunctionDef, name: str) -> bool:
    """Whether a function asks what it stores in an attribute for its parameters, or moves it, under a name of its own:
    ``params += list(layer.parameters()); self.layers.append(layer)``."""
    stored: set[str] = set()
    for node in walk(function.body, False):
        value = node.value if isinstance(node, ir.Evaluate) else None
        if isinstance(node, (ir.Assign, ir.Augment)) and node.value is not None:
            targets = node.targets if isinstance(node, ir.Assign) else (node.target,)
            stored |= _said(node.value) if any(_is_of(each, name) for each in targets) else set()
        elif isinstance(value, ir.Call) and isinstance(value.callee, ir.Attribute) and _is_of(value.callee.value, name):
            stored |= {each for arg in value.args for each in _said(arg.value)}
    return _does(walk(function.body, True), stored)


def _said(node: ir.Expr) -> set[str]:
    return {part.id for part in _parts(node) if isinstance(part, ir.Name)} - {"self"}


def is_read_elsewhere(program: Program, name: str, path: str) -> bool:
    """Whether code outside the classes of a file reads an attribute, or another file that imports it does: whoever
    reads a parameter may hand it to an optimizer."""
    unit = program.unit(path)
    outside = tuple(node for node in (unit.body if unit is not None else ()) if not isinstance(node, ir.ClassDef))
    others = (other for other in program.project.naming(name, path) if program.project.imports(other, path))
    bodies = [outside, *(found.body for other in others if (found := program.unit(other)) is not None)]
    return any(isinstance(node, ir.Attribute) and node.attr == name for body in bodies for node in walk(body, True))


def _handles(node: object, name: str) -> bool:
    if isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute) and node.callee.attr in _DOES:
        return _is_of(node.callee.value, name)
    if isinstance(node, ir.For):
        return _mentions(node.iter, name) and _does(walk(node.body, True), set(target_names(node.target)))
    if isinstance(node, ir.Comprehension):
        over = {each for clause in node.clauses if _mentions(clause.iter, name) for each in target_names(clause.target)}
        return bool(over) and _does(walk((ir.Evaluate(node.at, node),), True), over)
    return False


def _is_of(node: ir.Expr, name: str) -> bool:
    """``net.layers``, ``net.layers[0]``, ``net.layers[0].cell``."""
    while isinstance(node, (ir.Attribute, ir.Subscript)):
        if isinstance(node, ir.Attribute) and node.attr == name:
            return True
        node = node.value
    return False


def _mentions(node: ir.Expr, name: str) -> bool:
    return any(isinstance(part, ir.Attribute) and part.attr == name for part in _parts(node))


def _parts(node: ir.Expr) -> Iterator[object]:
    return walk((ir.Evaluate(node.at, node),), True)


def _does(nodes: Iterable[object], names: set[str]) -> bool:
    """Whether one of these methods is called on what one of the names holds."""
    calls = (node.callee for node in nodes if isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute))
    return any(callee.attr in _DOES and base_name(callee.value) in names for callee in calls)
