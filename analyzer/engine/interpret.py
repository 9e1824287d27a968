"""Statements: branches, loops to a fixpoint, with, try, return; functions and modules.

A statement takes the state that reaches it and gives the state after it, or None where control does not get there.
Loops run until the state at their head no longer changes; events of a pass that turns out not to be the last are
dropped, so each event is seen once, with what holds in every iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from analyzer.engine.calls import GRAD_OFF, Calls, frame_for
from analyzer.engine.evaluate import CONTAINERS, carries
from analyzer.engine.events import Clear, Escape, Loop, Store
from analyzer.engine.machine import MAX_DEPTH, Args, Frame, OutOfBudget, unseen
from analyzer.engine.state import FALSE, Place, State, merge, merge_two, same
from analyzer.engine.trace import Gap, start
from analyzer.engine.typing import kind_by_use, parameter_value
from analyzer.engine.values import (
    Class,
    Const,
    External,
    Func,
    ObjectId,
    PyModule,
    Ref,
    Scalar,
    Stream,
    Tensor,
    Tuple,
    Unknown,
    Value,
    const,
    join,
    truth,
    union,
    without_constants,
)
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted

MAX_PASSES = 4
_DRIVES = {"backward", "backward(…)", "step", "step(…)", "eval", "train", "zero_grad", "manual_backward(…)"}
_EXITS = {"exit", "quit", "sys.exit", "os._exit"}
T = TypeVar("T")


class Interpreter(Calls):
    """Run blocks of statements."""

    def run(self, block: ir.Block, state: State | None) -> State | None:
        for statement in block:
            if state is None:
                return None
            self.spend()
            state = _TABLE[type(statement)](self, statement, state)
        return state

    # --- simple statements ------------------------------------------------------------------------------------

    def evaluate_only(self, node: ir.Evaluate, state: State) -> State | None:
        self.evaluate(node.value, state)
        return None if isinstance(node.value, ir.Call) and self.ends_process(node.value, state) else state

    def ends_process(self, node: ir.Call, state: State) -> bool:
        """Whether control never comes back from a call: ``sys.exit()``."""
        if dotted(node.callee) not in _EXITS:
            return False
        callee = self.evaluate(node.callee, state)
        return isinstance(callee, External) and callee.name.removeprefix("builtins.") in _EXITS

    def assign_all(self, node: ir.Assign, state: State) -> State:
        if node.value is None:
            return state
        if len(node.targets) == 1 and self.is_accumulation(node.targets[0], node.value):
            assert isinstance(node.value, ir.Operation)
            right = node.value.right
            assert right is not None
            return self.augment(ir.Augment(node.at, node.targets[0], node.value.op, right), state)
        value = self.evaluate(node.value, state)
        for target in node.targets:
            self.assign(target, self.by_use(target, value, node.at), state, node.value.at)
        return state

    def is_accumulation(self, target: ir.Expr, value: ir.Expr) -> bool:
        """``x = x + y``."""
        if not isinstance(value, ir.Operation) or value.op != "+" or value.right is None:
            return False
        name = dotted(target)
        return name is not None and name == dotted(value.left)

    def by_use(self, target: ir.Expr, value: Value, at: int) -> Value:
        """What an unknown value is used for says what it is: ``.backward()`` is called on tensors with a graph."""
        uses = self.uses_of(dotted(target))
        if any(is_blank(case) for case in value.cases) and (kind := kind_by_use(uses)):
            note = f"used as {'an optimizer' if kind == 'Optimizer' else 'a module'}"
            ref = self.create(("use", dotted(target)), at, kind, note, gap=Gap.CONVENTION)
            return union(ref if is_blank(case) else case for case in value.cases)
        if not any(use in uses for use in ("backward", "backward(…)")):
            return value
        site = self.site(at)

        def tensor(case: Value) -> Value:
            if isinstance(case, Unknown) or (isinstance(case, Tensor) and case.graph == "maybe"):
                trace = start(site, "`.backward()` is called on this: it carries a graph")
                return Tensor("yes", case.roots | {site}, case.via, trace=trace)
            return case

        return union(tensor(case) for case in value.cases)

    def uses_of(self, name: str | None) -> frozenset[str]:
        """What the function, or for ``self.x`` the whole class, does with a name."""
        this = self.frame.this
        owner = self.obj(this).cls if isinstance(this, Ref) else self.frame.owner
        if name is None or owner is None or not name.startswith("self."):
            return self.frame.uses.get(name or "", frozenset())
        return self.uses_in_class(owner).get(name, frozenset())

    def uses_in_class(self, cls: Class, depth: int = 0) -> dict[str, frozenset[str]]:
        """What the methods of a class and of its bases do with ``self.x``, by name."""
        known = self.class_uses.get(cls.node)
        if known is None:
            known = self.class_uses[cls.node] = {}
            bases = [case for base in cls.bases for case in base.cases if isinstance(case, Class) and depth < 10]
            parts = [method.uses for method in cls.node.body if isinstance(method, ir.FunctionDef)]
            for uses in (*parts, *(self.uses_in_class(base, depth + 1) for base in bases)):
                for key, how in uses.items():
                    known[key] = known.get(key, frozenset()) | how
        return known

    def assign(self, target: ir.Expr, value: Value, state: State, at: int) -> None:
        if isinstance(target, ir.Name):
            node = self.frame.node
            outer = isinstance(node, ir.FunctionDef) and target.id in node.outer
            state.set((self.scope_of(target.id) if outer else self.frame.scope, target.id), value)
        elif isinstance(target, ir.Attribute):
            self.assign_attribute(target, value, state, at)
        elif isinstance(target, ir.Subscript):
            self.assign_item(target, value, state, at)
        elif isinstance(target, ir.Display):
            self.assign_items(target, value, state, at)
        elif isinstance(target, ir.Starred):
            self.assign(target.value, Stream(value), state, at)

    def scope_of(self, name: str) -> ObjectId:
        scope = self.parents.get(self.frame.scope)
        return self.frame.scope if scope is None else scope

    def assign_attribute(self, target: ir.Attribute, value: Value, state: State, at: int) -> None:
        receiver = self.evaluate(target.value, state)
        for case in receiver.cases:
            if target.attr == "grad":
                modules = case.param_of if isinstance(case, Tensor) else frozenset()
                self.emit(Clear, at, None, modules=modules)
            elif isinstance(case, (Ref, PyModule, Class)):
                obj = case.obj if isinstance(case, Ref) else case.scope
                self.replaced(state.get((obj, target.attr)), value)
                state.set((obj, target.attr), value)
            elif isinstance(case, Tensor) and target.attr == "requires_grad" and truth(value) is False:
                for module in case.param_of:
                    state.set((module, "is frozen"), const(True))

    def replaced(self, held: Value | None, value: Value) -> None:
        """An attribute gets another container: the one before is given up, with what it keeps."""
        for case in held.cases if held is not None else ():
            if isinstance(case, Ref) and self.obj(case).kind in CONTAINERS and case not in value.cases:
                self.emptied.setdefault(case.obj, set()).add(self.loops)

    def assign_item(self, target: ir.Subscript, value: Value, state: State, at: int) -> None:
        receiver, index = self.evaluate(target.value, state), self.evaluate(target.index, state)
        for case in receiver.cases:
            if not isinstance(case, Ref):
                continue
            if isinstance(index, Const):
                state.set((case.obj, f"[{index.value!r}]"), value)
            else:
                state.add((case.obj, "[]"), value)
                node = target.index
                self.note_store(case, value, node, "item", state, at)

    def assign_items(self, target: ir.Display, value: Value, state: State, at: int) -> None:
        starred = any(isinstance(item, ir.Starred) for item in target.items)
        for index, item in enumerate(target.items):
            parts: list[Value] = []
            for case in value.cases:
                if isinstance(case, Tuple) and len(case.items) == len(target.items) and not starred:
                    parts.append(case.items[index])
                else:
                    parts.append(self.item_of(case, const(index), at, state))
            self.assign(item, self.by_use(item, union(parts), at), state, at)

    def augment(self, node: ir.Augment, state: State) -> State:
        left = self.evaluate(node.target, state)
        value = self.evaluate(node.value, state)
        if node.op == "+" and isinstance(left, Ref):
            for case in value.cases:
                self.copy_items(case, left, node.at, state)
            self.note_store(left, value, node.value, "append", state)
            return state
        result = self.binary(node.op, left, value, node.at)
        if any(carries(case) for case in self.deep(value, state)):
            result = self.accumulate(node, left, value, result)
        elif isinstance(node.value, ir.Constant) or not isinstance(result, Const):
            result = without_constants(result) if self.loops else result
        self.assign(node.target, result, state, node.at)
        return state

    def accumulate(self, node: ir.Augment, left: Value, value: Value, result: Value) -> Value:
        """``total += loss``: carried when what is added to already holds an earlier iteration's sum."""
        tag = ("accumulator", self.site(node.at))
        carried = any(isinstance(case, (Tensor, Unknown)) and tag in case.via for case in left.cases)
        inner = self.in_pass and len(self.loops) > self.loops_outside  # one pass sums up its own layers
        carried = carried and not inner and (not self.in_pass or isinstance(node.target, ir.Attribute))
        trace = start(self.site(node.at), "added to what earlier iterations left")
        self.emit(
            Store, node.at, next((case.trace for case in value.cases if carries(case)), value.trace), value=value,
            value_at=node.value.at, into=tag, how="accumulate", is_carried=carried, freed="maybe", place=trace,
        )  # fmt: skip
        return self.through(result, tag)

    def delete(self, node: ir.Delete, state: State) -> State:
        for target in node.targets:
            if isinstance(target, ir.Name):
                state.drop(self.frame.scope, (target.id,))
            elif isinstance(target, ir.Subscript):
                for case in self.evaluate(target.value, state).cases:
                    if isinstance(case, Ref):
                        self.emptied.setdefault(case.obj, set()).add(self.loops)
        return state

    def return_(self, node: ir.Return, state: State) -> None:
        value = self.optional(node.value, state) or const(None)
        self.frame.returns.append((value, state))

    def raise_(self, node: ir.Raise, state: State) -> None:
        self.optional(node.value, state)

    def assert_(self, node: ir.Assert, state: State) -> State:
        self.evaluate(node.test, state)
        return state

    def jump(self, node: ir.Jump, state: State) -> None:
        stack = self.frame.breaks if node.kind == "break" else self.frame.continues
        if stack:
            stack[-1].append(state)

    def outer(self, node: ir.Outer, state: State) -> State:
        return state

    # --- control flow -----------------------------------------------------------------------------------------

    def if_(self, node: ir.If, state: State) -> State | None:
        known = truth(self.evaluate(node.test, state))
        if known is not None:
            return self.run(node.body if known else node.orelse, state)
        guards, self.guards = self.guards, (*self.guards, self.site(node.at))
        other = state.fork()
        ends = [self.run(node.body, state), self.run(node.orelse, other)]
        self.guards = guards
        return merge(ends)

    def for_(self, node: ir.For, state: State) -> State | None:
        iterable = self.evaluate(node.iter, state)
        loop = self.loop_over(iterable, node.at)

        def begin(head: State) -> None:
            element = union(self.element(case, node.iter.at, head) for case in iterable.cases)
            if loop.kind == "data":
                element = batch(element)
            self.assign(node.target, element, head, node.iter.at)

        return self.loop(loop, begin, node.body, node.orelse, state)

    def while_(self, node: ir.While, state: State) -> State | None:
        loop = Loop(self.site(node.at), "while", start(self.site(node.at), "the loop"), depth=len(self.calls))
        return self.loop(loop, lambda head: void(self.evaluate(node.test, head)), node.body, node.orelse, state)

    def loop(
        self, loop: Loop, begin: Callable[[State], None], body: ir.Block, orelse: ir.Block, state: State
    ) -> State | None:
        outer, self.loops = self.loops, (*self.loops, loop)
        mark = len(self.events)
        key = (loop.site, self.calls)
        earlier = self.heads.get(key)
        head = state if earlier is None else merge_two(state, earlier, widening)
        exits: list[State] = []
        for number in range(MAX_PASSES):
            del self.events[mark:]
            entered = head.fork()
            begin(entered)
            self.frame.breaks.append([])
            self.frame.continues.append([])
            end = self.run(body, entered)
            exits, continues = self.frame.breaks.pop(), self.frame.continues.pop()
            again = merge([end, *continues])
            if again is None:
                break
            following = merge_two(head, again, join if number == 0 and earlier is None else widening)
            if same(following, head):
                break
            head = following
        if outer:
            self.heads[key] = head
        self.loops = outer
        after = self.run(orelse, head.fork())
        return merge([after, *exits])

    def with_(self, node: ir.With, state: State) -> State | None:
        before = state.get(GRAD_OFF)
        modes: dict[Place, Value] = {}
        for context, target in node.items:
            earlier = state.fork()
            value = self.evaluate(context, state)
            entered = self.enter(value, context.at, state)
            if isinstance(value, Stream):  # a generator context of the repository puts modes back when it exits
                switched = [(obj, "is eval") for obj in state.objects_with("is eval")]
                modes.update({place: earlier.get(place) or FALSE for place in switched})
            if target is not None:
                self.assign(target, entered, state, context.at)
        mark = len(self.frame.returns)
        end = self.run(node.body, state)
        if end is not None:
            for place, held in modes.items():
                end.set(place, held)
        for out in (*([end] if end else []), *(s for _, s in self.frame.returns[mark:])):
            out.set(GRAD_OFF, before or FALSE)
        return end

    def enter(self, value: Value, at: int, state: State) -> Value:
        """Enter a context: what it does to the grad mode, and what it binds."""
        results: list[Value] = []
        for case in value.cases:
            if isinstance(case, Ref) and self.obj(case).kind == "Context":
                row = self.knowledge.row(self.obj(case).name)
                self.set_grad(row.effect if row else "", state.get((case.obj, "mode")), state)
            elif isinstance(case, Ref) and (cls := self.obj(case).cls) is not None:
                method = self.class_attribute(cls, "__enter__", state)
                if method is not None:
                    results.append(self.call(self.bound(method, case, at, state), Args(), at, state))
                    continue
            elif isinstance(case, Stream):
                results.append(case.element)
                continue
            results.append(case)
        return union(results)

    def set_grad(self, effect: str, mode: Value | None, state: State) -> None:
        known = True if mode is None else truth(mode)
        if effect == "grad-on":
            state.set(GRAD_OFF, FALSE)
        elif effect in {"grad-off", "grad-set"}:
            off = None if known is None else known is (effect == "grad-off")
            state.set(GRAD_OFF, Scalar("bool") if off is None else const(off))

    def try_(self, node: ir.Try, state: State) -> State | None:
        before = state.fork()
        end = self.run(node.body, state)
        raised = merge_two(before, end) if end is not None else before
        ends = [self.run(node.orelse, end)]
        for handler in node.handlers:
            path = raised.fork()
            if handler.name:
                path.set((self.frame.scope, handler.name), unseen("an exception", self.site(handler.at)))
            ends.append(self.run(handler.body, path))
        met = merge(ends)
        return self.run(node.final, met if met is not None else raised) if node.final else met

    def match(self, node: ir.Match, state: State) -> State | None:
        self.evaluate(node.subject, state)
        ends: list[State | None] = [state.fork()]
        for case in node.cases:
            path = state.fork()
            for name in case.names:
                path.set((self.frame.scope, name), unseen("a pattern", self.site(node.at)))
            self.optional(case.guard, path)
            ends.append(self.run(case.body, path))
        return merge(ends)

    # --- definitions ------------------------------------------------------------------------------------------

    def define_function(self, node: ir.FunctionDef, state: State) -> State:
        for param in node.params:
            if param.default is not None:
                state.set((self.frame.scope, f"default {node.at} {param.name}"), self.evaluate(param.default, state))
        trace = start(self.site(node.at), f"`{node.name}` is defined here")
        value: Value = Func(node, self.frame.path, self.frame.scope, trace=trace)
        for decorator in reversed(node.decorators):
            value = self.decorate(self.evaluate(decorator, state), value, node.at, state)
        state.set((self.frame.scope, node.name), value)
        return state

    def decorate(self, decorator: Value, value: Value, at: int, state: State) -> Value:
        if isinstance(decorator, Func):
            result = self.run_function(decorator, Args((value,)), at, state)
            return result if isinstance(result, (Func, Class)) else value
        return union(
            replace(case, wrappers=(*case.wrappers, decorator)) if isinstance(case, Func) else case
            for case in value.cases
        )

    def define_class(self, node: ir.ClassDef, state: State) -> State:
        bases = tuple(self.evaluate(arg.value, state) for arg in node.bases if arg.keyword is None)
        for decorator in node.decorators:
            self.evaluate(decorator, state)
        scope = self.new_scope(("class", self.frame.path, node.at), self.frame.scope)
        cls = Class(node, self.frame.path, scope, bases)
        self.frames.append(Frame(scope, self.frame.path, self.frame.node, self.frame.scope, cls))
        end = self.run(node.body, state) or state
        self.frames.pop()
        for name, value in list(end.held.get(scope, {}).items()):
            end.set((scope, name), owned(value, cls, self.frame.scope))
        end.set((self.frame.scope, node.name), cls)
        return end

    def import_(self, node: ir.Import, state: State) -> State:
        for name, bound in node.names:
            found = self.project.resolve(name, self.frame.path, 0)
            scope = self.load_module(found, state) if found else None
            if scope is not None and found is not None and bound:
                value: Value = PyModule(found, scope)
            else:
                value = External(name if bound else name.partition(".")[0])
            state.set((self.frame.scope, bound or name.partition(".")[0]), value)
        return state

    def import_from(self, node: ir.ImportFrom, state: State) -> State:
        found = self.project.resolve(node.module, self.frame.path, node.level)
        scope = self.load_module(found, state) if found else None
        for name, bound in node.names:
            value: Value | None = state.get((scope, name)) if scope is not None else None
            if name == "*":
                if scope is not None:
                    for field, held in state.fields(scope):
                        state.set((self.frame.scope, field), held)
                continue
            if value is None:
                dotted_name = f"{node.module}.{name}" if node.module else name
                inner = self.project.resolve(dotted_name, self.frame.path, node.level)
                inner_scope = self.load_module(inner, state) if inner else None
                if inner is not None and inner_scope is not None:
                    value = PyModule(inner, inner_scope)
            fallback = External(f"{node.module}.{name}") if not found else None
            state.set(
                (self.frame.scope, bound), value or fallback or unseen(f"`{name}` of {found}", self.site(node.at))
            )
        return state

    # --- functions --------------------------------------------------------------------------------------------

    def attribute_of(self, case: Value, attr: str, at: int, state: State) -> Value:
        owner, this = self.frame.owner, self.frame.this
        if isinstance(case, External) and case.name == "super." and owner is not None and isinstance(this, Ref):
            for base in (b for value in owner.bases for b in value.cases):
                found = self.class_attribute(base, attr, state) if isinstance(base, Class) else None
                if found is not None:
                    return self.bound(found, this, at, state)
            return External("builtins.super." + attr)
        return super().attribute_of(case, attr, at, state)

    def run_function(self, func: Func, args: Args, at: int, state: State) -> Value:
        key = (func.path, func.node.at)
        self.called.add(key)
        active = sum(1 for frame in self.frames if frame.node is func.node)
        if len(self.frames) >= MAX_DEPTH or active > 1:
            return self.call_unseen(Unknown("calls nest too deeply"), args, at, state, "calls nest too deeply")
        calls, self.calls = self.calls, (*self.calls, self.site(at))
        scope = self.new_scope((*key, active), func.scope)
        frame = frame_for(func, scope)
        self.bind(func, args, frame, state)
        passes = self.passes
        if func.bound is not None and self.is_module(func.bound) and not is_driver(func.node):
            self.loops_outside = self.loops_outside if self.in_pass else len(self.loops)
            self.passes += 1
        result = self.within_budget(lambda: self.activate(func, frame, state))
        self.calls, self.passes = calls, passes
        return result if result is not None else self.call_unseen(func, args, at, state, "too large to follow")

    def within_budget(self, action: Callable[[], T]) -> T | None:
        """Run something with at most half of the steps left; None, in the context of before, where that is too few."""
        depth, context = len(self.frames), (self.loops, self.guards, self.calls, self.forwards, self.passes)
        allowed = self.steps_left // 2
        kept, self.steps_left = self.steps_left - allowed, allowed
        mark = len(self.events)
        try:
            return action()
        except OutOfBudget:
            self.cut_off(mark)
            del self.frames[depth:]
            self.loops, self.guards, self.calls, self.forwards, self.passes = context
            return None
        finally:
            self.steps_left = kept + max(0, self.steps_left)

    def activate(self, func: Func, frame: Frame, state: State) -> Value:
        before = state.get(GRAD_OFF)
        for wrapper in func.wrappers:
            name = wrapper.name if isinstance(wrapper, External) else ""
            row = self.knowledge.row(name) if name else None
            if row is not None and row.returns == "Context":
                self.set_grad(row.effect, None, state)
            else:
                self.enter(wrapper, func.node.at, state)
        self.frames.append(frame)
        try:
            result = self.body(func, frame, state)
        finally:
            self.frames.pop()
        if any(self.is_context(wrapper) for wrapper in func.wrappers):
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
        if not func.node.has_inner:
            state.drop(frame.scope, func.node.locals)
        return value

    def bind(self, func: Func, args: Args, frame: Frame, state: State) -> None:
        """Arguments to parameters; what is missing takes its default, or is unknown."""
        given = (func.bound, *args.positional) if func.bound is not None else args.positional
        position = 0
        self.frames.append(frame)
        for param in func.node.params:
            place = (frame.scope, param.name)
            value = args.keywords.get(param.name)
            if param.kind == "*":
                value = Stream(union(given[position:])) if given[position:] else Tuple(())
            elif param.kind == "**":
                value = self.create(("**", func.node.at), func.node.at, "dict", "keyword arguments")
            elif param.kind == "" and position < len(given):
                value = given[position]
                position += 1
            if value is None and param.default is not None:
                value = state.get((func.scope, f"default {func.node.at} {param.name}"))
            value = value or unseen(f"argument `{param.name}`", self.site(func.node.at))
            if any(is_blank(case) for case in value.cases):
                value = self.by_use(ir.Name(param.at, param.name), value, param.at)
            state.set(place, value)
        self.frames.pop()

    def load_module(self, path: str, state: State) -> ObjectId | None:
        """Run the body of a file of the tree once."""
        if path in self.modules:
            return self.modules[path]
        unit = self.unit(path)
        if unit is None:
            return None
        scope = self.new_scope(("module", path), None)
        self.modules[path] = scope
        before = state.fork()
        self.within_budget(lambda: self.run_module(unit, scope, state, is_main=False))
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
        objects = frozenset(case.obj for case in cases if isinstance(case, Ref))
        roots = frozenset(root for case in cases if isinstance(case, (Tensor, Unknown)) for root in case.roots)
        via = frozenset(tag for case in cases if isinstance(case, (Tensor, Unknown)) for tag in case.via)
        self.emit(Escape, at, None, objects=objects, roots=roots, via=via, how="return")

    def unit(self, path: str) -> ir.Unit | None:
        """The IR of a file; the program provides it."""
        raise NotImplementedError

    def entry(self, func: Func, this: Value | None, state: State, gives_loss: bool = False) -> None:
        """Run a function that nobody calls, its parameters typed by annotation and use. `gives_loss`: its caller, a
        framework, runs a backward pass through what it returns."""
        assert isinstance(func.node, ir.FunctionDef)
        params: dict[str, Value] = {}
        self.frames.append(Frame(func.scope, func.path, None, None))
        if any(isinstance(w, External) and w.name == "builtins.staticmethod" for w in func.wrappers):
            this = None
        for param in func.node.params[1 if this is not None else 0 :]:
            params[param.name] = parameter_value(self, param, func.node, state)
        result = self.run_function(replace(func, bound=this), Args((), params), func.node.at, state)
        if gives_loss:
            self.backward(result, func.node.at, state)
        else:
            self.returned(result, func.node.at, state)
        self.frames.pop()


