"""Lists, dicts and tuples: what they hold, what comprehensions fill them with, and stores into them."""

from __future__ import annotations

from typing import Any

from analyzer.engine import outputs
from analyzer.engine.data_events import LoaderIterated, WeightsKept
from analyzer.engine.events import Loop, Loss, Store
from analyzer.engine.graphs import carries
from analyzer.engine.machine import CONTAINERS, LAST, MAX_APART, MAX_ITEMS, unseen
from analyzer.engine.narrowing import Change, narrow
from analyzer.engine.operations import Operations
from analyzer.engine.padding import note_item
from analyzer.engine.state import State
from analyzer.engine.trace import Gap, start
from analyzer.engine.values import (
    Const,
    Counting,
    External,
    Method,
    ObjectId,
    Parameter,
    Parameters,
    Ref,
    Scalar,
    Stream,
    Tensor,
    Tuple,
    Union,
    Unknown,
    Value,
    const,
    drawn_from,
    nested,
    union,
    without_constants,
)
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import walk

MAX_ATOMS = 500
"""What is looked at of a container, with the containers in it."""
_ATOMS_PER_STEP = 25
MAX_STAGES = 4


class Containers(Operations):
    """Build containers and note what is put into them."""

    def display(self, expr: ir.Display, state: State) -> Value:
        items: list[Value] = []
        loose = False
        for item in expr.items:
            if isinstance(item, ir.Starred):
                value = self.evaluate(item.value, state)
                if isinstance(value, Tuple) and len(items) + len(value.items) <= MAX_ITEMS:
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
        if expr.kind == "list" and items and not isinstance(expr.items[-1], ir.Starred):
            self.end_with(ref, items[-1], state)
        return ref

    def fill(self, ref: Ref, items: list[Value], state: State, loose: bool = False) -> None:
        """A container newly made: exactly these elements."""
        self.empty(ref, state)
        for index, item in enumerate(items):
            state.add((ref.obj, "[]" if loose or index > 15 else f"[{index}]"), item)

    def empty(self, ref: Ref, state: State) -> None:
        state.clear(ref.obj)

    def next_field(self, ref: Ref, state: State) -> str:
        """The field for one more element: of its own while the list grows one by one, outside any loop."""
        obj = self.obj(ref)
        if obj.kind != "list" or len(self.loops) > len(obj.loops) or self.guards:
            return "[]"
        names = [name for name, _ in state.fields(ref.obj) if name[:1] == "["]
        return f"[{len(names)}]" if len(names) < MAX_APART and "[]" not in names else "[]"

    def take_in(self, source: Value, into: Ref, at: int, state: State) -> None:
        """``into.extend(source)``, ``into.update(source)``: items of a list stay in order, known keys apart."""
        if self.obj(into).kind != "list":
            self.copy_items(source, into, at, state)
            return
        items = self.in_order(source, state)
        for item in items if items is not None else (self.element(source, at, state),):
            state.add((into.obj, self.next_field(into, state) if items is not None else "[]"), item)
        if items != ():
            self.end_with(into, items[-1] if items is not None else unseen("the last item", self.site(at)), state)

    def end_with(self, ref: Ref, value: Value, state: State) -> None:
        """What a list holds last, however many items are before it."""
        if self.obj(ref).kind == "list":
            state.set((ref.obj, LAST), value)

    def dict_display(self, expr: ir.DictDisplay, state: State) -> Value:
        ref = self.create("dict", expr.at, "dict", "created here")
        pairs = [(key and self.evaluate(key, state), self.evaluate(value, state)) for key, value in expr.items]
        self.empty(ref, state)
        for key, value in pairs:
            if key is None:
                for case in value.cases:
                    self.copy_items(case, ref, expr.at, state)
            else:
                if isinstance(key, Const):
                    note_item(self, key, value, expr.at)
                state.add((ref.obj, f"[{key.value!r}]" if isinstance(key, Const) else "[]"), value)
        return ref

    def staged_display(self, expr: ir.Comprehension, stages: tuple[ir.Constant, ...], state: State) -> Value:
        """``{split: make(split) for split in ["train", "val"]}``: an element of its own for each."""
        calls, pairs = self.calls, list[tuple[str, Value]]()
        for number, stage in enumerate(stages):
            self.calls = (*calls, self.site(stage.at)._replace(run=-1 - number))
            self.assign(expr.clauses[0].target, self.evaluate(stage, state), state, stage.at)
            key = self.evaluate(expr.key, state) if expr.key is not None else const(number)
            name = f"[{key.value!r}]" if isinstance(key, Const) else "[]"
            pairs.append((name, self.evaluate(expr.element, state)))
        self.calls = calls
        ref = self.create(expr.kind, expr.at, expr.kind, "created here")
        self.empty(ref, state)
        for name, value in pairs:
            state.add((ref.obj, name), value)
        return ref

    def copy_items(self, source: Value, into: Ref, at: int, state: State) -> None:
        """``into.update(source)``: known keys stay apart."""
        if isinstance(source, Ref) and self.obj(source).kind in CONTAINERS:
            for name, value in state.fields(source.obj):
                if name[:1] == "[":
                    state.add((into.obj, name), value)
        else:
            element = self.element(source, at, state)
            is_pair = isinstance(element, Tuple) and len(element.items) == 2 and self.obj(into).kind == "dict"
            state.add((into.obj, "[]"), element.items[1] if is_pair and isinstance(element, Tuple) else element)

    def comprehension(self, expr: ir.Comprehension, state: State, *, is_spent: bool = False) -> Value:
        """`is_spent`: what gets a generator goes through all of it at once, so that all it gives is there at a time."""
        stages = written_out(expr.clauses[0].iter) if len(expr.clauses) == 1 and expr.kind in {"list", "dict"} else ()
        if stages and not expr.clauses[0].conditions:
            return self.staged_display(expr, stages, state)
        outer, changes = self.loops, list[Change]()
        for clause in expr.clauses:
            iterable = self.evaluate(clause.iter, state)
            self.loops = (*self.loops, self.loop_over(iterable, clause.iter.at, state))
            element = union(self.element(case, clause.iter.at, state) for case in iterable.cases)
            self.assign(clause.target, element, state, clause.iter.at)
            for condition in clause.conditions:
                self.note_sync(self.evaluate(condition, state), "if", condition.at)
                changes += narrow(self, condition, True, state, (expr.element,))
        if expr.key is not None:
            self.evaluate(expr.key, state)
            self.note_weights(expr, state)
        value = self.evaluate(expr.element, state)
        for change in reversed(changes):
            state.set(change.place, change.before)
        inner, self.loops = self.loops, outer
        kind = expr.kind
        if kind == "generator":
            if not is_spent or not any(carries(case) for case in value.cases):
                return Stream(without_constants(value), trace=start(self.site(expr.at), "generated here"))
            kind = "list"
        ref = self.create(kind, expr.at, kind, "created here")
        self.empty(ref, state)
        state.set((ref.obj, "[]"), without_constants(value))
        self.loops = inner
        self.note_store(ref, value, expr.element, "append", state)
        self.loops = outer
        return ref

    def note_weights(self, expr: ir.Comprehension, state: State) -> None:
        """``{name: w.clone() for name, w in model.state_dict().items()}`` under a condition keeps weights."""
        drawn = self.evaluate(expr.clauses[0].target, state) if self.guards else None
        if drawn is not None and any(
            isinstance(case, Ref) and self.obj(case).kind == "StateDict" for case in nested(drawn)
        ):
            self.emit(WeightsKept, expr.at, start(self.site(expr.at), "weights are copied here"))

    def loop_over(self, iterable: Value, at: int, state: State) -> Loop:
        """The loop that iterating over a value makes; `kind` says whether the elements can be batches of data."""
        kinds = {self.loop_kind(case) for case in iterable.cases}
        kind: Any = "data" if "data" in kinds else "range" if "range" in kinds else "other"
        if kind == "other":
            drawn = drawn_from(iterable)
            is_counting = bool(drawn) and all(self.holds_range(obj, state) for obj in drawn)
            kind = "range" if is_counting else kind
            kind = "data" if any(self.holds_samples(obj, state) for obj in drawn) else kind
        note = "the loop iterates over this"
        is_guess = any(isinstance(case, (Unknown, Method)) for case in iterable.cases)
        trace = start(self.site(at), note, Gap.CONVENTION) if is_guess else iterable.trace or start(self.site(at), note)
        over = drawn_from(iterable)
        if any(self.objects[obj].kind == "Loader" for obj in over):
            self.emit(LoaderIterated, at, start(self.site(at), "the loader is drawn from anew here"), loaders=over)
        bound = iterable.bound if isinstance(iterable, Counting) else None
        return Loop(
            self.site(at),
            kind,
            trace,
            run=self.run_number,
            depth=len(self.calls),
            over=over,
            bound=bound,
            runs_over=self.run_over(iterable, over, state),
        )

    def run_over(self, iterable: Value, over: frozenset[ObjectId], state: State) -> Any:
        """What the iterations of a loop are, as far as all cases agree."""
        if any(self.objects[obj].kind in CONTAINERS for obj in over):
            return "parameters" if all(self.holds_parameters(obj, state) for obj in over) else "container"
        found = {_run_over(case) or ("tensor" if self.is_one_tensor(case) else "") for case in iterable.cases}
        return found.pop() if len(found) == 1 else ""

    def is_one_tensor(self, case: Value) -> bool:
        """Whether the output of a model is a tensor and no list of them: a loss of torch was given it as it is."""
        if not isinstance(case, Tensor) or not case.is_opaque or not case.roots:
            return False
        return any(
            isinstance(event, Loss) and any(case == given for given in event.input.cases) for event in self.events
        )

    def holds_range(self, obj: ObjectId, state: State) -> bool:
        """``list(range(n))``."""
        held = [value for name, value in state.fields(obj) if name[:1] == "["]
        return bool(held) and all(
            isinstance(case, Scalar) and case.kind == "range" for each in held for case in each.cases
        )

    def holds_parameters(self, obj: ObjectId, state: State) -> bool:
        """``list(model.parameters())``."""
        held = [case for name, value in state.fields(obj) if name[:1] == "[" for case in value.cases]
        return bool(held) and all(isinstance(case, Tensor) and case.param_of for case in held)

    def holds_samples(self, obj: ObjectId, state: State) -> bool:
        """Whether a list holds nothing but pairs of tensors that no network gave: inputs and targets, written out."""
        if self.objects[obj].kind not in {"list", "tuple"} or self.objects[obj].cls is not None:
            return False
        held = [case for name, value in state.fields(obj) if name[:1] == "[" for case in value.cases]
        return bool(held) and all(
            isinstance(case, Tuple) and len(case.items) > 1 and all(_is_plain_tensor(item) for item in case.items)
            for case in held
        )

    def loop_kind(self, case: Value) -> str:
        if isinstance(case, Ref):
            kind = self.obj(case).kind
            return "data" if kind in {"Loader", "Data", "HubData"} else "other"
        if isinstance(case, Stream):
            if isinstance(case.element, Scalar) and case.element.kind == "range":
                return "range"
            inner = list(nested(case.element))
            if any(isinstance(item, Scalar) and item.kind == "range" for item in inner):
                return "range"  # ``enumerate(range(…))``
            if any(isinstance(item, Tensor) and item.is_batch for item in inner):
                return "data"
            return "data" if any(isinstance(item, Unknown) for item in inner) else "other"
        return "data" if isinstance(case, (Unknown, Method, External)) else "other"

    # --- stores -----------------------------------------------------------------------------------------------

    def note_store(
        self,
        ref: Ref,
        value: Value,
        node: ir.Expr,
        how: Any,
        state: State,
        at: int | None = None,
        *,
        key: Value | None = None,
    ) -> None:
        """Something is put into a container: an event if it may carry a graph."""
        cases = self.deep(value, state)
        self.note_output(ref, cases, value, node, at, is_key=how == "item")
        held = tuple(case for case in cases if carries(case))
        if held:
            obj = self.obj(ref)
            reach = self.loops_outside if self.in_pass else len(self.loops)
            self.emit(
                Store, node.at if at is None else at, held[0].trace, held=held, value=value, value_at=node.at,
                into=ref.obj,
                how=how, is_carried=len(obj.loops) < reach and obj.forwards == 0, freed="maybe",
                place=obj.trace, key=key,
            )  # fmt: skip

    def live_with(self, holder: Ref, value: Value) -> None:
        """A container that is made where another one lacks a key, and put in there, lives as long as that one does."""
        born = self.obj(holder)
        for case in value.cases:
            if isinstance(case, Ref) and self.obj(case).kind in CONTAINERS:
                held = self.obj(case)
                held.loops, held.forwards, held.trace = born.loops, born.forwards, born.trace

    def note_output(
        self, ref: Ref, cases: list[Value], value: Value, node: ir.Expr, at: int | None, *, is_key: bool
    ) -> None:
        """Outputs of a network that have no graph are put into a container; `is_key`: under `node`, by what is at
        `at`."""
        found = tuple(case for case in cases if isinstance(case, Tensor) and case.via and outputs.marks_in(case.via))
        obj = self.obj(ref)
        is_tensor = all(isinstance(case, Tensor) for case in value.cases)
        is_hook = self.passes == 1 and not self.forwards and any(loop.kind == "framework" for loop in self.loops)
        reach = self.loops_outside if is_hook else len(self.loops)
        if found and (is_hook or not self.in_pass) and len(obj.loops) < reach:
            self.emit(
                outputs.OutputKept, node.at if at is None else at, found[0].trace, into=ref.obj, outputs=found,
                born_under=len(obj.loops),
                tensor_at=(at if is_key else node.at) if is_tensor else None,
            )  # fmt: skip

    def deep(self, value: Value, state: State, depth: int = 3) -> list[Value]:
        """The atoms of a value, of the tuples in it and of the containers it refers to."""
        kind = type(value)
        if kind not in _HOLDS and (kind is not Ref or self.objects[value.obj].kind not in CONTAINERS):  # type: ignore[attr-defined]
            return [value]
        found: list[Value] = []
        self.deep_into(found, value, state, depth)
        self.steps_left -= len(found) // _ATOMS_PER_STEP
        return found

    def deep_into(self, found: list[Value], value: Value, state: State, depth: int) -> None:
        """Lists that hold each other are more atoms than anybody counts: the first `MAX_ATOMS`."""
        for case in nested(value):
            if len(found) >= MAX_ATOMS:
                return
            found.append(case)
            if isinstance(case, Ref) and depth and self.obj(case).kind in CONTAINERS:
                for name, inner in state.fields(case.obj):
                    if name[:1] == "[" and len(found) < MAX_ATOMS:
                        self.deep_into(found, self.through(inner, case.obj), state, depth - 1)


