"""Random numbers that become the seed of a run."""

from __future__ import annotations

from analyzer.engine.data_events import Drawn
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import spelled
from analyzer.syntax import ir
from analyzer.syntax.scope import target_names, walk


def makes_seed(program: Program, site: Site) -> bool:
    """Whether what is drawn is a seed: ``args.seed = random.randint(1, 10000)``, also by a function that gives it.
    Another one each time is meant."""
    if _is_named_seed(program, site):
        return True
    callers = {event.calls[-1:] for event in program.of(Drawn) if event.site == site}
    is_given = bool(callers) and () not in callers and _is_returned(program, site)
    return is_given and all(_is_named_seed(program, call) for calls in callers for call in calls)


def _is_named_seed(program: Program, site: Site) -> bool:
    """Whether what a call gives goes into a name or attribute that speaks of a seed."""
    function, unit = program.function_around(site), program.unit(site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    return any(
        isinstance(node, ir.Assign)
        and any("seed" in spelled(target).lower() for target in node.targets)
        and any(getattr(part, "at", None) == site.at for part in walk((node,), True))
        for node in walk(body, False)
    )


def _is_returned(program: Program, site: Site) -> bool:
    """Whether a function gives what it draws, directly or by a name."""
    function = program.function_around(site)
    nodes = list(walk(function.body, False)) if function is not None else []
    names = {
        name
        for node in nodes
        if isinstance(node, ir.Assign) and any(getattr(part, "at", None) == site.at for part in walk((node,), True))
        for target in node.targets
        for name in target_names(target)
    }
    given = walk(tuple(node for node in nodes if isinstance(node, ir.Return)), True)
    return any(
        getattr(part, "at", None) == site.at or (isinstance(part, ir.Name) and part.id in names) for part in given
    )
