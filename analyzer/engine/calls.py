"""Calls: functions and classes of the repository, knowledge rows, built-ins, and code we cannot see."""

from __future__ import annotations

from collections.abc import Iterable

from analyzer.engine import activations, fold, frozen, outputs, padding, weights
from analyzer.engine.built import building
from analyzer.engine.events import Guard, Loop
from analyzer.engine.forward import Forwards
from analyzer.engine.graphs import device_of
from analyzer.engine.hooks import argument, framework_of
from analyzer.engine.machine import MAX_ITEMS, Args, unseen
from analyzer.engine.measures import SCALED_IN_PLACE, Mark, after_call
from analyzer.engine.registration import note_unregistered
from analyzer.engine.state import FALSE, GRAD_OFF, TRUE, State, merge
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.typing import PASSES, is_argument, is_called_loss
from analyzer.engine.unread_layers import note_unread_layers
from analyzer.engine.values import (
    Class,
    Const,
    External,
    Func,
    Method,
    Partial,
    Ref,
    Scalar,
    Stream,
    Tensor,
    Union,
    Unknown,
    Value,
    const,
    drawn_from,
    union,
)
from analyzer.knowledge import overlays
from analyzer.knowledge.schema import Row
from analyzer.records import replace
from analyzer.syntax import ir
from analyzer.syntax.scope import SAME_OBJECT, last_name, target_names

_UNBOUND = "torch.Tensor."
IN_PLACE = {"detach_", "sigmoid_", "log_", "exp_", "relu_", "tanh_", "clamp_", "clip_"} | SCALED_IN_PLACE
"""Methods of a tensor after which it holds other numbers."""
_BACKWARD = {"backward", "backward(…)"}
_MODES = {"eval", "train", "requires_grad_"}
_SPENDERS = frozenset(f"builtins.{name}" for name in ("sum", "list", "tuple", "sorted", "max", "min"))
"""What goes through a generator that it is given, to its end."""
_OF_LOGITS = frozenset({"logits", "binary logits"})
"""What losses want that normalise their input themselves, whichever of them it is."""
_NO_ARGS = Args()
_FEW = 2
"""Functions that an `if` may choose between; a table of more (hooks by name) is asked for one of them."""


