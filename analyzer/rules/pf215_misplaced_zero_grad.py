"""PF215 misplaced-zero-grad."""

from __future__ import annotations

import re

from analyzer.engine.events import Backward, Clear, Escape, Guard, Loop, Step
from analyzer.engine.micro import goes_over_parts
from analyzer.engine.optim_events import Accumulate, GradientRead
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, start
from analyzer.engine.values import Const
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.counted import is_one
from analyzer.rules.iteration import (
    between,
    clears,
    exclude,
    extra_guards,
    in_one_iteration,
    is_within_guards,
    may_clear,
)

_ACCUMULATES = re.compile(rb"gradient_accumulation|GradientAccumulationPlugin")


class MisplacedZeroGrad(Rule):
    """Gradients are reset at the wrong time, or those of the wrong object.

    ## Why it matters
    Between ``backward()`` and ``step()`` a reset throws away what was just computed: the step applies nothing. In every
    micro-batch of an accumulation it throws away all micro-batches but the last: the effective batch is not what it
    says. Of the wrong object it changes nothing where it should. Nothing fails.

    ## Example
    ```python
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        (criterion(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
    ```

    ## Use instead
    ```python
    for i, (x, y) in enumerate(loader):
        (criterion(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## When it stays quiet
    When a backward pass follows the reset before the step, or each iteration of an inner loop uses its gradients; when
    the step's condition is no accumulation (the backward pass stands under it too, or it skips bad losses); when the
    resets belong to another optimizer; for Accelerate's ``accumulate()`` with the reset after the step.

    ## Fix safety
    No automatic fix: where the reset belongs is the author's choice (before the backward pass, or after the step).
    """

    code = "PF215"
    name = "misplaced-zero-grad"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """Each reset against the steps and backward passes of its loop."""
        all_clears = [clear for clear in program.of(Clear) if not clear.is_replaced]
        if not all_clears:
            return
        backwards, steps = list(program.of(Backward)), list(program.of(Step))
        for step in steps:
            mine = [clear for clear in all_clears if in_one_iteration(program, clear, step)]
            ours = [backward for backward in backwards if in_one_iteration(program, backward, step)]
            _wiped(program, report, step, mine, ours)
            _wiped_accumulation(program, report, step, mine, ours)
            _wrong_object(program, report, step, mine, ours)
            _wiped_in_inner_loop(program, report, step, all_clears)
        _first_in_accumulate(program, report, all_clears, backwards)


def _wiped(program: Program, report: Report, step: Step, mine: list[Clear], backwards: list[Backward]) -> None:
    """backward, zero_grad, step."""
    for clear in mine:
        if not (clear.order < step.order and clears(clear, step) and is_within_guards(step, clear)):
            continue
        before = [event for event in backwards if event.order < clear.order and not exclude(event, clear)]
        if not before or between(program.of(Backward), clear, step) or between(program.of(Step), before[-1], clear):
            continue
        unseen = [e for e in between(program.of(Escape), clear, step) if isinstance(e, Escape) and e.how == "call"]
        report(
            clear.site,
            "This resets the gradients after the backward pass and before the step: the step {does apply} nothing. "
            "Reset before the backward pass or after the step.",
            because=[before[-1].trace, start(clear.site, "the gradients are reset here"), step.trace],
            gaps=[Gap.UNSEEN] if any(e.roots for e in unseen) or _are_taken(program, before[-1], clear) else [],
        )


def _are_taken(program: Program, backward: Backward, clear: Clear) -> bool:
    """Whether the gradients are read before they are reset: they may live on elsewhere. ``p.grad.zero_()`` reads them
    as well."""
    return any(read.order != clear.order - 1 for read in between(program.of(GradientRead), backward, clear))


def _wiped_accumulation(
    program: Program, report: Report, step: Step, mine: list[Clear], backwards: list[Backward]
) -> None:
    """zero_grad in every iteration, step in every n-th."""
    for periodic in (guard for guard in step.guards if guard.is_periodic):
        rest = [other for other in program.of(Step) if other.optimizer == step.optimizer and other is not step]
        if any(in_one_iteration(program, other, step) and periodic not in other.guards for other in rest):
            continue
        own = [event for event in backwards if periodic in event.guards and event.order < step.order]
        free = [event for event in backwards if periodic not in event.guards and periodic.other not in event.guards]
        if own:  # what is stepped every n-th time is computed every n-th time
            continue
        for clear in mine:
            if periodic in clear.guards or periodic.other in clear.guards or not clears(clear, step):
                continue
            if any(guard.is_periodic for guard in clear.guards) or not free or exclude(clear, step):
                continue
            if not is_within_guards(free[-1], clear):  # `if i == 0: optimizer.zero_grad()`, once
                continue
            if not is_within_guards(step, clear):  # `if i == 0: self.measure()`, with a backward pass of its own
                continue
            report(
                clear.site,
                "This resets the gradients in every iteration, but the optimizer steps only in some of them: the "
                "gradients accumulated so far {is} thrown away. Reset only after the step.",
                because=[
                    free[-1].trace,
                    start(clear.site, "the gradients are reset here, in every iteration"),
                    start(periodic.site, "this condition holds every n-th time"),
                    step.trace,
                ],
                severity=Severity.NOTE if is_one(program, periodic.site) else None,
            )


