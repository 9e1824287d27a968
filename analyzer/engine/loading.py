"""What the events say about loaders together: which train, who shards them, in which loops they are drawn from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from analyzer.engine.data_events import Distributed, EpochSet, Fitted, LoaderIterated, LoaderMade, Sharded
from analyzer.engine.events import Backward, Escape, Event, Guard, Loop, Step
from analyzer.engine.origins import origins
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, Trace
from analyzer.engine.values import Class, Const, External, ObjectId, Ref, Value
from analyzer.engine.words import spelled, words
from analyzer.syntax import ir
from analyzer.syntax.scope import assigned_names, of_type

DISTRIBUTED_SAMPLERS = ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")
IN_MEMORY = ("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset")
_SEVERAL = re.compile(rb"get_rank|world_size|global_rank|init_distributed|(?<!local )\brank\b")
_DEVICE_WORDS = re.compile(r"cuda|device|Parallel|gpu", re.IGNORECASE)
RANK_WORDS = re.compile(
    r"rank|world_?size|num_replicas|is_main|main_process|is_primary|is_chief|is_distributed|master"
    r"|master_only|main_only|zero_only|process_index|process_count|procid|n?_?shards?\b|partition",
    re.IGNORECASE,
)
"""Names that speak of the rank. They only ever hush a rule."""
DEVICE_NAMES = re.compile(r"(?<![a-z'])(?:gpu|gpu_?id|device_?id|cuda_?id|pid)(?![a-z])")
"""Names of a number that a process of several has for itself, in the name of a file. They only ever hush a rule."""


@dataclass(frozen=True, slots=True)
class Training:
    """Why a loader is one that trains. `among`: or else another of these, where one loop draws from either."""

    trace: Trace
    gap: Gap | None = None
    among: frozenset[ObjectId] = frozenset()


class Loading:
    """One pass over the events of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.made: dict[ObjectId, LoaderMade] = {}
        self.iterated: list[LoaderIterated] = []
        self.sharded: list[Sharded] = []
        self.epochs_set: list[EpochSet] = []
        self.distributed: list[Distributed] = []
        self.escapes: list[Escape] = []
        self.trains: dict[ObjectId, Training] = {}
        self.fitted: set[ObjectId] = set()
        """Those that Lightning trains on: it shards them, and keeps the order of those that do not shuffle."""
        for event in program.events:
            self._note(event)
        groups = [event for event in self.distributed if event.how == "group"]
        if groups and all(event.is_alone for event in groups):
            self.distributed.clear()
        for fitted in program.of(Fitted):
            for loader in fitted.loaders:
                self.trains.setdefault(loader, Training(fitted.trace))
                self.fitted.add(loader)
        self._guess_by_optimizer()

    def _note(self, event: Event) -> None:
        if isinstance(event, LoaderMade):
            self.made[event.loader] = event
            node = words(self.program).node(event.function) if event.function is not None else None
            if isinstance(node, ir.FunctionDef) and node.name == "train_dataloader":
                trace = Trace(event.site, "by its hook, Lightning trains on this loader")
                self.trains.setdefault(event.loader, Training(trace, Gap.CONVENTION))
        elif isinstance(event, (Backward, Step)):
            self._train(event)
        elif isinstance(event, Escape):
            if event.how == "call" and event.objects:
                self.escapes.append(event)
        elif isinstance(event, LoaderIterated):
            self.iterated.append(event)
        elif isinstance(event, Sharded):
            self.sharded.append(event)
        elif isinstance(event, EpochSet):
            self.epochs_set.append(event)
        elif isinstance(event, Distributed):
            self.distributed.append(event)

    def _train(self, event: Backward | Step) -> None:
        groups = [loop.over for loop in event.loops if loop.over]
        if isinstance(event, Backward):
            groups.append(frozenset(tag for tag in event.via if isinstance(tag, int)))
        for group in groups:
            loaders = frozenset(obj for obj in group if obj in self.made)
            for obj in loaders:
                known = self.trains.get(obj)
                if known is None or len(loaders) < len(known.among):
                    self.trains[obj] = Training(event.trace, among=loaders)

    def _guess_by_optimizer(self) -> None:
        """Whoever is handed an optimizer and a loader that no seen loop draws from trains on it, or on one of them."""
        objects = self.program.objects
        drawn = {obj for event in self.iterated for obj in event.loaders}
        for escape in self.escapes:
            if any(objects[obj].kind == "Optimizer" for obj in escape.objects):
                loaders = frozenset(escape.objects & self.made.keys() - drawn)
                trace = Trace(escape.site, "a loader and an optimizer go into code that was not read")
                for obj in loaders:
                    self.trains.setdefault(obj, Training(trace, Gap.CONVENTION, loaders))

    # --- questions --------------------------------------------------------------------------------------------

    def training(self, made: LoaderMade) -> Training | None:
        """Why a loader trains: a backward pass in a loop over it or through its batches, or a convention."""
        return self.trains.get(made.loader)

    def is_evaluated(self, made: LoaderMade) -> bool:
        """Whether a loop over it was seen that runs no backward pass."""
        return made.loader not in self.trains and any(made.loader in event.loaders for event in self.iterated)

    def is_handed_over(self, made: LoaderMade, but_by: frozenset[str] = frozenset()) -> bool:
        """Whether a framework, but one of some, shards the loader, or the data may have been split by rank."""
        around = {made.loader, *made.samplers}
        return any(not event.objects or event.objects & around for event in self.sharded if event.by not in but_by)

    def uses(self, made: LoaderMade) -> Iterator[tuple[Event, tuple[Loop, ...]]]:
        """Where the loader is drawn from anew, or handed to code that was not read, with the loops around."""
        drawn: list[Event] = [event for event in self.iterated if made.loader in event.loaders]
        for event in (*drawn, *(event for event in self.escapes if made.loader in event.objects)):
            yield event, tuple(loop for loop in event.loops if made.loader not in loop.over)

    def given(self, obj: ObjectId, position: int, name: str) -> Value | None:
        """An argument that an object of a library was made with."""
        arguments = dict(self.program.objects[obj].arguments)
        return arguments.get(name, arguments.get(str(position)))


