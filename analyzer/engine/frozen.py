"""Parameters that ask for no gradient: which modules are frozen, and which of these run in train mode all the same.

That a module is frozen is a place of it (``is frozen``), whose trace is the line that says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from analyzer.engine import modes
from analyzer.engine.events import Event
from analyzer.engine.state import FALSE, GRAD_OFF, State
from analyzer.engine.trace import Trace, start
from analyzer.engine.values import Class, Const, External, Method, ObjectId, Ref, Scalar, Tensor, Value, const, truth
from analyzer.records import dataclass
from analyzer.syntax import ir

if TYPE_CHECKING:
    from analyzer.engine.effects import Effects
    from analyzer.engine.machine import Machine

FLAG = "is frozen"
SAID = "frozen here"
"""A place of a module: what code seen said last, whether or not a loop over parameters or a branch is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenInTrain(Event):
    """A forward pass goes through a frozen module that something seen has put into train mode, and that minds the
    mode. `parts`: what it holds."""

    module: ObjectId
    parts: frozenset[ObjectId]
    freeze: Trace
    switch: Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftInTrain(Event):
    """A forward pass goes through a frozen network that minds the mode, that the text has made, and whose mode nothing
    seen has set: the one it was made in."""

    module: ObjectId
    parts: frozenset[ObjectId]
    freeze: Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByNobody(Event):
    """A module that the text has made leaves its constructor with a frozen part, or one that was put into evaluation
    mode, and its class does not say what ``train()`` does: the next call of it switches that part as well."""

    owner: ObjectId
    module: ObjectId
    parts: frozenset[ObjectId]
    why: Trace
    is_asleep: bool


def note_kept(machine: Effects, cls: Class, ref: Ref, state: State) -> None:
    """After ``__init__``: what of a module is meant to stay as it is, and does not."""
    if machine.obj(ref).kind != "Module" or not _is_plain(cls):
        return
    for name, value in state.fields(ref.obj):
        case = value if isinstance(value, Ref) and not name.startswith(("is ", "[")) else None
        if case is None or case.obj < ref.obj or not machine.is_module(case):
            continue
        where, asleep = said(state.get((case.obj, SAID)), True), said(state.get((case.obj, modes.FLAG)), True)
        if where is None or modes.dependence(machine, case, state) != "yes":
            continue
        machine.emit(
            HeldByNobody, where.site.at, None, owner=ref.obj, module=case.obj, why=where,
            parts=machine.with_parts(frozenset({case.obj}), state), is_asleep=asleep is not None,
        )  # fmt: skip


def _is_plain(cls: Class) -> bool:
    """Whether ``train()`` of a class is that of ``nn.Module``."""
    names = [case.name for base in cls.bases for case in base.cases if isinstance(case, External)]
    own = {node.name for node in cls.node.body if isinstance(node, ir.FunctionDef)}
    return (
        len(names) == len(cls.bases)
        and set(names) <= {"torch.nn.Module", "torch.nn.modules.Module"}
        and "train" not in own
    )


def asked(machine: Effects, subject: Value | None, wanted: Value | None, at: int, state: State) -> None:
    """``requires_grad_(…)`` of a module, with its parts, or of a parameter."""
    is_trained = True if wanted is None else truth(wanted)
    for case in subject.cases if subject is not None else ():
        if isinstance(case, Ref):
            freeze(machine, (case.obj,), is_trained, at, state)
            machine.switch(case, FLAG, Scalar("bool") if is_trained is None else const(not is_trained), state)
        elif isinstance(case, Tensor):
            freeze(machine, machine.with_parts(case.param_of, state), is_trained, at, state)


def freeze(machine: Machine, modules: Iterable[ObjectId], is_trained: bool | None, at: int, state: State) -> None:
    """``p.requires_grad = False`` of the parameters of modules."""
    site = machine.site(at)
    value = (
        Scalar("bool") if is_trained is None else const(not is_trained, start(site, "its parameters are frozen here"))
    )
    for module in modules:
        if is_trained is False:
            machine.frozen_under[site] = machine.guards
        elif is_trained:
            was_frozen = said(state.get((module, SAID)), True) is not None
            machine.thawed.setdefault(module, set()).add((site, was_frozen))
        if is_trained is False or state.get((module, FLAG)) is not None:
            state.set((module, FLAG), value)
            state.set((module, SAID), value)


