"""PF302 missing-set-epoch."""

from __future__ import annotations

import re

from analyzer.engine.data_events import LoaderIterated, LoaderMade
from analyzer.engine.events import Backward, Event, Loop
from analyzer.engine.loading import DISTRIBUTED_SAMPLERS, Loading, Training, is_const, loading, picks_by_rank
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site
from analyzer.engine.values import ObjectId, Ref, truth
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertStatement
from analyzer.knowledge.words import pattern
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.iteration import exclude
from analyzer.rules.offered import is_made_on_offer
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted

_SET_EPOCH = re.compile(rb"set_epoch")
_AVERAGES = re.compile(
    rb"^[^#\n]*\b(?:\w{0,80}Distributed\w{0,80}Parallel\w{0,80}|DDP|\w{0,80}FSDP\w{0,80}|fully_shard|DistributedOptimizer"
    rb"|\w{0,80}all_?reduce\w{0,80}|average_gradients|xm\.\w{1,80}|parallelize\w{0,80})\("
    rb"|^[ \t]*(?:from|import)[ \t]+(?:transformers|accelerate|deepspeed|lightning|pytorch_lightning|horovod|colossalai"
    rb"|composer|ignite|mmcv|mmengine|detectron2|fairscale|bagua|ray|catalyst|megatron|torch_xla)\b",
    re.MULTILINE,
)


