"""PF214 padding-in-loss."""

from __future__ import annotations

import re

from analyzer.engine.events import Loss
from analyzer.engine.padding import PaddedColumn, PaddedItem, PaddedLabels, padding_of
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, start
from analyzer.engine.values import Const, Value
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, walk

_IGNORES = ("torch.nn.CrossEntropyLoss", "torch.nn.functional.cross_entropy", "torch.nn.NLLLoss",
            "torch.nn.functional.nll_loss")  # fmt: skip
_EXCUSES = {"ignore_index": "2", "weight": "0"}
"""Options that leave padding out, and their positions where a module is made."""


_FLATTENS = frozenset(["view", "reshape", "flatten", "rearrange"])
_GENERATES = re.compile(rb"ForCausalLM|LMHeadModel|ForConditionalGeneration|ForSeq2SeqLM")
_EXCUSED = re.compile(rb"-100|DataCollatorForLanguageModeling|ignore_index|attention_mask.{0,40}labels|masked_fill")
"""What in a file says that padding is taken out of the labels, here or there."""


_KNOWS_PADDING = re.compile(
    rb"\b(?:\w+_)?(?:pad_idx|pad_index|pad_id|pad_token|pad_token_id|padding_idx|pad_mask|padding_mask"
    rb"|PAD_IDX|PAD_ID|PAD_INDEX|PAD_TOKEN|PAD)\b|<pad>|<PAD>|\[PAD\]|\bBucketIterator\b"
)
"""What a file says that works with padded texts: the number of the filling, or a mask of it for a network."""
_LEAVES_OUT = re.compile(
    rb"ignore_index|-100\b|masked_select|^(?![^\n]*(?:inf\b|-1e|-9))[^\n]*masked_fill|pack_padded|loss_mask|masked_loss"
    rb"|\.ne\(|!=\s*\w*pad",
    re.I | re.M,
)
"""What a file says that leaves filling out of a loss, somewhere."""


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
    are padded with -100, masked or packed; where it is not seen that targets are padded. A note for the labels of a
    sample or batch in a tree that takes the filling out of none, and where it shows only in what the file speaks of
    (the number of the filling, a mask for the network) beside tokens told from those before, and no loss of the file
    leaves anything out.

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
        _of_samples(program, report)
        for loss in program.of(Loss):
            if loss.callee not in _IGNORES or any(name in loss.options for name in (*_EXCUSES, "reduce")):
                continue
            if (how := loss.options.get("reduction")) is not None and not _reduces(how):
                continue
            if loss.named_at != loss.site and any(place in loss.options for place in _EXCUSES.values()):
                continue
            mark = padding_of(loss.target)
            if mark is None:
                _of_tokens(program, report, loss)
            else:
                report(
                    loss.site,
                    "The target of this loss {is} padded, and the loss {does count} the padding: it is not told what "
                    "to ignore. Pass `ignore_index=`, or pad with -100.",
                    because=[start(mark.site, "sequences are filled up here"), start(loss.site, "the loss is taken")],
                    gaps=[Gap.UNSEEN if loss.is_choice else Gap.CONVENTION],
                )


def _of_samples(program: Program, report: Report) -> None:
    """Samples, or batches, whose labels are filled up, in a tree that never takes the filling out of any."""
    for item in program.of(PaddedItem):
        if not any(True for _ in program.project.naming("labels", "", _EXCUSED)):
            report(
                item.site,
                "The labels {is} padded like the texts, and models of transformers that are given them {does count} "
                "the padding in the loss: only -100 is ignored. Set the labels to -100 where the attention mask is 0.",
                because=[start(item.padded, "texts are filled up here"), item.trace],
                gaps=[Gap.CONVENTION],
                severity=Severity.NOTE,  # which model gets them, and whether it computes the loss, is not seen here
            )


def _reduces(how: Value) -> bool:
    """Whether a loss surely gives one number, so that no mask can be put on it any more."""
    return all(isinstance(case, Const) and case.value in {"mean", "sum"} for case in how.cases)


