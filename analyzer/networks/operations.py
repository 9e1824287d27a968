"""What library functions make of shapes, and what autograd keeps for them.

A function takes the tape, the arguments and the keywords, and gives a `Tensor`, several, or a number. A shape that
cannot be raises `Stuck`: then the input was another one, or the text is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import TypeVar

from analyzer.networks import strides
from analyzer.networks.tape import Tape
from analyzer.networks.values import Missing, Stuck, Tensor
from analyzer.toml import parse_toml

Operation = Callable[..., object]
F = TypeVar("F", bound=Operation)
OPERATIONS: dict[str, Operation] = {}
MAX_ELEMENTS = 1 << 44


def operation(*names: str) -> Callable[[F], F]:
    """Register a function under the last part of the names it has in torch."""

    def register(function: F) -> F:
        for name in names:
            OPERATIONS[name] = function
        return function

    return register


@lru_cache(maxsize=1)
def _table() -> Mapping[str, frozenset[str]]:
    text = (resources.files("analyzer.networks") / "operations.toml").read_text("utf-8")
    return {kind: frozenset(names) for kind, names in parse_toml(text)["elementwise"].items()}


def find(name: str) -> Operation | None:
    """The operation that a qualified name or a method of a tensor means."""
    last = name.rpartition(".")[2]
    if last in OPERATIONS:
        return OPERATIONS[last]
    table = _table()
    if any(last in table[kind] for kind in ("result", "input", "nothing")):
        return lambda tape, *args, **keywords: _elementwise(tape, last, args, keywords)
    return None


def tensor(value: object) -> Tensor:
    """The value as a tensor. Raises `Stuck` for anything else."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Missing):
        raise Stuck(value.reason)
    raise Stuck("a tensor is expected here")


_COPIES = frozenset({"contiguous", "clone"})


def number(value: object) -> int:
    """The value as a whole number. Raises `Stuck`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise Stuck(value.reason if isinstance(value, Missing) else "a whole number is expected here")
    return int(value)


def numbers(values: Sequence[object]) -> tuple[int, ...]:
    """Sizes or dimensions given one by one or as one sequence."""
    if len(values) == 1 and isinstance(values[0], (list, tuple)):
        values = values[0]
    return tuple(number(value) for value in values)


def _elementwise(tape: Tape, name: str, args: Sequence[object], keywords: Mapping[str, object]) -> object:
    table = _table()
    given = tensor(args[0] if args else keywords.get("input"))
    is_in_place = name in table["in_place"] or keywords.get("inplace") is True
    is_full = True if name in table["full"] else False if name in table["half"] else None
    if name in ("to", "type", "type_as"):
        is_full = _said_type(args[1:], keywords, given)
    if name in table["nothing"]:
        return _unkept(tape, name, given, is_full)
    keeps_result = name in table["result"] or (is_in_place and name in table["result_in_place"])
    if name in table["input"] and given.needs_grad and not keeps_result:
        (tape.widened if name in table["full"] else tape.keep)(given)
    if is_in_place and (keeps_result or name not in table["input"]):
        made = given
    else:  # an operation in place whose backward needs what was there keeps a copy of it
        made = tape.result(given.shape, [given], given.dtype, is_full=is_full)
        made.strides = given.strides if strides.is_dense(given.shape, given.strides) else None
    if keeps_result and given.needs_grad:
        tape.keep(made)
    return made


def _unkept(tape: Tape, name: str, given: Tensor, is_full: bool | None) -> Tensor:
    table = _table()
    dtype = "int" if name in table["whole"] else "bool" if name in table["truth"] else given.dtype
    if name in table["cut"] or dtype != "float":
        return Tensor(given.shape, dtype, is_full=given.is_full, kept=given.kept if name == "detach" else set())
    if name in _COPIES:
        if name == "contiguous" and given.strides is None:
            return given
        return tape.result(given.shape, [given], given.dtype)
    if is_full is None or is_full == given.is_full:
        return tape.view(given, given.shape, given.strides)
    return tape.result(given.shape, [given], given.dtype, is_full=is_full)


def _said_type(args: Sequence[object], keywords: Mapping[str, object], given: Tensor) -> bool | None:
    for value in (*args, *keywords.values()):
        name = getattr(value, "name", "")
        if name in ("torch.float32", "torch.float", "torch.float64", "torch.double"):
            return True
        if name in ("torch.float16", "torch.half", "torch.bfloat16"):
            return False
        if isinstance(value, Tensor):
            return value.is_full
    return given.is_full