class Calls(Forwards):
    """Apply a callee to arguments."""

    def call_expression(self, expr: ir.Call, state: State) -> Value:
        named = expr.callee
        callee = self.evaluate(named, state)
        if not expr.args and isinstance(named, ir.Attribute) and isinstance(named.value, ir.Call):
            callee = self.of_fresh_module(callee, expr.at)
        is_spender = type(callee) is External and callee.name in _SPENDERS
        args = self.arguments(expr, state, is_spender)
        result = self.call(callee, args, expr.at, state)
        if type(result) is Unknown and is_called_loss(last_name(named)) and state.flag(*GRAD_OFF) is True:
            result = self.as_mean(result, args, expr.at)
        if isinstance(named, ir.Attribute):
            if named.attr == "sample" and not isinstance(callee, (Func, Ref)):
                return without_roots(result, self.site(expr.at))
            if named.attr in IN_PLACE and is_variable(named.value):
                self.assign(named.value, result, state, expr.at)
        return result

    def of_fresh_module(self, callee: Value, at: int) -> Value:
        """``Net().cuda().eval()`` of a class that was not read: what has just been made is a module."""
        if not isinstance(callee, Method) or callee.name not in {"eval", "train"}:
            return callee
        if not isinstance(callee.receiver, Unknown) or callee.receiver.roots:
            return callee
        note = f"used as a module: `.{callee.name}()` is called on what is made here"
        ref = self.create("fresh module", at, "Module", note, gap=Gap.CONVENTION, born="unseen")
        return Method(ref, callee.name, trace=ref.trace)

    def arguments(self, expr: ir.Call, state: State, is_spender: bool = False) -> Args:
        if not expr.args:
            return _NO_ARGS
        positional: list[Value] = []
        nodes: list[ir.Expr | None] = []
        keywords: dict[str, Value] = {}
        keyword_nodes: dict[str, ir.Expr] = {}
        unpacked: list[tuple[int, Value]] = []
        for arg in expr.args:
            if is_spender and isinstance(arg.value, ir.Comprehension):
                value = self.comprehension(arg.value, state, is_spent=True)
            else:
                value = self.evaluate(arg.value, state)
            if not arg.star:
                if arg.keyword:
                    keywords[arg.keyword], keyword_nodes[arg.keyword] = value, arg.value
                else:
                    positional.append(value)
                    nodes.append(arg.value)
                continue
            known = self.in_order(value, state) if arg.star == "*" else None
            if known is not None and len(positional) + len(known) <= MAX_ITEMS:
                positional.extend(known)
                nodes.extend([None] * len(known))
            else:
                unpacked.append((len(positional), value))
                self.unpack(value, keywords, state)
        return Args(tuple(positional), keywords, tuple(nodes), keyword_nodes, bool(unpacked), tuple(unpacked))

    def unpack(self, value: Value, keywords: dict[str, Value], state: State) -> None:
        for case in value.cases:
            if isinstance(case, Ref):
                for name, held in state.fields(case.obj):
                    if name.startswith("['"):
                        keywords.setdefault(name[2:-2], held)

    def call(self, callee: Value, args: Args, at: int, state: State) -> Value:
        self.spend()
        if type(callee) is not Union:
            return self.call_one(callee, args, at, state)
        cases = callee.cases
        if all(isinstance(case, Method) and case.name in _MODES for case in cases):  # whichever it is, it is switched
            return union([self.call_one(case, args, at, state) for case in cases])
        ends: list[State] = []
        results: list[Value] = []
        expected = {self.expected_by(case) for case in cases}
        is_choice = len(expected) > 1 and not expected <= _OF_LOGITS
        self.choices += is_choice
        outside = self.guards
        if sum(isinstance(case, (Func, Partial)) for case in cases) > _FEW:
            self.guards = (*outside, Guard(self.site(at), True))
        try:
            for case in cases:
                path = state.fork()
                results.append(self.call_one(case, args, at, path))
                ends.append(path)
        finally:
            self.choices -= is_choice
            self.guards = outside
        met = merge(ends)
        assert met is not None
        state.become(met)
        return union(results)

    def expected_by(self, callee: Value) -> str:
        """What a loss wants as its input; empty for anything else."""
        name = callee.name if isinstance(callee, External) else self.obj(callee).name if isinstance(callee, Ref) else ""
        row = self.knowledge.row(name) if name else None
        return row.expects if row is not None else ""

    def call_one(self, case: Value, args: Args, at: int, state: State) -> Value:
        if isinstance(case, External):
            return self.call_external(case, args, at, state)
        if isinstance(case, Method):
            return self.call_method(case, args, at, state)
        if isinstance(case, Func):
            if self.is_forward(case):
                return self.forward(case.bound, args, at, state)  # type: ignore[arg-type]
            return self.run_function(case, args, at, state)
        if isinstance(case, Partial):
            keywords = {**dict(case.keywords), **args.keywords}
            nodes = (*(None for _ in case.args), *args.nodes)
            whole = Args((*case.args, *args.positional), keywords, nodes, args.keyword_nodes, args.has_more)
            return self.call(case.func, whole, at, state)
        if isinstance(case, Class):
            return self.instantiate(case, args, at, state)
        if isinstance(case, Ref):
            return self.call_object(case, args, at, state)
        if isinstance(case, Tensor) and case.is_opaque and not args.positional:
            return case  # ``outputs.to_tuple()``
        result = self.call_unseen(case, args, at, state, "an unknown value is called")
        return self.as_loss(result, args, at) if is_argument(case) else result

    def as_mean(self, result: Unknown, args: Args, at: int) -> Value:
        """What was not read and is called a loss is given what a network gave, with gradients off."""
        given = [case for value in args.all() for case in value.cases]
        if result.roots or len(args.all()) < len(("output", "target")) or not any(map(outputs.marks_of, given)):
            return result
        trace = start(self.site(at), "what is called a loss gives the mean over a batch", Gap.CONVENTION)
        return Tensor(via=result.via | {Mark.CALLED}, trace=trace)

    def as_loss(self, result: Value, args: Args, at: int) -> Value:
        """What the caller gave is called with the output of a model and a part of the batch, or made-up labels, and
        nothing else: by convention a loss, which has the graph of the output."""
        output, target = (*args.positional, None, None)[:2]
        is_pair = len(args.positional) == 2 and not args.keywords and not args.has_more
        is_output = isinstance(output, Tensor) and output.graph == "yes" and bool(output.roots) and not output.is_batch
        is_target = isinstance(target, Tensor) and (target.is_batch or (target.graph == "no" and not target.is_opaque))
        if not is_pair or not is_output or not is_target:
            return result
        note = "an argument that is called with outputs and targets gives a loss"
        made = [case for case in result.cases if isinstance(case, Unknown)]
        roots, via = frozenset(r for c in made for r in c.roots), frozenset(v for c in made for v in c.via)
        trace = start(self.site(at), note, Gap.CONVENTION)
        return Tensor("yes", roots, via | {Mark.LOSS}, device=device_of([output]), trace=trace)  # type: ignore[list-item]

    # --- code of the repository -------------------------------------------------------------------------------

    def instantiate(self, cls: Class, args: Args, at: int, state: State) -> Value:
        kind = self.kind_of(cls)
        self.saw(cls.node.name, args, at, state)
        ref = self.create("instance", at, kind, f"a `{cls.node.name}` is created here", cls=cls)
        self.empty(ref, state)
        with building(self, cls, ref, args, state):
            self.construct(cls, ref, args, at, state)
        note_unregistered(self, cls, ref, state)
        note_unread_layers(self, cls, ref, state)
        if self.frozen_under:
            frozen.note_kept(self, cls, ref, state)
        return ref

    def construct(self, cls: Class, ref: Ref, args: Args, at: int, state: State) -> None:
        init = self.class_attribute(cls, "__init__", state)
        if init is not None:
            for case in init.cases:
                if isinstance(case, Func):
                    self.run_function(replace(case, bound=ref), args, at, state)
        else:
            names = [name for each in cls.node.body if isinstance(each, ir.Assign) for name in fields_of(each)]
            for _, whole in args.unpacked:  # ``Snapshot(**torch.load(path))``: what was read is in every field
                parts = [case for case in whole.cases if isinstance(case, (Tensor, Unknown)) and case.via]
                for name in names if parts else ():
                    state.set((ref.obj, name), union(parts))
            for name, value in (*zip(names, args.positional, strict=False), *args.keywords.items()):
                state.set((ref.obj, name), value)

    def kind_of(self, cls: Class, depth: int = 0) -> str:
        """The knowledge kind of a class of the repository: that of the library class it derives from."""
        for base in cls.bases if depth < 10 else ():
            for case in base.cases:
                if isinstance(case, Class):
                    kind = self.kind_of(case, depth + 1)
                elif isinstance(case, External):
                    kind = self.returned_kind(case.name)
                else:
                    kind = "instance"
                if kind != "instance":
                    return kind
        framework = framework_of(self.knowledge, cls) if not depth else None
        return (framework.kind if framework is not None else "") or "instance"

    def returned_kind(self, name: str) -> str:
        if name.startswith(("torch.utils.data.", "torchvision.datasets.")):
            return "Data" if "Loader" not in name else "Loader"
        row = self.knowledge.row(name)
        return row.returns if row and row.returns[:1].isupper() else "instance"

    def call_object(self, ref: Ref, args: Args, at: int, state: State) -> Value:
        obj = self.obj(ref)
        self.saw("*.__call__", args, at, state, ref)
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
        row = self.knowledge.row(f"{obj.kind}.__call__")
        if row is not None:
            result = self.apply_row(row, row.name, ref, args, at, state)
            return padding.of_tokenizer(obj.name, args, result, self.site(at))
        return self.call_unseen(ref, args, at, state, "an object is called whose code was not read")

    # --- libraries --------------------------------------------------------------------------------------------

    def call_external(self, callee: External, args: Args, at: int, state: State) -> Value:
        if callee.name.startswith(_UNBOUND) and args.positional:  # ``torch.Tensor.detach(x)``
            rest = replace(args, positional=args.positional[1:], nodes=args.nodes[1:])
            methods = union(Method(case, callee.name[len(_UNBOUND) :]) for case in args.positional[0].cases)
            return self.call(methods, rest, at, state)
        result = self.external_result(callee, args, at, state)
        observe = overlays.observer(callee.name)
        if observe is not None:
            observe(self, args, at, state, result)
        return result

    def external_result(self, callee: External, args: Args, at: int, state: State) -> Value:
        if self.wanted:
            self.saw(callee.name, args, at, state, External(callee.name.rpartition(".")[0]))
        if not overlays.calls_itself(callee.name):
            self.callbacks(args, at, state)
        special = overlays.function(callee.name)
        if special is not None:
            result: Value = special(self, args, at, state)
            return result
        row = self.knowledge.row(callee.name)
        if row is not None:
            if row.runs:
                self.run_in_loop(row, args, at, state)
            return self.apply_row(row, callee.name, None, args, at, state)
        return self.call_unseen(callee, args, at, state, f"`{callee.name}` was not read")

    def run_in_loop(self, row: Row, args: Args, at: int, state: State) -> None:
        """A framework that is given a function calls it for every step of a loop of its own."""
        index, *kinds = row.runs
        function = args.at(int(index), row.params[int(index)] if row.params else "")
        site = self.site(at)
        outer, loop = self.loops, Loop(site, "framework", start(site, "the framework calls it in its loop"), "steps")
        for case in function.cases if function is not None else ():
            if isinstance(case, Func):
                self.loops = (*outer, loop)
                given = tuple(argument(self, k, f"{n}", at) or unseen("an argument", site) for n, k in enumerate(kinds))
                self.run_function(case, Args(given), at, state.fork())
                self.loops = outer

    def call_method(self, method: Method, args: Args, at: int, state: State) -> Value:
        if method.name.endswith("_"):
            self.note_change(method.receiver)
        result = self.method_result(method, args, at, state)
        observe = overlays.method_observer(method.name)
        if observe is not None:
            observe(self, method.receiver, args, at, state, result)
        return result

    def method_result(self, method: Method, args: Args, at: int, state: State) -> Value:
        receiver, kind = method.receiver, self.receiver_kind(method.receiver)
        self.saw(f"*.{method.name}", args, at, state, receiver)
        self.callbacks(args, at, state)
        special = overlays.method(kind, method.name)
        if special is not None and isinstance(receiver, Ref):
            answer: Value = special(self, receiver, args, at, state)
            return answer
        if (kind, method.name) == ("Tensor", "type") and not args.all():
            return Scalar()  # the name of its type
        if method.name in activations.OF_TEXT_ONLY and isinstance(receiver, (Tensor, Unknown)):
            return Scalar()
        self.clears_unknown(method, at)
        self.steps_unknown(method, args, at, state)
        if method.name == "state_dict" and isinstance(receiver, (Unknown, Method)):
            return weights.made(self, receiver, at, state)
        if method.name in activations.OF_TENSORS_ONLY:  # ``model(x).logits.softmax(1)`` of a model that was not read
            receiver = receiver.receiver if isinstance(receiver, Method) else receiver
            kind = "Tensor" if isinstance(receiver, (Tensor, Unknown)) else kind
        row = self.knowledge.row(f"{kind}.{method.name}") if kind else None
        if row is not None and row.name == "Module.generate" and isinstance(receiver, Ref):
            self.generates(receiver, args, at, state)
        if row is not None:
            return self.apply_row(row, f"{kind}.{method.name}", receiver, args, at, state)
        if method.name == "backward":
            return self.backward_unseen(method, args, at, state)
        return self.method_unseen(method, receiver, args, at, state)

    def method_unseen(self, method: Method, receiver: Value, args: Args, at: int, state: State) -> Value:
        """A method that neither code nor a row tells of."""
        if isinstance(receiver, Ref) and self.is_module(receiver):
            if method.name in {"forward", "__call__"}:
                return self.forward(receiver, args, at, state)
            is_fed = any(isinstance(case, (Tensor, Unknown)) for arg in args.all() for case in self.deep(arg, state))
            is_pass = f"{method.name}(…)" in PASSES or state.flag(*GRAD_OFF) is True
            is_pass = is_pass or (self.is_asleep(receiver, state) and self.gets_batch(args, state))
            if self.obj(receiver).cls is None and is_fed and is_pass:  # gradients are turned off for what runs it
                return self.forward(receiver, args, at, state, method.name)
            if self.obj(receiver).cls is None and is_fed:
                return self.method_run(receiver, method.name, args, at, state)
        if isinstance(receiver, Const):
            return self.folded_method(receiver, method.name, args)
        if isinstance(receiver, Scalar):
            return Scalar()
        if method.name in {"detach", "item", "tolist", "numpy"} and not args.positional and is_unread(receiver):
            reason = f"`.{method.name}()` of what was not read"  # whatever it is, no graph comes out
            return Unknown(reason, Gap.UNSEEN, trace=start(self.site(at), reason, Gap.UNSEEN))
        result = self.call_unseen(method, args, at, state, f"`.{method.name}` was not read")
        is_same = method.name in SAME_OBJECT and isinstance(receiver, Unknown) and not receiver.roots
        if is_same and isinstance(receiver, Unknown) and isinstance(result, Unknown):
            same = {name: getattr(receiver, name) for name in ("reason", "called", "is_given", "trace")}
            return replace(result, **same)  # ``build().to(device)``
        is_reduction = isinstance(receiver, Unknown) and method.name in {
            "sum",
            "mean",
            "div_",
            "mul_",
            "div",
            "mul",
        }
        return after_call(f"Tensor.{method.name}", (receiver, *args.all()), result) if is_reduction else result

    def is_asleep(self, ref: Ref, state: State) -> bool:
        """Whether the function that runs a method of a module has put it into evaluation mode itself."""
        mode = state.get((ref.obj, "is eval"))
        is_here = mode is not None and mode.trace is not None and mode.trace.site.path == self.site(0).path
        return is_here and state.flag(ref.obj, "is eval") is True and not self.in_pass

    def gets_batch(self, args: Args, state: State) -> bool:
        """Whether one of some arguments is data, or holds some."""
        given = (case for arg in args.all() for case in self.deep(arg, state))
        return any(isinstance(case, Tensor) and not case.param_of for case in given)

    def generates(self, ref: Ref, args: Args, at: int, state: State) -> None:
        """``model.generate(x)``: passes without gradients, whoever calls it."""
        was, obj = state.get(GRAD_OFF), self.obj(ref)
        if obj.cls is None and any(isinstance(c, (Tensor, Unknown)) for a in args.all() for c in self.deep(a, state)):
            state.set(GRAD_OFF, TRUE)
            self.forward(ref, args, at, state, "generate")
            state.set(GRAD_OFF, was if was is not None else FALSE)

    def folded_method(self, text: Const, name: str, args: Args) -> Value:
        """A method of a text that is known, where all it is given is known too."""
        given = tuple(arg.value for arg in args.positional if isinstance(arg, Const))
        if args.keywords or len(given) != len(args.positional):
            return Scalar()
        try:
            return const(fold.method(text.value, name, given), text.trace)
        except fold.NotConstant:
            return Scalar()

    def backward_unseen(self, method: Method, args: Args, at: int, state: State) -> Value:
        """``backward`` of an object that was not read (an engine, a scaler) runs one through what it is given."""
        receiver = method.receiver.receiver if isinstance(method.receiver, Method) else method.receiver
        by = "Tensor" if not args.positional and isinstance(receiver, Unknown) else ""
        self.backward(union([method.receiver, *args.all()]), at, state, by)
        return self.call_unseen(method, args, at, state, "`.backward` was not read")


