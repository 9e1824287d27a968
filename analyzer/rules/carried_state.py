"""A state that goes from one training step into the next with its graph: a part of PF101."""

from __future__ import annotations

import re

from analyzer.engine.device_events import GraphLeft
from analyzer.engine.events import Backward, Forward, Loop, Step
from analyzer.engine.program import Program, nest_key
from analyzer.engine.trace import Gap
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.base import Report
from analyzer.rules.iteration import exclude, extra_guards
from analyzer.rules.retained import RETAINS
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, walk

_CUTS = re.compile(r"detach|\.data\b")


def check_state(program: Program, report: Report) -> None:
    """A hidden state goes from one training step into the next with its graph: each backward pass runs through the
    graphs of all steps before it."""
    for forward in program.of(Forward):
        if forward.is_fed_itself == "no" or not forward.loops or not grown_over(forward.loops[-1:]):
            continue
        here = nest_key(forward.loops)
        backward = next(
            (
                event
                for event in program.within(Backward, forward.loops)
                if nest_key(event.loops) == here and forward.root in event.roots and event.order > forward.order
            ),
            None,
        )
        if backward is None or extra_guards(backward, forward) or _is_cut_off(program, forward):
            continue
        if _is_one_of_several(program, forward) or _cuts_inside(program, forward):
            continue
        gaps: list[Gap] = []
        if forward.is_fed_itself == "maybe":  # without `retain_graph` the second step fails, unless the module detaches
            gaps.append(Gap.CONVENTION if RETAINS.search(program.sources.text(backward.site)) else Gap.UNSEEN)
        steps = [event for event in program.within(Step, forward.loops) if nest_key(event.loops) == here]
        if not any(event.order > backward.order and not extra_guards(event, forward) for event in steps):
            continue
        report(
            forward.site,
            f"`{program.sources.text(forward.site)}` {{does get}} what it gave in the step before, with its graph: "
            "this backward pass {will run} through every earlier step again, which fails in the second one or, with "
            "`retain_graph`, takes more memory in each. Detach the state between steps.",
            because=[forward.loops[-1].trace, forward.trace, backward.trace],
            gaps=gaps,
            severity=Severity.ERROR,
        )


def _is_one_of_several(program: Program, forward: Forward) -> bool:
    """Whether it was not seen which of some modules is called, and another call of the iteration may be of each of them
    (``encoder, head = [wrap(net) for net in networks]``): what went in is then what the other one gave."""
    near = [other for other in program.within(Forward, forward.loops) if other.calls == forward.calls]
    here = {other.module for other in near if other.site == forward.site}
    others = (other for other in near if other.site != forward.site and not exclude(other, forward))
    return len(here) > 1 and any(other.module in here for other in others)


def _cuts_inside(program: Program, forward: Forward) -> bool:
    """Whether the network, or a part of it, detaches something itself: its state, as for truncated backpropagation."""
    parts = {*forward.parts, forward.module} - {None}
    classes = (program.objects[part].cls for part in parts if part is not None)
    bodies = {cls.node.at: cls.node.body for cls in classes if cls is not None}
    nodes = (node for body in bodies.values() for node in walk(body, True))
    return any(isinstance(node, ir.Attribute) and node.attr in {"detach", "detach_"} for node in nodes)


def _is_cut_off(program: Program, forward: Forward) -> bool:
    """Whether the graph is cut off in place, or under a condition: how long the state is kept is a choice."""
    if b"detach_(" in (program.project.read(forward.site.path) or b"") or _is_made_over(program, forward):
        return True
    return any(
        forward.root in event.roots and extra_guards(event, forward) and _CUTS.search(program.sources.text(event.site))
        for event in program.within(GraphLeft, forward.loops)
    )


def _is_made_over(program: Program, forward: Forward) -> bool:
    """Whether the iteration also puts the state through something else, at least under a condition:
    ``state = self.reset(state)``."""
    call, function = words(program).node(forward.site), program.function_around(forward.site)
    loop = forward.loops[-1].site
    is_here = program.function_around(loop) is function and loop.path == forward.site.path
    inside = (words(program).node(loop),) if is_here else function.body if function is not None else ()
    given = {dotted(arg.value) for arg in call.args} - {None} if isinstance(call, ir.Call) else set()
    for node in walk(inside, into_functions=False):
        if not isinstance(node, ir.Assign) or not isinstance(node.value, ir.Call) or node.value.at == forward.site.at:
            continue
        targets = _places((*node.targets,))
        read = _places((node.value,))
        if targets & given & read:
            return True
    return False


def _places(parts: tuple[ir.Expr, ...]) -> set[str | None]:
    """The names and attributes in expressions."""
    return {dotted(part) for part in walk(parts, into_functions=False) if isinstance(part, ir.Expr)}


def grown_over(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
    """Loops whose iterations can be batches, epochs or steps; over others nothing piles up."""
    return loops if any(loop.kind in {"data", "range", "while", "framework"} for loop in loops) else ()
