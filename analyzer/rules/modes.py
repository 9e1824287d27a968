"""Questions about train and evaluation mode that several rules ask."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from analyzer.engine.events import Backward, Clear, Escape, Event, Forward, Loop, MethodRun, Mode, Run, Step
from analyzer.engine.optim_events import GradientRead
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, Trace
from analyzer.engine.values import Const, ObjectId
from analyzer.engine.words import spelled, words
from analyzer.fixes.edits import InsertStatement
from analyzer.knowledge.words import pattern
from analyzer.rules.base import DraftFix
from analyzer.rules.iteration import exclude
from analyzer.syntax import ir
from analyzer.syntax.later import cst
from analyzer.syntax.scope import last_name, of_type, target_names, walk

_OF_WEIGHTS = re.compile(r"param|weight|var|theta|phi|\bw\b|net|model", re.IGNORECASE)
"""Names of what is trained. They only keep a pass among those that train."""


class Timeline:
    """The events of a program with their order, which of them train, and which switch a mode."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.place = {id(event): index for index, event in enumerate(program.events)}
        self.forwards = list(program.of(Forward))
        self.steps = list(program.of(Step))
        self.modes = list(program.of(Mode))
        self.backwards = list(program.of(Backward))
        self.by_site: dict[Site, list[Mode]] = {}
        for event in self.modes:
            self.by_site.setdefault(event.site, []).append(event)
        self._backward_at = [self.place[id(event)] for event in self.backwards]
        self.roots = {root for event in self.backwards if not _is_of_input(program, event) for root in event.roots}
        self.learning = [
            forward
            for forward in self.forwards
            if forward.root in self.roots and forward.has_graph != "no" and self._is_used(forward)
        ]
        """Forward passes that a backward pass goes through."""
        runs = program.of(MethodRun)
        self.assumed = [run for run in runs if run.root in self.roots] + [
            forward for forward in self.forwards if forward.root not in self.roots and self._may_learn(forward)
        ]
        """Those that learn by convention: methods of modules that were not read; and passes before a backward pass of
        which the loss is not known, in the loop of a step of theirs."""
        self.stepped: frozenset[ObjectId] = frozenset(module for step in self.steps for module in step.modules)
        self.trained = self.stepped | {forward.module for forward in self.learning if forward.module is not None}

    def _is_used(self, forward: Run) -> bool:
        """Whether a backward pass belongs to this run of the code: one function may be called to train and, from
        another place, to evaluate (``run_epoch(…, mode="eval")``)."""
        return any(
            forward.root in event.roots and (event.function != forward.function or event.calls == forward.calls)
            for event in self.backwards
        )

    def _may_learn(self, forward: Run) -> bool:
        if (forward.grad, forward.has_graph) != ("yes", "yes") or not forward.loops or forward.is_dry:
            return False
        nest = [loop.key for loop in forward.loops]
        beside = [
            event
            for event in (*self.backwards, *self.steps)
            if [loop.key for loop in event.loops] == nest
            and event.order > forward.order
            and not exclude(event, forward)
        ]
        lost = [event for event in beside if isinstance(event, Backward)]
        moved = (event for event in beside if isinstance(event, Step) and forward.module in event.modules)
        return bool(lost) and all(not event.roots for event in lost) and any(moved)

    def at(self, event: Event) -> int:
        """The place of an event in the program's order."""
        return self.place[id(event)]

    def trains_between(self, start: int, end: int) -> bool:
        """Whether a backward pass lies between two places."""
        index = bisect.bisect_left(self._backward_at, start)
        return index < len(self._backward_at) and self._backward_at[index] < end

    def switch(self, forward: Run, is_eval: bool) -> Mode | None:
        """The switch that gave a module the mode it has, or may have, in a forward pass: of those at that place, the
        one that shares most loops with it."""
        for case in forward.modes:
            if isinstance(case, Const) and case.value is is_eval and case.trace is not None:
                found = [event for event in self.by_site.get(case.trace.site, ()) if forward.module in event.modules]
                return max(found, key=lambda event: len(shared(event, forward)), default=None)
        return None

    def handed_over(self, module: ObjectId, start: int, end: int) -> Iterator[Escape]:
        """Calls of code we cannot see that get a module, between two places."""
        for event in self.program.events[max(start, 0) : end]:
            if isinstance(event, Escape) and event.how == "call" and module in event.objects:
                yield event

    def backward_within(self, loops: tuple[Loop, ...]) -> bool:
        """Whether these loops train."""
        return any(_is_inside(event, loops) for event in self.backwards)


