"""PF101 graph-retention."""

from __future__ import annotations

from analyzer.engine.events import Backward, Forward, Loop, Step, Store
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.values import Tensor, Unknown, nested
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertAfter
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.carried_state import check_state, grown_over
from analyzer.rules.entered import (
    is_differentiated_elsewhere,
    is_entered_under,
    is_volatile,
)
from analyzer.rules.meters import metered
from analyzer.rules.retained import check_retained
from analyzer.rules.retention_severity import severity_of
from analyzer.rules.short_stores import (
    is_counted_out,
    is_evaluated,
    is_metric,
    is_other_item,
    is_over_models,
    is_overwritten,
    is_short,
    is_sorted,
    is_summand,
    networks_in,
    starts_over,
)
from analyzer.rules.sums import born_under
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, walk

_WHATS = {"accumulate": "this running sum", "average": "this running average"}


class GraphRetention(Rule):
    """A tensor is kept together with the graph that computed it.

    ## Why it matters
    A tensor with a graph keeps alive every tensor that was saved to compute its gradient. Kept in a list, a dict, an
    attribute or a running sum over a loop, one graph per iteration piles up until the GPU is full. Where a backward
    pass has already freed the saved tensors, only the nodes of the graph pile up: slow growth, a warning. A hidden
    state that goes into the next step undetached makes its backward pass run through all steps before it: an error.
    A window that drops what is old (``deque(maxlen=100)``) is a note.

    ## Example
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        total += loss
    ```

    ## Use instead
    ```python
        total += loss.detach()
    ```
    ``loss.item()`` works as well, but waits for the GPU in every iteration.

    ## When it stays quiet
    When a later backward pass goes through what was kept or through another output of the same forward pass, when the
    container is filled and emptied within one forward pass, one iteration or one rollout, when it gets one item of each
    network (``self.critics[agent]``) or optimizer, when the next iteration puts another item in its place, when no
    graph is recorded, for numbers, sizes, metrics and detached tensors, and for what a class of the file holds that
    computes gradients itself.

    An error is what was seen whole: a network runs over data or between training steps, and no backward pass frees it.
    Where a convention bridges a gap (an argument gives batches, a criterion is one) it is a warning. It is a note where
    the loop is over neither data nor training, where what is kept comes out of code that was not read or goes into an
    ``AverageMeter`` that was not, where a sum of freed graphs begins anew at every log (every n-th step) or with each
    call of a function that goes over the steps of a batch and whose callers were not seen, where it adds up the
    backward passes of one step of the optimizer or is kept only where a flag of an object says so (a metric that
    somebody may ask for), for freed graphs in a notebook, and in a function that nothing in a tree of several files
    names (a line that is commented out names nothing).

    ## Fix safety
    ``.detach()`` is safe where what is kept is surely a tensor and no code that can be seen or not asks for its
    gradient: its readers get the same type on the same device.
    """

    code = "PF101"
    name = "graph-retention"
    alias = "TG001"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A store that is carried over a loop, of a tensor whose graph no backward consumes."""
        needed = _differentiated(program)
        for store in (each for each in program.of(Store) if not _is_of_own_engine(program, each)):
            if not store.loops:
                _kept_by_method(program, report, store)
                continue
            loops = _still_full(program, store, _carrying(program, store))
            carrier = _carrier(program, store)
            if not loops or carrier is None or program.consumed(store.into):
                continue
            if (
                not _is_made_anew(program, carrier, loops)
                or starts_over(program, store)
                or _is_listed(program, store, loops)
            ):
                continue
            if is_overwritten(program, store, loops) or is_over_models(program, store, carrier, loops):
                continue
            if is_volatile(program, store.site) or is_metric(program, store, carrier):
                continue
            freed = _freed_by(program, store, carrier, loops)
            if freed is None and _is_wanted(program, store, carrier, loops, needed):
                continue
            if is_short(program, store, loops) and (freed is not None or is_evaluated(program, carrier)):
                continue
            if _is_only_now_and_then(program, store, freed):
                continue
            _report_store(program, report, store, carrier, freed, loops)
        check_state(program, report)
        check_retained(program, report)
        _check_meters(program, report)


def _is_of_own_engine(program: Program, store: Store) -> bool:
    """Whether what is kept is a number of a class that computes gradients itself (``loss.v`` of a `Var` with a
    `backward`), or all of it is, as the file does not import torch."""
    unit = program.unit(store.site.path)
    own = [cls for cls in of_type(unit, ir.ClassDef) if not cls.bases and _defines(cls, "backward")]
    if not own:
        return False
    value = words(program).node(Site(store.site.path, store.value_at))
    if isinstance(value, ir.Attribute) and any(value.attr in _own_fields(cls) for cls in own):
        return True
    names = [name for node in of_type(unit, ir.Import) for name, _ in node.names]
    names += [node.module for node in of_type(unit, ir.ImportFrom)]
    return not any(name.partition(".")[0] == "torch" for name in names)


def _defines(cls: ir.ClassDef, name: str) -> bool:
    return any(isinstance(node, ir.FunctionDef) and node.name == name for node in cls.body)


def _own_fields(cls: ir.ClassDef) -> frozenset[str]:
    """The attributes that a class gives its instances."""
    assigned = (to for node in walk(cls.body, True) if isinstance(node, ir.Assign) for to in node.targets)
    return frozenset(to.attr for to in assigned if isinstance(to, ir.Attribute) and dotted(to.value) == "self")


def _check_meters(program: Program, report: Report) -> None:
    """A loss goes into a meter, which was not read, with its graph."""
    for event, freed in metered(program):
        report(
            event.site,
            "A meter that adds up what it is given, as `AverageMeter` usually does, {will keep} a piece of the "
            "autograd graph of every iteration. Give it `.item()` or `.detach()` of the loss.",
            because=[freed.trace, event.loops[-1].trace, event.trace],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,
        )


def _is_only_now_and_then(program: Program, store: Store, freed: Backward | None) -> bool:
    """Whether a window, which drops what is old, keeps graphs that a later pass may want, or one in many steps."""
    return _is_deque(program, store) and (freed is None or any(guard.is_periodic for guard in store.guards))


def _is_deque(program: Program, store: Store) -> bool:
    """``deque(maxlen=100)``."""
    return isinstance(store.into, int) and program.objects[store.into].is_bounded


def _report_store(
    program: Program,
    report: Report,
    store: Store,
    carrier: Tensor | Unknown,
    freed: Backward | None,
    loops: tuple[Loop, ...],
) -> None:
    """What is kept, why its graph is, and for how long."""
    gaps = [Gap.UNSEEN] if is_other_item(program, store, carrier) else []
    gaps += [] if freed else _gaps(program, store, carrier, loops)
    what = carrier.trace
    if isinstance(carrier, Unknown) and freed is not None and is_summand(program, store):
        what = start(store.site, "a part of the loss that runs backward", Gap.CONVENTION)
    because = [
        trace for trace in (what, freed.trace if freed else None, _grown_in(store, loops).trace, store.place) if trace
    ]
    unsure = [*gaps, *(each.gap for each in because if each.gap)]
    severity = severity_of(program, store, carrier, freed, loops, unsure)
    report(
        store.site,
        _message(program, store, is_freed=freed is not None),
        because=because,
        gaps=gaps,
        severity=Severity.NOTE if _is_deque(program, store) else severity,  # no more than its length is kept
        fix=_fix(program, store, carrier, gaps),
    )


def _is_wanted(
    program: Program, store: Store, carrier: Tensor | Unknown, loops: tuple[Loop, ...], needed: frozenset[Site]
) -> bool:
    """Whether a graph that no backward pass in the loops frees is kept for one that follows, or is none."""
    if store.site in needed and is_evaluated(program, carrier):
        return True
    is_loose = store.how in {"item", "average"} or (store.how == "joined" and not is_evaluated(program, carrier))
    if is_loose and not isinstance(store.into, int):
        return True  # a table that is filled, a state that goes on: what reads it may be a part of the same pass
    return _is_needed_later(program, store, carrier, loops) or is_entered_under(program, store.calls)


def _differentiated(program: Program) -> frozenset[Site]:
    """Where something is kept that a backward pass goes through, at least where training calls the function: that an
    evaluation calls it with gradients on, PF102 says."""
    tags = frozenset(tag for event in program.of(Backward) for tag in event.via)
    return frozenset(store.site for store in program.of(Store) if store.into in tags)


def _kept_by_method(program: Program, report: Report, store: Store) -> None:
    """A method that runs a backward pass keeps the loss in its object: its callers, which were not seen, call it once
    per step."""
    carrier = _carrier(program, store)
    if carrier is None or not store.calls or program.consumed(store.into) or not _outlives_call(program, store):
        return
    freed = next(
        (event for event in program.of(Backward) if event.calls == store.calls and event.roots & carrier.roots), None
    )
    if freed is None or freed.loops:
        return
    report(
        store.site,
        _message(program, store, is_freed=True),
        because=[trace for trace in (carrier.trace, freed.trace, store.place) if trace],
        gaps=[Gap.CONVENTION],
        severity=Severity.NOTE if store.site.path.endswith(".ipynb") else Severity.WARNING,
        fix=_fix(program, store, carrier, []),
    )


def _outlives_call(program: Program, store: Store) -> bool:
    """Whether what is stored into is an attribute of an object that other methods made, and is never emptied."""
    if not isinstance(store.into, int):
        return store.on_object
    made = program.function_around(program.objects[store.into].trace.site)
    here = program.function_around(store.site)
    kept = not program.emptied.get(store.into) and not program.objects[store.into].is_bounded
    return kept and made is not None and here is not None and made is not here


def _carrying(program: Program, store: Store) -> tuple[Loop, ...]:
    """The loops over whose iterations the place lives on, if each iteration can be a batch, an epoch or a step."""
    if not store.is_carried:
        return ()
    born = len(program.objects[store.into].loops) if isinstance(store.into, int) else born_under(program, store)
    loops = store.loops[born:]
    if all(program.runs_once(loop) for loop in loops):
        return ()
    steps = {event.loops for event in program.of(Step)} if loops and not grown_over(loops) else set()
    return loops if any(nest[: len(store.loops)] == store.loops for nest in steps) else grown_over(loops)


def _carrier(program: Program, store: Store) -> Tensor | Unknown | None:
    """The case of the stored value that holds a graph; a surely recorded one first."""
    found: list[Tensor | Unknown] = []
    for case in store.held or nested(store.value):
        if isinstance(case, Tensor) and case.roots and case.graph == "yes":
            return case
        if isinstance(case, (Tensor, Unknown)) and case.roots:
            found.append(case)
    return found[0] if found else None


def _still_full(program: Program, store: Store, loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
    """The carrying loops inside of which nothing empties the container: it grows over these."""
    if not isinstance(store.into, int):
        return loops
    keys = {loop.key for nest in program.emptied.get(store.into, ()) for loop in nest}
    inner = [index for index, loop in enumerate(loops) if loop.key in keys]
    return loops if not inner else grown_over(loops[inner[-1] + 1 :])


def _grown_in(store: Store, loops: tuple[Loop, ...]) -> Loop:
    """The loop to name: of a sum, the innermost that it grows in; of a container, the outermost that it outlives."""
    inner = [loop for loop in loops if grown_over((loop,))] if store.how in {"accumulate", "average"} else []
    return inner[-1] if inner else loops[0]


def _is_made_anew(program: Program, carrier: Tensor | Unknown, loops: tuple[Loop, ...]) -> bool:
    """Whether the iterations make graphs of their own: keeping parts of one earlier graph keeps that one only."""
    keys = {loop.key for loop in loops}
    around = [event.loops for event in program.of(Forward) if event.root in carrier.roots]
    if not around:
        return not all(_stands_before(program, root, loops) for root in carrier.roots)
    return any(loop.key in keys for nest in around for loop in nest)


def _stands_before(program: Program, root: Site, loops: tuple[Loop, ...]) -> bool:
    """Whether what gives a graph stands in the function of the loops and outside of them."""
    if program.function_around(root) is not program.function_around(loops[0].site) or root.path != loops[0].site.path:
        return False
    inside = walk((words(program).node(loops[0].site),), into_functions=True)
    return not any(getattr(part, "at", None) == root.at for part in inside)


def _freed_by(program: Program, store: Store, carrier: Tensor | Unknown, loops: tuple[Loop, ...]) -> Backward | None:
    passes = {event.site: event.root for event in program.of(Forward)} if store.calls else {}
    roots = carrier.roots | {
        passes[call] for call in store.calls if call in passes
    }  # a pass keeps what it goes through
    for event in program.within(Backward, store.loops[: len(store.loops) - len(loops) + 1]):
        if event.roots & roots:
            return event
    return None


def _is_needed_later(program: Program, store: Store, carrier: Tensor | Unknown, loops: tuple[Loop, ...]) -> bool:
    """Whether a backward pass after the loops goes through another output of the same forward passes (a policy beside
    a value): their graphs are needed until then, and freed then."""
    around = store.loops[: len(store.loops) - len(loops)]
    return any(
        event.roots & carrier.roots and event.order > store.order and len(event.loops) >= len(around)
        for event in program.within(Backward, around)
    )


def _is_listed(program: Program, store: Store, loops: tuple[Loop, ...]) -> bool:
    """Whether a comprehension puts what there is into another list, or a loop makes a handful of items."""
    return is_sorted(program, store) or is_counted_out(program, store, loops)


def _is_window(program: Program, store: Store, carrier: Tensor | Unknown, loops: tuple[Loop, ...]) -> bool:
    """Whether what is kept is dropped after a number of steps that is not that of the data: a rollout, a window of a
    sequence. How many steps that is, the text does not say; an evaluation is one over data all the same."""
    if len(store.loops) < 2 or (len(loops) == len(store.loops) and isinstance(store.into, int)):
        return False
    if any(loop.kind in {"data", "framework"} for loop in loops):
        return False
    passes = [event for event in program.of(Forward) if event.root in carrier.roots]
    return not passes or any(event.is_eval != "yes" for event in passes)


def _is_counted_inference(program: Program, store: Store) -> bool:
    """Whether a method of an object keeps something over counted loops in which nothing trains: a generation of so many
    steps, whose graph is too much (PF102 says so) and ends with the call."""
    around = program.function_around(store.site)
    if around is None or not around.params or around.params[0].name != "self":
        return False
    if any(loop.kind in {"data", "framework"} for loop in store.loops):
        return False
    return not any(program.within(Backward, store.loops[:1])) and not any(program.within(Step, store.loops[:1]))


def _gaps(program: Program, store: Store, carrier: Tensor | Unknown, loops: tuple[Loop, ...]) -> list[Gap]:
    """What could still consume an unfreed graph without our seeing it."""
    gaps = [] if isinstance(carrier, Tensor) and carrier.graph == "yes" else [Gap.UNSEEN]
    around = store.loops[: len(store.loops) - len(loops) + 1]
    if any(not event.is_known for event in program.within(Backward, around)) or program.is_called_without_grad(store):
        gaps.append(Gap.UNSEEN)
    if _is_window(program, store, carrier, loops) or _is_counted_inference(program, store):
        gaps.append(Gap.UNSEEN)
    if is_differentiated_elsewhere(program, store):
        gaps.append(Gap.UNSEEN)
    if all(loop.trace.gap is None for loop in loops) and not any(_is_seen(program, loop) for loop in loops):
        gaps.append(Gap.CONVENTION)  # `enumerate(self.outputs)`
    escape = program.escapes(store.into)
    if escape is not None:
        seen = networks_in(program, carrier)
        is_evaluation = escape.how == "return" and bool(seen) and all(event.is_eval == "yes" for event in seen)
        gaps.append(Gap.CONVENTION if is_evaluation else Gap.UNSEEN)
    return gaps


def _is_seen(program: Program, loop: Loop) -> bool:
    """Whether what a loop goes over is known: a loader, data, a count."""
    return loop.kind != "data" or any(program.objects[obj].kind in {"Loader", "Data"} for obj in loop.over)


def _message(program: Program, store: Store, *, is_freed: bool) -> str:
    what = _WHATS.get(store.how, "this container")
    text = program.sources.text(Site(store.site.path, store.value_at))
    of_what = "the tensor" if store.how in {"item", "joined"} else f"`{text}`"
    if is_freed:
        return (
            f"{what.capitalize()} {{does keep}} a piece of the autograd graph of every iteration: "
            f"the backward pass has freed the saved tensors, but not the graph itself. Store `.detach()` of {of_what}."
        )
    return (
        f"{what.capitalize()} {{does keep}} the whole autograd graph of every iteration alive, "
        "because no backward pass frees it: memory {will grow} until it runs out. "
        f"Store `.detach()` of {of_what}, or compute it under `torch.no_grad()`."
    )


def _fix(program: Program, store: Store, carrier: Tensor | Unknown, gaps: list[Gap]) -> DraftFix | None:
    """``.detach()`` on what is stored."""
    if not isinstance(store.value, Tensor) or store.how in {"item", "joined"}:
        return None
    edits = (InsertAfter(store.value_at, ".detach()"),)
    sure = carrier.graph == "yes" and not carrier.is_opaque if isinstance(carrier, Tensor) else False
    trace: Trace | None = carrier.trace
    safe = sure and not gaps and not (trace and Gap.UNSEEN in trace.gaps) and not program.escapes(store.into)
    return DraftFix("Detach the tensor before keeping it", "safe" if safe else "unsafe", edits)
