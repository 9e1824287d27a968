"""Python's own functions, and the parts of its library that constructors call, over known values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from analyzer.engine import fold
from analyzer.networks.sizes import is_small
from analyzer.networks.values import Class, External, Instance, Missing, Space, Tensor
from analyzer.networks.world import MISSING, lineage

MAX_ITEMS = 4096
MAX_LENGTH = 1 << 16
_MAX_DIGITS = 20
_NAMES = frozenset(
    [
        "range",
        "len",
        "int",
        "float",
        "str",
        "bool",
        "list",
        "tuple",
        "dict",
        "set",
        "zip",
        "enumerate",
        "max",
        "min",
        "sum",
        "abs",
        "round",
        "sorted",
        "reversed",
        "any",
        "all",
        "isinstance",
        "hasattr",
        "getattr",
        "setattr",
        "super",
        "print",
        "map",
        "filter",
        "type",
        "callable",
        "iter",
        "next",
        "divmod",
        "pow",
        "id",
        "vars",
        "issubclass",
        "slice",
        "object",
        "property",
        "staticmethod",
        "classmethod",
        "ValueError",
        "NotImplementedError",
        "TypeError",
        "RuntimeError",
        "AssertionError",
        "KeyError",
        "Exception",
        "ImportError",
        "AttributeError",
        "IndexError",
        "NotImplemented",
        "repr",
    ]
)
_CONSTANTS: dict[str, object] = {"math.pi": math.pi, "math.inf": math.inf, "math.e": math.e, "torch.pi": math.pi}


def builtin(name: str) -> object:
    """A builtin by its name; `MISSING` where Python has none of that name that is known here."""
    if name in ("__name__", "__file__"):
        return name
    return External(name) if name in _NAMES else MISSING


def constant(name: str) -> object:
    """A number of the library (``math.pi``), or `MISSING`."""
    return _CONSTANTS.get(name, MISSING)


def named_children(container: Instance) -> dict[object, object]:
    """The children of a ``ModuleDict`` by name."""
    items = container.items or ()
    return {name: child for name, child in container.fields.items() if any(child is item for item in items)}


def sliced(container: Instance, index: slice) -> object:
    """A part of a container of modules is a container of the same class."""
    assert container.items is not None
    try:
        items = container.items[index]
    except (TypeError, ValueError):
        return MISSING
    return Instance(container.cls, {str(i): item for i, item in enumerate(items)}, True, items)


Known = Callable[[list[Any], dict[str, Any]], object]


def _range(args: list[Any], _: dict[str, Any]) -> object:
    counted = range(*args)
    return counted if len(counted) <= MAX_ITEMS else Missing("a very long range")


def _len(args: list[Any], _: dict[str, Any]) -> object:
    value = args[0]
    if isinstance(value, Instance) and value.items is not None:
        return len(value.items)
    if isinstance(value, Tensor):
        return value.shape[0]
    return len(value.fields) if isinstance(value, Space) else len(value)


def _isinstance(args: list[Any], _: dict[str, Any]) -> object:
    value, kinds = args
    found = [_is_a(value, kind) for kind in (kinds if isinstance(kinds, (tuple, list)) else [kinds])]
    if True in found:
        return True
    return Missing("whether a value is of a class") if None in found else False


_MANY: tuple[type, ...] = (list, tuple, dict, set, str, range)
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (float,), "str": (str,), "bool": (bool,), "list": (list,), "tuple": (tuple,),
    "dict": (dict,), "set": (set,), "collections.abc.Iterable": _MANY, "typing.Iterable": _MANY,
    "collections.abc.Sequence": (list, tuple, str, range), "typing.Sequence": (list, tuple, str, range),
    "numbers.Number": (int, float), "numbers.Integral": (int,), "torch.Tensor": (Tensor,),
    "collections.OrderedDict": (dict,), "typing.List": (list,), "typing.Tuple": (tuple,),
}  # fmt: skip


def _is_a(value: object, kind: object) -> bool | None:
    if isinstance(kind, External):
        if kind.name in _TYPES:
            return isinstance(value, _TYPES[kind.name])
        if isinstance(value, Instance):
            return any(isinstance(base, External) and base.name == kind.name for base in lineage(value.cls)) or any(
                isinstance(base, Class) and base.name == kind.name for base in lineage(value.cls)
            )
        return False if value is None or isinstance(value, (int, str, float, list, tuple, dict, Tensor)) else None
    if isinstance(kind, Class):
        return isinstance(value, Instance) and any(
            base is kind or (isinstance(base, Class) and base.node is kind.node) for base in lineage(value.cls)
        )
    return None


def _int(args: list[Any], _: dict[str, Any]) -> object:
    if isinstance(args[0], Tensor):
        return Missing("a number computed when the program runs")
    return int(args[0])


def _reversed(args: list[Any], _: dict[str, Any]) -> object:
    value = args[0]
    return list(value.items)[::-1] if isinstance(value, Instance) and value.items is not None else list(value)[::-1]


def _round(args: list[Any], _: dict[str, Any]) -> object:
    if len(args) > 1 and abs(args[1]) > _MAX_DIGITS:
        raise ValueError
    return round(*args)


def _numbers(values: Any) -> list[Any]:
    """Numbers alone: lists would be added up, and multiplied, to any length."""
    found = list(values)
    if not all(isinstance(each, (int, float)) for each in found):
        raise TypeError
    return found


def _dict(args: list[Any], keywords: dict[str, Any]) -> object:
    made: dict[object, object] = {}
    if args:
        made.update(args[0])
    made.update(keywords)
    return made


def _enumerate(args: list[Any], keywords: dict[str, Any]) -> object:
    items: Any = args[0].items if isinstance(args[0], Instance) else args[0]
    return list(enumerate(items, *(args[1:] or [keywords.get("start", 0)])))


def _zip(args: list[Any], _: dict[str, Any]) -> object:
    return list(zip(*(each.items if isinstance(each, Instance) else each for each in args), strict=False))


FUNCTIONS: dict[str, Known] = {
    "range": _range, "len": _len, "isinstance": _isinstance, "int": _int, "reversed": _reversed, "dict": _dict,
    "round": _round, "enumerate": _enumerate, "zip": _zip, "collections.OrderedDict": _dict, "numpy.arange": _range,
    "float": lambda a, k: float(a[0]), "str": lambda a, k: str(a[0])[:1000], "bool": lambda a, k: bool(a[0]),
    "list": lambda a, k: list(a[0]) if a else [], "tuple": lambda a, k: tuple(a[0]) if a else (),
    "set": lambda a, k: list(dict.fromkeys(a[0])) if a else [],
    "max": lambda a, k: max(*a) if len(a) > 1 else max(a[0]),
    "min": lambda a, k: min(*a) if len(a) > 1 else min(a[0]),
    "sum": lambda a, k: sum(_numbers(a[0]), *_numbers(a[1:])), "abs": lambda a, k: abs(a[0]),
    "sorted": lambda a, k: sorted(a[0]), "any": lambda a, k: any(a[0]), "all": lambda a, k: all(a[0]),
    "divmod": lambda a, k: (a[0] // a[1], a[0] % a[1]), "print": lambda a, k: None, "slice": lambda a, k: slice(*a),
    "callable": lambda a, k: not isinstance(a[0], (int, str, float)), "repr": lambda a, k: str(a[0])[:1000],
    "id": lambda a, k: id(a[0]), "math.sqrt": lambda a, k: math.sqrt(a[0]), "math.ceil": lambda a, k: math.ceil(a[0]),
    "math.floor": lambda a, k: math.floor(a[0]), "math.log2": lambda a, k: math.log2(a[0]),
    "math.log": lambda a, k: math.log(*a), "math.prod": lambda a, k: math.prod(a[0]),
    "math.exp": lambda a, k: math.exp(a[0]), "math.gcd": lambda a, k: math.gcd(*a),
    "numpy.prod": lambda a, k: math.prod(a[0]), "numpy.sqrt": lambda a, k: math.sqrt(a[0]),
    "numpy.log2": lambda a, k: math.log2(a[0]), "numpy.ceil": lambda a, k: math.ceil(a[0]),
    "numpy.floor": lambda a, k: math.floor(a[0]), "numpy.log": lambda a, k: math.log(a[0]),
    "numpy.sum": lambda a, k: sum(a[0]), "numpy.linspace": lambda a, k: _linspace(*a),
    "numpy.cumsum": lambda a, k: list(itertools.accumulate(_numbers(a[0]))), "numpy.array": lambda a, k: a[0],
    "itertools.product": lambda a, k: list(itertools.islice(itertools.product(*a), MAX_ITEMS + 1)),
    "itertools.chain": lambda a, k: [each for part in a for each in part],
    "operator.mul": lambda a, k: math.prod(_numbers(a)),
    "copy.copy": lambda a, k: a[0], "torch.device": lambda a, k: External("torch.device"),
    "torch.cuda.is_available": lambda a, k: True,
}  # fmt: skip


def _linspace(start: float, end: float, count: int = 50, *_: object) -> list[float]:
    if not 0 < count <= MAX_ITEMS:
        raise ValueError
    return [start + (end - start) * i / max(count - 1, 1) for i in range(count)]


def bounded(value: object) -> object:
    """A value that does not outgrow what any network needs, whatever a hostile text doubles."""
    if isinstance(value, (list, tuple, dict, str)) and len(value) > MAX_LENGTH:
        return Missing("a very long value")
    return Missing("a very large number") if isinstance(value, int) and abs(value) > 1 << 64 else value


def known_call(name: str, args: list[object], keywords: dict[str, object]) -> object:
    """The result of a function of Python's library; `MISSING` for one that is not known here."""
    function = FUNCTIONS.get(name)
    if function is None:
        return MISSING
    gap = next((each for each in (*args, *keywords.values()) if isinstance(each, Missing)), None)
    if gap is not None:
        return None if name == "print" else gap
    if not is_small(args, keywords):
        return Missing(f"`{name}` of very much")
    try:
        return bounded(function(args, keywords))
    except Exception:  # noqa: BLE001  whatever the program would do there, its value is not in the text
        return Missing(f"`{name}` of such values")


