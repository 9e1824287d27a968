"""Train and evaluation mode: who switches it, which module cares, what holds where paths meet.

The mode is a place of a module (``is eval``): absent where no code seen has set it, else a constant whose trace is the
switch. A mode that an ``if`` chooses (one branch says train, the other eval) goes together with conditions elsewhere
that paths here do not keep apart, so it is a scalar: neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzer.engine.events import Mode
from analyzer.engine.machine import CONTAINERS, Args
from analyzer.engine.state import State
from analyzer.engine.trace import start
from analyzer.engine.values import (
    Class,
    Const,
    External,
    Method,
    ObjectId,
    Ref,
    Scalar,
    Tensor,
    Tri,
    Unknown,
    Value,
    const,
)
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import target_names, walk

if TYPE_CHECKING:
    from analyzer.engine.effects import Effects
    from analyzer.engine.machine import Machine
    from analyzer.knowledge.schema import Row

FLAG = "is eval"
_TRI: dict[bool | None, Tri] = {True: "yes", False: "no", None: "maybe"}
_RATES = ("dropout", "drop_rate", "drop_path_rate", "track_running_stats")


def switch(machine: Effects, ref: Ref, name: str, is_eval: bool | None, at: int, state: State) -> None:
    """``eval()`` or ``train(…)`` of a module and its parts."""
    trace = start(machine.site(at), f"`.{name}()` is called here")
    machine.switches[trace] = len(machine.switches)
    value: Value = Scalar("bool") if is_eval is None else const(is_eval, trace)
    machine.switch(ref, FLAG, value, state)
    modules = machine.with_parts(frozenset({ref.obj}), state)
    machine.emit(Mode, at, trace, module=ref.obj, modules=modules, is_eval=_TRI[is_eval])


def unseen_switch(machine: Machine, receiver: Value, name: str, args: Args, at: int) -> None:
    """``eval()`` or ``train()`` of something that is not known: it may be any module."""
    if isinstance(receiver, (Unknown, Method, Tensor)) and not args.positional:
        is_eval: Tri = "yes" if name == "eval" else "no"
        machine.emit(Mode, at, None, module=None, modules=frozenset(), is_eval=is_eval)


def _set_since(machine: Machine, value: Value, since: int) -> set[object]:
    """The modes among the cases of a value that were set by a switch after the first `since` ones."""
    return {
        case.value
        for case in value.cases
        if isinstance(case, Const) and case.trace is not None and machine.switches.get(case.trace, -1) >= since
    }


def choose(machine: Machine, ends: Sequence[State | None], met: State, since: int) -> None:
    """Where the branches of an ``if`` meet: a module that one branch sets to train and the other to eval."""
    found: dict[object, set[object]] = {}
    for end in ends:
        if end is None:
            return
        for obj, value in end.holders(FLAG):
            if switched := _set_since(machine, value, since):
                found.setdefault(obj, set()).update(switched)
    for obj, switched in found.items():
        if len(switched) > 1:
            met.set((obj, FLAG), Scalar("bool"))


def settle(machine: Machine, again: State, after: State, since: int) -> None:
    """After a loop that switches modes: what its last pass left. That it ran at least once is taken for granted."""
    for obj, value in again.holders(FLAG):
        if _set_since(machine, value, since):
            after.set((obj, FLAG), value)


def asleep(machine: Effects, ref: Ref, state: State) -> frozenset[ObjectId]:
    """The module and those of its parts that come in evaluation mode, where no switch was seen since."""
    if "eval" not in machine.births:
        return frozenset()
    parts = machine.with_parts(frozenset({ref.obj}), state)
    return frozenset(part for part in parts if machine.objects[part].born == "eval" and not _is_set(state, part))


def _is_set(state: State, obj: ObjectId) -> bool:
    value = state.get((obj, FLAG))
    return value is not None and any(case.trace is not None for case in value.cases)


def dependence(machine: Effects, ref: Ref, state: State) -> Tri:
    """Whether a module has anything in it that behaves differently in evaluation mode."""
    if ref.obj in machine.minding:
        return "yes"
    parts = machine.with_parts(frozenset({ref.obj}), state)
    answers = {part: _of_part(machine, part, state) for part in sorted(parts)}
    minding = [part for part, answer in answers.items() if answer == "yes"]
    if minding:  # a later pass may show more of the others
        machine.minding[ref.obj] = tuple(minding)
    return "yes" if minding else "maybe" if "maybe" in answers.values() else "no"


def is_eval(machine: Effects, ref: Ref, state: State) -> Tri:
    """The mode of a module: of one that nobody has switched, that of the parts that mind it."""
    own = _TRI[state.flag(ref.obj, FLAG)]
    if own != "no" or _is_set(state, ref.obj):
        return own
    minding = machine.minding.get(ref.obj, ()) or _wrapped(machine, ref, state)
    if minding and all(_is_asleep(machine, part, state) for part in minding):
        # it was put there, or came so, before it was wrapped; `train()` of the whole would switch it back
        return "maybe"
    return own


def _is_asleep(machine: Effects, part: ObjectId, state: State) -> bool:
    return bool(state.flag(part, FLAG)) if _is_set(state, part) else machine.objects[part].born == "eval"


def _wrapped(machine: Effects, ref: Ref, state: State) -> tuple[ObjectId, ...]:
    """The parts that may mind the mode, where one of them has been switched, of a module that was read itself."""
    if machine.obj(ref).cls is None:
        return ()
    parts = machine.with_parts(frozenset({ref.obj}), state) - {ref.obj}
    if not any(_is_set(state, part) for part in parts):
        return ()
    return tuple(part for part in parts if _of_part(machine, part, state) != "no")


def is_option(machine: Machine, test: ir.Expr) -> bool:
    """Whether a condition in the code of a module asks for an option, and not which of several layers it makes."""
    frame = machine.frame
    if not isinstance(frame.node, ir.FunctionDef) or not isinstance(frame.this, Ref):
        return False
    if machine.obj(frame.this).kind != "Module":
        return False
    return _counted(frame.node).isdisjoint(_named(test))


def either(machine: Machine, test: ir.Expr, ways: Sequence[Value]) -> None:
    """``nn.Dropout(p) if p > 0 else nn.Identity()``: a module may have any of these."""
    if is_option(machine, test):
        machine.optional_layers |= {case.obj for way in ways for case in way.cases if isinstance(case, Ref)}


@remembered(maxsize=4096)
def _named(test: ir.Expr) -> frozenset[str]:
    """The names in a condition."""
    return frozenset(part.id for part in walk((test,), into_functions=False) if isinstance(part, ir.Name))


@remembered(maxsize=512)
def _counted(function: ir.FunctionDef) -> frozenset[str]:
    """The names that the loops of a function give their items, and those that it counts with."""
    nodes = tuple(walk(function.body, into_functions=False))
    targets = [node.target for node in nodes if isinstance(node, (ir.For, ir.Augment))]
    return frozenset(name for target in targets for name in target_names(target))


def called(machine: Machine, part: ObjectId) -> str:
    """What a part that minds the mode is called: its class, or who reads ``self.training``."""
    obj = machine.objects[part]
    if part in machine.reads_mode:
        return f"self.training in {obj.cls.node.name}" if obj.cls is not None else "self.training"
    return obj.name.rpartition(".")[2]


def _of_part(machine: Effects, part: ObjectId, state: State) -> Tri:
    obj = machine.objects[part]
    if part in machine.reads_mode:
        return "yes"
    if obj.kind in CONTAINERS:
        return "no"
    if obj.name:
        answer = _of_library(machine, obj.name, obj.arguments)
        is_optional = part in machine.optional_layers and not _is_on_by_default(machine, obj.name, obj.arguments)
        return "maybe" if answer == "yes" and is_optional else answer
    if obj.cls is None:
        return "maybe"
    is_open = any(not _is_read(machine, base) for base in obj.cls.bases)
    return "maybe" if is_open or _calls_unknown(machine, obj.cls, part, state) else "no"


def _of_library(machine: Machine, name: str, arguments: tuple[tuple[str, Value], ...]) -> Tri:
    row = machine.knowledge.row(name)
    if row is None:
        return "maybe"
    if row.effect == "sequential" and not arguments:  # ``Sequential(*layers)``
        return "maybe"
    if any(key == "momentum" and isinstance(value, Const) and value.value == 1 for key, value in arguments):
        return "no"  # its statistics are those of the last batch: it is meant to use those of the batch it gets
    if row.between and _is_single(row.between, arguments):
        return "no"
    given = [_may_be_off(value) for value in _rates(row, arguments)]
    is_all = given and name.startswith("torch.nn.")  # what a whole network is told may be of one of its kinds of layers
    if "no" in given or (row.modes == "dependent" and not is_all) or (row.modes == "rate" and not given):
        return "yes"
    return "maybe" if "maybe" in given else "no"


def _rates(row: Row, arguments: tuple[tuple[str, Value], ...]) -> list[Value]:
    """What a layer is told of how much it drops, and whether it keeps statistics."""
    rates = {*_RATES, "0", "p"} if row.modes == "rate" else _RATES
    return [value for key, value in arguments if key in rates]


def _is_on_by_default(machine: Machine, name: str, arguments: tuple[tuple[str, Value], ...]) -> bool:
    """Whether an option that is no zero by default gives the rate of a layer and so, most likely, the condition that
    it is made under."""
    row = machine.knowledge.row(name)
    rates = _rates(row, arguments) if row is not None else []
    return any(isinstance(value, Scalar) and not value.is_off for value in rates)


def _is_single(counts: tuple[str, ...], arguments: tuple[tuple[str, Value], ...]) -> bool:
    """Whether what drops out between its layers has one, whatever its rate; `counts` are the names of that argument."""
    given = dict(arguments)
    layers = next((given[name] for name in counts if name in given), None)
    return "**" not in given and (layers is None or (isinstance(layers, Const) and layers.value == 1))


def _may_be_off(rate: Value) -> Tri:
    """Whether nothing is dropped: at a rate of zero, or at an option that is zero unless somebody sets it."""
    if isinstance(rate, Const):
        return "no" if rate.value else "yes"
    return "maybe" if isinstance(rate, Scalar) and rate.is_off else "no"


def _is_read(machine: Machine, base: Value) -> bool:
    """Whether a base class says all about the modes of a module: one of the tree, or a library's whose row does."""
    if isinstance(base, External):
        row = machine.knowledge.row(base.name)
        return base.name.startswith(("torch.nn.", "builtins.", "abc.")) or (row is not None and row.modes == "")
    return not isinstance(base, Unknown)


def _calls_unknown(machine: Effects, cls: Class, part: ObjectId, state: State) -> bool:
    """Whether the methods of a class call something held in a field of which nothing is known: a module, perhaps."""
    uses = machine.uses_in_class(cls)
    unknown = [name for name, value in state.fields(part) if any(isinstance(case, Unknown) for case in value.cases)]
    return any("()" in uses.get(f"self.{name}", ()) for name in unknown)
