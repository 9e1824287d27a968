"""Call sites by hand, as `analyzer.api.call_sites` reports them."""

from __future__ import annotations

from analyzer.api import Argument, CallSite, Known, Origin, Ref

_PATH = "train.py"


def known(value: object, line: int = 1, text: str = "", overrides: tuple[Known, ...] = ()) -> Known:
    """A constant."""
    assert value is None or isinstance(value, (int, float, str, bool, tuple))
    return Known(value, Origin(_PATH, line, text or str(value)), overrides)


def ref(name: str, line: int = 1) -> Ref:
    """A name that is a class or the result of a call."""
    return Ref(name, None, Origin(_PATH, line, name))


def call(callee: str, *, line: int = 1, on: str = "", **arguments: object) -> CallSite:
    """A call; an argument named ``_0`` is the first positional one; constants are wrapped, tuples are alternatives."""
    values: dict[str, tuple[Argument, ...]] = {}
    for name, given in arguments.items():
        items = given if isinstance(given, tuple) else (given,)
        values[name.removeprefix("_") if name[1:].isdigit() else name] = tuple(
            item if not isinstance(item, (int, float, str, bool)) and item is not None else known(item, line)
            for item in items
        )
    receiver = (ref(on, line),) if on else ()
    return CallSite(line, callee, values, receiver, Origin(_PATH, line, callee))
