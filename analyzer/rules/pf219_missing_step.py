"""PF219 missing-step."""

from __future__ import annotations

import re

from analyzer.engine.events import Backward, Clear, Escape, Step
from analyzer.engine.optim_events import GradientRead, NotCalled, OptimizerMade, ScalerStep, ScalerUpdate
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, start
from analyzer.engine.values import ObjectId
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertAfter, InsertStatement
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.iteration import between, nest_of
from analyzer.rules.never_backward import never_differentiated
from analyzer.rules.spoken_steps import is_told, never_stepped, never_updated, never_used, stepped_past, tell
from analyzer.syntax import ir

_HOOKS = re.compile(rb"register_\w*backward_hook|\.register_hook\(")
_STEPS = re.compile(rb"\.step\(")


class MissingStep(Rule):
    """Gradients are computed and never applied, or a gradient scaler is driven only halfway.

    ## Why it matters
    Without ``optimizer.step()`` the parameters never move: the loss goes up and down with the data and nothing is
    learnt. Without ``scaler.update()`` the loss scale stays where it began, so overflows are skipped for ever. An
    ``optimizer.step()`` in place of ``scaler.step(optimizer)`` applies gradients thousands of times too large. A step
    without a backward pass applies none at all.

    ## Example
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(criterion(model(x), y)).backward()
        scaler.step(optimizer)
    ```

    ## Use instead
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(criterion(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## When it stays quiet
    When the step is in a callee, a closure or a framework; when the gradients are read (attacks, saliency, Fisher
    information, hand-written updates); when optimizer or scaler are handed to code that was not seen. A note where the
    file hangs hooks into backward passes: they may be what the gradients are for, and for a method whose callers were
    not seen; a note where only names say what optimizer and scaler are, and the file does not do the rest.

    ## Fix safety
    ``scaler.update()`` and the missing ``()`` are unsafe fixes: they change what is trained, which is the point. There
    is no automatic fix for a step that is missing altogether.
    """

    code = "PF219"
    name = "missing-step"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """The ways in which a step is missing."""
        _not_called(program, report)
        _step_past_the_scaler(program, report)
        if not program.is_cut:  # these accuse because something is absent
            _no_step(program, report)
            _no_step_in_method(program, report)
            _no_update(program, report)
        _by_words(program, report)


def _by_words(program: Program, report: Report) -> None:
    """What the text of a step says, where its objects were not read."""
    tell(
        report,
        never_stepped(program),
        "Gradients are computed here, and nothing in this file {does step} the optimizer: if nothing elsewhere does, "
        "the parameters never change. Call `optimizer.step()` after the backward pass.",
        "the gradients are reset here",
        "the backward pass",
    )
    unused = [each for each in never_used(program) if not is_told(report, each[0], even_possible=True)]
    for _, site, name in unused:
        report(
            site,
            f"`{name}` is made here, beside an optimizer that is stepped, and nothing {{does step}} it: what it holds "
            "never changes. Call its `step()` after the backward pass.",
            because=[start(site, "made here")],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,  # what it holds may be frozen for now
        )
    for clear, loss, step, name in never_differentiated(program):
        report(
            step,
            f"The optimizer steps here, and nothing in this file {{does run}} `{name}` backward: there are no "
            f"gradients, and nothing is learnt. Call `{name}.backward()` before the step.",
            because=[
                start(clear, "the gradients are reset here"),
                start(loss, "the loss is computed here"),
                start(step, "the step"),
            ],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,  # names alone say what is a loss
        )
    tell(
        report,
        never_updated(program),
        "Nothing in this file {does update} the scale of `{of}`: call `{of}.update()` after the steps of an iteration.",
        "the backward pass",
        "the scaler steps the optimizer here",
    )
    tell(
        report,
        stepped_past(program),
        "The loss was multiplied by a gradient scaler, and `{of}` {does step} with the multiplied gradients: call "
        "`scaler.step({of})` instead.",
        "the backward pass of the scaled loss",
        "the step",
    )