def without_roots(value: Value, site: Site) -> Value:
    """What ``Distribution.sample`` draws from the output of a network: no graph, unlike ``rsample``. A ``sample`` that
    was read keeps what its code gives."""
    if all(isinstance(case, (Tensor, Unknown)) and case.roots for case in value.cases):
        return unseen("a draw from a distribution", site)
    return value


def is_unread(value: Value) -> bool:
    """Something unknown, or what a method of it is."""
    return isinstance(value, Unknown) or (isinstance(value, Method) and isinstance(value.receiver, Unknown))


def is_variable(expr: ir.Expr) -> bool:
    """A name, or a field of one."""
    return isinstance(expr, ir.Name) or (isinstance(expr, ir.Attribute) and isinstance(expr.value, ir.Name))


def fields_of(node: ir.Assign) -> list[str]:
    """The field that an annotated assignment in a class body declares."""
    return list(target_names(node.targets[0])) if node.annotation is not None else []


def declared(cls: Class) -> list[tuple[str, ir.Expr]]:
    """The fields that the body of a class declares, with their annotations."""
    assigns = [each for each in cls.node.body if isinstance(each, ir.Assign) and each.annotation is not None]
    return [(name, each.annotation) for each in assigns if each.annotation for name in target_names(each.targets[0])]


def iterator(element: Value, over: Iterable[Value] = ()) -> Stream:
    """An iterator over one kind of element; `over` are the iterables it draws from."""
    of = frozenset(obj for value in over for obj in drawn_from(value))
    return Stream(element, of, trace=element.trace)
