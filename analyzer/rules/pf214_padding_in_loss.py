"""PF214 padding-in-loss."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.events import Loss
from analyzer.engine.padding import PaddedColumn, PaddedItem, PaddedLabels, padding_of
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.values import Const, Value
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.syntax import ir
from analyzer.syntax.scope import base_name, dotted, last_name, of_type, walk

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
"""What a function says that leaves filling out of a loss, or a file of which no function's text is known."""
_IS_LABEL = re.compile(rb"-100\b")
_SETS = re.compile(rb"\]\s*=\s*-100\b")
"""What a file says whose labels are told apart from filling before the loss."""


_ONE_BY_ONE = re.compile(rb"""\breduction\s*=\s*["']none|token_loss|loss_per_token|token_nll""")
_MASKED = re.compile(r"^masked", re.I)
"""What something is called that was masked, or should have been."""
_OF_TOKENS = re.compile(r"token_loss|loss_per_token|token_nll")
"""Names of what a loss by hand holds: one number per token."""


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
    (the number of the filling, a mask for the network) beside tokens told from those before, and nothing in
    the function leaves anything out. A note, too, for a mean over the losses of tokens or elements in a function that
    makes a mask and never reads it, and for their sum where only the number it is divided by is the mask's.

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
            if _SETS.search(program.project.read(event.site.path) or b""):
                continue  # ``labels[i, others] = -100``: which ones those are, an index says that was not followed
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
        _past_masks(program, report)
        _past_counts(program, report)
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


def _past_masks(program: Program, report: Report) -> None:
    """A mean over losses that were left one by one, in a function that makes a mask, or is given one for the loss, and
    never reads it: what it was made for is forgotten."""
    for path in program.modules:
        source = program.project.read(path) or b""
        if b"mask" not in source or b"mean" not in source or not _ONE_BY_ONE.search(source):
            continue
        for function in of_type(program.unit(path), ir.FunctionDef):
            masks = dict(_unread_masks(function))
            mean = _mean_of_losses(function.body) if masks else None
            if mean is not None:
                name, at = min(masks.items())
                report(
                    Site(path, mean.at),
                    f"This mean is over all losses, filling {{is}} counted: `{name}` says which of them count, and "
                    f"is not read. Multiply by `{name}`, and divide by its sum.",
                    because=[
                        start(Site(path, at), "the mask that is not read"),
                        start(Site(path, mean.at), "the mean of all"),
                    ],
                    gaps=[Gap.CONVENTION],
                    severity=Severity.NOTE,
                )


def _unread_masks(function: ir.FunctionDef) -> Iterator[tuple[str, int]]:
    """The masks that a function makes, or is given for its loss, and reads nowhere, and where."""
    made = {param.name: param.at for param in function.params if _is_loss_mask(param.name)}
    written: set[int] = set()
    read: set[str] = set()
    for node in walk(function.body, into_functions=True):
        if isinstance(node, ir.Assign):
            for target in node.targets:
                if isinstance(target, ir.Name) and node.value is not None:
                    written.add(id(target))
                    if "mask" in target.id.lower():
                        made.setdefault(target.id, node.at)
        elif isinstance(node, ir.Name) and id(node) not in written:
            read.add(node.id)
    return ((name, at) for name, at in made.items() if name not in read)


def _is_loss_mask(name: str) -> bool:
    """Whether a parameter is named as what a loss leaves out; others are for networks, or for those who derive."""
    return name.lower() in {"loss_mask", "label_mask", "labels_mask", "target_mask", "completion_mask", "response_mask"}


def _mean_of_losses(body: ir.Block) -> ir.Call | None:
    """The mean of a loss that was taken with ``reduction="none"``, or of what is named as the losses of tokens."""
    means: list[tuple[str, ir.Call]] = []
    is_single = False
    for node in walk(body, into_functions=False):
        if not isinstance(node, ir.Call):
            continue
        if last_name(node.callee) == "mean":
            given = node.callee.value if isinstance(node.callee, ir.Attribute) else node.callee
            if dotted(given) in {"torch", "th"} and node.args:
                given = node.args[0].value
            means.append(((dotted(given) or "").rsplit(".", 1)[-1].lower(), node))
        is_single = is_single or any(
            arg.keyword == "reduction" and isinstance(arg.value, ir.Constant) and arg.value.value == "none"
            for arg in node.args
        )
    fit = [mean for name, mean in means if (is_single and "loss" in name) or _OF_TOKENS.search(name)]
    return min(fit, key=lambda mean: mean.at) if fit else None


