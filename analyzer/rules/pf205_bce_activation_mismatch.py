"""PF205 bce-activation-mismatch."""

from __future__ import annotations

from analyzer.engine.activations import PROBABILITIES, RAW
from analyzer.engine.events import Loss
from analyzer.engine.program import Program
from analyzer.findings import Severity
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.loss_inputs import Mismatch, described, mismatch, renamed_call, without_activation
from analyzer.rules.offered import is_switched_away

_UNBOUNDED = frozenset({RAW, "tanh", "relu", "log_softmax", "logsigmoid"})
_LOGITS_LOSS = {"binary_cross_entropy": "binary_cross_entropy_with_logits", "BCELoss": "BCEWithLogitsLoss"}


class BceActivationMismatch(Rule):
    """A binary cross-entropy gets probabilities where it wants logits, or logits where it wants probabilities.

    ## Why it matters
    ``BCEWithLogitsLoss`` applies a sigmoid itself. After a second one every prediction lies between 0.5 and 0.73: the
    loss cannot get near zero and the model cannot say no. ``BCELoss`` takes the logarithm of its input, so raw numbers
    outside 0…1 end in an error or, clamped, in a loss without a gradient.

    ## Example
    ```python
    criterion = nn.BCEWithLogitsLoss()
    loss = criterion(torch.sigmoid(model(x)), y)
    ```

    ## Use instead
    ```python
    loss = criterion(model(x), y)
    ```
    For raw outputs use ``BCEWithLogitsLoss`` rather than a sigmoid and ``BCELoss``: it is the stabler of the two.

    ## When it stays quiet
    For probabilities into ``BCELoss`` and logits into ``BCEWithLogitsLoss``; for a sigmoid computed for a metric or a
    weight (focal losses); where the output of a model is not known to be raw. A note in a branch that a setting chooses
    which all configurations and scripts of the tree leave otherwise.

    ## Fix safety
    Safe where the sigmoid stands in the loss call itself: nobody else reads it. Taking away one that stands elsewhere,
    or calling the loss that takes logits, is unsafe: other readers may need probabilities, other callers may give some.
    """

    code = "PF205"
    name = "bce-activation-mismatch"
    alias = "TG006"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A binary loss and the numbers it is fed with."""
        for loss in program.of(Loss):
            if loss.expects == "binary logits":
                _twice(program, loss, report)
            elif loss.expects == "probabilities":
                _raw(program, loss, report)


def _twice(program: Program, loss: Loss, report: Report) -> None:
    found = mismatch(program, loss, PROBABILITIES)
    if found is None:
        return
    name = found.activation.name
    rest = "the loss applies a sigmoid to it once more. Give it the logits."
    middle = "" if found.is_inside else f": {described(program, found)}"
    report(
        loss.site,
        f"The input of this loss {{is}} already probabilities{middle}, and {rest}",
        because=found.because(f"a {name} makes probabilities here", "the loss applies a sigmoid to its input"),
        gaps=found.gaps,
        severity=Severity.NOTE if is_switched_away(program, loss) else None,
        fix=without_activation(
            program,
            found,
            "Give the loss the logits",
            f"Take the {name} away, and apply it where probabilities are wanted",
        ),
    )


def _raw(program: Program, loss: Loss, report: Report) -> None:
    found = mismatch(program, loss, _UNBOUNDED)
    if found is None:
        return
    made = "this layer gives raw numbers" if found.activation.name == RAW else "this gives numbers outside 0…1"
    middle = "" if found.is_inside else f": {described(program, found)}"
    report(
        loss.site,
        f"This loss wants probabilities, and its input {{is}} not between 0 and 1{middle}. "
        "Use the loss that takes logits, or apply a sigmoid.",
        because=found.because(made, "the loss takes the logarithm of its input"),
        gaps=found.gaps,
        severity=Severity.NOTE if is_switched_away(program, loss) else None,
        fix=_with_logits(program, found),
    )


def _with_logits(program: Program, found: Mismatch) -> DraftFix | None:
    """The loss that applies the sigmoid itself."""
    if found.activation.name != RAW:
        return None
    loss = found.loss
    old = loss.callee.rsplit(".", 1)[-1]
    edit = renamed_call(program, loss.named_at, old, _LOGITS_LOSS.get(old, old), loss.site.path)
    return None if edit is None else DraftFix("Use the loss that takes logits", "unsafe", (edit,))
