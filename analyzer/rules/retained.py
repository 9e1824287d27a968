"""What `retain_graph=True` keeps from step to step: a part of PF101.

A sum, an average or a state of an earlier step is a part of the loss of the next one. Without `retain_graph` the second
step fails; with it, each backward pass runs through the graphs of all steps before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.events import Backward, Escape, Forward, Step, Store
from analyzer.engine.program import Program, nest_key
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.base import Report
from analyzer.rules.iteration import extra_guards
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, each_target, last_name, of_type, walk

RETAINS = re.compile(r"\bretain_graph\s*=\s*True")
_GOES_ON = frozenset(["accumulate", "average", "joined"])
_CUTS = frozenset(["detach", "detach_", "data", "no_grad", "inference_mode"])

_MAX_NODES = 10_000


def check_retained(program: Program, report: Report) -> None:
    """A backward pass that keeps the graph, of a loss that what earlier steps left goes into."""
    for backward in program.of(Backward):
        if not backward.loops or not RETAINS.search(program.sources.text(backward.site)):
            continue
        if not _is_applied(program, backward):
            continue
        for store in _sums(program, backward):
            _report(report, f"`{program.sources.text(store.site)}`", store.place, backward)
        for forward in program.within(Forward, backward.loops):
            if nest_key(forward.loops) == nest_key(backward.loops) and forward.root in backward.roots:
                for state in _states(program, forward):
                    _report(report, f"`{program.sources.text(state.site)}`", state, backward, forward.trace)


def _report(report: Report, what: str, place: Trace, backward: Backward, *more: Trace) -> None:
    report(
        place.site,
        f"{what} {{does keep}} the graph of earlier steps, and with `retain_graph` the backward pass {{will run}} "
        "through all of them again: each step takes more memory and time. Detach what goes on to the next step.",
        because=[backward.loops[-1].trace, *more, place, backward.trace],
        gaps=[Gap.CONVENTION],
        severity=Severity.WARNING,
    )


def _is_applied(program: Program, backward: Backward) -> bool:
    """Whether the same iteration steps afterwards."""
    here = nest_key(backward.loops)
    steps = (event for event in program.within(Step, backward.loops) if nest_key(event.loops) == here)
    return any(event.order > backward.order and not extra_guards(event, backward) for event in steps)


def _sums(program: Program, backward: Backward) -> Iterator[Store]:
    """The sums and averages that the loss is made of and that nothing in the loop begins anew or cuts off."""
    here, seen = nest_key(backward.loops), set()
    node = words(program).node(backward.loops[-1].site)
    inside = list(walk(node.body, False)) if isinstance(node, ir.For | ir.While) else []
    if any(isinstance(part, ir.Attribute) and part.attr in _CUTS - {"no_grad"} for part in inside):
        return
    for store in program.of(Store):
        if store.how not in _GOES_ON or not store.is_carried or store.into not in backward.via or store.site in seen:
            continue
        if nest_key(store.loops) != here or store.site.path != backward.site.path:
            continue
        made = words(program).node(store.site)
        target = (
            made.target if isinstance(made, ir.Augment) else made.targets[0] if isinstance(made, ir.Assign) else None
        )
        name = dotted(target) if target is not None else None
        others = (part for part in inside if isinstance(part, ir.Assign) and part.at != store.site.at)
        if name is not None and not any(name in map(dotted, each_target(other)) for other in others):
            seen.add(store.site)
            yield store


def _states(program: Program, forward: Forward) -> Iterator[Trace]:
    """Where a network puts what a layer of it gave into an attribute that the layer is given in the next step:
    ``y, self.hidden = self.rnn(x, self.hidden)``."""
    made = program.objects[forward.module] if forward.module is not None else None
    cls = made.cls if made is not None else None
    if made is None or len(made.loops) >= len(forward.loops):
        return  # each iteration makes a network of its own
    if cls is None or any(isinstance(part, ir.Attribute) and part.attr in _CUTS for part in walk(cls.node.body, True)):
        return
    methods = {each.name: each for each in cls.node.body if isinstance(each, ir.FunctionDef)}
    run = methods.get("forward")
    for node in walk(run.body, False) if run is not None else ():
        if not isinstance(node, ir.Assign) or not isinstance(node.value, ir.Call):
            continue
        layer = dotted(node.value.callee) or ""
        if not layer.startswith("self.") or layer.removeprefix("self.") in methods:
            continue
        given = {dotted(part) for arg in node.value.args for part in _parts(arg.value)}
        for name in map(dotted, each_target(node)):
            is_state = name is not None and name.startswith("self.") and name in given
            if name is not None and is_state and not _is_begun_anew(program, forward, name, node, methods):
                yield start(Site(cls.path, node.at), f"`{name}` goes on to the next step")


def _is_begun_anew(
    program: Program, forward: Forward, name: str, update: ir.Assign, methods: dict[str, ir.FunctionDef]
) -> bool:
    """Whether the loop or the pass may set the state anew: an assignment to it, or a call of a method with one. One
    where there is none yet (``if self.hidden is None:``) does not count."""
    resets = {
        key
        for key, method in methods.items()
        if key not in {"__init__", "forward"} and any(_sets(node, name) for node in walk(method.body, False))
    }
    if any(forward.module in event.objects for event in program.within(Escape, forward.loops)):
        return True  # code that was not read is given the network
    first = {
        id(node)
        for branch in walk(methods["forward"].body, False)
        if isinstance(branch, ir.If) and name in map(dotted, _parts(branch.test))
        for node in walk(branch.body, False)
    }
    for node in (*_in_iteration(program, forward), *walk(methods["forward"].body, False)):
        is_call = isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute) and node.callee.attr in resets
        if (is_call or _sets(node, name)) and node is not update and id(node) not in first:
            return True
    return False


def _in_iteration(program: Program, forward: Forward) -> list[object]:
    """What one iteration of the loop around a pass runs: its body, and the functions of the same file that are called
    there or on the way to the pass."""
    loop, path = words(program).node(forward.loops[-1].site), forward.loops[-1].site.path
    nodes: list[object] = list(walk(loop.body, False)) if isinstance(loop, (ir.For, ir.While)) else []
    defined = {each.name: each for each in of_type(program.unit(path), ir.FunctionDef)}
    for at, node in enumerate(nodes):  # it grows by what is called
        called = last_name(node.callee) if isinstance(node, ir.Call) else ""
        function = defined.pop(called, None) if called not in {"forward", "__init__"} else None
        nodes += walk(function.body, False) if function is not None else ()
        if at > _MAX_NODES:
            break
    return nodes


def _sets(node: object, name: str) -> bool:
    """``self.hidden = …`` in the class, ``model.hidden = …`` outside of it."""
    field = name.removeprefix("self.")
    return isinstance(node, ir.Assign) and any(
        isinstance(target, ir.Attribute) and target.attr == field for target in each_target(node)
    )


def _parts(test: ir.Expr) -> Iterator[ir.Expr]:
    return (part for part in walk((test,), False) if isinstance(part, ir.Expr))
