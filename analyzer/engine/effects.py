"""What calls do: steps, clears, backward passes, modes; and calls of code we cannot see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from analyzer.engine import frozen, measures, modes, padding, targets, weights
from analyzer.engine.data_events import Drawn, Seeded
from analyzer.engine.evaluate import Expressions
from analyzer.engine.events import Backward, CallSeen, Clear, Escape, Step
from analyzer.engine.graphs import roots_of
from analyzer.engine.machine import CONTAINERS, Args, Obj
from analyzer.engine.state import FALSE, FRESH, GRAD_OFF, SCALED, State
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.typing import GivenModules, is_driver, steps_as_optimizer
from analyzer.engine.values import (
    TRI,
    Const,
    External,
    Func,
    Method,
    ObjectId,
    Parameters,
    Ref,
    Scalar,
    Tensor,
    Union,
    Unknown,
    Value,
    const,
    limited,
    truth,
)
from analyzer.knowledge.schema import Row
from analyzer.syntax import ir
from analyzer.syntax.scope import node_at

MAX_PARTS = 500
MAX_HELD = 40  # containers among the arguments of one call
MAX_ITEMS = 200
_PARTS = frozenset({"Module", *CONTAINERS})
"""What may be or hold a part of a module."""
_WITHOUT_GRAPH = ("parameters", "modules", "children", "buffers", "state_dict")
"""Methods of modules that give leaves, by the endings of their names."""
_OF_DICTS = frozenset({"items", "keys", "values"})
"""Methods that take a dict apart: of what a call gave back, these are its results and no batches."""


class Effects(Expressions):
    """Apply the effects of library calls."""

    def effect(self, row: Row, subject: Value | None, args: Args, at: int, state: State) -> None:
        name = row.effect
        if name == "backward" and subject is not None:
            # an engine is given a loss, a tensor what to weigh its gradient with
            given = row.on == "self" and (args.positional or "gradient" in args.keywords)
            self.backward(subject, at, state, by="" if given else row.name.partition(".")[0])
        elif name == "step":
            if args.positional and row.on == "self":
                self.call(args.positional[0], Args(), at, state)
            self.each_object(subject, lambda ref: self.step(ref, at, state))
        elif name in {"zero_grad", "owned-step"}:
            act = self.clear if name == "zero_grad" else self.owned_step
            self.each_object(subject, lambda ref: act(ref, at, state))
        elif name in {"eval", "train"}:
            wants = const(True) if name == "eval" else self.negated(args.at(0, "mode"))
            self.each_object(subject, lambda ref: modes.switch(self, ref, name, truth(wants), at, state))
        elif name in {"requires-grad", "detach"}:
            wanted = args.at(0, "requires_grad") if name == "requires-grad" else FALSE
            frozen.asked(self, subject, wanted, at, state)
        elif name == "seed":
            value = args.at(0, "seed")
            self.emit(
                Seeded, at, None, streams=frozenset(row.random), is_constant=value is not None and is_fixed(value)
            )
        elif name == "draw" and not (row.unless and (row.unless in args.keywords or args.has_more)):
            self.emit(Drawn, at, None, streams=frozenset(row.random))
        elif name == "grad-set":
            state.set(GRAD_OFF, self.negated(args.at(0, "mode")))

    def set_grad(self, effect: str, mode: Value | None, state: State) -> None:
        """A context that switches gradients is entered."""
        known = True if mode is None else truth(mode)
        if effect == "grad-on":
            state.set(GRAD_OFF, FALSE)
        elif effect in {"grad-off", "grad-set"}:
            off = None if known is None else known is (effect == "grad-off")
            state.set(GRAD_OFF, Scalar("bool") if off is None else const(off))

    def negated(self, value: Value | None) -> Value:
        known = True if value is None else truth(value)
        return Scalar("bool") if known is None else const(not known)

    def each_object(self, subject: Value | None, action: Any) -> None:
        for case in subject.cases if subject is not None else ():
            if isinstance(case, Ref):
                action(case)

    def switch(self, ref: Ref, flag: str, value: Value, state: State, depth: int = 6) -> None:
        """Set a mode on a module and the modules it holds. The layers of a ``Sequential`` have the mode of the whole,
        and are frozen one by one."""
        state.set((ref.obj, flag), value)
        if not depth:
            return
        obj = self.obj(ref)
        held = [case for _, each in state.fields(ref.obj) for case in each.cases if isinstance(case, Ref)]
        held += held_in(obj) if flag == frozen.FLAG and obj.cls is None and obj.kind == "Module" else ()
        for case in held:
            if case.obj != ref.obj and self.obj(case).kind in ("Module", *CONTAINERS):
                self.switch(case, flag, value, state, depth - 1)

    def backward(self, loss: Value, at: int, state: State, by: str = "Tensor") -> None:
        cases = self.deep(loss, state)
        roots = frozenset(root for case in cases for root in roots_of(case))
        via = frozenset(v for case in cases if isinstance(case, (Tensor, Unknown)) for v in case.via)
        for root in roots:
            state.set((root, "is freed"), const(True))
        state.set(FRESH, const(True))
        state.set(SCALED, const(any(isinstance(tag, tuple) and tag[:1] == ("scaled",) for tag in via)))
        trace = start(self.site(at), "the backward pass")
        self.emit(Backward, at, trace, roots=roots, via=via, is_known=bool(roots), by=by)

    def step(self, ref: Ref, at: int, state: State, through_scaler: bool = False) -> None:
        obj = self.obj(ref)
        is_guess = obj.kind == "Stepper" and not obj.modules and not through_scaler and not self.is_named_optimizer(at)
        trace = start(self.site(at), "the optimizer steps here", Gap.USE if is_guess else obj.trace.gap)
        modules = self.with_parts(obj.modules, state)
        weights.trained(self, modules, trace, state)
        scaled = TRI[state.flag(*SCALED)]
        state.set(FRESH, FALSE)
        state.set(SCALED, FALSE)
        self.emit(
            Step, at, trace, optimizer=ref.obj, modules=modules, is_stale="maybe", born_in=obj.loops,
            is_scaled="no" if through_scaler else scaled,
        )  # fmt: skip

    def owned_step(self, ref: Ref, at: int, state: State) -> None:
        """An engine that is its model steps, and clears the gradients it has applied."""
        obj = self.obj(ref)
        modules = self.with_parts(frozenset({ref.obj}), state)
        state.set(FRESH, FALSE)
        self.emit(
            Step, at, start(self.site(at), "the engine steps here", obj.trace.gap), optimizer=None, modules=modules,
            is_stale="no", born_in=obj.loops, clears=True,
        )  # fmt: skip
        self.emit(Clear, at, None, modules=modules)

    def with_parts(self, modules: frozenset[ObjectId], state: State) -> frozenset[ObjectId]:
        """Modules and all the modules they hold. One forward pass asks several times: what was found last is still true
        where none of these objects has been made anew and none of their fields has been written to."""
        known = self.parts.get(modules)
        if known is not None:
            version, looked_at = known
            objects, held = self.objects, state.held
            if version == state.base.version:
                for obj, (made, fields) in looked_at.items():
                    if objects[obj] is not made or held.get(obj) is not fields:
                        break
                else:
                    state.base.asked.referring.update(looked_at.keys() - state.made)
                    return frozenset(looked_at)
        found = self.parts_of(modules, state)
        state.owned -= found  # a write to one of them makes a new map from now on
        looked_at = {obj: (self.objects[obj], state.held.get(obj)) for obj in found}
        self.parts[modules] = state.base.version, looked_at
        return found

    def parts_of(self, modules: frozenset[ObjectId], state: State) -> frozenset[ObjectId]:
        """Modules and all the modules they hold, looked up."""
        objects = self.objects
        found: set[ObjectId] = set()
        todo = list(modules)
        while todo and len(found) < MAX_PARTS:
            obj = todo.pop()
            if obj in found:
                continue
            found.add(obj)
            made = objects[obj]
            if made.modules and made.kind == "Module":
                todo += made.modules - found
            for case in (*_references(state.values(obj)), *held_in(made)):
                if case.obj not in found and objects[case.obj].kind in _PARTS:
                    todo.append(case.obj)
        return frozenset(found)

    def clear(self, ref: Ref, at: int, state: State) -> None:
        obj = self.obj(ref)
        modules = self.with_parts(frozenset({ref.obj}) if obj.kind == "Module" else obj.modules, state)
        self.emit(Clear, at, None, optimizer=None if obj.kind == "Module" else ref.obj, modules=modules)

    def clears_unknown(self, method: Method, at: int) -> None:
        """``zero_grad`` of something unknown, or ``p.grad.zero_()``, clears gradients of something."""
        is_grad = isinstance(method.receiver, (Tensor, Method)) and method.name == "zero_"
        if is_grad or (method.name == "zero_grad" and not isinstance(method.receiver, Ref)):
            modules = method.receiver.param_of if isinstance(method.receiver, Tensor) else frozenset()
            self.emit(Clear, at, None, modules=modules)

    def steps_unknown(self, method: Method, args: Args, at: int, state: State) -> None:
        """``step()`` of something unknown (``optimizers["actor"].step()``, ``args.optimizer.step()``) right after a
        backward pass: by convention what applies its gradients."""
        if method.name != "step" or args.positional or isinstance(method.receiver, (Ref, Tensor)):
            return
        if state.flag(*FRESH) is True:
            gap = Gap.CONVENTION if self.is_named_optimizer(at) else Gap.USE
            trace = start(self.site(at), "the optimizer steps here", gap)
            self.emit(Step, at, trace, optimizer=None, modules=frozenset(), is_stale="maybe", born_in=())
            state.set(FRESH, FALSE)
            state.set(SCALED, FALSE)

    def is_named_optimizer(self, at: int) -> bool:
        """Whether what steps here is called an optimizer: a timer and a schedule step as well."""
        unit = self.unit(self.frame.path)
        return unit is not None and steps_as_optimizer(node_at(unit, at))

    def unit(self, path: str) -> ir.Unit | None:
        """The IR of a file; the program provides it."""
        raise NotImplementedError

    # --- code we cannot see -----------------------------------------------------------------------------------

    def call_unseen(self, callee: Value, args: Args, at: int, state: State, reason: str) -> Value:
        """The result is unknown; the arguments may be stepped, cleared, kept or detached: marked, never assumed."""
        weights.handed_to_training(self, args, at, state)
        targets.compared(self, args, at)
        given = [case for arg in args.all() for case in self.deep(arg, state)]
        if isinstance(callee, Method) and not isinstance(callee.receiver, External):
            given += self.deep(callee.receiver, state)
        roots, via, objects = _carried(given)
        site = self.site(at)
        for_effect = self.statement == site
        self.emit(Escape, at, None, objects=objects, roots=roots, via=via, how="call", is_for_effect=for_effect)
        for arg in args.positional:
            for case in arg.cases:
                is_called = isinstance(case, Func) and isinstance(callee, (Unknown, Method))
                if isinstance(case, Func) and is_called and not is_driver(case.node):  # what trains is looked at
                    self.called.add((case.path, case.node.at))
        loaders = frozenset(obj for obj in objects if self.objects[obj].kind == "Loader")
        if any(self.objects[obj].kind == "Optimizer" for obj in objects):
            via -= loaders  # it trains: it gives numbers
        elif isinstance(callee, Method) and callee.name in _OF_DICTS:
            via = frozenset(tag for tag in via if not (isinstance(tag, int) and self.objects[tag].kind == "Loader"))
        else:
            via |= loaders  # what it gives may be their batches
        if isinstance(callee, Method) and callee.name.endswith(_WITHOUT_GRAPH):
            roots = frozenset()
        modules = frozenset(module for case in given for module in self.modules_of(case))
        optimizers = frozenset(obj for obj in objects if self.objects[obj].kind == "Optimizer")
        via = measures.without(via) | ({GivenModules(modules, optimizers)} if modules or optimizers else set())
        called = (
            callee.name if isinstance(callee, External) else f".{callee.name}" if isinstance(callee, Method) else ""
        )
        result = Unknown(reason, Gap.UNSEEN, roots, via, called, trace=start(site, reason, Gap.UNSEEN))
        return padding.of_unread(args, result, site) if args.keywords else result

    def modules_of(self, case: Value) -> frozenset[ObjectId]:
        if isinstance(case, Parameters):
            return case.modules
        if isinstance(case, Tensor):
            return case.param_of
        return frozenset({case.obj}) if isinstance(case, Ref) and self.obj(case).kind == "Module" else frozenset()

    def callbacks(self, args: Args, at: int, state: State) -> None:
        """For the estimator: a library calls the functions it is given (``collate_fn``, ``map``), "
        "with values unseen."""
        for case in (case for arg in args.all() for case in arg.cases) if self.wanted else ():
            if isinstance(case, Func) and (case.path, case.node.at) not in self.called:
                self.run_function(case, Args((), {}, has_more=True), at, state.fork())

    def saw(self, name: str, args: Args, at: int, state: State, receiver: Value | None = None) -> None:
        """For the estimator: a call it asked for."""
        if self.wanted and (name in self.wanted or f"*.{name.rsplit('.', 1)[-1]}" in self.wanted):
            number = self.interned.setdefault(("call", self.site(at), self.calls), len(self.interned))
            self.emit(
                CallSeen, at, None, number=number, callee=name, args=args.positional,
                keywords=tuple(args.keywords.items()), receiver=receiver, held=self.held_by(args.all(), state),
                has_more=args.has_more and not all(self.is_whole(value, state) for _, value in args.unpacked),
            )  # fmt: skip

    def is_whole(self, value: Value, state: State) -> bool:
        """Whether the text shows every key of a dict."""
        return all(
            isinstance(case, Ref)
            and self.obj(case).kind == "dict"
            and not self.obj(case).born
            and all(name.startswith("['") for name, _ in state.fields(case.obj) if name[:1] == "[")
            for case in value.cases
        )

    def held_by(self, values: Iterable[Value], state: State) -> dict[ObjectId, tuple[tuple[str, Value], ...]]:
        """What the lists and dicts among `values` hold now, and those inside them, `MAX_HELD` in all."""
        found: dict[ObjectId, tuple[tuple[str, Value], ...]] = {}
        pending = list(values)
        while pending and len(found) < MAX_HELD:
            for case in pending.pop().cases:
                if isinstance(case, Ref) and case.obj not in found and self.obj(case).kind in {"list", "dict"}:
                    items = tuple((key, item) for key, item in state.fields(case.obj) if key[:1] == "[")
                    found[case.obj] = items[:MAX_ITEMS]
                    pending += [item for _, item in items[:MAX_ITEMS]]
        return found


