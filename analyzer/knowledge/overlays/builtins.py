"""Python's own functions and the methods of its containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from analyzer.engine import values as engine
from analyzer.engine.calls import Calls, iterator
from analyzer.engine.control import batch
from analyzer.engine.graphs import combine
from analyzer.engine.machine import LAYERS, SEQUENTIAL, Args, unseen
from analyzer.engine.measures import COUNTED_BY_USE, UNITS, Drawn, added_up, number_of
from analyzer.engine.operations import LENGTHS
from analyzer.engine.state import State
from analyzer.engine.trace import Gap, start
from analyzer.engine.typing import goes_over, is_blank, is_only_listed
from analyzer.engine.uses import hands
from analyzer.engine.values import (
    Const,
    Counting,
    External,
    Partial,
    Ref,
    Scalar,
    Stream,
    Tensor,
    Tuple,
    Unknown,
    Value,
    const,
    union,
)
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, last_name, walk

_ADDS_LAYERS = frozenset(["add_module", "register_module", "append", "extend", "insert"])

Function = Callable[[Calls, Args, int, State], Value]
Method = Callable[[Calls, Ref, Args, int, State], Value]


def _elements(machine: Calls, value: Value, at: int, state: State) -> Value:
    return union(machine.element(case, at, state) for case in value.cases)


def _first(args: Args) -> Value:
    return args.at(0) or Scalar()


def _range(machine: Calls, args: Args, at: int, state: State) -> Value:
    bound, node, begin = args.at(1) or args.at(0), args.node(1), args.at(0)
    if isinstance(node, ir.Operation) and node.op == "+" and isinstance(begin, Const) and begin.value == 1:
        counted, one = (node.left, node.right) if isinstance(node.right, ir.Constant) else (node.right, node.left)
        if isinstance(one, ir.Constant) and one.value == 1 and isinstance(counted, (ir.Name, ir.Attribute)):
            bound = machine.evaluate(counted, state)  # ``range(1, n + 1)`` counts to `n`
    return Counting(Scalar("range"), bound=bound)


def _enumerate(machine: Calls, args: Args, at: int, state: State) -> Value:
    return iterator(Tuple((Scalar(), _elements(machine, _first(args), at, state))), args.positional[:1])


def _zip(machine: Calls, args: Args, at: int, state: State) -> Value:
    return iterator(Tuple(tuple(_elements(machine, value, at, state) for value in args.positional)), args.positional)


def _same_elements(machine: Calls, args: Args, at: int, state: State) -> Value:
    return _first(args)


def _container(kind: str) -> Function:
    def build(machine: Calls, args: Args, at: int, state: State) -> Value:
        ref = machine.create(
            kind, at, kind, "created here", is_bounded="maxlen" in args.keywords or len(args.positional) > 1
        )
        source = args.at(0)
        machine.empty(ref, state)
        for case in source.cases if source is not None else ():
            machine.copy_items(case, ref, at, state)
        for name, value in args.keywords.items():
            if kind == "dict":
                state.set((ref.obj, f"[{name!r}]"), value)
        return ref

    return build


def _defaultdict(machine: Calls, args: Args, at: int, state: State) -> Value:
    factory = args.at(0)
    inner = machine.call(factory, Args(), at, state) if factory is not None else None
    return machine.create("defaultdict", at, "dict", "created here", element=inner)


def _tuple(machine: Calls, args: Args, at: int, state: State) -> Value:
    value = _first(args)
    return value if isinstance(value, Tuple) else iterator(_elements(machine, value, at, state))


def _plain(machine: Calls, args: Args, at: int, state: State) -> Value:
    return Scalar()


def _len(machine: Calls, args: Args, at: int, state: State) -> Value:
    node = args.node(0)
    owner = machine.evaluate(node.value, state) if isinstance(node, ir.Attribute) else None
    if owner is not None and isinstance(node, ir.Attribute) and node.attr in {"dataset", "sampler"}:
        units = {_counted(machine, engine.Method(case, node.attr)) for case in owner.cases if _may_load(machine, case)}
    else:
        units = {_counted(machine, case) for case in _first(args).cases}
    unit, gap = units.pop() if len(units) == 1 else None, None
    if unit is None and node is not None and all(map(_is_unread, _first(args).cases)) and _is_drawn(machine, node):
        unit, gap = "batches", Gap.CONVENTION  # of what was not read, and is looped over here
    elif unit is None and node is not None and all(map(_is_unread, _first(args).cases)) and _is_loaded(machine, node):
        return Scalar("samples", trace=start(machine.site(at), COUNTED_BY_USE, Gap.CONVENTION))
    note = {"samples": "the number of samples", "batches": "the number of batches", "size": "the size of a batch"}
    return Scalar(unit or "length", trace=start(machine.site(at), note.get(unit or "", "a length"), gap))


def _is_drawn(machine: Calls, node: ir.Expr) -> bool:
    """Whether a loop goes over what a name stands for, and not only the columns of a list are taken out of it; or over
    an item as it is written here (``loaders[phase]``)."""
    function, name = machine.frame.node, dotted(node)
    if name is None:
        return isinstance(node, ir.Subscript) and isinstance(function, ir.FunctionDef) and goes_over(function, node)
    is_listed = isinstance(function, ir.FunctionDef) and is_only_listed(function, name)
    return "for" in machine.uses_of(name) and not is_listed


def _is_loaded(machine: Calls, node: ir.Expr) -> bool:
    """Whether what a name stands for is the data set of a loader that is made here."""
    handed = hands(machine.uses_of(dotted(node) or ""))
    return any(callee and callee[-1] == "DataLoader" and at in {"0", "dataset"} for _, callee, at in handed)


def _is_unread(case: Value) -> bool:
    return is_blank(case.receiver if isinstance(case, engine.Method) else case)


def _counted(machine: Calls, case: Value) -> str | None:
    """What ``len`` of a case counts; a loader whose batches are single samples tells nothing."""
    if isinstance(case, engine.Method) and case.name in {"dataset", "sampler"}:
        return None if isinstance(case.receiver, Ref) and _is_single(machine, case.receiver) else "samples"
    if isinstance(case, Ref):
        kind = machine.obj(case).kind
        if kind == "Loader":
            return None if _is_single(machine, case) else "batches"
        return "samples" if kind == "Data" else None
    if isinstance(case, Tensor):
        return "size"
    is_loader = isinstance(case, Stream) and isinstance(case.element, Tensor) and case.element.is_batch
    return "batches" if is_loader else None


def _may_load(machine: Calls, case: Value) -> bool:
    """Whether a value is, or may be, a loader."""
    return machine.obj(case).kind == "Loader" if isinstance(case, Ref) else not isinstance(case, engine.PyModule)


def _is_single(machine: Calls, ref: Ref) -> bool:
    """Whether a loader gives one sample at a time, or may."""
    obj = machine.obj(ref)
    given = dict(obj.arguments)
    size = given.get("batch_size", given.get("1"))
    return size is None or any(isinstance(case, Const) and case.value in {1, None} for case in size.cases)


def _number(kind: type) -> Function:
    """``float(loss)``, ``int((a == b).sum())``: the measure goes on."""

    def convert(machine: Calls, args: Args, at: int, state: State) -> Value:
        value = _first(args)
        if all(isinstance(case, (Tensor, Unknown)) for case in value.cases):
            return number_of(value, machine.site(at))
        if isinstance(value, Scalar) and value.kind in UNITS:
            return value
        return _cast(kind)(machine, args, at, state)

    return convert


def _rounded(machine: Calls, args: Args, at: int, state: State) -> Value:
    value = _first(args)
    return value if isinstance(value, Scalar) and value.kind in LENGTHS else Scalar()


def _text(machine: Calls, args: Args, at: int, state: State) -> Value:
    value = _first(args)
    return const(str(value.value), value.trace) if isinstance(value, Const) else Scalar("str")


def _cast(kind: type) -> Function:
    def convert(machine: Calls, args: Args, at: int, state: State) -> Value:
        value = _first(args)
        if isinstance(value, Const) and isinstance(value.value, (int, float, str)):
            try:
                return const(kind(value.value), value.trace)
            except (ValueError, OverflowError):  # ``int("x")``, ``int(1e999)``
                return Scalar()
        if isinstance(value, Scalar) and value.kind in LENGTHS | {"option"}:
            return value
        return Scalar()

    return convert


def _sum(machine: Calls, args: Args, at: int, state: State) -> Value:
    value = _elements(machine, _first(args), at, state)
    carriers = [case for case in value.cases if isinstance(case, (Tensor, Unknown))]
    return combine(carriers) if carriers else Scalar()


def _total(machine: Calls, args: Args, at: int, state: State) -> Value:
    result = _sum(machine, args, at, state)
    if not isinstance(result, Scalar):
        return result
    return added_up(_elements(machine, _first(args), at, state), result, machine.site(at))  # ``sum(losses)``


def _next(machine: Calls, args: Args, at: int, state: State) -> Value:
    machine.emit(Drawn, at, None)
    drawn = _elements(machine, _first(args), at, state)
    return batch(drawn) if machine.loops and not machine.in_pass else drawn  # as in a loop over it


def _getattr(machine: Calls, args: Args, at: int, state: State) -> Value:
    name = args.at(1)
    if isinstance(name, Const) and isinstance(name.value, str) and args.positional:
        return union(machine.attribute_of(case, name.value, at, state) for case in args.positional[0].cases)
    return union(machine.any_member(case, at, state) for case in _first(args).cases)


def _partial(machine: Calls, args: Args, at: int, state: State) -> Value:
    return (
        Partial(args.positional[0], args.positional[1:], tuple(args.keywords.items())) if args.positional else Scalar()
    )


def _super(machine: Calls, args: Args, at: int, state: State) -> Value:
    frame = machine.frame
    if isinstance(frame.this, Ref):
        return External("super.")
    return Unknown("super outside a method")


def _base_init(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``super().__init__(model, optimizer)`` of a base that was not read: by convention it keeps what it is given under
    the names the class then uses (``self.model``)."""
    this = machine.frame.this
    result = machine.call_unseen(External("builtins.super.__init__"), args, at, state, "the base class was not read")
    if not isinstance(this, Ref):
        return result
    if args.positional and _is_sequential(machine):  # without any, the class adds its layers by name
        state.set((this.obj, LAYERS), machine.call(External(SEQUENTIAL), args, at, state))
    written = ((node, value) for node, value in zip(args.nodes, args.positional, strict=False) if node is not None)
    named = [*((dotted(node) or "", value) for node, value in written), *args.keywords.items()]
    for name, value in named:
        is_known = not any(map(is_blank, value.cases))  # else what the class uses it as says more
        if is_known and name.isidentifier() and state.get((this.obj, name)) is None and machine.uses_of(f"self.{name}"):
            state.set((this.obj, name), value)
    return result


