"""Random numbers that a dataset or a transform draws for one item: in the workers of a loader, torch seeds NumPy and
`random` from its own generator."""

from __future__ import annotations

from analyzer.engine.data_events import Drawn
from analyzer.engine.events import Backward
from analyzer.engine.loading import is_absent, is_const, loading
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.rules.offered import by_default
from analyzer.syntax import ir

_ITEM = frozenset({"__getitem__", "__call__"})


def without_workers(program: Program, sites: list[Site]) -> list[Site]:
    """The draws that no worker makes."""
    if not _has_workers(program):
        return sites
    items = {event.site for event in program.of(Drawn) if _reaches_item(program, event)}
    trains = {loop.key for event in program.of(Backward) for loop in event.loops if loop.kind == "data"}
    here = {event.site for event in program.of(Drawn) if any(loop.key in trains for loop in event.loops)}
    return [site for site in sites if site in here or (site not in items and not is_for_item(program, site))]


def _has_workers(program: Program) -> bool:
    """Whether every loader that trains, or else every one, is given workers, as far as is written; an option says so by
    its default. Where the files name a loader and none was seen to be made, another place makes it."""
    known = loading(program)
    made = [event for event in known.made.values() if event.loader in known.trains] or list(known.made.values())
    if not made:
        return any(b"DataLoader(" in (program.project.read(path) or b"") for path in program.modules)
    counts = [event.argument("num_workers") for event in made]
    if any(is_absent(count) or is_const(count, 0) for count in counts):
        return False
    return not any(by_default(program, event.site, "num_workers") == 0 for event in made)


def is_of_dataset(program: Program, site: Site) -> bool:
    """Whether a statement stands in a method of a class that gives items."""
    methods = _methods_beside(program, program.function_around(site), site.path)
    return any(method.name == "__getitem__" for method in methods)


def is_for_item(program: Program, site: Site) -> bool:
    """Whether a draw is made for one item: in a dataset or a transform, or in a method that only its items call."""
    function = program.function_around(site)
    if function is None or function.name in _ITEM:
        return function is not None
    return _is_called_for_items(function.name, _methods_beside(program, function, site.path))


def _methods_beside(program: Program, function: ir.FunctionDef | None, path: str) -> list[ir.FunctionDef]:
    """The methods of the class that a function is a method of; none if it is not."""
    unit = program.unit(path)
    for node in unit.body if unit is not None and function is not None else ():
        if isinstance(node, ir.ClassDef) and function in node.body:
            return [each for each in node.body if isinstance(each, ir.FunctionDef)]
    return []


def _is_called_for_items(name: str, methods: list[ir.FunctionDef]) -> bool:
    """Whether of the methods of a class, those that give items call another, and ``__init__`` does not."""
    callers = {method.name for method in methods if "()" in method.uses.get(f"self.{name}", ())}
    return bool(callers & _ITEM) and "__init__" not in callers


def _reaches_item(program: Program, event: Drawn) -> bool:
    """Whether a draw is made on the way to one item: in what a dataset or a transform calls."""
    return any(is_for_item(program, site) for site in (event.site, *event.calls))
