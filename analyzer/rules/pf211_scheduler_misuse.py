"""PF211 scheduler-misuse."""

from __future__ import annotations

import re

from analyzer.engine.events import Backward, Step
from analyzer.engine.machine import Obj
from analyzer.engine.optim_events import SchedulerStep
from analyzer.engine.origins import origins
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.values import ObjectId, Ref, Scalar, Tensor, Value
from analyzer.engine.words import spelled, words
from analyzer.findings import Confidence, Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.horizons import FEW, TORCH, argument_of, batches_of, epochs_of, given_to, number_of, written
from analyzer.rules.iteration import exclude, extra_guards, in_one_iteration, nest_of
from analyzer.rules.named_schedules import stepped_twice
from analyzer.rules.spoken_steps import early_schedules, seldom_schedules, tell
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, of_type, walk

_OWN_STEPS = re.compile(rb"interval|lr_scheduler_step|lr_schedulers\(|automatic_optimization\s*=\s*False")
"""What says in a file that a scheduler is stepped otherwise."""
_BY_BATCH = frozenset([
    "OneCycleLR", "get_linear_schedule_with_warmup", "get_cosine_schedule_with_warmup", "get_scheduler",
    "get_polynomial_decay_schedule_with_warmup", "get_cosine_with_hard_restarts_schedule_with_warmup",
    "CosineAnnealingLR",
])  # fmt: skip
_BY_STEP = _BY_BATCH - {"OneCycleLR", "CosineAnnealingLR", "get_scheduler"}
"""Those of transformers that are told how many training steps there are."""
_LENGTHS = frozenset(["len()", ".estimated_stepping_batches", ".num_training_batches"])
"""What the number of batches is read from."""
FEW_BATCHES = 20
"""A patience of more is rarely meant in epochs."""
_PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"


class SchedulerMisuse(Rule):
    """A learning-rate scheduler is stepped at the wrong granularity, twice, too early, or with the wrong argument.

    ## Why it matters
    A scheduler counts its steps. One that was built for epochs and is stepped in every batch has finished within the
    first epoch; one that was built for batches and is stepped once per epoch never leaves its warm-up. Stepped before
    the optimizer it skips the first value, which is a note. Nothing fails, the learning rate is just another one than
    the author reads.

    ## Example
    ```python
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        for x, y in loader:
            train_step(x, y)
            scheduler.step()
    ```

    ## Use instead
    ```python
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(loader))
    for epoch in range(epochs):
        for x, y in loader:
            train_step(x, y)
            scheduler.step()
    ```

    ## When it stays quiet
    A note for a schedule that counts all batches and is stepped with the optimizer once for several (it ends too late),
    and where only names say what is a scheduler and an optimizer, or what a scheduler's function divides by.
    When the horizon is not known; when the step stands under a condition of its own (per batch or per epoch, as
    configured); for ``step(epoch)``, which sets the position itself; when a framework steps the scheduler, but for
    what Lightning would step once per epoch though it counts batches (a note where only transformers' documentation
    says so).

    ## Fix safety
    No automatic fix: whether the step moves or the horizon changes is the author's choice.
    """

    code = "PF211"
    name = "scheduler-misuse"
    severity = Severity.WARNING
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """Each step of a scheduler against the steps of the optimizer around it."""
        _once_per_epoch(program, report)
        schedules = _known(program, list(program.of(SchedulerStep)))
        steps = list(program.of(Step)) if schedules else []
        for event in schedules:
            _wrong_argument(program, report, event)
            _too_often(program, report, event, steps)
            _too_seldom(program, report, event, steps)
            _too_long(program, report, event)
            _too_early(program, report, event, steps)
            _plateau_of_batches(program, report, event)
        _twice(program, report, schedules)
        _twice_by_name(program, report)
        _by_words(program, report)


def _by_words(program: Program, report: Report) -> None:
    """What the text of a step says, where the scheduler was not read."""
    tell(
        report,
        early_schedules(program),
        "The scheduler is stepped before `{of}`, which {does skip} the first value of the schedule. Step the optimizer "
        "first.",
        "the scheduler is stepped here",
        "the optimizer is stepped here",
        at_first=True,
    )
    tell(
        report,
        seldom_schedules(program),
        "This scheduler is told how many training steps there are, and {is} stepped outside of the loop that trains: "
        "it never leaves its beginning. Step it after each step of the optimizer.",
        "the step of the optimizer",
        "the scheduler is stepped here",
    )


