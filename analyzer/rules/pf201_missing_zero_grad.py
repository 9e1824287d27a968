"""PF201 missing-zero-grad."""

from __future__ import annotations

from analyzer.engine.events import Backward, Clear, Escape, Forward, Loop, Step
from analyzer.engine.optim_events import OptimizerMade, ScalerStep
from analyzer.engine.program import Program, functions, nest_key
from analyzer.engine.trace import Gap, Site
from analyzer.engine.typing import steps_as_optimizer
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertStatement
from analyzer.knowledge.words import pattern
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.distinct_values import is_reached_once
from analyzer.rules.iteration import extra_guards
from analyzer.rules.short_stores import drawn_names, stepped_by
from analyzer.rules.spoken_steps import never_reset, tell
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, walk

_CLOCKS = frozenset(
    {
        "time.time",
        "time.perf_counter",
        "time.monotonic",
        "time",
        "perf_counter",
        "timeit.default_timer",
        "torch.cuda.Event",
    }
)

_BARE = frozenset({"sum", "mean"})
_MADE_UP = frozenset(f"torch.{name}" for name in ("rand", "randn", "ones", "zeros", "randint", "empty"))


class MissingZeroGrad(Rule):
    """Gradients are never cleared between optimizer steps.

    ## Why it matters
    ``backward()`` adds to ``.grad``. Without a reset, every step applies the sum of all gradients since the start: the
    loss falls for a while and then diverges, or settles somewhere wrong. Nothing fails.

    ## Example
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## When it stays quiet
    When anything in the loop clears the gradients: ``zero_grad`` of the optimizer or of a module, here, in a callee or
    in the closure given to ``step``, ``p.grad = None``; when optimizer and parameters are made anew in every
    iteration; when a framework does it; when the network that the loss trains is reset and the optimizer holds another.
    A note where a counted loop makes up its inputs and the loss is the bare sum or mean of the output (it tries how
    something runs), and where nothing but its ``step()`` or its name says that something is an optimizer: a timer steps
    too, and another file may reset.

    ## Fix safety
    Unsafe: the step that follows applies other gradients, which is the point.
    """

    code = "PF201"
    name = "missing-zero-grad"
    alias = "TG003"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A step and a backward in the same loop, with nothing that clears gradients in it."""
        seen: set[Site] = set()
        for step in sorted(program.of(Step), key=lambda step: _is_typed_by_use(program, step)):
            if step.clears:
                continue
            if not step.loops:
                _called_again(program, report, step)
                continue
            nest, backward = _shared_loop(program, step)
            if backward is None or nest_key(step.born_in[: len(nest)]) == nest_key(nest):
                continue
            clears = [clear for clear in program.within(Clear, nest) if program.may_clear(clear, step)]
            is_always = not extra_guards(step, backward)
            clears = [clear for clear in clears if not (is_always and is_reached_once(program, clear, nest[-1]))]
            if any(not _is_of_other(program, clear, step, nest) for clear in clears):
                continue
            if _is_of_others(program, step, backward, nest):
                continue
            if _is_typed_by_use(program, step) and nest[-1].site in seen:
                continue  # the same step, seen without its callers
            seen.add(nest[-1].site)
            report(
                step.site,
                "Nothing resets the gradients between iterations of this loop: each step {will apply} the sum of all "
                "earlier gradients. Call `zero_grad()` once per step.",
                because=[program.objects[step.optimizer].trace, nest[-1].trace, backward.trace, step.trace]
                if step.optimizer is not None
                else [nest[-1].trace, backward.trace, step.trace],
                gaps=[*_gaps(program, step, nest), *([Gap.CONVENTION] if clears else [])],
                severity=Severity.NOTE if _learns_nothing(program, nest, backward) else None,
                fix=_fix(program, step),
            )
        tell(
            report,
            never_reset(program),
            "Nothing in this file resets the gradients that `{of}` {does apply}: if nothing elsewhere does, each step "
            "applies the sum of all earlier gradients. Call `zero_grad()` once per step.",
            "the backward pass",
            "the step",
            even_possible=True,
        )


def _learns_nothing(program: Program, nest: tuple[Loop, ...], backward: Backward) -> bool:
    """Whether a counted loop makes up its inputs, and the loss is the bare sum or mean of what comes out: it tries how
    something runs (``model(torch.rand(20, 10)).sum().backward()``)."""
    call, loop = words(program).node(backward.site), words(program).node(nest[-1].site)
    loss = call.callee.value if isinstance(call, ir.Call) and isinstance(call.callee, ir.Attribute) else None
    is_bare = isinstance(loss, ir.Call) and isinstance(loss.callee, ir.Attribute) and loss.callee.attr in _BARE
    parts = walk((loop,), False) if is_bare and nest[-1].kind == "range" and isinstance(loop, ir.For) else ()
    return any(isinstance(part, ir.Call) and dotted(part.callee) in _MADE_UP for part in parts)


def _is_of_other(program: Program, clear: Clear, step: Step, nest: tuple[Loop, ...]) -> bool:
    """Whether a reset is that of another optimizer, which applies another backward pass of the loop: of two that a
    function is given, each holds its own parameters."""
    if clear.optimizer is None or step.optimizer is None or clear.optimizer == step.optimizer or clear.modules:
        return False
    objects = program.objects
    are_given = {objects[each].born for each in (clear.optimizer, step.optimizer)} == {"argument"}
    others = [other for other in program.within(Step, nest) if other.optimizer == clear.optimizer]
    mine, backwards = _last_before(step, program, nest), [_last_before(other, program, nest) for other in others]
    return are_given and bool(others) and mine is not None and all(each not in (None, mine) for each in backwards)


def _is_of_others(program: Program, step: Step, backward: Backward, nest: tuple[Loop, ...]) -> bool:
    """Whether the gradients that are computed are those of another network than the optimizer holds, and are reset (a
    network that the backward pass goes through, or one that no step of the loop updates): no sum grows, and it is the
    optimizer that is wrong."""
    if not step.modules or backward.roots & program.roots_through(step.modules):
        return False
    through = {run.module for run in program.of(Forward) if run.root in backward.roots}
    stepped = frozenset(module for other in program.within(Step, nest) for module in other.modules)
    cleared = (clear.modules for clear in program.within(Clear, nest))
    return any(modules & through or (modules and not modules & stepped) for modules in cleared)


def _last_before(step: Step, program: Program, nest: tuple[Loop, ...]) -> int | None:
    """When the last backward pass before a step was."""
    return max((each.order for each in program.within(Backward, nest) if each.order < step.order), default=None)


def _is_typed_by_use(program: Program, step: Step) -> bool:
    """Whether an argument is taken for an optimizer because it steps."""
    return step.optimizer is not None and program.objects[step.optimizer].kind == "Stepper"


def _called_again(program: Program, report: Report, step: Step) -> None:
    """A method that computes and applies gradients is called again and again, by callers that were not seen. The
    optimizer is its object's own, and nothing in the program resets what it holds."""
    owner = program.objects[step.optimizer] if step.optimizer is not None else None
    if owner is None or owner.kind != "Optimizer" or owner.trace.gap or not step.calls or program.is_cut:
        return
    backwards = [event for event in program.of(Backward) if event.calls[:1] == step.calls[:1]]
    before = [event for event in backwards if event.order < step.order and not event.loops]
    made_there = owner.trace.site.path == step.site.path and any(
        made.optimizer == step.optimizer and made.calls[:1] == step.calls[:1] for made in program.of(OptimizerMade)
    )
    if not before or made_there or any(program.may_clear(clear, step) for clear in program.of(Clear)):
        return
    handed_on = [event for event in program.of(Escape) if event.objects & (step.modules | {step.optimizer})]
    report(
        step.site,
        "Nothing resets the gradients between calls of this method: each step {will apply} the sum of all earlier "
        "gradients. Call `zero_grad()` once per step.",
        because=[owner.trace, before[-1].trace, step.trace],
        gaps=[Gap.UNSEEN if handed_on else Gap.CONVENTION],
        fix=_fix(program, step),
    )


