"""PF301 missing-distributed-sharding."""

from __future__ import annotations

from analyzer.engine.data_events import Collective, Distributed, LoaderMade, Prepared
from analyzer.engine.events import Event
from analyzer.engine.loading import (
    Loading,
    dataset_kind,
    is_absent,
    is_const,
    loading,
    mentions_rank,
    picks_by_rank,
    sampler_of,
)
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Trace
from analyzer.findings import Severity
from analyzer.knowledge.words import pattern
from analyzer.rules.base import Report, Rule
from analyzer.rules.iteration import may_be_one_run
from analyzer.rules.offered import is_offered
from analyzer.rules.sharding import is_made_up, is_sequential, is_whole, names_of

_TAKES_LOADERS = {"Accelerate": "prepare", "Fabric": "setup_dataloaders"}


class MissingDistributedSharding(Rule):
    """Every rank trains on the whole dataset.

    ## Why it matters
    Data-parallel training expects each rank to see its own part of the data. A ``DataLoader`` without a distributed
    sampler gives every rank everything: an epoch costs as much as on one GPU, the ranks repeat each other's work, and
    with the same seed they even compute the same gradients.

    ## Example
    ```python
    model = DistributedDataParallel(model)
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    ```

    ## Use instead
    ```python
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    ```
    and ``sampler.set_epoch(epoch)`` at the start of each epoch.

    ## When it stays quiet
    With a sampler or batch sampler that may know the rank (the random ones of torch, and batches of these, do not);
    for iterable datasets; where data is sliced, sharded or built by rank; for loaders that only evaluate (also
    those that draw in order), or that only one rank builds; where Accelerate, Lightning or a trainer shards. A note
    for DeepSpeed's engine, which often serves one process, where several processes are an option that is off by
    default, and where another file than the one that sets up the processes makes the loader: it serves one process too,
    and is told which by arguments; and where the function that sets up the processes makes sharded loaders of its own.

    ## Fix safety
    No automatic fix: the sampler also needs ``set_epoch`` where the epochs are counted.
    """

    code = "PF301"
    name = "missing-distributed-sharding"
    alias = "TG012"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A training loader of an indexed dataset without a sampler, in a program of several processes."""
        known = loading(program)
        if not known.distributed:
            _check_prepared(program, known, report)
            return
        found = [
            made for made in known.made.values() if is_whole(program, known, made) and not known.is_evaluated(made)
        ]
        if not found or picks_by_rank(program):
            return
        wrapped = [event for event in known.distributed if event.how != "group"]
        several: Event = wrapped[-1] if wrapped else known.distributed[-1]
        is_engine = isinstance(several, Distributed) and several.how == "engine"
        is_option = all(is_offered(program, event) for event in known.distributed)
        at_home = {event.site.path for event in known.distributed}
        averages = [] if wrapped else _averages(program)
        several = averages[-1] if averages else several
        is_alone = is_engine and not mentions_rank(program)  # an engine also serves a single process
        for made in found:
            why, gaps = _training(program, known, made)
            if not any(may_be_one_run(program, made, event) for event in known.distributed):
                continue  # one function trains alone, another in several processes
            if why is None or (is_engine and is_made_up(program, made.argument("dataset"))):
                continue
            report(
                made.site,
                "Every rank {does get} the whole dataset from this loader: nothing gives each process a part of its "
                "own. Use a `DistributedSampler`.",
                because=[several.trace, made.trace, why],
                severity=Severity.NOTE
                if is_engine or is_option or made.site.path not in at_home or _has_own(program, known, several, made)
                else None,
                gaps=gaps
                if (wrapped or averages) and not is_alone
                else [*gaps, Gap.UNSEEN],  # a group may serve stages of a model
            )


def _has_own(program: Program, known: Loading, several: Event, made: LoaderMade) -> bool:
    """Whether the function that sets up the processes makes loaders that give each its part, and this one is made
    elsewhere: for one process, before (a cell of a notebook) or besides."""
    home = program.function_around(several.site)
    if home is None or program.function_around(made.site) is home:
        return False
    others = (each for each in known.made.values() if program.function_around(each.site) is home)
    return any(not is_whole(program, known, each) for each in others)


def _averages(program: Program) -> list[Collective]:
    """Sums over all processes of what each parameter holds: gradients are averaged by hand."""
    return [each for each in program.of(Collective) if each.loops and each.loops[-1].runs_over == "parameters"]


def _check_prepared(program: Program, known: Loading, report: Report) -> None:
    """Accelerate prepares the model and the optimizer, or Fabric sets them up, and not the loader they train on."""
    for prepared in program.of(Prepared):
        for made in known.made.values():
            training = known.training(made)
            if training is None or training.gap or not is_whole(program, known, made) or picks_by_rank(program):
                continue
            report(
                made.site,
                f"{prepared.by} prepares the model and not this loader: with several processes every rank "
                f"{{will get}} the whole dataset. Give the loader to `{_TAKES_LOADERS[prepared.by]}` as well.",
                because=[prepared.trace, made.trace, training.trace],
                gaps=[Gap.CONVENTION],
                severity=Severity.ERROR
                if prepared.is_several
                else Severity.NOTE,  # how many there are, the text may say
            )


def _training(program: Program, known: Loading, made: LoaderMade) -> tuple[Trace | None, list[Gap]]:
    """Why the loader trains, and what that rests on."""
    training = known.training(made)
    shuffled = is_const(made.argument("shuffle"), True)
    kind = dataset_kind(program, made.argument("dataset"))
    gaps: list[Gap] = []
    sampler = sampler_of(program, made)
    sampled = not (is_absent(made.argument("sampler")) and is_absent(made.argument("batch_sampler")))
    if kind == "unknown":  # shuffled data is indexed data: an iterable dataset refuses `shuffle=True` and samplers
        gaps.append(Gap.CONVENTION if shuffled or sampled else Gap.UNSEEN)
    shuffled = shuffled or (sampled and not is_sequential(program, sampler))
    if training is not None:
        if not all(is_whole(program, known, known.made[other]) for other in training.among):
            gaps.append(Gap.UNSEEN)
        return training.trace, gaps + ([training.gap] if training.gap else [])
    is_held_out = any(pattern("for validation").search(name) for name in names_of(program, made))
    return (made.trace, [*gaps, Gap.CONVENTION]) if shuffled and not is_held_out else (None, [])
