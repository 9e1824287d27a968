"""Calls: functions and classes of the repository, knowledge rows, built-ins, and code we cannot see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from analyzer.engine.evaluate import CONTAINERS, Expressions, carries, combine
from analyzer.engine.events import Backward, CallSeen, Clear, Escape, Forward, Loss, Step
from analyzer.engine.machine import MAX_DEPTH, Args, Frame
from analyzer.engine.state import FALSE, GRAD, State, merge
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.values import (
    Activation,
    Class,
    Const,
    External,
    Func,
    Method,
    ObjectId,
    Parameters,
    Partial,
    Ref,
    Scalar,
    Stream,
    Tensor,
    Tri,
    Tuple,
    Unknown,
    Value,
    const,
    limited,
    truth,
    union,
)
from analyzer.knowledge import overlays
from analyzer.knowledge.schema import Row
from analyzer.syntax import ir
from analyzer.syntax.scope import target_names

OFF = "is off"
MAX_PARTS = 500
_MODES = {"eval", "train", "requires_grad_"}
_TRI: dict[bool | None, Tri] = {True: "yes", False: "no", None: "maybe"}


class Calls(Expressions):
    """Apply a callee to arguments."""

    def call_expression(self, expr: ir.Call, state: State) -> Value:
        callee = self.evaluate(expr.callee, state)
        return self.call(callee, self.arguments(expr, state), expr.at, state)

    def arguments(self, expr: ir.Call, state: State) -> Args:
        positional: list[Value] = []
        nodes: list[ir.Expr | None] = []
        keywords: dict[str, Value] = {}
        keyword_nodes: dict[str, ir.Expr] = {}
        has_more = False
        for arg in expr.args:
            value = self.evaluate(arg.value, state)
            if arg.star == "*" and isinstance(value, Tuple):
                positional.extend(value.items)
                nodes.extend([None] * len(value.items))
            elif arg.star:
                has_more = True
                self.unpack(value, keywords, state)
            elif arg.keyword:
                keywords[arg.keyword], keyword_nodes[arg.keyword] = value, arg.value
            else:
                positional.append(value)
                nodes.append(arg.value)
        return Args(tuple(positional), keywords, tuple(nodes), keyword_nodes, has_more)

    def unpack(self, value: Value, keywords: dict[str, Value], state: State) -> None:
        for case in value.cases:
            if isinstance(case, Ref):
                for name, held in state.fields(case.obj):
                    if name.startswith("['"):
                        keywords.setdefault(name[2:-2], held)

    def call(self, callee: Value, args: Args, at: int, state: State) -> Value:
        self.spend()
        cases = callee.cases
        if len(cases) == 1:
            return self.call_one(cases[0], args, at, state)
        if all(isinstance(case, Method) and case.name in _MODES for case in cases):  # whichever it is, it is switched
            return union([self.call_one(case, args, at, state) for case in cases])
        ends: list[State] = []
        results: list[Value] = []
        for case in cases:
            path = state.fork()
            results.append(self.call_one(case, args, at, path))
            ends.append(path)
        met = merge(ends)
        assert met is not None
        state.become(met)
        return union(results)

    def call_one(self, case: Value, args: Args, at: int, state: State) -> Value:
        if isinstance(case, Func):
            if self.is_forward(case):
                return self.forward(case.bound, args, at, state)  # type: ignore[arg-type]
            return self.run_function(case, args, at, state)
        if isinstance(case, Partial):
            keywords = {**dict(case.keywords), **args.keywords}
            whole = Args((*case.args, *args.positional), keywords, has_more=args.has_more)
            return self.call(case.func, whole, at, state)
        if isinstance(case, Class):
            return self.instantiate(case, args, at, state)
        if isinstance(case, External):
            return self.call_external(case, args, at, state)
        if isinstance(case, Ref):
            return self.call_object(case, args, at, state)
        if isinstance(case, Method):
            return self.call_method(case, args, at, state)
        if isinstance(case, Tensor) and case.is_opaque and not args.positional:
            return case  # ``outputs.to_tuple()``
        return self.call_unseen(case, args, at, state, "an unknown value is called")

    # --- code of the repository -------------------------------------------------------------------------------

    def instantiate(self, cls: Class, args: Args, at: int, state: State) -> Value:
        kind = self.kind_of(cls)
        self.saw(cls.node.name, args, at)
        ref = self.create("instance", at, kind, f"a `{cls.node.name}` is created here", cls=cls)
        self.empty(ref, state)
        self.construct(cls, ref, args, at, state)
        return ref

    def construct(self, cls: Class, ref: Ref, args: Args, at: int, state: State) -> None:
        init = self.class_attribute(cls, "__init__", state)
        if init is not None:
            for case in init.cases:
                if isinstance(case, Func):
                    self.run_function(replace(case, bound=ref), args, at, state)
        else:
            names = [name for each in cls.node.body if isinstance(each, ir.Assign) for name in fields_of(each)]
            for name, value in (*zip(names, args.positional, strict=False), *args.keywords.items()):
                state.set((ref.obj, name), value)

    def kind_of(self, cls: Class, depth: int = 0) -> str:
        """The knowledge kind of a class of the repository: that of the library class it derives from."""
        for base in cls.bases if depth < 10 else ():
            for case in base.cases:
                if isinstance(case, Class):
                    kind = self.kind_of(case, depth + 1)
                elif isinstance(case, External):
                    kind = "Lightning" if case.name.endswith("LightningModule") else self.returned_kind(case.name)
                else:
                    kind = "instance"
                if kind != "instance":
                    return "Module" if kind == "Lightning" else kind
        return "instance"

    def returned_kind(self, name: str) -> str:
        if name.startswith(("torch.utils.data.", "torchvision.datasets.")):
            return "Data" if "Loader" not in name else "Loader"
        row = self.knowledge.row(name)
        return row.returns if row and row.returns[:1].isupper() else "instance"

    def call_object(self, ref: Ref, args: Args, at: int, state: State) -> Value:
        obj = self.obj(ref)
        self.saw("*.__call__", args, at, ref)
        if obj.kind == "Module":
            return self.forward(ref, args, at, state)
        if obj.kind == "Context" and args.positional:
            return union(
                replace(case, wrappers=(*case.wrappers, ref)) if isinstance(case, Func) else case
                for case in args.positional[0].cases
            )
        if obj.cls is not None:
            method = self.class_attribute(obj.cls, "__call__", state)
            if method is not None:
                return self.call(self.bound(method, ref, at, state), args, at, state)
        return self.call_unseen(ref, args, at, state, "an object is called whose code was not read")

    # --- modules ----------------------------------------------------------------------------------------------

    def forward(self, ref: Ref, args: Args, at: int, state: State) -> Value:
        """A module is called: its code where the repository has it, else what its knowledge row says."""
        obj = self.obj(ref)
        is_off = state.flag(*GRAD_OFF)
        method = self.class_attribute(obj.cls, "forward", state) if obj.cls else None
        if not self.in_pass:
            self.loops_outside = len(self.loops)
        self.forwards += 1
        try:
            if method is not None and len(self.frames) < MAX_DEPTH:
                result = self.call(self.bound(method, ref, at, state), args, at, state)
            else:
                result = self.apply_module(ref, args, at, state)
        finally:
            self.forwards -= 1
        if self.forwards:
            return result
        result = self.rooted(result, ref, args, at, state)
        has_graph = any(carries(case) for case in self.deep(result, state))
        mode = state.get((ref.obj, "is eval"))
        self.emit(
            Forward, at, start(self.site(at), "the forward pass", self.gap_of(ref)), module=ref.obj,
            grad=_TRI[None if is_off is None else not is_off], is_eval=_TRI[state.flag(ref.obj, "is eval")],
            has_graph=_TRI[has_graph], mode=mode.trace if mode else None,
            on_batch=any(isinstance(c, Tensor) and c.is_batch for a in args.all() for c in self.deep(a, state)),
        )  # fmt: skip
        return result

    def is_forward(self, func: Func) -> bool:
        """``model.forward(x)`` outside any forward pass is a forward pass."""
        named = isinstance(func.node, ir.FunctionDef) and func.node.name == "forward"
        return named and not self.forwards and func.bound is not None and self.is_module(func.bound)

    def gap_of(self, ref: Ref) -> Gap | None:
        return self.obj(ref).trace.gap

    def rooted(self, result: Value, ref: Ref, args: Args, at: int, state: State) -> Value:
        """The graph of a forward pass begins at the call, newly made."""
        site = self.site(at)
        state.set((site, "is freed"), FALSE)
        trace = start(site, "the forward pass builds a graph", self.gap_of(ref))
        incoming = frozenset(root for arg in args.all() for case in self.deep(arg, state) for root in roots_of(case))

        def mark(case: Value) -> Value:
            if isinstance(case, Tensor) and case.graph != "no":
                return replace(case, roots=limited(frozenset({site}) | incoming), trace=trace)
            if isinstance(case, Tuple):
                return replace(case, items=tuple(union(mark(c) for c in item.cases) for item in case.items))
            if isinstance(case, Ref) and self.obj(case).kind in CONTAINERS:
                for name, held in state.fields(case.obj):
                    if name[:1] == "[":
                        state.set((case.obj, name), union(mark(c) for c in held.cases))
            return case

        return union(mark(case) for case in result.cases)

    def apply_module(self, ref: Ref, args: Args, at: int, state: State) -> Value:
        obj = self.obj(ref)
        row = self.knowledge.row(obj.name) if obj.name else None
        if row is None:
            return self.parametrised(ref, args, at, state, is_opaque=True)
        if row.expects:
            self.loss(row, obj.name, args, at)
        if row.effect == "sequential":
            value = args.at(0) or Scalar()
            for _, layer in obj.arguments:
                value = union(self.call(case, Args((value,)), at, state) for case in layer.cases)
            return value
        if row.graph == "parameters":
            return self.parametrised(ref, args, at, state, is_opaque=not obj.name.startswith("torch.nn."))
        return self.tensor_result(row, args.all(), at, state, args)

    def parametrised(self, ref: Ref, args: Args, at: int, state: State, is_opaque: bool) -> Tensor:
        incoming = [case for arg in args.all() for case in self.deep(arg, state) if isinstance(case, (Tensor, Unknown))]
        off, frozen = state.flag(*GRAD_OFF), state.flag(ref.obj, "is frozen")
        graph: Tri = "no" if off else "maybe" if off is None or frozen is None else "yes"
        if frozen and graph == "yes" and not any(carries(case) for case in incoming):
            graph = "no"
        roots = frozenset(root for case in incoming for root in roots_of(case)) | {self.site(at)}
        via = frozenset(v for case in incoming for v in case.via)
        trace = start(self.site(at), "this module has parameters", self.gap_of(ref))
        return Tensor(graph, limited(roots) if graph != "no" else frozenset(), via, is_opaque=is_opaque, trace=trace)

    # --- libraries --------------------------------------------------------------------------------------------

    def call_external(self, callee: External, args: Args, at: int, state: State) -> Value:
        self.saw(callee.name, args, at, External(callee.name.rpartition(".")[0]))
        self.callbacks(args, at, state)
        special = overlays.function(callee.name)
        if special is not None:
            result: Value = special(self, args, at, state)
            return result
        row = self.knowledge.row(callee.name)
        if row is not None:
            return self.apply_row(row, callee.name, None, args, at, state)
        return self.call_unseen(callee, args, at, state, f"`{callee.name}` was not read")

    def call_method(self, method: Method, args: Args, at: int, state: State) -> Value:
        receiver, kind = method.receiver, self.receiver_kind(method.receiver)
        self.saw(f"*.{method.name}", args, at, receiver)
        self.callbacks(args, at, state)
        special = overlays.method(kind, method.name)
        if special is not None and isinstance(receiver, Ref):
            answer: Value = special(self, receiver, args, at, state)
            return answer
        self.clears_unknown(method, at)
        row = self.knowledge.row(f"{kind}.{method.name}") if kind else None
        if row is not None:
            return self.apply_row(row, f"{kind}.{method.name}", receiver, args, at, state)
        if method.name == "backward":
            return self.backward_unseen(method, args, at, state)
        if kind == "Module" and isinstance(receiver, Ref) and self.obj(receiver).cls is None:
            if method.name == "forward":
                return self.forward(receiver, args, at, state)
            trace = start(self.site(at), f"`.{method.name}` of a module", Gap.CONVENTION)
            return replace(self.parametrised(receiver, args, at, state, is_opaque=True), trace=trace)
        if isinstance(receiver, (Const, Scalar)):
            return Scalar()
        return self.call_unseen(method, args, at, state, f"`.{method.name}` was not read")

    def backward_unseen(self, method: Method, args: Args, at: int, state: State) -> Value:
        """``backward`` of an object that was not read (an engine, a scaler) runs one through what it is given."""
        self.backward(union([method.receiver, *args.all()]), at, state)
        return self.call_unseen(method, args, at, state, "`.backward` was not read")

    def clears_unknown(self, method: Method, at: int) -> None:
        """``zero_grad`` of something unknown, or ``p.grad.zero_()``, clears gradients of something."""
        is_grad = isinstance(method.receiver, (Tensor, Method)) and method.name == "zero_"
        if is_grad or (method.name == "zero_grad" and not isinstance(method.receiver, Ref)):
            modules = method.receiver.param_of if isinstance(method.receiver, Tensor) else frozenset()
            self.emit(Clear, at, None, modules=modules)

    def receiver_kind(self, receiver: Value) -> str:
        if isinstance(receiver, Ref):
            return self.obj(receiver).kind
        return "Tensor" if isinstance(receiver, Tensor) else ""

    def apply_row(self, row: Row, name: str, receiver: Value | None, args: Args, at: int, state: State) -> Value:
        subject = receiver if row.on == "self" else args.at(int(row.on))
        if row.effect:
            self.effect(row, subject, args, at, state)
        if row.expects:
            self.loss(row, name, args, at)
        inputs = args.all() if receiver is None else (receiver, *args.all())
        if row.returns in {"tensor", "values and indices"}:
            if row.graph == "parameters":
                return Tensor("yes", trace=start(self.site(at), "a parameter"))
            return self.tensor_result(row, inputs, at, state, args)
        if row.returns[:1].isupper() or row.returns in {"list", "dict"}:
            return self.make(row, name, args, at, state)
        return self.plain_result(row, receiver, args, at, state)

    def plain_result(self, row: Row, receiver: Value | None, args: Args, at: int, state: State) -> Value:
        if row.returns == "self" and receiver is not None:
            return receiver
        if row.returns == "unknown":
            reason = f"what `{row.name}` gives"
            return Unknown(reason, trace=start(self.site(at), reason, Gap.UNSEEN))
        if row.returns == "argument":
            return args.at(0) or args.keywords.get("module") or Scalar()
        if row.returns == "arguments":
            return args.positional[0] if len(args.positional) == 1 else Tuple(args.positional)
        if row.returns == "none":
            return const(None)
        if row.returns == "parameters" and isinstance(receiver, Ref):
            return Parameters(frozenset({receiver.obj}), trace=receiver.trace)
        if row.returns == "apply" and args.positional:
            rest = Args(args.positional[1:], args.keywords, args.nodes[1:])
            return self.call(args.positional[0], rest, at, state)
        return Scalar()

    def make(self, row: Row, name: str, args: Args, at: int, state: State) -> Value:
        modules = frozenset(m for arg in args.all() for case in self.deep(arg, state) for m in self.modules_of(case))
        layers = tuple((str(index), value) for index, value in enumerate(args.positional))
        if row.effect == "sequential" and len(layers) == 1 and isinstance(layers[0][1], Ref):
            layers = (("0", self.element(layers[0][1], at, state)),)
        noun = name.rsplit(".", 1)[-1]
        ref = self.create(
            "row", at, row.returns, f"`{noun}` is created here", name=name, modules=modules,
            arguments=layers + tuple(args.keywords.items()),
        )  # fmt: skip
        if row.effect != "copy":
            self.empty(ref, state)
        elif args.positional:
            for case in args.positional[0].cases:
                self.copy_items(case, ref, at, state)
        if row.returns == "Context":
            state.set((ref.obj, "mode"), args.at(0, "mode") or const(True))
        return ref

    def modules_of(self, case: Value) -> frozenset[ObjectId]:
        if isinstance(case, Parameters):
            return case.modules
        if isinstance(case, Tensor):
            return case.param_of
        return frozenset({case.obj}) if isinstance(case, Ref) and self.obj(case).kind == "Module" else frozenset()

    def tensor_result(self, row: Row, inputs: tuple[Value, ...], at: int, state: State, args: Args) -> Value:
        incoming = [case for value in inputs for case in self.deep(value, state) if isinstance(case, (Tensor, Unknown))]
        activation = None
        if row.activation:
            is_method = row.name.startswith("Tensor.")
            node = None if is_method else args.node(0, "input")
            activation = Activation(row.activation, self.site(at), node.at if node else None, is_method)
        elif row.keeps_activation and incoming and isinstance(incoming[0], Tensor):
            activation = incoming[0].activation
        if row.graph == "none" or state.flag(*GRAD_OFF) or not incoming:
            batch = any(isinstance(case, Tensor) and case.is_batch for case in incoming)
            return Tensor(activation=activation, is_batch=batch)
        if all(isinstance(case, Unknown) for case in incoming):
            roots = frozenset(root for case in incoming for root in roots_of(case))
            return Tensor("maybe", roots, activation=activation, trace=incoming[0].trace)
        value = combine(incoming)
        if row.returns == "values and indices" and (len(args.positional) + len(args.keywords)) > 0:
            return Tuple((value, Tensor()))
        if isinstance(value, Tensor):
            batch = any(isinstance(case, Tensor) and case.is_batch for case in incoming)
            return replace(value, activation=activation, is_batch=batch)
        return Tensor("maybe", roots_of(value), activation=activation, trace=value.trace)

    def loss(self, row: Row, name: str, args: Args, at: int) -> None:
        value, node = args.at(0, "input"), args.node(0, "input")
        if value is not None and node is not None:
            self.emit(Loss, at, value.trace, callee=name, expects=row.expects, input=value, input_at=node.at)

    # --- effects ----------------------------------------------------------------------------------------------

    def effect(self, row: Row, subject: Value | None, args: Args, at: int, state: State) -> None:
        name = row.effect
        if name == "backward" and subject is not None:
            self.backward(subject, at, state)
        elif name == "step":
            if args.positional and row.on == "self":
                self.call(args.positional[0], Args(), at, state)
            self.each_object(subject, lambda ref: self.step(ref, at, state))
        elif name == "zero_grad":
            self.each_object(subject, lambda ref: self.clear(ref, at, state))
        elif name in {"eval", "train"}:
            wants = const(True) if name == "eval" else self.negated(args.at(0, "mode"))
            known = truth(wants)
            note = start(self.site(at), f"`.{name}()` is called here")
            flag: Value = Scalar("bool") if known is None else const(known, note)
            self.each_object(subject, lambda ref: self.switch(ref, "is eval", flag, state))
        elif name == "requires-grad":
            flag = self.negated(args.at(0, "requires_grad"))
            self.each_object(subject, lambda ref: self.switch(ref, "is frozen", flag, state))
        elif name == "grad-set":
            state.set(GRAD_OFF, self.negated(args.at(0, "mode")))

    def negated(self, value: Value | None) -> Value:
        known = True if value is None else truth(value)
        return Scalar("bool") if known is None else const(not known)

    def each_object(self, subject: Value | None, action: Any) -> None:
        for case in subject.cases if subject is not None else ():
            if isinstance(case, Ref):
                action(case)

    def switch(self, ref: Ref, flag: str, value: Value, state: State, depth: int = 6) -> None:
        """Set a mode on a module and the modules it holds."""
        state.set((ref.obj, flag), value)
        for _, held in state.fields(ref.obj) if depth else ():
            for case in held.cases:
                if isinstance(case, Ref) and case.obj != ref.obj and self.obj(case).kind in ("Module", *CONTAINERS):
                    self.switch(case, flag, value, state, depth - 1)

    def backward(self, loss: Value, at: int, state: State) -> None:
        cases = self.deep(loss, state)
        roots = frozenset(root for case in cases for root in roots_of(case))
        via = frozenset(v for case in cases if isinstance(case, (Tensor, Unknown)) for v in case.via)
        for root in roots:
            state.set((root, "is freed"), const(True))
        self.emit(Backward, at, start(self.site(at), "the backward pass"), roots=roots, via=via, is_known=bool(roots))

    def step(self, ref: Ref, at: int, state: State) -> None:
        obj = self.obj(ref)
        trace = start(self.site(at), "the optimizer steps here", obj.trace.gap)
        modules = self.with_parts(obj.modules, state)
        self.emit(Step, at, trace, optimizer=ref.obj, modules=modules, is_stale="maybe", born_in=obj.loops)

    def with_parts(self, modules: frozenset[ObjectId], state: State) -> frozenset[ObjectId]:
        """Modules and all the modules they hold."""
        found: set[ObjectId] = set()
        todo = list(modules)
        while todo and len(found) < MAX_PARTS:
            obj = todo.pop()
            found.add(obj)
            held = [*(value for _, value in state.fields(obj)), *(value for _, value in self.objects[obj].arguments)]
            cases = [case for value in held for case in value.cases if isinstance(case, Ref)]
            todo += [c.obj for c in cases if c.obj not in found and self.obj(c).kind in ("Module", *CONTAINERS)]
        return frozenset(found)

    def clear(self, ref: Ref, at: int, state: State) -> None:
        obj = self.obj(ref)
        modules = self.with_parts(frozenset({ref.obj}) if obj.kind == "Module" else obj.modules, state)
        self.emit(Clear, at, None, optimizer=None if obj.kind == "Module" else ref.obj, modules=modules)

    # --- code we cannot see -----------------------------------------------------------------------------------

    def call_unseen(self, callee: Value, args: Args, at: int, state: State, reason: str) -> Value:
        """The result is unknown; the arguments may be stepped, cleared, kept or detached: marked, never assumed."""
        given = [case for arg in args.all() for case in self.deep(arg, state)]
        if isinstance(callee, Method) and not isinstance(callee.receiver, External):
            given += self.deep(callee.receiver, state)
        roots = limited(frozenset(root for case in given for root in roots_of(case)))
        via = frozenset(v for case in given if isinstance(case, (Tensor, Unknown)) for v in case.via)
        objects = frozenset(case.obj for case in given if isinstance(case, Ref))
        self.emit(Escape, at, None, objects=objects, roots=roots, via=via, how="call")
        for arg in args.positional:
            for case in arg.cases:
                if isinstance(case, Func) and isinstance(callee, (Unknown, Method)):
                    self.called.add((case.path, case.node.at))
        site = self.site(at)
        return Unknown(reason, Gap.UNSEEN, roots, via, trace=start(site, reason, Gap.UNSEEN))

    def callbacks(self, args: Args, at: int, state: State) -> None:
        """For the estimator: a library calls the functions it is given (``collate_fn``, ``map``), "
        "with values unseen."""
        for case in (case for arg in args.all() for case in arg.cases) if self.wanted else ():
            if isinstance(case, Func) and (case.path, case.node.at) not in self.called:
                self.run_function(case, Args((), {}, has_more=True), at, state.fork())

    def saw(self, name: str, args: Args, at: int, receiver: Value | None = None) -> None:
        """For the estimator: a call it asked for."""
        matches = name in self.wanted or f"*.{name.rsplit('.', 1)[-1]}" in self.wanted
        if self.wanted and matches:
            number = self.interned.setdefault(("call", self.site(at), self.calls), len(self.interned))
            self.emit(
                CallSeen, at, None, number=number, callee=name, args=args.positional,
                keywords=tuple(args.keywords.items()), receiver=receiver,
            )  # fmt: skip


GRAD_OFF = (GRAD[0], OFF)


def roots_of(case: Value) -> frozenset[Site]:
    """The graphs an atom may hold."""
    return case.roots if isinstance(case, (Tensor, Unknown)) else frozenset()


def fields_of(node: ir.Assign) -> list[str]:
    """The field that an annotated assignment in a class body declares."""
    return list(target_names(node.targets[0])) if node.annotation is not None else []


def frame_for(func: Func, scope: ObjectId) -> Frame:
    """A new activation of a function."""
    uses = func.node.uses if isinstance(func.node, ir.FunctionDef) else {}
    owner = func.owner if isinstance(func.owner, Class) else None
    return Frame(scope, func.path, func.node, func.scope, owner, func.bound, uses)


def iterator(element: Value) -> Stream:
    """An iterator over one kind of element."""
    return Stream(element, trace=element.trace)