class MissingSetEpoch(Rule):
    """A distributed sampler replays the order of the first epoch.

    ## Why it matters
    ``DistributedSampler`` shuffles with a generator seeded by its seed and its epoch. Unless ``set_epoch`` is called,
    the epoch stays 0, and a sampler that is made anew in every epoch begins there: every epoch has the same order, the
    same batches, and each rank sees the same part of each batch. Nothing fails; the
    model generalises worse than on one GPU.

    ## Example
    ```python
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, sampler=sampler)
    for epoch in range(epochs):
        for x, y in loader:
            ...
    ```

    ## Use instead
    ```python
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            ...
    ```

    ## When it stays quiet
    When ``set_epoch`` is called on the sampler, on the loader or on something that was not read; with
    ``shuffle=False``; in a loop of one round; where another loader may be drawn from that no condition tells apart;
    for loaders that only evaluate; where Lightning, Accelerate or a trainer takes the loader over. A note where the
    other branch makes a loader for one process, where the loader was made by code that was not read, or goes to such
    code that may train on it, where nothing in a tree of several files wraps a model for several processes, averages
    gradients or starts a trainer that does, and where the sampler is made under an option that is off, and the commands
    in the texts of the tree start one process.

    ## Fix safety
    Unsafe: the order of the data changes, which is the point.
    """

    code = "PF302"
    name = "missing-set-epoch"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A shuffling distributed sampler behind a loader that trains, drawn from in every round of a loop."""
        known = loading(program)
        for made in known.made.values():
            for sampler in made.samplers:
                if _shuffles(known, sampler) and not _is_told(known, made, sampler):
                    _report(program, report, known, made, sampler)
        _report_unread(program, report, known)


def _trains_in(program: Program, event: LoaderIterated, epochs: Loop) -> bool:
    """Whether a backward pass was seen in the rounds of a loop; those of a generator train where it is consumed."""
    function = program.function_around(epochs.site)
    if function is not None and function.is_generator:
        return True
    nest = event.loops[: event.loops.index(epochs) + 1] if epochs in event.loops else event.loops
    return any(True for _ in program.within(Backward, nest)) or not any(True for _ in program.of(Backward))


def _shuffles(known: Loading, sampler: ObjectId) -> bool:
    if known.program.objects[sampler].name not in DISTRIBUTED_SAMPLERS:
        return False
    return not is_const(known.given(sampler, 3, "shuffle"), False)


def _is_told(known: Loading, made: LoaderMade, sampler: ObjectId) -> bool:
    around = {sampler, made.loader, *made.samplers}
    told = any(not event.objects or event.objects & around for event in known.epochs_set)
    return told or known.is_handed_over(made)


def _report(program: Program, report: Report, known: Loading, made: LoaderMade, sampler: ObjectId) -> None:
    training = known.training(made)
    trained = {loop.site for event in program.of(Backward) for loop in event.loops if made.loader in loop.over}
    for event, loops in known.uses(made):
        if trained and isinstance(event, LoaderIterated) and event.site not in trained:
            continue  # a look at a few pictures before the training
        epochs = _epochs(program, sampler, loops)
        if epochs is not None and isinstance(event, LoaderIterated) and not _trains_in(program, event, epochs):
            continue
        if epochs is None or (training is None and isinstance(event, LoaderIterated)):
            continue
        is_handed = training is None and _is_to_shuffle(made)
        place = Site(epochs.site.path, epochs.site.at + 1) if epochs.kind != "framework" else epochs.site
        because = [program.objects[sampler].trace, made.trace, epochs.trace, event.trace]
        made_at = program.objects[sampler].trace.site
        report(
            place,
            "Every round of this loop {does draw} the same order of the data: the epoch of the `DistributedSampler` "
            "is never set. Call `set_epoch(epoch)` on it at the start of each epoch.",
            because=[*because, training.trace] if training is not None else because,
            gaps=_gaps(program, known, made, sampler, training, is_handed),
            severity=Severity.NOTE
            if is_handed or _runs_alone(known, made, training) or not _may_train_together(program, made_at)
            else None,
            fix=_fix(program, made, event, epochs),
        )
        return


def _report_unread(program: Program, report: Report, known: Loading) -> None:
    """A model that is wrapped for several processes trains on a loader that code elsewhere has made, and nothing speaks
    of epochs that are set: if it shuffles for each rank, it always does so in the same way."""
    wrapped = next((each for each in known.distributed if each.how == "replicated"), None)
    group = next((each for each in known.distributed if each.how == "group"), None)
    wrapped = wrapped or (group if known.epochs_set else None)  # the epoch of another sampler is set
    if wrapped is None or known.made or known.sharded or known.fitted or picks_by_rank(program):
        return
    for backward in program.of(Backward):
        if backward.framework or len(backward.loops) < 2:
            continue
        epochs, batches = backward.loops[-2:]
        is_read = batches.kind != "data" or bool(batches.over) or batches.runs_over != ""
        if is_read or epochs.kind != "range" or is_const(epochs.bound, 1) or not _is_from_elsewhere(program, batches):
            continue
        others = _set_beside(program, known, batches)
        if others is None or (not known.epochs_set and any(True for _ in program.project.naming("set_epoch", ""))):
            return
        if not known.epochs_set and not _sees_ranks(program, epochs):
            return
        if not program.project.is_single and not any(True for _ in program.project.naming("DistributedSampler", "")):
            return  # each rank draws for itself
        report(
            Site(epochs.site.path, epochs.site.at + 1),
            "Nothing that was read sets the epoch of the loader that this loop draws from: if it has a "
            "`DistributedSampler`, every round {does draw} the same order of the data. Call `set_epoch(epoch)` on its "
            "sampler at the start of each epoch.",
            because=[wrapped.trace, epochs.trace, batches.trace, backward.trace],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,  # how the loader splits the data was not read
        )
        return


def _set_beside(program: Program, known: Loading, batches: Loop) -> list[str] | None:
    """The names of what the epoch is set of, where none of them is what a loop draws from; None where one may be."""
    drawn = set(re.findall(r"\w+", program.sources.iterated_text(batches.site) or ""))
    names: list[str] = []
    for event in known.epochs_set:
        call = words(program).node(event.site)
        name = dotted(call.callee) if isinstance(call, ir.Call) else None
        owner = (name or "").removeprefix("self.").partition(".")[0]
        if event.objects or not owner or owner in drawn or not pattern("for validation").search(owner):
            return None
        names.append(owner)
    return names


def _is_from_elsewhere(program: Program, batches: Loop) -> bool:
    """Whether a loop goes over a name, an attribute or an item: what calls make on the spot is another matter."""
    text = program.sources.iterated_text(batches.site) or ""
    return bool(text) and "range(" not in text


def _sees_ranks(program: Program, epochs: Loop) -> bool:
    """Whether the file of the loop trains in several processes itself."""
    return _AVERAGES.search(program.project.read(epochs.site.path) or b"") is not None


def _may_train_together(program: Program, sampler: Site) -> bool:
    """Whether some file of a tree of several makes the processes of a group train one model: wraps it, averages its
    gradients, or leaves that to a framework. Where none does, a sampler is left of what was once meant; so is one that
    an option offers where the texts of the tree run its programs, and each of them in one process."""
    if is_made_on_offer(program, sampler) and program.project.is_run_alone():
        return False
    return program.project.is_single or any(True for _ in program.project.naming("import", "", _AVERAGES))


def _epochs(program: Program, sampler: ObjectId, loops: tuple[Loop, ...]) -> Loop | None:
    """The innermost loop around whose rounds can be epochs; the sampler lives longer, or every round makes it anew, at
    epoch 0."""
    made = program.objects[sampler].loops
    around = [loop for loop in loops[len(made) :] if loop.kind in {"range", "while", "data"}]
    if not around and loops[: len(made)] == made:
        around = [loop for loop in made[: _age_of_data(program, sampler, made)] if loop.kind == "range"][-1:]
    if not around or is_const(around[-1].bound, 1):  # ``for epoch in range(1)``: there is no second order
        return None
    return around[-1]


def _age_of_data(program: Program, sampler: ObjectId, made: tuple[Loop, ...]) -> int:
    """Of the loops around a sampler that is made anew, those that its data outlive: other data have another order."""
    given = dict(program.objects[sampler].arguments)
    data = given.get("dataset", given.get("0"))
    born = [len(program.objects[case.obj].loops) for case in data.cases if isinstance(case, Ref)] if data else []
    return len(made) if not born or max(born) < len(made) else len(made) - 1


def _runs_alone(known: Loading, made: LoaderMade, training: Training | None) -> bool:
    """Whether the other branch of a condition makes the loader that the same loop draws from in one process."""
    others = (known.made[other] for other in training.among) if training is not None else ()
    return any(exclude(each, made) and not any(_shuffles(known, one) for one in each.samplers) for each in others)


def _is_to_shuffle(made: LoaderMade) -> bool:
    """Whether a loader shuffles where it has no sampler (``shuffle=sampler is None``): one for training."""
    shuffle = made.argument("shuffle")
    return shuffle is not None and not is_const(shuffle, False)


def _gaps(
    program: Program,
    known: Loading,
    made: LoaderMade,
    sampler: ObjectId,
    training: Training | None,
    is_handed: bool,
) -> list[Gap]:
    """Code that was not read and gets the sampler, or the loader, may set the epoch."""
    gaps = [Gap.CONVENTION if is_handed else Gap.UNSEEN] if training is None else [training.gap] if training.gap else []
    for other in training.among if training is not None else ():
        is_instead = exclude(known.made[other], made)  # where there is one process
        if not is_instead and not any(_shuffles(known, each) for each in known.made[other].samplers):
            gaps.append(Gap.UNSEEN)
    shuffle = known.given(sampler, 3, "shuffle")
    if shuffle is not None and truth(shuffle) is None:
        gaps.append(Gap.UNSEEN)
    for escape in known.escapes:
        if sampler in escape.objects:
            gaps.append(Gap.UNSEEN)
        elif made.loader in escape.objects:
            others = any(program.project.callers("set_epoch", made.site.path, _SET_EPOCH))
            gaps.append(Gap.UNSEEN if others else Gap.CONVENTION)
    return gaps


def _fix(program: Program, made: LoaderMade, event: Event, epochs: Loop) -> DraftFix | None:
    """``loader.sampler.set_epoch(epoch)`` as the first statement of the loop, where the loader has a name there."""
    given = made.argument("sampler")
    if given is None or not all(isinstance(case, Ref) for case in given.cases) or event.function != made.function:
        return None
    loader = program.sources.iterated_text(event.site) if isinstance(event, LoaderIterated) else None
    head = program.sources.head_of_loop(epochs.site)
    if loader is None or head is None or event.site.path != epochs.site.path:
        return None
    variable, first = head
    edit = InsertStatement("before", first, f"{loader}.sampler.set_epoch({variable})")
    return DraftFix("Set the epoch of the sampler", "unsafe", (edit,))
