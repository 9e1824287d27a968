"""Operations on values."""

from __future__ import annotations

import sys

from analyzer.engine import fold, measures, shapes, targets
from analyzer.engine.activations import shifted
from analyzer.engine.devices import are_synthetic
from analyzer.engine.graphs import carries, combine, device_of, roots_of, without_graph
from analyzer.engine.lookups import Lookups
from analyzer.engine.machine import CONTAINERS, MAX_ITEMS, unseen
from analyzer.engine.state import GRAD_OFF, State
from analyzer.engine.trace import start
from analyzer.engine.values import (
    Const,
    External,
    Method,
    Ref,
    Scalar,
    Stream,
    Tensor,
    Tuple,
    Union,
    Unknown,
    Value,
    const,
    truth,
    union,
)
from analyzer.records import replace
from analyzer.syntax import ir

LENGTHS = frozenset({"length", "batches", "samples", "padded"})
"""Kinds of numbers that come from the length of something: they count batches or samples, not epochs."""
_CONTAINERS = ("Sequential", "List", "Dict")
_STANDARD = frozenset(sys.stdlib_module_names)
_COMPARISONS = {"==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"}


class Operations(Lookups):
    """Arithmetic, comparisons and logic."""

    def operation(self, expr: ir.Operation, state: State) -> Value:
        left = self.evaluate(expr.left, state)
        if expr.right is None:
            return self.ungraphed(self.unary(expr.op, left), state)
        if expr.op in {"and", "or"}:
            known = True if self.is_layer(left) else truth(left)
            if known is not None and known is (expr.op == "or"):
                return left
            right = self.evaluate(expr.right, state)
            return right if known is not None else union([left, right])
        return self.ungraphed(self.binary(expr.op, left, self.evaluate(expr.right, state), expr.at), state)

    def ungraphed(self, result: Value, state: State) -> Value:
        """What an operation gives: no graph where gradients are off, be it that of a parameter."""
        for case in result.cases:
            if roots_of(case) or (isinstance(case, Tensor) and case.graph != "no"):
                return union(without_graph(case) for case in result.cases) if state.flag(*GRAD_OFF) else result
        return result

    def is_layer(self, value: Value) -> bool:
        """Whether a value is a layer of torch that was made where it shows, and that has no length: it is true."""
        if not isinstance(value, Ref) or value.trace is None or value.trace.gap is not None:
            return False
        obj = self.obj(value)
        return obj.kind == "Module" and obj.name.startswith("torch.nn.") and not obj.name.endswith(_CONTAINERS)

    def unary(self, op: str, value: Value) -> Value:
        cases: list[Value] = []
        for case in value.cases:
            if op == "not":
                known = truth(case)
                cases.append(negated(case) if known is None else const(not known, case.trace))
            elif isinstance(case, Const):
                try:
                    cases.append(const(fold.unary(op, case.value), case.trace))
                except fold.NotConstant:
                    cases.append(Scalar())
            elif isinstance(case, Tensor):
                cases.append(replace(case, activation=shifted("-", const(0), case)))
            else:
                cases.append(case)
        return union(cases)

    def binary(self, op: str, left: Value, right: Value, at: int) -> Value:
        if isinstance(left, Const) and isinstance(right, Const):
            try:
                return const(fold.binary(op, left.value, right.value), left.trace)
            except fold.NotConstant:
                return Scalar()
        if op in _COMPARISONS:
            self.leaves_graph((left, right), at)
            return self.comparison(op, left, right)
        if op in {"*", "//"} and is_length(left) != is_length(right) and is_open(right if is_length(left) else left):
            return stretched(op, left if is_length(left) else right)
        if op == "%" and is_counted(left) and is_counted(right):
            is_each = isinstance(right, Const) and right.value == 1 and is_whole(left)
            return const(0, right.trace) if is_each else Scalar("cycle")
        if type(left) is not Union and type(right) is not Union:
            return self.reckoned(self.mixed(op, left, right, at), at)
        return union([self.reckoned(self.mixed(op, one, two, at), at) for one in left.cases for two in right.cases])

    def reckoned(self, value: Value, at: int) -> Value:
        """An unknown that came out of arithmetic begins there: it is no longer the number that went in."""
        if isinstance(value, Unknown) and not value.roots:
            return replace(value, trace=start(self.site(at), "computed here", value.gap))
        return value

    def comparison(self, op: str, left: Value, right: Value) -> Value:
        if op in {"is", "is not"} and isinstance(right, Const) and right.value is None:
            shapes = {isinstance(case, Const) and case.value is None for case in left.cases}
            if len(shapes) == 1 and not any(self.may_be_none(case) for case in left.cases):
                return const(shapes.pop() is (op == "is"))
        if op in {"is", "is not"}:
            return Scalar("bool")
        if any(isinstance(case, Tensor) for case in (*left.cases, *right.cases)):
            device = device_of((*left.cases, *right.cases))
            return Tensor(via=frozenset({measures.Mark.COUNT}), device=device)
        return Scalar("cycle" if is_cycle(left) or is_cycle(right) else "bool")

    def may_be_none(self, case: Value) -> bool:
        """Whether a case that is not None itself may be: nothing shows what it is. What is known of a library is there;
        what a module that was not read holds (``configs.resume``) may be anything."""
        if isinstance(case, External):
            first = case.name.partition(".")[0]
            return first not in self.knowledge.libraries and first not in _STANDARD
        return isinstance(case, (Unknown, Scalar, Method))

    def mixed(self, op: str, one: Value, two: Value, at: int) -> Value:
        """An arithmetic operation on two cases: a tensor with a graph makes one, an unknown may."""
        if op == "/":
            self.average(one, two, at)
        carriers = [case for case in (one, two) if isinstance(case, (Tensor, Unknown))]
        if not carriers:
            if isinstance(one, Ref) and self.obj(one).kind in CONTAINERS:
                both = isinstance(two, Ref) and self.obj(two).kind in CONTAINERS
                if op == "|" and not both:
                    return unseen("a dict with others in it", self.site(at))
                return union([one, two]) if both else one
            if isinstance(one, Tuple) and isinstance(two, Tuple):
                items = (*one.items, *two.items)
                return Tuple(items) if len(items) <= MAX_ITEMS else Stream(union(items))
            unknown = next((case for case in (one, two) if isinstance(case, Method)), None)
            if unknown is not None:
                return self.plain(unknown, at)
            return number(op, one, two)
        self.broadcast(op, one, two, at)
        outcome = measures.after_operation(op, one, two, combine(carriers))
        outcome = targets.after_operation(self, op, one, two, outcome, at)
        activation, shape = shifted(op, one, two), shapes.after_operation(one, two)
        if shape and isinstance(outcome, Unknown):  # with a reward or a mask that was not seen
            outcome = Tensor("maybe", outcome.roots, outcome.via, trace=outcome.trace)
        if isinstance(outcome, Tensor) and are_synthetic((one, two)):
            outcome = replace(outcome, is_synthetic=True)
        outcome = self.made_on_host(outcome, carriers, at)
        if (activation is None and not shape) or not isinstance(outcome, Tensor):
            return outcome
        return replace(outcome, activation=activation, shape=shape)

    def made_on_host(self, outcome: Value, carriers: list[Tensor | Unknown], at: int) -> Value:
        """What arithmetic gives on tensors that were made in the host's memory, outside of a forward pass: another."""
        if not isinstance(outcome, Tensor) or outcome.device != "host" or self.in_pass:
            return outcome
        if not all(isinstance(case, Tensor) and case.birth for case in carriers):
            return outcome
        return replace(outcome, birth=(self.site(at), tuple(loop.key for loop in self.loops)))

    def broadcast(self, op: str, one: Value, two: Value, at: int) -> None:
        """A column and a flat tensor are subtracted, one of them an output of a network and the other none. Two outputs
        may well be compared pair by pair."""
        if op != "-" or not (shapes.shape_of(one) and shapes.shape_of(two)):
            return
        found = {shapes.shape_of(case): case.trace or start(self.site(at), "here") for case in (one, two)}
        if found.keys() == {"column", "flat"} and carries(one) != carries(two):
            self.emit(shapes.Broadcast, at, None, column=found["column"], flat=found["flat"])

    def average(self, over: Value, by: Value, at: int) -> None:
        """Something measured is divided by something measured."""
        units = measures.unit_of(over), measures.unit_of(by)
        if all(units) and by.trace:
            over_trace = over.trace or start(self.site(at), "this is divided")
            self.emit(
                measures.Average, at, None, over=units[0], by=units[1], over_trace=over_trace, by_trace=by.trace,
            )  # fmt: skip


