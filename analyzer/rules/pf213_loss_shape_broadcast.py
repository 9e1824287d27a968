"""PF213 loss-shape-broadcast."""

from __future__ import annotations

from analyzer.engine.events import Loss
from analyzer.engine.program import Program
from analyzer.engine.shapes import Broadcast, shape_of
from analyzer.engine.trace import start
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.loss_inputs import shape_note


class LossShapeBroadcast(Rule):
    """A column of predictions meets a flat target, and every pair is compared.

    ## Why it matters
    ``mse_loss`` of a prediction of shape (N, 1) and a target of shape (N,) broadcasts to (N, N): each prediction is
    drawn towards every target, so the model learns their mean. There is a warning in the log, and a loss that falls.

    ## Example
    ```python
    out = nn.Linear(8, 1)(x)
    loss = F.mse_loss(out, y.view(-1))
    ```

    ## Use instead
    ```python
    loss = F.mse_loss(out.squeeze(-1), y.view(-1))
    ```

    ## When it stays quiet
    Where the shape of either side is not known: most targets come out of a loader that tells nothing of it.

    ## Fix safety
    No fix is offered: either side may be the one to reshape.
    """

    code = "PF213"
    name = "loss-shape-broadcast"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A loss, or the difference that a loss is made of, of a column and a flat tensor."""
        for loss in program.of(Loss):
            if loss.expects != "same shape" or loss.target is None:
                continue
            sides = {shape_of(loss.input): loss.input, shape_of(loss.target): loss.target}
            if sides.keys() == {"column", "flat"}:
                because = [shape_note(sides[shape], shape) for shape in ("column", "flat")]
                report(
                    loss.site,
                    "One side of this loss {is} a column (N, 1) and the other flat (N,): they broadcast to (N, N), and "
                    "every prediction is compared with every target. Bring both into the same shape.",
                    because=[*(step for step in because if step), start(loss.site, "the loss compares them")],
                )
        for event in program.of(Broadcast):
            report(
                event.site,
                "One side of this operation {is} a column (N, 1) and the other flat (N,): they broadcast to (N, N). "
                "Bring both into the same shape.",
                because=[event.column, event.flat, start(event.site, "they meet here")],
            )
