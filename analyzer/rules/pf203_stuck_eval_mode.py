"""PF203 stuck-eval-mode."""

from __future__ import annotations

from analyzer.engine.events import Forward, Mode, Step
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site
from analyzer.engine.values import ObjectId
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.modes import Timeline, before_loop, chain, over_batches, shared, sleeping
from analyzer.syntax import ir
from analyzer.syntax.scope import walk


class StuckEvalMode(Rule):
    """Training goes on in evaluation mode.

    ## Why it matters
    An evaluation in the middle of training calls ``eval()``, and nobody calls ``train()`` again. From then on dropout
    is off and batch norm normalises with frozen statistics: the training loss looks better, the model gets worse.

    ## Example
    ```python
    model.train()
    for epoch in range(10):
        for x, y in train_loader:
            ...
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            validate(model, val_loader)
    ```

    ## Use instead
    ```python
    for epoch in range(10):
        model.train()
        for x, y in train_loader:
            ...
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            validate(model, val_loader)
    ```

    ## When it stays quiet
    When anything brings training mode back: a callee, a context manager, ``train(was_training)``, the framework; for
    modules without dropout, batch norm or ``self.training``; for parts that stay in evaluation mode on purpose (frozen
    teachers and encoders, batch norm layers); when nothing trains after the switch.

    ## Fix safety
    Unsafe: training continues differently, which is the point.
    """

    code = "PF203"
    name = "stuck-eval-mode"
    alias = "TG011"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A trained forward in the mode that an `eval()` left, called after training began or in a loop around it."""
        timeline = Timeline(program)
        for case in sleeping(timeline):
            if case.switch is None or not case.is_later or _is_put_back(program, case.switch.site):
                continue
            if any(shared(each, case.forward) and _asks_mode(program, each) for each in timeline.modes):
                continue
            loop = case.nest[-1].trace if case.nest else None
            report(
                case.switch.site,
                f"`{program.sources.text(case.switch.site)}` is not undone before training goes on: from then on "
                "dropout {is} off and batch norm frozen. Call `train()` at the start of each training epoch.",
                because=chain(case.switch.trace, loop, case.forward.trace, case.step.trace),
                gaps=case.gaps,
                fix=before_loop(program, case.forward, over_batches(case.forward) or case.forward.loops, "train"),
            )
        _parts_left(timeline, report)


def _parts_left(timeline: Timeline, report: Report) -> None:
    """A part is evaluated by itself (``knn_test(model.encoder)``), and stays in evaluation mode inside the model that
    goes on training."""
    program = timeline.program
    for switch in timeline.modes:
        part = switch.module
        if part is None or switch.is_eval != "yes" or not switch.loops or _is_put_back(program, switch.site):
            continue
        epochs = switch.loops[:1]
        inside = [each for each in timeline.modes if shared(each, switch)]
        if any(each.is_eval != "yes" and (each.module is None or part in each.modules) for each in inside):
            continue
        evaluated = next((each for each in timeline.forwards if _is_evaluated(each, switch)), None)
        trained = next((each for each in timeline.learning if _is_around(each, part, switch)), None)
        step = next((step for step in program.within(Step, epochs) if part in step.modules), None)
        if evaluated is None or trained is None or step is None:
            continue
        report(
            switch.site,
            f"`{program.sources.text(switch.site)}` is not undone before training goes on: from then on this part of "
            "the model {is} in evaluation mode. Call `train()` at the start of each training epoch.",
            because=chain(switch.trace, epochs[0].trace, evaluated.trace, trained.trace, step.trace),
            gaps=[Gap.CONVENTION],
        )


def _is_evaluated(forward: Forward, switch: Mode) -> bool:
    """Whether a pass is the evaluation that a part was switched for."""
    is_after = forward.module == switch.module and forward.function == switch.function and forward.order > switch.order
    return is_after and (forward.is_eval, forward.grad, forward.depends) == ("yes", "no", "yes")


def _is_around(forward: Forward, part: ObjectId, switch: Mode) -> bool:
    return forward.module != part and part in forward.parts and bool(shared(forward, switch))


def _asks_mode(program: Program, switch: Mode) -> bool:
    """``if not net.training: net.train()``: training mode whatever it was before."""
    asked = (words(program).of(guard.site) for guard in switch.guards[-1:])
    return switch.is_eval == "no" and any(".training" in each.split() for each in asked)


def _is_put_back(program: Program, site: Site) -> bool:
    """Whether the function that calls `eval()` remembers the mode and restores it: ``was = net.training``, and
    ``if was: net.train()`` at its end."""
    function = program.function_around(site)
    body = list(walk(function.body, into_functions=False)) if function is not None else []
    kept = {
        target.id
        for node in body
        if isinstance(node, ir.Assign) and isinstance(node.value, ir.Attribute) and node.value.attr == "training"
        for target in node.targets
        if isinstance(target, ir.Name)
    }
    asked = (
        node for node in body if isinstance(node, ir.If) and isinstance(node.test, ir.Name) and node.test.id in kept
    )
    calls = (part for node in asked for part in walk(node.body, into_functions=False) if isinstance(part, ir.Call))
    return any(isinstance(call.callee, ir.Attribute) and call.callee.attr == "train" for call in calls)
