"""PF102 eval-without-no-grad."""

from __future__ import annotations

from analyzer.engine.events import Backward, Escape, Forward, Loop
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site
from analyzer.findings import Severity
from analyzer.fixes.no_grad import without_gradients
from analyzer.rules.base import Report, Rule


class EvalWithoutNoGrad(Rule):
    """A forward pass in evaluation builds a graph that nobody uses.

    ## Why it matters
    Evaluation mode (``model.eval()``) does not turn gradients off. Every forward pass saves its intermediate tensors,
    so validation needs the memory of training, often with a larger batch.

    ## Example
    ```python
    model.eval()
    for x, y in val_loader:
        correct += (model(x).argmax(1) == y).sum()
    ```

    ## Use instead
    ```python
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            correct += (model(x).argmax(1) == y).sum()
    ```

    ## When it stays quiet
    Under ``no_grad`` or ``inference_mode`` in any form (decorator, context, bare statement, of the project's own, in
    the caller), when the parameters are frozen, and when a backward pass uses the graph (adversarial examples,
    saliency, fine-tuning with frozen statistics).

    ## Fix safety
    ``@torch.no_grad()`` above the function that evaluates, where nothing in it trains and the file imports torch. It is
    unsafe: a caller that wants the gradient of what the function returns gets none.
    """

    code = "PF102"
    name = "eval-without-no-grad"
    alias = "TG002"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A forward in eval mode, over batches, with gradients on, in a loop without a backward: the first of each
        loop."""
        seen: set[Site] = set()
        for forward in program.of(Forward):
            nest = _over_batches(forward)
            if not nest or forward.mode is None or nest[-1].site in seen:
                continue
            if (forward.is_eval, forward.grad, forward.has_graph) != ("yes", "yes", "yes"):
                continue
            used = any(forward.site in event.roots for event in program.of(Backward))
            if used or any(program.within(Backward, nest)):
                continue
            seen.add(nest[-1].site)
            inside = forward.calls[nest[-1].depth :]
            at = inside[0] if inside and nest[-1].kind != "framework" else forward.site
            report(
                at,
                f"`{program.sources.text(at)}` runs in evaluation mode and {{does build}} an autograd graph that no "
                "backward pass uses: `eval()` does not turn gradients off. Wrap the loop in `torch.no_grad()` or "
                "`torch.inference_mode()`.",
                because=[forward.mode, nest[-1].trace, forward.trace],
                gaps=_gaps(program, forward),
                fix=without_gradients(program, nest[-1].site) if at.path == nest[-1].site.path else None,
            )


def _over_batches(forward: Forward) -> tuple[Loop, ...]:
    """The loops around a forward up to the one over batches: over data, or else the innermost counted one."""
    for kinds in ({"data", "framework"}, {"range", "while"}):
        found = [index for index, loop in enumerate(forward.loops) if loop.kind in kinds]
        if found:
            return forward.loops[: found[-1] + 1]
    return ()


def _gaps(program: Program, forward: Forward) -> list[Gap]:
    """An unseen caller may have turned gradients off, or, seldom, want the gradient of what is returned."""
    if program.is_called_without_grad(forward):
        return [Gap.UNSEEN]
    returned = any(forward.site in event.roots for event in program.of(Escape) if event.how == "return")
    return [Gap.CONVENTION] if returned else []