def _reduces(how: Value) -> bool:
    """Whether a loss surely gives one number, so that no mask can be put on it any more."""
    return all(isinstance(case, Const) and case.value in {"mean", "sum"} for case in how.cases)


def _of_tokens(program: Program, report: Report, loss: Loss) -> None:
    """A loss of tokens that are told from those before them (``tgt[:, :-1]`` and ``tgt[:, 1:]``), or laid out flat with
    their batch, in a file that knows which number is filling and leaves it out of no loss."""
    path = loss.site.path
    source = program.project.read(path) or b""
    function = program.function_around(loss.site)
    if not _KNOWS_PADDING.search(source) or _IS_LABEL.search(source) or _LEAVES_OUT.search(_text(source, function)):
        return
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


def _text(source: bytes, function: ir.FunctionDef | None) -> bytes:
    """The lines of a function."""
    if function is None or function.lines is None:
        return source
    return b"\n".join(source.split(b"\n")[function.lines[0] - 1 : function.lines[1]])


def _past_counts(program: Program, report: Report) -> None:
    """A sum over losses that were left one by one, divided by how many the mask counts, and not masked itself."""
    for path in program.modules:
        source = program.project.read(path) or b""
        if b"mask" not in source or not _ONE_BY_ONE.search(source):
            continue
        for function in of_type(program.unit(path), ir.FunctionDef):
            for node in walk(function.body, into_functions=False):
                if not isinstance(node, ir.Operation) or node.op != "/" or not _is_count_of_mask(node.right):
                    continue
                said, is_single = _said_of(function.body, node.left)
                if is_single and "mask" not in said.lower():
                    report(
                        Site(path, node.at),
                        "This divides by how many the mask counts, and what is summed {is} not masked: the losses of "
                        "filling are in the sum. Multiply them by the mask first.",
                        because=[start(Site(path, node.at), "divided by the sum of the mask")],
                        gaps=[Gap.CONVENTION],
                        severity=Severity.NOTE,
                    )


def _is_count_of_mask(expr: ir.Expr | None) -> bool:
    """``mask.sum()``, ``torch.sum(shift_mask, dim=1)``."""
    if not isinstance(expr, ir.Call) or last_name(expr.callee) != "sum":
        return False
    given = expr.callee.value if isinstance(expr.callee, ir.Attribute) else None
    names = [dotted(given) if given is not None else "", *(dotted(arg.value) for arg in expr.args)]
    return any("mask" in (name or "").lower() for name in names)


def _said_of(body: ir.Block, expr: ir.Expr) -> tuple[str, bool]:
    """The words of an expression and of all that is assigned on the way to it, and whether a loss is left one by one
    on that way."""
    values: dict[str, list[ir.Expr]] = {}
    for node in walk(body, into_functions=False):
        if isinstance(node, (ir.Assign, ir.Augment)) and node.value is not None:
            for target in node.targets if isinstance(node, ir.Assign) else (node.target,):
                for each in target.items if isinstance(target, ir.Display) else (target,):
                    values.setdefault(base_name(each), []).append(node.value)
    left, seen, said, is_single = [expr], set[str](), "", False
    while left:
        part = left.pop()
        for node in walk((part,), into_functions=False):
            if isinstance(node, ir.Arg) and node.keyword == "reduction" and isinstance(node.value, ir.Constant):
                is_single = is_single or node.value.value == "none"
            elif isinstance(node, ir.Attribute):
                said += f" {node.attr}"
            elif isinstance(node, ir.Name) and node.id not in seen:
                seen.add(node.id)
                left.extend(values.get(node.id, ()))
                said += f" {_MASKED.sub('', node.id)}"
    return said, is_single


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
