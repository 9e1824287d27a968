"""PF222 metric-denominator."""

from __future__ import annotations

import re

from analyzer.engine.data_events import LoaderMade
from analyzer.engine.measures import Average, is_by_name
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, nodes_around, walk

_SINGLE = re.compile(rb"batch_size\s*=\s*1\b")
_SINGLE_BY_DEFAULT = re.compile(rb"batch[-_]?size[\"'][^\n]{0,60}default\s*=\s*1\b")
_BATCH_OPTION = re.compile(rb"add_argument\([^\n]*batch[-_]?size")
_WRONG = {
    ("means", "samples"): (
        "Means of batches are added up and divided by the number of samples: the result {is} too small by about the "
        "batch size. Divide by the number of batches, or weigh each mean with the size of its batch."
    ),
    ("mean", "samples"): (
        "The mean over one batch is divided by the number of samples in the data set: added up over the batches, the "
        "result {is} too small by about the batch size. Divide by the number of batches, or multiply by the size of "
        "the batch first."
    ),
    ("totals", "batches"): (
        "Sums over the samples are divided by the number of batches: the result {is} too large by about the batch "
        "size. Divide by the number of samples, or do not multiply the means with the size of their batch."
    ),
    ("counts", "batches"): (
        "A count of samples is divided by the number of batches: the result {is} a count per batch, not a rate. "
        "Divide by the number of samples."
    ),
    ("counts", "padded"): (
        "A count of samples is divided by the number of batches times the batch size: the last batch may be smaller, "
        "and then the result {is} too small. Divide by the number of samples."
    ),
}


class MetricDenominator(Rule):
    """An average is divided by the wrong count.

    ## Why it matters
    Losses of PyTorch are means over a batch. Their sum over an epoch, divided by the number of samples, is smaller than
    the loss by the batch size: two runs with different batch sizes cannot be compared, and neither can training and
    validation. A count of right answers divided by the number of batches is no accuracy.

    ## Example
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
        total += loss.item()
    print(total / len(loader.dataset))
    ```

    ## Use instead
    ```python
        total += loss.item() * x.size(0)
    print(total / len(loader.dataset))
    ```

    ## When it stays quiet
    For the mean of batch means (``total / len(loader)``), for sums (``reduction="sum"``) and weighted means over the
    number of samples, where it is not known what is added up or what a length counts, where the loop runs over the very
    thing whose length divides (one item at a time), and where the quotient is divided once more
    (``right / len(loader) / batch_size``). A note where the option for
    the size of a batch is one by default: then both counts are the same; and where only its name says that what was
    not read is a loss (``criterion(model(x), y)`` under ``no_grad``), which may give a sum, or where only
    the loader that is made of it says that the length of something is the number of samples.

    ## Fix safety
    No fix is offered: whether a weighted mean or the mean of means is wanted is a choice.
    """

    code = "PF222"
    name = "metric-denominator"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A quotient whose parts do not go together."""
        for event in program.of(Average):
            message = _WRONG.get((event.over, event.by))
            if message is not None and not _is_divided_on(program, event) and not _counts_rounds(program, event):
                gaps = [] if any(program.of(LoaderMade)) or not _has_single_batches(program) else [Gap.UNSEEN]
                because = [event.over_trace, event.by_trace]
                is_guess = any(map(is_by_name, because)) or _is_single_by_default(program)
                severity = Severity.NOTE if is_guess else None
                report(event.site, message, because=because, gaps=gaps, severity=severity)


def _is_divided_on(program: Program, event: Average) -> bool:
    """``right / len(loader) / batch_size``: whether the quotient is divided once more where it stands."""
    unit = program.unit(event.site.path)
    nodes = nodes_around(unit, event.site.at) if unit is not None else ()
    return any(isinstance(node, ir.Operation) and node.op == "/" and node.left.at == event.site.at for node in nodes)


def _counts_rounds(program: Program, event: Average) -> bool:
    """Whether what is divided by is as many as the rounds of the loop that adds up, whatever it runs over:
    ``for item in tqdm(self.dataset): …`` and ``/ len(self.dataset)``."""
    length, added = words(program).node(event.by_trace.site), event.over_trace.site
    if event.by != "samples" or not isinstance(length, ir.Call):
        return False
    function, unit = program.function_around(added), program.unit(added.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    if (
        event.by != "samples"
        or not isinstance(length, ir.Call)
        or last_name(length.callee) != "len"
        or len(length.args) != 1
    ):
        return False
    counted = dotted(length.args[0].value)
    loops = (node for node in walk(body, False) if isinstance(node, ir.For) and _runs_over(node.iter) == counted)
    return counted is not None and any(
        getattr(part, "at", None) == added.at for loop in loops for part in walk(loop.body, False)
    )


def _runs_over(value: ir.Expr) -> str | None:
    """``dataset`` of ``dataset``, ``tqdm(dataset)``, ``enumerate(tqdm(dataset))`` and ``range(len(dataset))``."""
    while isinstance(value, ir.Call) and value.args and not isinstance(value.callee, ir.Attribute):
        value = value.args[0].value
    return dotted(value)


def _has_single_batches(program: Program) -> bool:
    """Whether a file of the tree makes loaders of one sample: the mean of such a batch is that of its sample."""
    first = next(iter(program.modules), "")
    return any(program.project.naming("DataLoader", first, _SINGLE))


def _is_single_by_default(program: Program) -> bool:
    """Whether the option for the size of a batch is one by default: in the files that were read or, where these have
    no such option, in other scripts of the tree."""
    sources = [program.project.read(path) or b"" for path in program.modules]
    if any(_BATCH_OPTION.search(source) for source in sources):
        return any(_SINGLE_BY_DEFAULT.search(source) for source in sources)
    return any(program.project.naming("add_argument", next(iter(program.modules), ""), _SINGLE_BY_DEFAULT))