def _once_per_epoch(program: Program, report: Report) -> None:
    """Lightning steps what ``configure_optimizers`` returns once per epoch, unless an interval is given."""
    for path in program.modules:
        source = program.project.read(path) or b""
        unit = program.unit(path) if b"configure_optimizers" in source and not _OWN_STEPS.search(source) else None
        for function in of_type(unit, ir.FunctionDef):
            if function.name != "configure_optimizers":
                continue
            for node in walk(function.body, into_functions=False):
                why, is_sure = _counts_batches(program, path, node)
                if why and isinstance(node, ir.Call):
                    site = Site(path, node.at)
                    report(
                        site,
                        f"This schedule counts batches ({why}), but Lightning {{will step}} it once per epoch: it "
                        'never leaves its beginning. Return it in a dict with `"interval": "step"`.',
                        because=[
                            start(site, "made here"),
                            start(Site(path, function.at), "no interval is given in what this returns"),
                        ],
                        gaps=[Gap.CONVENTION],
                        severity=None if is_sure else Severity.NOTE,
                    )


def _counts_batches(program: Program, path: str, node: object) -> tuple[str, bool]:
    """Why a scheduler that is made here counts batches, and whether that is sure: it is given their number, or is made
    for nothing else."""
    if not isinstance(node, ir.Call):
        return "", False
    name = last_name(node.callee)
    keywords = {arg.keyword for arg in node.args}
    said = " ".join(spelled(arg.value) for arg in node.args)
    if name == "OneCycleLR" and "steps_per_epoch" in keywords:
        return "`steps_per_epoch` is the number of batches", True
    if name in _BY_BATCH and "estimated_stepping_batches" in said:
        return "`estimated_stepping_batches` is the number of all", True
    if name in _BY_STEP:
        total = given_to(node, "num_training_steps", 2)
        said = origins(program).all_of(path, total) if total is not None else "epoch"
        is_counted = any(length in said for length in _LENGTHS)
        if "epoch" in said.lower() and not is_counted:
            return "", False
        return "transformers docs: `num_training_steps` is the number of all training steps", is_counted
    if name != "OneCycleLR":
        return "", False
    total = given_to(node, "total_steps", 2)
    if isinstance(total, ir.Constant):
        is_sure = isinstance(total.value, int) and total.value > FEW
        return ("torch docs: the policy changes the learning rate after every batch", True) if is_sure else ("", False)
    made_of = origins(program).of(Site(path, total.at)).split() if total is not None else []
    if ".max_epochs" in made_of and not _LENGTHS & set(made_of):  # of Lightning's trainer
        return "", False
    return "torch docs: the policy changes the learning rate after every batch", bool(_LENGTHS & set(made_of))


def _known(program: Program, schedules: list[SchedulerStep]) -> list[SchedulerStep]:
    """Without the calls that may mean one of several schedulers, as an option says: nothing is sure of any. One that is
    made anew (after a checkpoint is read, for another phase) is as the first one, if it is made of the same words."""
    meant: dict[object, set[ObjectId]] = {}
    for event in schedules:
        meant.setdefault((event.site, event.calls), set()).add(event.scheduler)
    return [
        event
        for event in schedules
        if event.scheduler == min(meant[event.site, event.calls])
        and len({_made_of(program, each) for each in meant[event.site, event.calls]}) == 1
    ]


def _made_of(program: Program, scheduler: ObjectId) -> object:
    """The call that makes a scheduler, without its numbers; each stands for itself where that was not read."""
    made = program.objects[scheduler]
    node = words(program).node(made.trace.site)
    if not isinstance(node, ir.Call) or not made.name:
        return scheduler
    return made.name, tuple((arg.keyword, spelled(arg.value)) for arg in node.args)


# --- granularity ----------------------------------------------------------------------------------------------------


def _too_often(program: Program, report: Report, event: SchedulerStep, steps: list[Step]) -> None:
    """Stepped with every batch, built for epochs."""
    beside = [step for step in steps if in_one_iteration(program, step, event) and not exclude(step, event)]
    beside = [step for step in beside if not _is_trained_inside(program, step, event)]
    if not beside or event.given is not None or all(extra_guards(event, step) for step in beside):
        return
    if nest_of(event)[-1:] and nest_of(event)[-1].kind == "range" and len(nest_of(event)) == 1:
        return  # one loop over steps or epochs: nothing inside of it
    made = program.objects[event.scheduler]
    for why, gaps, severity in epochs_of(program, made, event):
        report(
            event.site,
            f"This scheduler {{is}} stepped with every batch, but it was built for epochs ({why}): its schedule is "
            "over within the first of them. Step it once per epoch, or give it the number of batches.",
            because=[made.trace, beside[0].trace, event.trace],
            gaps=gaps,
            severity=severity,
        )
        return


def _is_trained_inside(program: Program, step: Step, event: SchedulerStep) -> bool:
    """Whether a loop that the scheduler is not in goes through backward passes and steps: whatever it runs over, it
    does so several times for one step of the scheduler."""
    inner = [loop.key for loop in step.loops]
    outer = [loop.key for loop in event.loops]
    is_inside = len(inner) > len(outer) and inner[: len(outer)] == outer
    return is_inside and any([loop.key for loop in each.loops] == inner for each in program.of(Backward))