def _shared_loop(program: Program, step: Step) -> tuple[tuple[Loop, ...], Backward | None]:
    """The innermost loop that a step shares with a backward, over data, epochs or steps."""
    for depth in range(len(step.loops), 0, -1):
        nest = step.loops[:depth]
        if nest[-1].kind == "other" or (step.optimizer is None and _picks(program, step, nest[-1])):
            continue
        backward = _backward_of(program, step, nest)
        if backward is not None:
            return nest, backward
    return (), None


def _picks(program: Program, step: Step, loop: Loop) -> bool:
    """Whether each iteration of a loop steps another optimizer (``optimizers[i].step()``), of ones that were not read:
    what it steps is reset around the loop."""
    return bool(drawn_names(program, loop) & stepped_by(program, step.site))


def _backward_of(program: Program, step: Step, nest: tuple[Loop, ...]) -> Backward | None:
    """The backward whose gradients the step applies: through its modules where one is seen, the nearest before it."""
    through = program.roots_through(step.modules)
    found = list(program.within(Backward, nest))
    ours = [backward for backward in found if backward.roots & through] or found
    nearest = [backward for backward in ours if program.place(backward) < program.place(step)] or ours
    return nearest[-1] if nearest else None


def _gaps(program: Program, step: Step, nest: tuple[Loop, ...]) -> list[Gap]:
    """Unseen code inside the loop that is handed the optimizer or its modules could clear them."""
    if not step.modules and _is_cleared_by_helper(program, step):
        return [Gap.UNSEEN]
    if _is_measured(program, step, nest):
        return [Gap.UNSEEN]
    if step.optimizer is None and _may_be_reset(program, step, nest):
        return [Gap.UNSEEN]
    mine = {step.optimizer} if step.optimizer is not None else frozenset()
    found = [event for event in program.within(Escape, nest) if event.objects & (step.modules | mine)]
    if any(_may_reset(program, event, step, bool(event.objects & mine)) for event in found):
        return [Gap.UNSEEN]
    return [Gap.CONVENTION] if found else []


