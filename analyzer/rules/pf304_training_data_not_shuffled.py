"""PF304 training-data-not-shuffled."""

from __future__ import annotations

from functools import lru_cache

from analyzer.engine.data_events import EpochSet, LoaderMade
from analyzer.engine.events import Backward, Step
from analyzer.engine.loading import (
    DISTRIBUTED_SAMPLERS,
    IN_MEMORY,
    Loading,
    Training,
    dataset_kind,
    is_absent,
    is_const,
    is_random_split,
    loading,
    loads_graphs,
    sampler_of,
)
from analyzer.engine.machine import Obj
from analyzer.engine.own_ways import methods
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.values import Class, Ref, Unknown, Value
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.knowledge.schema import knowledge
from analyzer.knowledge.words import pattern
from analyzer.rules.base import Report, Rule
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, of_type, target_names, walk

_SHUFFLES = {"shuffle", "permutation", "randperm", "sample", "train_test_split", "choice", "permuted", "randint"}
_SPLITS = "train_test_split"
"""It mixes the data once."""
_ELSEWHERE = frozenset(["sample", "choice", "randint", "randperm"])
"""What also draws noise, steps of a diffusion, texts from a model and pairs to mix up: else nothing mixes, a note."""
_DRAWS = {"randn", "rand", "randint", "zeros", "ones", "randn_like", "rand_like", "normal", "uniform"}


_PARTS = ("torch.utils.data.Subset", "torch.utils.data.random_split", "torch.utils.data.dataset.Subset")
_KEEPERS = frozenset(["Accelerator"])
"""Who shards a loader without shuffling it: `accelerator.prepare` and `fabric.setup_dataloaders` keep a sequential
order (accelerate `prepare_data_loader`; lightning.fabric `_get_distributed_sampler`)."""


