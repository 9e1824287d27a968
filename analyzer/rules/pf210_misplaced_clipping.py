"""PF210 misplaced-clipping."""

from __future__ import annotations

from analyzer.engine.events import Backward, Clear, Escape, Guard, Step
from analyzer.engine.optim_events import Accumulate, Clip, GradientRead, OptimizerMade
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.values import Const
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.iteration import between, exclude, in_one_iteration, is_within_guards
from analyzer.rules.named_clips import other_networks


class MisplacedClipping(Rule):
    """Gradients are clipped where it does not do what it should.

    ## Why it matters
    After the step, or before the backward pass, there is nothing left or nothing yet to clip: exploding gradients go
    through. In every micro-batch of an accumulation the partial sums are clipped, so that the first micro-batches weigh
    less. Of other parameters than those that are stepped it protects nothing.

    ## Example
    ```python
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    ```

    ## Use instead
    ```python
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    ```

    ## When it stays quiet
    When a backward pass comes before the clip and a step after it; when the condition of the step is no accumulation;
    when a part of the stepped parameters is clipped on purpose; when the backward pass or the step were not seen. A
    note where only names say that a clipped network (``target_model``, ``actor``) is not the one that is stepped, or
    that one of two is clipped twice.

    ## Fix safety
    No automatic fix.
    """

    code = "PF210"
    name = "misplaced-clipping"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """Each clip against the steps and backward passes of its iteration."""
        clips = list(program.of(Clip))
        told: set[Site] = set()
        for clip in clips:
            steps = [step for step in program.of(Step) if in_one_iteration(program, step, clip)]
            steps = [step for step in steps if not exclude(step, clip)]
            passes = [event for event in program.of(Backward) if in_one_iteration(program, event, clip)]
            passes = [event for event in passes if not exclude(event, clip)]
            if not passes:
                continue
            is_spent = clip.is_fresh == "no" or (clip.is_fresh == "maybe" and _is_last(program, clip, steps))
            if is_spent and steps and _nothing_to_clip(program, report, clip, steps, passes):
                continue
            if not _each_micro_batch(program, report, clip, steps, passes) and _other_parameters(
                program, report, clip, _until(steps, clip, passes), clips
            ):
                told.add(clip.site)
            _each_in_accumulate(program, report, clip)
        for site, step, network, other in other_networks(program):
            if site not in told:
                report(
                    site,
                    f"What is clipped here {{is}} `{network}`, and the optimizer that steps next is the one of "
                    f"`{other}`, by its name: what is applied is not clipped.",
                    because=[start(site, "clipped here"), start(step, "the step that follows")],
                    gaps=[Gap.CONVENTION],
                    severity=Severity.NOTE,  # names alone say so
                )


def _is_last(program: Program, clip: Clip, steps: list[Step]) -> bool:
    """Whether the one optimizer of an iteration, whose parameters were not seen, has stepped before the clip, and the
    gradients are cleared before another step."""
    clears = [event for event in program.of(Clear) if in_one_iteration(program, event, clip)]
    is_one = len({step.site for step in steps}) == 1 and all(not step.modules and not step.guards for step in steps)
    return is_one and all(step.order < clip.order for step in steps) and any(not event.guards for event in clears)


def _until(steps: list[Step], clip: Clip, passes: list[Backward]) -> list[Step]:
    """The steps that apply what is clipped: those before the next backward pass, where one has run before the clip."""
    later = [event.order for event in passes if event.order > clip.order]
    is_after = any(event.order < clip.order for event in passes)
    return [step for step in steps if not (is_after and later and step.order > min(later))]