def _not_called(program: Program, report: Report) -> None:
    """``optimizer.step`` without parentheses."""
    for named in program.of(NotCalled):
        kind = program.objects[named.receiver].kind
        if (kind, named.name) not in {("Optimizer", "step"), ("Scaler", "update")} or not named.loops:
            continue
        report(
            named.site,
            f"`{program.sources.text(named.site)}` names the method and does not call it: nothing {{is}} updated.",
            because=[program.objects[named.receiver].trace, start(named.site, "no call")],
            fix=DraftFix("Call it", "unsafe", (InsertAfter(named.site.at, "()"),)),
        )


def _no_step(program: Program, report: Report) -> None:
    """zero_grad of an optimizer and a backward pass in one loop, and no step of it anywhere."""
    stepped = {step.optimizer for step in program.of(Step)}
    named = {event.receiver for event in program.of(NotCalled)}
    seen: set[ObjectId] = set()
    for clear in program.of(Clear):
        optimizer = clear.optimizer if clear.optimizer is not None else _owner(program, clear)
        if optimizer is None or optimizer in stepped | seen | named:
            continue
        if _is_its_own(program, optimizer, clear):
            continue
        nest = nest_of(clear)
        if not nest or program.objects[optimizer].kind != "Optimizer" or any(program.within(GradientRead, nest)):
            continue
        through = program.roots_through(clear.modules)
        backwards = [
            event
            for event in program.within(Backward, nest)
            if not (event.roots and clear.modules) or event.roots & through
        ]  # not those of another network (a copy that an inner loop adapts)
        others = program.within(Step, nest)
        if not backwards or any(_may_be_its_step(program, step, clear) for step in others):
            continue
        seen.add(optimizer)
        report(
            backwards[-1].site,
            "Gradients are computed and reset in this loop, and no step of the optimizer {does follow}: the "
            "parameters never change. Call `optimizer.step()` after the backward pass.",
            because=[
                program.objects[optimizer].trace,
                start(clear.site, "the gradients are reset here"),
                backwards[-1].trace,
            ],
            gaps=_handed_on(program, optimizer, clear),
            severity=Severity.NOTE if _is_hooked(program, backwards[-1]) else None,
        )


def _no_step_in_method(program: Program, report: Report) -> None:
    """A method resets the gradients of its object's optimizer and runs backward, and nothing that was read steps it."""
    if any(True for _ in program.of(Step)) or any(True for _ in program.of(GradientRead)):
        return
    seen: set[ObjectId] = set()
    for clear in program.of(Clear):
        made = next((each for each in program.of(OptimizerMade) if each.optimizer == clear.optimizer), None)
        if made is None or made.optimizer in seen or nest_of(clear) or not clear.calls or made.calls == clear.calls:
            continue
        after = [each for each in program.of(Backward) if each.function == clear.function and each.order > clear.order]
        if not after or any((clear.modules | {made.optimizer}) & each.objects for each in program.of(Escape)):
            continue
        seen.add(made.optimizer)
        report(
            after[-1].site,
            "Gradients are computed and reset in this method, and no step of the optimizer {does follow}: the "
            "parameters never change. Call `optimizer.step()` after the backward pass.",
            because=[made.trace, start(clear.site, "the gradients are reset here"), after[-1].trace],
            gaps=[Gap.UNSEEN if program.names_entry(clear, _STEPS) else Gap.CONVENTION],
            severity=Severity.NOTE,  # who calls it may step
        )


def _is_hooked(program: Program, backward: Backward) -> bool:
    """Whether the file hangs hooks into backward passes: they may be all that the gradients are computed for (Fisher
    information, relevance)."""
    return bool(_HOOKS.search(program.project.read(backward.site.path) or b""))


def _is_its_own(program: Program, optimizer: ObjectId, clear: Clear) -> bool:
    """Whether a method of the optimizer's own class resets the gradients: what it does with them is its way to step."""
    cls, function = program.objects[optimizer].cls, program.function_around(clear.site)
    return cls is not None and function is not None and cls.path == clear.site.path and function in cls.node.body


