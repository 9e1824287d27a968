"""What calls give: results of library calls, from their knowledge rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analyzer.engine import frozen, measures, outputs, padding, shapes, targets
from analyzer.engine.activations import after
from analyzer.engine.built import MODULES, UNPACKED
from analyzer.engine.device_events import Transfer
from analyzer.engine.devices import MOVES, located, moved_to
from analyzer.engine.effects import Effects
from analyzer.engine.events import Escape, Loss
from analyzer.engine.graphs import combine, roots_of
from analyzer.engine.machine import CONTAINERS, LAST, SEVERAL, Args
from analyzer.engine.optim_events import OptimizerMade
from analyzer.engine.state import GRAD_OFF, TRUE, State
from analyzer.engine.trace import Gap, start
from analyzer.engine.typing import NOUNS, is_blank
from analyzer.engine.values import (
    Activation,
    Const,
    Method,
    ObjectId,
    Parameter,
    Parameters,
    Ref,
    Scalar,
    Shape,
    Tensor,
    Tuple,
    Unknown,
    Value,
    const,
    truth,
    union,
)
from analyzer.knowledge.schema import Row
from analyzer.records import replace

_WRAPPED = ("module", "model", "optimizer", "data_loader")


class Rows(Effects):
    """Apply knowledge rows."""

    def receiver_kind(self, receiver: Value) -> str:
        if isinstance(receiver, Ref):
            return self.obj(receiver).kind
        return "Tensor" if isinstance(receiver, Tensor) else ""

    def apply_row(self, row: Row, name: str, receiver: Value | None, args: Args, at: int, state: State) -> Value:
        subject = receiver if row.on == "self" else args.at(int(row.on))
        if row.effect:
            is_fabric = isinstance(receiver, Ref) and self.obj(receiver).name.endswith(".Fabric")
            self.effect(replace(row, name=f"Fabric.{row.effect}") if is_fabric else row, subject, args, at, state)
        for each in row.effects:
            effect, _, on = each.partition(" ")
            target = receiver if on == "self" else args.at(int(on), row.params[int(on)] if row.params else "")
            self.effect(replace(row, effect=effect, on=on), target, args, at, state)
        if row.expects:
            self.loss(row, name, args, at)
        inputs = args.all() if receiver is None else (receiver, *args.all())
        if receiver is not None and row.name in MOVES:
            inputs = (receiver,)  # a device has no graph
        if row.graph == "none" or row.returns == "scalar":
            self.leaves_graph(inputs, at)
        if row.returns in {"tensor", "values and indices"}:
            if row.graph == "parameters":
                wanted = args.at(1, "requires_grad")
                asks = True if wanted is None else truth(wanted)
                return Parameter(
                    "yes" if asks else "no" if asks is False else "maybe", trace=start(self.site(at), "a parameter")
                )
            result = self.sized(name, self.tensor_result(row, inputs, at, state, args), inputs, at, state)
            result = measures.after_call(name, inputs, result)
            result = padding.after_call(name, args, result, self.site(at))
            result = shapes.shaped(result, self.shape_after(name, args, inputs, state))
            result = targets.after_call(self, name, args, receiver, result, state, at)
            return self.with_gradient(self.reduced(row, args.keywords, result), args, at, state)
        if row.returns[:1].isupper() or row.returns in {"list", "dict"}:
            return self.make(row, name, args, at, state)
        return self.plain_result(row, receiver, args, at, state)

    def with_gradient(self, value: Value, args: Args, at: int, state: State) -> Value:
        """``torch.randn(4, requires_grad=True)``."""
        wanted = args.keywords.get("requires_grad")
        if wanted is None or truth(wanted) is not True or not isinstance(value, Tensor) or state.flag(*GRAD_OFF):
            return value
        return replace(value, graph="yes", trace=start(self.site(at), "`requires_grad=True`"))

    def plain_result(self, row: Row, receiver: Value | None, args: Args, at: int, state: State) -> Value:
        if row.returns == "self" and receiver is not None:
            return receiver
        if row.returns == "unknown":
            reason = f"what `{row.name}` gives"
            return Unknown(reason, trace=start(self.site(at), reason, Gap.UNSEEN))
        if row.returns == "argument":
            return self.given(row, args, at)
        if row.returns == "arguments":
            return args.positional[0] if len(args.positional) == 1 else Tuple(args.positional)
        if row.returns == "none":
            return const(None)
        if row.returns == "parameters" and isinstance(receiver, Ref):
            is_named = row.name.rpartition(".")[2].startswith("named_")
            return Parameters(frozenset({receiver.obj}), is_named, trace=receiver.trace)
        if row.returns == "apply":
            return self.applied(row, args, at, state)
        if row.name in measures.NUMBERS and receiver is not None:
            return measures.number_of(receiver, self.site(at))
        if row.name == "Tensor.size" and is_first(args.at(0, "dim")):
            return Scalar("size", trace=start(self.site(at), "the size of a batch"))
        return Scalar()

    def given(self, row: Row, args: Args, at: int) -> Value:
        """The argument of a wrapper, which says what it must be (`gives`) where nothing else does."""
        names = (name for name in _WRAPPED if name in args.keywords)
        value = args.at(0) or args.keywords.get(next(names, ""))
        if row.gives and value is not None and all(is_blank(case) for case in value.cases):
            note = f"`{row.name.rsplit('.', 1)[-1]}` takes {NOUNS.get(row.gives, 'a loader')}"
            return self.create("given", at, row.gives, note, gap=Gap.CONVENTION, born="unseen")
        return value or Scalar()

    def applied(self, row: Row, args: Args, at: int, state: State) -> Value:
        """A function that calls another one: with what follows it, or, where it stands behind its input, with that."""
        index = 0 if row.on == "self" else int(row.on)
        function = args.at(index, row.params[index] if row.params else "")
        if function is None:
            return Scalar()
        if index == 0:
            return self.call(function, Args(args.positional[1:], args.keywords, args.nodes[1:]), at, state)
        given = args.at(0, row.params[0])
        return self.call(function, Args(() if given is None else (given,)), at, state)

    def make(self, row: Row, name: str, args: Args, at: int, state: State) -> Value:
        modules = frozenset(m for arg in args.all() for case in self.deep(arg, state) for m in self.modules_of(case))
        layers = tuple((str(index), value) for index, value in enumerate(args.positional))
        if row.effect == "sequential":
            layers = self.layers_of(args, state)
        given = layers + tuple(args.keywords.items())
        if MODULES in self.wanted and (args.has_more or args.unpacked):
            given += ((UNPACKED, Scalar()),)
        if row.returns == "Scheduler":
            given = tuple((each, self.as_written(value, state)) for each, value in given)
        noun = name.rsplit(".", 1)[-1]
        is_other = bool(row.unless) and row.unless in args.keywords and truth(args.keywords[row.unless]) is not False
        ref = self.create(
            "row", at, row.returns, f"`{noun}` is created here", name=name, modules=modules,
            arguments=given, born="" if is_other else row.born,
        )  # fmt: skip
        if any(guard.is_option and guard.taken for guard in self.guards):
            self.optional_layers.add(ref.obj)
        if row.effect != "copy":
            self.empty(ref, state)
        elif args.positional:
            for case in args.positional[0].cases:
                self.copy_items(case, ref, at, state)
        if row.returns == "Optimizer":
            self.made_optimizer(ref, args, state)
        if row.returns == "Context":
            state.set((ref.obj, "mode"), args.at(0, "mode") or const(True))
        return ref

    def as_written(self, value: Value, state: State) -> Value:
        """A list whose elements are known, as it is now: a tuple of them."""
        if not isinstance(value, Ref) or self.obj(value).kind != "list":
            return value
        held = {name: item for name, item in state.fields(value.obj) if name[:1] == "["}
        items = [held.get(f"[{index}]") for index in range(len(held))]
        known = tuple(item for item in items if item is not None)
        return Tuple(known, trace=value.trace) if len(known) == len(held) else value

    def made_optimizer(self, ref: Ref, args: Args, state: State) -> None:
        """An optimizer holds what its modules hold now; they remember that it does."""
        obj = self.obj(ref)
        given = args.at(0, "params")
        modules, is_complete = self.modules_in(given, state) if given is not None else (obj.modules, False)
        if given is not None and any(isinstance(case, Ref) and self.obj(case).kind == "Module" for case in given.cases):
            is_complete = False  # an annotation says so; a module itself is no group of parameters
        if given is not None and not modules and self.is_of_tensors(given, state):
            obj.born = "tensors"
        parts = self.with_parts(modules, state)
        self.has_optimizer = True
        for part in parts:
            state.set((part, "is optimized"), TRUE)
        self.emit(
            OptimizerMade, obj.trace.site.at, obj.trace, optimizer=ref.obj, modules=modules, parts=parts,
            is_complete=is_complete, left=tuple(self.left_out(modules, parts, state)) if is_complete else (),
        )  # fmt: skip

    def left_out(
        self, given: frozenset[ObjectId], parts: frozenset[ObjectId], state: State
    ) -> Iterator[tuple[ObjectId, str, frozenset[ObjectId]]]:
        """The other parts of what holds the modules that an optimizer is given one by one: those that are made after
        these, as what comes after them in a pass is. What comes before may be meant to stay as it is."""
        for number, owner in enumerate(list(self.objects)):
            if owner.kind != "Module" or owner.cls is None or number in parts:
                continue
            held = {
                name: frozenset(case.obj for case in value.cases if isinstance(case, Ref))
                for name, value in state.fields(number)
                if name.isidentifier()
            }
            last = max((index for index, objs in enumerate(held.values()) if objs & given), default=len(held))
            for name, objs in list(held.items())[last + 1 :]:
                inside = self.with_parts(objs, state) if objs else objs
                is_free = all(state.flag(obj, frozen.FLAG) is False for obj in inside)
                if inside and is_free and not inside & parts:
                    yield number, name, inside

    def modules_in(self, value: Value, state: State) -> tuple[frozenset[ObjectId], bool]:
        """The modules whose parameters a value holds, and whether that is all it holds."""
        cases = self.deep(value, state)
        modules = frozenset(module for case in cases for module in self.modules_of(case))
        for case in cases:
            if isinstance(case, Ref) and self.obj(case).kind == "Optimizer":
                modules |= self.obj(case).modules
        is_complete = not any(isinstance(case, (Unknown, Method)) for case in cases)
        return modules, is_complete and bool(modules)

    def is_of_tensors(self, value: Value, state: State) -> bool:
        """Whether parameters are tensors that belong to no module: an image, a perturbation."""
        cases = self.deep(value, state)
        return any(isinstance(case, Tensor) for case in cases) and not any(
            isinstance(case, (Unknown, Method)) or (isinstance(case, Tensor) and case.is_opaque) for case in cases
        )

    def layers_of(self, args: Args, state: State) -> tuple[tuple[str, Value], ...]:
        """The layers of a ``Sequential`` in order; an unknown value stands for layers that are not known."""
        layers = list(args.positional)
        unseen_layers = Unknown("layers that are not known")
        if len(layers) == 1 and isinstance(layers[0], Ref) and self.obj(layers[0]).kind in CONTAINERS:
            items = self.in_order(layers[0], state)  # an OrderedDict of pairs
            layers = [unseen_layers] if items is None else [
                item.items[-1] if isinstance(item, Tuple) and item.items else item for item in items
            ]  # fmt: skip
        several = [isinstance(layer, Unknown) and len(layers) == 1 for layer in layers]
        for position, value in reversed(args.unpacked):
            layer = union(self.element(case, 0, state) for case in value.cases)
            is_known = all(isinstance(case, Ref) and self.obj(case).kind == "Module" for case in layer.cases)
            layers.insert(position, layer if is_known else unseen_layers)
            several.insert(position, True)
            last = self.last_of(value, state)
            if last is not None:
                layers.insert(position + 1, last)
                several.insert(position + 1, False)
        return tuple((f"{SEVERAL if several[index] else ''}{index}", value) for index, value in enumerate(layers))

    def last_of(self, value: Value, state: State) -> Value | None:
        """The layer that stands last in a list, if that is known and no code that was not read has the list."""
        last = state.get((value.obj, LAST)) if isinstance(value, Ref) and self.obj(value).kind == "list" else None
        if last is None or not isinstance(value, Ref):
            return None
        is_known = all(isinstance(case, Ref) and self.obj(case).kind == "Module" for case in last.cases)
        given = any(
            isinstance(event, Escape) and event.how == "call" and value.obj in event.objects for event in self.events
        )
        return last if is_known and not given else None

    def tensor_result(self, row: Row, inputs: tuple[Value, ...], at: int, state: State, args: Args) -> Value:
        incoming = [case for value in inputs for case in self.deep(value, state) if isinstance(case, (Tensor, Unknown))]
        value = self.computed(row, inputs, incoming, at, state, args)
        if row.name in MOVES:
            self.note_transfer(row.name, inputs[0], args, at)
        return located(row, value, incoming, args, (self.site(at), tuple(loop.key for loop in self.loops)))

    def sized(self, name: str, value: Value, inputs: tuple[Value, ...], at: int, state: State) -> Value:
        """What a call gives that is given outputs of a network: as large as these, or not."""
        marks: frozenset[outputs.Output] = frozenset()
        for each in inputs:
            for case in self.deep(each, state):
                if isinstance(case, (Tensor, Unknown)) and case.via:
                    marks |= outputs.marks_in(case.via)
        if not marks:
            return value
        what = outputs.use_of(name, len(inputs) > 1)
        for mark in sorted(marks, key=lambda mark: mark.site) if what else ():
            self.emit(outputs.OutputRead, at, None, of=mark.site, what=what)
        kept = marks if outputs.is_kept_by(name) else frozenset()
        return union(outputs.with_marks(case, kept) for case in value.cases)

    def note_transfer(self, name: str, value: Value, args: Args, at: int) -> None:
        """A tensor moves: a copy, where it was in the host's memory."""
        made = {case.birth for case in value.cases if isinstance(case, Tensor) and case.device == "host"}
        birth = made.pop() if len(made) == 1 and len(value.cases) == 1 else None
        if birth is not None and (self.loops or self.in_pass) and moved_to(name, args) == "accelerator":
            self.emit(Transfer, at, None, made_at=birth[0], made_under=birth[1], in_pass=self.in_pass)

    def computed(
        self, row: Row, inputs: tuple[Value, ...], incoming: list[Tensor | Unknown], at: int, state: State, args: Args
    ) -> Value:
        activation = self.activation_of(row, inputs, args, at, state)
        if row.graph == "none" or state.flag(*GRAD_OFF) or not incoming:
            batch = any(isinstance(case, Tensor) and case.is_batch for case in incoming)
            marks = measures.lasting(incoming[0]) if row.keeps_activation and incoming else frozenset()
            plain = Tensor(activation=activation, is_batch=batch, via=marks)
            return self.with_indices(row, plain, inputs, args) if batch is False and row.graph != "none" else plain
        if all(isinstance(case, Unknown) for case in incoming):
            roots = frozenset(root for case in incoming for root in roots_of(case))
            marks = frozenset(mark for case in incoming for mark in measures.marks_of(case))
            return Tensor("maybe", roots, marks, activation=activation, trace=incoming[0].trace)
        value = combine(incoming)
        if (both := self.with_indices(row, value, inputs, args)) is not value:
            return both
        if isinstance(value, Tensor):
            batch = any(isinstance(case, Tensor) and case.is_batch for case in incoming)
            if value.activation is activation and value.is_batch is batch:
                return value
            return replace(value, activation=activation, is_batch=batch)
        return Tensor("maybe", roots_of(value), activation=activation, trace=value.trace)

    def with_indices(self, row: Row, value: Value, inputs: tuple[Value, ...], args: Args) -> Value:
        """``x.max(1)`` gives values and indices, ``x.max()`` one number, ``torch.max(x, y)`` the larger of two."""
        if row.returns != "values and indices":
            return value
        is_method = len(inputs) > len(args.positional) + len(args.keywords)
        dims = Args(args.positional if is_method else args.positional[1:], args.keywords)
        other = dims.at(0, "other")
        if other is not None and any(isinstance(case, Tensor) and case.roots for case in other.cases):
            return value
        if not (dims.positional or dims.keywords):
            return value
        is_largest = row.name.rpartition(".")[2] in {"max", "min"}
        return Tuple((shapes.shaped(value, shapes.of_largest(dims) if is_largest else ""), Tensor()))

    def shape_after(self, name: str, args: Args, inputs: tuple[Value, ...], state: State) -> Shape:
        first = args.at(0)
        return shapes.after(name, args, inputs, self.in_order(first, state) if first is not None else None)

    def reduced(self, row: Row, options: Mapping[str, Value], result: Value) -> Value:
        """The result of a loss with its measure: it is a number of its own, whatever went in."""
        if not row.reduces:
            return result
        mark = measures.reduction(options)
        return measures.marked(result, *([mark] if mark is not None else []))

    def activation_of(
        self, row: Row, inputs: tuple[Value, ...], args: Args, at: int, state: State
    ) -> Activation | None:
        if not (row.activation or row.keeps_activation) or not inputs:
            return None
        return after(row, self.deep(inputs[0], state), args.node(0, "input"), self.site(at))

    def loss(self, row: Row, name: str, args: Args, at: int, made: Ref | None = None) -> None:
        """A loss is computed; `made` is the loss module, whose options stand where it was created."""
        value, node = args.at(0, "input"), args.node(0, "input")
        if value is None:
            return
        obj = self.obj(made) if made is not None else None
        options = dict(obj.arguments) if obj is not None else args.keywords
        self.emit(
            Loss, at, value.trace, callee=name, expects=row.expects, input=value, input_at=node.at if node else at,
            target=args.at(1, "target"), options=options, is_choice=self.choices > 0,
            named_at=obj.trace.site if obj is not None else self.site(at),
        )  # fmt: skip


def is_first(dim: Value | None) -> bool:
    """Whether a dimension is the first."""
    return isinstance(dim, Const) and dim.value == 0
