"""PF204 double-softmax."""

from __future__ import annotations

from analyzer.engine.activations import PROBABILITIES
from analyzer.engine.events import Loss
from analyzer.engine.program import Program
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.loss_inputs import Mismatch, described, mismatch, without_activation


class DoubleSoftmax(Rule):
    """Probabilities go into a loss that normalises them again.

    ## Why it matters
    ``cross_entropy`` applies ``log_softmax`` to its input. Fed with probabilities instead of logits, the loss cannot
    get near zero and gradients shrink by orders of magnitude: training is slow and stops early, without an error.
    The output of a sigmoid is squeezed in the same way.

    ## Example
    ```python
    loss = F.cross_entropy(F.softmax(logits, dim=1), target)
    ```

    ## Use instead
    ```python
    loss = F.cross_entropy(logits, target)
    ```

    ## When it stays quiet
    For logits; for ``nll_loss``; when an activation is computed for something other than this loss. Log-probabilities
    are a note: normalising them again changes nothing.

    ## Fix safety
    Safe where the activation stands in the loss call itself: nobody else reads it. Where it stands elsewhere in the
    same file, taking it away is an unsafe fix: other readers of the value, inference first of all, may need
    probabilities and must apply the softmax themselves from then on.
    """

    code = "PF204"
    name = "double-softmax"
    alias = "TG005"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A loss that wants logits and gets probabilities."""
        for loss in program.of(Loss):
            found = mismatch(program, loss, PROBABILITIES) if loss.expects == "logits" else None
            if found is None:
                _check_logarithms(program, report, loss)
                continue
            name = found.activation.name
            report(
                loss.site,
                _message(program, found),
                because=found.because(f"a {name} makes probabilities here", "the loss normalises its input"),
                gaps=found.gaps,
                fix=without_activation(
                    program,
                    found,
                    "Give the loss the logits",
                    f"Take the {name} away, and apply it where probabilities are wanted",
                ),
            )


def _check_logarithms(program: Program, report: Report, loss: Loss) -> None:
    """Log-probabilities into a loss that takes their logarithm again: the same numbers, computed twice."""
    found = mismatch(program, loss, {"log_softmax"}) if loss.expects == "logits" else None
    if found is None:
        return
    report(
        loss.site,
        "The input of this loss {is} already log-probabilities, and the loss applies `log_softmax` to it once more, "
        "which changes nothing. Give it the logits, or use `nll_loss`.",
        because=found.because("log-probabilities are made here", "the loss normalises its input"),
        gaps=found.gaps,
        severity=Severity.NOTE,
    )


def _message(program: Program, found: Mismatch) -> str:
    """Both places in words, where the activation is not in the loss call itself."""
    rest = "the loss applies `log_softmax` to it once more. Give it the logits."
    if found.is_inside:
        return f"The input of this loss {{is}} already probabilities, and {rest}"
    return f"The input of this loss {{is}} already probabilities: {described(program, found)}, and {rest}"
