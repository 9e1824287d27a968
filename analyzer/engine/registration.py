"""What a module keeps without registering it: layers in plain containers, parameters that are no leaves, tensors that
are no buffers.

``nn.Module.__setattr__`` registers a module, an ``nn.Parameter`` and nothing else: what lies in a list, dict or tuple
is in no ``parameters()``, no ``state_dict()`` and is not moved by ``to()``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from analyzer.engine.machine import CONTAINERS, Frame
from analyzer.engine.optim_events import Unregistered
from analyzer.engine.own_ways import is_field as _is_field
from analyzer.engine.own_ways import is_same_parameter, looks_after, puts_elsewhere
from analyzer.engine.own_ways import methods as _methods
from analyzer.engine.trace import Site, start
from analyzer.engine.values import Class, External, ObjectId, Parameter, Parameters, Ref, Tensor, Tuple, Value
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, walk

if TYPE_CHECKING:
    from analyzer.engine.calls import Calls
    from analyzer.engine.state import State

_MOVES = frozenset(
    ["to", "cuda", "type_as", "cpu", "device", "shape", "size", "dtype", "item", "tolist", "numpy", "npu", "xpu"]
)
_OWN_WAYS = frozenset(["_apply", "to", "cuda"])
_FACTORIES = frozenset(
    f"torch.{name}"
    for name in ("ones", "zeros", "arange", "linspace", "eye", "randn", "rand", "full", "from_numpy", "tril", "triu",
                 "FloatTensor", "LongTensor", "Tensor", "tensor", "as_tensor", "logspace")
)  # fmt: skip


def note_unregistered(machine: Calls, cls: Class, ref: Ref, state: State) -> None:
    """After ``__init__``: an event for each attribute that hides something from the module."""
    if machine.obj(ref).kind != "Module":
        return
    fields = [(name, value) for name, value in state.fields(ref.obj) if not name.startswith(("is ", "["))]
    suspects = [(name, value, what) for name, value in fields if (what := _hidden(machine, ref, value, state))]
    if not suspects:
        return
    registered = _registered(machine, fields, state)
    prefix = _nn(machine, cls, state)
    for name, value, what in suspects:
        if what == "modules" and _is_at_home(machine, cls, ref, name, value, registered, state):
            continue
        if what == "parameter" and _is_given(cls, name):
            continue
        if what == "parameters" and _is_registered_list(machine, fields, registered, value, state):
            continue
        reads = list(reads_of(cls, name))
        if not reads or (what == "buffer" and not _stays_behind(cls, name, reads)):
            continue
        if _is_in_hand(cls, name, what):
            continue
        site = place_of(value, cls) if what in {"modules", "parameters"} else _assigned(cls, name)
        if site is not None:
            machine.frames.append(Frame(cls.scope, cls.path, None, None, cls))  # the event is of the file of the class
            machine.emit(
                Unregistered, site.at, None, owner=ref.obj, name=name, what=what, container=kind_of(machine, value),
                value=value.trace or start(site, "made here"), prefix=prefix, used=Site(cls.path, reads[0].at),
            )  # fmt: skip
            machine.frames.pop()


def _is_in_hand(cls: Class, name: str, what: str) -> bool:
    """Whether the class registers what it keeps in another way, or there is nothing to register."""
    if looks_after(cls, name) or (what == "parameter" and (_is_parameter(cls, name) or _is_replaced(cls, name))):
        return True
    return what == "modules" and puts_elsewhere(cls, name)


def _hidden(machine: Calls, ref: Ref, value: Value, state: State) -> str:
    """What a field may hide: ``modules``, ``parameters``, a ``parameter`` that is none, a ``buffer``."""
    if len(value.cases) != 1:
        return ""
    if isinstance(value, Tensor) and not isinstance(value, Parameter) and not value.is_batch and not value.param_of:
        if value.graph == "yes" and not value.roots:
            return "parameter"
        return "buffer" if value.graph == "no" and not value.is_opaque else ""
    if not is_plain(machine, value):
        return ""
    inside = machine.deep(value, state)
    if any(isinstance(case, Parameter) and case.graph == "yes" for case in inside):  # a buffer has no graph
        return "parameters"
    return "modules" if _own(machine, ref, value, state) else ""


def is_plain(machine: Calls, value: Value) -> bool:
    """A list, dict, set or tuple of Python's own."""
    if isinstance(value, Ref):
        obj = machine.obj(value)
        return (
            obj.kind in CONTAINERS and obj.kind != "Data" and not obj.name.startswith("torch.nn.") and obj.cls is None
        )
    return isinstance(value, Tuple)


