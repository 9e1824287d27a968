"""PF213 loss-shape-broadcast."""

from __future__ import annotations

import re

from analyzer.engine.events import Backward, Loss
from analyzer.engine.graphs import roots_of
from analyzer.engine.program import Program, nest_key
from analyzer.engine.shapes import Broadcast, shape_of
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.words import asked_around, spelled, words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.lone_columns import lone_flat
from analyzer.rules.loss_inputs import shape_note
from analyzer.syntax import ir
from analyzer.syntax.scope import walk

_SHAPE = re.compile(r"\.(?:dim|ndim|ndimension|shape|size)\b")


class LossShapeBroadcast(Rule):
    """A column of predictions meets a flat target, and every pair is compared.

    ## Why it matters
    ``mse_loss`` of a prediction of shape (N, 1) and a target of shape (N,) broadcasts to (N, N): each prediction is
    drawn towards every target, so the model learns their mean. There is a warning in the log, and a loss that falls.

    ## Example
    ```python
    out = nn.Linear(8, 1)(x)
    loss = F.mse_loss(out, y.view(-1))
    ```

    ## Use instead
    ```python
    loss = F.mse_loss(out.squeeze(-1), y.view(-1))
    ```

    ## When it stays quiet
    Where the shape of either side is not known: most targets come out of a loader that tells nothing of it. Where a
    condition around asks for the shape, and for a difference that makes the column itself (``a.view(-1, 1) - b``). A
    note where the losses of a loop over samples are added up for one backward pass (N is likely 1), and where only the
    text says it: one of a reward and an end of episode, out of one batch, is made a column and the other is not.

    ## Fix safety
    No fix is offered: either side may be the one to reshape.
    """

    code = "PF213"
    name = "loss-shape-broadcast"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A loss, or the difference that a loss is made of, of a column and a flat tensor."""
        for loss in program.of(Loss):
            if loss.expects != "same shape" or loss.target is None:
                continue
            sides = {shape_of(loss.input): loss.input, shape_of(loss.target): loss.target}
            if sides.keys() == {"column", "flat"} and not _asks_shape(program, loss.site):
                because = [shape_note(sides[shape], shape) for shape in ("column", "flat")]
                report(
                    loss.site,
                    "One side of this loss {is} a column (N, 1) and the other flat (N,): they broadcast to (N, N), and "
                    "every prediction is compared with every target. Bring both into the same shape.",
                    because=[*(step for step in because if step), start(loss.site, "the loss compares them")],
                    severity=Severity.NOTE if _is_of_one_sample(program, loss) else None,
                )
        for event in program.of(Broadcast):
            if _is_written_out(program, event) or _asks_shape(program, event.site):
                continue
            report(
                event.site,
                "One side of this operation {is} a column (N, 1) and the other flat (N,): they broadcast to (N, N). "
                "Bring both into the same shape.",
                because=[event.column, event.flat, start(event.site, "they meet here")],
            )
        for site, flat, column, name, other in lone_flat(program):
            if not any(site.path == each.path for each in report.drafts):
                report(
                    site,
                    f"`{other}` was made a column (N, 1) and `{name}`, which comes out of the same batch, {{is}} left "
                    "flat (N,): they broadcast to (N, N). Bring both into the same shape.",
                    because=[start(column, "a column"), start(flat, "as it comes"), start(site, "they meet here")],
                    gaps=[Gap.CONVENTION],
                    severity=Severity.NOTE,  # the batch may hold columns of one and not of the other
                )


def _is_of_one_sample(program: Program, loss: Loss) -> bool:
    """Whether a loop over samples adds up losses, for one backward pass behind it: N is likely 1, and nothing is
    broadcast. A loop that counts (over the steps of a sequence) says nothing of the batch."""
    inner = loss.loops[-1:]
    if not inner or inner[0].runs_over == "range" or inner[0].kind not in {"data", "other"}:
        return False
    sides = (loss.input, loss.target) if loss.target is not None else (loss.input,)
    roots = {root for side in sides for case in side.cases for root in roots_of(case)}
    own = [each for each in program.of(Backward) if each.roots & roots]
    return bool(own) and not any(nest_key(each.loops[: len(loss.loops)]) == nest_key(loss.loops) for each in own)


def _asks_shape(program: Program, site: Site) -> bool:
    """Whether a condition around a place asks for a shape: it decides which of two shapes there is."""
    return any(_SHAPE.search(spelled(test)) for test in asked_around(program, site))


def _is_written_out(program: Program, event: Broadcast) -> bool:
    """Whether the operation itself makes the column (``a.view(-1, 1) - b``): every pair is meant."""
    node = words(program).node(event.site)
    parts = walk((ir.Evaluate(node.at, node),), True) if isinstance(node, ir.Expr) else ()
    made = [part for part in parts if getattr(part, "at", None) == event.column.site.at]
    return any(_reshapes(part) for part in made)


def _reshapes(part: object) -> bool:
    """``x.view(-1, 1)``, ``x.unsqueeze(1)``, ``x[:, None]``."""
    if isinstance(part, ir.Call):
        return isinstance(part.callee, ir.Attribute) and part.callee.attr in {"view", "reshape", "unsqueeze"}
    return isinstance(part, ir.Subscript)