def _may_be_reset(program: Program, step: Step, nest: tuple[Loop, ...]) -> bool:
    """Whether an object of which nothing else is known steps without being called an optimizer (a timer, an
    environment), or code that was not read is called in the loop by a name that may mean that it resets gradients."""
    if any(each.site == step.site for each in program.of(ScalerStep)):
        return False
    if not steps_as_optimizer(words(program).node(step.site)):
        return True
    sites = (event.site for event in program.within(Escape, nest) if event.site != step.site)
    callees = (program.sources.callee(site) for site in sites)
    return any(each is not None and pattern("resets gradients").search(each[1].rpartition(".")[2]) for each in callees)


def _may_reset(program: Program, event: Escape, step: Step, has_optimizer: bool) -> bool:
    """Whether code that was not read may reset gradients. What saves a checkpoint, sets a learning rate, evaluates a
    model or computes its loss does not: the first two are given the optimizer, and say so. What runs once in several
    steps is no reset of each."""
    callee = program.sources.callee(event.site)
    name = callee[1].rpartition(".")[2] if callee is not None else ""
    if has_optimizer:
        return not pattern("reads an optimizer").search(name)
    is_in_step = nest_key(event.loops)[: len(step.loops)] == nest_key(step.loops)
    is_in_step = is_in_step and not any(guard.is_periodic for guard in set(event.guards) - set(step.guards))
    is_sparing = pattern("reads an optimizer").search(name) is not None
    return (event.is_for_effect and is_in_step and not is_sparing) or bool(pattern("resets gradients").search(name))


def _is_cleared_by_helper(program: Program, step: Step) -> bool:
    """Whether, where it is not known what a step updates, a function of another file of the tree resets gradients and
    steps nothing: a loss that is handed in may be that one."""
    for path in program.project.callers("zero_grad", step.site.path):
        unit = program.unit(path) if not path.endswith(".ipynb") else None  # nothing imports a notebook
        for function, _ in functions(unit) if unit is not None else ():
            called = {name.rpartition(".")[2] for name, how in function.uses.items() if "()" in how}
            if "zero_grad" in called and "step" not in called:
                return True
    return False


def _is_measured(program: Program, step: Step, nest: tuple[Loop, ...]) -> bool:
    """Whether random numbers run through the loop and a clock beside it: how long a step takes is all that matters."""
    runs = list(program.within(Forward, nest))
    around = program.function_around(step.site) or program.unit(step.site.path)
    is_timed = around is not None and not _CLOCKS.isdisjoint(name for name, how in around.uses.items() if "()" in how)
    return is_timed and bool(runs) and all(run.is_dry for run in runs if program.has_parameters(run))


def _fix(program: Program, step: Step) -> DraftFix | None:
    """``zero_grad()`` right after the step."""
    target = program.sources.receiver_text(step.site)
    statement = program.sources.statement_of(step.site)
    if target is None or statement is None:
        return None
    edit = InsertStatement("after", statement, f"{target}.zero_grad()")
    return DraftFix("Reset the gradients after the step", "unsafe", (edit,))
