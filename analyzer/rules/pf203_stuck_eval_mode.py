"""PF203 stuck-eval-mode."""

from __future__ import annotations

from analyzer.engine.program import Program
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.modes import Timeline, before_loop, chain, over_batches, sleeping


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
            if case.switch is None or not case.is_later:
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