def number(op: str, one: Value, two: Value) -> Scalar:
    """What arithmetic on plain numbers gives."""
    if is_cycle(one) or is_cycle(two):
        return Scalar("cycle")
    result = measures.plain(op, one, two)
    if result is None or result.kind == "number":
        return Scalar("length", trace=one.trace) if is_length(one) or is_length(two) else Scalar()
    return result


def stretched(op: str, length: Value) -> Scalar:
    """A length times something, or divided by it; ``len(loader) * batch_size`` counts samples, and then some."""
    is_batches = isinstance(length, Scalar) and length.kind == "batches"
    return Scalar("padded" if op == "*" and is_batches else "length", trace=length.trace)


def is_cycle(value: Value) -> bool:
    """A remainder, or what was computed from one."""
    if type(value) is not Union:
        return isinstance(value, Scalar) and value.kind == "cycle"
    return any(isinstance(case, Scalar) and case.kind == "cycle" for case in value.members)


def is_length(value: Value) -> bool:
    """A length, or what was computed from one."""
    return isinstance(value, Scalar) and value.kind in LENGTHS


def is_open(value: Value) -> bool:
    """A number that was not seen, and no tensor of a graph."""
    return is_counted(value) and any(isinstance(case, (Unknown, Method)) for case in value.cases)


def is_counted(value: Value) -> bool:
    """Whether a value can be an operand of a remainder of counts: no text to format, no tensor."""
    return all(
        isinstance(case, (Method, External))  # ``CFG.steps`` of a module that was not read
        or (isinstance(case, Unknown) and not case.roots)
        or (isinstance(case, Scalar) and case.kind != "str")
        or (isinstance(case, Const) and isinstance(case.value, (int, float)))
        for case in value.cases
    )


def is_whole(value: Value) -> bool:
    """A number the program made or counts: what it divides by one leaves nothing. One from elsewhere may be tested so
    for being whole."""
    cases = (case.value if isinstance(case, Const) else case for case in value.cases)
    return all(type(case) in {Scalar, int} for case in cases)


def negated(case: Value) -> Scalar:
    """``not`` of what is not known."""
    return Scalar("cycle" if is_cycle(case) else "bool")
