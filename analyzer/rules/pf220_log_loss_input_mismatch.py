"""PF220 log-loss-input-mismatch."""

from __future__ import annotations

from analyzer.engine.activations import LOG_PROBABILITIES, PROBABILITIES, RAW
from analyzer.engine.events import Loss
from analyzer.engine.loading import is_const
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap
from analyzer.engine.values import Activation, Tensor
from analyzer.findings import Severity
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.loss_inputs import Mismatch, described, is_true, mismatch, renamed_call
from analyzer.syntax import ir
from analyzer.syntax.scope import walk

_NO_LOGS = frozenset({"softmax", "sigmoid", RAW, "relu", "tanh"})
_KL = ("torch.nn.KLDivLoss", "torch.nn.functional.kl_div")


class LogLossInputMismatch(Rule):
    """A loss over log-probabilities is fed with probabilities or raw outputs.

    ## Why it matters
    ``nll_loss``, ``kl_div`` and ``ctc_loss`` take log-probabilities and only pick or weigh them. Probabilities, or the
    outputs of a layer, give a number that falls without bound or means nothing, and gradients that push every score up.
    Nothing fails. ``kl_div`` also wants its target as probabilities, unless ``log_target=True``.

    ## Example
    ```python
    loss = F.nll_loss(F.softmax(logits, dim=1), target)
    ```

    ## Use instead
    ```python
    loss = F.nll_loss(F.log_softmax(logits, dim=1), target)
    ```

    ## When it stays quiet
    For the output of ``log_softmax``, for the logarithm of probabilities, and where it is not known what a model gives.
    A note with ``reduction="none"``: some methods weigh the numbers by hand, and mean a product or a probability.

    ## Fix safety
    Safe where the softmax stands in the loss call itself. A softmax elsewhere in the same file may have other readers,
    so its fix is unsafe, as is putting a ``log_softmax`` on raw outputs by way of another loss.
    """

    code = "PF220"
    name = "log-loss-input-mismatch"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A loss over log-probabilities and what it is fed with."""
        for loss in program.of(Loss):
            if loss.expects != "log-probabilities" or _is_picking(program, loss):
                continue
            found = mismatch(program, loss, _NO_LOGS)
            if found is not None:
                _input(program, found, report, is_meant=_is_product(loss))
            elif loss.callee in _KL:
                _target(program, loss, report)


def _is_picking(program: Program, loss: Loss) -> bool:
    """``-F.nll_loss(p, target, reduction="none")`` picks a number of each row, whatever it is."""
    function, unit = program.function_around(loss.site), program.unit(loss.site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    return is_const(loss.options.get("reduction"), "none") and any(
        isinstance(node, ir.Operation) and node.op == "-" and node.right is None and node.left.at == loss.site.at
        for node in walk(body, False)
    )


def _is_product(loss: Loss) -> bool:
    """``F.kl_div(p, q, reduction="none")`` or ``F.nll_loss(p, y, reduction="none")`` of probabilities, to be weighed by
    hand: the gradient is that of a product or of a probability, which some methods mean (neighbours that agree, an
    attack on what is expected)."""
    return is_const(loss.options.get("reduction"), "none")


def _input(program: Program, found: Mismatch, report: Report, *, is_meant: bool) -> None:
    name = found.activation.name
    what = "probabilities" if name in PROBABILITIES else "raw numbers"
    middle = "" if found.is_inside else f": {described(program, found)}"
    report(
        found.loss.site,
        f"This loss wants log-probabilities, and its input {{is}} {what}{middle}. Apply `log_softmax` instead.",
        because=found.because(f"{what} come from here", "the loss takes its input for log-probabilities"),
        gaps=found.gaps,
        severity=Severity.NOTE if is_meant else None,
        fix=_log_softmax(program, found) or _cross_entropy(program, found),
    )


def _log_softmax(program: Program, found: Mismatch) -> DraftFix | None:
    """``log_softmax`` where softmax is called."""
    if found.activation.name != "softmax":
        return None
    edit = renamed_call(program, found.activation.site, "softmax", "log_softmax", found.loss.site.path)
    if edit is None:
        return None
    return DraftFix("Take the logarithm as well", "safe" if found.is_inside else "unsafe", (edit,))


def _cross_entropy(program: Program, found: Mismatch) -> DraftFix | None:
    """The loss that applies ``log_softmax`` itself."""
    old = found.loss.callee.rsplit(".", 1)[-1]
    new = {"nll_loss": "cross_entropy", "NLLLoss": "CrossEntropyLoss"}.get(old)
    if new is None or found.activation.name != RAW:
        return None
    edit = renamed_call(program, found.loss.named_at, old, new, found.loss.site.path)
    return None if edit is None else DraftFix("Use the loss that takes logits", "unsafe", (edit,))


def _shape_giver(loss: Loss, activation: Activation) -> bool:
    """Whether input and target come from one call: the target took the shape of the input (``x.clone().fill_(…)``)."""
    inputs = {case.activation for case in loss.input.cases if isinstance(case, Tensor)}
    return any(each is not None and each.site == activation.site for each in inputs)


def _target(program: Program, loss: Loss, report: Report) -> None:
    """``kl_div`` wants its target as probabilities, or as their logarithms with ``log_target=True``."""
    wants_log = is_true(loss.options.get("log_target"))
    found = mismatch(program, loss, PROBABILITIES if wants_log else LOG_PROBABILITIES, loss.target)
    if loss.target is None or found is None or _shape_giver(loss, found.activation):
        return
    is_log = found.activation.name in LOG_PROBABILITIES
    what, instead = ("log-probabilities", "log_target=True") if is_log else ("probabilities", "log_target=False")
    wants = "probabilities" if is_log else "log-probabilities"
    report(
        loss.site,
        f"The target of this loss {{is}} {what}, and it wants {wants} here. Pass `{instead}`.",
        because=found.because(f"{what} come from here", f"the loss takes its target for {wants}"),
        gaps=[*found.gaps, *([Gap.UNSEEN] if wants_log is None else [])],
    )