def _own(machine: Calls, ref: Ref, value: Value, state: State) -> frozenset[ObjectId]:
    """The modules in a container that this instance has made, and that own weights. Those it was given may be hidden on
    purpose (a teacher, a parent)."""
    held = (case for case in machine.deep(value, state) if isinstance(case, Ref) and case.obj > ref.obj)
    return frozenset(
        case.obj for case in held if machine.obj(case).kind == "Module" and _has_weights(machine, case, state)
    )


def _is_at_home(
    machine: Calls, cls: Class, ref: Ref, name: str, value: Value, registered: frozenset[ObjectId], state: State
) -> bool:
    """Whether what a container holds is registered somewhere else, or hidden on purpose."""
    own = _own(machine, ref, value, state)
    if own <= registered or (own & registered and _is_menu(cls, name)) or _is_hidden_on_purpose(cls, name):
        return True
    return own <= _put_elsewhere(machine, ref, own, state)


def _put_elsewhere(machine: Calls, ref: Ref, own: frozenset[ObjectId], state: State) -> frozenset[ObjectId]:
    """Those that another module has as an attribute: a layer of LoRA that stands in a layer of the network, and in a
    list by which it is found again. Where that module is put is not asked."""
    others = (obj for obj, each in enumerate(machine.objects) if each.kind == "Module" and obj != ref.obj)
    held = (value for other in others for value in state.values(other))
    return own & {case.obj for value in held for case in value.cases if isinstance(case, Ref)}


def _is_hidden_on_purpose(cls: Class, name: str) -> bool:
    """``self.teacher = [teacher]``, read as ``self.teacher[0]`` or unpacked: nobody writes a list of one for another
    reason."""
    values = [node.value for node in _assignments(cls, name)]
    if not values or not all(isinstance(value, ir.Display) and len(value.items) == 1 for value in values):
        return False
    nodes = [node for method in _methods(cls) for node in walk(method.body, into_functions=True)]
    fine = {
        id(node.value)
        for node in nodes
        if isinstance(node, ir.Subscript) and isinstance(node.index, ir.Constant) and node.index.value == 0
    }
    for node in nodes:
        if isinstance(node, ir.Assign):
            fine |= {id(target) for target in node.targets}
            if any(isinstance(to, ir.Display) and len(to.items) == 1 for to in node.targets):
                fine.add(id(node.value))  # ``teacher, = self.teacher``
    return all(id(read) in fine for read in reads_of(cls, name))


def _has_weights(machine: Calls, ref: Ref, state: State) -> bool:
    for part in machine.with_parts(frozenset({ref.obj}), state):
        obj = machine.objects[part]
        row = machine.knowledge.row(obj.name) if obj.name else None
        if row is not None and row.graph == "parameters" and row.returns == "Module":
            return True
        held = (case for _, value in state.fields(part) for case in value.cases)
        if any(isinstance(case, Parameter) and case.graph == "yes" for case in held):  # a buffer has no graph
            return True
    return False


def _registered(machine: Calls, fields: list[tuple[str, Value]], state: State) -> frozenset[ObjectId]:
    found: set[ObjectId] = set()
    for _, value in fields:
        for case in value.cases:
            if not isinstance(case, Ref):
                continue
            obj = machine.obj(case)
            if obj.kind == "Module":
                found.add(case.obj)
            elif obj.name.startswith("torch.nn."):
                held = machine.deep(case, state)
                found |= {c.obj for c in held if isinstance(c, Ref)}
                found |= {obj for c in held if isinstance(c, Parameters) for obj in c.modules}
                found |= {obj for c in held if isinstance(c, Tensor) for obj in c.param_of}
    return machine.with_parts(frozenset(found), state)


def _is_registered_list(
    machine: Calls, fields: list[tuple[str, Value]], registered: frozenset[ObjectId], value: Value, state: State
) -> bool:
    """The same parameters also stand in attributes, a ``ParameterList`` or a part of the module."""
    sites = _parameters_in(machine, value, state)
    mine = [other for _, other in fields if other is not value and not is_plain(machine, other)]
    parts = [other for part in registered for _, other in state.fields(part)]
    return any(sites & _parameters_in(machine, other, state) for other in (*mine, *parts))


def _parameters_in(machine: Calls, value: Value, state: State) -> set[Site]:
    """Where the parameters that a value holds are made."""
    return {case.trace.site for case in machine.deep(value, state) if isinstance(case, Parameter) and case.trace}


def _nn(machine: Calls, cls: Class, state: State) -> str | None:
    """How the file of a class names ``torch.nn``."""
    scope = machine.modules.get(cls.path)
    for name, value in state.fields(scope) if scope is not None else ():
        if isinstance(value, External) and value.name == "torch.nn":
            return f"{name}."
    torch = state.get((scope, "torch")) if scope is not None else None
    return "torch.nn." if isinstance(torch, External) and torch.name == "torch" else None


