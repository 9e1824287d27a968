"""Command lines made of functions and classes (fire, typer, tyro, jsonargparse), and absl's flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.values import Class, Const, External, Func, Ref, Scalar, Value, const, union
from analyzer.knowledge.overlays.arguments import from_command_line, given_option

FLAGS = "absl.flags.FLAGS"
_TYPES = {
    "DEFINE_integer": "builtins.int", "DEFINE_float": "builtins.float", "DEFINE_string": "", "DEFINE_enum": "",
    "DEFINE_bool": "bool", "DEFINE_boolean": "bool",
}  # fmt: skip


def _runs(style: str) -> Callable[..., Value]:
    def run(machine: Calls, args: Args, at: int, state: State) -> Value:
        """Calls what it is given with what the command line says."""
        target = args.at(0) or args.keywords.get("component") or args.keywords.get("components")
        results: list[Value] = []
        for case in target.cases if target is not None else ():
            if isinstance(case, Func):
                machine.commands[(case.path, case.node.at)] = style
                results.append(machine.call(case, Args(), at, state))
            elif isinstance(case, Class):
                made = from_command_line(machine, case, at, state)
                _call_named(machine, made, at, state)
                results.append(made)
        return union(results) if results else Scalar()

    return run


def _call_named(machine: Calls, made: Value, at: int, state: State) -> None:
    """``fire.Fire(Trainer)`` with the word ``train``: that method."""
    for word, _ in machine.argv[:1]:
        for case in made.cases if word.isidentifier() else ():
            if isinstance(case, Ref) and machine.obj(case).cls is not None:
                machine.call(machine.attribute_of(case, word, at, state), Args(), at, state)


def _flag(kind: str) -> Callable[..., Value]:
    def define(machine: Calls, args: Args, at: int, state: State) -> Value:
        """``flags.DEFINE_integer(name, default, help)``."""
        name = args.at(0, "name")
        if not isinstance(name, Const) or not isinstance(name.value, str):
            return Scalar()
        how: dict[str, Value] = {"dest": const(name.value)}
        if kind == "bool":
            how["action"] = const("BooleanOptionalAction")
        elif kind:
            how["type"] = External(kind)
        default = args.at(1, "default") or const(None)
        value = given_option(machine, Args((), {**how, "default": default}), f"--{name.value}", at, state)
        machine.given_names[f"{FLAGS}.{name.value}"] = value
        flag = machine.create(("flag", name.value), at, "Flag", "a flag")
        state.set((flag.obj, "value"), value)
        return flag

    return define


CALLERS = {
    "fire.Fire": _runs("fire"),
    "fire.core.Fire": _runs("fire"),
    "typer.run": _runs("typer"),
    "tyro.cli": _runs("tyro"),
    "jsonargparse.CLI": _runs("jsonargparse"),
    "jsonargparse.auto_cli": _runs("jsonargparse"),
    "simple_parsing.parse": _runs("tyro"),
}
FUNCTIONS: dict[str, Any] = {
    **CALLERS,
    **{f"absl.flags.{name}": _flag(kind) for name, kind in _TYPES.items()},
}