_LIST = frozenset(["append", "extend", "insert", "pop", "index", "count", "copy", "reverse", "clear", "remove", "sort"])
_DICT = frozenset(["get", "items", "keys", "values", "update", "pop", "setdefault", "copy"])
_STR = frozenset(
    [
        "lower",
        "upper",
        "split",
        "strip",
        "startswith",
        "endswith",
        "isdigit",
        "rsplit",
        "lstrip",
        "rstrip",
        "find",
        "partition",
        "rpartition",
        "removeprefix",
        "removesuffix",
    ]
)
_NUMBER = frozenset(["bit_length", "is_integer", "real"])


_GROWING = frozenset(["append", "extend", "insert", "update", "setdefault"])


def _formatted(template: str) -> Callable[..., object]:
    def call(*args: object, **keywords: object) -> object:
        try:
            return fold.formatted(template, args, keywords)
        except fold.NotConstant:
            return Missing("a text that is put together")

    return call


def method(value: object, name: str) -> object:
    """A method of a list, dict or string; `MISSING` for another."""
    if isinstance(value, str) and name == "format":
        return _formatted(value)
    kinds = ((list, _LIST), (tuple, _LIST), (dict, _DICT), (str, _STR), (int, _NUMBER), (float, _NUMBER))
    if not any(isinstance(value, kind) and name in names for kind, names in kinds) or not hasattr(value, name):
        return MISSING
    found = getattr(value, name)
    if not callable(found):
        return found

    def call(*args: Any, **keywords: Any) -> object:
        """Asked when it is called: what holds little when a method is looked up may hold much by then."""
        if name not in ("append", "get") and not is_small(value, args, keywords):
            return Missing(f"`.{name}()` of very much")
        if name in _GROWING and isinstance(value, (list, dict)) and len(value) > MAX_LENGTH:
            return Missing("a very long value")
        return found(*args, **keywords)

    return call
