"""Names, attributes, subscripts and elements."""

from __future__ import annotations

from functools import lru_cache

from analyzer.engine import measures, outputs, shapes
from analyzer.engine.machine import CONTAINERS, MAYBE, SEQUENTIAL, SEVERAL, Args, unseen
from analyzer.engine.optim_events import GRADIENTS, GradientRead
from analyzer.engine.state import State
from analyzer.engine.trace import Gap, start
from analyzer.engine.typing import is_blank
from analyzer.engine.uses import Uses
from analyzer.engine.values import (
    MAX_CASES,
    Class,
    Const,
    External,
    Func,
    Method,
    Parameters,
    Partial,
    PyModule,
    Ref,
    Scalar,
    Shape,
    Stream,
    Tensor,
    Tuple,
    Union,
    Unknown,
    Value,
    const,
    option,
    union,
)
from analyzer.knowledge.homes import public_name
from analyzer.records import replace
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted

_OF_DICTS = frozenset({".values", ".items"})
_BUILTINS = frozenset(
    [
        "print", "len", "range", "enumerate", "zip", "sum", "min", "max", "float", "int", "str", "bool",
        "list", "tuple", "dict", "set", "sorted", "reversed", "map", "filter", "abs", "isinstance",
        "getattr", "setattr", "hasattr", "iter", "next", "super", "any", "all", "round", "open", "type",
        "id", "repr", "object", "property", "staticmethod", "classmethod", "Exception", "ValueError",
        "RuntimeError", "KeyError", "StopIteration", "NotImplementedError", "NotImplemented", "vars",
        "callable", "input", "format", "divmod", "pow", "hash", "frozenset", "bytes", "exit", "quit", "dir",
        "globals", "locals", "issubclass", "slice", "complex", "exec",
    ]
)  # fmt: skip

_METHODS = measures.METHODS | {"zero_grad", "step", "train", "eval"}
"""Methods, also of what may be the output object of a model."""
_PAIR = ("values", "indices")
"""The fields of what ``tensor.max(dim)`` gives."""


@lru_cache(maxsize=8192)
def external(name: str, attr: str) -> External:
    """An attribute of a module or class outside the tree."""
    return External(public_name(f"{name}.{attr}"))


def _same_numbers(case: Tensor, marks: frozenset[outputs.Output] = frozenset()) -> Tensor:
    """A tensor without its graph, or its gradient."""
    return Tensor(
        param_of=case.param_of, device=case.device, trace=case.trace, activation=case.activation, via=frozenset(marks)
    )


def _is_input(case: Tensor) -> bool:
    """Whether a tensor is nothing that a network gave, or has parameters of."""
    return case.graph == "no" and not case.roots and not case.param_of and not case.via and not case.activation


