"""Whether a program stops before a place, at a call that its function does not take: what is said of what comes after
is true of the text, and never happens.

Only what happens whenever the place is reached counts: in the body of the file and what it calls, under no condition
that the place does not stand under as well, and outside of ``try``.
"""

from __future__ import annotations

from collections.abc import Iterable

from analyzer.engine.events import Event, Misfit
from analyzer.engine.program import Program
from analyzer.engine.trace import Site, Trace, start
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import of_type, walk


def why_stopped(program: Program, sites: Iterable[Site]) -> Trace | None:
    """The step of evidence that says so of what was seen at these places: of all of it."""
    misfits = [event for event in program.of(Misfit) if is_run(program, event) and not _is_tried(program, event.site)]
    if not misfits:
        return None
    known = set(sites)
    seen = [event for event in program.events if event.site in known or known & set(event.calls)]
    for misfit in misfits:
        if seen and all(_comes_after(program, event, misfit) for event in seen if event is not misfit):
            return start(misfit.site, f"`{misfit.to}` takes no `{misfit.name}`: the program stops at this call")
    return None


def is_run(program: Program, event: Event) -> bool:
    """Whether the body of the file was seen to do it."""
    return not event.calls or event.calls[0] not in program.entries


def _comes_after(program: Program, event: Event, misfit: Misfit) -> bool:
    is_later = program.place(event) > program.place(misfit) and is_run(program, event)
    return is_later and all(guard in event.guards for guard in misfit.guards)


def _is_tried(program: Program, site: Site) -> bool:
    unit = program.unit(site.path)
    return unit is None or site.at in _tried(unit)


@remembered(maxsize=32)
def _tried(unit: ir.Unit) -> frozenset[int]:
    """What stands in the ``try`` blocks of a file."""
    tries = of_type(unit, ir.Try)
    return frozenset(getattr(part, "at", -1) for node in tries for part in walk(node.body, False))
