"""PF404 rebuilt-in-loop."""

from __future__ import annotations

from analyzer.engine.data_events import LoaderMade
from analyzer.engine.events import Backward, Event, Loop
from analyzer.engine.optim_events import OptimizerMade, Wrapped
from analyzer.engine.program import Program, nest_key
from analyzer.engine.trace import Gap
from analyzer.engine.values import ObjectId, Value
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule


class RebuiltInLoop(Rule):
    """An optimizer or a loader is built anew in every training step, or a model is compiled or wrapped in a loop.

    ## Why it matters
    A new optimizer starts without momentum and moments: Adam and SGD with momentum become plain, badly scaled gradient
    descent, and every step allocates their state again. A new loader starts its workers, and draws one batch.
    `torch.compile` and `DistributedDataParallel` put one more layer around the model each time, and compile, broadcast
    or shard it anew; so these count once per epoch as well.

    ## Example
    ```python
    for x, y in loader:
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        ...
    ```

    ## When it stays quiet
    In loops over folds, stages, layers and seeds, where the model itself is made in the loop, for variables that are
    optimized per sample, and under a condition. An optimizer with a memory that is built in every epoch is a note: a
    restart may be meant.

    ## Fix safety
    No automatic fix: moving a construction changes what it is made of.
    """

    code = "PF404"
    name = "rebuilt-in-loop"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A construction directly in a loop over data whose iterations run a backward pass."""
        training = {nest_key(event.loops) for event in program.of(Backward)}
        for made in program.of(OptimizerMade):
            is_older = bool(made.modules) and all(_is_older(program, each, made.loops) for each in made.modules)
            if is_older and made.is_complete:
                if _is_per_step(made, training):
                    _report(program, report, made, "optimizer", "its state is lost each time")
                elif _has_state(program, made) and _is_per_epoch(program, made):
                    _report(
                        program,
                        report,
                        made,
                        "optimizer",
                        "its running averages start from zero",
                        "epoch",
                        Severity.NOTE,
                    )
        for loader in program.of(LoaderMade):
            data = loader.argument("dataset")
            if _is_per_step(loader, training) and data is not None and _is_old(program, data, loader.loops):
                _report(program, report, loader, "loader", "its workers start each time")
        for wrap in program.of(Wrapped):
            is_older = all(_is_older(program, each, wrap.loops) for each in wrap.modules)
            if is_older and (_is_per_step(wrap, training) or _is_per_epoch(program, wrap)):
                _report_wrap(program, report, wrap)


def _is_per_step(event: Event, training: set[tuple[object, ...]]) -> bool:
    """Whether something happens once per batch of a training loop, whatever the batch."""
    return (
        bool(event.loops) and event.loops[-1].kind == "data" and nest_key(event.loops) in training and not event.guards
    )


def _is_per_epoch(program: Program, event: Event) -> bool:
    """Whether something happens once per epoch: directly around it is a loop over batches that trains."""
    if not event.loops or event.loops[-1].kind not in {"range", "while"} or event.guards:
        return False
    depth = len(event.loops)
    inner = [each.loops for each in program.within(Backward, event.loops)]
    return bool(inner) and all(len(loops) == depth + 1 and loops[-1].kind == "data" for loops in inner)


def _has_state(program: Program, made: OptimizerMade) -> bool:
    """Whether an optimizer remembers earlier steps: all of torch's but SGD without momentum."""
    obj = program.objects[made.optimizer]
    if not obj.name.endswith(".SGD"):
        return obj.name.startswith("torch.optim.")
    given = dict(obj.arguments)
    return given.get("momentum", given.get("2")) is not None


def _is_older(program: Program, obj: ObjectId, loops: tuple[Loop, ...]) -> bool:
    return len(program.objects[obj].loops) < len(loops)


def _is_old(program: Program, value: Value, loops: tuple[Loop, ...]) -> bool:
    """Whether all that a value may be are objects that were made before the loop."""
    objects = [getattr(case, "obj", None) for case in value.cases]
    return all(obj is not None and _is_older(program, obj, loops) for obj in objects)


def _report(
    program: Program,
    report: Report,
    event: Event,
    what: str,
    why: str,
    when: str = "training step",
    severity: Severity | None = None,
) -> None:
    report(
        event.site,
        f"This {what} {{is}} built anew in every {when}: {why}. Build it once, before the loop.",
        because=[event.loops[-1].trace, event.trace],
        gaps=[Gap.CONVENTION],
        severity=severity,
    )


def _report_wrap(program: Program, report: Report, event: Event) -> None:
    report(
        event.site,
        f"`{program.sources.text(event.site)}` {{does wrap}} the same model again in every iteration: it is compiled, "
        "broadcast or sharded anew each time. Do it once, before the loop.",
        because=[event.loops[-1].trace, event.trace],
        gaps=[Gap.CONVENTION],
    )
