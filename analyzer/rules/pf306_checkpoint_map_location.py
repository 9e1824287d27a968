"""PF306 checkpoint-map-location."""

from __future__ import annotations

import re

from analyzer.engine.called import is_for_others, is_uncalled
from analyzer.engine.data_events import DeviceChosen, Distributed, GpuUsed, Read, Restored
from analyzer.engine.events import Event, Step
from analyzer.engine.loading import guarded_by_rank, is_absent, loading
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site
from analyzer.engine.words import spelled, words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertAfter
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.host_saves import are_saved_from_host
from analyzer.rules.iteration import may_be_one_run
from analyzer.rules.restoring import file_named, is_published, was_saved_here
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, walk

_SMALL_WORDS = re.compile(r"scaler|sched|sampler|stopp", re.IGNORECASE)
_DEVICE_WORDS = re.compile(r"cuda|gpu|cpu|device|mps", re.IGNORECASE)

_TORCH = re.compile(rb"\btorch\b")
_SAVES_OPTIMIZER = re.compile(
    rb"^(?![ \t]*return\b)[^#\n]*"
    rb"(?:opt\w{0,80}(?:\[[^\]\n]{0,80}\])?\.state_dict\(|save_(?:checkpoint|state)\b|Trainer\b|\.fit\()",
    re.IGNORECASE | re.MULTILINE,
)
_MIN_FILES = 3
"""Files of a tree that show whether it trains and saves; one script alone does not."""


