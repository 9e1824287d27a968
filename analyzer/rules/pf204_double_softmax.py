"""PF204 double-softmax."""

from __future__ import annotations

from analyzer.engine.events import Loss
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.values import Activation, Tensor
from analyzer.findings import Severity
from analyzer.fixes.edits import Replace, ReplaceText
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
                _message(program, loss, activation),
                because=because,
                gaps=[] if len(soft) == len(loss.input.cases) else [Gap.UNSEEN],
                fix=_fix(program, loss, activation),
            )


def _message(program: Program, loss: Loss, activation: Activation) -> str:
    """Both places in words, where the activation is not in the loss call itself."""
    rest = "the loss applies `log_softmax` to it once more. Give it the logits."
    if _is_inside(loss, activation):
        return f"The input of this loss {{is}} already probabilities, and {rest}"
    what = program.sources.text(Site(loss.site.path, loss.input_at))
    source = program.sources.text(activation.site)
    place = "" if activation.site.path == loss.site.path else f" in {activation.site.path}"
    return (
        f"The input of this loss, `{what}`, {{is}} already probabilities: it comes out of `{source}`{place}, and {rest}"
    )


def _is_inside(loss: Loss, activation: Activation) -> bool:
    return activation.site == Site(loss.site.path, loss.input_at)


def _fix(program: Program, loss: Loss, activation: Activation) -> DraftFix | None:
    """The activation's input in its place."""
    if activation.site.path != loss.site.path:
        return None
    at = activation.site.at
    receiver = program.sources.called_on(activation.site) if activation.is_method else None
    edit: Replace | ReplaceText
    if activation.input_at is not None:
        edit = Replace(at, activation.input_at)
    elif receiver is not None:
        edit = ReplaceText(at, receiver)
    else:
        return None
    if _is_inside(loss, activation):
        return DraftFix("Give the loss the logits", "safe", (edit,))
    return DraftFix("Take the softmax away, and apply it where probabilities are wanted", "unsafe", (edit,))
