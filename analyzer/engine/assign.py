"""Assignments: to names, attributes, items and patterns; what a use says about the value."""

from __future__ import annotations

from typing import Literal

from analyzer.engine import frozen, measures, outputs, targets, weights
from analyzer.engine.calls import Calls
from analyzer.engine.data_events import LoaderIterated
from analyzer.engine.devices import are_synthetic
from analyzer.engine.events import Clear, Kept, Store
from analyzer.engine.graphs import carries, first_trace, without_graph
from analyzer.engine.machine import CONTAINERS, Args, unseen
from analyzer.engine.optim_events import GRADIENTS, LayerReplaced, OptimizerMade
from analyzer.engine.padding import padding_of, unpadded
from analyzer.engine.state import GRAD_OFF, State
from analyzer.engine.trace import start
from analyzer.engine.values import (
    Class,
    Const,
    Method,
    ObjectId,
    Parameter,
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
    truth,
    union,
    without_constants,
)
from analyzer.records import replace
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, walk

_JOINS = frozenset(["torch.cat", "torch.concat", "torch.concatenate", "torch.hstack", "torch.vstack"])
_UPDATES = frozenset([ir.Operation, ir.Call, ir.Conditional])
"""The forms of what gives a place more of what it held."""


class Assignments(Calls):
    """Bind values to places."""

    def assign_all(self, node: ir.Assign, state: State) -> State:
        if node.value is None:
            return state
        grown: ir.Expr | None = None
        mixed: ir.Expr | None = None
        if len(node.targets) == 1 and type(node.value) in _UPDATES:
            added, grown, mixed = _updates(node)
            if added is not None:
                return self.augment(added, state)
        part = grown or mixed
        before = self.evaluate(node.targets[0], state) if part is not None else None
        value = self.evaluate(node.value, state)
        if part is not None and before is not None and any(carries(case) for case in value.cases):
            how: Literal["average", "joined"] = "average" if grown is None else "joined"
            owner = self.owner_of(node.targets[0], state)
            value = self.accumulate(ir.Augment(node.at, node.targets[0], "+", part), before, value, value, how, owner)
        outputs.note_joined(self, node, value)
        targets.note_average(self, node, value, state)
        weights.named(self, node, value)
        for target in node.targets:
            if type(target) is ir.Name and starts_anew(target, node.value):
                place = (self.frame.scope, target.id)
                is_part = isinstance(node.value, ir.Subscript)
                held = state.get(place) if is_part else state.given_up(place, value)
                self.replaced(held, value, node.value)
            self.assign(target, self.by_use(target, value, node.at, state), state, node.value.at)
        return state

    def assign(self, target: ir.Expr, value: Value, state: State, at: int) -> None:
        if isinstance(target, ir.Name):
            frame = self.frames[-1]
            node = frame.node
            outer = isinstance(node, ir.FunctionDef) and target.id in node.outer
            state.writable(self.scope_of(target.id, state) if outer else frame.scope)[target.id] = value
        elif isinstance(target, ir.Attribute):
            self.assign_attribute(target, value, state, at)
        elif isinstance(target, ir.Subscript):
            self.assign_item(target, value, state, at)
        elif isinstance(target, ir.Display):
            self.assign_items(target, value, state, at)
        elif isinstance(target, ir.Starred):
            self.assign(target.value, Stream(value), state, at)

    def scope_of(self, name: str, state: State) -> ObjectId:
        """The scope that a ``global`` or ``nonlocal`` name belongs to: the nearest around that has it."""
        outermost = self.frame.scope
        scope = self.parents.get(outermost)
        while scope is not None:
            outermost = scope
            if state.get((scope, name)) is not None:
                return scope
            scope = self.parents.get(scope)
        return outermost

    def assign_attribute(self, target: ir.Attribute, value: Value, state: State, at: int) -> None:
        receiver = self.evaluate(target.value, state)
        if target.attr == "requires_grad" and self.wanted:  # for the estimator: as if `requires_grad_` were called
            self.saw("torch.Tensor.requires_grad_", Args((value,)), at, state, receiver)
        for case in receiver.cases:
            if target.attr in GRADIENTS:
                modules = case.param_of if isinstance(case, Tensor) else frozenset()
                is_none = all(isinstance(given, Const) and given.value is None for given in value.cases)
                self.emit(Clear, at, None, modules=modules, is_replaced=not is_none)
            elif isinstance(case, (Ref, PyModule, Class)):
                obj = case.obj if isinstance(case, Ref) else case.scope
                self.replaced(state.given_up((obj, target.attr), value), value)
                self.note_kept(target.attr, value, at)
                self.note_layer(obj, target.attr, value, state, at)
                frozen.thaw(self, obj, value, state)
                weights.kept(self, obj, target.attr, value, at, state)
                state.set((obj, target.attr), value)
            elif isinstance(case, Method) and target.attr == "requires_grad":
                frozen.freeze_one(self, case, truth(value), at, state)
            elif isinstance(case, Method) and (owner := owner_of(case)) is not None:  # ``model.classifier.fc = …``
                self.note_layer(owner, target.attr, value, state, at)
                frozen.thaw(self, owner, value, state)
            elif isinstance(case, Tensor) and target.attr == "data":
                targets.note_followed(self, case, (value,))
            elif isinstance(case, Tensor) and target.attr == "requires_grad":
                frozen.freeze(self, self.with_parts(case.param_of, state), truth(value), at, state)
            elif isinstance(case, Unknown) and target.attr == "requires_grad":
                frozen.thaw_unseen(value, state)

    def replaced(self, held: Value | None, value: Value, by: ir.Expr | None = None) -> None:
        """An attribute or a name gets another container: the one before is given up, with what it keeps; a slice of it
        keeps some."""
        for case in held.cases if held is not None else ():
            is_new = case not in value.cases or isinstance(by, ir.Subscript)
            if isinstance(case, Ref) and self.obj(case).kind in CONTAINERS and is_new:
                self.emptied.setdefault(case.obj, set()).add(self.loops)

    def note_kept(self, name: str, value: Value, at: int) -> None:
        """An attribute gets a tensor that came through an accumulator or a container, or gets the container itself."""
        via: frozenset[object] = frozenset()
        objects: set[ObjectId] = set()
        for case in value.cases:
            if isinstance(case, (Tensor, Unknown)) and case.roots:
                via |= case.via
            elif isinstance(case, Ref) and self.objects[case.obj].kind in CONTAINERS:
                objects.add(case.obj)
        if via or objects:
            self.emit(Kept, at, value.trace, name=name, objects=frozenset(objects), via=via)

    def has_optimized_here(self, owner: ObjectId, state: State) -> bool:
        """Whether this very call has made an optimizer of a module that is not what it builds."""
        made = (event for event in reversed(self.events) if isinstance(event, OptimizerMade) and owner in event.parts)
        last, this = next(made, None), self.frame.this
        is_own = isinstance(this, Ref) and owner in self.with_parts(frozenset({this.obj}), state)
        return last is not None and not is_own and last.calls[: len(self.calls)] == self.calls

    def note_layer(self, owner: ObjectId, name: str, value: Value, state: State, at: int) -> None:
        """A module whose parameters an optimizer already has gets a layer that it does not have."""
        node = self.frame.node
        is_building = isinstance(node, ir.FunctionDef) and node.name == "__init__"  # another one, from the same place
        if state.flag(owner, "is optimized") is not True or (is_building and not self.has_optimized_here(owner, state)):
            return
        new = [case for case in value.cases if isinstance(case, Ref) and self.obj(case).kind == "Module"]
        new = [case for case in new if state.flag(case.obj, "is optimized") is False]
        if new and len(new) == len(value.cases):
            layers = self.with_parts(frozenset(case.obj for case in new), state)
            self.emit(LayerReplaced, at, None, owner=owner, name=name, layers=layers, layer=self.obj(new[0]).trace)

    def assign_item(self, target: ir.Subscript, value: Value, state: State, at: int) -> None:
        receiver, index = self.evaluate(target.value, state), self.evaluate(target.index, state)
        self.note_change(receiver)
        if padding_of(receiver) is not None and isinstance(target.value, ir.Name):
            self.assign(target.value, unpadded(receiver), state, at)  # ``y[y == pad] = -100``
        if isinstance(target.value, ir.Name) and all(isinstance(case, Tensor) for case in receiver.cases):
            receiver = self.as_written_to(target.value, receiver, value, state, at)
            self.write_into(target.value, receiver, value, state, at)
        for case in receiver.cases:
            if isinstance(case, Method) and (owner := owner_of(case)) is not None:  # ``model.classifier[6] = …``
                self.note_layer(owner, f"{case.name}[…]", value, state, at)
                state.set((owner, f"{case.name}[…]"), value)
                frozen.thaw(self, owner, value, state)
            if not isinstance(case, Ref):
                continue
            if self.lacking and dotted(target.value) == self.lacking:
                self.live_with(case, value)
            is_last = isinstance(index, Const) and index.value == -1
            self.end_with(case, value if is_last else unseen("the last item", self.site(at)), state)
            if isinstance(index, Const):
                weights.kept(self, case.obj, f"[{index.value!r}]", value, at, state)
                state.set((case.obj, f"[{index.value!r}]"), value)
            else:
                state.add((case.obj, "[]"), value)
                node = target.index
                self.note_store(case, value, node, "item", state, at, key=index)

    def as_written_to(self, name: ir.Name, receiver: Value, value: Value, state: State, at: int) -> Value:
        """``z[:, i] = sampled``: zeros that are filled are made up no longer."""
        is_made_up = any(isinstance(case, Tensor) and case.is_synthetic for case in receiver.cases)
        if not is_made_up or not all(isinstance(c, (Tensor, Unknown)) for c in value.cases) or are_synthetic((value,)):
            return receiver
        filled_up = union(replace(case, is_synthetic=False) for case in receiver.cases if isinstance(case, Tensor))
        self.assign(name, filled_up, state, at)
        return filled_up

    def write_into(self, name: ir.Name, receiver: Value, value: Value, state: State, at: int) -> None:
        """``losses[step] = loss``: the tensor takes the graph along, beside those of earlier iterations; with gradients
        off it takes numbers."""
        if state.flag(*GRAD_OFF):
            return
        written = union(filled(case, value) if isinstance(case, Tensor) else case for case in receiver.cases)
        if written is receiver or all(case in receiver.cases and not carries(case) for case in written.cases):
            return
        tag = ("accumulator", self.site(at))
        carried = any(isinstance(case, Tensor) and tag in case.via for case in receiver.cases)
        self.emit(
            Store, at, first_trace(written), value=value, value_at=at, into=tag, how="item", freed="maybe",
            is_carried=carried and not self.in_pass, place=start(self.site(at), "written into a tensor"),
        )  # fmt: skip
        kept = (replace(case, via=case.via | {tag}) if isinstance(case, Tensor) else case for case in written.cases)
        self.assign(name, union(kept), state, at)

    def assign_items(self, target: ir.Display, value: Value, state: State, at: int) -> None:
        starred = any(isinstance(item, ir.Starred) for item in target.items)
        for index, item in enumerate(target.items):
            parts: list[Value] = []
            for case in value.cases:
                if isinstance(case, Tuple) and len(case.items) == len(target.items) and not starred:
                    parts.append(case.items[index])
                elif isinstance(case, Tuple) and not starred:
                    parts.append(unseen("one of more or fewer values than there are", self.site(at)))  # it would fail
                elif index and isinstance(case, Tensor) and measures.is_loss_unread(case):
                    parts.append(unseen("what a loss is given with", self.site(at)))  # ``loss, count = criterion(…)``
                else:
                    parts.append(self.item_of(case, const(index), at, state))
            self.assign(item, self.by_use(item, union(parts), at, state), state, at)

    def augment(self, node: ir.Augment, state: State) -> State:
        left = self.evaluate(node.target, state)
        value = self.evaluate(node.value, state)
        if node.op == "+" and isinstance(left, Ref):
            for case in value.cases:
                self.take_in(case, left, node.at, state)
            self.note_store(left, value, node.value, "append", state)
            return state
        if isinstance(left, Parameter):  # changed in place, under `no_grad`: the same parameter
            return state
        value = self.added_to_loss(node, value, state)
        result = self.binary(node.op, left, value, node.at)
        if state.flag(*GRAD_OFF):
            result = union(without_graph(case) for case in result.cases)
        elif any(carries(case) for case in self.deep(value, state)):
            result = self.accumulate(node, left, value, result, owner=self.owner_of(node.target, state))
        elif isinstance(node.value, ir.Constant) or not isinstance(result, Const):
            result = without_constants(result) if self.loops or self.outlives(node.target) else result
        if node.op == "+" and self.loops:
            result = measures.added_up(value, result, self.site(node.at))
            if isinstance(value, Const) and value.value == 1 and self.is_once_per_batch(state):
                result = Scalar("batches", trace=start(self.site(node.at), "one is added for each batch"))
        is_gradient = isinstance(node.target, ir.Attribute) and node.target.attr in GRADIENTS
        if not is_gradient or node.op == "*":  # ``p.grad /= n`` resets nothing; a factor may be 0
            self.assign(node.target, result, state, node.at)
        return state

    def is_once_per_batch(self, state: State) -> bool:
        """Whether this runs in every iteration of a loop over a loader whose batches are larger than one sample."""
        loop = self.loops[-1]
        drawn = next((event for event in reversed(self.events) if isinstance(event, LoaderIterated)), None)
        if drawn is None or drawn.site != loop.site or drawn.guards != self.guards or not loop.over:
            return False
        sizes = [state.get((obj, "batch_size")) for obj in loop.over]
        return all(size is not None and not any(measures.is_small(case) for case in size.cases) for size in sizes)

    def outlives(self, target: ir.Expr) -> bool:
        """Whether a counter lives longer than the call (``self.steps += 1``): it counts calls that were not seen."""
        return isinstance(self.frame.this, Ref) and (dotted(target) or "").startswith("self.")

    def owner_of(self, target: ir.Expr, state: State) -> ObjectId | None:
        """The object that an attribute belongs to."""
        held = self.evaluate(target.value, state) if isinstance(target, ir.Attribute) else None
        return held.obj if isinstance(held, Ref) else None

    def accumulate(
        self,
        node: ir.Augment,
        left: Value,
        value: Value,
        result: Value,
        how: Literal["accumulate", "average", "joined"] = "accumulate",
        owner: ObjectId | None = None,
    ) -> Value:
        """``total += loss``: carried when what is added to already holds an earlier iteration's sum."""
        tag = ("accumulator", self.site(node.at))
        carried = any(isinstance(case, (Tensor, Unknown)) and tag in case.via for case in left.cases)
        inner = self.in_pass and len(self.loops) > self.loops_outside  # one pass sums up its own layers
        carried = carried or self.is_kept_by_hook(node.target)
        carried = carried and not inner and (not self.in_pass or isinstance(node.target, ir.Attribute))
        trace = start(self.site(node.at), "added to what earlier iterations left")
        self.emit(
            Store, node.at, next((case.trace for case in value.cases if carries(case)), value.trace), value=value,
            value_at=node.value.at, into=tag, how=how, is_carried=carried, freed="maybe", place=trace,
            on_object=isinstance(node.target, ir.Attribute), owner=owner,
        )  # fmt: skip
        return self.through(result, tag)

    def is_kept_by_hook(self, target: ir.Expr) -> bool:
        """Whether an attribute that a hook of a framework adds to is not set anew by it: it holds what earlier steps
        left."""
        name, function = dotted(target), self.frame.node
        if not self.loops or self.loops[-1].kind != "framework" or not self.outlives(target) or function is None:
            return False
        body = function.body if isinstance(function, ir.FunctionDef) else ()
        return not any(
            isinstance(each, ir.Assign) and each.value is not None and name in map(dotted, each.targets)
            for each in walk(body, into_functions=False)
            if isinstance(each, ir.Assign) and not self.is_sum(each)
        )

    def is_sum(self, node: ir.Assign) -> bool:
        """``x = x + y``, ``x = 0.9 * x + 0.1 * y``."""
        target, value = node.targets[0], node.value
        return value is not None and bool(summand(target, value) or averaged(target, value))

    def delete(self, node: ir.Delete, state: State) -> State:
        for target in node.targets:
            if isinstance(target, ir.Name):
                state.drop(self.frame.scope, (target.id,))
            elif isinstance(target, ir.Subscript):
                for case in self.evaluate(target.value, state).cases:
                    if isinstance(case, Ref):
                        self.emptied.setdefault(case.obj, set()).add(self.loops)
                        self.end_with(case, unseen("the last item", self.site(node.at)), state)
        return state


