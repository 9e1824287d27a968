"""Expressions: one dispatch table from forms to what evaluates them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analyzer.engine import modes
from analyzer.engine.containers import Containers
from analyzer.engine.fold import MAX_TEXT
from analyzer.engine.machine import OutOfBudget, unseen
from analyzer.engine.narrowing import narrow, settle
from analyzer.engine.state import State, merge
from analyzer.engine.trace import start
from analyzer.engine.values import Const, Func, Scalar, Value, const, truth, union
from analyzer.syntax import ir


class Expressions(Containers):
    """Evaluate expressions to values."""

    def evaluate(self, expr: ir.Expr, state: State) -> Value:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise OutOfBudget
        try:
            handler = _TABLE[type(expr)]
        except KeyError:
            return unseen("this form of expression", self.site(expr.at))
        return handler(self, expr, state)

    def conditional(self, expr: ir.Conditional, state: State) -> Value:
        known = truth(self.evaluate(expr.test, state))
        if known is not None:
            return self.evaluate(expr.body if known else expr.orelse, state)
        other, switches = state.fork(), len(self.switches)
        changes = (
            narrow(self, expr.test, True, state, (expr.body,)),
            narrow(self, expr.test, False, other, (expr.orelse,)),
        )
        ways = [self.evaluate(expr.body, state), self.evaluate(expr.orelse, other)]
        modes.either(self, expr.test, ways)
        result = union(ways)
        met = merge([state, other])
        assert met is not None
        settle(state, other, changes, met)
        if len(self.switches) > switches:  # ``model.train() if is_training else model.eval()``
            modes.choose(self, (state, other), met, switches)
        state.become(met)
        return result

    def joined(self, expr: ir.Joined, state: State) -> Value:
        parts = [self.evaluate(part, state) for part in expr.parts]
        if all(isinstance(part, Const) for part in parts):
            text = "".join(str(part.value) for part in parts if isinstance(part, Const))
            if len(text) <= MAX_TEXT:
                return const(text, start(self.site(expr.at), repr(text)[:60]))
        for part, node in zip(parts, expr.parts, strict=True):
            self.note_sync(part, "format", node.at)
        return Scalar("str")

    def slice(self, expr: ir.Slice, state: State) -> Value:
        for part in (expr.lower, expr.upper, expr.step):
            self.optional(part, state)
        return Scalar("slice")

    def lambda_(self, expr: ir.Lambda, state: State) -> Value:
        return Func(expr, self.frame.path, self.frame.scope, trace=start(self.site(expr.at), "defined here"))

    def yield_(self, expr: ir.Yield, state: State) -> Value:
        value = self.optional(expr.value, state) or const(None)
        if expr.is_from:
            value = union(self.element(case, expr.at, state) for case in value.cases)
        self.frame.yields.append((value, state.fork()))
        return unseen("sent into the generator", self.site(expr.at))

    def walrus(self, expr: ir.Walrus, state: State) -> Value:
        value = self.evaluate(expr.value, state)
        self.assign(expr.target, value, state, expr.at)
        return value


_E = Expressions
_TABLE: dict[type, Callable[[Any, Any, State], Value]] = {
    ir.Name: _E.name,
    ir.Constant: _E.constant,
    ir.Attribute: _E.attribute,
    ir.Subscript: _E.subscript,
    ir.Operation: _E.operation,
    ir.Display: _E.display,
    ir.DictDisplay: _E.dict_display,
    ir.Conditional: _E.conditional,
    ir.Joined: _E.joined,
    ir.Slice: _E.slice,
    ir.Lambda: _E.lambda_,
    ir.Yield: _E.yield_,
    ir.Walrus: _E.walrus,
    ir.Comprehension: _E.comprehension,
    ir.Await: lambda m, e, s: m.evaluate(e.value, s),
    ir.Starred: lambda m, e, s: m.evaluate(e.value, s),
    ir.Call: lambda m, e, s: m.call_expression(e, s),
}
