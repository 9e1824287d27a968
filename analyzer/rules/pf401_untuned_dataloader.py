"""PF401 untuned-dataloader."""

from __future__ import annotations

import re

from analyzer.engine.data_events import DeviceChosen, LoaderMade
from analyzer.engine.events import Escape, Forward, Step
from analyzer.engine.loading import Loading, dataset_kind, is_const, loading, loads_graphs
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap
from analyzer.engine.values import Ref, Tensor
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.syntax import ir

_ACCELERATOR = re.compile(rb"cuda|gpu|mps|xla|hpu|npu|accelerat|fabric|deepspeed|(?<!torch)\.device\b", re.IGNORECASE)
_MOVES = re.compile(rb"\bdevice\b|\.to\(|prepare\(")
_CPU = re.compile(rb"""torch\.device\(["']cpu["']\)|\bdevice = ["']cpu["']""")


class UntunedDataLoader(Rule):
    """A loader reads its data in the training process, or copies it to the GPU from pageable memory.

    ## Why it matters
    With ``num_workers=0``, the default, every batch is read, decoded and augmented between two steps, while the GPU
    waits. Without ``pin_memory``, the copy to the GPU goes through a staging buffer and cannot overlap with the
    computation. Nothing is wrong, only slow.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    ```

    ## Use instead
    ```python
    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4, pin_memory=True)
    ```

    ## When it stays quiet
    When both are set, even to an option of the command line; when ``**options`` may set them; about workers where the
    data is in memory anyway or iterable (each worker would repeat it); about pinning in a program that names no GPU;
    for tensors that are on the GPU already; in a script that trains on the CPU; for loaders that a notebook only looks
    at.

    ## Fix safety
    No automatic fix: the right number of workers depends on the machine, and datasets that hold open files or random
    state behave differently in workers.
    """

    code = "PF401"
    name = "untuned-dataloader"
    alias = "TG004"
    severity = Severity.NOTE
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A loader without workers, or without pinning in a program that uses a GPU: one finding for those that one
        function makes."""
        known = loading(program)
        uses_gpu: bool | None = None
        on_cpu: bool | None = None
        together: dict[tuple[object, tuple[str, ...]], list[LoaderMade]] = {}
        for made in program.of(LoaderMade):
            if made.has_more or loads_graphs(program, made) or _is_on_accelerator(program, made):
                continue
            on_cpu = _runs_on_cpu(program) if on_cpu is None else on_cpu
            if on_cpu:
                break
            is_quick = dataset_kind(program, made.argument("dataset")) in {"memory", "iterable"}
            lacks_workers = not is_quick and _lacks(made, "num_workers", 0)
            lacks_pinning = _lacks(made, "pin_memory", False)
            if lacks_pinning:
                uses_gpu = _uses_gpu(program) if uses_gpu is None else uses_gpu
                lacks_pinning = uses_gpu
            if not (lacks_workers or lacks_pinning) or _is_only_looked_at(program, known, made):
                continue
            both = (("num_workers", lacks_workers), ("pin_memory", lacks_pinning))
            missing = tuple(name for name, lacks in both if lacks)
            together.setdefault((made.function or made.site.path, missing), []).append(made)
        for (_, missing), loaders in together.items():
            first = next((made for made in loaders if made.loader in known.trains), loaders[0])
            more = len({made.site for made in loaders}) - 1
            process = _process(program, known, first)
            report(first.site, _message(list(missing), process, more), because=[first.trace], gaps=[Gap.CONVENTION])


def _is_only_looked_at(program: Program, known: Loading, made: LoaderMade) -> bool:
    """Whether every loop over it in a notebook runs no model: a look at the data."""
    sites = {event.site for event in known.iterated if made.loader in event.loaders}
    if not sites or made.loader in known.trains or not made.site.path.endswith(".ipynb"):
        return False
    runs = (*program.of(Forward), *program.of(Escape))
    return not any(loop.site in sites for event in runs for loop in event.loops)


def _lacks(made: LoaderMade, name: str, default: object) -> bool:
    value = made.argument(name)
    return value is None or is_const(value, default)


def _is_on_accelerator(program: Program, made: LoaderMade) -> bool:
    """Whether the data set is tensors that an accelerator holds already."""
    dataset = made.argument("dataset")
    refs = [case for case in dataset.cases if isinstance(case, Ref)] if dataset is not None else []
    held = [value for ref in refs for _, value in program.objects[ref.obj].arguments]
    calls = [words(program).node(program.objects[ref.obj].trace.site) for ref in refs]
    if any(isinstance(node, ir.Call) and node.args and all(_is_sent(arg.value) for arg in node.args) for node in calls):
        return True
    return any(isinstance(case, Tensor) and case.device == "accelerator" for value in held for case in value.cases)


def _is_sent(value: ir.Expr) -> bool:
    """``images.cuda()``, of whatever."""
    return isinstance(value, ir.Call) and isinstance(value.callee, ir.Attribute) and value.callee.attr == "cuda"


def _runs_on_cpu(program: Program) -> bool:
    """Whether the program trains by itself, and neither names a GPU nor moves anything to a device that may be one."""
    if not any(not event.framework and event.loops for event in program.of(Step)):
        return False
    texts = [program.project.read(path) or b"" for path in program.modules]
    if any(_ACCELERATOR.search(text) for text in texts):
        return False
    return any(_CPU.search(text) for text in texts) or not any(_MOVES.search(text) for text in texts)


def _uses_gpu(program: Program) -> bool:
    if next(program.of(DeviceChosen), None) is not None:
        return True
    return any(b"cuda" in (program.project.read(path) or b"") for path in program.modules)


def _process(program: Program, known: Loading, made: LoaderMade) -> str:
    """The process that a loader without workers makes wait, by what the loops over it do."""
    if made.loader in known.trains:
        return "the process that trains"
    drawn = {event.site for event in known.iterated if made.loader in event.loaders}
    runs = any(loop.site in drawn for event in program.of(Forward) for loop in event.loops)
    return "the process that evaluates" if runs else "the process that iterates over it"


def _message(missing: list[str], process: str, more: int) -> str:
    what = {
        "num_workers": f"loads every batch in {process} (`num_workers` is 0)",
        "pin_memory": "copies to the GPU from pageable memory (`pin_memory` is off)",
    }
    rest = f" So {'do' if more > 1 else 'does'} {more} more in this function." if more else ""
    return f"This loader {' and '.join(what[name] for name in missing)}.{rest}"
