"""Values that are only looked at: what is drawn for a picture and for nothing else."""

from __future__ import annotations

from analyzer.engine.program import Program
from analyzer.engine.randomness import imported
from analyzer.engine.trace import Site
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, walk

_PLOTS = ("matplotlib", "seaborn", "plotly", "pylab")
_PICTURES = frozenset(
    {"save_image", "make_grid", "add_image", "add_images", "add_figure", "imsave", "imshow", "imwrite", "savefig"}
)
"""Calls that show or write a picture, whoever has them."""


def is_only_plotted(program: Program, site: Site) -> bool:
    """Whether a call stands in a function that plots and gives nothing, or at the top of a file, where what it gives
    is kept under a name that only plots read until the name means something else."""
    unit = program.unit(site.path)
    function = program.function_around(site)
    if function is not None:
        return unit is not None and _only_plots(unit, function)
    for index, node in enumerate(unit.body if unit is not None else ()):
        if isinstance(node, ir.Assign) and any(getattr(part, "at", None) == site.at for part in walk((node,), True)):
            target = node.targets[0] if len(node.targets) == 1 else None
            return unit is not None and isinstance(target, ir.Name) and _rest_plots(unit, index + 1, target.id)
    return False


def _plotting(unit: ir.Unit) -> set[str]:
    return {bound for bound, full in imported(unit).items() if full.partition(".")[0] in _PLOTS}


def _only_plots(unit: ir.Unit, function: ir.FunctionDef) -> bool:
    plots, seen = _plotting(unit), False
    for node in walk(function.body, True):
        if isinstance(node, ir.Return) and node.value is not None:
            return False
        text = dotted(node.callee) if isinstance(node, ir.Call) else None
        seen = seen or (text is not None and (text.partition(".")[0] in plots or text.rpartition(".")[2] in _PICTURES))
        if text is not None and text.endswith((".backward", ".step")):
            return False
    return seen


def _rest_plots(unit: ir.Unit, begin: int, name: str) -> bool:
    plots = _plotting(unit)
    seen = False
    for node in unit.body[begin:]:
        targets = node.targets if isinstance(node, ir.Assign) else ()
        if any(isinstance(target, ir.Name) and target.id == name for target in targets):
            break
        if isinstance(node, (ir.FunctionDef, ir.ClassDef)) or not _reads(node, name):
            continue
        if _is_plot(node, plots):
            seen = True
        elif not _changes_itself(node, name):
            return False
    return seen


def _reads(node: ir.Stmt, name: str) -> bool:
    return any(isinstance(part, ir.Name) and part.id == name for part in walk((node,), True))


def _is_plot(node: ir.Stmt, plots: set[str]) -> bool:
    call = node.value if isinstance(node, ir.Evaluate) else None
    text = dotted(call.callee) if isinstance(call, ir.Call) else None
    return text is not None and text.partition(".")[0] in plots


def _changes_itself(node: ir.Stmt, name: str) -> bool:
    """``z[:, 0] = z[:, 0] * 6``, perhaps under a condition."""
    if isinstance(node, ir.If):
        return all(_changes_itself(each, name) for each in (*node.body, *node.orelse)) and not any(
            isinstance(part, ir.Name) and part.id == name for part in walk((ir.Evaluate(node.at, node.test),), True)
        )
    if not isinstance(node, ir.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    return isinstance(target, ir.Subscript) and isinstance(target.value, ir.Name) and target.value.id == name
