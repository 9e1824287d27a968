"""PF103 outputs-kept-on-device."""

from __future__ import annotations

from analyzer.engine.data_events import DeviceChosen, GpuUsed, LoaderMade
from analyzer.engine.events import Backward, Event, Forward, Loop, Loss
from analyzer.engine.outputs import OutputKept, OutputRead, marks_in
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, Trace
from analyzer.engine.values import Tensor
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertAfter
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.short_stores import drawn_names, is_of_one_batch
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, each_target, target_names, walk

_OF_CLASSES = {"logits", "log-probabilities"}
_PIECES = frozenset({"split", "chunk", "unfold", "tensor_split", "unbind"})


class OutputsKeptOnDevice(Rule):
    """The outputs of a whole evaluation pile up in the memory of the GPU.

    ## Why it matters
    Without a graph each output is small beside a training step, but an evaluation keeps one per batch: masks, token
    logits or embeddings of a whole data set fill a GPU, and concatenating them needs the same memory once more. It
    grows with the data, so it fails on the real validation set and not on the sample.

    ## Example
    ```python
    with torch.no_grad():
        for x, y in loader:
            logits = model(x.to(device))
            outputs.append(logits)
    outputs = torch.cat(outputs)
    ```

    ## Use instead
    ```python
            outputs.append(logits.cpu())
    ```
    or keep what is needed only: `logits.argmax(dim=1)`.

    ## When it stays quiet
    For classes, means, losses and one number per sample; for what is moved to the CPU or to NumPy; where the container
    is emptied or written out on the way, is made anew per batch, or the loop ends early; for a tensor that is joined to
    another output of the same batch, and for the outputs of several models, scales or views of it; in loops that train.
    It is a note: how large the outputs and the data are, the text seldom says. Where a graph is recorded as well, PF102
    or PF101 speak.

    ## Fix safety
    ``.cpu()`` is unsafe: what reads the container afterwards gets tensors on another device.
    """

    code = "PF103"
    name = "outputs-kept-on-device"
    severity = Severity.WARNING
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A store of outputs, carried over the batches of an evaluation."""
        for kept in program.of(OutputKept):
            loop = _batches(program, kept)
            wide = [case for case in kept.outputs if case.device in {"accelerator", "model"} and not case.shape]
            if loop is None or not wide:
                continue
            if kept.into is None and not _is_carried(program, kept, loop):
                continue
            if kept.into is not None and program.objects[kept.into].cls is not None:
                continue  # what ``self.video[n : n + m] = out`` writes into says itself how large it is
            if _is_over_outputs(program, _data_around(kept, loop), loop):
                continue
            forwards = [each for each in program.of(Forward) if each.site in _sites(wide)]
            if _is_now_and_then(kept, forwards):
                continue
            if is_of_one_batch(program, {each.site for each in forwards}, _data_around(kept, loop)):
                continue
            if not forwards or all(each.is_dry for each in forwards) or program.is_left_early(loop):
                continue
            text = program.sources.text(Site(kept.site.path, kept.tensor_at)) if kept.tensor_at is not None else ""
            what = f"`{text}`" if text else "it"
            where = "container" if kept.into is not None else "tensor"
            report(
                kept.site,
                f"This {where} {{does keep}} the outputs of a whole evaluation in the memory of the "
                f"device: it grows with every batch. Keep {what} on the CPU (`.cpu()`), or only what is needed of it.",
                because=[loop.trace, forwards[0].trace, _place(program, kept)],
                gaps=_gaps(program, kept, wide, forwards),
                severity=None
                if _has_classes(program, _sites(wide))
                and not _is_handed_on(program, kept)
                and not _is_cut(program, loop)
                else Severity.NOTE,  # how wide, does not show
                fix=_fix(kept),
            )


def _is_now_and_then(kept: OutputKept, forwards: list[Forward]) -> bool:
    """Whether only every n-th output is kept: not where the whole evaluation runs every n-th step."""
    whole = {guard for each in forwards for guard in each.guards}
    return any(guard.is_periodic and guard not in whole for guard in kept.guards)


def _data_around(kept: OutputKept, loop: Loop) -> tuple[Loop, ...]:
    """The loops over data around the one that fills the container."""
    keys = [each.key for each in kept.loops]
    return tuple(each for each in kept.loops[: keys.index(loop.key)] if each.kind == "data")


def _is_over_outputs(program: Program, around: tuple[Loop, ...], loop: Loop) -> bool:
    """Whether a loop in one over batches goes over what a call in that one gave: ``[head(x) for x in outputs]``."""
    statements = [each for each in map(program.statement_of, around) if each is not None]
    parts = list(walk(statements[-1].body, False)) if statements else []
    over = [(set(target_names(part.target)), dotted(part.iter) or "") for part in parts if isinstance(part, ir.For)]
    for part in parts:
        clauses = part.clauses if isinstance(part, ir.Comprehension) else ()
        over += [(set(target_names(clause.target)), dotted(clause.iter) or "") for clause in clauses]
    names = drawn_names(program, loop)
    for _ in range(2):  # ``[head(x) for xs in outputs for x in xs]``
        names = names | {name for drawn, name in over if names & drawn}
    loaders = {made.site.at for made in program.of(LoaderMade) if made.site.path == loop.site.path}
    return any(
        isinstance(part, ir.Assign)
        and isinstance(part.value, ir.Call)
        and part.value.at not in loaders
        and not names.isdisjoint(filter(None, map(dotted, part.targets)))
        for part in parts
    )


def _is_cut(program: Program, loop: Loop) -> bool:
    """Whether a loop goes over the pieces of one tensor (``x.split(1024)``), which is on the device as a whole."""
    statement = program.statement_of(loop)
    calls = walk((statement.iter,), False) if statement is not None else ()
    return any(
        isinstance(each, ir.Call) and isinstance(each.callee, ir.Attribute) and each.callee.attr in _PIECES
        for each in calls
    )


def _is_carried(program: Program, kept: OutputKept, loop: Loop) -> bool:
    """Whether a tensor that outputs are joined to comes from an earlier batch: it is no variable of a function that is
    called once per batch, and nothing before in the same iteration gives it another value."""
    statement = program.statement_of(loop)
    if statement is None:
        return True
    way = _way_to(statement.body, kept.site.at) if kept.site.path == loop.site.path else None
    if way is None or loop.depth != len(kept.calls):
        function = program.function_around(kept.site)
        way = _way_to(function.body, kept.site.at) if function is not None else None
        return way is not None and not isinstance(way[-1].targets[0], ir.Name)
    name = dotted(way[-1].targets[0])
    return not any(isinstance(each, ir.Assign) and name in map(dotted, each_target(each)) for each in way[:-1])


def _way_to(block: ir.Block, value_at: int) -> list[ir.Assign] | None:
    """The assignments that are made in any case before one of them, and that one last."""
    before: list[ir.Assign] = []
    for node in block:
        if isinstance(node, ir.Assign):
            before.append(node)
            if _is_at(node, value_at):
                return before
        for name in ("body", "orelse", "final"):
            inner = _way_to(getattr(node, name, ()), value_at)
            if inner is not None:
                return before + inner
        if isinstance(node, ir.With):
            before += _assigns(node.body)
    return None


def _assigns(block: ir.Block) -> list[ir.Assign]:
    """The assignments of a block that runs, and of the ``with`` blocks in it."""
    found: list[ir.Assign] = []
    for node in block:
        found += [node] if isinstance(node, ir.Assign) else _assigns(node.body) if isinstance(node, ir.With) else []
    return found


def _is_handed_on(program: Program, kept: OutputKept) -> bool:
    """Whether the function returns them as one tensor, as they are: the caller may want them on the device."""
    function = program.function_around(kept.site)
    made = program.objects[kept.into].trace.site if kept.into is not None else None
    body = list(walk(function.body, False)) if function is not None else []
    names = {
        dotted(target)
        for node in body
        if isinstance(node, ir.Assign) and node.value is not None and made == Site(kept.site.path, node.value.at)
        for target in node.targets
    }
    given = [each.value for each in body if isinstance(each, ir.Return)]
    values = [part for value in given if value is not None for part in _alternatives(value)]
    return any(
        isinstance(value, ir.Call)
        and dotted(value.callee) in {"torch.cat", "torch.stack", "torch.vstack"}
        and any(dotted(arg.value) in names - {None} for arg in value.args)
        for value in values
    )


def _alternatives(value: ir.Expr) -> tuple[ir.Expr, ...]:
    return tuple(item for item in value.items) if isinstance(value, ir.Display) else (value,)


def _sites(outputs: list[Tensor]) -> frozenset[Site]:
    return frozenset(mark.site for case in outputs for mark in marks_in(case.via))


def _place(program: Program, kept: OutputKept) -> Trace:
    return program.objects[kept.into].trace if kept.into is not None else kept.trace


def _batches(program: Program, kept: OutputKept) -> Loop | None:
    """The loop over batches that the container outlives, and inside of which nothing empties it or trains."""
    into = kept.into
    emptied = {loop.key for nest in program.emptied.get(into, ()) for loop in nest} if into is not None else set()
    if into is not None and program.objects[into].is_bounded:
        return None
    for depth in range(len(kept.loops), kept.born_under, -1):
        loop = kept.loops[depth - 1]
        if loop.key in emptied:
            return None
        is_framework = loop.kind == "framework" and loop.part == "evaluation steps"
        if loop.kind == "data" or is_framework or _is_drawn_by_hand(program, loop):
            is_training = any(True for _ in program.within(Backward, kept.loops[:depth]))
            return None if is_training else loop
    return None


def _is_drawn_by_hand(program: Program, loop: Loop) -> bool:
    """``while True: batch = next(batches)``, ``for i in range(len(loader)): batch = next(batches)``."""
    node = words(program).node(loop.site)
    parts = walk(node.body, False) if isinstance(node, (ir.While, ir.For)) else ()
    return any(isinstance(part, ir.Call) and dotted(part.callee) == "next" for part in parts)


def _gaps(program: Program, kept: OutputKept, wide: list[Tensor], forwards: list[Forward]) -> list[Gap]:
    """What could make the outputs small, or put them elsewhere, without our seeing it."""
    gaps = [Gap.CONVENTION]
    sites = _sites(wide)
    read = {event.what for event in program.of(OutputRead) if event.of in sites}
    own = [event for event in program.of(Loss) if any(_is_of(case, sites) for case in event.input.cases)]
    is_number = any(event.expects == "same shape" for event in own)
    is_moved = any(case.device == "accelerator" for case in wide) or kept.loops[-1].kind == "framework"
    is_moved = is_moved or _is_brought_back(program, kept) or _is_sent(program, forwards)
    around = {guard for each in forwards for guard in each.guards}
    is_chosen = any(guard not in around and not _is_first(program, kept, guard.site) for guard in kept.guards)
    if not is_moved or is_number or "features" in read or is_chosen:
        gaps.append(Gap.UNSEEN)
    return gaps


def _is_first(program: Program, kept: OutputKept, site: Site) -> bool:
    """Whether a condition only tells the first batch, which the tensor begins with, from those that are joined to it:
    ``if first: kept = out`` and ``else: kept = torch.cat((kept, out))``."""
    node = words(program).node(site)
    if kept.into is not None or not isinstance(node, ir.If):
        return False
    sides = [[each for each in walk(part, False) if isinstance(each, ir.Assign)] for part in (node.body, node.orelse)]
    mine = next((each for side in sides for each in side if _is_at(each, kept.site.at)), None)
    name = dotted(mine.targets[0]) if mine is not None else None
    return name is not None and all(any(name in map(dotted, each_target(each)) for each in side) for side in sides)


def _is_at(node: ir.Assign, value_at: int) -> bool:
    cases = (node.value.body, node.value.orelse) if isinstance(node.value, ir.Conditional) else (node.value,)
    return any(case is not None and case.at == value_at for case in cases)


def _is_sent(program: Program, forwards: list[Forward]) -> bool:
    """Whether the function that runs the network sends something to a device."""
    functions = {each.function for each in forwards}
    sent: list[Event] = [*program.of(GpuUsed), *program.of(DeviceChosen)]
    return any(each.function in functions for each in sent)


def _is_brought_back(program: Program, kept: OutputKept) -> bool:
    """``torch.cat(kept, 0).cpu()`` behind the loop: until then they lie on the device."""
    node, function = words(program).node(kept.site), program.function_around(kept.site)
    of = node.callee.value if isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute) else None
    name = dotted(of) if of is not None else None
    if function is None or name is None:
        return False
    moves = (each for each in walk(function.body, False) if isinstance(each, ir.Attribute) and each.attr == "cpu")
    joins = (each.value for each in moves if isinstance(each.value, ir.Call) and dotted(each.value.callee) in _JOINS)
    return any(dotted(arg.value) == name for join in joins for arg in join.args)


_JOINS = frozenset(["torch.cat", "torch.stack", "torch.vstack", "torch.concat", "torch.hstack"])


def _has_classes(program: Program, sites: frozenset[Site]) -> bool:
    """Whether the outputs have a dimension of classes: something chooses among them, or a loss says so."""
    read = {event.what for event in program.of(OutputRead) if event.of in sites}
    own = [event for event in program.of(Loss) if any(_is_of(case, sites) for case in event.input.cases)]
    if "classes" in read or any(event.expects in _OF_CLASSES for event in own):
        return True
    wants = {event.expects for event in program.of(Loss)}  # the other losses of the file say what its networks give
    return not own and bool(wants) and wants <= _OF_CLASSES


def _is_of(case: object, sites: frozenset[Site]) -> bool:
    return isinstance(case, Tensor) and any(mark.site in sites for mark in marks_in(case.via))


def _fix(kept: OutputKept) -> DraftFix | None:
    if kept.tensor_at is None:
        return None
    return DraftFix("Keep the outputs on the CPU", "unsafe", (InsertAfter(kept.tensor_at, ".cpu()"),))
