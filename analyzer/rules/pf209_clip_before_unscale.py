"""PF209 clip-before-unscale."""

from __future__ import annotations

from analyzer.engine.events import Backward, Event
from analyzer.engine.optim_events import Clip, GradientRead, ScalerStep, Unscale
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, start
from analyzer.engine.values import Const, ObjectId
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertStatement
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.iteration import between, exclude, in_one_iteration
from analyzer.rules.offered import is_left_off
from analyzer.rules.spoken_steps import clipped_scaled, tell
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, walk


class ClipBeforeUnscale(Rule):
    """Gradients are clipped while they are still multiplied by the loss scale.

    ## Why it matters
    ``scaler.scale(loss).backward()`` leaves gradients that are thousands of times too large, and ``scaler.step``
    divides them by the scale only when it applies them. A ``clip_grad_norm_`` in between compares the scaled norm with
    the threshold: nearly every step is clipped to almost nothing, and how much depends on the scale of the moment.

    ## Example
    ```python
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## When it stays quiet
    When ``unscale_`` runs between the backward pass and the clipping, here or in a callee; when the loss was not
    scaled; when a framework clips (Accelerate, Fabric and Lightning unscale first); when the scaler is built disabled.
    A note where only its name says what the scaler is, and nothing in the file unscales.
    A note where the scaler is enabled by an option that the tree turns off, and nothing in it turns on: no default,
    configuration, script or page.

    ## Fix safety
    Unsafe: from then on the threshold applies to the true gradients, which is the point, and may need tuning.
    """

    code = "PF209"
    name = "clip-before-unscale"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A clip of gradients that came through a scaled loss and that nothing has divided by the scale."""
        for clip in program.of(Clip):
            if clip.is_scaled == "no":
                continue
            backward = _scaled_backward(program, clip)
            if backward is None or any(
                _may_divide(program, read) for read in between(program.of(GradientRead), backward, clip)
            ):
                continue
            if clip.is_scaled == "maybe" and _unscaled_somewhere(program, backward, clip):
                continue
            scaler = _scaler_of(backward)
            if scaler is None or _is_disabled(program, scaler):
                continue
            report(
                clip.site,
                "The gradient {is} clipped here while still multiplied by the loss scale: the threshold applies to "
                "numbers thousands of times too large. Call `unscale_(optimizer)` of the scaler before clipping.",
                because=[
                    program.objects[scaler].trace,
                    start(backward.site, "the backward pass of the scaled loss"),
                    start(clip.site, "the gradients are clipped here"),
                ],
                gaps=[] if clip.is_scaled == "yes" else [Gap.CONVENTION],
                severity=Severity.NOTE if is_left_off(program, program.objects[scaler].trace.site, "enabled") else None,
                fix=_fix(program, clip, scaler),
            )
        tell(
            report,
            clipped_scaled(program),
            "The gradient {is} clipped here while still multiplied by the loss scale: the threshold applies to numbers "
            "thousands of times too large. Call `unscale_(optimizer)` of the scaler before clipping.",
            "the backward pass of the scaled loss",
            "the gradients are clipped here",
        )


def _may_divide(program: Program, read: Event) -> bool:
    """Whether the function that reads gradients may divide them by hand: not where it computes nothing with them
    (``torch.isfinite(p.grad).all()``)."""
    function = program.function_around(read.site)
    if function is None or len(function.body) > _SHORT:
        return True
    for node in walk(function.body, into_functions=False):
        if isinstance(node, ir.Augment) or (isinstance(node, ir.Operation) and node.op in {"*", "/"}):
            return True
        named = node.callee if isinstance(node, ir.Call) else None
        name = named.attr if isinstance(named, ir.Attribute) else dotted(named) if named is not None else None
        if named is not None and name not in _ASKS:
            return True
    return False


_SHORT = 4
"""Statements of a function that only asks."""
_ASKS = frozenset(
    ["isfinite", "isnan", "isinf", "all", "any", "item", "parameters", "named_parameters", "bool", "numel"]
)


def _scaler_of(backward: Backward) -> ObjectId | None:
    found = sorted(tag[1] for tag in backward.via if isinstance(tag, tuple) and tag[:1] == ("scaled",))
    return found[0] if found else None


def _scaled_backward(program: Program, clip: Clip) -> Backward | None:
    """The last backward pass of a scaled loss before the clip."""
    found = [
        event
        for event in program.of(Backward)
        if event.order < clip.order and _scaler_of(event) is not None and not exclude(event, clip)
    ]
    return found[-1] if found else None


def _unscaled_somewhere(program: Program, backward: Backward, clip: Clip) -> bool:
    """Where branches meet before the clip, one of them has unscaled: the same condition decides on both."""
    return bool(between(program.of(Unscale), backward, clip))


def _is_disabled(program: Program, scaler: ObjectId) -> bool:
    enabled = dict(program.objects[scaler].arguments).get("enabled")
    return isinstance(enabled, Const) and enabled.value is False


def _fix(program: Program, clip: Clip, scaler: ObjectId) -> DraftFix | None:
    """``scaler.unscale_(optimizer)`` before the clip, in the words of the step that follows it."""
    for step in program.of(ScalerStep):
        if step.scaler == scaler and step.order > clip.order and step.function == clip.function:
            line, name = program.sources.line_of(clip.site), program.sources.called_on(step.site)
            optimizer = program.sources.argument_text(step.site)
            if line is None or name is None or optimizer is None or not in_one_iteration(program, step, clip):
                return None
            edit = InsertStatement("before", line, f"{name}.unscale_({optimizer})")
            return DraftFix("Unscale the gradients before clipping", "unsafe", (edit,))
    return None
