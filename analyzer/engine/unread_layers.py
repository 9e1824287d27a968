"""Plain lists of layers whose code was not read: by all that shows, what a module makes in its constructor and calls
one by one in its forward pass."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from analyzer.engine.machine import Frame
from analyzer.engine.optim_events import Unregistered
from analyzer.engine.own_ways import is_field, looks_after, methods, puts_elsewhere
from analyzer.engine.registration import is_plain, kind_of, place_of, reads_of
from analyzer.engine.trace import Site, start
from analyzer.engine.values import Class, Ref, Unknown
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, target_names, walk

if TYPE_CHECKING:
    from analyzer.engine.calls import Calls
    from analyzer.engine.state import State

_NO_LAYERS = re.compile(
    r"transform(?!er)|aug|loss|metric|criteri|hook|callback|process|crop|flip|normalize", re.IGNORECASE
)
"""Names of what is called on images or outputs and learns nothing. They only ever hush."""
_REGISTERING = frozenset(["add_module", "register_module", "setattr", "__setattr__"])


def note_unread_layers(machine: Calls, cls: Class, ref: Ref, state: State) -> None:
    """After ``__init__``: an event for each attribute that keeps such a list or dict."""
    if machine.obj(ref).kind != "Module":
        return
    for name, value in state.fields(ref.obj):
        is_list = isinstance(value, Ref) and not name.startswith(("is ", "[")) and is_plain(machine, value)
        if is_list and isinstance(value, Ref) and _holds_unread(machine, value, state):
            _note_unread(machine, cls, ref, name, value)


def _holds_unread(machine: Calls, value: Ref, state: State) -> bool:
    """Whether a list or dict holds nothing but what calls of classes have made whose code was not read."""
    inside = [case for case in machine.deep(value, state) if case is not value]
    return bool(inside) and all(isinstance(case, Unknown) and _is_class(case.called) for case in inside)


def _is_class(called: str) -> bool:
    """Whether a dotted name means a class, as PEP 8 writes them, that is no library's of numbers and texts."""
    last = called.rpartition(".")[2]
    return (
        not _NO_LAYERS.search(called) and last[:1].isupper() and not last.isupper() and last.lstrip("_").isidentifier()
    )


def _note_unread(machine: Calls, cls: Class, ref: Ref, name: str, value: Ref) -> None:
    """Layers of code that was not read: ``forward`` goes through them and calls each with what it works on."""
    if (
        _NO_LAYERS.search(name)
        or not _calls_each(cls, name)
        or looks_after(cls, name)
        or puts_elsewhere(cls, name)
        or _is_handed_on(cls, name)
    ):
        return
    site = place_of(value, cls)
    if site is not None:
        used = Site(cls.path, next(reads_of(cls, name)).at)
        machine.frames.append(Frame(cls.scope, cls.path, None, None, cls))
        machine.emit(
            Unregistered, site.at, None, owner=ref.obj, name=name, what="unread", container=kind_of(machine, value),
            value=value.trace or start(site, "made here"), prefix=None, used=used,
        )  # fmt: skip
        machine.frames.pop()


def _calls_each(cls: Class, name: str) -> bool:
    """Whether ``forward`` calls what it takes out of an attribute: ``for block in self.blocks: x = block(x)``."""
    for method in (each for each in methods(cls) if each.name == "forward" and each.params):
        this = method.params[0].name
        for node in walk(method.body, into_functions=False):
            clauses = [node] if isinstance(node, ir.For) else node.clauses if isinstance(node, ir.Comprehension) else ()
            body = node.body if isinstance(node, ir.For) else (node,)
            for clause in clauses:
                if any(is_field(part, this, name) for part in walk((clause.iter,), False)):
                    names = set(target_names(clause.target))
                    calls = (part for part in walk(body, False) if isinstance(part, ir.Call) and part.args)
                    if any(isinstance(call.callee, ir.Name) and call.callee.id in names for call in calls):
                        return True
            of = node.callee if isinstance(node, ir.Call) and node.args else None
            if isinstance(of, ir.Subscript) and is_field(of.value, this, name):
                return True
    return False


def _is_handed_on(cls: Class, name: str) -> bool:
    """Whether a method gives the attribute to a call, which may register what it holds."""
    for method in methods(cls):
        this = method.params[0].name if method.params else ""
        for node in walk(method.body, into_functions=True) if method.name != "forward" else ():
            given = [arg.value for arg in node.args] if isinstance(node, ir.Call) else []
            if any(is_field(part, this, name) for each in given for part in walk((each,), True)):
                return True
            if isinstance(node, ir.Call) and (dotted(node.callee) or "").rpartition(".")[2] in _REGISTERING:
                return True
    return False
