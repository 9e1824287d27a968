"""What may set the mode of an evaluation without being seen, and so how sure PF207 is."""

from __future__ import annotations

import re

from analyzer.engine.data_events import Restored
from analyzer.engine.events import Forward, Mode
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site
from analyzer.engine.values import ObjectId
from analyzer.engine.words import words
from analyzer.rules.modes import Timeline
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, walk

EVAL_WORDS = re.compile(rb"\.eval\(|\.train\(\s*(?:mode\s*=\s*)?False")


def gaps_of(timeline: Timeline, forward: Forward) -> list[Gap] | None:
    """What the text does not show; None where evaluation mode is what the module came in."""
    program, module = timeline.program, forward.module
    assert module is not None
    born = program.objects[module].born
    gaps = [Gap.CONVENTION] if forward.depends == "maybe" or forward.grad != "no" else []
    switch = timeline.switch(forward, is_eval=False)
    is_open = has_own_switch(program, module) or (switch is None and _is_set_beside(program, forward))
    gaps += [Gap.UNSEEN] if is_open else []
    here = timeline.at(forward)
    if switch is not None:
        gaps += [Gap.UNSEEN] if _is_meant(timeline, switch, forward) else []
    elif born == "eval":
        if not is_woken_elsewhere(timeline, forward):
            return None
        gaps.append(_of_caller(timeline, forward))
    elif born in {"argument", "called"} or (forward.calls and forward.calls[0] in program.own_entries):
        gaps.append(_of_caller(timeline, forward))
    elif module not in timeline.trained:
        is_told = born != "unseen" or _is_only_asked(timeline, module) or _is_made_alike(timeline, module)
        gaps.append(Gap.CONVENTION if is_told else Gap.UNSEEN)
    since = timeline.at(switch) if switch is not None and timeline.at(switch) < here else 0
    if any(_is_beside(event, forward) and event.is_eval == "yes" for event in timeline.modes if event.module is None):
        gaps.append(Gap.UNSEEN)
    if any(
        event.function == forward.function and not timeline.backward_within(event.loops[-1:])
        for event in timeline.handed_over(module, since, here)
        if not event.loops
    ):
        gaps.append(Gap.UNSEEN)
    return gaps


def is_woken_elsewhere(timeline: Timeline, forward: Forward) -> bool:
    """Whether a model that came in evaluation mode is put into training mode by another method of its object, which
    trains it, and nothing that was read puts anything into evaluation mode: after the training it is evaluated so."""
    woken = [event for event in timeline.modes if event.module == forward.module]
    around = {each.function for each in timeline.backwards}
    return (
        bool(forward.calls)
        and all(event.is_eval == "no" for event in timeline.modes)
        and any(each.function in around and each.calls[:1] != forward.calls[:1] for each in woken)
    )


def _is_only_asked(timeline: Timeline, module: ObjectId) -> bool:
    """Whether a program that sets no mode and trains nothing restores a network."""
    restored = any(event.into in (None, module) for event in timeline.program.of(Restored))
    return restored and not timeline.modes and not timeline.steps and not timeline.backwards


def _is_made_alike(timeline: Timeline, module: ObjectId) -> bool:
    """Whether a network that is put into training mode comes out of the same call of code that was not read: this one,
    which nothing has switched, is another of these or that one itself (``model = self.config.build_model()``)."""
    woken = {event.module for event in timeline.modes if event.is_eval == "no" and event.module is not None}
    mine = _made_of(timeline.program, module)
    return bool(mine) and any(_made_of(timeline.program, other) == mine for other in woken - {module})


def _made_of(program: Program, module: ObjectId) -> str:
    """The call that a network comes out of, of code that was not read."""
    obj = program.objects[module]
    text = program.sources.text(obj.trace.site) if obj.born == "unseen" else ""
    return text if text.endswith(")") else ""


