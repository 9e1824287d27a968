"""PF306 checkpoint-map-location."""

from __future__ import annotations

import itertools
import re

from analyzer.engine.data_events import DeviceChosen, Distributed, GpuUsed, Read, Restored, Saved
from analyzer.engine.events import Backward, Event, Step
from analyzer.engine.loading import guarded_by_rank, is_absent
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site
from analyzer.engine.words import spelled, words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertAfter
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.syntax import ir
from analyzer.syntax.scope import target_names, walk

_SMALL_WORDS = re.compile(r"scaler|sched|sampler|stopp", re.IGNORECASE)
_BASE_WORDS = re.compile(r"base_?net|backbone|imagenet|vgg|resnet|inception|lpips", re.IGNORECASE)
_OWN_WORDS = re.compile(r"best|last|latest|final|ckpt|checkpoint|epoch|model|weights", re.IGNORECASE)
_FETCHES = re.compile(r"download|urlretrieve|wget|gdown|from_url|load_url|cached_path", re.IGNORECASE)
_KEPT_BY_RUN = re.compile(r"\.(?:kth_)?(?:best|last)_model_(?:path|checkpoint)\b|\.last_checkpoint\b")
"""Where Lightning's and Ignite's checkpoint callbacks and the trainer of transformers keep what their run has saved."""
_MIN_NAME = 6
"""Letters of a name that tell files apart: an ending does not."""
_DEVICE_WORDS = re.compile(r"cuda|gpu|cpu|device|mps", re.IGNORECASE)


class CheckpointMapLocation(Rule):
    """A checkpoint is restored onto the device that saved it.

    ## Why it matters
    ``torch.load`` puts every tensor back on the device it was saved from. On a machine without that GPU it fails. In a
    distributed program every rank loads onto the GPU of the rank that saved, usually the first: that GPU holds one copy
    per rank and runs out of memory, often only when a long run is resumed.

    ## Example
    ```python
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.load_state_dict(torch.load("best.pt"))
    ```

    ## Use instead
    ```python
    model.load_state_dict(torch.load("best.pt", map_location=device))
    ```

    ## When it stays quiet
    With any ``map_location``; for data that is no checkpoint; where the program uses one written-down device or needs
    a GPU whatever it asks; where the same run saved the file; in a branch that asked for the device first. Weights that
    somebody else has published are a possibility: nobody sees from which device they were saved.

    ## Fix safety
    Unsafe: ``map_location="cpu"`` is right for ``load_state_dict``, which copies to where the parameters are; a whole
    model read from a file must then be moved.
    """

    code = "PF306"
    name = "checkpoint-map-location"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A `torch.load` without a device, restored, in a program that runs on more than one device."""
        reads = [event for event in program.of(Read) if not event.has_more and event.device is None]
        if not reads:
            return
        restored: dict[Site, Restored] = {}
        for event in program.of(Restored):
            for site in event.read:
                restored.setdefault(site, event)
        many = _several_processes(program)
        why = many or next((event for event in program.of(DeviceChosen) if _is_choice(program, event)), None)
        if why is None or (many is None and _needs_gpu(program)):
            return
        found: dict[Site, list[tuple[Read, Restored]]] = {}
        for read in reads:
            use = restored.get(read.site)
            if use is None or _knows_better(program, read) or _is_small(program, use) or _is_unused(program, read):
                continue
            if many is not None and guarded_by_rank(program, read.guards):
                continue
            if many is None and _was_saved_here(program, read):
                continue
            found.setdefault(read.function or Site(read.site.path, 0), []).append((read, use))
        for together in found.values():
            _report(program, report, why, together)


def _report(
    program: Program, report: Report, why: Distributed | DeviceChosen, together: list[tuple[Read, Restored]]
) -> None:
    """The checkpoints that one function restores are one finding, at the first of them."""
    together.sort(key=lambda pair: pair[0].site)
    read, use = together[0]
    fixes = [edit for each, _ in together for edit in _edits(each)]
    is_foreign = all(_is_published(program, *each) for each in together)
    report(
        read.site,
        _message(isinstance(why, Distributed), len(together) - 1),
        because=[why.trace, read.trace, use.trace],
        gaps=[Gap.UNSEEN if is_foreign else Gap.CONVENTION],
        fix=DraftFix("Load to the CPU first", "unsafe", tuple(dict.fromkeys(fixes))) if fixes else None,
    )


def _several_processes(program: Program) -> Distributed | None:
    """A model wrapped for several processes, or a process group that the file which reads joins."""
    paths = {event.site.path for event in program.of(Read)}
    return next((event for event in program.of(Distributed) if event.how != "group" or event.site.path in paths), None)


def _needs_gpu(program: Program) -> bool:
    """Whether the program moves its model to the GPU whatever the answer is: only that device is ever used."""
    paths = {next(iter(program.modules), ""), *(event.site.path for event in program.of(Read))}
    return any(
        not any(_DEVICE_WORDS.search(words(program).of(guard.site)) for guard in event.guards)
        for event in program.of(GpuUsed)
        if event.site.path in paths
    )


def _is_unused(program: Program, read: Read) -> bool:
    """Whether it stands in a function of a script that nothing calls."""
    name = program.entries.get(read.calls[0]) if read.calls else None
    source = program.project.read(read.site.path) or b""
    if not name or b"__main__" not in source:
        return False
    word = re.compile(rb"\b" + re.escape(name.encode()) + rb"\b")
    others = program.project.naming(name, read.site.path, word)
    return len(word.findall(source)) == 1 and not any(program.project.imports(path, read.site.path) for path in others)


def _is_published(program: Program, read: Read, use: Restored) -> bool:
    """Whether the file is likely to come from elsewhere, saved from who knows which device: the weights of a base
    network, what the same function downloads, or what a program that trains nothing reads by a written name that
    says nothing of a run."""
    function = program.function_around(read.site)
    if function is not None and any("()" in how and _FETCHES.search(name) for name, how in function.uses.items()):
        return True
    if function is not None and any(param.name == "pretrained" for param in function.params):
        return True
    target = words(program).node(use.site)
    if isinstance(target, ir.Call) and _BASE_WORDS.search(spelled(target.callee)):
        return True
    if read.file_at is None:
        return False
    site = Site(read.site.path, read.file_at)
    if _BASE_WORDS.search(words(program).of(site)):
        return True
    node = words(program).node(site)
    if any(program.of(Backward)) or not isinstance(node, ir.Expr) or not _is_written(node):
        return False
    return not _OWN_WORDS.search(words(program).of(site))


def _is_written(node: ir.Expr) -> bool:
    """Whether a name is written down: ``"best.pt"``, ``os.path.join(os.path.dirname(__file__), "s3fd.pth")``."""
    if isinstance(node, ir.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ir.Operation):
        return node.right is not None and _is_written(node.left) and _is_written(node.right)
    return isinstance(node, ir.Call) and bool(node.args) and "__file__" in spelled(node)


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
        other.function == read.function and other.function is not None and not is_absent(other.device)
        for other in program.of(Read)
        if other.site != read.site
        and _file(program, other.site, other.file_at) == _file(program, read.site, read.file_at)
    )


def _was_saved_here(program: Program, read: Read) -> bool:
    """The same run wrote the file before: it is on the device that is used."""
    name = _file(program, read.site, read.file_at)
    if _KEPT_BY_RUN.search(name) or _was_named(program, read) or _was_returned(program, read):
        return True
    if _follows_training(program, read):
        return True
    earlier = itertools.takewhile(lambda event: event is not read, program.events)
    is_local = name.isidentifier()  # the same name in another function is another file
    literals = _literals(program, read.site, read.file_at)
    return any(
        (_file(program, each.site, each.file_at) == name and (not is_local or each.function == read.function))
        or (_is_one_run(program, each, read) and bool(literals & _literals(program, each.site, each.file_at)))
        for each in earlier
        if isinstance(each, Saved)
    )


def _literals(program: Program, site: Site, at: int | None) -> set[str]:
    """The parts of a file's name that are written down and tell files apart: ``"model_%d.pt"``."""
    node = words(program).node(Site(site.path, at)) if at is not None else None
    parts = walk((ir.Evaluate(node.at, node),), True) if isinstance(node, ir.Expr) else ()
    texts = (part.value for part in parts if isinstance(part, ir.Constant) and isinstance(part.value, str))
    return {text for text in texts if len(text.strip("./_-")) >= _MIN_NAME}


