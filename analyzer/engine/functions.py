"""Activations: functions of the repository, module bodies, entries that nobody calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from analyzer.engine import weights
from analyzer.engine.binding import Binding
from analyzer.engine.built import MODULES, note_maker
from analyzer.engine.commands import from_words
from analyzer.engine.devices import are_synthetic
from analyzer.engine.events import Escape, Misfit
from analyzer.engine.hooks import argument
from analyzer.engine.machine import MAX_DEPTH, Args, Frame, OutOfBudget
from analyzer.engine.state import FALSE, GRAD_OFF, State, merge
from analyzer.engine.switches import may_switch_gradients
from analyzer.engine.typing import is_driver
from analyzer.engine.values import (
    Class,
    External,
    Func,
    Method,
    ObjectId,
    Ref,
    Scalar,
    Stream,
    Tensor,
    Unknown,
    Value,
    const,
    union,
)
from analyzer.records import replace
from analyzer.syntax import ir

T = TypeVar("T")


class Functions(Binding):
    """Run functions and modules."""

    def super_attribute(self, attr: str, at: int, state: State) -> Value | None:
        owner, this = self.frame.owner, self.frame.this
        if owner is not None and isinstance(this, Ref):
            for base in (b for value in owner.bases for b in value.cases):
                found = self.class_attribute(base, attr, state) if isinstance(base, Class) else None
                if found is not None:
                    return self.bound(found, this, at, state)
            if self.knowledge.row(f"{self.obj(this).kind}.{attr}") is not None:
                return Method(this, attr, trace=this.trace)
            return External("builtins.super." + attr)
        return None

    def run_function(self, func: Func, args: Args, at: int, state: State) -> Value:
        key = (func.path, func.node.at)
        if key not in self.called:
            self.called.add(key)
            self.first_calls.append(key)
        active = [frame.node for frame in self.frames].count(func.node)
        if len(self.frames) >= MAX_DEPTH or active > 1:
            return self.call_unseen(Unknown("calls nest too deeply"), args, at, state, "calls nest too deeply")
        if args.keyword_nodes and not func.wrappers and (name := misfit(func.node, args)) is not None:
            self.emit(Misfit, at, None, name=name, to=getattr(func.node, "name", ""))
        calls, self.calls = self.calls, (*self.calls, self.site(at))
        scope = self.new_scope((*key, active), func.scope)
        frame = frame_for(func, scope)
        self.bind(func, args, frame, state)
        passes, is_dry = self.passes, self.is_dry
        if func.bound is not None and self.is_module(func.bound) and not is_driver(func.node):
            self.loops_outside = self.loops_outside if self.in_pass else len(self.loops)
            self.passes += 1
            self.is_dry = is_dry or are_synthetic(args.all())
        result = self.within_budget(lambda: self.activate(func, frame, state), 16 if self.matters(func) else 2)
        if result is None and func.path == self.target:
            self.too_large[getattr(func.node, "name", "lambda")] = None
        self.calls, self.passes, self.is_dry = calls, passes, is_dry
        if MODULES in self.wanted and result is not None:
            note_maker(self, func, args, result, state)
        return result if result is not None else self.call_unseen(func, args, at, state, "too large to follow")

    def matters(self, func: Func) -> bool:
        """Whether a function is what the file is read for: it stands in it, or it trains or evaluates."""
        return func.path == self.target or is_driver(func.node)

    def within_budget(self, action: Callable[[], T], keep: int = 2) -> T | None:
        """Run something with the steps left but one in `keep`; None, in the context of before, if that is too few."""
        depth, context = len(self.frames), (self.loops, self.guards, self.calls, self.forwards, self.passes)
        allowed = self.steps_left - self.steps_left // keep
        kept, self.steps_left = self.steps_left - allowed, allowed
        mark, calls = len(self.events), len(self.first_calls)
        try:
            return action()
        except OutOfBudget:
            self.cut_off(mark)
            self.uncall(calls)
            del self.frames[depth:]
            self.loops, self.guards, self.calls, self.forwards, self.passes = context
            return None
        finally:
            self.steps_left = kept + max(0, self.steps_left)

    def uncall(self, since: int) -> None:
        """What was first called in a part that is cut off counts as called by nobody: it is still run on its own."""
        self.called.difference_update(self.first_calls[since:])
        del self.first_calls[since:]

    def activate(self, func: Func, frame: Frame, state: State) -> Value:
        before = state.get(GRAD_OFF)
        for wrapper in func.wrappers:
            name = wrapper.name if isinstance(wrapper, External) else ""
            row = self.knowledge.row(name) if name else None
            if row is not None and row.returns == "Context":
                self.set_grad(row.effect, None, state)
            else:
                self.enter(wrapper, func.node.at, state)
                if may_switch_gradients(wrapper):
                    state.set(GRAD_OFF, Scalar("bool"))
        self.frames.append(frame)
        try:
            result = self.body(func, frame, state)
        finally:
            self.frames.pop()
        if any(self.is_context(wrapper) or may_switch_gradients(wrapper) for wrapper in func.wrappers):
            state.set(GRAD_OFF, before or FALSE)
        return result

    def is_context(self, wrapper: Value) -> bool:
        row = self.knowledge.row(wrapper.name) if isinstance(wrapper, External) else None
        return (row is not None and row.returns == "Context") or isinstance(wrapper, Ref)

    def body(self, func: Func, frame: Frame, state: State) -> Value:
        if isinstance(func.node, ir.Lambda):
            return self.evaluate(func.node.body, state)
        end = self.run(func.node.body, state.fork())
        ends = [end, *(path for _, path in frame.returns)]
        if func.node.is_generator:
            value: Value = Stream(union(value for value, _ in frame.yields) if frame.yields else Scalar())
            if (
                any(isinstance(w, External) and w.name.endswith("contextmanager") for w in func.wrappers)
                and frame.yields
            ):
                state.become(frame.yields[0][1])
                return value
        else:
            returned = [value for value, _ in frame.returns] + ([const(None)] if end is not None else [])
            value = union(returned) if returned else Unknown("the function does not return")
        met = merge(ends)
        if met is not None:
            state.become(met)
        for inner in frame.inner:
            self.unused.setdefault((inner.path, inner.node.at), (inner, state.fork()))
        if not func.node.has_inner:
            state.drop(frame.scope, func.node.locals)
        return value

    def activation(self, func: Func) -> Frame:
        """A frame that sees what a function sees, without its own variables."""
        return frame_for(func, func.scope)

    def load_module(self, path: str, state: State) -> ObjectId | None:
        """Run the body of a file of the tree once."""
        if path in self.modules:
            return self.modules[path]
        given = (self.steps_left if self.wanted else min(self.steps_left, self.files_left)) // 2
        unit = self.unit(path) if given > 0 else None
        if unit is None:
            return None
        scope = self.new_scope(("module", path), None)
        self.modules[path] = scope
        before, left = state.fork(), self.steps_left
        self.steps_left = given
        self.within_budget(lambda: self.run_module(unit, scope, state, is_main=False), given + 1)
        spent = given - self.steps_left
        self.files_left -= spent
        self.steps_left = left - spent
        state.freeze(before)
        return scope

    def run_module(self, unit: ir.Unit, scope: ObjectId, state: State, is_main: bool) -> None:
        context = (self.loops, self.calls, self.forwards, self.passes, self.loops_outside)
        self.loops, self.calls, self.forwards, self.passes = (), (), 0, 0
        self.frames.append(Frame(scope, unit.path, None, None, uses=unit.uses))
        state.set((scope, "__name__"), const("__main__" if is_main else self.project.module_name(unit.path)))
        end = self.run(unit.body, state.fork())
        self.frames.pop()
        self.loops, self.calls, self.forwards, self.passes, self.loops_outside = context
        if end is not None:
            state.become(end)

    def returned(self, value: Value, at: int, state: State) -> None:
        """What an entry returns goes to a caller that was not seen."""
        cases = self.deep(value, state)
        weights.used(self, value, "return", at, state)
        objects = frozenset(case.obj for case in cases if isinstance(case, Ref))
        roots = frozenset(root for case in cases if isinstance(case, (Tensor, Unknown)) for root in case.roots)
        via = frozenset(tag for case in cases if isinstance(case, (Tensor, Unknown)) for tag in case.via)
        self.emit(Escape, at, None, objects=objects, roots=roots, via=via, how="return")

    def entry(
        self, func: Func, this: Value | None, state: State, given: Sequence[str] = (), gives_loss: bool = False
    ) -> None:
        """Run a function that nobody calls, its parameters typed by annotation and use. Where a framework calls it,
        `given` are the kinds of what it passes, in order; `gives_loss`: it runs a backward pass through the result."""
        assert isinstance(func.node, ir.FunctionDef)
        params: dict[str, Value] = {}
        self.frames.append(Frame(func.scope, func.path, None, None))
        if any(isinstance(w, External) and w.name == "builtins.staticmethod" for w in func.wrappers):
            this = None
        for index, param in enumerate(func.node.params[1 if this is not None else 0 :]):
            kind = given[index] if index < len(given) and param.kind == "" else "any"
            known = argument(self, kind, param.name, param.at)
            if self.wanted:
                known = from_words(self, func, param, state) or known
            params[param.name] = known or self.parameter_value(param, func.node, state)
        result = self.run_function(replace(func, bound=this), Args((), params), func.node.at, state)
        if gives_loss:
            self.backward(result, func.node.at, state, by="framework")
        else:
            self.returned(result, func.node.at, state)
        self.frames.pop()


def misfit(node: ir.FunctionDef | ir.Lambda, args: Args) -> str | None:
    """An argument whose name the text of a call gives and no parameter has."""
    names = {param.name for param in node.params}
    if any(param.kind == "**" for param in node.params):
        return None
    return next((name for name in args.keyword_nodes if name not in names), None)


def frame_for(func: Func, scope: ObjectId) -> Frame:
    """A new activation of a function."""
    uses = func.node.uses if isinstance(func.node, ir.FunctionDef) else {}
    owner = func.owner if isinstance(func.owner, Class) else None
    return Frame(scope, func.path, func.node, func.scope, owner, func.bound, uses)
