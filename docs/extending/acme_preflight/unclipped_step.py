"""ACME001 unclipped-step."""

from __future__ import annotations

from analyzer.extend import Backward, Clip, Program, Report, Rule, Severity, Step


class UnclippedStep(Rule):
    """An optimizer steps without clipped gradients.

    ## Why it matters
    Acme's runs are long: one exploding batch costs the run.

    ## Example
    ```python
    loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    ```

    ## When it stays quiet
    When anything in the loop clips.

    ## Fix safety
    There is no fix: the limit is a choice.
    """

    code = "ACME001"
    name = "unclipped-step"
    severity = Severity.WARNING
    since = "1.0"

    def check(self, program: Program, report: Report) -> None:
        """A step in a loop with a backward pass and without a clip."""
        for step in program.of(Step):
            backward = next(program.within(Backward, step.loops), None)
            if not step.loops or backward is None or any(program.within(Clip, step.loops)):
                continue
            report(
                step.site,
                "This step {will apply} gradients that nothing clips.",
                because=[backward.trace, step.trace],
            )
