"""Running averages of weights that are taken while gradients are recorded: a part of PF104."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analyzer.engine.program import Program
from analyzer.engine.targets import WeightsAveraged
from analyzer.engine.trace import Gap
from analyzer.engine.words import spelled
from analyzer.rules.base import Report
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, target_names, walk


def check_averages(program: Program, report: Report) -> None:
    """A running average of weights is taken while gradients are recorded."""
    for event in program.of(WeightsAveraged):
        gaps = [Gap.CONVENTION]
        if program.is_called_without_grad(event) or program.runs_under_unseen_base(event):
            gaps.append(Gap.UNSEEN)
        if _switches(program, event):
            continue
        report(
            event.site,
            "This running average of weights {does record} a graph through the parameters: it {will grow} with every "
            "update. Average `.detach()` of them, or under `torch.no_grad()`.",
            because=[event.trace],
            gaps=gaps,
        )


def _switches(program: Program, event: WeightsAveraged) -> bool:
    """Whether the function, or one of its file that it calls, switches `requires_grad`: of what, it knows best. Where
    it is back on before the average is taken, that tells nothing."""
    function, unit = program.function_around(event.site), program.unit(event.site.path)
    if function is None or unit is None:
        return False
    called = {dotted(each.callee) for each in walk(function.body, True) if isinstance(each, ir.Call)}
    helpers = [each for each in of_type(unit, ir.FunctionDef) if each.name in called]
    if any(True for each in helpers for _ in _switched(each)):
        return True
    last: dict[str, bool] = {}
    for at, subject, is_on in sorted(_switched(function)):
        if at < event.site.at or subject not in last:
            last[subject] = is_on
    return not all(last.values())


def _switched(function: ir.FunctionDef) -> Iterator[tuple[int, str, bool]]:
    """Where a function switches `requires_grad`, of what, and whether on."""
    nodes = tuple(walk(function.body, True))
    loops = [node for node in nodes if isinstance(node, ir.For)]
    over = {name: spelled(loop.iter) for loop in loops for name in target_names(loop.target)}
    for node in nodes:
        if isinstance(node, ir.Assign):
            is_on = isinstance(node.value, ir.Constant) and node.value.value is True
            targets = [to for to in node.targets if isinstance(to, ir.Attribute) and to.attr == "requires_grad"]
            yield from ((to.at, _subject(to.value, over), is_on) for to in targets)
        elif isinstance(node, ir.Attribute) and node.attr == "requires_grad_":
            yield node.at, _subject(node.value, over), False


def _subject(value: ir.Expr, over: Mapping[str, str]) -> str:
    return over.get(dotted(value) or "", spelled(value))