def _nothing_to_clip(program: Program, report: Report, clip: Clip, steps: list[Step], passes: list[Backward]) -> bool:
    """After the step, or before the backward pass."""
    before = [step for step in steps if step.order < clip.order and is_within_guards(clip, step)]
    later = [event for event in passes if event.order > clip.order]
    if before and any(event.order < before[-1].order for event in passes):
        if _may_compute(program, before[-1], clip):
            return True
        report(
            clip.site,
            "The gradient {is} clipped after the step has applied them: it changes nothing. Clip between the backward "
            "pass and the step.",
            because=[before[-1].trace, start(clip.site, "clipped here")],
        )
        return True
    if later and any(step.order > later[-1].order for step in steps) and not before:
        if any(event.order < clip.order for event in passes):
            return False
        report(
            clip.site,
            "The gradient {is} clipped before the backward pass computes them: it changes nothing. Clip between the "
            "backward pass and the step.",
            because=[start(clip.site, "clipped here"), later[0].trace, steps[-1].trace],
        )
        return True
    return False


def _may_compute(program: Program, first: Step, clip: Clip) -> bool:
    """Code that was not seen, between a step and a clip, may run a backward pass."""
    unseen = [event for event in between(program.of(Escape), first, clip) if isinstance(event, Escape)]
    return any(event.roots or event.objects & (first.modules | clip.modules) for event in unseen)


def _each_micro_batch(program: Program, report: Report, clip: Clip, steps: list[Step], passes: list[Backward]) -> bool:
    """The step and the reset stand under a periodic condition, the clip and the backward pass do not."""
    for step in steps:
        for periodic in (guard for guard in step.guards if guard.is_periodic):
            both = (periodic, periodic.other)
            if any(guard in clip.guards for guard in both) or any(guard.is_periodic for guard in clip.guards):
                continue
            free = [event for event in passes if not any(guard in event.guards for guard in both)]
            own = [event for event in passes if periodic in event.guards and event.order < step.order]
            resets = [event for event in program.of(Clear) if in_one_iteration(program, event, step)]
            if not free or own or free[0].order > clip.order or not any(periodic in reset.guards for reset in resets):
                continue
            report(
                clip.site,
                "The gradient {is} clipped in every micro-batch, but applied only in some iterations: partial sums "
                "are clipped, and early micro-batches weigh less. Clip right before the step.",
                because=[
                    free[0].trace,
                    start(clip.site, "clipped here, in every iteration"),
                    start(periodic.site, "this condition holds every n-th time"),
                    step.trace,
                ],
            )
            return True
    return False


def _each_in_accumulate(program: Program, report: Report, clip: Clip) -> None:
    """Inside Accelerate's ``accumulate()`` without ``if accelerator.sync_gradients:``."""
    for entered in program.of(Accumulate):
        if Guard(entered.site, True) not in clip.guards or any(guard.is_periodic for guard in clip.guards):
            continue
        steps = entered.steps
        if isinstance(steps, Const) and steps.value == 1:
            continue
        report(
            clip.site,
            "Inside `accumulate()` the gradient {is} clipped in every micro-batch. Clip under "
            "`if accelerator.sync_gradients:`.",
            because=[
                start(entered.site, "gradients accumulate over several passes of this context"),
                start(clip.site, "clipped here, in every pass"),
            ],
            gaps=[] if isinstance(steps, Const) else [Gap.CONVENTION],
        )


def _other_parameters(program: Program, report: Report, clip: Clip, steps: list[Step], clips: list[Clip]) -> bool:
    """The step that follows applies none of the clipped gradients."""
    after = [step for step in steps if step.order > clip.order]
    if not after or not clip.is_complete or any(not step.modules for step in after):
        return False
    if any(not program.disjoint(clip.modules, step.modules) for step in after):
        return False
    parted = {made.optimizer for made in program.of(OptimizerMade) if not made.is_complete}
    if any(step.optimizer in parted for step in after):
        return False  # it holds parameters besides that were not seen: ``[{"params": …}] + model.param_groups()``
    first = after[0]
    if between(program.of(GradientRead), clip, first):
        return False  # what was clipped is handed to the parameters that the step updates
    if any(other is not clip and other.modules & first.modules and other.order < first.order for other in clips):
        return False
    report(
        clip.site,
        "The parameters that are clipped here {is} none of those that the following step updates.",
        because=[start(clip.site, "clipped here"), first.trace],
    )
    return True