@remembered(maxsize=8192)
def _updates(node: ir.Assign) -> tuple[ir.Augment | None, ir.Expr | None, ir.Expr | None]:
    """What an assignment adds to what its target held, and what it joins on to or averages into it."""
    target, value = node.targets[0], node.value
    assert value is not None
    added = summand(target, value)
    if added is not None:
        return ir.Augment(node.at, target, "+", added), None, None
    grown = joined(target, value)
    return None, grown, averaged(target, value) if grown is None else None


def summand(target: ir.Expr, value: ir.Expr) -> ir.Expr | None:
    """What is added in ``x = x + y``, ``x = y + x`` and ``sums[key] = sums.get(key, 0) + y``."""
    if not isinstance(value, ir.Operation) or value.op != "+" or value.right is None:
        return None
    if is_place(target, value.left):
        return value.right
    return value.left if isinstance(target, ir.Name) and is_place(target, value.right) else None


def averaged(target: ir.Expr, value: ir.Expr) -> ir.Expr | None:
    """What goes into a running average: ``0.1 * y`` in ``x = 0.9 * x + 0.1 * y``, perhaps in a branch of ``… if … else
    …``."""
    if isinstance(value, ir.Conditional):
        return averaged(target, value.body) or averaged(target, value.orelse)
    if isinstance(value, ir.Operation) and value.op == "/":
        return averaged(target, value.left)  # ``x = (x * i + y) / (i + 1)``
    if not isinstance(value, ir.Operation) or value.op != "+" or value.right is None:
        return None
    sides = ((value.left, value.right), (value.right, value.left))
    return next((other for one, other in sides if is_share(target, one) and not is_share(target, other)), None)


