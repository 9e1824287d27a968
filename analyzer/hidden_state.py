"""Classes that may hide layers or parameters in plain attributes, by their text alone: what PF212 asks of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from analyzer.syntax import ir
from analyzer.syntax.scope import SAME_OBJECT, dotted, last_name, of_type, target_names, target_values, walk

FACTORIES = frozenset({
    "ones", "zeros", "arange", "linspace", "eye", "randn", "rand", "full", "from_numpy", "tril", "triu", "tensor",
    "as_tensor", "logspace", "Tensor", "FloatTensor", "LongTensor",
})  # fmt: skip

_PLAIN = frozenset(
    {"len", "int", "float", "bool", "str", "max", "min", "sum", "round", "abs", "getattr", "isinstance", "get"}
)

_OTHERS = frozenset({"re", "math", "os", "json", "logging", "time"})

_FILLS = frozenset({"append", "extend", "insert", "add", "update", "setdefault"})

_NO_LAYERS = frozenset({"Parameter", "Tensor", "FloatTensor", "LongTensor"})

_NO_MODULES = frozenset({"ABC", "abc.ABC", "object", "dict", "list", "str", "int", "Enum", "Exception"})

_TEXTS = frozenset({"lower", "upper", "strip", "split", "get", "pop", "replace", "format", "join"})

_NUMBERS = frozenset({"tolist", "item", "size", "numel", "dim"})

_KEPT = frozenset({"list", "tuple", "set", "sorted", "frozenset", "dict"})

_REGISTERED = frozenset({"ModuleList", "ModuleDict", "Sequential", "ParameterList", "ParameterDict", "Parameter"})

Made = Mapping[str, "list[ir.Expr | None]"]


def called_in(block: Iterable[object]) -> Iterator[str]:
    """The last names of what is called."""
    for node in walk(tuple(block), into_functions=False):
        if isinstance(node, ir.Call):
            yield last_name(node.callee)


def hiding(unit: ir.Unit) -> Iterator[tuple[ir.ClassDef, frozenset[str]]]:
    """The classes that may be modules and hide something, with the attributes."""
    classes = {cls.name: cls for cls in of_type(unit, ir.ClassDef)}
    functions = (each for each in unit.body if isinstance(each, ir.FunctionDef))
    numbers = frozenset(each.name for each in functions if classes and _makes_nothing(each))
    for cls in of_type(unit, ir.ClassDef):
        names = frozenset(hidden(cls, numbers)) if _may_be_module(cls, classes, 10) else frozenset()
        if names:
            yield cls, names


def _may_be_module(cls: ir.ClassDef, classes: Mapping[str, ir.ClassDef], depth: int) -> bool:
    """Whether a class inherits from anything but classes of its file that inherit from nothing."""
    for base in cls.bases:
        other = classes.get(base.value.id) if isinstance(base.value, ir.Name) else None
        is_plain = not base.keyword and dotted(base.value) in _NO_MODULES
        if not is_plain and (other is None or other is cls or depth == 0 or _may_be_module(other, classes, depth - 1)):
            return True
    return False


def _makes_nothing(function: ir.FunctionDef) -> bool:
    """Whether a function calls nothing that makes a layer or a tensor, or may lead to what does."""
    names = (name for name, how in function.uses.items() if "()" in how)
    is_plain = all(name in _PLAIN or name.partition(".")[0] in _OTHERS for name in names)
    return is_plain and not any(
        isinstance(node, ir.Call) and dotted(node.callee) is None for node in walk(function.body, into_functions=True)
    )


def hidden(cls: ir.ClassDef, numbers: frozenset[str] = frozenset()) -> Iterator[str]:
    """The attributes in which a class may keep layers, parameters or tensors where a module does not see them.
    `numbers`: functions that give neither."""
    methods = {each.name: each for each in cls.body if isinstance(each, ir.FunctionDef)}
    init = methods.get("__init__")
    if init is None or not cls.bases or not init.params:
        return
    this = init.params[0].name
    building = (init, *(methods[name] for name in _own_calls(init, this) if name in methods))
    called = _called_attributes(cls)
    for method in building:
        yield from (name for name in _kept(method, building, numbers) if name not in called)


def _called_attributes(cls: ir.ClassDef) -> frozenset[str]:
    """The attributes of its object that a class calls (``self.act(x)``): no list, and no tensor."""
    found: set[str] = set()
    for method in cls.body:
        if isinstance(method, ir.FunctionDef) and method.params:
            this = method.params[0].name
            names = (name.split(".") for name, how in method.uses.items() if "()" in how)
            found.update(
                parts[1]
                for parts in names
                if parts[0] == this and (len(parts) == 2 or (len(parts) == 3 and parts[2].startswith("forward")))
            )
    return frozenset(found)


def _own_calls(function: ir.FunctionDef, this: str) -> list[str]:
    """The methods of its own object that a function calls."""
    return [name[len(this) + 1 :] for name, how in function.uses.items() if "()" in how and name.startswith(f"{this}.")]


def _kept(method: ir.FunctionDef, building: tuple[ir.FunctionDef, ...], numbers: frozenset[str]) -> Iterator[str]:
    """The attributes that are given anything but a layer, a setting or a number that are plain to see."""
    assigns = [node for node in walk(method.body, into_functions=False) if isinstance(node, ir.Assign)]
    made = _locals(assigns)
    for node in assigns:
        for target in node.targets:
            if isinstance(target, ir.Name) or node.value is None or _is_plain(node.value, made):
                continue
            if isinstance(node.value, ir.Call) and dotted(node.value.callee) in numbers:
                continue
            if (
                isinstance(target, ir.Display)
                and isinstance(node.value, ir.Call)
                and last_name(node.value.callee) in made
            ):
                continue  # ``a, self.b = function(…)`` of what a variable holds: nobody sees what is in it
            if not (
                _is_empty(node.value, made) and isinstance(target, ir.Attribute) and not _is_filled(building, target)
            ):
                yield from _attributes(target)


def _locals(assigns: list[ir.Assign]) -> Made:
    """What the variables of a function are given; None for what cannot be said."""
    made: dict[str, list[ir.Expr | None]] = {}
    for node in assigns:
        for target in node.targets:
            if isinstance(target, ir.Name):
                made.setdefault(target.id, []).append(node.value)
            elif isinstance(target, ir.Display) and isinstance(node.value, ir.Display):
                for part, value in target_values(node):
                    for name in target_names(part):
                        made.setdefault(name, []).append(value if isinstance(part, ir.Name) else None)
            elif isinstance(target, ir.Display):
                for name in target_names(target):
                    made.setdefault(name, []).append(None)
            elif isinstance(target, ir.Subscript) and isinstance(target.value, ir.Name):
                made.setdefault(target.value.id, []).append(None)
    return made


def _attributes(target: ir.Expr) -> list[str]:
    """The names of the attributes that an assignment sets, or sets something in: none where it sets variables."""
    return [node.attr for node in walk((target,), into_functions=False) if isinstance(node, ir.Attribute)]


def _is_empty(value: ir.Expr, made: Made) -> bool:
    """``[]``, ``names or []``, ``{} if table is None else table``."""
    parts: tuple[ir.Expr, ...] = (value,)
    if isinstance(value, ir.Conditional):
        parts = (value.body, value.orelse)
    elif isinstance(value, ir.Operation) and value.op == "or" and value.right is not None:
        parts = (value.left, value.right)
    bare = [isinstance(part, (ir.Display, ir.DictDisplay)) and not part.items for part in parts]
    return any(bare) and all(is_bare or _is_plain(part, made) for is_bare, part in zip(bare, parts, strict=True))


def _is_filled(building: tuple[ir.FunctionDef, ...], target: ir.Attribute) -> bool:
    """Whether something but numbers, texts and what was given is put into an attribute that begins empty, while the
    instance is built."""
    name = dotted(target) or ""
    for method in building:
        if any(use.partition("(")[0] in _FILLS for use in method.uses.get(name, ())):
            return True
        assigns = [node for node in walk(method.body, into_functions=False) if isinstance(node, ir.Assign)]
        made = _locals(assigns)
        for node in assigns:
            items = [each for each in node.targets if isinstance(each, ir.Subscript) and dotted(each.value) == name]
            is_plain = node.value is not None and _is_plain(node.value, made) and not _is_made(node.value)
            if items and (not is_plain or _names_made(node.value, made)):
                return True
    return False


def _names_made(value: ir.Expr | None, made: Made) -> bool:
    """Whether a variable that was given what a call makes is a part of an expression."""
    names = (node.id for node in walk((value,), into_functions=False) if isinstance(node, ir.Name))
    return any(isinstance(given, ir.Call) for name in names for given in made.get(name, ()))


def _is_plain(value: ir.Expr | None, made: Made) -> bool:
    if value is None or isinstance(value, (ir.Constant, ir.Attribute, ir.Lambda, ir.Joined)):
        return True
    if isinstance(value, ir.Name):
        others = {name: given for name, given in made.items() if name != value.id}
        return all(given is not None and _is_plain(given, others) for given in made.get(value.id, ()))
    if isinstance(value, ir.Call):
        return _is_plain_call(value) or _is_plain_copy(value, made)
    if isinstance(value, ir.Comprehension):
        return _is_plain_list(value, made)
    if isinstance(value, ir.Operation):
        return _is_plain(value.left, made) and _is_plain(value.right, made) and not _makes(value)
    if isinstance(value, ir.Conditional):
        return _is_plain(value.body, made) and _is_plain(value.orelse, made)
    if isinstance(value, ir.Subscript):
        return isinstance(value.value, (ir.Name, ir.Attribute, ir.Subscript))
    if isinstance(value, ir.Display) and value.items:
        return all(_is_plain(item, made) and not _is_made(item) for item in value.items)
    if isinstance(value, ir.DictDisplay) and value.items:
        return all(_is_plain(item, made) and not isinstance(item, ir.Call) for _, item in value.items)
    return False


def _is_plain_call(call: ir.Call) -> bool:
    """``nn.Linear(…)``, ``AutoModel.from_config(…)``, ``len(…)``: one layer, or a number."""
    name, callee = last_name(call.callee), call.callee
    if name in _REGISTERED or name in _PLAIN or (dotted(callee) or "").partition(".")[0] in _OTHERS:
        return True
    if (
        isinstance(callee, ir.Attribute)
        and name.lstrip("_").startswith("from_")
        and last_name(callee.value)[:1].isupper()
    ):
        return True
    return name[:1].isupper() and name not in FACTORIES and name != "OrderedDict"


def _is_made(item: ir.Expr) -> bool:
    """Whether an item of a list is made here, and no number."""
    return isinstance(item, ir.Call) and not (isinstance(item.callee, ir.Name) and item.callee.id in _PLAIN)


def _is_plain_copy(call: ir.Call, made: Made) -> bool:
    """``list(config.sizes)``, ``name.lower()``, ``Layer(…).to(device)``, ``LAYERS[kind](…)``."""
    callee = call.callee
    if isinstance(callee, ir.Name):
        return callee.id in _KEPT and all(not arg.star and _holds_nothing(arg.value, made) for arg in call.args)
    if isinstance(callee, ir.Subscript):
        return (dotted(callee.value) or "a").rpartition(".")[2].isupper()
    if isinstance(callee, ir.Attribute) and callee.attr in SAME_OBJECT and isinstance(callee.value, ir.Call):
        name = last_name(callee.value.callee)
        return name[:1].isupper() and name not in _NO_LAYERS and _is_plain_call(callee.value)
    if isinstance(callee, ir.Attribute) and callee.attr in _NUMBERS:
        return True
    return (
        isinstance(callee, ir.Attribute) and callee.attr in _TEXTS and isinstance(callee.value, (ir.Name, ir.Constant))
    )


def _holds_nothing(value: ir.Expr, made: Made) -> bool:
    """Whether a list of this holds what was given, or numbers."""
    if isinstance(value, ir.Call):
        return (
            isinstance(value.callee, ir.Name)
            and (value.callee.id in _KEPT | _PLAIN | {"range"})
            and all(not arg.star and _holds_nothing(arg.value, made) for arg in value.args)
        )
    if isinstance(value, ir.Comprehension):
        return _is_plain_list(value, made)
    return not isinstance(value, ir.Display) and _is_plain(value, made) and not _makes(value)


def _is_plain_list(value: ir.Comprehension, made: Made) -> bool:
    """``[size * 2 for size in config.sizes]``: no call in it makes anything."""
    calls = (node for node in walk((value,), into_functions=False) if isinstance(node, ir.Call))
    names = {node.id for clause in value.clauses for node in walk((clause.iter,), False) if isinstance(node, ir.Name)}
    is_given = all(_is_plain(ir.Name(value.at, name), made) and not made.get(name) for name in names)
    return is_given and all(
        last_name(call.callee) in _PLAIN | _TEXTS | _NUMBERS | {"range", "items", "keys", "enumerate", "zip"}
        for call in calls
    )


def _makes(value: ir.Expr) -> bool:
    """``nn.Parameter(x) * 2`` is no parameter."""
    return any(name[:1].isupper() for name in called_in((value,)))