class TrainingDataNotShuffled(Rule):
    """The training data comes in the same order in every epoch.

    ## Why it matters
    Datasets are often stored by class, by file or by time. Batches in that order are far from samples of the data: the
    gradient follows the last class seen, batch statistics drift, and accuracy suffers without any error.

    ## Example
    ```python
    train_loader = DataLoader(train_set, batch_size=64)
    ```

    ## Use instead
    ```python
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    ```

    A function or a class that takes `shuffle` and makes its loader without it is told as well, and so, as a note, is a
    loader that shuffles in one process and whose `DistributedSampler` does not (or the reverse), or a
    `DistributedSampler` that is told each epoch and does not shuffle.

    ## When it stays quiet
    For loaders that only evaluate, or whose function or dataset is named so; for iterable datasets and samplers of
    one's own; where code shuffles the data, draws indices or splits at random; for data made of random numbers;
    where the dataset was not read, the order may be meant: that is possible, or a note where it comes from code
    outside the tree, or holds tensors, and no name speaks of time or of streams. A part of ``random_split`` is a
    note: the split has mixed the data once. So are the sets of torchvision that are stored in a random order
    (MNIST, CIFAR10), and a ``shuffle=False`` that is written down in the call: somebody may have a reason. So is
    data beside which the program draws numbers of another kind (steps of a diffusion, pairs to mix up).

    ## Fix safety
    No automatic fix: some data (time series, curricula) is meant to stay in order.
    """

    code = "PF304"
    name = "training-data-not-shuffled"
    severity = Severity.WARNING
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A loader that trains on an indexed dataset in the order it is stored, or that is never told to shuffle."""
        known = loading(program)
        told = _report_ignored(program, report, known) | _report_halved(program, report, known)
        told |= _report_epoch_set(program, report, known)
        mixers: frozenset[str] | None = None
        for made in known.made.values():
            training = known.training(made)
            why = _in_order(known, made) if training is not None and not made.has_more else None
            if why is None or training is None or not _is_trained(program, training) or made.site in told:
                continue
            kind = "map" if loads_graphs(program, made) else dataset_kind(program, made.argument("dataset"))
            is_taken = known.is_handed_over(made, but_by=_KEEPERS) and made.loader not in known.fitted
            if kind == "iterable" or is_taken or _is_noise(program, made.argument("dataset")):
                continue
            if _is_single(program, made.argument("dataset")):
                continue
            if _is_for_evaluation(program, made) and not _is_for_training(program, made):
                continue  # what trains on it evaluates as well, as a mode says
            mixers = _mixers(program) if mixers is None else mixers
            shuffles, may_shuffle = bool(mixers - {_SPLITS} - _ELSEWHERE), bool(mixers & _ELSEWHERE)
            others = [known.made[obj] for obj in training.among]
            certain = (
                not shuffles
                and _is_written(program, made)
                and all(_in_order(known, other) for other in others)
                and (kind == "map" or why is not made.trace)
            )
            is_split = is_random_split(program, made.argument("dataset")) or _SPLITS in mixers
            is_mixed = is_split or _is_stored_mixed(program, made)
            is_unread = not certain and not shuffles and kind in {"unknown", "memory"} and _is_unread_set(program, made)
            order = "one order, drawn by the split" if is_split else "the order it is stored"
            report(
                made.site,
                f"This loader {{does train}} on the data in {order}, the same in every epoch. Pass `shuffle=True`, or "
                "a sampler that shuffles.",
                severity=Severity.NOTE if is_mixed or is_unread or may_shuffle or _is_said(program, made) else None,
                because=[*(step for step in (why, made.trace) if step is not None), training.trace],
                gaps=[
                    *([training.gap] if training.gap else []),
                    Gap.CONVENTION if certain or is_unread else Gap.UNSEEN,
                ],
            )


def _is_stored_mixed(program: Program, made: LoaderMade) -> bool:
    """Whether the items are those of a set that was mixed before it was published: its order says nothing, and is the
    same in every epoch all the same."""
    data = made.argument("dataset")
    cases = data.cases if data is not None else ()
    names = [_class_of(program, case) for case in cases]
    return bool(names) and all(name in _mixed() for name in names)


@lru_cache(maxsize=1)
def _mixed() -> frozenset[str]:
    """The classes of published sets whose files hold the samples in a random order."""
    return frozenset(row.name.rpartition(".")[2] for row in knowledge().exact.values() if row.is_mixed)


def _class_of(program: Program, case: Value) -> str:
    name = program.objects[case.obj].name if isinstance(case, Ref) else case.called if isinstance(case, Unknown) else ""
    return (name or "").rpartition(".")[2]


def _is_single(program: Program, dataset: Value | None) -> bool:
    """Whether a data set says that it has one item."""
    cases = dataset.cases if dataset is not None else ()
    classes = [program.objects[case.obj].cls if isinstance(case, Ref) else None for case in cases]
    return bool(classes) and all(cls is not None and _counts_one(cls.node) for cls in classes)


def _counts_one(cls: ir.ClassDef) -> bool:
    body = next((each.body for each in cls.body if isinstance(each, ir.FunctionDef) and each.name == "__len__"), ())
    given = [node.value for node in body if isinstance(node, ir.Return)]
    return bool(given) and all(isinstance(value, ir.Constant) and value.value == 1 for value in given)


def _report_ignored(program: Program, report: Report, known: Loading) -> frozenset[Site]:
    """A function, or a class, takes `shuffle` and makes loaders without it: whatever is asked for, the order stays."""
    told: set[Site] = set()
    for made in known.made.values():
        given = made.argument("shuffle")
        is_off = given is None or is_const(given, False)
        is_plain = not made.has_more and is_absent(sampler_of(program, made)) and is_off
        taken = _ignored(program, made) if is_plain and made.site not in told else None
        if taken is None or dataset_kind(program, made.argument("dataset")) == "iterable":
            continue
        if not _is_asked(program, made) and (known.is_evaluated(made) or _is_for_evaluation(program, made)):
            continue
        told.add(made.site)
        report(
            made.site,
            "`shuffle` is asked for here and never used: this loader {does keep} the order of the data whatever the "
            "caller says. Pass it on.",
            because=[start(taken, "`shuffle` is taken here"), made.trace],
            gaps=[Gap.CONVENTION],
        )
    return frozenset(told)


def _report_halved(program: Program, report: Report, known: Loading) -> frozenset[Site]:
    """A loader that shuffles in one process and gets a `DistributedSampler` that does not, or the reverse."""
    told: set[Site] = set()
    for made in known.made.values():
        sampler, shuffle = sampler_of(program, made), made.argument("shuffle")
        refs = [case for case in sampler.cases if isinstance(case, Ref)] if sampler is not None else []
        if known.is_evaluated(made) or _is_for_evaluation(program, made) or made.site in told:
            continue
        in_order = _alone_in_order(known, refs) if sampler is not None else None
        if in_order is not None and (known.training(made) is not None or _is_for_training(program, made)):
            told.add(made.site)
            _report_kept(
                program, report, in_order, made.trace,
                "Where there is one process this sampler {does keep} the order of the data, which is shuffled where "
                "there are several. Use a `RandomSampler`.",
            )  # fmt: skip
            continue
        if sampler is None or shuffle is None or is_const(shuffle, False, None) or not _is_off(known, refs):
            continue
        told.add(made.site)
        _report_kept(
            program, report, refs[0], made.trace,
            "Where there are several processes this sampler {does keep} the order of the data, which is shuffled where "
            "there is one. Pass it what `shuffle` of the loader depends on.",
        )  # fmt: skip
    return frozenset(told)


def _report_epoch_set(program: Program, report: Report, known: Loading) -> frozenset[Site]:
    """A sampler is told the epoch, which only its shuffling reads, and does not shuffle."""
    told: set[Site] = set()
    if not any(True for _ in program.of(Backward)):
        return frozenset()
    set_on = {obj: event.trace for event in program.of(EpochSet) for obj in event.objects}
    for made in known.made.values():
        sampler = sampler_of(program, made)
        refs = [case for case in sampler.cases if isinstance(case, Ref)] if sampler is not None else []
        epoch = next((set_on[obj] for obj in (made.loader, *(ref.obj for ref in refs)) if obj in set_on), None)
        if epoch is None or not _is_off(known, refs) or known.training(made) is not None or made.site in told:
            continue
        if (known.is_evaluated(made) and len(known.made) > 1) or _is_for_evaluation(program, made):
            continue  # one loader alone is what trains, and its batches may be drawn under `no_grad`
        told.add(made.site)
        _report_kept(
            program, report, refs[0], epoch,
            "This sampler is told the epoch, which is for shuffling, and {does keep} the order of the data in every "
            "one. Let it shuffle.",
        )  # fmt: skip
    return frozenset(told)


def _report_kept(program: Program, report: Report, sampler: Ref, why: Trace, message: str) -> None:
    """A sampler that keeps the order where that may be meant: its callers may want none, or nothing seen trains."""
    keeps = program.objects[sampler.obj].trace
    report(keeps.site, message, because=[keeps, why], gaps=[Gap.CONVENTION], severity=Severity.NOTE)


def _is_off(known: Loading, refs: list[Ref]) -> bool:
    """Whether all of some samplers are distributed ones that keep the order by what is written down."""
    return bool(refs) and all(
        known.program.objects[ref.obj].name in DISTRIBUTED_SAMPLERS
        and is_const(known.given(ref.obj, 3, "shuffle"), False)
        for ref in refs
    )


def _alone_in_order(known: Loading, refs: list[Ref]) -> Ref | None:
    """Of a sequential sampler and a distributed one that shuffles, one of which a loader gets, the sequential one."""
    objects = [known.program.objects[ref.obj] for ref in refs]
    kept = [ref for ref, obj in zip(refs, objects, strict=True) if _is_sequential(obj)]
    shuffling = [
        ref
        for ref, obj in zip(refs, objects, strict=True)
        if obj.name in DISTRIBUTED_SAMPLERS and not is_const(known.given(ref.obj, 3, "shuffle"), False)
    ]
    return kept[0] if kept and shuffling and len(kept) + len(shuffling) == len(refs) else None


def _is_sequential(obj: Obj) -> bool:
    return obj.name.endswith(".SequentialSampler") and obj.name.startswith("torch.")


def _is_for_training(program: Program, made: LoaderMade) -> bool:
    """Whether the data of a loader is named for training: what code elsewhere does with it was not seen."""
    data = next((words(program).of(Site(made.site.path, at)) for name, at in made.nodes if name == "dataset"), "")
    return bool(pattern("for training").search(data))


def _is_asked(program: Program, made: LoaderMade) -> bool:
    """Whether a call of the function around a loader says ``shuffle=True``."""
    function, unit = program.function_around(made.site), program.unit(made.site.path)
    calls = [node for node in of_type(unit, ir.Call) if function is not None and dotted(node.callee) == function.name]
    said = (arg.value for call in calls for arg in call.args if arg.keyword == "shuffle")
    return any(isinstance(value, ir.Constant) and value.value is True for value in said)


def _is_for_evaluation(program: Program, made: LoaderMade) -> bool:
    """Whether the names say that nothing trains on a loader. They only ever hush."""
    function = program.function_around(made.site)
    data = next((words(program).of(Site(made.site.path, at)) for name, at in made.nodes if name == "dataset"), "")
    return bool(pattern("for evaluation").search(f"{function.name if function is not None else ''} {data}"))


def _ignored(program: Program, made: LoaderMade) -> Site | None:
    """Where the function around a loader, or the constructor of its class, takes a `shuffle` that nothing reads."""
    path, function = made.site.path, program.function_around(made.site)
    unit = program.unit(path)
    if function is None or unit is None:
        return None
    taken = next((param for param in function.params if param.name == "shuffle"), None)
    if taken is not None:
        return Site(path, taken.at) if not _is_named(function.body) else None
    owner = next((node for node in unit.body if isinstance(node, ir.ClassDef) and function in node.body), None)
    inits = [node for node in owner.body if isinstance(node, ir.FunctionDef)] if owner is not None else []
    init = next((node for node in inits if node.name == "__init__"), None)
    taken = next((param for param in init.params if param.name == "shuffle"), None) if init is not None else None
    if taken is None or init is None or owner is None or owner.bases:
        return None  # a base class may read it
    kept = [node for node in init.body if isinstance(node, ir.Assign) and node.value is not None and _is_kept(node)]
    read = sum(1 for node in walk(owner.body, True) if isinstance(node, ir.Attribute) and node.attr == "shuffle")
    return Site(path, taken.at) if len(kept) == 1 and read == 1 else None


def _is_named(body: ir.Block) -> bool:
    return any(isinstance(node, ir.Name) and node.id == "shuffle" for node in walk(body, True))


def _is_kept(node: ir.Assign) -> bool:
    """``self.shuffle = shuffle``."""
    is_it = isinstance(node.value, ir.Name) and node.value.id == "shuffle"
    return is_it and dotted(node.targets[0]) == "self.shuffle"


def _is_unread_set(program: Program, made: LoaderMade) -> bool:
    """Whether the dataset comes from code that was not read, which by convention gives an indexed one, or holds
    tensors, and every loader of the same loop keeps its order by what is written down."""
    data, known = made.argument("dataset"), loading(program)
    cases = data.cases if data is not None else ()
    training = known.training(made)
    others = [known.made[obj] for obj in training.among] if training is not None else []
    traces = [case.trace for case in cases if case.trace is not None]
    from_where = " ".join(f"{trace.note} {words(program).of(trace.site)}" for trace in traces)
    return (
        bool(cases)
        and not pattern("in the order of time").search(from_where)
        and all(_comes_from_elsewhere(program, case) for case in cases)
        and _is_written(program, made)
        and all(_in_order(known, other) for other in others)
    )


def _comes_from_elsewhere(program: Program, case: Value, depth: int = 3) -> bool:
    if isinstance(case, Ref):
        obj = program.objects[case.obj]
        parts = [part for _, value in obj.arguments[:1] for part in value.cases]
        if obj.name in IN_MEMORY:
            return True
        is_part = obj.name.startswith(_PARTS) and depth > 0
        return is_part and bool(parts) and all(_comes_from_elsewhere(program, part, depth - 1) for part in parts)
    if isinstance(case, Unknown) and case.is_given:
        return case.trace is not None and not pattern("may stream").search(case.trace.note)  # "parameter `data`"
    called = case.called if isinstance(case, Unknown) else ""
    return called != "" and not pattern("may stream").search(called.rpartition(".")[2])


def _is_written(program: Program, made: LoaderMade) -> bool:
    """Whether `shuffle` is left out or written down: a name that is false here may be true in another run."""
    at, function = dict(made.nodes).get("shuffle"), program.function_around(made.site)
    node = words(program).node(Site(made.site.path, at)) if at is not None else None
    if isinstance(node, ir.Name) and function is not None:  # a parameter has what the call gave, or its default
        return not any(
            isinstance(each, ir.Assign) and any(node.id in target_names(target) for target in each.targets)
            for each in walk(function.body, False)
        )
    return node is None or isinstance(node, ir.Constant)


def _is_said(program: Program, made: LoaderMade) -> bool:
    """Whether the call says ``shuffle=False``: whoever writes it down may have a reason (data sorted by length, labels
    told by their place, a smoke test)."""
    at = dict(made.nodes).get("shuffle")
    return at is not None and isinstance(words(program).node(Site(made.site.path, at)), ir.Constant)


def _is_trained(program: Program, training: Training) -> bool:
    """Whether the passes over the data are more than one batch to look at gradients of, and something steps: an attack
    and a sampler ask for gradients as well."""
    backwards = [event for event in program.of(Backward) if event.trace == training.trace]
    steps = [event for event in program.of(Step) if event.loops]
    return not backwards or any(
        event.loops and any(step.loops[0].key == event.loops[0].key for step in steps) for event in backwards
    )


def _is_noise(program: Program, dataset: Value | None) -> bool:
    """Whether a dataset gives random numbers that it draws itself: any order of them is as good."""
    cases = dataset.cases if dataset is not None else ()
    classes = [program.objects[case.obj].cls for case in cases if isinstance(case, Ref)]
    return bool(classes) and len(classes) == len(cases) and all(cls is not None and _draws(cls) for cls in classes)


def _draws(cls: Class) -> bool:
    """Whether what ``__getitem__`` gives is drawn in it, or kept in attributes that are drawn in ``__init__``."""
    bodies = {method.name: list(walk(method.body, into_functions=True)) for method in methods(cls)}
    item, made = bodies.get("__getitem__", []), bodies.get("__init__", [])
    index = next((each.params[1].name for each in methods(cls) if each.name == "__getitem__" and each.params[1:]), "")
    if index and not any(isinstance(node, ir.Name) and node.id == index for node in item):
        return not any(isinstance(node, ir.Call) and _is_stored(node) for node in item)  # whatever the index, the same
    if any(_is_draw(node) for node in item):
        return not any(_is_stored(node) for node in item)
    read = {node.attr for node in item if isinstance(node, ir.Attribute) and isinstance(node.value, ir.Name)}
    drawn = {
        target.attr: any(_is_draw(part) for part in walk((node.value,), into_functions=True))
        for node in made
        if isinstance(node, ir.Assign) and node.value is not None
        for target in node.targets
        if isinstance(target, ir.Attribute)
    }
    kept = [is_drawn for name, is_drawn in drawn.items() if name in read]
    return bool(kept) and all(kept)


def _is_draw(node: object) -> bool:
    return isinstance(node, ir.Call) and last_name(node.callee) in _DRAWS


def _is_stored(node: object) -> bool:
    """``self.images[i]``, ``Image.open(path)``: data that was there before."""
    if isinstance(node, ir.Call):
        return bool(pattern("reads an item").search(last_name(node.callee)))
    return isinstance(node, ir.Subscript) and isinstance(node.value, ir.Attribute)


def _in_order(known: Loading, made: LoaderMade) -> Trace | None:
    """What keeps the order: a sequential sampler, or nothing that shuffles."""
    sampler, shuffle = sampler_of(known.program, made), made.argument("shuffle")
    is_plain = shuffle is None or is_const(shuffle, False, None)
    if sampler is not None and not is_absent(sampler):
        return _sequential(known, sampler, is_plain)
    return made.trace if is_plain else None


def _sequential(known: Loading, sampler: Value, is_plain: bool) -> Trace | None:
    """`is_plain`: where there is no sampler (``None if rank == -1 else …``), nothing else shuffles."""
    refs = [case for case in sampler.cases if isinstance(case, Ref)]
    others = [case for case in sampler.cases if not isinstance(case, Ref)]
    if not refs or not all(is_plain and is_absent(case) for case in others):
        return None
    objects = [known.program.objects[case.obj] for case in refs]
    if all(obj.name in DISTRIBUTED_SAMPLERS for obj in objects):
        in_order = all(is_const(known.given(case.obj, 3, "shuffle"), False) for case in refs)
        return objects[0].trace if in_order else None
    return objects[0].trace if all(_is_sequential(obj) for obj in objects) else None


def _mixers(program: Program) -> frozenset[str]:
    """What code that was read calls to shuffle anything, or to draw indices."""
    found: set[str] = set()
    for path in program.modules:
        unit = program.unit(path)
        for name, how in unit.uses.items() if unit is not None else ():
            found |= {use.removesuffix("(…)") for use in how} & _SHUFFLES
            if "()" in how and name.rpartition(".")[2] in _SHUFFLES:
                found.add(name.rpartition(".")[2])
    return frozenset(found)