def _wiped_in_inner_loop(program: Program, report: Report, step: Step, all_clears: list[Clear]) -> None:
    """zero_grad in every iteration of a loop that ends before the step: all but its last backward pass are wiped."""
    depth = len(step.loops)
    for clear in (each for each in all_clears if each.order < step.order and clears(each, step)):
        nest = clear.loops
        if [loop.key for loop in nest[:depth]] != [loop.key for loop in step.loops] or len(nest) != depth + 1:
            continue
        if not _goes_over_batches(program, nest[-1]) or extra_guards(clear, step) or extra_guards(step, clear):
            continue
        inside = [event for event in program.within(Backward, nest) if event.order > clear.order]
        if not inside or any(True for _ in program.within(Step, nest)) or _are_used(program, nest, clear, step):
            continue
        if any(event.order < clear.order for event in program.within(Backward, nest)):
            continue
        if any(inside[-1].order < event.order < step.order for event in program.within(Backward, step.loops)):
            continue  # the step applies what comes after the loop
        report(
            clear.site,
            "This resets the gradients in every iteration of the inner loop, but the optimizer steps only after it: "
            "of all its backward passes the last one alone {is} applied. Reset before the loop.",
            because=[
                nest[-1].trace,
                start(clear.site, "the gradients are reset here, in every iteration"),
                inside[-1].trace,
                step.trace,
            ],
        )


def _goes_over_batches(program: Program, loop: Loop) -> bool:
    """Whether the iterations of a loop are batches, parts of one or a number of them, more than a single one."""
    cases = loop.bound.cases if loop.bound is not None else ()
    if any(isinstance(case, Const) and isinstance(case.value, int) and case.value <= 1 for case in cases):
        return False
    return loop.kind in {"data", "range"} or (loop.kind == "other" and goes_over_parts(program, loop))


def _are_used(program: Program, nest: tuple[Loop, ...], clear: Clear, step: Step) -> bool:
    """Whether the gradients of one iteration are read in it, by code that is seen or by a call that is not."""
    if any(True for _ in program.within(GradientRead, nest)):
        return True
    ours = step.modules | clear.modules | frozenset(each for each in (step.optimizer,) if each is not None)
    return any(event.how == "call" and event.objects & ours for event in program.within(Escape, nest))


def _wrong_object(program: Program, report: Report, step: Step, mine: list[Clear], backwards: list[Backward]) -> None:
    """The optimizer that steps is never reset, another one is reset twice before any backward pass."""
    if not backwards or step.optimizer is None or any(_may_be_its(program, clear, step) for clear in mine):
        return
    for clear in mine:
        twice = [other for other in mine if other is not clear and _same_object(other, clear)]
        first = next((other for other in twice if other.order < clear.order), None)
        if first is not None and _is_for(program, clear, step, backwards):
            _report_wrong(report, first, clear, step)
            return
        if first is None or between(program.of(Backward), first, clear) or between(program.of(Step), first, clear):
            continue
        if exclude(first, clear):
            continue
        _report_wrong(report, first, clear, step)


def _may_be_its(program: Program, clear: Clear, step: Step) -> bool:
    """Whether what is reset may be what a step applies: of two optimizers that come from elsewhere, each holds its own
    parameters."""
    are_two = None not in {clear.optimizer, step.optimizer} and clear.optimizer != step.optimizer
    return not (are_two and not clear.modules and not step.modules) and may_clear(program, clear, step)


def _report_wrong(report: Report, first: Clear, clear: Clear, step: Step) -> None:
    report(
        clear.site,
        "The same gradients are reset twice here, and those that the step below applies {is} never reset: "
        "another object is meant.",
        because=[start(first.site, "reset here already"), start(clear.site, "and here again"), step.trace],
    )


def _is_for(program: Program, clear: Clear, step: Step, backwards: list[Backward]) -> bool:
    """Whether a reset stands right before the backward pass that a step applies, while what it resets is not stepped
    any more in this iteration."""
    passes = [event for event in backwards if clear.order < event.order < step.order]
    steps = [event for event in program.of(Step) if in_one_iteration(program, event, step)]
    steps = [event for event in steps if event.order > clear.order]
    if len(passes) != 1 or not steps or steps[0] is not step or any(exclude(clear, event) for event in (step, *passes)):
        return False
    return clear.optimizer is not None and all(event.optimizer != clear.optimizer for event in steps)


def _same_object(one: Clear, other: Clear) -> bool:
    if one.optimizer is not None or other.optimizer is not None:
        return one.optimizer == other.optimizer
    return bool(one.modules) and one.modules == other.modules


def _accumulates(program: Program) -> bool:
    """Whether a file of the tree says how many passes an accelerator accumulates: without, it is one."""
    return any(program.project.naming("Accelerator", "", _ACCUMULATES))


def _first_in_accumulate(program: Program, report: Report, all_clears: list[Clear], backwards: list[Backward]) -> None:
    """``with accelerator.accumulate(model): optimizer.zero_grad(); backward``."""
    for entered in program.of(Accumulate):
        steps = entered.steps
        if isinstance(steps, Const) and steps.value == 1:
            continue
        inside = Guard(entered.site, True)
        applied = [step for step in program.of(Step) if inside in step.guards]
        for clear in (clear for clear in all_clears if inside in clear.guards):
            after = [e for e in backwards if inside in e.guards and e.order > clear.order]
            if not after or any(e for e in backwards if inside in e.guards and e.order < clear.order):
                continue
            if clear.optimizer is None and not any(may_clear(program, clear, step) for step in applied):
                continue  # nobody wants these gradients: an attack that changes its input
            report(
                clear.site,
                "A reset at the start of `accumulate()` also runs before the last micro-batch: what was accumulated "
                "before it {is} thrown away. Reset after the step.",
                because=[
                    start(entered.site, "gradients accumulate over several passes of this context"),
                    start(clear.site, "the gradients are reset here"),
                    after[0].trace,
                ],
                gaps=[] if isinstance(steps, Const) else [Gap.CONVENTION],
                severity=None if isinstance(steps, Const) or _accumulates(program) else Severity.NOTE,
            )
