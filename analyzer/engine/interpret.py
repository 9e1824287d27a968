"""Statements and definitions: one dispatch table from forms to what runs them.

A statement takes the state that reaches it and gives the state after it, or None where control does not get there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analyzer.engine.imports import Imports
from analyzer.engine.machine import Args, Frame, OutOfBudget
from analyzer.engine.narrowing import narrow
from analyzer.engine.optim_events import NotCalled
from analyzer.engine.state import State
from analyzer.engine.trace import start
from analyzer.engine.typing import is_driver
from analyzer.engine.values import Class, External, Func, Method, ObjectId, Ref, Value, const, union
from analyzer.records import replace
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted

_EXITS = {"exit", "quit", "sys.exit", "os._exit"}


class Interpreter(Imports):
    """Run blocks of statements."""

    def run(self, block: ir.Block, state: State | None) -> State | None:
        guards = self.guards
        for statement in block:
            if state is None:
                break
            self.steps_left -= 1  # what `spend` does, without a call in Python
            if self.steps_left < 0:
                raise OutOfBudget
            state = _TABLE[type(statement)](self, statement, state)
        self.guards = guards
        return state

    # --- simple statements ------------------------------------------------------------------------------------

    def evaluate_only(self, node: ir.Evaluate, state: State) -> State | None:
        if isinstance(node.value, ir.Call):
            self.statement = self.site(node.value.at)
        value = self.evaluate(node.value, state)
        if isinstance(node.value, ir.Attribute):
            self.not_called(value, node.value.at)
        return None if isinstance(node.value, ir.Call) and self.ends_process(node.value, state) else state

    def not_called(self, value: Value, at: int) -> None:
        for case in value.cases:
            if isinstance(case, Method) and isinstance(case.receiver, Ref):
                self.emit(NotCalled, at, None, receiver=case.receiver.obj, name=case.name)

    def ends_process(self, node: ir.Call, state: State) -> bool:
        """Whether control never comes back from a call: ``sys.exit()``."""
        if dotted(node.callee) not in _EXITS:
            return False
        callee = self.evaluate(node.callee, state)
        return isinstance(callee, External) and callee.name.removeprefix("builtins.") in _EXITS

    def return_(self, node: ir.Return, state: State) -> None:
        value = self.optional(node.value, state) or const(None)
        self.frame.returns.append((value, state))

    def raise_(self, node: ir.Raise, state: State) -> None:
        self.optional(node.value, state)

    def assert_(self, node: ir.Assert, state: State) -> State:
        self.evaluate(node.test, state)
        narrow(self, node.test, True, state, ())
        return state

    def jump(self, node: ir.Jump, state: State) -> None:
        stack = self.frame.breaks if node.kind == "break" else self.frame.continues
        if stack:
            stack[-1].append(state)

    def outer(self, node: ir.Outer, state: State) -> State:
        return state

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
        if self.frame.path == self.target and isinstance(self.frame.node, ir.FunctionDef) and is_driver(node):
            self.frame.inner.append(Func(node, self.frame.path, self.frame.scope, trace=trace))
        return state

    def decorate(self, decorator: Value, value: Value, at: int, state: State) -> Value:
        if isinstance(decorator, Func):
            return self.decorated(decorator, value, at, state)
        return union(
            replace(case, wrappers=(*case.wrappers, decorator)) if isinstance(case, Func) else case
            for case in value.cases
        )

    def decorated(self, decorator: Func, value: Value, at: int, state: State) -> Value:
        """What a function of the repository makes of another or of a class. One that gives back what it is given, or
        what is not known, is not run again for the next of the same sort: there may be hundreds."""
        same_sort = (decorator.path, decorator.node.at, decorator.bound, type(value))
        key = (value.path, value.node.at) if isinstance(value, (Func, Class)) else None
        if same_sort not in self.transparent:
            was_called = key in self.called
            result = self.run_function(decorator, Args((value,)), at, state)
            if isinstance(result, (Func, Class)) and result != value:
                return result
            self.transparent[same_sort] = key in self.called and not was_called
        elif self.transparent[same_sort] and key is not None:
            self.called.add(key)
        return value

    def define_class(self, node: ir.ClassDef, state: State) -> State:
        bases = tuple(self.evaluate(arg.value, state) for arg in node.bases if arg.keyword is None)
        decorators = [self.evaluate(decorator, state) for decorator in reversed(node.decorators)]
        scope = self.new_scope(("class", self.frame.path, node.at), self.frame.scope)
        cls = Class(node, self.frame.path, scope, bases)
        self.frames.append(Frame(scope, self.frame.path, self.frame.node, self.frame.scope, cls))
        end = self.run(node.body, state) or state
        self.frames.pop()
        end.look(scope)
        for name, value in list(end.held.get(scope, {}).items()):
            end.set((scope, name), owned(value, cls, self.frame.scope))
        defined: Value = cls
        for decorator in decorators:
            defined = self.decorate(decorator, defined, node.at, end) if isinstance(decorator, Func) else defined
        end.set((self.frame.scope, node.name), defined)
        return end


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