class Lookups(Uses):
    """Find what a name, an attribute or an index means."""

    def optional(self, expr: ir.Expr | None, state: State) -> Value | None:
        return None if expr is None else self.evaluate(expr, state)

    # --- names ------------------------------------------------------------------------------------------------

    def name(self, expr: ir.Name, state: State) -> Value:
        value = self.lookup(expr.id, state)
        if value is not None:
            return value
        if expr.id in _BUILTINS:
            return External(f"builtins.{expr.id}")
        by_use = self.undefined(expr.id, expr.at, state)
        return by_use or unseen(f"`{expr.id}` is not defined in code that was read", self.site(expr.at))

    def constant(self, expr: ir.Constant, state: State) -> Value:
        known = self.constants.get(expr)
        if known is None:
            known = self.constants[expr] = const(expr.value, start(self.site(expr.at), repr(expr.value)[:60]))
        return known

    # --- attributes -------------------------------------------------------------------------------------------

    def attribute(self, expr: ir.Attribute, state: State) -> Value:
        receiver = self.evaluate(expr.value, state)
        if type(receiver) is not Union:
            return self.attribute_of(receiver, expr.attr, expr.at, state)
        return union(self.attribute_of(case, expr.attr, expr.at, state) for case in receiver.cases)

    def external_attribute(self, of: External, attr: str) -> Value:
        """An attribute of what is outside the tree."""
        if self.given_names:
            name = public_name(f"{of.name}.{attr}")
            return self.given_names.get(name) or External(name, trace=of.trace)
        known = external(of.name, attr)
        return known if of.trace is None else replace(known, trace=of.trace)

    def super_attribute(self, attr: str, at: int, state: State) -> Value | None:
        """What ``super().attr`` is; None where nothing tells."""
        raise NotImplementedError

    def attribute_of(self, case: Value, attr: str, at: int, state: State) -> Value:
        if isinstance(case, Ref):
            return self.object_attribute(case, attr, at, state)
        if isinstance(case, Tensor):
            return self.tensor_attribute(case, attr, at)
        if isinstance(case, External):
            inherited = self.super_attribute(attr, at, state) if case.name == "super." else None
            return inherited or self.external_attribute(case, attr)
        if isinstance(case, PyModule):
            if attr == "__dict__":
                return case
            found = self.member_of(case.scope, attr, state)
            return found or unseen(f"`{attr}` of {case.path}", self.site(at))
        if isinstance(case, Class):
            found = self.class_attribute(case, attr, state)
            return of_class(found, case) if found is not None else Method(case, attr)
        if attr in GRADIENTS:
            self.emit(GradientRead, at, None)
            if isinstance(case, Unknown) and not case.roots:
                return self.gradient_of_unread(at)
        if isinstance(case, Tuple) and attr in _PAIR and len(case.items) == len(_PAIR):
            return case.items[_PAIR.index(attr)]
        return Method(case, attr)

    def gradient_of_unread(self, at: int) -> Tensor:
        """``p.grad`` of an item of what was not read: by its use, one of the parameters of a module."""
        note = "what has a gradient is a parameter, where its module is"
        return Tensor(device="model", trace=start(self.site(at), note, Gap.CONVENTION))

    def object_attribute(self, ref: Ref, attr: str, at: int, state: State) -> Value:
        held = state.get((ref.obj, attr))
        if held is not None:
            return option(held) if isinstance(held, Const) and self.is_set_by_name(ref, state) else held
        obj = self.obj(ref)
        if obj.cls is not None:
            found = self.class_attribute(obj.cls, attr, state)
            if isinstance(found, Const) and (
                (obj.born == "argument" and not self.wanted) or self.is_set_by_name(ref, state)
            ):
                return option(found)  # the default of a field that an unseen caller, or a loop over names, may set
            if found is not None:
                return self.bound(found, ref, at, state)
        if obj.kind == "Accelerator" and attr == "sync_gradients":
            return Scalar("cycle")
        if obj.kind == "Module" and attr in {"module", "_orig_mod", "__call__"}:
            return ref
        if obj.kind == "Module" and attr == "training":
            self.reads_mode.add(ref.obj)
            is_eval = state.flag(ref.obj, "is eval")
            return Scalar("bool") if is_eval is None else const(not is_eval)
        by_use = self.unset(ref, attr, at, state)
        return by_use or Method(ref, attr, trace=ref.trace)

    def is_set_by_name(self, ref: Ref, state: State) -> bool:
        """Whether an object that is no module gets attributes under names that are not known: ``for name, value in
        vars(args).items(): setattr(config, name, value)``."""
        return not self.wanted and self.obj(ref).kind != "Module" and state.get((ref.obj, "some attribute")) is not None

    def bound(self, found: Value, ref: Ref, at: int, state: State) -> Value:
        """A class attribute seen through an instance: functions become methods, properties are called."""
        cases: list[Value] = []
        for case in found.cases:
            if isinstance(case, Func):
                names = {w.name for w in case.wrappers if isinstance(w, External)}
                if names & {"builtins.property", "functools.cached_property"}:
                    cases.append(self.property(case, ref, at, state))
                elif "builtins.staticmethod" in names:
                    cases.append(case)
                elif "builtins.classmethod" in names:
                    cases.append(replace(case, bound=self.obj(ref).cls or ref))
                else:
                    cases.append(replace(case, bound=ref))
            else:
                cases.append(case)
        return union(cases)

    def property(self, func: Func, ref: Ref, at: int, state: State) -> Value:
        """The value of a property; one that is not known is what the class uses it as."""
        value = self.run_function(replace(func, bound=ref), Args(), at, state)
        if isinstance(func.node, ir.FunctionDef) and all(is_blank(case) for case in value.cases):
            return self.unset(ref, func.node.name, at, state) or value
        return value

    def tensor_attribute(self, case: Tensor, attr: str, at: int) -> Value:
        if attr in GRADIENTS:
            self.emit(GradientRead, at, None)
            is_item = case.is_batch and not case.device
            return self.gradient_of_unread(at) if is_item else _same_numbers(case)
        if attr == "data":
            self.leaves_graph((case,), at)
            return _same_numbers(case, outputs.marks_in(case.via) if case.via else frozenset())
        if attr == "shape":
            return Scalar("shape", trace=case.trace)
        if attr in {"device", "dtype", "ndim", "requires_grad", "is_cuda", "is_leaf", "grad_fn"}:
            return Scalar(trace=case.trace)
        if attr in {"T", "mT", "real", "imag"}:
            return case
        is_method = f"Tensor.{attr}" in self.knowledge.exact or attr in _METHODS
        if case.is_opaque and not is_method:
            if attr not in outputs.FIELDS:  # ``outputs.loss``, ``batch.labels``
                return outputs.unmarked(case)
            for mark in sorted(outputs.marks_of(case), key=lambda mark: mark.site):
                self.emit(outputs.OutputRead, at, None, of=mark.site, what="classes")
            return case
        return Method(case, attr, trace=case.trace)

    # --- subscripts -------------------------------------------------------------------------------------------

    def subscript(self, expr: ir.Subscript, state: State) -> Value:
        receiver = self.evaluate(expr.value, state)
        index = self.evaluate(expr.index, state)
        if isinstance(expr.index, ir.Slice) and isinstance(receiver, Ref):
            layers = self.layers_between(receiver, expr.index, state)
            if layers is not None:
                return self.call(External(SEQUENTIAL), Args(layers), expr.at, state)
        if type(receiver) is not Union:
            value = self.item_of(receiver, index, expr.at, state)
        else:
            value = union(self.item_of(case, index, expr.at, state) for case in receiver.cases)
        if isinstance(receiver, Tensor) and receiver.birth and isinstance(value, Tensor) and _is_same(expr.index):
            value = replace(value, birth=receiver.birth)
        if isinstance(expr.index, ir.Slice):
            return self.piece(value) if self.counts_pieces(expr.index) else value
        is_drawn = isinstance(index, Tensor) and index.is_batch and not index.is_opaque
        return self.piece(value) if is_drawn else value  # ``x[indices[i : i + length]]``

    def counts_pieces(self, index: ir.Slice) -> bool:
        """Whether a slice takes a piece whose place a loop over numbers counts: ``data[i : i + length]``."""
        if not self.loops or self.loops[-1].kind != "range" or self.in_pass:
            return False
        ends = (index.lower, index.upper)
        return all(end is not None and not isinstance(end, ir.Constant) for end in ends)

    def piece(self, value: Value) -> Value:
        """A piece of what is not known, taken in a loop over its length: by convention a batch."""
        return union(
            Tensor(via=case.via, is_opaque=True, is_batch=True, trace=case.trace)
            if isinstance(case, Unknown) and not case.roots
            else replace(case, is_batch=True)
            if isinstance(case, Tensor) and _is_input(case)
            else case
            for case in value.cases
        )

    def item_of(self, case: Value, index: Value, at: int, state: State) -> Value:
        if isinstance(case, Tuple):
            return self.tuple_item(case, index)
        if isinstance(case, Ref):
            return self.container_item(case, index, at, state)
        if isinstance(case, Tensor) and (case.birth or case.is_synthetic):
            is_table = self.in_pass and is_slice(index)  # a slice of a table, as long as the input
            case = replace(case, birth=case.birth if is_table else None, is_synthetic=False)
        if isinstance(case, (Tensor, Unknown)):
            return shapes.item(outputs.item(case, index), index)
        if isinstance(case, Const) and isinstance(index, Const):
            try:
                return const(case.value[index.value], case.trace)  # type: ignore[index]
            except Exception:  # noqa: BLE001  the file's own subscript may raise anything
                return Scalar(trace=case.trace)
        if isinstance(case, Method):
            return self.plain(case, at)
        if isinstance(case, (PyModule, External)):
            return self.named_member(case, index, at, state) or self.any_member(case, at, state)
        if isinstance(case, Scalar) and case.kind == "shape" and isinstance(index, Const) and index.value == 0:
            return Scalar("size", trace=start(self.site(at), "the size of a batch"))
        return Scalar() if isinstance(case, (Const, Scalar)) else self.element(case, at, state)

    def named_member(self, case: PyModule | External, index: Value, at: int, state: State) -> Value | None:
        """``module.__dict__["name"]``."""
        if not isinstance(index, Const) or not isinstance(index.value, str) or not index.value.isidentifier():
            return None
        if isinstance(case, PyModule):
            return self.member_of(case.scope, index.value, state)
        module, _, last = case.name.rpartition(".")
        return External(public_name(f"{module}.{index.value}"), trace=case.trace) if last == "__dict__" else None

    def any_member(self, case: Value, at: int, state: State) -> Value:
        """``getattr(module, name)`` and ``module.__dict__[name]`` with a name that is not known: one of what it
        defines; of a library, something that its tables know by a pattern."""
        if isinstance(case, External):
            return External(f"{case.name.removesuffix('.__dict__')}.?", trace=case.trace)
        defined = [value for _, value in state.fields(case.scope)] if isinstance(case, PyModule) else []
        path = case.path if isinstance(case, PyModule) else ""
        found = [each for each in defined if isinstance(each, (Class, Func)) and each.path == path]
        unknown = unseen("a name that is not known", self.site(at))
        return union(found) if 0 < len(found) <= MAX_CASES else unknown

    def tuple_item(self, case: Tuple, index: Value) -> Value:
        if isinstance(index, Const) and isinstance(index.value, int) and abs(index.value) <= len(case.items):
            return case.items[index.value] if index.value < len(case.items) else union(case.items)
        return case if isinstance(index, Scalar) and index.kind == "slice" else union(case.items)

    def container_item(self, ref: Ref, index: Value, at: int, state: State) -> Value:
        if isinstance(index, Const):
            held = state.get((ref.obj, f"[{index.value!r}]"))
            if held is not None:
                return self.through(held, ref.obj)
            if isinstance(index.value, int) and index.value < 0:
                items = self.in_order(ref, state)
                if items is not None and -index.value <= len(items):
                    return self.through(items[index.value], ref.obj)
        obj = self.obj(ref)
        if isinstance(index, Scalar) and index.kind == "slice" and obj.kind in CONTAINERS:
            return ref
        if obj.kind == "Module":
            return self.layer_at(ref, index) or ref
        return self.element(ref, at, state)

    def layer_at(self, ref: Ref, index: Value) -> Value | None:
        """The layer of a ``Sequential`` under a number, if those that it counts are known: ``net[0]``."""
        layers = self.numbered_layers(ref)
        if (
            not isinstance(index, Const)
            or type(index.value) is not int
            or not -len(layers) <= index.value < len(layers)
        ):
            return None
        passed = layers[: index.value + 1] if index.value >= 0 else layers[index.value :]
        layer = layers[index.value]
        return layer if None not in passed and isinstance(layer, Ref) else None

    def layers_between(self, ref: Ref, piece: ir.Slice, state: State) -> tuple[Value, ...] | None:
        """The layers of a ``Sequential`` in a piece whose ends are written down: ``net[:-1]``."""
        ends: list[int | None] = []
        for end in (piece.lower, piece.upper, piece.step):
            value = self.evaluate(end, state) if end is not None else const(None)
            number = value.value if isinstance(value, Const) else ""
            if number is not None and type(number) is not int:
                return None
            ends.append(number)
        layers = self.numbered_layers(ref) if ends[-1] != 0 else ()
        found = tuple(layer for layer in layers[slice(*ends)] if layer is not None)
        return found if found and None not in layers and len(found) < len(layers) else None

    def numbered_layers(self, ref: Ref) -> tuple[Value | None, ...]:
        """The layers of a ``Sequential`` in order; None stands for one or more of which it is not known how many."""
        obj = self.obj(ref)
        if obj.name != SEQUENTIAL or obj.cls is not None:
            return ()
        return tuple(None if name[:1] in {SEVERAL, MAYBE} else layer for name, layer in obj.arguments)

    def in_order(self, value: Value, state: State) -> tuple[Value, ...] | None:
        """The items of a tuple or list in order; None where they are not all known."""
        if isinstance(value, Tuple):
            return value.items
        if not isinstance(value, Ref) or self.obj(value).kind not in {"list", "dict"}:
            return None
        items = [(name, item) for name, item in state.fields(value.obj) if name[:1] == "["]
        is_known = bool(items) and all(name == f"[{index}]" for index, (name, _) in enumerate(items))
        return tuple(item for _, item in items) if is_known else None

    def element(self, case: Value, at: int, state: State) -> Value:
        """What iterating over a value, or picking an unknown element of it, gives."""
        if isinstance(case, Stream):
            return case.element
        if isinstance(case, Tuple):
            return union(case.items) if case.items else unseen("an empty tuple", self.site(at))
        if isinstance(case, Parameters):
            parameter = Tensor("yes", param_of=case.modules, device="model", trace=case.trace)
            return Tuple((Scalar("str"), parameter)) if case.is_named else parameter
        if isinstance(case, Tensor):
            return replace(case, birth=None) if case.birth else case
        if isinstance(case, Ref):
            return self.object_element(case, at, state)
        if isinstance(case, (Const, Scalar)):
            return Scalar()
        via = case.via if isinstance(case, Unknown) else frozenset()
        roots = case.roots if isinstance(case, Unknown) and case.called in _OF_DICTS else frozenset()
        return replace(unseen("what the loop iterates over is not known", self.site(at)), via=via, roots=roots)

    def tensors_of(self, ref: Ref, state: State) -> tuple[Shape, ...]:
        """The shapes of what a loader over a ``TensorDataset`` gives, if any of them is known."""
        data = state.get((ref.obj, "dataset"))
        made = self.obj(data) if isinstance(data, Ref) else None
        if made is None or not made.name.endswith(".TensorDataset"):
            return ()
        found = tuple(shapes.shape_of(value) for _, value in made.arguments)
        return found if any(found) else ()

    def object_element(self, ref: Ref, at: int, state: State) -> Value:
        obj = self.obj(ref)
        if obj.kind == "Loader":
            collated = state.get((ref.obj, "collated"))
            if collated is not None:
                return collated
            items = self.tensors_of(ref, state)
            if items:
                marks = frozenset({ref.obj})
                return Tuple(tuple(Tensor(via=marks, is_batch=True, shape=s, trace=ref.trace) for s in items))
            return Tensor(via=frozenset({ref.obj}), is_opaque=True, is_batch=True, trace=ref.trace)
        if obj.kind in CONTAINERS:
            parts = [value for name, value in state.fields(ref.obj) if name[:1] == "["]
            if parts:
                return self.through(union(parts), ref.obj)
            return obj.element or unseen("an empty container", self.site(at))
        if (obj.kind == "Module" and obj.cls is None) or obj.kind == "StateDict":
            return ref  # an entry of a state dict is shared like the whole
        return unseen("what the object yields is not known", self.site(at))

    def through(self, value: Value, container: object) -> Value:
        """Tensors taken out of a container remember it: a backward through them consumes what it keeps."""
        if type(value) is not Union and type(value) is not Tuple and not getattr(value, "roots", ()):
            return value
        cases: list[Value] = []
        for case in value.cases:
            if isinstance(case, (Tensor, Unknown)) and case.roots:
                cases.append(replace(case, via=case.via | {container}))
            elif isinstance(case, Tuple):
                cases.append(replace(case, items=tuple(self.through(item, container) for item in case.items)))
            else:
                cases.append(case)
        return union(cases)

    def plain(self, case: Method, at: int) -> Value:
        """An attribute of something unknown, used as a value."""
        if isinstance(case.receiver, Tensor):
            return case.receiver
        if isinstance(case.receiver, (Const, Scalar)):
            return Scalar()
        if isinstance(case.receiver, Unknown):
            return case.receiver
        return unseen(f"`.{case.name}` is not defined in code that was read", self.site(at))