def _may_be_its_step(program: Program, step: Step, clear: Clear) -> bool:
    """Whether a step may apply the gradients that are reset: not that of another optimizer that is known, made of
    other modules or of tensors."""
    if _are_reset_together(program, step, clear):
        return False  # two parts of one model: each has its optimizer
    if step.optimizer is not None and clear.optimizer is not None and clear.modules:
        return bool(step.modules & clear.modules)
    are_two = None not in (step.optimizer, clear.optimizer) and step.optimizer != clear.optimizer
    if are_two and not step.modules and any(event.optimizer == step.optimizer for event in program.of(Clear)):
        return False  # two that were handed in, and each is reset by itself
    return not program.disjoint(step.modules, clear.modules)


def _are_reset_together(program: Program, step: Step, clear: Clear) -> bool:
    """Whether the optimizer that steps is another one, and resets its own gradients in the same loops."""
    others = (each for each in program.of(Clear) if each.optimizer == step.optimizer)
    are_two = None not in (step.optimizer, clear.optimizer) and step.optimizer != clear.optimizer
    return are_two and any(each.loops == clear.loops and each.guards == clear.guards for each in others)


def _owner(program: Program, clear: Clear) -> ObjectId | None:
    """The one optimizer that was made for the module whose ``zero_grad`` is called."""
    if clear.framework or not clear.modules:
        return None
    made = [event.optimizer for event in program.of(OptimizerMade) if event.is_complete and event.parts & clear.modules]
    return made[0] if len(made) == 1 else None


def _handed_on(program: Program, optimizer: ObjectId, clear: Clear) -> list[Gap]:
    """Unseen code that has the optimizer, or the model, could step it; a method of the model that is given nothing has
    only the model."""
    mine = clear.modules | {optimizer}
    handed = (event for event in program.of(Escape) if event.objects & mine)
    return [Gap.UNSEEN for event in handed if optimizer in event.objects or not _is_asked(program, event)][:1]


def _is_asked(program: Program, event: Escape) -> bool:
    """``model.aux_loss()``."""
    node = words(program).node(event.site)
    return isinstance(node, ir.Call) and not node.args and isinstance(node.callee, ir.Attribute)


def _no_update(program: Program, report: Report) -> None:
    """scaler.step without scaler.update."""
    updated = {update.scaler for update in program.of(ScalerUpdate)}
    named = {event.receiver for event in program.of(NotCalled)}
    for step in program.of(ScalerStep):
        if step.scaler in updated | named:
            continue
        escapes = [event for event in program.of(Escape) if step.scaler in event.objects]
        made = program.objects[step.scaler]
        report(
            step.site,
            "The scaler steps the optimizer and its scale {is} never updated: call `update()` of the scaler after "
            "the steps of an iteration.",
            because=[made.trace, start(step.site, "the scaler steps the optimizer here")],
            gaps=[Gap.UNSEEN] if escapes or (made.trace.gap and not step.loops) else [],
            fix=_update_fix(program, step),
        )


def _update_fix(program: Program, step: ScalerStep) -> DraftFix | None:
    name, statement = program.sources.called_on(step.site), program.sources.statement_of(step.site)
    if name is None or statement is None:
        return None
    edit = InsertStatement("after", statement, f"{name}.update()")
    return DraftFix("Update the scale after the step", "unsafe", (edit,))


def _step_past_the_scaler(program: Program, report: Report) -> None:
    """The loss is scaled and the optimizer steps by itself."""
    scaler_steps = {event.site for event in program.of(ScalerStep)}
    for step in program.of(Step):
        if step.is_scaled != "yes" or not scaler_steps.isdisjoint(
            step.calls
        ):  # what stands in where there is no scaler
            continue
        before = [event for event in program.of(Backward) if event.order < step.order]
        if not before or between(program.of(GradientRead), before[-1], step):  # divided by hand
            continue
        report(
            step.site,
            "The loss was multiplied by a gradient scaler and the optimizer {does step} with the multiplied "
            "gradients: call `scaler.step(optimizer)` instead.",
            because=[*(event.trace for event in before[-1:]), step.trace],
        )
