"""Meters whose code was not read, by the convention of the class that PyTorch's own example has made known."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.engine.events import Backward, Escape
from analyzer.engine.origins import origins
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import words
from analyzer.syntax import ir

_METER = "AverageMeter()"
"""``update(value, n)`` of this class adds up what it is given, as it is (pytorch/examples, imagenet)."""


def metered(program: Program) -> Iterator[tuple[Escape, Backward]]:
    """Losses that such a meter is given with their graph, and the backward passes that have freed them."""
    backwards = list(program.of(Backward))
    for event in program.of(Escape) if backwards else ():
        if event.how != "call" or not event.is_for_effect or not event.roots or not event.loops:
            continue
        freed = next((each for each in backwards if each.roots & event.roots and each.loops == event.loops), None)
        if freed is not None and _is_meter(program, event.site):
            yield event, freed


def _is_meter(program: Program, site: Site) -> bool:
    node = words(program).node(site)
    callee = node.callee if isinstance(node, ir.Call) else None
    if not isinstance(callee, ir.Attribute) or callee.attr != "update":
        return False
    return _METER in origins(program).of(Site(site.path, callee.value.at)).split()