def _is_plain_tensor(value: Value) -> bool:
    return all(
        isinstance(case, Tensor) and not isinstance(case, Parameter) and case.graph == "no" and not case.param_of
        for case in value.cases
    )


_HOLDS = frozenset([Union, Tuple, Stream, Counting])
"""The values that hold others."""


def _run_over(case: Value) -> str:
    if isinstance(case, Parameters):
        return "parameters"
    if isinstance(case, Tensor):
        return "" if case.is_opaque else "tensor"
    if not isinstance(case, Stream):
        return ""
    element = case.element
    if isinstance(element, Scalar) and element.kind == "range":
        return "range"
    first = element.items[0] if isinstance(element, Tuple) and element.items else None
    if isinstance(first, Scalar) and first.kind == "str":
        return "container"  # the items of a dict
    tensors = [item for item in nested(element) if isinstance(item, Tensor)]
    if any(tensor.param_of for tensor in tensors):
        return "parameters"
    return "tensor" if any(tensor.device and not tensor.is_opaque for tensor in tensors) else ""


def written_out(iterable: ir.Expr) -> tuple[ir.Constant, ...]:
    """The few names that a loop goes over, where they stand in it: the phases of an epoch, the splits of a data set."""
    items = iterable.items if isinstance(iterable, ir.Display) else ()
    names = tuple(each for each in items if isinstance(each, ir.Constant) and isinstance(each.value, str))
    return names if len(names) == len(items) and len(set(names)) == len(names) <= MAX_STAGES else ()