def _is_one_run(program: Program, one: Event, other: Event) -> bool:
    """Whether the same entry, or the body of the file, does both."""
    entries = {event.calls[0] if event.calls and event.calls[0] in program.entries else None for event in (one, other)}
    return len(entries) == 1


def _was_named(program: Program, read: Read) -> bool:
    """Whether the name is written down, and another call of the same run of code was given it before, to save there."""
    node = words(program).node(Site(read.site.path, read.file_at)) if read.file_at is not None else None
    unit = program.unit(read.site.path)
    if not isinstance(node, ir.Constant) or unit is None or read.calls:
        return False
    return any(
        isinstance(other, ir.Call) and other.at < read.site.at and any(_is_same(arg.value, node) for arg in other.args)
        for other in walk(unit.body, False)
    )


def _follows_training(program: Program, read: Read) -> bool:
    """Whether the same function has trained before: what it reads then is what the training has written."""
    around = len(read.calls)
    return any(
        step.order < read.order and step.calls[:around] == read.calls and step.loops[: len(read.loops)] == read.loops
        for step in program.of(Step)
        if len(step.loops) > len(read.loops) and not step.framework
    )


def _was_returned(program: Program, read: Read) -> bool:
    """``path = train(…)``: whether the name comes from a call that wrote a file before."""
    node = words(program).node(Site(read.site.path, read.file_at)) if read.file_at is not None else None
    function, unit = program.function_around(read.site), program.unit(read.site.path)
    if not isinstance(node, ir.Name) or unit is None:
        return False
    made = {
        each.value.at
        for each in walk(function.body if function is not None else unit.body, False)
        if isinstance(each, ir.Assign) and isinstance(each.value, ir.Call) and node.id in _names(each)
    }
    calls = {Site(read.site.path, at) for at in made}
    return any(not calls.isdisjoint(event.calls) for event in program.of(Saved))


def _names(node: ir.Assign) -> set[str]:
    return {name for target in node.targets for name in target_names(target)}


def _is_same(value: ir.Expr, node: ir.Constant) -> bool:
    return isinstance(value, ir.Constant) and value.value == node.value


def _file(program: Program, site: Site, at: int | None) -> str:
    if at is None:
        return ""
    node = words(program).node(Site(site.path, at))
    if isinstance(node, ir.Name):
        node = _opened_as(program, site.path, node) or node
    if isinstance(node, ir.Call) and isinstance(node.callee, ir.Name) and node.callee.id == "open" and node.args:
        node = node.args[0].value  # ``open(name, "wb")``
    return spelled(node) if isinstance(node, ir.Expr) else ""


def _opened_as(program: Program, path: str, name: ir.Name) -> ir.Expr | None:
    """The call of ``with open(…) as f:`` around a use of ``f``."""
    unit = program.unit(path)
    for node in walk(unit.body, True) if unit is not None else ():
        if isinstance(node, ir.With) and any(part is name for part in walk(node.body, False)):
            for value, target in node.items:
                if isinstance(target, ir.Name) and target.id == name.id:
                    return value
    return None


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
