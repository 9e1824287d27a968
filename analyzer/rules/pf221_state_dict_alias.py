"""PF221 state-dict-alias."""

from __future__ import annotations

from analyzer.engine.events import Backward, Loop, Step
from analyzer.engine.mode_events import ModuleNamed, WeightsKept, WeightsRestored, WeightsUsed
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertAfter, InsertBefore, InsertStatement, SymbolicEdit
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.syntax import ir
from analyzer.syntax.scope import walk

_COPIES = frozenset(["clone", "cpu", "to", "deepcopy", "copy"])


class StateDictAlias(Rule):
    """Weights that were to be kept go on being trained.

    ## Why it matters
    ``state_dict()`` returns the parameters themselves. The next ``optimizer.step()`` changes them in place, so the
    "best" weights that are loaded or saved at the end are simply the last ones. Early stopping then has no effect.

    ## Example
    ```python
    if accuracy > best_accuracy:
        best_accuracy = accuracy
        best_weights = model.state_dict()
    ```

    ## Use instead
    ```python
    if accuracy > best_accuracy:
        best_accuracy = accuracy
        best_weights = copy.deepcopy(model.state_dict())
    ```

    ## When it stays quiet
    When the weights are copied (``deepcopy``, ``clone`` or ``cpu`` for each entry), saved or loaded before the next
    step, or when the module is made anew before it is trained again; for a name in a function that the loop calls.
    A note where only the name says that the best is kept, or where the training is in code that was not read.

    ## Fix safety
    Unsafe: the weights that are kept need memory of their own, and other weights are used from then on, which is the
    point.
    """

    code = "PF221"
    name = "state-dict-alias"
    severity = Severity.ERROR
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A state dict that is used after a step of its module; one kept in an attribute and loaded back later."""
        done: set[Site] = set()
        for event in program.of(WeightsUsed):
            for weights, change in event.stale:
                if _is_made_anew(program, weights, event) or _is_yielded(program, program.objects[weights].trace.site):
                    continue
                done.add(program.objects[weights].trace.site)
                use = start(event.site, _USES[event.how], Gap.CONVENTION if event.how == "return" else None)
                _report(program, report, weights, [change, use], _gaps(program, weights))
        for named in program.of(ModuleNamed):
            _check_named(program, report, named)
        loads = {event.place: event for event in program.of(WeightsRestored)}
        for kept in program.of(WeightsKept):
            site, load = program.objects[kept.weights].trace.site, loads.get(kept.place)
            if load is not None and site not in done and load.function != kept.function:
                gap = Gap.UNSEEN if _is_result(program, kept) else Gap.CONVENTION
                _report(program, report, kept.weights, [load.trace], [gap])
            elif load is None and site not in done and _is_only_kept(program, kept):
                _report(program, report, kept.weights, [kept.trace], [Gap.CONVENTION], Severity.NOTE)


def _is_only_kept(program: Program, kept: WeightsKept) -> bool:
    """Whether the best weights so far become an attribute that this function does not read, in a program that trains:
    who uses them was not read, and does so later."""
    function = program.function_around(kept.site)
    if function is None or kept.place[1].startswith("[") or not _is_best(program, kept):
        return False
    reads = (
        node for node in walk(function.body, False) if isinstance(node, ir.Attribute) and node.attr == kept.place[1]
    )
    backwards = list(program.of(Backward))
    return (
        sum(1 for _ in reads) == 1 and bool(backwards) and all(each.calls[:1] != kept.calls[:1] for each in backwards)
    )


def _is_result(program: Program, kept: WeightsKept) -> bool:
    """Whether the same call has trained the module before it keeps the weights, whatever their score: they are what the
    training gave, and are handed on."""
    around = len(kept.calls)
    trained = any(step.order < kept.order and step.calls[:around] == kept.calls for step in program.of(Step))
    return trained and not _is_best(program, kept)


_USES = {
    "load": "they are loaded back here",
    "save": "they are saved here",
    "return": "they are returned here",
}


def _check_named(program: Program, report: Report, named: ModuleNamed) -> None:
    """The best model so far is a second name of the model that goes on training, and is read after the loop."""
    born = len(program.objects[named.module].loops)
    own = next((place for place, loop in enumerate(named.loops) if loop.depth == len(named.calls)), None)
    if own is None:
        return  # a variable of a function that is called in the loop is gone when it returns
    steps = [step for step in program.within(Step, named.loops[: own + 1]) if named.module in step.modules]
    if born >= len(named.loops) or not steps or not _is_best(program, named):
        return
    if any(len(step.loops) <= born for step in steps) or not _is_read_later(program, named, named.loops[own]):
        return
    report(
        named.site,
        f"`{named.name}` {{is}} the model itself, not a copy: training goes on in it, so that what is kept here will "
        "be the last model and not the best. Use `copy.deepcopy(…)`.",
        because=[program.objects[named.module].trace, named.trace, steps[-1].trace],
        gaps=[Gap.CONVENTION],
    )


def _is_best(program: Program, named: ModuleNamed | WeightsKept) -> bool:
    """Whether the condition around it compares."""
    tests = [words(program).node(guard.site) for guard in named.guards]
    nodes = (part for test in tests if isinstance(test, ir.If) for part in walk((test.test,), False))
    return any(isinstance(part, ir.Operation) and part.op in {"<", ">", "<=", ">="} for part in nodes)


def _is_read_later(program: Program, named: ModuleNamed, around: Loop) -> bool:
    """Whether the name is read behind the loop, in the same body."""
    function, unit = program.function_around(named.site), program.unit(named.site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    loop = next((node for node in walk(body, False) if getattr(node, "at", None) == around.site.at), None)
    inside = walk((loop,), False) if isinstance(loop, (ir.For, ir.While)) else ()
    last = max((getattr(node, "at", 0) for node in inside), default=named.site.at)
    return any(isinstance(node, ir.Name) and node.id == named.name and node.at > last for node in walk(body, False))


def _gaps(program: Program, weights: int) -> list[Gap]:
    """What is kept every n-th time, whatever its score, may be meant to be the last."""
    made = program.objects[weights].trace.site
    unit = program.unit(made.path)
    around = [
        node.test
        for node in (walk(unit.body, True) if unit is not None else ())
        if isinstance(node, ir.If) and any(getattr(part, "at", None) == made.at for part in walk(node.body, False))
    ]
    used = {part.op for test in around for part in walk((test,), False) if isinstance(part, ir.Operation)}
    return [Gap.UNSEEN] if "%" in used and not used & {"<", ">", "<=", ">="} else []


def _is_copied_after(program: Program, made: Site) -> bool:
    """Whether each entry is replaced by a copy in the same function: ``for k in state: state[k] = state[k].cpu()``."""
    function, unit = program.function_around(made), program.unit(made.path)
    nodes = list(walk(function.body if function is not None else unit.body if unit is not None else (), False))
    names = {
        target.id
        for node in nodes
        if isinstance(node, ir.Assign) and node.value is not None and node.value.at == made.at
        for target in node.targets
        if isinstance(target, ir.Name)
    }
    return any(
        isinstance(node, ir.Assign)
        and isinstance(node.value, ir.Call)
        and isinstance(node.value.callee, ir.Attribute)
        and node.value.callee.attr in _COPIES
        and any(
            isinstance(to, ir.Subscript) and isinstance(to.value, ir.Name) and to.value.id in names
            for to in node.targets
        )
        for node in nodes
    )


def _is_yielded(program: Program, made: Site) -> bool:
    """Whether a generator gives them: whoever draws from it gets those of that moment."""
    function = program.function_around(made)
    yields = (node for node in walk(function.body, False) if isinstance(node, ir.Yield)) if function is not None else ()
    values = (part for each in yields if each.value is not None for part in walk((each.value,), False))
    return any(getattr(part, "at", None) == made.at for part in values)


def _is_made_anew(program: Program, weights: int, event: WeightsUsed) -> bool:
    """Whether the module is another one, made in a loop that the use is outside of."""
    here = [loop.key for loop in event.loops]
    return any(
        [loop.key for loop in program.objects[module].loops] != here[: len(program.objects[module].loops)]
        for module in program.objects[weights].modules
    )


def _report(
    program: Program,
    report: Report,
    weights: int,
    later: list[Trace],
    gaps: list[Gap],
    severity: Severity | None = None,
) -> None:
    made = program.objects[weights].trace
    if _is_copied_after(program, made.site):
        return
    report(
        made.site,
        f"`{program.sources.text(made.site)}` returns the weights themselves, not a copy: training goes on in them, so "
        "that what is kept here {will be} the last weights and not these. Wrap it in `copy.deepcopy(…)`.",
        because=[made, *later],
        gaps=gaps,
        severity=severity,
        fix=_fix(program, made.site),
    )


def _fix(program: Program, site: Site) -> DraftFix | None:
    """``copy.deepcopy(…)`` around the call, and the import where the file has none."""
    name, edits = _deepcopy(program, site.path)
    if name is None:
        return None
    whole: tuple[SymbolicEdit, ...] = (InsertBefore(site.at, f"{name}("), InsertAfter(site.at, ")"), *edits)
    return DraftFix("Keep a copy", "unsafe", whole)


def _deepcopy(program: Program, path: str) -> tuple[str | None, tuple[SymbolicEdit, ...]]:
    """How this file says ``copy.deepcopy``; with a new import before its first one, if it must."""
    unit = program.sources.unit(path)
    imports = [node for node in (unit.body if unit is not None else ()) if isinstance(node, (ir.Import, ir.ImportFrom))]
    for node in imports:
        for name, bound in node.names:
            if isinstance(node, ir.Import) and name == "copy":
                return f"{bound or 'copy'}.deepcopy", ()
            if isinstance(node, ir.ImportFrom) and (node.module, name) == ("copy", "deepcopy"):
                return bound, ()
    plain = [node for node in imports if not (isinstance(node, ir.ImportFrom) and node.module == "__future__")]
    return ("copy.deepcopy", (InsertStatement("before", plain[0].at, "import copy"),)) if plain else (None, ())