def _is_of_input(program: Program, event: Backward) -> bool:
    """``torch.autograd.grad(loss, [x])``: the gradient of an input, which is searched for (an adversarial example), or
    looked at; no parameter gets one."""
    node = words(program).node(event.site)
    if not isinstance(node, ir.Call) or last_name(node.callee) != "grad":
        return False
    asked = [
        arg.value for place, arg in enumerate(node.args) if arg.keyword == "inputs" or (place == 1 and not arg.star)
    ]
    return bool(asked) and not any(_OF_WEIGHTS.search(spelled(each)) for each in asked)


def _is_inside(event: Event, loops: tuple[Loop, ...]) -> bool:
    return tuple(loop.key for loop in event.loops[: len(loops)]) == tuple(loop.key for loop in loops)


def over_batches(forward: Run) -> tuple[Loop, ...]:
    """The loops around a forward up to the one over batches: over data, or counted ones that cut a batch."""
    for kinds in ({"data", "framework"}, {"range", "while"} if forward.on_batch else set()):
        found = [index for index, loop in enumerate(forward.loops) if loop.kind in kinds]
        if found:
            return forward.loops[: found[-1] + 1]
    return ()


def shared(one: Event, other: Event) -> tuple[Loop, ...]:
    """The loops around both of two events."""
    nest: list[Loop] = []
    for mine, theirs in zip(one.loops, other.loops, strict=False):
        if mine.key != theirs.key:
            break
        nest.append(mine)
    return tuple(nest)


def reported_at(forward: Run, loops: tuple[Loop, ...]) -> Site:
    """Where a reader of the loop sees the forward pass: the call in the loop that leads to it."""
    inside = forward.calls[loops[-1].depth :]
    return inside[0] if inside and loops[-1].kind != "framework" else forward.site


def called_module(program: Program, forward: Run) -> str | None:
    """``model`` of the calls ``model(x)`` and ``model.forward(x)``, where it is a plain chain of names."""
    callee = program.sources.callee(forward.site)
    name = callee[1].removesuffix(f".{forward.method or 'forward'}") if callee is not None else ""
    return name if name and all(part.isidentifier() for part in name.split(".")) else None


def before_loop(program: Program, forward: Run, loops: Iterable[Loop], method: str) -> DraftFix | None:
    """A switch of the mode right before the loop over the batches, where loop and call stand in one function."""
    loop = next(reversed(list(loops)), None)
    name = called_module(program, forward)
    if loop is None or name is None or loop.site.path != forward.site.path or loop.depth != len(forward.calls):
        return None
    if not isinstance(program.sources.node(loop.site), (cst.For, cst.While)):
        return None
    edit = InsertStatement("before", loop.site.at, f"{name}.{method}()")
    return DraftFix(f"Call `{method}()` before the loop", "unsafe", (edit,))


def chain(*traces: Trace | None) -> list[Trace]:
    """Those that are there."""
    return [trace for trace in traces if trace is not None]


@dataclass(frozen=True, slots=True)
class Asleep:
    """A forward pass that is trained, of a module in evaluation mode. `switch` put it there, or else it came so.
    `is_later`: the switch happened after training began, or in a loop around it; `nest`: the loops around both."""

    forward: Run
    step: Step
    switch: Mode | None
    why: Trace
    nest: tuple[Loop, ...]
    is_later: bool
    gaps: tuple[Gap, ...]


