"""Whether a finding is in code that nothing of the tree reaches (`analyzer.reach`): it is true, and harms nobody."""

from __future__ import annotations

from analyzer.engine.program import Program
from analyzer.engine.trace import Site, Trace, start
from analyzer.reach import NO_IMPORT
from analyzer.syntax import ir

_WHY = {
    False: "nothing that is run or imported in this tree names it: it is not run as the project is",
    True: "no program of this tree imports this file, and it runs nothing by itself",
}


def why_unreached(program: Program, site: Site) -> Trace | None:
    """The step of evidence that says so; None where something may reach the place."""
    unit = program.unit(site.path)
    around = _around(unit.body, site.at) if unit is not None else None
    if around is None:
        return None
    names = [around.name]
    inner = _around(around.body, site.at) if isinstance(around, ir.ClassDef) else None
    if inner is not None:
        names.append(inner.name)
    why = program.project.unreached(site.path, tuple(names))
    return None if why is None else start(Site(site.path, around.at), _WHY[why == NO_IMPORT])


def _around(body: ir.Block, at: ir.NodeId) -> ir.FunctionDef | ir.ClassDef | None:
    """The definition of a block whose text holds a node: statements are numbered in the order of the text."""
    found = None
    for node in body:
        if node.at > at:
            break
        found = node
    return found if isinstance(found, (ir.FunctionDef, ir.ClassDef)) else None
