"""The acts of a training step as their text says them: what is called ``optimizer``, ``scaler`` or ``scheduler`` does
what it is called to do, whatever made it. For notes alone, where an object came from code that was not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.knowledge.words import pattern
from analyzer.records import dataclass
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, last_name, of_type, walk

ActKind = Literal["backward", "step", "clear", "clip", "unscale", "scaled step", "update", "schedule"]
_TRAINS = re.compile(rb"\.backward\(")
_CLIPS = frozenset(["clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"])
_LONGEST = 80
"""Longer names are nobody's, and would be searched for long."""


@dataclass(frozen=True, slots=True, eq=False)
class Act:
    """One call of a training step. `of`: what it is called on (``self.optimizer``), or the network that is clipped.
    `guards`: the conditions around, by their number, and which way they went. `block`: the statements it is one of, by
    the number of the first one, and `place`, which of them."""

    kind: ActKind
    of: str
    call: ir.Call
    loops: tuple[int, ...]
    guards: tuple[tuple[int, bool], ...]
    block: int
    place: int

    @property
    def at(self) -> int:
        """The number of the call."""
        return self.call.at

    @property
    def name(self) -> str:
        """The last name of what it is called on."""
        return self.of.rpartition(".")[2]


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """What the body of a function, or of a file, does by its text, in order."""

    path: str
    function: ir.FunctionDef | None
    body: ir.Block
    acts: tuple[Act, ...]

    def of(self, *kinds: ActKind) -> list[Act]:
        """The acts of some kinds, in order."""
        return [act for act in self.acts if act.kind in kinds]

    def site(self, act: Act) -> Site:
        """Where an act stands."""
        return Site(self.path, act.at)


def spoken(program: Program) -> Iterator[Spoken]:
    """The bodies of the program's files in which something runs backward."""
    for path in program.modules:
        unit = program.unit(path) if _TRAINS.search(program.project.read(path) or b"") else None
        yield from _bodies(unit) if unit is not None else ()


@remembered(maxsize=128)
def _bodies(unit: ir.Unit) -> tuple[Spoken, ...]:
    found = []
    for function in (None, *of_type(unit, ir.FunctionDef)):
        body = unit.body if function is None else function.body
        acts = tuple(acts_of(body))
        if any(act.kind == "backward" for act in acts):
            found.append(Spoken(unit.path, function, body, acts))
    return tuple(found)


def acts_of(body: ir.Block) -> Iterator[Act]:
    """The acts of a body, in order, whether anything in it runs backward or not."""
    return _of_block(body, (), ())


def _of_block(block: ir.Block, loops: tuple[int, ...], guards: tuple[tuple[int, bool], ...]) -> Iterator[Act]:
    first = block[0].at if block else 0
    for place, node in enumerate(block):
        if isinstance(node, (ir.For, ir.While)):
            yield from _of_block(node.body, (*loops, node.at), guards)
            yield from _of_block(node.orelse, loops, guards)
        elif isinstance(node, ir.If):
            yield from _of_block(node.body, loops, (*guards, (node.at, True)))
            yield from _of_block(node.orelse, loops, (*guards, (node.at, False)))
        elif isinstance(node, ir.With):
            yield from _of_block(node.body, loops, guards)
        elif isinstance(node, ir.Try):
            for part in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.final):
                yield from _of_block(part, loops, guards)
        elif isinstance(node, (ir.Evaluate, ir.Assign, ir.Return)) and isinstance(node.value, ir.Call):
            kind, of = _act(node.value)
            if kind is not None and len(of) <= _LONGEST:
                yield Act(kind, of, node.value, loops, guards, first, place)


def _act(call: ir.Call) -> tuple[ActKind | None, str]:
    callee = call.callee
    if last_name(callee) in _CLIPS:
        return "clip", _network(call)
    if not isinstance(callee, ir.Attribute):
        return None, ""
    of = dotted(callee.value) or ""
    if callee.attr == "backward":
        return "backward", of
    if callee.attr == "zero_grad":
        return "clear", of
    name = of.rpartition(".")[2]
    if callee.attr in {"unscale_", "update", "step"} and is_scaler(name):
        return {"unscale_": "unscale", "update": "update", "step": "scaled step"}[callee.attr], of  # type: ignore[return-value]
    if callee.attr == "step" and is_scheduler(name):
        return "schedule", of
    if callee.attr == "step" and is_optimizer(name):
        return "step", of
    return None, ""


def _network(call: ir.Call) -> str:
    """``self.critic`` of ``clip_grad_norm_(self.critic.parameters(), …)``."""
    given = call.args[0].value if call.args else None
    of = given.callee if isinstance(given, ir.Call) else None
    return (dotted(of.value) or "") if isinstance(of, ir.Attribute) and of.attr == "parameters" else ""


def is_optimizer(name: str) -> bool:
    """Whether something is called an optimizer."""
    return bool(name) and pattern("optimizer").search(name) is not None


def is_scheduler(name: str) -> bool:
    """Whether something is called a scheduler of learning rates."""
    return bool(name) and pattern("scheduler").search(name) is not None


def is_scaler(name: str) -> bool:
    """Whether something is called a gradient scaler."""
    return bool(name) and pattern("scaler").search(name) is not None


def is_scaled(backward: Act) -> str:
    """The scaler of ``scaler.scale(loss).backward()``, or nothing."""
    callee = backward.call.callee
    scaled = callee.value if isinstance(callee, ir.Attribute) else None
    of = scaled.callee if isinstance(scaled, ir.Call) else None
    name = dotted(of.value) if isinstance(of, ir.Attribute) and of.attr == "scale" else None
    return name if name and is_scaler(name.rpartition(".")[2]) else ""


def are_apart(one: Act, other: Act) -> bool:
    """Whether two acts stand in different branches of one condition."""
    return any((at, not way) in other.guards for at, way in one.guards)


def is_handed_on(body: ir.Block, names: frozenset[str], besides: frozenset[int] = frozenset()) -> bool:
    """Whether any of these is an argument of a call that may step, reset or scale."""
    for node in walk(body, into_functions=True):
        if isinstance(node, ir.Call) and node.at not in besides:
            for arg in node.args:
                if (dotted(arg.value) or "").rpartition(".")[2] in names and not _only_reads(node):
                    return True
    return False


def _only_reads(call: ir.Call) -> bool:
    """What makes a scheduler, saves a checkpoint or sets a learning rate."""
    name, full = last_name(call.callee), dotted(call.callee) or ""
    is_kept = len(call.args) > 1 and pattern("keeps an optimizer").search(name) is not None
    return is_kept or is_scheduler(full or name) or pattern("reads an optimizer").search(name) is not None