def is_share(target: ir.Expr, expr: ir.Expr) -> bool:
    """``0.9 * x``, ``x * beta``, and ``x`` itself."""
    if isinstance(expr, ir.Operation) and expr.op == "*" and expr.right is not None:
        return is_place(target, expr.left) or is_place(target, expr.right)
    return is_place(target, expr)


def joined(target: ir.Expr, value: ir.Expr) -> ir.Expr | None:
    """What is joined on in ``kept = torch.cat([kept, new])``, perhaps in a branch of ``… if … else …``."""
    if isinstance(value, ir.Conditional):
        return joined(target, value.body) or joined(target, value.orelse)
    if not isinstance(value, ir.Call) or not value.args or not isinstance(value.callee, ir.Attribute):
        return None
    if dotted(value.callee) not in _JOINS:
        return None
    parts = value.args[0].value
    if not isinstance(parts, ir.Display) or len(parts.items) != 2 or not isinstance(target, (ir.Name, ir.Attribute)):
        return None
    first, second = parts.items
    return second if is_place(target, first) else first if is_place(target, second) else None


def is_place(target: ir.Expr, expr: ir.Expr) -> bool:
    """Whether an expression reads what an assignment writes: the same name, field or item."""
    if not isinstance(target, ir.Subscript):
        name = dotted(target)
        return name is not None and name == dotted(expr)
    if isinstance(expr, ir.Call) and isinstance(expr.callee, ir.Attribute) and expr.callee.attr == "get":
        base, key = expr.callee.value, expr.args[0].value if expr.args else None
    elif isinstance(expr, ir.Subscript):
        base, key = expr.value, expr.index
    else:
        return False
    name = dotted(target.value)
    return name is not None and name == dotted(base) and key is not None and _is_same_key(target.index, key)