def sleeping(timeline: Timeline) -> Iterator[Asleep]:
    """The trained forward passes of modules in evaluation mode: the first of each module and switch."""
    seen: set[object] = set()
    for forward in (*timeline.learning, *timeline.assumed):
        if (
            forward.depends == "no"
            or forward.is_frozen == "yes"
            or any(loop.kind == "framework" for loop in forward.loops)
        ):
            continue
        step = _step_for(timeline, forward)
        if step is not None and _is_measured(timeline, forward, step):
            continue
        found = (
            _asleep(timeline, forward, step)
            if step is not None and not _is_for_other(timeline, forward, step)
            else None
        )
        key = (forward.module, found.why.site) if found is not None else None
        if found is not None and key not in seen and not _is_namesake(timeline, found):
            seen.add(key)
            yield found


def _is_namesake(timeline: Timeline, found: Asleep) -> bool:
    """Whether a function wakes one name and puts another one to sleep, and the pass is that of the first: what looks
    like one network is two, which one function has made (``student.train()``, ``teacher.eval()``, ``student(x)``)."""
    switch, forward, sources = found.switch, found.forward, timeline.program.sources
    if switch is None or switch.function != forward.function or switch.module != forward.module:
        return False
    name, asleep = called_module(timeline.program, forward), sources.called_on(switch.site)
    return name != asleep and any(
        event.is_eval == "no"
        and event.module == switch.module
        and (event.function, event.calls) == (switch.function, switch.calls)
        and sources.called_on(event.site) == name
        for event in timeline.modes
    )


def is_known_to_drop(program: Program, site: Site) -> bool:
    """Whether the words of a place where a pretrained model is loaded name a family that is published with dropout."""
    return bool(pattern("family with dropout").search(words(program).of(site)))


def drops_nothing(program: Program, paths: Iterable[str]) -> bool:
    """Whether one of these files sets the rates of all dropout to zero: ``for module in model.modules(): module.p =
    0``."""
    loops = (loop for path in set(paths) for loop in of_type(program.unit(path), ir.For))
    return any(
        isinstance(loop.iter, ir.Call)
        and last_name(loop.iter.callee) in {"modules", "named_modules"}
        and any(_is_rate_of_zero(node, set(target_names(loop.target))) for node in walk(loop.body, False))
        for loop in loops
    )


def _is_rate_of_zero(node: object, names: set[str]) -> bool:
    is_zero = isinstance(node, ir.Assign) and isinstance(node.value, ir.Constant) and node.value.value == 0
    return (
        is_zero
        and isinstance(node, ir.Assign)
        and any(
            isinstance(target, ir.Attribute)
            and target.attr == "p"
            and isinstance(target.value, ir.Name)
            and target.value.id in names
            for target in node.targets
        )
    )


def _step_for(timeline: Timeline, forward: Run) -> Step | None:
    """The step that updates the module of a forward pass, in a loop around both; else one of an optimizer over
    parameters that were not seen."""
    near = [step for step in timeline.steps if shared(step, forward)]
    mine = [step for step in near if forward.module in step.modules]
    if not mine and forward.module is not None:  # of a part alone, which minds the mode
        minding = set(timeline.program.minding.get(forward.module, ()))
        mine = [step for step in near if step.modules & minding]
    unseen = [step for step in near if not step.modules and not _is_elsewhere(timeline, step)]
    if not mine and _are_of_others(timeline, forward, unseen):
        return None
    return next(iter(mine or unseen), None)


def _are_of_others(timeline: Timeline, forward: Run, unseen: list[Step]) -> bool:
    """Whether as many networks that are awake are trained beside one as there are optimizers over what was not seen: it
    is the teacher, and they are the students."""
    known = {module for step in timeline.steps for module in step.modules}
    deepest = max((len(shared(step, forward)) for step in unseen), default=0)
    unseen = [step for step in unseen if len(shared(step, forward)) == deepest]
    optimizers = {step.optimizer if step.optimizer is not None else step.site for step in unseen}
    awake = {
        other.module
        for other in timeline.learning
        if other.is_eval != "yes" and other.module not in known and other.module != forward.module
        if any(shared(other, step) == step.loops for step in unseen)
        if timeline.program.has_parameters(other)
    }
    return 0 < len(optimizers) <= len(awake - {None})