def is_slice(index: Value) -> bool:
    """``:n``, or several of these and constants."""
    parts = index.items if isinstance(index, Tuple) else (index,)
    return any(isinstance(part, Scalar) and part.kind == "slice" for part in parts) and all(
        isinstance(part, (Scalar, Const)) for part in parts
    )


def _adds_axes(index: ir.Expr) -> bool:
    """``mean[None, :, None, None]``: all of a tensor, in another shape."""
    parts = index.items if isinstance(index, ir.Display) else (index,)
    return all(
        (isinstance(part, ir.Constant) and part.value in {None, ...})
        or (isinstance(part, ir.Slice) and part.lower is part.upper is part.step is None)
        for part in parts
    )


def _is_same(index: ir.Expr) -> bool:
    return _adds_axes(index) or is_beginning(index)


def is_beginning(index: ir.Expr) -> bool:
    """``mask[: x.size(1), : x.size(1)]``: as much of a table as a batch is long."""
    parts = index.items if isinstance(index, ir.Display) else (index,)
    ends = [part.upper for part in parts if isinstance(part, ir.Slice) and part.lower is part.step is None]
    return len(ends) == len(parts) and any(ends) and all(end is None or _is_length(end) for end in ends)


def _is_length(end: ir.Expr) -> bool:
    """``x.size(1)``, ``x.shape[1]``, ``len(x)``."""
    of = end.callee if isinstance(end, ir.Call) else end.value if isinstance(end, ir.Subscript) else None
    return (dotted(of) or "").rpartition(".")[2] in {"size", "shape", "len"} if of is not None else False


def of_class(found: Value, cls: Class) -> Value:
    """An attribute seen through its class: a class method is called with the class (``Net.from_preset("small")``)."""
    return union(
        Partial(case, (cls,), ()) if isinstance(case, Func) and _is_class_method(case) else case for case in found.cases
    )


def _is_class_method(func: Func) -> bool:
    return any(isinstance(each, External) and each.name == "builtins.classmethod" for each in func.wrappers)
