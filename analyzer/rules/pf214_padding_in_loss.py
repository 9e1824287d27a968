"""PF214 padding-in-loss."""

from __future__ import annotations

import re

from analyzer.engine.events import Loss
from analyzer.engine.padding import PaddedColumn, PaddedLabels, padding_of
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, start
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule

_IGNORES = ("torch.nn.CrossEntropyLoss", "torch.nn.functional.cross_entropy", "torch.nn.NLLLoss",
            "torch.nn.functional.nll_loss")  # fmt: skip
_EXCUSES = {"ignore_index": "2", "weight": "0"}
"""Options that leave padding out, and their positions where a module is made."""


_GENERATES = re.compile(rb"ForCausalLM|LMHeadModel|ForConditionalGeneration|ForSeq2SeqLM")
_EXCUSED = re.compile(rb"-100|DataCollatorForLanguageModeling|ignore_index|attention_mask.{0,40}labels|masked_fill")
"""What in a file says that padding is taken out of the labels, here or there."""


class PaddingInLoss(Rule):
    """Padding counts in the loss.

    ## Why it matters
    Targets of different lengths are filled up to the longest of the batch. A loss that is not told which value is
    filling learns to predict it: the loss looks better than it is, the more so the more the lengths differ, and the
    weight of each real token depends on which other sequences are in its batch.

    ## Example
    ```python
    targets = pad_sequence(targets, batch_first=True)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    ```

    ## Use instead
    ```python
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)
    ```
    or pad targets with -100, which ``cross_entropy`` ignores by itself. Filling with 0 needs a 0 that is no class.

    ## When it stays quiet
    With ``ignore_index`` or class weights; with ``reduction="none"``, after which a mask can be applied; where targets
    are padded with -100, masked or packed; where it is not seen that targets are padded.

    ## Fix safety
    No fix is offered: which value is filling, and whether it is a class as well, is not in the text.
    """

    code = "PF214"
    name = "padding-in-loss"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A loss over classes whose target was padded."""
        for event in program.of(PaddedLabels):
            report(
                event.site,
                "The labels {is} padded, and the loss that the model computes {does count} the padding: only -100 is "
                "ignored. Set the labels to -100 where the attention mask is 0.",
                because=[
                    start(event.padded, "texts are filled up here"),
                    start(event.site, "the model takes the loss"),
                ],
                gaps=[Gap.CONVENTION],
            )
        for column in program.of(PaddedColumn):
            source = program.project.read(column.trace.site.path) or b""
            if _GENERATES.search(source) and not _EXCUSED.search(source):
                report(
                    column.trace.site,
                    "The column of labels {is} padded like the texts, and the loss of the model {does count} the "
                    "padding: only -100 is ignored. Set the labels to -100 where the attention mask is 0.",
                    because=[start(column.padded, "texts are filled up here"), column.trace],
                    gaps=[Gap.CONVENTION],
                )
        for loss in program.of(Loss):
            if loss.callee not in _IGNORES or any(name in loss.options for name in (*_EXCUSES, "reduction", "reduce")):
                continue
            if loss.named_at != loss.site and any(place in loss.options for place in _EXCUSES.values()):
                continue
            mark = padding_of(loss.target)
            if mark is not None:
                report(
                    loss.site,
                    "The target of this loss {is} padded, and the loss {does count} the padding: it is not told what "
                    "to ignore. Pass `ignore_index=`, or pad with -100.",
                    because=[start(mark.site, "sequences are filled up here"), start(loss.site, "the loss is taken")],
                    gaps=[Gap.UNSEEN if loss.is_choice else Gap.CONVENTION],
                )
