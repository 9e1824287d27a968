"""What a condition says of the values it asks about: where it holds, or does not, they are no tensors or have no graph.

A condition is read for what it *excludes*: ``isinstance(v, torch.Tensor)``, ``torch.is_tensor(v)``,
``hasattr(v, "item")``, ``type(v) is float``, ``v.requires_grad``, ``v is not None``, and ``not``, ``and``, ``or`` of
these. It may ask about a name, an attribute or an item under a constant key. So does ``except AttributeError`` of what
was asked for an attribute that every tensor has. Where neither branch gives the place another value, it holds
afterwards what it held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal, NamedTuple

from analyzer.engine.graphs import without_graph
from analyzer.engine.machine import CONTAINERS, Machine, unseen
from analyzer.engine.state import Place, State
from analyzer.engine.trace import Site
from analyzer.engine.values import Const, Ref, Tensor, Unknown, Value, union
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, last_name, walk

Excluded = Literal["tensor", "graph", "none"]
_PAIR = 2
_TENSORS = frozenset(["Tensor", "Variable", "FloatTensor", "Parameter"])
_NUMBERS = frozenset(
    [
        "int", "float", "bool", "str", "complex", "bytes", "Number", "Real", "Integral", "number", "generic",
        "floating", "integer", "float32", "float64", "ndarray",
    ]
)  # fmt: skip
"""Classes of which no tensor is, and that hold none."""
_OF_TENSORS = frozenset(
    [
        "item", "detach", "cpu", "cuda", "numpy", "tolist", "backward", "grad", "grad_fn", "requires_grad", "shape",
        "size", "dim", "numel", "device", "dtype", "data", "mean", "to",
    ]
)  # fmt: skip
"""Attributes that every tensor has: what lacks one is none."""


class Claim(NamedTuple):
    """What a condition excludes of an expression."""

    of: ir.Expr
    what: Excluded


class Change(NamedTuple):
    """A place on a branch: what it held and what is left of that."""

    place: Place
    before: Value
    after: Value


@remembered(maxsize=8192)
def claims(test: ir.Expr, holds: bool) -> tuple[Claim, ...]:
    """What is excluded where a condition holds, or where it does not."""
    return tuple(_claims(test, holds))


def _claims(test: ir.Expr, holds: bool) -> Iterator[Claim]:
    if isinstance(test, ir.Operation):
        if test.right is None:
            if test.op == "not":
                yield from _claims(test.left, not holds)
        elif test.op == ("and" if holds else "or"):
            yield from _claims(test.left, holds)
            yield from _claims(test.right, holds)
        elif test.op in {"and", "or"}:  # one of the two: what both exclude is excluded
            left, right = (
                [claim for claim in _claims(side, holds) if claim.what != "none"] for side in (test.left, test.right)
            )
            others = {dotted(claim.of) for claim in right} - {None}
            yield from (Claim(claim.of, "graph") for claim in left if dotted(claim.of) in others)
        else:
            yield from _of_type(test, holds)
    elif isinstance(test, ir.Call):
        yield from _of_call(test, holds)
    elif isinstance(test, ir.Attribute) and test.attr == "requires_grad" and not holds:
        yield Claim(test.value, "graph")


def _of_call(test: ir.Call, holds: bool) -> Iterator[Claim]:
    name = last_name(test.callee)
    given = [arg.value for arg in test.args]
    if name == "is_tensor" and len(given) == 1 and not holds:
        yield Claim(given[0], "tensor")
    if len(given) != _PAIR:
        return
    of, other = given
    is_class = name == "isinstance" and _excludes(_classes(other), holds)
    lacks = name == "hasattr" and not holds and isinstance(other, ir.Constant) and other.value in _OF_TENSORS
    if is_class or lacks:
        yield Claim(of, "tensor")


def _of_type(test: ir.Operation, holds: bool) -> Iterator[Claim]:
    """``type(v) is float``, ``type(v) in (int, float)``, ``v.grad_fn is None``."""
    left, right = test.left, test.right
    assert right is not None
    is_same = holds if test.op in {"==", "is", "in"} else not holds if test.op in {"!=", "is not", "not in"} else None
    if is_same is None:
        return
    if isinstance(left, ir.Call) and dotted(left.callee) == "type" and len(left.args) == 1:
        if _excludes(_classes(right), is_same):
            yield Claim(left.args[0].value, "tensor")
    elif isinstance(left, ir.Attribute) and left.attr == "grad_fn" and is_same and _is_none(right):
        yield Claim(left.value, "graph")
    elif test.op in {"is", "is not"} and not is_same and _is_none(right):
        yield Claim(left, "none")


def _is_none(expr: ir.Expr) -> bool:
    return isinstance(expr, ir.Constant) and expr.value is None


def _classes(expr: ir.Expr) -> frozenset[str]:
    """The last names of the classes that an expression names."""
    parts = expr.items if isinstance(expr, ir.Display) else (expr,)
    return frozenset(last_name(part) or "?" for part in parts)


def _excludes(classes: frozenset[str], is_one: bool) -> bool:
    """Whether what is one of these classes, or none of them, is no tensor."""
    return classes <= _NUMBERS if is_one else bool(classes & _TENSORS)


@remembered(maxsize=2048)
def caught(body: ir.Block, handler: ir.Handler) -> tuple[Claim, ...]:
    """What is excluded where an ``except AttributeError`` is entered: what the body asked for what every tensor has.
    Where the body asks two values, either may be the one."""
    if handler.type is None or "AttributeError" not in _classes(handler.type):
        return ()
    asked = {
        dotted(part.value): part.value for part in walk(body, into_functions=False)
        if isinstance(part, ir.Attribute) and part.attr in _OF_TENSORS
    }  # fmt: skip
    return tuple(Claim(of, "tensor") for name, of in asked.items() if len(asked) == 1 and name is not None)


def narrow(machine: Machine, test: ir.Expr, holds: bool, state: State, branch: tuple[object, ...]) -> list[Change]:
    """Exclude on a path what a condition does that holds there, or does not; `branch` is what runs there."""
    return exclude(machine, claims(test, holds), state, branch)


def exclude(machine: Machine, claimed: Iterable[Claim], state: State, branch: tuple[object, ...]) -> list[Change]:
    """Exclude on a path what is claimed of its values; `branch` is what runs there."""
    changed: list[Change] = []
    for claim in claimed:
        place = _place(machine, claim.of, state)
        held = state.get(place) if place is not None else None
        if place is None or held is None:
            continue
        left = _left(held, claim.what, machine.site(claim.of.at), partial(_is_taken_apart, claim.of, branch))
        if left is not held:
            state.set(place, left)
            changed.append(Change(place, held, left))
    return changed


def settle(yes: State | None, no: State | None, changes: tuple[list[Change], list[Change]], met: State | None) -> None:
    """After a branch: a place that neither path gave another value holds what it held."""
    if yes is None or no is None or met is None:
        return
    for change in (*changes[0], *changes[1]):
        left = (change.before, change.after)
        if all(any(path.get(change.place) is value for value in left) for path in (yes, no)):
            met.set(change.place, change.before)


def _left(value: Value, what: Excluded, site: Site, is_taken_apart: Callable[[], bool]) -> Value:
    """What is left of a value that is no tensor, or has no graph. What an unread model gives may be anything that holds
    tensors: where it is taken apart as such, it stays."""
    if what == "none":
        others = [case for case in value.cases if not (isinstance(case, Const) and case.value is None)]
        return union(others) if 0 < len(others) < len(value.cases) else value
    holding = [case for case in value.cases if isinstance(case, (Tensor, Unknown)) and case.roots]
    if not holding:
        return value
    if what == "graph":
        return union(without_graph(case) for case in value.cases)
    if all(isinstance(case, Unknown) or case.is_opaque for case in holding) and is_taken_apart():
        return value
    others = [case for case in value.cases if not isinstance(case, Tensor) and case not in holding]
    return union(others) if others else unseen("no tensor", site)


def _is_taken_apart(of: ir.Expr, branch: tuple[object, ...]) -> bool:
    """Whether an attribute or an item of an expression is asked for."""
    name = dotted(of)
    return name is not None and any(
        isinstance(part, (ir.Attribute, ir.Subscript)) and dotted(part.value) == name
        for part in walk(branch, into_functions=False)
    )


def _place(machine: Machine, of: ir.Expr, state: State) -> Place | None:
    """The place that an expression names, if it is one."""
    if isinstance(of, ir.Name):
        return machine.frame.scope, of.id
    if isinstance(of, ir.Attribute):
        receiver, name = of.value, of.attr
    elif isinstance(of, ir.Subscript) and isinstance(of.index, ir.Constant):
        receiver, name = of.value, f"[{of.index.value!r}]"
    else:
        return None
    held = machine.evaluate(receiver, state)
    is_item = isinstance(held, Ref) and machine.obj(held).kind in CONTAINERS
    return (held.obj, name) if isinstance(held, Ref) and is_item is isinstance(of, ir.Subscript) else None