def _is_same_key(one: ir.Expr, other: ir.Expr) -> bool:
    if isinstance(one, ir.Constant) and isinstance(other, ir.Constant):
        return one.value == other.value
    name = dotted(one)
    return name is not None and name == dotted(other)


def filled(case: Tensor, value: Value) -> Tensor:
    """``outputs[t] = output``: what is written into a tensor without a graph brings its own, and its numbers."""
    parts = [part for part in value.cases if isinstance(part, Tensor) and part.graph == "yes" and part.roots]
    if len(parts) != 1 or len(value.cases) != 1 or case.param_of or case.is_batch:
        return case
    (part,) = parts
    is_blank = not case.roots and case.activation is None
    activation = part.activation if is_blank or case.activation == part.activation else None
    roots, via = limited(case.roots | part.roots), case.via | part.via
    return replace(case, graph="yes", roots=roots, via=via, activation=activation, trace=part.trace, is_synthetic=False)


def starts_anew(target: ir.Name, value: ir.Expr) -> bool:
    """``kept = []``, ``kept = kept[-10:]``."""
    kind = type(value)
    if kind is ir.Subscript:
        return isinstance(value.index, ir.Slice) and dotted(value.value) == target.id  # type: ignore[attr-defined]
    return (kind is ir.Display and value.kind != "tuple") or kind is ir.DictDisplay  # type: ignore[attr-defined]


def owner_of(case: Method) -> ObjectId | None:
    """The module whose part an attribute is that was not read: of ``model.classifier``, the model."""
    receiver = case.receiver
    while isinstance(receiver, Method):
        receiver = receiver.receiver
    return receiver.obj if isinstance(receiver, Ref) else None
