"""PF401 untuned-dataloader."""

from __future__ import annotations

from analyzer.engine.data_events import DeviceChosen, LoaderMade
from analyzer.engine.loading import dataset_kind, is_const
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule


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
    data is in memory anyway or iterable (each worker would repeat it); about pinning in a program that names no GPU.

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
        """A loader without workers, or without pinning in a program that uses a GPU."""
        uses_gpu: bool | None = None
        for made in program.of(LoaderMade):
            if made.has_more:
                continue
            is_quick = dataset_kind(program, made.argument("dataset")) in {"memory", "iterable"}
            lacks_workers = not is_quick and _lacks(made, "num_workers", 0)
            lacks_pinning = _lacks(made, "pin_memory", False)
            if lacks_pinning:
                uses_gpu = _uses_gpu(program) if uses_gpu is None else uses_gpu
                lacks_pinning = uses_gpu
            if not lacks_workers and not lacks_pinning:
                continue
            missing = [name for name, lacks in (("num_workers", lacks_workers), ("pin_memory", lacks_pinning)) if lacks]
            report(
                made.site,
                _message(missing),
                because=[made.trace],
                gaps=[Gap.CONVENTION],
            )


def _lacks(made: LoaderMade, name: str, default: object) -> bool:
    value = made.argument(name)
    return value is None or is_const(value, default)


def _uses_gpu(program: Program) -> bool:
    if next(program.of(DeviceChosen), None) is not None:
        return True
    return any(b"cuda" in (program.project.read(path) or b"") for path in program.modules)


def _message(missing: list[str]) -> str:
    what = {
        "num_workers": "loads every batch in the process that trains, because `num_workers` is 0",
        "pin_memory": "copies to the GPU from pageable memory, because `pin_memory` is off",
    }
    return f"This loader {' and '.join(what[name] for name in missing)}."