def _is_sequential(machine: Calls) -> bool:
    """Whether the class whose method runs is a ``Sequential`` (``class Block(nn.Sequential)``) and adds no layers to
    those that the base class gets."""
    owner = machine.frame.owner
    bases = [case for base in (owner.bases if owner is not None else ()) for case in base.cases]
    is_one = bool(bases) and all(isinstance(case, External) and case.name == SEQUENTIAL for case in bases)
    return is_one and owner is not None and not _adds_layers(owner.node)


@remembered(maxsize=512)
def _adds_layers(cls: ir.ClassDef) -> bool:
    """``self.add_module("out", …)``, ``self.append(…)``, ``self.out = nn.Linear(…)``."""
    for method in cls.body:
        if not isinstance(method, ir.FunctionDef) or not method.params:
            continue
        this = method.params[0].name
        for node in walk(method.body, True):
            is_made = isinstance(node, ir.Assign) and isinstance(node.value, ir.Call)
            changed = list(node.targets) if isinstance(node, ir.Assign) and is_made else []
            if isinstance(node, ir.Call) and last_name(node.callee) in _ADDS_LAYERS:
                changed.append(node.callee)
            if any(isinstance(each, ir.Attribute) and dotted(each.value) == this for each in changed):
                return True
    return False


def _exec(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``exec(open("configurator.py").read())`` in the body of a file: it may give its variables other values, which are
    defaults from here on."""
    frame = machine.frame
    if frame.node is None and not machine.wanted:
        for name, value in list(state.fields(frame.scope)):
            if isinstance(value, Const) and value.value is not None:
                state.set((frame.scope, name), engine.option(value))
    return const(None)


def _chain(machine: Calls, args: Args, at: int, state: State) -> Value:
    return iterator(union([_elements(machine, value, at, state) for value in args.positional]))


def _map(machine: Calls, args: Args, at: int, state: State) -> Value:
    if len(args.positional) < 2:
        return Scalar()
    return iterator(
        machine.call(args.positional[0], Args((_elements(machine, args.positional[1], at, state),)), at, state)
    )


def _filter(machine: Calls, args: Args, at: int, state: State) -> Value:
    return args.at(1) or Scalar()


FUNCTIONS: dict[str, Function] = {
    "builtins.round": _rounded, "math.ceil": _rounded, "math.floor": _rounded,
    "builtins.range": _range, "builtins.enumerate": _enumerate, "builtins.zip": _zip,
    "builtins.list": _container("list"),
    "builtins.dict": _container("dict"), "builtins.set": _container("set"), "collections.deque": _container("deque"),
    "collections.OrderedDict": _container("dict"), "collections.Counter": _container("dict"),
    "collections.defaultdict": _defaultdict, "builtins.tuple": _tuple,
    "builtins.sorted": _same_elements, "builtins.reversed": _same_elements, "builtins.iter": _same_elements,
    "tqdm.tqdm": _same_elements, "tqdm.auto.tqdm": _same_elements, "tqdm.notebook.tqdm": _same_elements,
    "tqdm": _same_elements,
    "tqdm.trange": _range, "itertools.islice": _same_elements, "itertools.cycle": _same_elements,
    "itertools.count": _range, "itertools.chain": _chain,
    "builtins.sum": _total, "builtins.next": _next, "builtins.getattr": _getattr, "functools.partial": _partial,
    "builtins.exec": _exec, "builtins.super": _super, "builtins.super.__init__": _base_init, "builtins.map": _map,
    "builtins.filter": _filter, "builtins.int": _number(int),
    "builtins.float": _number(float), "builtins.len": _len, "builtins.str": _text,
    **{f"builtins.{name}": _plain for name in (
        "print", "bool", "isinstance", "hasattr", "any", "all", "type", "id", "repr",
        "callable", "input", "format", "hash", "dir", "issubclass", "exit", "quit", "divmod", "pow")},
    "builtins.max": _sum, "builtins.min": _sum, "builtins.abs": _sum,
}  # fmt: skip


def _append(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    result = _put(machine, ref, args, machine.next_field(ref, state), state)
    if args.positional:
        machine.end_with(ref, args.positional[-1], state)
    return result


def _add(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    _reorder(machine, ref, args, at, state)
    return _put(machine, ref, args, "[]", state)


def _reorder(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """What stands last is another item from here on."""
    machine.end_with(ref, unseen("the last item", machine.site(at)), state)
    return Scalar()


def _put(machine: Calls, ref: Ref, args: Args, field: str, state: State) -> Value:
    value = args.positional[-1] if args.positional else Scalar()
    node = args.node(len(args.positional) - 1)
    state.add((ref.obj, field), value)
    if node is not None:
        machine.note_store(ref, value, node, "append", state)
    return const(None)


def _extend(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    return _take_in(machine, ref, args, at, state, "append")


def _update(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    return _take_in(machine, ref, args, at, state, "update")


def _take_in(machine: Calls, ref: Ref, args: Args, at: int, state: State, how: Literal["append", "update"]) -> Value:
    value, node = _first(args), args.node(0)
    for case in value.cases:
        machine.take_in(case, ref, at, state)
    if node is not None:
        machine.note_store(ref, value, node, how, state)
    return const(None)


def _clear(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    machine.empty(ref, state)
    machine.emptied.setdefault(ref.obj, set()).add(machine.loops)
    return const(None)


def _pop(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    machine.emptied.setdefault(ref.obj, set()).add(machine.loops)
    _reorder(machine, ref, args, at, state)
    return machine.object_element(ref, at, state)


def _get(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    return machine.container_item(ref, _first(args), at, state)


def _setdefault(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    default = args.at(1)
    if default is not None:
        state.add((ref.obj, "[]"), default)
        machine.live_with(ref, default)
    return machine.container_item(ref, _first(args), at, state)


def _values(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    return iterator(machine.object_element(ref, at, state))


def _items(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    return iterator(Tuple((Scalar("str"), machine.object_element(ref, at, state))))


def _keys(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    return iterator(Scalar("str"))


def _itself(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    return ref


def _nothing(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    return Scalar()


_LIST: dict[str, Method] = {
    "append": _append, "add": _add, "appendleft": _add, "insert": _add, "extend": _extend,
    "clear": _clear, "pop": _pop,
    "popleft": _pop, "copy": _itself, "get": _get, "setdefault": _setdefault, "values": _values, "items": _items,
    "keys": _keys, "update": _update, "sort": _reorder, "reverse": _reorder, "index": _nothing,
    "count": _nothing, "remove": _reorder,
}  # fmt: skip
METHODS: dict[tuple[str, str], Method] = {
    (kind, name): method for kind in ("list", "dict", "set", "deque") for name, method in _LIST.items()
}
