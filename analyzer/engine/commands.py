"""Functions that are commands (click, typer, fire and their kind): what the command line gives a parameter.

Only a caller that asks for values (the estimator) is told: a rule must hold for every command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from analyzer.engine.trace import Site, Trace, start
from analyzer.engine.values import Const, Func, Scalar, Value, const
from analyzer.records import dataclass, replace
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name

if TYPE_CHECKING:
    from analyzer.engine.machine import Machine
    from analyzer.engine.state import State

ARGV = "<argv>"
"""The path of sites that stand for an argument of the command line; `at` is its index."""
_DECLARING = frozenset({"option", "argument", "Option", "Argument"})
_COMMANDS = frozenset({"command", "group", "callback"})
_TRUE, _FALSE = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})
_KINDS = frozenset({"int", "float", "str", "bool"})


@dataclass(frozen=True, slots=True)
class Option:
    """How a parameter is written on the command line. `names` without any: it is told by its place."""

    names: tuple[str, ...]
    default: ir.Expr | None
    kind: str
    is_flag: bool


def from_words(machine: Machine, func: Func, param: ir.Param, state: State) -> Value | None:
    """The value of a parameter of a command; None where the function is none, or its own default holds."""
    node = func.node
    if not isinstance(node, ir.FunctionDef) or param.kind in ("*", "**"):
        return None
    style = machine.commands.get((func.path, node.at), "")
    if not style and not _is_command(node):
        return None
    option = _option(node, param)
    default = _default(machine, option, state)
    found = _given(machine, option, default)
    if found is None and (style == "fire" or not option.names or _is_required(node, param, style)):
        found = _by_place(machine, node, param, style, option)
    return default if found is None else found


def _is_command(node: ir.FunctionDef) -> bool:
    return any(_last(each) in _COMMANDS | _DECLARING for each in node.decorators)


def _last(expr: ir.Expr) -> str:
    return last_name(expr.callee if isinstance(expr, ir.Call) else expr)


def _option(node: ir.FunctionDef, param: ir.Param) -> Option:
    for each in node.decorators:
        if isinstance(each, ir.Call) and _last(each) in _DECLARING and _dest(each) == param.name:
            return _declared(each, param, _texts(each))
    if isinstance(param.default, ir.Call) and _last(param.default) in _DECLARING:
        names = _texts(param.default)
        return _declared(param.default, param, names or _derived(param.name), is_first_default=True)
    if param.annotation is not None:  # Annotated[int, typer.Option("--batch-size")]
        for call in _calls(param.annotation):
            if _last(call) in _DECLARING:
                found = _declared(call, param, _texts(call) or _derived(param.name))
                return replace(found, default=param.default)
    return Option(
        tuple(_derived(param.name)), param.default, _kind(param, param.default), _is_bool(param, param.default)
    )


def _declared(call: ir.Call, param: ir.Param, names: Sequence[str], *, is_first_default: bool = False) -> Option:
    plain = [arg.value for arg in call.args if arg.keyword is None]
    named = {arg.keyword: arg.value for arg in call.args if arg.keyword}
    value = named.get("default")
    if value is None and is_first_default and plain:
        value = plain[0]
    flag = named.get("is_flag")
    is_flag = isinstance(flag, ir.Constant) and flag.value is True
    given = named.get("type")
    kind = (dotted(given) or "").lower() if given is not None else ""
    is_place = _last(call).lower() == "argument"
    dashed = tuple(part for name in names for part in name.split("/") if part.startswith("-"))
    return Option(
        () if is_place else dashed, value, kind if kind in _KINDS else _kind(param, value),
        is_flag or any("/" in name for name in names) or _is_bool(param, value),
    )  # fmt: skip


def _texts(call: ir.Call) -> list[str]:
    return [
        arg.value.value for arg in call.args
        if arg.keyword is None and isinstance(arg.value, ir.Constant) and isinstance(arg.value.value, str)
    ]  # fmt: skip


def _dest(call: ir.Call) -> str:
    texts = _texts(call)
    plain = [text for text in texts if not text.startswith("-")]
    longest = max((text.partition("/")[0] for text in texts), key=len, default="")
    return (plain[0] if plain else longest.lstrip("-")).replace("-", "_").lower()


def _derived(name: str) -> list[str]:
    return list(dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")))


def _calls(expr: ir.Expr) -> Iterator[ir.Call]:
    if isinstance(expr, ir.Call):
        yield expr
    elif isinstance(expr, ir.Subscript):
        yield from _calls(expr.index)
    elif isinstance(expr, ir.Display):
        for each in expr.items:
            yield from _calls(each)


def _kind(param: ir.Param, default: ir.Expr | None) -> str:
    annotation = param.annotation
    if isinstance(annotation, ir.Name) and annotation.id in _KINDS:
        return annotation.id
    if isinstance(default, ir.Constant) and type(default.value).__name__ in _KINDS:
        return type(default.value).__name__
    return ""


def _is_bool(param: ir.Param, default: ir.Expr | None) -> bool:
    return _kind(param, default) == "bool"


def _is_required(node: ir.FunctionDef, param: ir.Param, style: str) -> bool:
    return style == "typer" and param.default is None


def _default(machine: Machine, option: Option, state: State) -> Value | None:
    if option.default is None or (isinstance(option.default, ir.Constant) and option.default.value is ...):
        return None
    value = machine.evaluate(option.default, state)
    name = option.names[-1] if option.names else "argument"
    if isinstance(value, Const):
        return const(value.value, start(machine.site(option.default.at), f"{name}, default {value.value!r}"))
    return value


def _given(machine: Machine, option: Option, default: Value | None) -> Value | None:
    found: Value | None = None
    for index, (word, _) in enumerate(machine.argv):
        name, has_value, text = word.partition("=")
        short = next((each for each in option.names if len(each) == 2 and word.startswith(each)), None)
        following = machine.argv[index + 1][0] if index + 1 < len(machine.argv) else ""
        trace = start(Site(ARGV, index), word)
        if option.is_flag and f"--{name.removeprefix('--no-')}" in option.names and name.startswith("--no"):
            found = const(False, trace)
        elif name in option.names and option.is_flag and not has_value:
            found = const(following.lower() not in _FALSE, trace)
        elif name in option.names:
            found = _read(option.kind, text if has_value else following, trace, default)
        elif short is not None and len(word) > 2 and not has_value and not option.is_flag:
            found = _read(option.kind, word[2:], trace, default)
    return found


def _by_place(machine: Machine, node: ir.FunctionDef, param: ir.Param, style: str, option: Option) -> Value | None:
    """The words that belong to no option, in the order of the parameters that take one."""
    words: list[int] = []
    is_taken = False
    for index, (word, _) in enumerate(machine.argv):
        if word.startswith("-") and len(word) > 1:
            is_taken = "=" not in word and not _is_flag(node, word)
        elif is_taken:
            is_taken = False
        else:
            words.append(index)
    takers = [each.name for each in node.params if style == "fire" or not _option(node, each).names
              or _is_required(node, each, style)]  # fmt: skip
    place = takers.index(param.name) if param.name in takers else len(words)
    if place >= len(words):
        return None
    return _read(option.kind, machine.argv[words[place]][0], start(Site(ARGV, words[place]), "an argument"), None)


def _is_flag(node: ir.FunctionDef, word: str) -> bool:
    options = [_option(node, each) for each in node.params]
    return any(each.is_flag and (word in each.names or word.startswith("--no-")) for each in options)


def _read(kind: str, text: str, trace: Trace, default: Value | None) -> Value:
    overrides = (default,) if isinstance(default, Const) else ()
    try:
        if kind == "bool":
            return const(text.lower() in _TRUE, trace, overrides)
        value = {"int": int, "float": float, "str": str}.get(kind, plain)(text)
    except ValueError:
        return Scalar(trace=trace)
    return const(value, trace, overrides)


def plain(text: str) -> int | float | bool | str:
    """A word as what it looks like."""
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