def loading(program: Program) -> Loading:
    """The questions, for all rules once."""
    found = program.answers.get(Loading)
    if not isinstance(found, Loading):
        found = program.answers[Loading] = Loading(program)
    return found


def sampler_of(program: Program, made: LoaderMade) -> Value | None:
    """The sampler of a loader, also the one that a `BatchSampler` of torch holds; a batch sampler of another kind."""
    batches = made.argument("batch_sampler")
    if batches is None or is_absent(batches):
        return made.argument("sampler")
    held = batched(program, batches.cases[0]) if len(batches.cases) == 1 else None
    return batches if held is None else held


def batched(program: Program, batches: Value) -> Value | None:
    """The sampler whose draws a `BatchSampler` of torch puts together."""
    obj = program.objects[batches.obj] if isinstance(batches, Ref) else None
    if obj is None or not (obj.name.startswith("torch.") and obj.name.endswith(".BatchSampler")):
        return None
    given = dict(obj.arguments)
    return given.get("sampler", given.get("0"))


def is_absent(value: Value | None) -> bool:
    """Whether an argument is left out or None in every case."""
    return value is None or all(isinstance(case, Const) and case.value is None for case in value.cases)


def is_const(value: Value | None, *wanted: object) -> bool:
    """Whether an argument is one of these constants, for sure."""
    return value is not None and all(
        isinstance(case, Const) and any(case.value is each or case.value == each for each in wanted)
        for case in value.cases
    )


def derives_from(value: Value, ending: str, depth: int = 0) -> bool:
    """Whether a class derives from a library class whose name ends so."""
    for case in value.cases:
        if isinstance(case, External) and case.name.rpartition(".")[2] == ending:
            return True
        if isinstance(case, Class) and depth < 10 and any(derives_from(base, ending, depth + 1) for base in case.bases):
            return True
    return False


def dataset_kind(program: Program, value: Value | None) -> str:
    """``map`` (an indexed dataset, for sure), ``memory`` (tensors or a list), ``iterable``, or ``unknown``."""
    kinds = {_dataset_kind(program, case) for case in value.cases} if value is not None else {"unknown"}
    return kinds.pop() if len(kinds) == 1 else "iterable" if "iterable" in kinds else "unknown"


