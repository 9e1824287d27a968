"""PF208 train-mode-missing."""

from __future__ import annotations

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.findings import Severity
from analyzer.knowledge.words import pattern
from analyzer.rules.base import Report, Rule
from analyzer.rules.modes import Timeline, before_loop, chain, is_known_to_drop, over_batches, reported_at, sleeping
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type


class TrainModeMissing(Rule):
    """A model that is in evaluation mode is trained.

    ## Why it matters
    ``from_pretrained`` returns a model in evaluation mode, and so does an evaluation before the first epoch. Trained
    like that, dropout never drops and batch norm never learns statistics: the model overfits, and nothing fails.

    ## Example
    ```python
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
    for batch in loader:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
    model.train()
    for batch in loader:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
    ```

    ## When it stays quiet
    When ``train()`` is called on the model or on what holds it, here, in a callee or by a framework; for frozen
    modules; when the optimizer updates something else (an input, another model). A note for a pretrained model of
    which nothing says that it has dropout (BERT, BART and T5 are published with it; Llama, Whisper and ViT without, so
    that the mode changes nothing), where adapters are put into it, which are in training mode (LoRA), and for one that
    the first evaluation sets to train: only what comes before it trains without dropout.

    ## Fix safety
    Unsafe: training runs differently, which is the point.
    """

    code = "PF208"
    name = "train-mode-missing"
    severity = Severity.ERROR
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A trained forward of a module in the mode it came in, or in which it was put before training began."""
        timeline = Timeline(program)
        for case in sleeping(timeline):
            if case.is_later:
                continue
            loops = over_batches(case.forward) or case.forward.loops
            at = reported_at(case.forward, loops) if loops else case.forward.site
            report(
                at,
                f"`{program.sources.text(at)}` trains a model that {{is}} in evaluation mode: dropout is off and batch "
                "norm frozen. Call `train()` before the loop.",
                because=chain(case.why, loops[-1].trace if loops else None, case.forward.trace, case.step.trace),
                gaps=case.gaps,
                severity=Severity.NOTE if case.switch is None and _is_unsure(program, case.why.site) else None,
                fix=before_loop(program, case.forward, loops, "train"),
            )


def _is_unsure(program: Program, site: Site) -> bool:
    """Whether a pretrained model is of no family that is known to have dropout as it is published, so that the mode it
    comes in may be the only one; or gets adapters, which are made in training mode and drop out themselves."""
    if not is_known_to_drop(program, site):
        return True
    calls = of_type(program.unit(site.path), ir.Call)
    return any(pattern("adapters").search(dotted(call.callee) or "") for call in calls)