def _is_set_beside(program: Program, forward: Forward) -> bool:
    """Whether a method that was read without its callers runs a network that another method of its class puts into
    evaluation mode: the callers may call that one first (``agent.prepare()``, then ``agent.step()``). One that runs the
    network as well does so for itself."""
    entry = forward.calls[0] if forward.calls and forward.calls[0] in program.entries else None
    unit, call = program.unit(entry.path) if entry is not None else None, words(program).node(forward.site)
    name = last_name(call.callee) if isinstance(call, ir.Call) else ""
    if entry is None or not name or not isinstance(call, ir.Call):
        return False
    classes = [node for node in (unit.body if unit is not None else ()) if isinstance(node, ir.ClassDef)]
    cls = next((each for each in classes if any(getattr(part, "at", None) == entry.at for part in each.body)), None)
    others = [each for each in (cls.body if cls is not None else ()) if isinstance(each, ir.FunctionDef)]
    return any(
        isinstance(node, ir.Call)
        and isinstance(node.callee, ir.Attribute)
        and node.callee.attr == "eval"
        and last_name(node.callee.value) == name
        for other in others
        if other.at != entry.at and "()" not in other.uses.get(dotted(call.callee) or "", ())
        for node in walk(other.body, into_functions=True)
    )


def has_own_switch(program: Program, module: ObjectId) -> bool:
    """Whether a class says itself what ``eval()`` does, for each of its parts."""
    cls = program.objects[module].cls
    body = cls.node.body if cls is not None else ()
    return any(isinstance(node, ir.FunctionDef) and node.name == "eval" for node in body)


def _is_meant(timeline: Timeline, switch: Mode, forward: Forward) -> bool:
    """``train()`` right before the evaluation, in its own function or one that calls it: losses that a detector
    computes in training mode only, dropout wanted (Monte Carlo), statistics of batch norm taken anew."""
    start, end = timeline.at(switch), timeline.at(forward)
    around = {forward.function, *(_function_at(timeline.program, call) for call in forward.calls)}
    is_once = switch.function == forward.function or switch.loops == forward.loops[: len(switch.loops)]
    if switch.function not in around or not is_once or start > end or timeline.trains_between(start, end):
        return False
    assert forward.module is not None
    return not any(timeline.handed_over(forward.module, start, end))


def _function_at(program: Program, call: Site) -> Site | None:
    """The function whose text a call stands in."""
    function = program.function_around(call)
    return Site(call.path, function.at) if function is not None else None


def _is_beside(event: Mode, forward: Forward) -> bool:
    """Whether something unknown is switched where the evaluation is: in its function, or on the way to it."""
    return event.function == forward.function or event.calls == forward.calls[: len(event.calls)]


def _of_caller(timeline: Timeline, forward: Forward) -> Gap:
    """The model comes from a caller that was not seen. By convention a function that evaluates sets the mode itself,
    where the same file shows that modes are minded or that the model is trained; of a module that runs itself, where
    the module does so."""
    program = timeline.program
    path = forward.site.path
    is_open = program.runs_under_unseen_base(forward) and not _evaluates_itself(timeline, forward)
    if program.names_entry(forward, EVAL_WORDS) or is_open:
        return Gap.UNSEEN
    own = program.own_entries if forward.calls and forward.calls[0] in program.own_entries else None
    is_minded = any(
        event.site.path == path and (own is None or (event.calls and event.calls[0] in own))
        for event in (*timeline.modes, *timeline.steps)
    )
    return Gap.CONVENTION if is_minded else Gap.UNSEEN


def _evaluates_itself(timeline: Timeline, forward: Forward) -> bool:
    """Whether another method of a class whose base was not read calls `eval()`: the base leaves that to it."""
    entries = timeline.program.open_entries
    return any(
        event.is_eval == "yes"
        and event.site.path == forward.site.path
        and event.calls[:1] != forward.calls[:1]
        and event.calls[:1]
        and event.calls[0] in entries
        for event in timeline.modes
    )


def is_test(program: Program, forward: Forward) -> bool:
    """Whether a test that pytest would collect runs it: what it asserts is its own business."""
    name = program.entries.get(forward.calls[0], "") if forward.calls else ""
    return name.startswith("test_") and forward.calls[0].path.rpartition("/")[2].startswith("test_")
