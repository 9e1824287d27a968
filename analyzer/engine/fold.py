"""Constants: arithmetic, comparisons and text over known values. Anything that fails to fold is a scalar."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "is": lambda a, b: a is b, "is not": lambda a, b: a is not b,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg, "+": operator.pos, "not": operator.not_, "~": operator.invert,
}  # fmt: skip
_LIMIT = 1 << 64
MAX_TEXT = 10_000


class NotConstant(Exception):
    """The operation has no constant result."""


def binary(op: str, left: object, right: object) -> object:
    """Fold one operation; results stay small, whatever a hostile file writes (``9**9**9``, ``"a" * 10**9``)."""
    try:
        if op == "**":
            result = _power(left, right)
        elif op == "%" and isinstance(left, str):
            result = _percent(left, right)
        elif op == "<<" or (op in "*%" and not (_is_number(left) and _is_number(right))):  # ``"%999999999d" % 1``
            raise NotConstant
        else:
            result = _BINARY[op](left, right)
    except NotConstant:
        raise
    except Exception as error:
        raise NotConstant from error
    return _small(result)


def unary(op: str, value: object) -> object:
    """Fold one unary operation."""
    try:
        return _small(_UNARY[op](value))
    except Exception as error:
        raise NotConstant from error


_TEXT_METHODS = frozenset(
    [
        "lower", "upper", "strip", "lstrip", "rstrip", "title", "capitalize", "removeprefix", "removesuffix",
        "startswith", "endswith", "isdigit",
    ]
)  # fmt: skip
"""Their results are no longer than what they are called on."""


_FIELD = re.compile(r"\{\w{0,40}(?::0?\d{0,2}d?)?\}")
_PERCENT = re.compile(r"%0?\d{0,2}[dis]")
"""What is filled in as it is, or to at most 99 places: a file may ask for a billion."""


def formatted(template: str, args: tuple[object, ...], keywords: Mapping[str, object]) -> object:
    """``template.format(...)`` of plain values."""
    values = (*args, *keywords.values())
    if set("{}") & set(_FIELD.sub("", template)) or not all(map(_is_plain, values)):
        raise NotConstant
    try:
        return _small(template.format(*args, **keywords))
    except Exception as error:
        raise NotConstant from error


def _percent(template: str, given: object) -> object:
    values = given if isinstance(given, tuple) else (given,)
    if "%" in _PERCENT.sub("", template) or not all(map(_is_plain, values)):
        raise NotConstant
    return template % given


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float)) and _small(value) is value


def method(value: object, name: str, args: tuple[object, ...]) -> object:
    """Fold a method of a text."""
    if isinstance(value, str) and name == "format":
        return formatted(value, args, {})
    if not isinstance(value, str) or name not in _TEXT_METHODS:
        raise NotConstant
    try:
        return _small(getattr(value, name)(*args))
    except Exception as error:
        raise NotConstant from error


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _power(left: object, right: object) -> object:
    if isinstance(left, (int, float)) and isinstance(right, (int, float)) and abs(left) <= 1024 and abs(right) <= 64:
        return left**right
    raise NotConstant


def _small(value: object) -> object:
    if isinstance(value, int) and abs(value) > _LIMIT:
        raise NotConstant
    if isinstance(value, (str, bytes)) and len(value) > MAX_TEXT:
        raise NotConstant
    return value