def is_fixed(value: Value) -> bool:
    """Whether a number is the same in every process: written down, or an option of the command line."""
    return all(isinstance(case, Const) or (isinstance(case, Scalar) and case.kind == "option") for case in value.cases)


def held_in(made: Obj) -> tuple[Ref, ...]:
    """The objects among the arguments that an object was made with."""
    if made.held is None:
        made.held = tuple(_references(value for _, value in made.arguments))
    return made.held


def _references(values: Iterable[Value]) -> list[Ref]:
    """The objects among the cases of values."""
    found: list[Ref] = []
    for value in values:
        if type(value) is Ref:
            found.append(value)
        elif type(value) is Union:
            found += [case for case in value.members if type(case) is Ref]
    return found


def _carried(given: Iterable[Value]) -> tuple[frozenset[Site], frozenset[object], frozenset[ObjectId]]:
    """The graphs that values hold, what they came through, and the objects among them."""
    roots: set[Site] = set()
    via: set[object] = set()
    objects: set[ObjectId] = set()
    for case in given:
        if isinstance(case, (Tensor, Unknown)):
            roots |= case.roots
            via |= case.via
        elif isinstance(case, Ref):
            objects.add(case.obj)
    return limited(frozenset(roots)), frozenset(via), frozenset(objects)