def _of_tokens(program: Program, report: Report, loss: Loss) -> None:
    """A loss of tokens that are told from those before them (``tgt[:, :-1]`` and ``tgt[:, 1:]``), or laid out flat with
    their batch, in a file that knows which number is filling and leaves it out of no loss."""
    path = loss.site.path
    source = program.project.read(path) or b""
    if not _KNOWS_PADDING.search(source) or _LEAVES_OUT.search(source):
        return
    function = program.function_around(loss.site)
    body = function.body if function is not None else ()
    call = words(program).node(loss.site)
    if not isinstance(call, ir.Call) or len(call.args) < 2:
        return
    is_flat = all(_is_laid_flat(body, arg.value) for arg in call.args[:2])
    if not is_flat or not (_is_shifted(body) or _is_flat_logits(body, call)):
        return
    report(
        loss.site,
        "The target of this loss holds tokens of texts of different lengths, and the loss {does count} the padding: "
        "it is not told what to ignore. Pass `ignore_index=`.",
        because=[start(loss.named_at, "the loss is told nothing of padding"), start(loss.site, "the loss is taken")],
        gaps=[Gap.CONVENTION],
        severity=Severity.NOTE,
    )


def _assigned(body: ir.Block, expr: ir.Expr) -> list[ir.Expr]:
    """An expression, and what is assigned to it where it is a name."""
    found = [expr]
    if isinstance(expr, ir.Name):
        for node in walk(body, into_functions=False):
            if (
                isinstance(node, ir.Assign)
                and node.value is not None
                and any(isinstance(to, ir.Name) and to.id == expr.id for to in node.targets)
            ):
                found.append(node.value)
    return found


def _is_laid_flat(body: ir.Block, expr: ir.Expr) -> bool:
    return any(
        isinstance(node, ir.Call) and last_name(node.callee) in _FLATTENS
        for value in _assigned(body, expr)
        for node in walk((value,), into_functions=False)
    )


def _is_shifted(body: ir.Block) -> bool:
    """``x[:, :-1]`` and ``x[:, 1:]``: the same name without its last and without its first."""
    first: set[str] = set()
    last: set[str] = set()
    for node in walk(body, into_functions=False):
        name = dotted(node.value) if isinstance(node, ir.Subscript) else None
        if name is None or not isinstance(node, ir.Subscript):
            continue
        for part in node.index.items if isinstance(node.index, ir.Display) else (node.index,):
            if isinstance(part, ir.Slice) and part.upper is None and _number(part.lower) == 1:
                first.add(name)
            elif isinstance(part, ir.Slice) and part.lower is None and _number(part.upper) == -1:
                last.add(name)
    return bool(first & last)


def _number(expr: ir.Expr | None) -> object:
    if isinstance(expr, ir.Operation) and isinstance(expr.left, ir.Constant) and expr.op == "-" and expr.right is None:
        return -expr.left.value if isinstance(expr.left.value, int) else None
    return expr.value if isinstance(expr, ir.Constant) else None


def _is_size(node: object) -> bool:
    """``logp.size(2)``, ``logp.shape[-1]``."""
    is_call = isinstance(node, ir.Call) and last_name(node.callee) == "size"
    return is_call or (isinstance(node, ir.Attribute) and node.attr == "shape")


def _is_flat_logits(body: ir.Block, call: ir.Call) -> bool:
    """``logp.view(-1, logp.size(2))``: one row of classes per token of a batch."""
    return any(
        isinstance(node, ir.Call)
        and last_name(node.callee) in {"view", "reshape"}
        and len(node.args) == 2
        and _number(node.args[0].value) == -1
        and any(_is_size(part) for each in _assigned(body, node.args[1].value) for part in walk((each,), False))
        for value in _assigned(body, call.args[0].value)
        for node in walk((value,), into_functions=False)
    )
