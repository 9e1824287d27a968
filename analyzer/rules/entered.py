"""How the functions are called that were read without their callers, as far as the text of their file shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.engine.events import Forward, Kept, Store
from analyzer.engine.program import Program, functions
from analyzer.engine.trace import Site
from analyzer.engine.typing import PASSES
from analyzer.engine.words import spelled, words
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import last_name, of_type, walk

_BACKWARD = re.compile(rb"backward|autograd\.grad")
LOSS_DATA = re.compile(rb"loss\w*\.data(?:\.cpu\(\)(?:\.numpy\(\))?)?\[0\]")
_OFF = re.compile(r"no_grad|inference_mode")


def is_entered_under(program: Program, calls: Sequence[Site]) -> bool:
    """Whether the function that `calls` begin with, read without its callers, is called under ``no_grad`` somewhere in
    its file."""
    name = program.entries.get(calls[0], "") if calls else ""
    unit = program.unit(calls[0].path) if name else None
    return unit is not None and name in _called_under(unit)


@remembered(maxsize=16)
def _called_under(unit: ir.Unit) -> frozenset[str]:
    """The last names of what a file calls under ``no_grad``."""
    off = (node for node in of_type(unit, ir.With) if any(_OFF.search(spelled(item)) for item, _ in node.items))
    calls = (part for node in off for part in walk(node.body, into_functions=False) if isinstance(part, ir.Call))
    return frozenset(last_name(call.callee) for call in calls)


def is_differentiated_elsewhere(program: Program, store: Store) -> bool:
    """Whether what holds a store's tensor becomes an attribute in a function that was read without its callers, and the
    text of another function that asks for the attribute runs a backward pass: of the same file, or of another one that
    names it."""
    for kept in program.of(Kept):
        if kept.calls[:1] != store.calls[:1] or not store.calls or store.calls[0] not in program.entries:
            continue
        if store.into not in kept.objects and store.into not in kept.via:
            continue
        if any(program.project.callers(kept.name, kept.site.path, _BACKWARD)):
            return True
        here, unit = program.function_around(kept.site), program.unit(kept.site.path)
        for function, _ in functions(unit) if unit is not None else ():
            if function is not here and _runs_backward_with(function, kept.name):
                return True
    return False


def _runs_backward_with(function: ir.FunctionDef, name: str) -> bool:
    named = {part.attr for part in walk(function.body, into_functions=True) if isinstance(part, ir.Attribute)}
    return name in named and bool(named & {"backward", "grad", "manual_backward"})


def is_tree_for_old_torch(program: Program) -> bool:
    """Whether some file of the tree reads ``loss.data[0]``: that only runs on a PyTorch before 0.5."""
    return any(program.project.naming("data", "", LOSS_DATA))


def is_volatile(program: Program, site: Site) -> bool:
    """Whether the function around a place, or the body of its file, makes volatile inputs: written for PyTorch before
    0.4, where they recorded nothing. Later ones ignore the word."""
    function, unit = program.function_around(site), program.unit(site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    parts = walk(body, into_functions=False)
    return any(isinstance(part, ir.Arg) and part.keyword == "volatile" for part in parts)


def is_assumed(forward: Forward) -> bool:
    """Whether a pass is taken for one because a method of a module that was not read is given tensors, and no method
    that is known to run networks (``flow.log_prob(x)``)."""
    return bool(forward.method) and f"{forward.method}(…)" not in PASSES


def is_given_volatile(program: Program, sites: Sequence[Site]) -> bool:
    """Whether a call at one of these places is given what a function makes that makes volatile inputs:
    ``model(self.prepare(x, True))``."""
    calls = [node for site in sites if isinstance(node := words(program).node(site), ir.Call)]
    makers = {
        last_name(part.callee)
        for call in calls
        for part in walk(call.args, into_functions=False)
        if isinstance(part, ir.Call)
    }
    return bool(makers & {name for path in program.modules for name in _making_volatile(program.unit(path))})


@remembered(maxsize=64)
def _making_volatile(unit: ir.Unit | None) -> frozenset[str]:
    """The names of the functions and methods of a file that make volatile inputs."""
    if unit is None:
        return frozenset()
    return frozenset(
        function.name
        for function, _ in functions(unit)
        if any(isinstance(part, ir.Arg) and part.keyword == "volatile" for part in walk(function.body, False))
    )