def _is_measured(timeline: Timeline, forward: Run, step: Step) -> bool:
    """Whether the gradients of a pass are read in a loop that steps nothing (Fisher information, saliency), or in a
    function that resets them itself: the step of another one does not apply them."""
    program, is_apart = timeline.program, len(shared(step, forward)) < len(forward.loops)
    if is_apart and any(True for _ in program.within(GradientRead, forward.loops)):
        return True
    here = (forward.function, forward.calls)
    read, reset, stepped = (
        any((event.function, event.calls) == here and timeline.at(event) > timeline.at(forward) for event in found)
        for found in (program.of(GradientRead), program.of(Clear), timeline.steps)
    )
    return read and reset and not stepped


def _is_for_other(timeline: Timeline, forward: Run, step: Step) -> bool:
    """Whether the module runs once more in training mode before it is updated: the pass in evaluation mode trains
    another one (the adversary of a generator), and `train()` comes back in time."""
    start, end = timeline.at(forward), timeline.at(step)
    return any(
        other.module == forward.module and other.is_eval == "no" and start < timeline.at(other) < end
        for other in timeline.learning
    )


def _is_elsewhere(timeline: Timeline, step: Step) -> bool:
    """Whether an optimizer is known to update tensors of no module."""
    return step.optimizer is not None and timeline.program.objects[step.optimizer].born == "tensors"


def _asleep(timeline: Timeline, forward: Run, step: Step) -> Asleep | None:
    is_open = "maybe" in (forward.depends, forward.is_frozen)  # frozen by an option, as a whole or in part
    is_assumed = forward in timeline.assumed
    gaps = [Gap.CONVENTION] if is_open or is_assumed or not step.modules else []
    switch = timeline.switch(forward, is_eval=True)
    if switch is None:
        born = [module for module in forward.asleep if module in step.modules]
        if not born or forward.mode is not None:
            born = _woken_later(timeline, forward, step)
            gaps.append(Gap.CONVENTION)  # the first round only
        if not born:
            return None
        return Asleep(forward, step, None, timeline.program.objects[born[0]].trace, (), False, tuple(gaps))
    nest = shared(switch, forward)
    place = timeline.at(switch)
    is_later = bool(nest) or any(
        timeline.at(other) < place for other in timeline.steps if forward.module in other.modules or not other.modules
    )
    if _may_wake(timeline, switch, forward):
        gaps.append(Gap.UNSEEN)
    if _is_choice(timeline, switch, forward):
        gaps.append(Gap.UNSEEN)
    return Asleep(forward, step, switch, switch.trace, nest, is_later, tuple(gaps))


def _woken_later(timeline: Timeline, forward: Run, step: Step) -> list[ObjectId]:
    """What comes in evaluation mode and is first switched behind the pass, by the code that evaluates in between: until
    then it trains asleep."""
    objects, place = timeline.program.objects, timeline.at(forward)
    born = [each for each in sorted(forward.parts & step.modules) if objects[each].born == "eval"]
    switches = [event for event in timeline.modes if event.modules & set(born) or event.module is None]
    is_behind = all(timeline.at(event) > place and event.module is not None for event in switches)
    return born if switches and is_behind and any(event.is_eval == "no" for event in switches) else []


def _may_wake(timeline: Timeline, switch: Mode, forward: Run) -> bool:
    """Whether something unknown is set to train between the switch and the training."""
    start, end = timeline.at(switch), timeline.at(forward)
    for event in timeline.modes:
        place = timeline.at(event)
        between = start < place < end if start < end else place > start or place < end
        if event.module is None and event.is_eval == "no" and between:
            return True
    return False


def _is_choice(timeline: Timeline, switch: Mode, forward: Run) -> bool:
    """A bare ``if flag: model.eval()``, with no evaluation after it: a way to train, chosen by a flag."""
    extra = [guard for guard in switch.guards if guard not in forward.guards]
    if any(isinstance(words(timeline.program).node(guard.site), ir.Call) for guard in extra):
        return True  # one of several functions that are called by a name
    if not extra or switch.function != forward.function or any(guard.is_periodic for guard in extra):
        return False
    place = timeline.at(switch)
    return not any(
        other.module == forward.module
        and timeline.at(other) > place
        and other not in timeline.learning
        and all(guard in other.guards for guard in extra)
        for other in timeline.forwards
    )