def _too_seldom(program: Program, report: Report, event: SchedulerStep, steps: list[Step]) -> None:
    """Stepped once per epoch, built for batches."""
    nest, made = event.loops, program.objects[event.scheduler]
    inside = [step for step in steps if len(nest_of(step)) > len(nest) and _keys(step)[: len(nest)] == _keys(event)]
    beside = any(in_one_iteration(program, step, event) for step in steps)
    if not nest or not inside or beside or event.given is not None or nest[-1].kind == "framework":
        return
    if nest[-1].kind == "data":  # the loop around is over batches itself: the inner one is over parts of them
        return
    row = program.knowledge.row(made.name) if made.name else None
    if row is None or not row.horizon:
        return
    why = batches_of(program, made, row.horizon)
    if why is None:
        return
    report(
        event.site,
        f"This scheduler {{is}} stepped once per epoch, but it was built for batches ({why}): it takes as many steps "
        "of its schedule as there are epochs. Step it after every step of the optimizer.",
        because=[made.trace, inside[0].trace, event.trace],
    )


def _too_long(program: Program, report: Report, event: SchedulerStep) -> None:
    """Stepped with the optimizer after every n-th micro-batch, and built for the number of all of them."""
    made = program.objects[event.scheduler]
    row = program.knowledge.row(made.name) if made.name else None
    periods = [guard.site for guard in event.guards if guard.is_periodic]
    call = words(program).node(made.trace.site) if periods and row is not None and row.horizon else None
    function = program.function_around(made.trace.site)
    if not isinstance(call, ir.Call) or row is None or function is None:
        return
    given = given_to(call, row.horizon, row.params.index(row.horizon) if row.horizon in row.params else -1)
    parts = [part for each in written(function.body, given, 2) for part in walk((each,), False)]
    counts = any(isinstance(part, ir.Call) and dotted(part.callee) == "len" for part in parts)
    is_divided = any(isinstance(part, ir.Operation) and part.op in {"/", "//"} for part in parts)
    said = {part.attr if isinstance(part, ir.Attribute) else getattr(part, "id", "") for part in parts}
    by = {_period(program, site) for site in periods}
    if not counts or is_divided or "" in by or by & said:
        return
    report(
        event.site,
        f"This scheduler {{is}} stepped once for several batches, but `{row.horizon}` counts all of them: training "
        "ends long before its schedule does. Divide it by the number of accumulation steps.",
        because=[made.trace, event.trace],
        gaps=[Gap.CONVENTION],
        severity=Severity.NOTE,
    )


def _period(program: Program, guard: Site) -> str:
    """The last name of ``n`` in ``if step % n == 0``."""
    node = words(program).node(guard)
    parts = walk((node.test,), False) if isinstance(node, ir.If) else ()
    right = next((part.right for part in parts if isinstance(part, ir.Operation) and part.op == "%"), None)
    return last_name(right) if right is not None else ""


# --- order, repetition, arguments -----------------------------------------------------------------------------------


def _too_early(program: Program, report: Report, event: SchedulerStep, steps: list[Step]) -> None:
    """The scheduler steps before the optimizer of the same iteration."""
    nest, made = nest_of(event), program.objects[event.scheduler]
    if not nest or event.given is not None or nest[-1].kind == "framework" or made.name == _PLATEAU:
        return
    keys = [loop.key for loop in nest]
    mine = [step for step in steps if _keys(step)[: len(keys)] == keys and _drives(made, step)]
    if not mine or any(step.order < event.order for step in mine):
        return
    step = next((step for step in mine if not exclude(step, event)), None)
    if step is None:
        return
    report(
        event.site,
        "The scheduler {does step} before the optimizer in this loop: since PyTorch 1.1 that skips the first value of "
        "the schedule. "
        "Call it after `optimizer.step()`.",
        because=[made.trace, event.trace, step.trace],
        gaps=[Gap.UNSEEN] if extra_guards(event, step) else [],
        severity=Severity.NOTE,  # one value of the schedule, and right where the tree pins a PyTorch before 1.1
    )


def _plateau_of_batches(program: Program, report: Report, event: SchedulerStep) -> None:
    """``ReduceLROnPlateau`` is stepped with the metric of every batch."""
    made, nest = program.objects[event.scheduler], nest_of(event)
    patience = argument_of(program, made, "patience")
    is_short = patience is None or ((number := number_of(patience)) is not None and number <= FEW_BATCHES)
    if made.name != _PLATEAU or not nest or nest[-1].kind != "data" or event.guards or not is_short:
        return
    if program.runs_once(nest[-1]):
        return
    report(
        event.site,
        "This scheduler {is} stepped with every batch: its patience counts batches then, and the noise of a few of "
        "them lowers the learning rate. Step it once per epoch, with the metric of the whole of it.",
        because=[made.trace, nest[-1].trace, event.trace],
        gaps=[Gap.CONVENTION],
        severity=Severity.NOTE,
    )