def kind_of(machine: Calls, value: Value) -> str:
    return machine.obj(value).kind if isinstance(value, Ref) else "tuple"


def place_of(value: Value, cls: Class) -> Site | None:
    site = value.trace.site if value.trace is not None else None
    return site if site is not None and site.path == cls.path else None


def _assigned(cls: Class, name: str) -> Site | None:
    """The last value that ``__init__`` itself gives an attribute."""
    nodes = [node.at if node.value is None else node.value.at for node in _assignments(cls, name)]
    return Site(cls.path, max(nodes)) if nodes else None


def _assignments(cls: Class, name: str) -> list[ir.Assign]:
    """The statements of ``__init__`` that set an attribute."""
    found: list[ir.Assign] = []
    for method in (method for method in _methods(cls) if method.name == "__init__" and method.params):
        this = method.params[0].name
        for node in walk(method.body, into_functions=False):
            if isinstance(node, ir.Assign) and any(_is_field(target, this, name) for target in node.targets):
                found.append(node)
    return found


def _is_parameter(cls: Class, name: str) -> bool:
    """Whether what is done to an ``nn.Parameter`` gives the parameter itself."""
    values = [node.value for node in _assignments(cls, name) if node.value is not None]
    return bool(values) and all(is_same_parameter(value) for value in values)


def _is_replaced(cls: Class, name: str) -> bool:
    """Whether another method gives the attribute another value: what ``__init__`` made is a placeholder."""
    return any(
        isinstance(node, ir.Assign) and any(_is_field(each, method.params[0].name, name) for each in node.targets)
        for method in _methods(cls)
        if method.name != "__init__" and method.params
        for node in walk(method.body, into_functions=False)
    )


def _is_given(cls: Class, name: str) -> bool:
    """Whether ``__init__`` keeps what it was given under a name: an input, perhaps, whose gradient is asked for."""
    for method in (method for method in _methods(cls) if method.name == "__init__" and method.params):
        given = {param.name for param in method.params[1:]}
        for node in walk(method.body, into_functions=False):
            if isinstance(node, ir.Assign) and any(
                _is_field(each, method.params[0].name, name) for each in node.targets
            ):
                return isinstance(node.value, ir.Name) and node.value.id in given
    return False


# --- how the class uses an attribute --------------------------------------------------------------------------------


def reads_of(cls: Class, name: str) -> Iterator[ir.Attribute]:
    """The places outside ``__init__`` that read ``self.name``."""
    for method in _methods(cls):
        if method.name == "__init__" or not method.params:
            continue
        this = method.params[0].name
        for node in walk(method.body, into_functions=True):
            if _is_field(node, this, name):
                assert isinstance(node, ir.Attribute)
                yield node


def _is_menu(cls: Class, name: str) -> bool:
    """Whether only methods that ``__init__`` alone calls read an attribute: it takes from it what it registers."""
    readers, callers = set[str](), dict[str, set[str]]()
    for method in _methods(cls):
        this = method.params[0].name if method.params else ""
        for node in walk(method.body, into_functions=True):
            if _is_field(node, this, name) and method.name != "__init__":
                readers.add(method.name)
            if isinstance(node, ir.Call) and (dotted(node.callee) or "").startswith(f"{this}."):
                callers.setdefault((dotted(node.callee) or "").partition(".")[2], set()).add(method.name)
    return bool(readers) and all(callers.get(reader) == {"__init__"} for reader in readers)


def _stays_behind(cls: Class, name: str, reads: list[ir.Attribute]) -> bool:
    """A tensor made by a factory without a device, never assigned again, and read without being moved or used as an
    index; the class does not move things by itself."""
    if any(method.name in _OWN_WAYS for method in _methods(cls)):
        return False
    if not any(method.name == "forward" for method in _methods(cls)):
        return False
    given = [node.value for node in _assignments(cls, name) if node.value is not None]
    if all(_goes_on(value, "self", name) for value in given):
        return False  # a buffer stays one
    harmless: set[int] = set()
    for method in _methods(cls):
        this = method.params[0].name if method.params else ""
        made = _variables(method)
        for node in walk(method.body, into_functions=True):
            if _sets_anew(node, this, name, method.name == "__init__", made):
                return False
            harmless.update(_harmless(node))
        harmless.update(_moved_later(method))
    return any(id(read) not in harmless for read in reads)


def _moved_later(method: ir.FunctionDef) -> Iterator[int]:
    """Values of a name that is moved afterwards: ``t = self.t if t is None else t``, ``t.to(device)``."""
    moved = {
        node.value.id
        for node in walk(method.body, into_functions=False)
        if isinstance(node, ir.Attribute) and node.attr in {"to", "cuda", "type_as"} and isinstance(node.value, ir.Name)
    }
    for node in walk(method.body, into_functions=False) if moved else ():
        value = node.value if isinstance(node, ir.Assign) else None
        if value is not None and isinstance(node, ir.Assign) and moved & _names(node):
            values = (value.body, value.orelse) if isinstance(value, ir.Conditional) else (value,)
            yield from (id(part) for each in values for part in _chain(each))


