"""Modules that are called: forward passes and the graphs that begin there."""

from __future__ import annotations

from analyzer.engine import frozen, measures, modes, outputs, padding, shapes, targets
from analyzer.engine.devices import are_synthetic
from analyzer.engine.events import Forward, MethodRun
from analyzer.engine.graphs import carries, device_of, roots_of
from analyzer.engine.machine import CONTAINERS, LAYERS, MAX_DEPTH, Args, unseen
from analyzer.engine.replay import replayed
from analyzer.engine.rows import Rows
from analyzer.engine.state import FALSE, GRAD_OFF, State
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.values import (
    Activation,
    Device,
    Func,
    Ref,
    Scalar,
    Shape,
    Tensor,
    Tri,
    Tuple,
    Unknown,
    Value,
    limited,
    union,
)
from analyzer.records import replace
from analyzer.syntax import ir

_WITH_HEAD = ("torchvision.models.", "timm.create_model")
_HEADS = ("fc", "classifier", "head", "heads")
"""What torchvision's and timm's classification models call their last layers."""
_TRI: dict[bool | None, Tri] = {True: "yes", False: "no", None: "maybe"}


class Forwards(Rows):
    """Run forward passes."""

    def are_modules(self, values: tuple[Value, ...]) -> bool:
        """Whether arguments are modules, every one of them: no forward pass takes only these."""
        return all(isinstance(case, Ref) and self.obj(case).kind == "Module" for v in values for case in v.cases)

    def forward(self, ref: Ref, args: Args, at: int, state: State, by: str = "") -> Value:
        """A module is called: its code where the repository has it, else what its knowledge row says. `by`: the method
        that runs it instead."""
        obj = self.obj(ref)
        if obj.cls is None and args.positional and not args.keywords and self.are_modules(args.positional):
            reason = "what is made of a module"  # a class or factory of losses, wrappers or optimizers
            return Unknown(reason, trace=start(self.site(at), reason, Gap.UNSEEN))
        is_off = state.flag(*GRAD_OFF)
        method = self.class_attribute(obj.cls, "forward", state) if obj.cls else None
        if not self.in_pass:
            self.loops_outside = len(self.loops)
        self.forwards += 1
        try:
            if method is not None and len(self.frames) < MAX_DEPTH:
                bound = self.bound(method, ref, at, state)
                result = replayed(self, ref, args, at, state, lambda: self.call(bound, args, at, state))
            else:
                result = self.apply_module(ref, args, at, state)
        finally:
            self.forwards -= 1
        if self.forwards:
            return result
        if is_off:
            result = outputs.handed_on(result, self.site(at))
        result = self.rooted(result, ref, args, at, state)
        has_graph = any(carries(case) for case in self.deep(result, state))
        mode, depends = state.get((ref.obj, "is eval")), modes.dependence(self, ref, state)
        is_frozen = state.flag(ref.obj, frozen.FLAG)
        frozen.note(self, ref, at, state)
        padding.note_labels(self, obj.name, args, at)
        given = [c for a in args.all() for c in self.deep(a, state) if isinstance(c, (Tensor, Unknown))]
        self.emit(
            Forward, at, start(self.site(at), "the forward pass", self.gap_of(ref)), module=ref.obj,
            grad=_TRI[None if is_off is None else not is_off], is_eval=modes.is_eval(self, ref, state),
            has_graph=_TRI[has_graph], mode=mode.trace if mode else None,
            on_batch=any(isinstance(c, Tensor) and c.is_batch for c in given), inputs=incoming_roots(given),
            is_fed_itself=is_fed(given, self.root(at)),
            root=self.root(at), is_dry=self.is_dry or are_synthetic(given),
            modes=mode.cases if mode else (), depends=depends, is_frozen=_TRI[is_frozen],
            asleep=modes.asleep(self, ref, state), method=by,
            parts=self.with_parts(frozenset({ref.obj}), state) if self.has_optimizer else frozenset(),
            given=frozenset(c.obj for a in args.all() for c in a.cases if isinstance(c, Ref) and self.is_module(c)),
        )  # fmt: skip
        if self.pass_hooks:
            self.run_pass_hooks(ref, result, at, state)
        return result

    def method_run(self, ref: Ref, name: str, args: Args, at: int, state: State) -> Tensor:
        """A method of a module that was not read gets tensors: by convention it runs it."""
        trace = start(self.site(at), f"`.{name}` of a module", Gap.CONVENTION)
        targets.compared(self, args, at)
        result = self.parametrised(ref, args, at, state, is_opaque=True)
        if not self.in_pass and self.has_optimizer and result.graph == "yes":
            mode = state.get((ref.obj, "is eval"))
            self.emit(
                MethodRun, at, trace, module=ref.obj, grad="yes", is_eval=modes.is_eval(self, ref, state),
                has_graph="yes", mode=mode.trace if mode else None, root=self.root(at),
                modes=mode.cases if mode else (), depends=modes.dependence(self, ref, state), is_frozen="no",
                asleep=modes.asleep(self, ref, state), method=name,
                parts=self.with_parts(frozenset({ref.obj}), state),
            )  # fmt: skip
        return replace(result, trace=trace)

    def run_pass_hooks(self, ref: Ref, result: Value, at: int, state: State) -> None:
        """The hooks of a module and of its parts, which get what each of them gave."""
        parts, root, is_off = self.with_parts(frozenset({ref.obj}), state), self.root(at), state.flag(*GRAD_OFF)
        trace = start(self.site(at), "a hook gets what a layer gives", Gap.CONVENTION)
        inner = Tensor(
            "no" if is_off else "yes", frozenset() if is_off else frozenset({root}), is_opaque=True, trace=trace
        )
        for obj in [obj for obj in self.pass_hooks if obj in parts]:
            for hook in self.pass_hooks[obj].values():
                given = (Ref(obj), unseen("an input", self.site(at)), result if obj == ref.obj else inner)
                self.call(hook, Args(given), at, state)

    def is_forward(self, func: Func) -> bool:
        """``model.forward(x)`` outside any forward pass is a forward pass."""
        named = isinstance(func.node, ir.FunctionDef) and func.node.name == "forward"
        return named and not self.forwards and func.bound is not None and self.is_module(func.bound)

    def gap_of(self, ref: Ref) -> Gap | None:
        return self.obj(ref).trace.gap

    def rooted(self, result: Value, ref: Ref, args: Args, at: int, state: State) -> Value:
        """The graph of a forward pass begins at the call, newly made."""
        site, root = self.site(at), self.root(at)
        state.set((root, "is freed"), FALSE)
        trace = start(site, "the forward pass builds a graph", self.gap_of(ref))
        incoming = frozenset(root for arg in args.all() for case in self.deep(arg, state) for root in roots_of(case))
        roots = limited(frozenset({root}) | incoming)
        return union(self.with_roots(case, roots, trace, state) for case in result.cases)

    def with_roots(self, case: Value, roots: frozenset[Site], trace: Trace, state: State) -> Value:
        """An atom of what a forward pass gives, with the graphs it holds."""
        if isinstance(case, Tensor) and case.graph != "no":
            return replace(case, roots=roots, trace=trace)
        if isinstance(case, Tuple):
            items = tuple(union(self.with_roots(c, roots, trace, state) for c in item.cases) for item in case.items)
            return replace(case, items=items)
        if isinstance(case, Ref) and self.obj(case).kind in CONTAINERS:
            for name, held in state.fields(case.obj):
                if name[:1] == "[":
                    state.set((case.obj, name), union(self.with_roots(c, roots, trace, state) for c in held.cases))
        return case

    def apply_module(self, ref: Ref, args: Args, at: int, state: State) -> Value:
        obj = self.obj(ref)
        row = self.knowledge.row(obj.name) if obj.name else None
        layers = state.get((ref.obj, LAYERS)) if obj.cls is not None else None
        if isinstance(layers, Ref):
            return self.through_layers(layers, args, at, state)
        if row is None:
            head = self.replaced_head(ref, state) if obj.cls is None and not obj.name else None
            return self.through_head(head, ref, args, at, state)
        if row.expects:
            self.loss(row, obj.name, args, at, ref)
        if row.effect == "sequential":
            return self.through_layers(ref, args, at, state)
        if row.graph == "parameters":
            head = self.replaced_head(ref, state) if obj.name.startswith(_WITH_HEAD) else None
            if head is not None:
                return self.through_head(head, ref, args, at, state)
            return self.parametrised(
                ref, args, at, state, is_opaque=not obj.name.startswith("torch.nn."),
                activation=self.activation_of(row, args.all(), args, at, state),
                shape=shapes.of_layer(obj.name, dict(obj.arguments)),
            )  # fmt: skip
        shape = self.shape_after(obj.name, args, args.all(), state)
        numbers = self.sized(obj.name, self.tensor_result(row, args.all(), at, state, args), args.all(), at, state)
        numbers = shapes.shaped(numbers, shape)
        return self.reduced(row, dict(obj.arguments), numbers)

    def through_head(self, head: Ref | None, ref: Ref, args: Args, at: int, state: State) -> Tensor:
        """What a module gives whose code was not read, with the last layers that the program sets, if it does."""
        result = self.parametrised(ref, args, at, state, is_opaque=True)
        if head is None:
            return result
        last = self.call(head, Args((replace(result, is_opaque=False),)), at, state)
        known = [case.activation for case in last.cases if isinstance(case, Tensor)]
        return replace(result, is_opaque=False, activation=known[0] if len(known) == 1 else None)

    def replaced_head(self, ref: Ref, state: State) -> Ref | None:
        """The last layers of a model of torchvision or timm, where the program sets others (``net.fc = …``)."""
        held = [state.get((ref.obj, name)) for name in (*_HEADS, *(f"{name}[…]" for name in _HEADS))]
        heads = [value for value in held if isinstance(value, Ref) and self.is_module(value)]
        return heads[0] if len(heads) == 1 else None

    def through_layers(self, ref: Ref, args: Args, at: int, state: State) -> Value:
        """The layers of a ``Sequential`` in order; one that is not known has parameters and gives anything."""
        value = args.at(0) or Scalar()
        for _, layer in self.obj(ref).arguments:
            if isinstance(layer, Unknown):
                value = self.parametrised(ref, Args((value,)), at, state, is_opaque=False)
            else:
                value = union([self.through_layer(case, Args((value,)), at, state) for case in layer.cases])
        return value

    def through_layer(self, layer: Value, args: Args, at: int, state: State) -> Value:
        """A layer is called: as `forward` does for one of a library inside another module."""
        if not isinstance(layer, Ref) or self.wanted or not self.forwards:
            return self.call(layer, args, at, state)
        obj = self.objects[layer.obj]
        if obj.kind != "Module" or obj.cls is not None or self.are_modules(args.positional):
            return self.call(layer, args, at, state)
        self.spend()
        self.forwards += 1
        try:
            return self.apply_module(layer, args, at, state)
        finally:
            self.forwards -= 1

    def parametrised(
        self, ref: Ref, args: Args, at: int, state: State, is_opaque: bool, *,
        activation: Activation | None = None, shape: Shape = "",
    ) -> Tensor:  # fmt: skip
        """What a module with parameters gives."""
        incoming = [case for arg in args.all() for case in self.deep(arg, state) if isinstance(case, (Tensor, Unknown))]
        off, is_frozen = state.flag(*GRAD_OFF), state.flag(ref.obj, frozen.FLAG)
        graph: Tri = "no" if off else "maybe" if off is None or is_frozen is None else "yes"
        if is_frozen and graph == "yes" and not any(carries(case) for case in incoming):
            graph = "no"
        roots = frozenset(root for case in incoming for root in roots_of(case)) | {self.root(at)}
        via = targets.without(measures.without(frozenset(v for case in incoming for v in case.via)))
        is_shown = bool(outputs.marks_in(via))
        if is_shown:
            via = outputs.without(via)
        if off and not (is_shown and is_opaque and len(incoming) > 1):  # a loss of outputs and targets
            via |= {outputs.Output(self.site(at))}
        trace = start(self.site(at), "this module has parameters", self.gap_of(ref))
        place = device_of(incoming)
        device: Device = "accelerator" if place == "accelerator" else "" if place == "host" else "model"
        return Tensor(
            graph,
            limited(roots) if graph != "no" else frozenset(),
            via,
            activation,
            is_opaque=is_opaque,
            shape=shape,
            device=device,
            trace=trace,
            is_synthetic=are_synthetic(incoming),
        )


def is_fed(given: list[Tensor | Unknown], root: Site) -> Tri:
    """Whether atoms hold the graph of a forward pass: surely, where its code was seen."""
    held = [case for case in given if isinstance(case, Tensor) and case.graph == "yes" and root in case.roots]
    return "yes" if any(not case.is_opaque for case in held) else "maybe" if held else "no"


def incoming_roots(given: list[Tensor | Unknown]) -> frozenset[Site]:
    """The forward passes whose graphs go into another."""
    return limited(frozenset(root for case in given for root in case.roots))
