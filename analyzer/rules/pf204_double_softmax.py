"""PF204 double-softmax."""

from __future__ import annotations

from analyzer.engine.events import Loss
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, start
from analyzer.engine.values import Activation, Tensor
from analyzer.findings import Severity
from analyzer.fixes.edits import Replace
from analyzer.rules.base import DraftFix, Report, Rule


class DoubleSoftmax(Rule):
    """Probabilities go into a loss that normalises them again.

    ## Why it matters
    ``cross_entropy`` applies ``log_softmax`` to its input. Fed with probabilities instead of logits, the loss cannot
    get near zero and gradients shrink by orders of magnitude: training is slow and stops early, without an error.

    ## Example
    ```python
    loss = F.cross_entropy(F.softmax(logits, dim=1), target)
    ```

    ## Use instead
    ```python
    loss = F.cross_entropy(logits, target)
    ```

    ## When it stays quiet
    For logits; for log-probabilities (normalising them again changes nothing); for ``nll_loss``; when an activation is
    computed for something other than this loss.

    ## Fix safety
    Safe where the activation stands in the loss call itself: nobody else reads it. Otherwise no fix, because
    the model's
    other readers may need probabilities.
    """

    code = "PF204"
    name = "double-softmax"
    alias = "TG005"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A loss that wants logits whose every possible input came out of a softmax."""
        for loss in program.of(Loss):
            if loss.expects != "logits":
                continue
            cases = [case for case in loss.input.cases if isinstance(case, Tensor)]
            soft = [case for case in cases if case.activation and case.activation.name == "softmax"]
            if not soft or soft[0].activation is None:
                continue
            activation = soft[0].activation
            because = [
                start(activation.site, "a softmax makes probabilities here"),
                start(loss.site, "the loss normalises its input"),
            ]
            report(
                loss.site,
                "The input of this loss {is} already probabilities, and the loss applies "
                "`log_softmax` to it once more. Give "
                "it the logits.",
                because=because,
                gaps=[] if len(soft) == len(loss.input.cases) else [Gap.UNSEEN],
                fix=_fix(program, loss, activation),
            )


def _fix(program: Program, loss: Loss, activation: Activation) -> DraftFix | None:
    """The activation's input in its place, where it is the loss argument itself."""
    if activation.site.path != loss.site.path or activation.site.at != loss.input_at or activation.input_at is None:
        return None
    edit = Replace(loss.input_at, activation.input_at)
    return DraftFix("Give the loss the logits", "safe", (edit,))