def _names(node: ir.Assign) -> set[str]:
    return {target.id for target in node.targets if isinstance(target, ir.Name)}


def _sets_anew(node: object, this: str, name: str, in_init: bool, made: dict[str, list[ir.Expr]] | None = None) -> bool:
    """An assignment that makes the tensor something else than what a factory gave."""
    if isinstance(node, ir.Augment):
        return _is_field(node.target, this, name)
    if isinstance(node, ir.Assign) and any(_is_field(target, this, name) for target in node.targets):
        if not in_init or node.value is None:
            return True
        return not (_goes_on(node.value, this, name) or _is_bare(node.value, made or {}))
    return False


def _goes_on(value: ir.Expr, this: str, name: str) -> bool:
    """``self.queue = normalize(self.queue, dim=0)``: made of what the attribute held, where that was."""
    return any(_is_field(node, this, name) for node in walk((value,), False)) and not _moves(value)


def _harmless(node: object) -> Iterator[int]:
    """Nodes under which a tensor may stay where it is: what is moved, asked for its shape, an index, or
    copied into another tensor."""
    if isinstance(node, ir.Attribute) and node.attr in _MOVES:
        yield from (id(part) for part in _chain(node.value))
    elif isinstance(node, ir.Subscript):
        yield id(node.index)
        if isinstance(node.index, ir.Display):
            yield from (id(item) for item in node.index.items)
    elif isinstance(node, ir.Assign) and node.value is not None and _fills(node):
        yield from (id(part) for part in _chain(node.value))


def _fills(node: ir.Assign) -> bool:
    """``rows[i] = self.mask`` copies, from wherever the tensor is."""
    return all(isinstance(target, ir.Subscript) for target in node.targets)


def _chain(node: ir.Expr) -> Iterator[ir.Expr]:
    """``self.mask[:n].unsqueeze(0)`` down to ``self.mask``."""
    while True:
        yield node
        if isinstance(node, (ir.Attribute, ir.Subscript)):
            node = node.value
        elif isinstance(node, ir.Call):
            node = node.callee
        else:
            return


def _variables(method: ir.FunctionDef) -> dict[str, list[ir.Expr]]:
    """What a method gives its variables."""
    found: dict[str, list[ir.Expr]] = {}
    for node in walk(method.body, into_functions=False):
        if isinstance(node, ir.Assign) and node.value is not None and isinstance(node.targets[0], ir.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return found


def _moves(value: ir.Expr) -> bool:
    """Whether an expression says where its result is."""
    return any(
        (isinstance(node, ir.Arg) and node.keyword == "device")
        or (isinstance(node, ir.Attribute) and node.attr in _MOVES)
        for node in walk((value,), into_functions=False)
    )


def _gives_rows(call: ir.Call) -> bool:
    """``….view(1, 3, 1, 1)``: more than one number."""
    sizes = [arg.value.value for arg in call.args if isinstance(arg.value, ir.Constant)]
    is_view = isinstance(call.callee, ir.Attribute) and call.callee.attr in {"view", "reshape"}
    return is_view and any(isinstance(size, int) and size > 1 for size in sizes)


def _is_bare(value: ir.Expr, variables: dict[str, list[ir.Expr]], depth: int = 3) -> bool:
    """Made of factories only, with no device and nothing that moves it, and more than one number."""
    made = False
    is_shaped = isinstance(value, ir.Call) and _gives_rows(value)
    for node in walk((value,), into_functions=False):
        if isinstance(node, ir.Arg) and (node.keyword == "device" or node.star):
            return False
        if isinstance(node, ir.Attribute) and node.attr in _MOVES | {"weight", "bias", "data"}:
            return False
        if isinstance(node, ir.Call) and last_name(node.callee) == "Parameter":
            return False
        if isinstance(node, ir.Name) and node.id in variables and depth:
            others = {name: values for name, values in variables.items() if name != node.id}
            parts = [each for each in variables[node.id] if each is not value]
            if any(_moves(part) for part in parts):
                return False
            made |= any(_is_bare(part, others, depth - 1) for part in parts)
        if isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute):
            made |= f"torch.{node.callee.attr}" in _FACTORIES
            if node.callee.attr in {"tensor", "as_tensor"} and not is_shaped:
                first = node.args[0].value if node.args else None
                if not isinstance(first, (ir.Display, ir.Comprehension)):
                    return False
    return made