@remembered(maxsize=512)
def told_apart(node: ir.For) -> tuple[ir.Constant, ...]:
    """The phases that a loop over the loaders of a dict asks for by name (``for phase, loader in loaders.items()``):
    training comes first, by convention."""
    over = node.iter.callee if isinstance(node.iter, ir.Call) and not node.iter.args else None
    items = node.target.items if isinstance(node.target, ir.Display) else ()
    names = [item.id for item in items if isinstance(item, ir.Name)]
    if not isinstance(over, ir.Attribute) or over.attr != "items" or len(names) != len(items) or len(names) != 2:
        return ()
    asked: dict[str, ir.Constant] = {}
    inside = tuple(walk(node.body, False))
    for part in inside:
        sides = (part.left, part.right) if isinstance(part, ir.Operation) and part.op == "==" else ()
        if any(isinstance(side, ir.Name) and side.id == names[0] for side in sides):
            found = (side for side in sides if isinstance(side, ir.Constant) and isinstance(side.value, str))
            asked.update((str(side.value), side) for side in found)
    is_iterated = any(
        isinstance(part, ir.For)
        and any(isinstance(each, ir.Name) and each.id == names[1] for each in walk((part.iter,), False))
        for part in inside
    )
    if not is_iterated or not 2 <= len(asked) <= MAX_STAGES:
        return ()
    return tuple(asked[name] for name in sorted(asked, key=lambda name: "train" not in name))
