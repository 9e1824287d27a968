"""PF202 unscaled-accumulation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from analyzer.engine.events import Backward, Clear, Event, Guard, Loop, Step
from analyzer.engine.measures import DIVIDED_IN_PLACE as DIVIDED
from analyzer.engine.measures import Drawn, Mark
from analyzer.engine.micro import goes_over_parts, is_averaged_over, takes_parts
from analyzer.engine.optim_events import Accumulate, Clip, GradientRead
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Trace
from analyzer.engine.values import Value
from analyzer.engine.words import spelled, words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertAfter, InsertBefore
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.counted import is_written
from analyzer.rules.iteration import exclude
from analyzer.rules.spoken_steps import summed_micro_batches, tell
from analyzer.syntax import ir
from analyzer.syntax.scope import assigned_names, last_name, of_type, walk

_SCALED = {Mark.FACTOR, Mark.WEIGHT, Mark.SUM}
_OURS = {"Tensor", "torch", "Module", "Scaler", "Fabric"}
"""Whose ``backward`` leaves the loss as it is: engines and accelerators scale it themselves."""
_ACCELERATORS = frozenset({"accelerate.Accelerator", "accelerate.accelerator.Accelerator"})

_DECOUPLED = frozenset({"AdamW"})
_NORMALISES = _DECOUPLED | {"Adam", "Adamax", "RMSprop", "Adagrad", "Adadelta"}
"""Optimizers whose step, but for `eps`, does not depend on the scale of gradients (Kingma & Ba 2015, section 2.1)."""


class UnscaledAccumulation(Rule):
    """Gradients of several micro-batches are summed where their mean is meant.

    ## Why it matters
    ``backward()`` adds to ``.grad``. Over ``n`` micro-batches of a mean loss, the step applies ``n`` times the gradient
    of the large batch that is imitated: with SGD the learning rate is ``n`` times what it says, with any optimizer
    clipping and weight decay weigh differently. Results change when only the number of micro-batches does.

    ## Example
    ```python
    n = 4
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Use instead
    ```python
        loss = criterion(model(x), y) / n
        loss.backward()
    ```

    ## When it stays quiet
    When the loss is divided or multiplied by anything, when gradients are read or scaled before the step, for losses
    that are sums by choice, when a framework (DeepSpeed, Lightning, an `Accelerator` that is told of accumulation or
    was not seen) owns the backward pass, and when the periodic condition guards the backward pass as well: training
    every n-th step accumulates nothing. A note where the number of micro-batches of a periodic condition comes from
    outside the file (by default it may well be one), where only names say what steps and how often, and for optimizers
    that divide gradients by their own size (Adam), where nothing clips them and no decay of weights is added to them:
    the factor cancels.

    ## Fix safety
    Unsafe: the learning rate may have been tuned for the summed gradients.
    """

    code = "PF202"
    name = "unscaled-accumulation"
    alias = "TG014"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A step every n-th iteration or after an inner loop, of gradients that every iteration adds to."""
        if any(True for _ in program.of(Accumulate)):
            return
        for step in program.of(Step):
            for backward, loops, gaps in (*_periodic(program, step), *_nested(program, step)):
                report(
                    backward.site,
                    "Gradients of several micro-batches add up until the optimizer steps, and nothing divides the loss "
                    "by their number: the step {will apply} their sum where a mean is meant. "
                    "Divide the loss by the number of accumulation steps before `backward()`.",
                    because=_because(program, step, backward, loops),
                    gaps=[*gaps, Gap.UNSEEN] if _is_left_open(program, backward) else gaps,
                    severity=Severity.NOTE
                    if _is_open(program, step)
                    or _is_weighed(program, step, backward)
                    or _is_all_the_same(program, step)
                    else None,
                    fix=_fix(program, step, backward),
                )
        tell(
            report,
            summed_micro_batches(program),
            "Gradients of several micro-batches add up until `{of}` steps, and nothing in this file divides the loss "
            "by their number: the step {will apply} their sum where a mean is meant. Divide the loss by the number of "
            "accumulation steps before `backward()`.",
            "the backward pass of one micro-batch",
            "the step",
            at_first=True,
        )


Found = tuple[Backward, tuple[Loop, ...], list[Gap]]
E = TypeVar("E", bound=Event)


def _is_open(program: Program, step: Step) -> bool:
    """Whether the optimizer steps every so many iterations, and nobody wrote down how many: it may be one."""
    periods = [guard.site for guard in step.guards if guard.is_periodic]
    return bool(periods) and not any(is_written(program, site) for site in periods)


def _is_all_the_same(program: Program, step: Step) -> bool:
    """Whether the optimizer divides gradients by their own size (Adam), so that a factor changes nothing: where nothing
    clips them, and no decay of weights is added to them."""
    made = program.objects[step.optimizer] if step.optimizer is not None else None
    name = (made.name or "").rpartition(".")[2] if made is not None else ""
    is_mixed = made is None or (name not in _DECOUPLED and "weight_decay" in dict(made.arguments))
    return name in _NORMALISES and not is_mixed and not any(True for _ in program.of(Clip))


def _is_weighed(program: Program, step: Step, backward: Backward) -> bool:
    """Whether the loss is multiplied or divided on some of the ways to the backward pass, by an option: not on all."""
    same = (event for event in _beside(program, Backward, step) if event.site == backward.site)
    return any(event.via & _SCALED for event in same)


def _because(program: Program, step: Step, backward: Backward, loops: tuple[Loop, ...]) -> list[Trace]:
    made = [program.objects[step.optimizer].trace] if step.optimizer is not None else []
    return [*made, *(loop.trace for loop in loops), backward.trace, step.trace]


def _periodic(program: Program, step: Step) -> Iterator[Found]:
    """``if (i + 1) % n == 0: step(); zero_grad()``."""
    guards = {guard for guard in step.guards if guard.is_periodic}
    nest = step.loops
    if not guards or not _survives(program, step, guards):
        return
    backwards = [event for event in _beside(program, Backward, step) if _adds_up(program, event)]
    added = [event for event in backwards if not guards & set(event.guards)]
    if not added or (len(added) < len(backwards) and not _is_in_both(program, step, guards, backwards)):
        return
    if any(event.loops != nest for event in added) or _is_normalised(program, step, nest, added):
        return
    if any(_divides(program, guard, nest) for guard in guards):
        return
    others = [event for event in _beside(program, Step, step) if not any(guard.is_periodic for guard in event.guards)]
    if others:
        return
    is_sure = not nest or nest[-1].kind in {"data", "framework"} or _draws(program, nest)
    ours = [event for event in added if _is_ours(program, event)]
    is_seen = bool(nest) and ours[-1].by in _OURS
    yield ours[-1], nest[-1:], [Gap.UNSEEN] if nest and not is_sure else [] if is_seen else [Gap.CONVENTION]


def _is_in_both(program: Program, step: Step, guards: set[Guard], backwards: list[Backward]) -> bool:
    """Whether the backward pass stands in both branches of the condition (one of them under ``no_sync()``), and only
    one of them steps."""
    others = {guard.other for guard in guards}
    steps = (event for event in _beside(program, Step, step) if others & set(event.guards))
    return any(others & set(event.guards) for event in backwards) and not any(True for _ in steps)


def _divides(program: Program, guard: Guard, nest: tuple[Loop, ...]) -> bool:
    """Whether the loop, or the function, divides anything by the number of the condition, if only where there are
    several: a default of 1 is not what other runs have."""
    node, function = words(program).node(guard.site), program.function_around(guard.site)
    tests = walk((node.test,), False) if isinstance(node, ir.If) else ()
    moduli = [each.right for each in tests if isinstance(each, ir.Operation) and each.op == "%"]
    counts = {spelled(each) for each in moduli if each is not None and not isinstance(each, ir.Constant)}
    loop = program.statement_of(nest[-1]) if nest else function
    return any(
        (
            isinstance(each, ir.Operation)
            and each.op == "/"
            and each.right is not None
            and spelled(each.right) in counts
            and not _is_read_off(each.left)
        )
        or (isinstance(each, ir.Augment) and each.op == "/" and spelled(each.value) in counts)
        for each in (walk(loop.body, False) if loop is not None else ())
    )


def _is_read_off(divided: ir.Expr) -> bool:
    """``loss.item() / n`` is for the log: no gradient is divided."""
    callee = divided.callee if isinstance(divided, ir.Call) else None
    return isinstance(callee, ir.Attribute) and callee.attr in {"item", "detach", "tolist"}


def _adds_up(program: Program, event: Backward) -> bool:
    """Whether a backward pass adds to ``.grad``: ``autograd.grad`` gives its gradients to the caller."""
    return re.match(r"[\w.]*\bgrad\(", program.sources.text(event.site)) is None


def _beside(program: Program, kind: type[E], step: Step) -> Iterator[E]:
    """The events in the loops of a step; without loops, those of the same entry (a method that learns from a batch)."""
    entry = step.calls[:1]
    return (event for event in program.within(kind, step.loops) if step.loops or event.calls[:1] == entry)


def _survives(program: Program, step: Step, guards: set[Guard]) -> bool:
    """Whether gradients live from one step to the next, and are cleared with it: every clear is under a periodic
    condition too."""
    clears = [event for event in _beside(program, Clear, step) if not program.disjoint(event.modules, step.modules)]
    return all(any(guard.is_periodic for guard in event.guards) for event in clears) and (bool(clears) or step.clears)


def _nested(program: Program, step: Step) -> Iterator[Found]:
    """``for _ in range(n): loss.backward()`` and then ``step()``."""
    nest = step.loops
    inner = [
        event
        for event in program.within(Backward, nest)
        if _adds_up(program, event)
        and len(event.loops) == len(nest) + 1
        and event.order < step.order
        and (_is_counted(program, event.loops[-1]) or is_averaged_over(program, event.loops[-1]))
    ]
    if not inner or any(guard.is_periodic for guard in step.guards):
        return
    whole = inner[-1].loops
    if any(event.order < step.order for event in (*program.within(Clear, whole), *program.within(Step, whole))):
        return
    if any(event.loops != whole for event in inner) or _is_normalised(program, step, whole, inner):
        return
    if not any(not program.disjoint(event.modules, step.modules) for event in program.within(Clear, nest)):
        return
    is_sure = _draws(program, whole)
    is_meant = is_averaged_over(program, whole[-1])  # what is reported is the mean: so were the gradients meant to be
    yield inner[-1], whole[-1:], [] if is_sure else [Gap.CONVENTION] if is_meant else [Gap.UNSEEN]


def _is_normalised(program: Program, step: Step, nest: tuple[Loop, ...], added: list[Backward]) -> bool:
    """Whether the loss is scaled, a sum by choice or owned by a framework, or gradients are used for anything else."""
    if not all(_is_ours(program, event) or _is_apart(program, event, added) for event in added):
        return True
    if any(_is_divided_here(program, event) for event in added):
        return True
    scaled = [event for event in added if event.via & _SCALED]
    is_divided = any(Mark.FACTOR in event.via for event in scaled)
    if is_divided or all(event in scaled for event in added if _is_ours(program, event)):
        return True  # divided on one of the ways to it: by the number, where that is an option
    last = max(event.order for event in added)
    if any(last < read.order < step.order for read in program.within(GradientRead, step.loops)):
        return True  # ``for p in parameters: p.grad.div_(n)``, after the loop of the backward passes
    reads = program.within(GradientRead, nest) if nest else _beside(program, GradientRead, step)
    return any(True for _ in reads)


def _is_divided_here(program: Program, backward: Backward) -> bool:
    """Whether the function of the backward pass divides its loss, of which nothing is known, in place: ``loss /= n``,
    ``loss.div_(n)``."""
    function = program.function_around(backward.site)
    node = words(program).node(backward.site)
    if function is None or node is None:
        return False
    used = {part.id for part in walk((node,), False) if isinstance(part, ir.Name)}
    for part in walk(function.body, False):
        if isinstance(part, ir.Augment) and part.op == "/":
            divided = part.target
        elif isinstance(part, ir.Call) and isinstance(part.callee, ir.Attribute) and part.callee.attr in DIVIDED:
            divided = part.callee.value
        else:
            continue
        if isinstance(divided, ir.Name) and divided.id in used:
            return True
    return False


def _is_ours(program: Program, event: Backward) -> bool:
    """Whether a backward pass leaves the loss as it is, as an accelerator also does that is told of no accumulation."""
    if event.by != "Accelerator":
        return event.by in _OURS
    made = [obj for obj in program.objects if obj.kind == "Accelerator"]
    return (
        bool(made)
        and not _is_told_later(program, event)
        and all(obj.name in _ACCELERATORS and not _may_divide(obj.arguments) for obj in made)
    )


def _is_told_later(program: Program, event: Backward) -> bool:
    """``accelerator.gradient_accumulation_steps = 4``."""
    call = words(program).node(event.site)
    of = call.callee.value if isinstance(call, ir.Call) and isinstance(call.callee, ir.Attribute) else None
    targets = (target for node in of_type(program.unit(event.site.path), ir.Assign) for target in node.targets)
    return of is not None and any(
        isinstance(target, ir.Attribute)
        and target.attr == "gradient_accumulation_steps"
        and last_name(target.value) == last_name(of)
        for target in targets
    )


def _may_divide(arguments: tuple[tuple[str, Value], ...]) -> bool:
    return any("accumulation" in name or "plugin" in name or not name.isidentifier() for name, _ in arguments)


def _is_apart(program: Program, event: Backward, added: list[Backward]) -> bool:
    """Whether something else runs the backward pass on a way apart from one of ours: an option chooses (``if fp16:
    optimizer.backward(loss)``), or apex is not installed, and what gave the loss not known."""
    ours = [each for each in added if _is_ours(program, each)]
    return any(exclude(event, each) or (not event.by and event.site == each.site) for each in ours)


def _draws(program: Program, nest: tuple[Loop, ...]) -> bool:
    """Whether each iteration takes a batch of its own."""
    return any(event.loops == nest for event in program.within(Drawn, nest)) or (
        bool(nest) and takes_parts(program, nest[-1])
    )


def _is_counted(program: Program, loop: Loop) -> bool:
    """Whether a loop counts, or goes over parts of a batch."""
    return loop.kind == "range" or (loop.kind != "while" and goes_over_parts(program, loop))


def _is_left_open(program: Program, backward: Backward) -> bool:
    """Whether the loss comes from a method that the class leaves to its subclasses: they may divide it."""
    function, unit = program.function_around(backward.site), program.unit(backward.site.path)
    if function is None or unit is None:
        return False
    said = program.sources.text(backward.site)
    asked: set[str] = set()
    for node in walk(function.body, False):
        value = node.value if isinstance(node, ir.Assign) else None
        if isinstance(node, ir.Assign) and isinstance(value, ir.Call) and isinstance(value.callee, ir.Attribute):
            names = set(assigned_names(node))
            asked |= {value.callee.attr} if any(re.search(rf"\b{name}\b", said) for name in names) else set()
    defined = (node for node in of_type(unit, ir.FunctionDef) if node.name in asked)
    return any(any(isinstance(each, ir.Raise) for each in node.body) for node in defined)


def _fix(program: Program, step: Step, backward: Backward) -> DraftFix | None:
    """Divide by the modulus, where it is written in the condition."""
    loss = program.sources.receiver(backward.site)
    for guard in step.guards:
        count = program.sources.modulus(guard.site) if guard.is_periodic else None
        if count is not None and loss is not None and guard.site.path == backward.site.path:
            edits = (InsertBefore(loss, "("), InsertAfter(loss, f" / {count})"))
            return DraftFix("Divide the loss by the number of accumulation steps", "unsafe", edits)
    return None
