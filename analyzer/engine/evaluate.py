"""Expressions: names, attributes, subscripts, operations, displays, comprehensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from analyzer.engine import fold
from analyzer.engine.events import Loop, Store
from analyzer.engine.machine import Args, Machine, OutOfBudget, unseen
from analyzer.engine.state import State, merge
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.values import (
    Class,
    Const,
    External,
    Func,
    Method,
    ObjectId,
    Parameters,
    PyModule,
    Ref,
    Scalar,
    Stream,
    Tensor,
    Tuple,
    Unknown,
    Value,
    const,
    limited,
    nested,
    truth,
    union,
    without_constants,
)
from analyzer.syntax import ir

_COMPARISONS = {"==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"}
_BUILTINS = frozenset(
    [
        "print",
        "len",
        "range",
        "enumerate",
        "zip",
        "sum",
        "min",
        "max",
        "float",
        "int",
        "str",
        "bool",
        "list",
        "tuple",
        "dict",
        "set",
        "sorted",
        "reversed",
        "map",
        "filter",
        "abs",
        "isinstance",
        "getattr",
        "setattr",
        "hasattr",
        "iter",
        "next",
        "super",
        "any",
        "all",
        "round",
        "open",
        "type",
        "id",
        "repr",
        "object",
        "property",
        "staticmethod",
        "classmethod",
        "Exception",
        "ValueError",
        "RuntimeError",
        "KeyError",
        "StopIteration",
        "NotImplementedError",
        "NotImplemented",
        "vars",
        "callable",
        "input",
        "format",
        "divmod",
        "pow",
        "hash",
        "frozenset",
        "bytes",
        "exit",
        "quit",
        "dir",
        "globals",
        "locals",
        "issubclass",
        "slice",
        "complex",
    ]
)
CONTAINERS = ("list", "dict", "set", "deque", "Data")


class Expressions(Machine):
    """Evaluate expressions to values."""

    def evaluate(self, expr: ir.Expr, state: State) -> Value:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise OutOfBudget
        handler = _TABLE.get(type(expr))
        return handler(self, expr, state) if handler else unseen("this form of expression", self.site(expr.at))

    def optional(self, expr: ir.Expr | None, state: State) -> Value | None:
        return None if expr is None else self.evaluate(expr, state)

    # --- names ------------------------------------------------------------------------------------------------

    def name(self, expr: ir.Name, state: State) -> Value:
        value = self.lookup(expr.id, state)
        if value is not None:
            return value
        if expr.id in _BUILTINS:
            return External(f"builtins.{expr.id}")
        return unseen(f"`{expr.id}` is not defined in code that was read", self.site(expr.at))

    def lookup(self, name: str, state: State) -> Value | None:
        scope: ObjectId | None = self.frame.scope
        while scope is not None:
            value = state.get((scope, name))
            if value is not None:
                return value
            scope = self.parents.get(scope)
        return None

    def constant(self, expr: ir.Constant, state: State) -> Value:
        known = self.constants.get(expr)
        if known is None:
            known = self.constants[expr] = const(expr.value, start(self.site(expr.at), repr(expr.value)[:60]))
        return known

    # --- attributes -------------------------------------------------------------------------------------------

    def attribute(self, expr: ir.Attribute, state: State) -> Value:
        receiver = self.evaluate(expr.value, state)
        cases = receiver.cases
        if len(cases) == 1:
            return self.attribute_of(cases[0], expr.attr, expr.at, state)
        return union(self.attribute_of(case, expr.attr, expr.at, state) for case in cases)

    def attribute_of(self, case: Value, attr: str, at: int, state: State) -> Value:
        if isinstance(case, External):
            return External(f"{case.name}.{attr}", trace=case.trace)
        if isinstance(case, PyModule):
            found = state.get((case.scope, attr))
            return found or unseen(f"`{attr}` of {case.path}", self.site(at))
        if isinstance(case, Class):
            return self.class_attribute(case, attr, state) or Method(case, attr)
        if isinstance(case, Ref):
            return self.object_attribute(case, attr, at, state)
        if isinstance(case, Tensor):
            return self.tensor_attribute(case, attr, at)
        if isinstance(case, Unknown):
            return Method(case, attr)
        return Method(case, attr)

    def object_attribute(self, ref: Ref, attr: str, at: int, state: State) -> Value:
        held = state.get((ref.obj, attr))
        if held is not None:
            return held
        obj = self.obj(ref)
        if obj.cls is not None:
            found = self.class_attribute(obj.cls, attr, state)
            if found is not None:
                return self.bound(found, ref, at, state)
        if obj.kind == "Module" and attr in {"module", "_orig_mod"}:
            return ref
        if obj.kind == "Module" and attr == "training":
            is_eval = state.flag(ref.obj, "is eval")
            return Scalar("bool") if is_eval is None else const(not is_eval)
        return Method(ref, attr, trace=ref.trace)

    def bound(self, found: Value, ref: Ref, at: int, state: State) -> Value:
        """A class attribute seen through an instance: functions become methods, properties are called."""
        cases: list[Value] = []
        for case in found.cases:
            if isinstance(case, Func):
                names = {w.name for w in case.wrappers if isinstance(w, External)}
                if names & {"builtins.property", "functools.cached_property"}:
                    cases.append(self.run_function(replace(case, bound=ref), Args(), at, state))
                elif "builtins.staticmethod" in names:
                    cases.append(case)
                else:
                    cases.append(replace(case, bound=ref))
            else:
                cases.append(case)
        return union(cases)

    def class_attribute(self, cls: Class, attr: str, state: State, depth: int = 0) -> Value | None:
        """Looked up along the bases inside the repository."""
        held = state.get((cls.scope, attr))
        if held is not None:
            return held
        for base in cls.bases if depth < 10 else ():
            for case in base.cases:
                if isinstance(case, Class):
                    found = self.class_attribute(case, attr, state, depth + 1)
                    if found is not None:
                        return found
        return None

    def tensor_attribute(self, case: Tensor, attr: str, at: int) -> Value:
        if attr in {"data", "grad"}:
            return Tensor(param_of=case.param_of, trace=case.trace, activation=case.activation)
        if attr in {"shape", "device", "dtype", "ndim", "requires_grad", "is_cuda", "is_leaf", "grad_fn"}:
            return Scalar(trace=case.trace)
        if attr in {"T", "mT", "real", "imag"}:
            return case
        is_method = f"Tensor.{attr}" in self.knowledge.exact or attr in {"zero_grad", "step", "train", "eval"}
        if case.is_opaque and not is_method:
            return case  # ``outputs.loss``, ``batch.labels``
        return Method(case, attr, trace=case.trace)

    # --- subscripts -------------------------------------------------------------------------------------------

    def subscript(self, expr: ir.Subscript, state: State) -> Value:
        receiver = self.evaluate(expr.value, state)
        index = self.evaluate(expr.index, state)
        return union(self.item_of(case, index, expr.at, state) for case in receiver.cases)

    def item_of(self, case: Value, index: Value, at: int, state: State) -> Value:
        if isinstance(case, Tuple):
            return self.tuple_item(case, index)
        if isinstance(case, Ref):
            return self.container_item(case, index, at, state)
        if isinstance(case, (Tensor, Unknown)):
            return case
        if isinstance(case, Const) and isinstance(index, Const):
            try:
                return const(case.value[index.value], case.trace)  # type: ignore[index]
            except Exception:  # noqa: BLE001  the file's own subscript may raise anything
                return Scalar(trace=case.trace)
        if isinstance(case, Method):
            return self.plain(case, at)
        return Scalar() if isinstance(case, (Const, Scalar)) else self.element(case, at, state)

    def tuple_item(self, case: Tuple, index: Value) -> Value:
        if isinstance(index, Const) and isinstance(index.value, int) and abs(index.value) <= len(case.items):
            return case.items[index.value] if index.value < len(case.items) else union(case.items)
        return case if isinstance(index, Scalar) and index.kind == "slice" else union(case.items)

    def container_item(self, ref: Ref, index: Value, at: int, state: State) -> Value:
        if isinstance(index, Const):
            held = state.get((ref.obj, f"[{index.value!r}]"))
            if held is not None:
                return self.through(held, ref.obj)
        obj = self.obj(ref)
        if isinstance(index, Scalar) and index.kind == "slice" and obj.kind in CONTAINERS:
            return ref
        if obj.kind == "Module":
            return ref
        return self.element(ref, at, state)

    def element(self, case: Value, at: int, state: State) -> Value:
        """What iterating over a value, or picking an unknown element of it, gives."""
        if isinstance(case, Stream):
            return case.element
        if isinstance(case, Tuple):
            return union(case.items) if case.items else unseen("an empty tuple", self.site(at))
        if isinstance(case, Parameters):
            return Tensor("yes", param_of=case.modules, trace=case.trace)
        if isinstance(case, Tensor):
            return case
        if isinstance(case, Ref):
            return self.object_element(case, at, state)
        if isinstance(case, (Const, Scalar)):
            return Scalar()
        return unseen("what the loop iterates over is not known", self.site(at))

    def object_element(self, ref: Ref, at: int, state: State) -> Value:
        obj = self.obj(ref)
        if obj.kind == "Loader":
            return Tensor(is_opaque=True, is_batch=True, trace=ref.trace)
        if obj.kind in CONTAINERS:
            parts = [value for name, value in state.fields(ref.obj) if name[:1] == "["]
            if parts:
                return self.through(union(parts), ref.obj)
            return obj.element or unseen("an empty container", self.site(at))
        if obj.kind == "Module" and obj.cls is None:
            return ref
        return unseen("what the object yields is not known", self.site(at))

    def through(self, value: Value, container: object) -> Value:
        """Tensors taken out of a container remember it: a backward through them consumes what it keeps."""
        cases: list[Value] = []
        for case in value.cases:
            if isinstance(case, (Tensor, Unknown)) and case.roots:
                cases.append(replace(case, via=case.via | {container}))
            elif isinstance(case, Tuple):
                cases.append(replace(case, items=tuple(self.through(item, container) for item in case.items)))
            else:
                cases.append(case)
        return union(cases)

    # --- operations -------------------------------------------------------------------------------------------

    def operation(self, expr: ir.Operation, state: State) -> Value:
        left = self.evaluate(expr.left, state)
        if expr.right is None:
            return self.unary(expr.op, left)
        if expr.op in {"and", "or"}:
            known = truth(left)
            if known is not None and known is (expr.op == "or"):
                return left
            right = self.evaluate(expr.right, state)
            return right if known is not None else union([left, right])
        return self.binary(expr.op, left, self.evaluate(expr.right, state), expr.at)

    def unary(self, op: str, value: Value) -> Value:
        cases: list[Value] = []
        for case in value.cases:
            if op == "not":
                known = truth(case)
                cases.append(Scalar("bool") if known is None else const(not known, case.trace))
            elif isinstance(case, Const):
                try:
                    cases.append(const(fold.unary(op, case.value), case.trace))
                except fold.NotConstant:
                    cases.append(Scalar())
            elif isinstance(case, Tensor):
                cases.append(replace(case, activation=None))
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
            return self.comparison(op, left, right)
        return union(self.mixed(one, two, at) for one in left.cases for two in right.cases)

    def comparison(self, op: str, left: Value, right: Value) -> Value:
        if op in {"is", "is not"} and isinstance(right, Const) and right.value is None:
            shapes = {isinstance(case, Const) and case.value is None for case in left.cases}
            if not any(isinstance(case, (Unknown, Scalar, Method)) for case in left.cases) and len(shapes) == 1:
                return const(shapes.pop() is (op == "is"))
        if any(isinstance(case, Tensor) for case in (*left.cases, *right.cases)):
            return Tensor()
        return Scalar("bool")

    def mixed(self, one: Value, two: Value, at: int) -> Value:
        """An arithmetic operation on two cases: a tensor with a graph makes one, an unknown may."""
        carriers = [case for case in (one, two) if isinstance(case, (Tensor, Unknown))]
        if not carriers:
            if isinstance(one, Ref) and self.obj(one).kind in CONTAINERS:
                return one
            if isinstance(one, Tuple) and isinstance(two, Tuple):
                return Tuple((*one.items, *two.items))
            unknown = next((case for case in (one, two) if isinstance(case, Method)), None)
            return self.plain(unknown, at) if unknown is not None else Scalar()
        return combine(carriers)

    def plain(self, case: Method, at: int) -> Value:
        """An attribute of something unknown, used as a value."""
        if isinstance(case.receiver, Tensor):
            return case.receiver
        if isinstance(case.receiver, (Const, Scalar)):
            return Scalar()
        if isinstance(case.receiver, Unknown):
            return case.receiver
        return unseen(f"`.{case.name}` is not defined in code that was read", self.site(at))

    # --- displays and the rest --------------------------------------------------------------------------------

    def display(self, expr: ir.Display, state: State) -> Value:
        items: list[Value] = []
        loose = False
        for item in expr.items:
            if isinstance(item, ir.Starred):
                value = self.evaluate(item.value, state)
                if isinstance(value, Tuple):
                    items.extend(value.items)
                else:
                    loose = True
                    items.append(union(self.element(case, item.at, state) for case in value.cases))
            else:
                items.append(self.evaluate(item, state))
        trace = start(self.site(expr.at), "written here")
        if expr.kind == "tuple":
            return Tuple(tuple(items), trace=trace) if not loose else Stream(union(items), trace=trace)
        ref = self.create(expr.kind, expr.at, expr.kind, "created here")
        self.fill(ref, items, state, loose)
        return ref

    def fill(self, ref: Ref, items: list[Value], state: State, loose: bool = False) -> None:
        """A container newly made: exactly these elements."""
        self.empty(ref, state)
        for index, item in enumerate(items):
            state.add((ref.obj, "[]" if loose or index > 15 else f"[{index}]"), item)

    def empty(self, ref: Ref, state: State) -> None:
        state.clear(ref.obj)

    def dict_display(self, expr: ir.DictDisplay, state: State) -> Value:
        ref = self.create("dict", expr.at, "dict", "created here")
        pairs = [(key and self.evaluate(key, state), self.evaluate(value, state)) for key, value in expr.items]
        self.empty(ref, state)
        for key, value in pairs:
            if key is None:
                for case in value.cases:
                    self.copy_items(case, ref, expr.at, state)
            else:
                state.add((ref.obj, f"[{key.value!r}]" if isinstance(key, Const) else "[]"), value)
        return ref

    def copy_items(self, source: Value, into: Ref, at: int, state: State) -> None:
        """``into.update(source)``: known keys stay apart."""
        if isinstance(source, Ref) and self.obj(source).kind in CONTAINERS:
            for name, value in state.fields(source.obj):
                if name[:1] == "[":
                    state.add((into.obj, name), value)
        else:
            state.add((into.obj, "[]"), self.element(source, at, state))

    def conditional(self, expr: ir.Conditional, state: State) -> Value:
        known = truth(self.evaluate(expr.test, state))
        if known is not None:
            return self.evaluate(expr.body if known else expr.orelse, state)
        other = state.fork()
        result = union([self.evaluate(expr.body, state), self.evaluate(expr.orelse, other)])
        met = merge([state, other])
        assert met is not None
        state.become(met)
        return result

    def joined(self, expr: ir.Joined, state: State) -> Value:
        parts = [self.evaluate(part, state) for part in expr.parts]
        if all(isinstance(part, Const) for part in parts):
            text = "".join(str(part.value) for part in parts if isinstance(part, Const))
            return const(text, start(self.site(expr.at), repr(text)[:60]))
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

    def comprehension(self, expr: ir.Comprehension, state: State) -> Value:
        outer = self.loops
        for clause in expr.clauses:
            iterable = self.evaluate(clause.iter, state)
            self.loops = (*self.loops, self.loop_over(iterable, clause.iter.at))
            element = union(self.element(case, clause.iter.at, state) for case in iterable.cases)
            self.assign(clause.target, element, state, clause.iter.at)
            for condition in clause.conditions:
                self.evaluate(condition, state)
        if expr.key is not None:
            self.evaluate(expr.key, state)
        value = self.evaluate(expr.element, state)
        inner, self.loops = self.loops, outer
        if expr.kind == "generator":
            return Stream(without_constants(value), trace=start(self.site(expr.at), "generated here"))
        ref = self.create(expr.kind, expr.at, expr.kind, "created here")
        self.empty(ref, state)
        state.set((ref.obj, "[]"), without_constants(value))
        self.loops = inner
        self.note_store(ref, value, expr.element, "append", state)
        self.loops = outer
        return ref

    def loop_over(self, iterable: Value, at: int) -> Loop:
        """The loop that iterating over a value makes; `kind` says whether the elements can be batches of data."""
        kinds = {self.loop_kind(case) for case in iterable.cases}
        kind: Any = "data" if "data" in kinds else "range" if "range" in kinds else "other"
        note = "the loop iterates over this"
        if any(isinstance(case, (Unknown, Method)) for case in iterable.cases):
            return Loop(self.site(at), kind, start(self.site(at), note, Gap.CONVENTION), depth=len(self.calls))
        return Loop(self.site(at), kind, iterable.trace or start(self.site(at), note), depth=len(self.calls))

    def loop_kind(self, case: Value) -> str:
        if isinstance(case, Ref):
            kind = self.obj(case).kind
            return "data" if kind in {"Loader", "Data"} else "other"
        if isinstance(case, Stream):
            if isinstance(case.element, Scalar) and case.element.kind == "range":
                return "range"
            inner = list(nested(case.element))
            if any(isinstance(item, Tensor) and item.is_batch for item in inner):
                return "data"
            return "data" if any(isinstance(item, Unknown) for item in inner) else "other"
        return "data" if isinstance(case, (Unknown, Method)) else "other"

    # --- stores -----------------------------------------------------------------------------------------------

    def note_store(self, ref: Ref, value: Value, node: ir.Expr, how: Any, state: State, at: int | None = None) -> None:
        """Something is put into a container: an event if it may carry a graph."""
        held = tuple(case for case in self.deep(value, state) if carries(case))
        if held:
            obj = self.obj(ref)
            reach = self.loops_outside if self.in_pass else len(self.loops)
            self.emit(
                Store, node.at if at is None else at, held[0].trace, held=held, value=value, value_at=node.at,
                into=ref.obj,
                how=how, is_carried=len(obj.loops) < reach and obj.forwards == 0, freed="maybe",
                place=obj.trace,
            )  # fmt: skip

    def deep(self, value: Value, state: State, depth: int = 3) -> list[Value]:
        """The atoms of a value, of the tuples in it and of the containers it refers to."""
        found: list[Value] = []
        for case in nested(value):
            found.append(case)
            if isinstance(case, Ref) and depth and self.obj(case).kind in CONTAINERS:
                for name, inner in state.fields(case.obj):
                    if name[:1] == "[":
                        found += self.deep(self.through(inner, case.obj), state, depth - 1)
        return found


def carries(case: Value) -> bool:
    """Whether an atom may hold a graph."""
    if isinstance(case, Tensor):
        return case.graph != "no" and bool(case.roots)
    return isinstance(case, Unknown) and bool(case.roots)


def first_trace(value: Value) -> Any:
    """The evidence of the first case that carries a graph."""
    for case in nested(value):
        if carries(case):
            return case.trace
    return value.trace


def combine(cases: Sequence[Value]) -> Value:
    """What an operation on tensors and unknowns gives."""
    roots: frozenset[Site] = frozenset()
    via: frozenset[object] = frozenset()
    graph, trace, tensor = "no", None, False
    for case in cases:
        if isinstance(case, (Tensor, Unknown)):
            roots, via = roots | case.roots, via | case.via
        if isinstance(case, Tensor):
            tensor = True
            if case.graph == "yes" or (case.graph == "maybe" and graph == "no"):
                graph, trace = case.graph, case.trace
    if graph == "yes" or (tensor and all(isinstance(case, Tensor) for case in cases)):
        return Tensor(graph, limited(roots), via, trace=trace or cases[0].trace)  # type: ignore[arg-type]
    unknown = next(case for case in cases if isinstance(case, Unknown))
    return replace(unknown, roots=limited(roots), via=via)


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
