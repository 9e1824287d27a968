"""State dicts: the entries share memory with the module until somebody copies them.

A state dict is an object of kind ``StateDict`` that remembers its modules. A training step of one of these makes it
stale (a place of it, ``is stale``); asking for it anew makes it fresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from analyzer.engine.events import Step
from analyzer.engine.machine import CONTAINERS
from analyzer.engine.mode_events import ModuleNamed, WeightsKept, WeightsRestored, WeightsUsed
from analyzer.engine.state import STALE, State
from analyzer.engine.trace import Gap, Trace, start
from analyzer.engine.values import Const, ObjectId, Ref, Value, const, references
from analyzer.syntax import ir

if TYPE_CHECKING:
    from analyzer.engine.containers import Containers
    from analyzer.engine.effects import Effects
    from analyzer.engine.machine import Args, Machine

KIND = "StateDict"
_BORN = "weights"


def made(machine: Machine, receiver: Value, at: int, state: State) -> Ref:
    """``module.state_dict()``."""
    known = isinstance(receiver, Ref)
    modules = frozenset({receiver.obj}) if isinstance(receiver, Ref) else frozenset()
    ref = machine.create(
        "state dict", at, KIND, "these are the weights themselves, not a copy", modules=modules, born=_BORN,
        gap=None if known else Gap.CONVENTION,
    )  # fmt: skip
    # not `FALSE`: who reads it here is told apart from who reads an older one
    state.set((ref.obj, STALE), const(False))
    return ref


def trained(machine: Effects, modules: frozenset[ObjectId], trace: Trace, state: State) -> None:
    """A step: state dicts of these modules, or of ones that are not known, hold other numbers now."""
    if _BORN not in machine.births:
        return
    for obj in state.objects_with(STALE):
        mine = machine.objects[obj].modules if isinstance(obj, int) else frozenset()
        if modules and mine and not modules & machine.with_parts(mine, state):
            continue
        why = trace if modules and mine else trace.then(trace.site, "what it updates is not seen", Gap.CONVENTION)
        state.set((obj, STALE), const(True, why))


def are_gone(machine: Machine, dicts: set[object], state: State) -> bool:
    """Whether nothing holds any of these state dicts (``torch.save(model.state_dict(), path)``), nor what holds them:
    whoever asks for one anew gets a fresh one."""
    held = [(obj, value) for obj, fields in state.held.items() for value in fields.values()]
    held += [(number, value) for number, obj in enumerate(machine.objects) for _, value in obj.arguments]
    held += [(None, value) for frame in machine.frames for value, _ in (*frame.returns, *frame.yields)]
    holders: dict[object, set[object]] = {}
    for holder, value in held:
        for obj in references(value):
            holders.setdefault(obj, set()).add(holder)
    work, seen = list(dicts), set(dicts)
    while work:
        for holder in holders.get(work.pop(), ()):
            if not isinstance(holder, int) or machine.objects[holder].kind not in CONTAINERS:
                return False
            if holder not in seen:
                seen.add(holder)
                work.append(holder)
    return True


def handed_to_training(machine: Effects, args: Args, at: int, state: State) -> None:
    """Code that was not read gets a model together with an optimizer: by convention it trains the model."""
    if _BORN not in machine.births:
        return
    given = [case.obj for arg in args.all() for case in arg.cases if isinstance(case, Ref)]
    kinds = {machine.objects[obj].kind for obj in given}
    if {"Module", "Optimizer"} <= kinds:
        modules = frozenset(obj for obj in given if machine.objects[obj].kind == "Module")
        trace = start(machine.site(at), "the model goes to code that trains it", Gap.CONVENTION)
        trained(machine, modules, trace, state)


def used(
    machine: Containers, value: Value | None, how: Literal["load", "save", "return"], at: int, state: State
) -> None:
    """Something takes the entries of what may be state dicts."""
    if _BORN not in machine.births or value is None:
        return
    stale: dict[ObjectId, Trace] = {}
    for case in machine.deep(value, state):
        held = state.get((case.obj, STALE)) if isinstance(case, Ref) else None
        if held is None or (len(held.cases) > 1 and isinstance(case, Ref) and _is_made_anew(machine, case.obj)):
            continue
        for flag in held.cases:
            if isinstance(flag, Const) and flag.value is True and flag.trace is not None and isinstance(case, Ref):
                stale[case.obj] = flag.trace
    if stale:
        machine.emit(WeightsUsed, at, None, how=how, stale=tuple(stale.items()))


def _is_made_anew(machine: Containers, obj: ObjectId) -> bool:
    """Whether a dict is used in the loops it is made in, where it may be made anew in every iteration; or right after
    a loop that makes it, inside of those, and that trains nothing (``for name, each in optimizers.items(): states[name]
    = each.state_dict()``)."""
    around, here = machine.objects[obj].loops, machine.loops
    if not around or not here:
        return False
    if here[: len(around)] == around:
        return True
    maker = around[: len(here) + 1]
    is_after = around[: len(here)] == here
    return is_after and not any(isinstance(each, Step) and each.loops[: len(maker)] == maker for each in machine.events)


def kept(machine: Containers, owner: ObjectId, attr: str, value: Value, at: int, state: State) -> None:
    """``self.best = model.state_dict()``."""
    if _BORN in machine.births:
        for case in machine.deep(value, state):
            if isinstance(case, Ref) and machine.objects[case.obj].kind == KIND:
                machine.emit(WeightsKept, at, None, place=(owner, attr), weights=case.obj)


def named(machine: Machine, node: ir.Assign, value: Value) -> None:
    """``best_model = model`` under a condition in a loop."""
    if not isinstance(value, Ref) or not machine.guards:
        return
    target = node.targets[0] if len(node.targets) == 1 else None
    is_plain = isinstance(target, ir.Name) and isinstance(node.value, (ir.Name, ir.Attribute))
    if not (machine.loops and is_plain) or machine.in_pass:
        return
    if isinstance(target, ir.Name) and machine.is_module(value):
        machine.emit(ModuleNamed, node.at, start(machine.site(node.at), "a name for the same module"),
                     module=value.obj, name=target.id)  # fmt: skip


def restored(machine: Machine, args: Args, at: int, state: State) -> None:
    """``model.load_state_dict(self.best)``, or ``self.best["weights"]``."""
    node = args.node(0, "state_dict")
    if isinstance(node, ir.Attribute) and isinstance(node.value, ir.Name):
        of: ir.Expr = node.value
        field = node.attr
    elif isinstance(node, ir.Subscript) and isinstance(node.index, ir.Constant):
        of, field = node.value, f"[{node.index.value!r}]"
    else:
        return
    for case in machine.evaluate(of, state).cases:
        if isinstance(case, Ref):
            trace = start(machine.site(at), "they are loaded back here")
            machine.emit(WeightsRestored, at, trace, place=(case.obj, field))
