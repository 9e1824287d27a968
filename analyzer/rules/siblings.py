"""Networks that an optimizer is given by name, and a sibling of one of them that none is given: a part of PF218.

Asked of the text, for where the networks come from code that was not read: who calls ``q1(x, a)`` and ``q2(x, a)`` side
by side to train, and hands ``q1.parameters()`` to an optimizer, has forgotten `q2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import spelled
from analyzer.knowledge.words import pattern
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, last_name, of_type, walk

_LAST = re.compile(r"_?(?:[1-9]|[ab]|[AB])$")
_OFF = re.compile(r"no_grad|inference_mode")
_FREEZES = re.compile(r"requires_grad")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A network that no optimizer is given, by its name, beside one that an optimizer is given."""

    optimizer: Site
    run: Site
    name: str
    held: str


def left_out(program: Program) -> Iterator[LeftOut]:
    """The siblings that no optimizer of their file is given."""
    for path in program.modules:
        unit = program.unit(path)
        if unit is not None and b".parameters()" in (program.project.read(path) or b""):
            for at, run, name, held in _found(unit):
                yield LeftOut(Site(path, at), Site(path, run), name, held)


@remembered(maxsize=512)
def _found(unit: ir.Unit) -> tuple[tuple[int, int, str, str], ...]:
    functions = [function for function in of_type(unit, ir.FunctionDef) if _calls_siblings(function)]
    given = dict(_given(unit)) if functions else {}
    if not functions or not given.keys().isdisjoint({"self", ""}):
        return ()
    ends = {name.rpartition(".")[2]: name for name in given}
    found: list[tuple[int, int, str, str]] = []
    for function in functions:
        if any(_OFF.search(spelled(each)) for each in function.decorators):
            continue
        runs = _runs(function)
        for name, (at, args) in runs.items():
            end = name.rpartition(".")[2]
            twin = next((each for each in runs if _are_siblings(each, name) and each.rpartition(".")[2] in ends), None)
            if twin is None or end in ends or runs[twin][1] != args or pattern("follows another network").search(end):
                continue
            owner, held = name.rpartition(".")[0], twin.rpartition(".")[2]
            if _is_held(owner, given, held) or _differ(unit, end, held):
                continue
            found.append((given[ends[held]], at, name, ends[held]))
    return tuple(dict.fromkeys(found))[:1]


def _calls_siblings(function: ir.FunctionDef) -> bool:
    """Whether a function calls two that differ by their last letter: what the lowering noted, before any walk."""
    stems = [_LAST.sub("", name) for name, how in function.uses.items() if "()" in how]
    return len(set(stems)) < len(stems)


def _is_held(owner: str, given: Mapping[str, int], twin: str) -> bool:
    """Whether what holds a network, as far as names tell, is given as a whole."""
    plain = {name for name in given if "." not in name and name != twin}
    return owner in given or (bool(owner) and bool(plain))


def _given(unit: ir.Unit) -> Iterator[tuple[str, int]]:
    """The names whose parameters go to an optimizer, or get a name (which may go there), with where."""
    for node in of_type(unit, ir.Call):
        if pattern("takes parameters").search(last_name(node.callee)):
            yield from ((name, node.at) for name in _parameters_in(tuple(arg.value for arg in node.args)))
    for assign in of_type(unit, ir.Assign):
        if assign.value is not None:
            yield from ((name, assign.value.at) for name in _parameters_in((assign.value,)))


def _parameters_in(exprs: tuple[ir.Expr, ...]) -> Iterator[str]:
    for part in walk(exprs, True):
        if isinstance(part, ir.Call) and last_name(part.callee) in {"parameters", "named_parameters"}:
            yield dotted(part.callee.value) or "" if isinstance(part.callee, ir.Attribute) else ""


def _are_siblings(one: str, other: str) -> bool:
    """``self.q1`` and ``self.q2``, ``critic`` and ``critic2``, ``net_A`` and ``net_B``."""
    return one != other and _LAST.sub("", one) == _LAST.sub("", other)


def _runs(function: ir.FunctionDef) -> dict[str, tuple[int, str]]:
    """What a function calls by a name with arguments, gradients on: where, and with what."""
    found: dict[str, tuple[int, str]] = {}
    work: list[ir.Block] = [function.body]
    while work:
        for node in work.pop():
            if isinstance(node, ir.With) and any(_OFF.search(spelled(item)) for item, _ in node.items):
                continue
            inner = [block for part in ("body", "orelse", "final") if (block := getattr(node, part, ()))]
            work += inner
            for part in walk((node,), False) if not inner else ():
                name = dotted(part.callee) if isinstance(part, ir.Call) and part.args else None
                if isinstance(part, ir.Call) and name is not None:
                    found.setdefault(name, (part.at, " ".join(spelled(arg.value) for arg in part.args)))
    return found


def _differ(unit: ir.Unit, name: str, twin: str) -> bool:
    """Whether some function switches gradients of one of two networks and not of the other."""
    for function in of_type(unit, ir.FunctionDef):
        parts = tuple(walk(function.body, True))
        if any(isinstance(part, ir.Attribute) and _FREEZES.search(part.attr) for part in parts):
            said = {part.attr if isinstance(part, ir.Attribute) else part.id for part in parts
                    if isinstance(part, (ir.Attribute, ir.Name))}  # fmt: skip
            if (name in said) != (twin in said):
                return True
    return False
