"""PF305 distributed-evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.engine.aggregation import argument_name, divided_by_whole, is_cut, total_of
from analyzer.engine.data_events import Collective, Launched, LoaderIterated, LoaderMade, Logged, Sharded
from analyzer.engine.events import Backward, Forward, Loop
from analyzer.engine.loading import DISTRIBUTED_SAMPLERS, Loading, loading, picks_by_rank
from analyzer.engine.measures import Mark, marks_of
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, Trace
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.sharding import is_whole


class DistributedEvaluation(Rule):
    """A score that is computed on several ranks is that of one rank, or counts samples several times.

    ## Why it matters
    Where ranks share the evaluation data, each has only a part of the result: what rank 0 prints, or chooses a
    checkpoint by, was measured on a fraction of the samples. Where every rank has all the data, a sum over the ranks
    counts every sample once for each rank. And where the last batches are filled up so that all ranks have equally
    many, the samples that were repeated count twice unless they are cut off. Nothing fails; the number is wrong, and it
    changes with the number of GPUs.

    ## Example
    ```python
    loader = DataLoader(val_set, sampler=DistributedSampler(val_set, shuffle=False))
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
        total += y.size(0)
    print(correct / total)
    ```

    ## Use instead
    ```python
    counts = torch.tensor([correct, total], device=device)
    dist.all_reduce(counts)
    print((counts[0] / counts[1]).item())
    ```
    With Accelerate, ``accelerator.gather_for_metrics``; with Lightning, ``self.log(…, sync_dist=True)`` or a metric of
    torchmetrics.

    ## When it stays quiet
    Where the function, its callers or what they call put results together (``all_reduce``, ``gather``, a meter that
    synchronises, torchmetrics), a note if only code before the evaluation does, or for other numbers by their names;
    where each rank writes a part of its own; where every rank evaluates everything, or only one rank evaluates: that is
    waste, not a wrong number; for one process.

    ## Fix safety
    No automatic fix: what to sum and what to gather depends on the metric.
    """

    code = "PF305"
    name = "distributed-evaluation"
    severity = Severity.WARNING
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """Totals of shards that stay apart, sums of totals that are whole already, repeated samples that are kept."""
        known = loading(program)
        _report_logged(program, report)
        if not known.iterated:
            return
        for event, made in _evaluations(program, known):
            why = _sharded_by(program, known, made)
            if why is None:
                _report_repeated(program, report, known, event, made)
            elif not _report_padded(program, report, event, why):
                _report_shard(program, report, event, why, is_several=bool(known.distributed) or why.gap is not None)


def _evaluations(program: Program, known: Loading) -> Iterator[tuple[LoaderIterated, LoaderMade]]:
    """The loops over loaders that run a model and no backward pass."""
    training = {loop.key for event in program.of(Backward) for loop in event.loops}
    running = {loop.key for event in program.of(Forward) for loop in event.loops}
    for event in known.iterated:
        key = (event.site, "", program.runs.get(event.calls, 0))
        if key in training or key not in running:
            continue
        made = [known.made[loader] for loader in event.loaders if loader in known.made]
        if len(made) == 1 and made[0].loader not in known.trains:
            yield event, made[0]


def _sharded_by(program: Program, known: Loading, made: LoaderMade) -> Trace | None:
    """What gives each rank a part of the loader's data."""
    for sampler in made.samplers:
        if program.objects[sampler].name in DISTRIBUTED_SAMPLERS:
            return program.objects[sampler].trace
    for event in program.of(Sharded):
        if event.by == "Accelerator" and made.loader in event.objects:
            return event.trace.then(event.site, "each process gets a part of this loader's data", Gap.CONVENTION)
    return None


def _report_shard(program: Program, report: Report, event: LoaderIterated, why: Trace, is_several: bool) -> None:
    """`is_several`: something that was read starts several processes; else the sampler may stand in a branch apart."""
    total = total_of(program, event.site, event.calls)
    if total is None:
        return
    report(
        total.used,
        "Each rank evaluates its own part of the data and nothing puts the parts together: this {is} the result of one "
        "rank. Sum or gather it over all ranks first.",
        because=[why, event.trace],
        gaps=[Gap.CONVENTION if total.is_sure and is_several else Gap.UNSEEN],
        severity=Severity.NOTE if total.is_apart else None,
    )


def _report_padded(program: Program, report: Report, event: LoaderIterated, why: Trace) -> bool:
    """Outputs that Accelerate gathers as they are; whether anything is gathered at all."""
    inside = [each for each in program.of(Collective) if each.how == "gather" and _is_inside(each.loops, event.site)]
    for each in inside:
        cases = each.value.cases if each.value is not None else ()
        if not any(marks_of(case) & {Mark.MEAN, Mark.LOSS} for case in cases) and not is_cut(program, each.site):
            report(
                each.site,
                "`gather` {does keep} the samples that were repeated to give every rank equally many: they "
                "count twice. Use `gather_for_metrics`, or cut the result to the length of the data set.",
                because=[why, each.trace],
                gaps=[Gap.CONVENTION],
            )
    return bool(inside)


def _is_inside(loops: tuple[Loop, ...], site: Site) -> bool:
    return any(loop.site == site for loop in loops)


def _report_repeated(program: Program, report: Report, known: Loading, event: LoaderIterated, made: LoaderMade) -> None:
    """A sum over ranks each of which has counted the whole data set."""
    sums = [each for each in program.of(Collective) if each.how == "sum" and each.function == event.function]
    if not sums or not is_whole(program, known, made) or picks_by_rank(program):
        return
    for each in sums:
        if each.order > event.order and divided_by_whole(program, each.site, argument_name(program, each.site)):
            report(
                each.site,
                "Every rank has evaluated the whole data set, and their results are added up: each sample {is} counted "
                "once for each rank. Give each rank a part of the data, or leave the sum out.",
                because=[made.trace, event.trace, each.trace],
                gaps=[Gap.CONVENTION],
            )


def _report_logged(program: Program, report: Report) -> None:
    """A value that Lightning takes from one rank, while a trainer of several devices is made."""
    launched = next(program.of(Launched), None)
    for event in program.of(Logged) if launched is not None else ():
        stages = {loop.part for loop in event.loops if loop.kind == "framework"}
        if launched is not None and not event.is_merged and any(stage.startswith("evaluation") for stage in stages):
            report(
                event.site,
                "What is logged here {is} the value of one rank: the others are not averaged in. Pass "
                "`sync_dist=True`, or log a metric of torchmetrics.",
                because=[launched.trace, event.trace],
                gaps=[Gap.CONVENTION],
            )