@lru_cache(maxsize=4096)
def is_driver(node: ir.FunctionDef | ir.Lambda) -> bool:
    """Whether a method trains or evaluates, rather than computes a part of a forward pass."""
    uses = node.uses.values() if isinstance(node, ir.FunctionDef) else ()
    return any(how & _DRIVES for how in uses)


def void(value: object) -> None:
    """Evaluate for the effect."""


def is_blank(value: Value) -> bool:
    """Whether all that is known of a value is where it came from: unknown, or an element of what a loop runs over."""
    return (isinstance(value, Unknown) or (isinstance(value, Tensor) and value.is_batch)) and not value.roots


def batch(value: Value) -> Value:
    """An element of a loop over data: an unknown one may be a batch."""
    return union(
        Tensor(is_opaque=True, is_batch=True, trace=case.trace) if isinstance(case, Unknown) and not case.roots else
        Tuple(tuple(batch(item) for item in case.items), trace=case.trace) if isinstance(case, Tuple) else case
        for case in value.cases
    )  # fmt: skip


def widening(one: Value, other: Value) -> Value:
    """A join after the first pass: constants that a loop changes become scalars."""
    return one if one == other else without_constants(join(one, other))


def owned(value: Value, cls: Class, scope: ObjectId) -> Value:
    """Methods know their class (for ``super``) and see the scope around it, not the class body."""
    return union(
        replace(case, owner=cls) if isinstance(case, Func) and case.owner is None else case for case in value.cases
    )


_I = Interpreter
_TABLE: dict[type, Callable[[Any, Any, State], State | None]] = {
    ir.Evaluate: _I.evaluate_only,
    ir.Assign: _I.assign_all,
    ir.Augment: _I.augment,
    ir.Delete: _I.delete,
    ir.Return: _I.return_,
    ir.Raise: _I.raise_,
    ir.Assert: _I.assert_,
    ir.If: _I.if_,
    ir.For: _I.for_,
    ir.While: _I.while_,
    ir.With: _I.with_,
    ir.Try: _I.try_,
    ir.Match: _I.match,
    ir.Jump: _I.jump,
    ir.Import: _I.import_,
    ir.ImportFrom: _I.import_from,
    ir.Outer: _I.outer,
    ir.FunctionDef: _I.define_function,
    ir.ClassDef: _I.define_class,
}