def _drives(made: Obj, step: Step) -> bool:
    """Whether a scheduler belongs to the optimizer of a step, as far as one can tell."""
    optimizers = {case.obj for _, value in made.arguments for case in value.cases if isinstance(case, Ref)}
    return step.optimizer in optimizers or not optimizers


def _twice(program: Program, report: Report, schedules: list[SchedulerStep]) -> None:
    """Two steps of one scheduler in one iteration, or one per batch and another per epoch."""
    for index, first in enumerate(schedules):
        for second in schedules[index + 1 :]:
            if first.scheduler != second.scheduler or first.site == second.site or first.guards != second.guards:
                continue
            if not first.loops or first.given is not None or second.given is not None:
                continue
            if not _is_called_beside(first, second):
                continue
            short, long = sorted((_keys(first), _keys(second)), key=len)
            if not short or long[: len(short)] != short or exclude(first, second):
                continue
            made = program.objects[first.scheduler]
            is_one_more = len(short) != len(long) and not made.name.endswith(
                "OneCycleLR"
            )  # that one runs out and fails
            report(
                second.site,
                "This scheduler {is} stepped a second time in the same "
                f"{'iteration' if len(short) == len(long) else 'epoch'}: its schedule runs ahead.",
                because=[made.trace, start(first.site, "the first step"), start(second.site, "the second step")],
                severity=Severity.NOTE
                if is_one_more and not _is_built_for_epochs(program, made, first, second)
                else None,
            )


def _is_built_for_epochs(program: Program, made: Obj, *steps: SchedulerStep) -> bool:
    """Whether one step per batch besides the one per epoch is what runs the schedule out."""
    inner = max(steps, key=lambda step: len(step.loops))
    return any(severity is None for _, _, severity in epochs_of(program, made, inner))


def _twice_by_name(program: Program, report: Report) -> None:
    """The same by the words of a file: the scheduler may come from code that was not read."""
    told = frozenset(site for site, draft in report.drafts.items() if draft.confidence is not Confidence.POSSIBLE)
    for first, second, is_iteration in stepped_twice(program, told):
        report(
            second,
            "What is named as a scheduler {is} stepped a second time in the same "
            f"{'iteration' if is_iteration else 'epoch'}: its schedule runs ahead.",
            because=[start(first, "the first step, after the optimizer's"), start(second, "the second step")],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,  # what it is was not read
        )


def _is_called_beside(one: SchedulerStep, other: SchedulerStep) -> bool:
    """Whether two calls stand in one function, or one of them in what the function of the other calls."""
    short, long = sorted((one.calls, other.calls), key=len)
    return long[: len(short)] == short and (len(long) > len(short) or one.function == other.function)


def _wrong_argument(program: Program, report: Report, event: SchedulerStep) -> None:
    """A plateau scheduler without its metric, another one with a metric."""
    made = program.objects[event.scheduler]
    because: list[Trace] = [made.trace, event.trace]
    if made.name == _PLATEAU and event.given is None and not event.has_more:
        report(
            event.site,
            "`ReduceLROnPlateau.step()` needs the metric it watches: this call {will fail}.",
            because=because,
            gaps=[Gap.UNSEEN] if event.guards else [],  # a call that fails is seen at once: the condition keeps it away
        )
    elif made.name == _PLATEAU and event.given is not None and _is_counter(event.given):
        report(
            event.site,
            "`ReduceLROnPlateau.step` takes the metric it watches, and {is} given the number of the epoch: it never "
            "improves, so that the learning rate is cut every few epochs. Give it the loss or score of the validation.",
            because=because,
        )
    elif made.name.startswith(TORCH) and made.name != _PLATEAU and isinstance(event.given, Tensor):
        report(
            event.site,
            f"`{made.name.rsplit('.', 1)[-1]}.step` takes an epoch, and {{is}} given a metric: the learning rate "
            "jumps to that position of the schedule. Only `ReduceLROnPlateau` takes a metric.",
            because=because,
        )


def _is_counter(value: Value) -> bool:
    """Whether a value is what a loop counts with."""
    return all(isinstance(case, Scalar) and case.kind == "range" for case in value.cases)


# --- what a scheduler was given -------------------------------------------------------------------------------------


def _keys(event: SchedulerStep | Step) -> list[object]:
    return [loop.key for loop in nest_of(event)]