def _dataset_kind(program: Program, case: Value, depth: int = 0) -> str:
    if not isinstance(case, Ref):
        return "unknown"
    obj = program.objects[case.obj]
    if obj.cls is not None:
        if derives_from(obj.cls, "IterableDataset"):
            return "iterable"
        return "map" if derives_from(obj.cls, "Dataset") or obj.kind == "Data" else "unknown"
    if obj.kind == "HubData":
        return "map"
    if obj.kind == "list" or obj.name in IN_MEMORY:
        return "memory"
    if obj.name.startswith(
        ("torch.utils.data.Subset", "torch.utils.data.ConcatDataset", "torch.utils.data.random_split")
    ):
        parts = [part for _, value in obj.arguments[:1] for part in value.cases]
        return _dataset_kind(program, parts[0], depth + 1) if len(parts) == 1 and depth < 5 else "map"
    return "map" if obj.name.startswith("torchvision.datasets.") else "unknown"


def loads_graphs(program: Program, made: LoaderMade) -> bool:
    """Whether a loader is that of PyG: its data sets are indexed lists of graphs, mostly in memory."""
    return program.objects[made.loader].name.startswith("torch_geometric.")


def is_random_split(program: Program, value: Value | None) -> bool:
    """Whether a dataset is a part that ``random_split`` gave, or shuffled itself: in an order that was drawn once."""
    refs = [case for case in value.cases if isinstance(case, Ref)] if value is not None else []
    names = [program.objects[ref.obj].name for ref in refs]
    return bool(names) and all(name.endswith((".random_split", ", shuffled")) for name in names)


def speaks_of_rank(program: Program, value: Value | None) -> bool:
    """Whether the expressions that a value came from name the rank."""
    for case in value.cases if value is not None else ():
        for step in case.trace.steps() if case.trace is not None else ():
            if RANK_WORDS.search(_said(program, step.site)):
                return True
    return False


def guarded_by_rank(program: Program, guards: tuple[Guard, ...]) -> bool:
    """Whether a branch around an event, or one that left before it, asks for the rank."""
    return any(asks_for_rank(program, guard.site) for guard in guards)


def asks_for_rank(program: Program, site: Site) -> bool:
    """Whether an expression, or what it is made of, speaks of the rank."""
    return any(RANK_WORDS.search(said) for said in (words(program).of(site), origins(program).of(site)))


def _said(program: Program, site: Site) -> str:
    """The words of an expression. Who downloads the data (``download=rank == 0``) says nothing of its parts."""
    node = words(program).node(site)
    if not isinstance(node, ir.Call) or not any(arg.keyword == "download" for arg in node.args):
        return words(program).of(site)
    args = (arg.value for arg in node.args if arg.keyword != "download")
    return " ".join(spelled(each) for each in (node.callee, *args))


def named_by_rank(program: Program, made: LoaderMade) -> bool:
    """Whether a name that the dataset is made from was given a value that speaks of the rank: files, a path."""
    dataset = made.argument("dataset")
    sites = [case.trace.site for case in dataset.cases if case.trace is not None] if dataset is not None else []
    names = {name for site in sites for name in _said(program, site).split() if name.isidentifier()}
    for path in {site.path for site in sites}:
        for node in of_type(program.unit(path), ir.Assign) if names else ():
            if node.value is not None and not names.isdisjoint(assigned_names(node)):
                said = spelled(node.value)
                if RANK_WORDS.search(said) and not _DEVICE_WORDS.search(said):
                    return True
    return False


def picks_by_rank(program: Program) -> bool:
    """Whether code that was read takes a part of something by rank: ``indices[rank::world_size]``."""
    for path in program.modules:
        unit = program.unit(path)
        source = program.project.read(path)
        if unit is None or source is None or b"rank" not in source:
            continue
        for node in of_type(unit, ir.Subscript):
            if _names_rank(node.index):
                return True
    return False


def mentions_rank(program: Program) -> bool:
    """Whether code that was read speaks of ranks or of the number of processes; launchers add a local rank to any."""
    sources = (program.project.read(path) for path in program.modules)
    return any(source is not None and _SEVERAL.search(source) for source in sources)


def _names_rank(node: ir.Expr) -> bool:
    return not isinstance(node, ir.Constant) and bool(RANK_WORDS.search(spelled(node)))  # ``os.environ["RANK"]``
