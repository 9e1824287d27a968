"""PF402 sync-in-hot-loop."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from analyzer.engine.device_events import Clock, Sync
from analyzer.engine.events import Backward, Event, Forward, Loop, Step
from analyzer.engine.program import Program, nest_key
from analyzer.engine.trace import Gap, Trace, start
from analyzer.engine.values import Const, Scalar
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.distinct_values import is_done_once, is_over_distinct, is_reached_once
from analyzer.rules.offered import is_switched_away
from analyzer.syntax import ir
from analyzer.syntax.scope import assigned_names, dotted, last_name, of_type, target_names, walk

MAX_FEW = 32
MAX_SHOWN = 8
"""Places that one finding names beside its own."""
MANY_READS = 3
"""So many numbers that are read one by one, in every step, are worth a word."""

_LOSSES = re.compile(r"loss", re.I)
_ELSEWHERE = re.compile(rb"cuda|device|\.to\(|accelerat|mps|xla|fabric|Trainer|gpu", re.IGNORECASE)
"""What a program says that uses anything but the CPU."""


_HANDED = frozenset({"grad", "_grad", "data"})


class SyncInHotLoop(Rule):
    """The host waits for the accelerator again and again inside a step.

    ## Why it matters
    Kernels run asynchronously: the host queues work ahead of the device. `.item()`, `.cpu()`, `float(t)`, `print(t)` or
    `if t:` wait until the device has finished everything queued so far. Once per step that is accepted practice; once
    per element, per parameter or in an inner loop the device idles most of the time.

    ## Example
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        norm = 0.0
        for p in model.parameters():
            norm += p.grad.norm().item() ** 2
        optimizer.step()
    ```

    ## Use instead
    ```python
        norms = [p.grad.norm() for p in model.parameters()]
        norm = torch.linalg.vector_norm(torch.stack(norms)).item()
    ```
    A wait per element or parameter in a training step is a warning, where the tensor is sent to a device or the file
    speaks of one. Waits that stand apart from each other in one training step, with work for the device between them,
    are a note: each but the last leaves the device without work. So are three or more numbers that every step reads one
    by one, the norm of gradients in a function whose callers were not seen, waits per element in evaluation, in a
    counted loop, around a loop that trains (once per epoch or round), or under a setting that nothing in the tree turns
    on (``--debug``), and `torch.cuda.synchronize()` or `empty_cache()` in every step.

    One copy of the whole tensor (`.cpu()`, `.tolist()`) before an inner loop works as well. The waits of one loop are
    one finding.

    ## When it stays quiet
    For one wait per step (logging, a running sum), under `step % n == 0` or a flag that is set there, over a
    handful of losses in a list or dict, for tensors in the host's memory, for measurements of time, in a branch for
    one of the elements (`if i == len(x) - 1:`), and where the number decides how the step goes on.

    ## Fix safety
    No automatic fix: what to gather, and when to read it, is the author's choice.
    """

    code = "PF402"
    name = "sync-in-hot-loop"
    alias = "TG007"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A wait in a loop inside the loop over steps, or an explicit one in every step."""
        syncs = [sync for sync in program.of(Sync) if not _is_occasional(program, sync)]
        if not syncs or not _may_leave_host(program):
            return
        training = _at_home(program.of(Backward))
        stepping = _at_home(program.of(Step))
        running = training | _at_home(each for each in program.of(Forward) if program.has_parameters(each))
        timed = program.nests_with(program.of(Clock))
        elements: dict[tuple[object, ...], list[_InLoop]] = {}
        for sync in syncs:
            steps = _around_unrolled(program, sync, training & stepping) or _step_loop(sync, running)
            inner = sync.loops[len(steps) :]
            if not inner and _is_of_called_step(program, sync):
                steps, inner = (), sync.loops
            elif not steps and not _is_of_gradients(program, sync):
                continue
            if sync.value is None:
                if nest_key(steps) in training and nest_key(steps) not in timed and not _waits_anyway(sync, syncs):
                    _report_explicit(program, report, sync, steps)
            elif inner and all(loop.kind != "while" for loop in inner):
                is_training = nest_key(steps) in training & stepping and _is_step(program, steps)
                element = next((loop for loop in inner if _runs_over_elements(program, loop)), None)
                if element is not None and not is_reached_once(program, sync, element):
                    found = _InLoop(sync, steps, element, is_training)
                    elements.setdefault((nest_key(steps), element.key, is_training), []).append(found)
        for waits in elements.values():
            _report_elements(program, report, waits)
        _report_between(program, report, [sync for sync in syncs if nest_key(sync.loops) in training])


def _is_occasional(program: Program, sync: Sync) -> bool:
    return any(guard.is_periodic for guard in sync.guards) or is_done_once(program, sync)


def _may_leave_host(program: Program) -> bool:
    """Whether any code that was read may put a model elsewhere than into the host's memory: a file that makes its
    models and never speaks of a device runs on the CPU."""
    is_given = any(program.objects[each.module].born for each in program.of(Forward) if each.module is not None)
    return is_given or any(_speaks_of_devices(program, path) for path in program.modules)


def _speaks_of_devices(program: Program, path: str) -> bool:
    return _ELSEWHERE.search(program.project.read(path) or b"") is not None


def _at_home(events: Iterable[Event]) -> frozenset[tuple[object, ...]]:
    """The nests whose iterations do something themselves: not those around a loop over data that does it."""
    found: set[tuple[object, ...]] = set()
    for loops in {event.loops for event in events}:
        over_data = [depth for depth, loop in enumerate(loops, 1) if loop.kind in {"data", "framework"}]
        found.update(nest_key(loops[:depth]) for depth in range(max(over_data, default=0), len(loops) + 1))
    return frozenset(found)


def _is_step(program: Program, nest: tuple[Loop, ...]) -> bool:
    """Whether each iteration runs backward, or steps, by itself: one that only holds a loop which trains (over batches
    that were gathered before) comes once per epoch or round."""
    key = nest_key(nest)
    events: list[Event] = [*program.within(Backward, nest), *program.within(Step, nest)]
    return any(nest_key(event.loops) == key for event in events)


def _step_loop(sync: Sync, running: frozenset[tuple[object, ...]]) -> tuple[Loop, ...]:
    """The loops up to the innermost one whose iterations run the model: a training step, or a batch of evaluation."""
    for depth in range(len(sync.loops), 0, -1):
        if nest_key(sync.loops[:depth]) in running:
            return sync.loops[:depth]
    return ()


def _around_unrolled(program: Program, sync: Sync, stepping: frozenset[tuple[object, ...]]) -> tuple[Loop, ...]:
    """The loops up to the one that trains, where the model runs in a loop inside of it (over time) and what is read is
    a part of the loss: nothing waits for the number."""
    roots = sync.value.roots if sync.value is not None else frozenset()
    for depth in range(len(sync.loops) - 1, 0, -1):
        nest = sync.loops[:depth]
        if nest_key(nest) in stepping:
            own = [each for each in program.within(Backward, nest) if nest_key(each.loops) == nest_key(nest)]
            return nest if any(roots & each.roots for each in own) else ()
    return ()


def _is_of_called_step(program: Program, sync: Sync) -> bool:
    """Whether a function that nothing calls takes one step, for its caller's loop, and runs the model over time in it:
    what is read is a part of the loss, and nothing waits for the number."""
    if sync.value is None or not sync.loops or not sync.calls or sync.calls[0] not in program.entries:
        return False
    steps = [event for event in program.of(Step) if not event.loops and event.calls[:1] == sync.calls[:1]]
    passes = [event for event in program.of(Backward) if not event.loops and event.calls[:1] == sync.calls[:1]]
    return bool(steps) and any(not event.is_known or sync.value.roots & event.roots for event in passes)


@dataclass(frozen=True, slots=True)
class _InLoop:
    """A wait per iteration of a loop inside a step."""

    sync: Sync
    steps: tuple[Loop, ...]
    element: Loop
    is_training: bool


def _report_elements(program: Program, report: Report, waits: list[_InLoop]) -> None:
    """The waits of one loop are one finding, at the first of those that are surely waits: one change mends all."""
    costly = [each for each in waits if _costs(program, each)]
    first = min(costly or waits, key=lambda each: (_gaps(each.sync) != [], each.sync.order))
    sync, element = first.sync, first.element
    others = list(dict.fromkeys(each.sync.site for each in waits if each.sync.site != sync.site))
    what = {"parameters": "parameter", "tensor": "element"}.get(element.runs_over, "iteration of an inner loop")
    what = "parameter" if _reads_gradients(program, element) else what
    more = f" So {'do' if len(others) > 1 else 'does'} {len(others)} more in this loop." if others else ""
    because: list[Trace] = [*(loop.trace for loop in first.steps[-1:]), element.trace, sync.trace]
    report(
        sync.site,
        f"`{program.sources.text(sync.site)}` {{does wait}} for the device once per {what}, in every step.{more} "
        "Gather the values on the device and read them once, outside the inner loop.",
        because=[*because, *(start(site, "another wait") for site in others[:MAX_SHOWN])],
        gaps=_gaps(sync),
        severity=Severity.WARNING if costly else Severity.NOTE,
    )


def _costs(program: Program, wait: _InLoop) -> bool:
    """Whether a training step waits for each of many: elements of what it makes, or parameters, on a device."""
    is_counted = wait.element.runs_over == "range"
    is_over_data = any(loop.kind in {"data", "framework"} for loop in wait.steps[-1:])
    is_each = wait.element.runs_over in {"tensor", "parameters"} and not is_over_distinct(program, wait.element)
    is_each = is_each and not _may_be_a_few(program, wait.element)
    is_many = is_each or (is_counted and is_over_data and _is_item_of(program, wait.sync, wait.steps[-1], wait.element))
    is_on_device = wait.sync.value is not None and wait.sync.value.device == "accelerator"
    is_costly = wait.is_training and is_many and (is_on_device or _speaks_of_devices(program, wait.sync.site.path))
    if not is_costly or is_switched_away(program, wait.sync) or _is_of_losses(program, wait.sync):
        return False
    return not _is_handed_on(program, wait.sync) and not _is_of_some(program, wait)


def _is_of_losses(program: Program, sync: Sync) -> bool:
    """Whether what is read, or what it is put into, is called losses: a few numbers that a step logs, one for each term
    or network (``loss_rec[arm].item()``, ``losses += [x.item() for x in terms]``)."""
    read, unit = words(program).node(sync.site), program.unit(sync.site.path)
    parts = walk((read,) if isinstance(read, ir.Expr) else (), False)
    bases = {name for part in parts if isinstance(part, ir.Subscript) and (name := dotted(part.value)) is not None}
    if any(_LOSSES.search(name) for name in bases - _each_differentiated(program, sync)):
        return True
    pairs = [(node.targets, node.value) for node in of_type(unit, ir.Assign)]
    pairs += [((node.target,), node.value) for node in of_type(unit, ir.Augment)]
    kept = (value for targets, value in pairs if any(_LOSSES.search(last_name(target)) for target in targets))
    return any(getattr(part, "at", None) == sync.site.at for value in kept for part in walk((value,), False))


def _each_differentiated(program: Program, sync: Sync) -> set[str]:
    """The names of a function of which a mean or a sum runs backward: one loss for each sample."""
    function, unit = program.function_around(sync.site), program.unit(sync.site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    reduced = (part.callee for part in walk(body, False) if isinstance(part, ir.Call))
    return {
        name
        for callee in reduced
        if isinstance(callee, ir.Attribute) and callee.attr in {"mean", "sum"}
        if (name := dotted(callee.value)) is not None
    }


def _is_handed_on(program: Program, sync: Sync) -> bool:
    """``shared.grad = local.grad.cpu()``: the copy is what is wanted, for a network that lives elsewhere."""
    unit = program.unit(sync.site.path)
    kept = (node for node in of_type(unit, ir.Assign) if any(last_name(to) in _HANDED for to in node.targets))
    return any(getattr(part, "at", None) == sync.site.at for node in kept for part in walk((node,), False))


def _is_of_some(program: Program, wait: _InLoop) -> bool:
    """``if name == "head.weight":``, ``if key in name.split("."):``: whether the text picks some parameters by name."""
    statement = program.statement_of(wait.element) if wait.element.runs_over == "parameters" else None
    names = set(target_names(statement.target)) if statement is not None else set()
    asked = (words(program).node(guard.site) for guard in wait.sync.guards if names)
    tests = [node.test for node in asked if isinstance(node, ir.If) and isinstance(node.test, ir.Operation)]
    return any(
        isinstance(part, ir.Name) and part.id in names
        for test in tests
        if test.op in {"in", "=="}
        for part in walk((test,), False)
    )


def _may_be_a_few(program: Program, loop: Loop) -> bool:
    """Whether the function asks what the loop goes over for being a tuple or a list: a few tensors, one by one
    (``tuple(each.cpu() for each in data) if type(data) == tuple``)."""
    node, function = words(program).node(loop.site), program.function_around(loop.site)
    over = node.iter if isinstance(node, ir.For) else node
    if not isinstance(over, ir.Name) or function is None:
        return False
    for part in walk(function.body, False):
        asked = part.left if isinstance(part, ir.Operation) else part
        if isinstance(asked, ir.Call) and dotted(asked.callee) in {"type", "isinstance"} and asked.args:
            kinds = [*(arg.value for arg in asked.args[1:]), *([part.right] if isinstance(part, ir.Operation) else [])]
            named = {each.id for kind in kinds for each in walk((kind,), False) if isinstance(each, ir.Name)}
            if dotted(asked.args[0].value) == over.id and named & {"tuple", "list", "Sequence"}:
                return True
    return False


def _gaps(sync: Sync) -> list[Gap]:
    return [Gap.CONVENTION] if sync.value is not None and sync.value.device == "model" else []


def _is_item_of(program: Program, sync: Sync, step: Loop, counted: Loop) -> bool:
    """Whether what is read is the element that a counted loop counts to (``predictions[i].item()``) of what the step
    makes: what stands before the loop over data is a few settings (one for each channel)."""
    numbers, read = _counters(program, counted), words(program).node(sync.site)
    made = _made_in(program, step, sync)
    return any(
        isinstance(part, ir.Name) and part.id in numbers
        for item in walk((read,) if isinstance(read, ir.Expr) else (), False)
        if isinstance(item, ir.Subscript) and dotted(item.value) in made
        for part in walk((_first(item.index),), False)
    )


def _counters(program: Program, counted: Loop) -> set[str]:
    """The names that a counted loop counts with, also those of a comprehension."""
    statement, function = program.statement_of(counted), program.function_around(counted.site)
    if statement is not None:
        return set(target_names(statement.target))
    return {
        name
        for node in walk(function.body if function is not None else (), False)
        if isinstance(node, ir.Comprehension)
        for clause in node.clauses
        if clause.iter.at == counted.site.at
        for name in target_names(clause.target)
    }


def _first(index: ir.Expr) -> ir.Expr:
    """``i`` of ``x[i, 0]``: which sample it is; ``x[:, c]`` is one of a few channels or classes."""
    return index.items[0] if isinstance(index, ir.Display) and index.items else index


def _made_in(program: Program, step: Loop, sync: Sync) -> set[str]:
    """The names that get another value in every step: in the loop, or in a function that it calls."""
    function, loop = program.function_around(sync.site), program.statement_of(step)
    is_here = function is program.function_around(step.site)
    names = {param.name for param in function.params} if function is not None and not is_here else set()
    if loop is not None and is_here:
        names |= set(target_names(loop.target))
    body = (loop.body if loop is not None else ()) if is_here else function.body if function is not None else ()
    for node in walk(body, False):
        if isinstance(node, ir.Assign):
            names |= set(assigned_names(node))
    return names


def _is_of_gradients(program: Program, sync: Sync) -> bool:
    """Whether a function that nothing calls goes over parameters and waits for a number of each gradient: by its use,
    a norm that every step takes."""
    is_entry = bool(sync.calls) and sync.calls[0] in program.entries
    return sync.value is not None and is_entry and len(sync.loops) == 1 and _reads_gradients(program, sync.loops[0])


def _reads_gradients(program: Program, loop: Loop) -> bool:
    """``for p in parameters: … p.grad …``."""
    statement = program.statement_of(loop)
    names = set(target_names(statement.target)) if statement is not None else set()
    return statement is not None and any(
        isinstance(part, ir.Attribute) and part.attr == "grad" and dotted(part.value) in names
        for part in walk(statement.body, False)
    )


def _runs_over_elements(program: Program, loop: Loop) -> bool:
    """Whether a loop has an iteration for each of many: not for the few layers or scales of a list."""
    if loop.runs_over in {"", "container"} and loop.kind != "range":
        return _reads_gradients(program, loop)
    if loop.runs_over != "range":
        return loop.runs_over in {"tensor", "parameters"}
    cases = loop.bound.cases if loop.bound is not None else ()
    return not any(
        (isinstance(case, Scalar) and case.kind == "length")
        or (isinstance(case, Const) and isinstance(case.value, int) and case.value <= MAX_FEW)
        for case in cases
    )


def _waits_anyway(sync: Sync, syncs: list[Sync]) -> bool:
    """Whether a number is read right after in the same step, which waits for the same work."""
    nest = nest_key(sync.loops)
    return any(each.value is not None and nest_key(each.loops) == nest and each.order > sync.order for each in syncs)


def _report_explicit(program: Program, report: Report, sync: Sync, steps: tuple[Loop, ...]) -> None:
    """``synchronize()`` and ``empty_cache()`` in every training step."""
    report(
        sync.site,
        f"`{program.sources.text(sync.site)}` {{does stop}} the host in every training step until the device is idle. "
        "Call it once per epoch, or not at all.",
        because=[steps[-1].trace, sync.trace],
        gaps=[Gap.CONVENTION],
        severity=Severity.NOTE,  # often beside another wait that drains the same queue, or against fragmentation
    )


def _report_between(program: Program, report: Report, syncs: list[Sync]) -> None:
    """Waits in the middle of a training step that has another one later: the device runs dry in between."""
    by_step: dict[tuple[object, ...], list[Sync]] = {}
    for sync in syncs:
        if sync.value is not None and not sync.guards:
            by_step.setdefault(nest_key(sync.loops), []).append(sync)
    work = [event for event in program.events if isinstance(event, (Forward, Backward, Step))] if by_step else []
    for nest, found in by_step.items():
        inside = [event.order for event in work if nest_key(event.loops) == nest]
        last = max(sync.order for sync in found)
        between = [sync for sync in found if any(sync.order < order < last for order in inside)]
        if not between and len({sync.site for sync in found}) >= MANY_READS:
            _report_many(program, report, found)
        if between:
            first, more = between[0], len({sync.site for sync in between}) - 1
            rest = f" So {'do' if more > 1 else 'does'} {more} more in this step." if more else ""
            report(
                first.site,
                f"`{program.sources.text(first.site)}` {{does wait}} for the device in the middle of a step that waits "
                f"again later.{rest} Read all values together, after the step.",
                because=[first.loops[-1].trace, first.trace],
                gaps=[Gap.CONVENTION],
                severity=Severity.NOTE,
            )


def _report_many(program: Program, report: Report, found: list[Sync]) -> None:
    """A row of numbers that are read one after the other at the end of every step."""
    first, count = found[0], len({sync.site for sync in found})
    report(
        first.site,
        f"Every step {{does read}} {count} numbers one by one, beginning with `{program.sources.text(first.site)}`, "
        "and each waits for the device. Stack them and read them once, or every n-th step.",
        because=[first.loops[-1].trace, first.trace],
        gaps=[Gap.CONVENTION],
        severity=Severity.NOTE,
    )