class CheckpointMapLocation(Rule):
    """A checkpoint is restored onto the device that saved it.

    ## Why it matters
    ``torch.load`` puts every tensor back on the device it was saved from. On a machine without that GPU it fails. In a
    distributed program every rank loads onto the GPU of the rank that saved, usually the first: that GPU holds one copy
    per rank and runs out of memory, often only when a long run is resumed.

    ## Example
    ```python
    model.load_state_dict(torch.load("last.pt"))
    model = DistributedDataParallel(model, device_ids=[local_rank])
    ```

    ## Use instead
    ```python
    model.load_state_dict(torch.load("last.pt", map_location="cpu"))
    ```

    ## When it stays quiet
    With any ``map_location``; for data that is no checkpoint; where the program uses one written-down device or needs a
    GPU whatever it asks, unless it resumes a run (a note); where the same run saved the file, or the files of the tree
    save only what was moved to the CPU; in a branch that asked for the device first. Weights that somebody else has
    published are a possibility: nobody sees from which device they were saved. It is a note: what a program restores is
    mostly read where it was saved, and where every rank of a job reads it, how many there are is not in the code.

    ## Fix safety
    Unsafe: ``map_location="cpu"`` is right for ``load_state_dict``, which copies to where the parameters are; a whole
    model read from a file must then be moved.
    """

    code = "PF306"
    name = "checkpoint-map-location"
    severity = Severity.WARNING
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A `torch.load` without a device, restored, in a program that runs on more than one device."""
        reads = [event for event in program.of(Read) if not event.has_more and event.device is None]
        if not reads:
            return
        many = _several_processes(program, reads)
        choices = [event for event in program.of(DeviceChosen) if _is_choice(program, event)]
        choices = [event for event in choices if any(may_be_one_run(program, event, read) for read in reads)]
        why = many or min(choices, key=lambda event: (event.is_callers, _is_index(program, event)), default=None)
        found = _onto_old_device(program, reads, is_distributed=many is not None)
        if many is None and _needs_gpu(program):
            _report_resumed(program, report, found)
            return
        for together in found.values():
            if why is None and not any(is_for_others(program, read) for read, _ in together):
                continue
            if not are_saved_from_host(program, but_optimizers=not _resumes(program, together)):
                _report(program, report, why, together)


def _report_resumed(program: Program, report: Report, found: dict[Site, list[tuple[Read, Restored]]]) -> None:
    """A run on a GPU is resumed: what is read lies there beside what it is copied into."""
    trains = any(program.of(Step))
    for together in found.values():
        is_own = _resumes(program, together) or (trains and not all(is_published(program, *each) for each in together))
        if not is_own or _is_foreign(program):
            continue
        together.sort(key=lambda pair: pair[0].site)
        read, use = together[0]
        report(
            read.site,
            "This checkpoint {is} read onto the GPU that saved it, beside what it is copied into: for a while all of "
            'it is there twice, and with fewer GPUs it fails. Read it with `map_location="cpu"`.',
            because=[read.trace, use.trace],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,
        )


def _onto_old_device(
    program: Program, reads: list[Read], *, is_distributed: bool
) -> dict[Site, list[tuple[Read, Restored]]]:
    """What is read and restored where it may do harm, by function."""
    restored: dict[Site, Restored] = {}
    for event in program.of(Restored):
        for site in event.read:
            restored.setdefault(site, event)
    found: dict[Site, list[tuple[Read, Restored]]] = {}
    for read in reads:
        use = restored.get(read.site)
        if use is None or _knows_better(program, read) or _is_small(program, use) or _is_unused(program, read):
            continue
        if guarded_by_rank(program, read.guards) if is_distributed else was_saved_here(program, read):
            continue
        found.setdefault(read.function or Site(read.site.path, 0), []).append((read, use))
    return found


def _report(
    program: Program, report: Report, why: Distributed | DeviceChosen | None, together: list[tuple[Read, Restored]]
) -> None:
    """The checkpoints that one function restores are one finding, at the first of them."""
    together.sort(key=lambda pair: pair[0].site)
    read, use = together[0]
    fixes = [edit for each, _ in together for edit in _edits(each)]
    is_foreign = all(is_published(program, *each) for each in together)
    report(
        read.site,
        _message(isinstance(why, Distributed), len(together) - 1),
        because=[*([why.trace] if why is not None else []), read.trace, use.trace],
        gaps=[Gap.UNSEEN if is_foreign else Gap.CONVENTION],
        fix=DraftFix("Load to the CPU first", "unsafe", tuple(dict.fromkeys(fixes))) if fixes else None,
    )


def _resumes(program: Program, pairs: list[tuple[Read, Restored]]) -> bool:
    """Whether an optimizer gets its state back."""
    sites = {read.site for read, _ in pairs}
    into = [event.into for event in program.of(Restored) if sites & set(event.read)]
    return any(obj is not None and program.objects[obj].kind in {"Optimizer", "Stepper"} for obj in into)


def _is_foreign(program: Program) -> bool:
    """Whether none of the files of a tree saves an optimizer: the checkpoint is somebody else's, or the code that
    reads it was copied along."""
    files = sum(1 for _ in program.project.naming("torch", "", _TORCH))
    return files >= _MIN_FILES and not any(program.project.naming("torch", "", _SAVES_OPTIMIZER))


def _is_index(program: Program, event: DeviceChosen) -> bool:
    """``model.cuda(args.gpu)``, whatever the answer."""
    node = words(program).node(event.site)
    is_cuda = isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute) and node.callee.attr == "cuda"
    asked = any(_DEVICE_WORDS.search(words(program).of(guard.site)) for guard in event.guards)
    return is_cuda and not event.is_conditional and not asked


def _several_processes(program: Program, reads: list[Read]) -> Distributed | None:
    """A model wrapped for several processes, or a process group that the file which reads joins."""
    paths = {event.site.path for event in program.of(Read)}
    return next(
        (
            event
            for event in loading(program).distributed
            if event.how != "group" or (event.site.path in paths and _happens(program, event, reads))
        ),
        None,
    )


def _happens(program: Program, event: Event, reads: list[Read]) -> bool:
    """Whether the function that leads to an event also leads to what is read, or is named anywhere: one that nobody
    calls was copied along."""
    entry = event.calls[:1]
    if not entry or entry[0] not in program.entries or any(read.calls[:1] == entry for read in reads):
        return True
    return not is_uncalled(program, entry[0])


def _needs_gpu(program: Program) -> bool:
    """Whether the program moves its model to the GPU whatever the answer is: only that device is ever used."""
    paths = {next(iter(program.modules), ""), *(event.site.path for event in program.of(Read))}
    if any(_asserts_gpu(program, path) for path in paths):
        return True
    return any(
        not any(_DEVICE_WORDS.search(words(program).of(guard.site)) for guard in event.guards)
        for event in program.of(GpuUsed)
        if event.site.path in paths
    )


def _asserts_gpu(program: Program, path: str) -> bool:
    """``assert torch.cuda.is_available()``."""
    unit = program.unit(path) if b"assert " in (program.project.read(path) or b"") else None
    tests = (each.test for each in walk(unit.body, True) if isinstance(each, ir.Assert)) if unit is not None else ()
    calls = (test for test in tests if isinstance(test, ir.Call))
    return any((dotted(call.callee) or "").endswith("cuda.is_available") for call in calls)


def _is_unused(program: Program, read: Read) -> bool:
    """Whether it stands in a function of a script that nothing calls."""
    source = program.project.read(read.site.path) or b""
    return bool(read.calls) and b"__main__" in source and is_uncalled(program, read.calls[0])


def _is_small(program: Program, use: Restored) -> bool:
    """Whether it goes into an object that holds plain numbers: a scaler, a scheduler, a sampler."""
    node = words(program).node(use.site)
    if not isinstance(node, ir.Call) or not isinstance(node.callee, ir.Attribute):
        return False
    return bool(_SMALL_WORDS.search(spelled(node.callee.value)))


def _is_choice(program: Program, event: DeviceChosen) -> bool:
    if not event.is_conditional:
        return True
    return any(_DEVICE_WORDS.search(words(program).of(guard.site)) for guard in event.guards)


def _knows_better(program: Program, read: Read) -> bool:
    """A branch that asks for the device, or another branch that gives one."""
    if any(_DEVICE_WORDS.search(words(program).of(guard.site)) for guard in read.guards):
        return True
    return any(
        other.function == read.function and other.site.path == read.site.path and not is_absent(other.device)
        for other in program.of(Read)
        if other.site != read.site
        and file_named(program, other.site, other.file_at) == file_named(program, read.site, read.file_at)
    )


def _message(is_distributed: bool, num_more: int) -> str:
    end = (
        "every rank {will put} it on the GPU of the rank that saved it. Give `map_location`."
        if is_distributed
        else "it {will fail} on a machine without that device. Give `map_location`."
    )
    more = f" So {'are' if num_more > 1 else 'is'} {num_more} more in this function." if num_more else ""
    return f"This checkpoint {{is}} restored onto the device it was saved from: {end}{more}"


def _edits(read: Read) -> list[InsertAfter]:
    if read.file_at is None or read.device is not None:
        return []
    return [InsertAfter(read.file_at, ', map_location="cpu"')]
