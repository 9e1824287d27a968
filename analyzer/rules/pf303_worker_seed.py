"""PF303 worker-seed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.data_events import LoaderMade
from analyzer.engine.loading import is_absent, is_const
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.values import Class, Const
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, walk

_MAKERS = frozenset(["RandomState", "default_rng", "Random"])
_SEEDS_WORKERS = re.compile(rb"worker_init_fn|get_worker_info|\.seed\(")
"""What a file says where workers are told apart, or a generator is set to a seed again."""


class WorkerSeed(Rule):
    """The workers of a loader draw the same random numbers.

    ## Why it matters
    Every worker process starts with a copy of the dataset. torch seeds its own generator, NumPy's and Python's
    ``random`` anew in each worker, but not a generator that the dataset made for itself: all workers then draw the
    same augmentations and crops, and do so again in every epoch. A constant seed in ``worker_init_fn`` has the same
    effect on the global generators.

    ## Example
    ```python
    class Crops(Dataset):
        def __init__(self):
            self.rng = np.random.RandomState(0)

        def __getitem__(self, index):
            return crop(self.rng.randint(10))


    loader = DataLoader(Crops(), num_workers=4)
    ```

    ## Use instead
    ```python
    def seed_worker(worker_id):
        info = torch.utils.data.get_worker_info()
        info.dataset.rng = np.random.RandomState(info.seed % 2**32)


    loader = DataLoader(Crops(), num_workers=4, worker_init_fn=seed_worker)
    ```

    ## When it stays quiet
    Without workers (a note for a single one, which draws the same in every epoch); with a ``worker_init_fn`` that
    seeds by worker; for the global generators, which torch seeds per worker since 1.9; for a generator that only
    ``__init__`` uses; for a dataset in a tree no file of which names ``num_workers``. A note where who loads the
    dataset was not read, or is not told, and for workers that are seeded with the time: they may start in different
    seconds.

    ## Fix safety
    No automatic fix: which seed a run should have is the author's choice.
    """

    code = "PF303"
    name = "worker-seed"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A loader with workers whose dataset draws from a generator it holds, or whose workers are seeded alike."""
        for made in program.of(LoaderMade):
            workers = made.argument("num_workers")
            if workers is None or is_const(workers, 0):
                continue
            known = all(isinstance(case, Const) for case in workers.cases)
            gaps = [] if known else [Gap.CONVENTION]
            if made.constant_seed is not None:
                is_time = "time(" in program.sources.text(made.constant_seed)
                report(
                    made.constant_seed,
                    f"Every worker {{is}} seeded with the same number{_WHEN[is_time]} Seed with "
                    "`torch.initial_seed() % 2**32`, or add the worker's number.",
                    because=[made.trace, start(made.constant_seed, "the seed is the same in every worker")],
                    gaps=gaps,
                    severity=Severity.NOTE if is_time else None,  # workers may start in different seconds
                )
            elif is_absent(made.argument("worker_init_fn")) and not made.has_more:
                _held(program, report, made, gaps)
        if not report.drafts:
            _alone(program, report)


_WHEN = {
    False: ": all of them draw the same random numbers, in every epoch again.",
    True: ", the second in which they start: all of them draw the same random numbers.",
}


def _held(program: Program, report: Report, made: LoaderMade, gaps: list[Gap]) -> None:
    for name, generator, holder in made.generators:
        if not _draws(program, program.objects[holder].cls, name):
            continue
        born: Trace = program.objects[generator].trace
        report(
            born.site,
            f"Every worker of the loader {{does get}} a copy of this generator (`self.{name}`) in the same state: all "
            "of them draw the same random numbers. Make it anew in `worker_init_fn`, from the worker's seed.",
            because=[born, made.trace],
            gaps=gaps,
            severity=Severity.NOTE if is_const(made.argument("num_workers"), 1) else None,  # the same in every epoch
        )


def _alone(program: Program, report: Report) -> None:
    """A dataset draws from a generator that it has made for itself, and who loads it was not read, or is not told."""
    found = [(path, *each) for path in program.modules for each in _own_generators(program.unit(path))]
    counts = [each.argument("num_workers") for each in program.of(LoaderMade)] if found else []
    if not found or any(is_absent(count) or is_const(count, 0) for count in counts):
        return
    if not program.project.is_single and not any(True for _ in program.project.naming("num_workers", "")):
        return  # the tree loads in the process that trains
    if any(_SEEDS_WORKERS.search(program.project.read(path) or b"") for path in program.modules):
        return
    for path, name, made_at, item_at in found:
        made = start(Site(path, made_at), "a generator of the dataset's own")
        report(
            made.site,
            f"Every worker of a loader {{does get}} a copy of this generator (`self.{name}`) in the same state: all of "
            "them draw the same random numbers. Make it anew in `worker_init_fn`, from the worker's seed.",
            because=[made, start(Site(path, item_at), "an item is drawn with it here")],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,  # who loads it, with how many workers, was not read
        )


def _own_generators(unit: ir.Unit | None) -> Iterator[tuple[str, int, int]]:
    """The attributes of datasets that hold a generator by which they draw items, where it is made, and the method that
    gives an item."""
    for cls in unit.body if unit is not None else ():
        if not isinstance(cls, ir.ClassDef) or not any(last_name(base.value) == "Dataset" for base in cls.bases):
            continue
        methods = {node.name: node for node in cls.body if isinstance(node, ir.FunctionDef)}
        init, item = methods.get("__init__"), methods.get("__getitem__")
        if init is None or item is None:
            continue
        for node in walk(init.body, False):
            if not isinstance(node, ir.Assign) or not isinstance(node.value, ir.Call):
                continue
            names = [to.attr for to in node.targets if isinstance(to, ir.Attribute) and dotted(to.value) == "self"]
            if last_name(node.value.callee) in _MAKERS and names and _draws_item(item, methods, names[0]):
                yield names[0], node.at, item.at


def _draws_item(item: ir.FunctionDef, methods: dict[str, ir.FunctionDef], name: str) -> bool:
    """Whether giving an item draws from an attribute, in the method itself or in one that it calls, and nothing there
    makes it anew."""
    called = [each for other, each in methods.items() if "()" in item.uses.get(f"self.{other}", ())]
    if any(
        isinstance(node, ir.Assign) and any(dotted(to) == f"self.{name}" for to in node.targets)
        for each in (item, *called)
        for node in walk(each.body, False)
    ):
        return False
    return any(any(use.endswith("(…)") for use in each.uses.get(f"self.{name}", ())) for each in (item, *called))


def _draws(program: Program, cls: Class | None, name: str) -> bool:
    """Whether a method that workers run draws from an attribute."""
    if cls is None:
        return False
    for method in cls.node.body:
        if isinstance(method, ir.FunctionDef) and method.name != "__init__" and method.uses.get(f"self.{name}"):
            return True
    return any(_draws(program, case, name) for base in cls.bases for case in base.cases if isinstance(case, Class))
