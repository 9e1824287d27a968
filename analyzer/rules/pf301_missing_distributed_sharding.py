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
from analyzer.engine.trace import Gap, Site, Trace
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.iteration import exclude
from analyzer.rules.offered import is_offered
from analyzer.rules.sharding import is_made_up, is_sequential, is_whole
from analyzer.syntax import ir
from analyzer.syntax.scope import walk

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
    for DeepSpeed's engine, which often serves one process, and where several processes are an option that is off by
    default.

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
        averages = [] if wrapped else _averages(program)
        several = averages[-1] if averages else several
        is_alone = is_engine and not mentions_rank(program)  # an engine also serves a single process
        for made in found:
            why, gaps = _training(program, known, made)
            if not any(_is_one_run(program, made, event) for event in known.distributed):
                continue  # one function trains alone, another in several processes
            if why is None or (is_engine and is_made_up(program, made.argument("dataset"))):
                continue
            report(
                made.site,
                "Every rank {does get} the whole dataset from this loader: nothing gives each process a part of its "
                "own. Use a `DistributedSampler`.",
                because=[several.trace, made.trace, why],
                severity=Severity.NOTE if is_engine or is_option else None,
                gaps=gaps
                if (wrapped or averages) and not is_alone
                else [*gaps, Gap.UNSEEN],  # a group may serve stages of a model
            )


def _averages(program: Program) -> list[Collective]:
    """Sums over all processes of what each parameter holds: gradients are averaged by hand."""
    return [each for each in program.of(Collective) if each.loops and each.loops[-1].runs_over == "parameters"]


def _is_one_run(program: Program, one: Event, other: Event) -> bool:
    """Whether what was seen may happen in one run: not in two functions of which nothing calls both. Methods share the
    object, and the body of the file is run before any of them. Nor in two branches of one condition."""
    if exclude(one, other):
        return False
    entries = [event.calls[0] for event in (one, other) if event.calls and event.calls[0] in program.entries]
    functions = [words(program).node(site) for site in entries]
    are_free = all(isinstance(node, ir.FunctionDef) and _is_free(node) for node in functions)
    if len(entries) == 2 and not are_free and _are_strangers(program, *entries):
        return False
    return len(entries) < len((one, other)) or entries[0] == entries[1] or not are_free


def _are_strangers(program: Program, one: Site, other: Site) -> bool:
    """Whether two methods are of two classes of a file, neither of which names the other."""
    unit = program.unit(one.path) if one.path == other.path else None
    classes = [node for node in (unit.body if unit is not None else ()) if isinstance(node, ir.ClassDef)]
    mine, theirs = (
        next((cls for cls in classes if any(getattr(each, "at", None) == site.at for each in cls.body)), None)
        for site in (one, other)
    )
    if mine is None or theirs is None or mine is theirs:
        return False
    named = {cls.name: {part.id for part in walk((cls,), True) if isinstance(part, ir.Name)} for cls in (mine, theirs)}
    return theirs.name not in named[mine.name] and mine.name not in named[theirs.name]


def _is_free(node: ir.FunctionDef) -> bool:
    return not node.params or node.params[0].name not in {"self", "cls"}


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
    return (made.trace, [*gaps, Gap.CONVENTION]) if shuffled else (None, [])