def freeze_one(machine: Machine, parameter: Method, is_trained: bool | None, at: int, state: State) -> None:
    """``layer.weight.requires_grad = False``: all that a layer without bias has, or a part of it."""
    ref = parameter.receiver
    if is_trained is not False or not isinstance(ref, Ref) or not machine.is_module(ref):
        return
    bias = dict(machine.obj(ref).arguments).get("bias")
    if parameter.name == "weight" and bias is not None and truth(bias) is False:
        freeze(machine, (ref.obj,), False, at, state)
    elif state.flag(ref.obj, FLAG) is False:
        state.set((ref.obj, FLAG), Scalar("bool"))


def thaw(machine: Machine, owner: ObjectId, value: Value, state: State) -> None:
    """A frozen module gets a layer that is not: what it gives has a graph from there on."""
    new = [case for case in value.cases if isinstance(case, Ref) and machine.is_module(case)]
    if state.flag(owner, FLAG) is True and new and not any(state.flag(case.obj, FLAG) for case in new):
        state.set((owner, FLAG), FALSE)


def thaw_unseen(wanted: Value | None, state: State) -> None:
    """Gradients are asked for parameters that were not told: any frozen module may have them."""
    if wanted is None or truth(wanted) is True:
        for obj in state.objects_with(FLAG):
            if isinstance(obj, int) and state.flag(obj, FLAG) is True:
                state.set((obj, FLAG), Scalar("bool"))


def settle(again: State, after: State) -> None:
    """After a loop over parameters: a module that has one has frozen it, for it runs at least once."""
    for obj in again.objects_with(FLAG):
        value = again.get((obj, FLAG))
        if isinstance(value, Const) and value.value is True:
            after.set((obj, FLAG), value)


def note(machine: Effects, ref: Ref, at: int, state: State) -> None:
    """A forward pass of a module: are any frozen parts of it in train mode?"""
    if not machine.frozen_under:
        return
    for part in machine.with_parts(frozenset({ref.obj}), state):
        where, switch = said(state.get((part, SAID)), True), said(state.get((part, modes.FLAG)), False)
        if switch is None and state.get((part, modes.FLAG)) is None and machine.objects[part].born != "eval":
            switch = trained_by_framework(machine)
        if where is not None and switch is None and part == ref.obj:
            _note_left(machine, ref, where, at, state)
        if where is None or switch is None or not set(machine.frozen_under[where.site]) <= set(machine.guards):
            continue
        if modes.dependence(machine, Ref(part), state) == "yes":
            parts = machine.with_parts(frozenset({part}), state)
            machine.emit(FrozenInTrain, at, None, module=part, parts=parts, freeze=where, switch=switch)


def _note_left(machine: Effects, ref: Ref, where: Trace, at: int, state: State) -> None:
    """Has anything set the mode of a frozen network? It runs without gradients: a part of it may have been thawed by
    a name that is not known."""
    if state.flag(*GRAD_OFF) is not True:
        return
    parts = machine.with_parts(frozenset({ref.obj}), state)
    if any(state.get((part, modes.FLAG)) is not None for part in parts) or machine.obj(ref).born:
        return
    if set(machine.frozen_under[where.site]) <= set(machine.guards) and modes.dependence(machine, ref, state) == "yes":
        machine.emit(LeftInTrain, at, None, module=ref.obj, parts=parts, freeze=where)


def trained_by_framework(machine: Machine) -> Trace | None:
    """The loop of a framework that trains what it is given in train mode, if a hook of it runs."""
    loop = next((each for each in machine.loops if each.kind == "framework"), None)
    return loop.trace if loop is not None and loop.part.startswith("training") else None


def said(value: Value | None, wanted: bool) -> Trace | None:
    """Where it is said that a flag has this value, if it surely has."""
    return value.trace if isinstance(value, Const) and value.value is wanted else None
