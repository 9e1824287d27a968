"""PF216 frozen-module-in-train-mode."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.data_events import Restored
from analyzer.engine.events import Backward, Forward, Mode, Step
from analyzer.engine.frozen import FrozenInTrain, HeldByNobody, LeftInTrain
from analyzer.engine.optim_events import OptimizerMade
from analyzer.engine.program import Program, nest_key
from analyzer.engine.trace import Gap, Site, Trace
from analyzer.engine.values import Const, External, ObjectId, truth
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, target_names, walk

_MEASURES = re.compile("loss|criteri|metric|perceptual|extract", re.IGNORECASE)
"""Names of modules that measure, which nobody trains. They only hush."""


class FrozenModuleInTrainMode(Rule):
    """A frozen part of a model is put back into train mode.

    ## Why it matters
    `requires_grad = False` stops the optimizer, not batch norm: in train mode its running statistics go on following
    the new data, and dropout goes on dropping out. The part that was meant to stay as it is changes with every batch,
    and in evaluation it is a network that nobody has trained.

    ## Example
    ```python
    for p in self.backbone.parameters():
        p.requires_grad = False
    ...
    model.train()
    for x, y in loader:
        loss = criterion(model(x), y)
    ```

    ## Use instead
    ```python
    model.train()
    model.backbone.eval()
    ```
    or override `train()` of the model so that the frozen part stays in evaluation mode. Where all of a model is frozen
    but a new last layer, this is a note: a well-known recipe, whose statistics adapt to the new data. So it is where
    no batch norm is seen: dropout in the frozen layers of a language model is an author's choice, and leaves no trace.
    And so it is in a file of networks that trains nothing, for a pretrained part that the class freezes and `train()`
    will reach.

    ## When it stays quiet
    For parts without batch norm or dropout (noisy layers of one's own draw by design), and those whose layers are not
    known; where anything puts the part, or layers that are not known, into evaluation mode; for frozen copies of what
    is trained that run in train mode by themselves (a mean teacher); where freezing depends on an option; where
    gradients are asked for it again, by the code that follows or by another method of the class (networks that train
    against each other in turn, layers that are thawed after some epochs).

    ## Fix safety
    No automatic fix: where the mode is best held, in the loop or in the model, is the author's choice.
    """

    code = "PF216"
    name = "frozen-module-in-train-mode"
    severity = Severity.WARNING
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A training forward through a frozen part whose mode was set by a `train()` of what holds it."""
        _check_left(program, report)
        _check_asked(program, report)
        _check_kept(program, report)
        passes = list(program.of(FrozenInTrain))
        if not passes:
            return
        switches = list(program.of(Mode))
        trained = {nest_key(event.loops) for kind in (Backward, Step) for event in program.of(kind)}
        optimized = frozenset(part for made in program.of(OptimizerMade) for part in made.parts)
        seen: set[tuple[ObjectId, Site]] = set()
        told: set[tuple[Site, Site]] = set()
        for event in passes:
            switch = next((each for each in switches if each.trace == event.switch), None)
            if switch is None and any(loop.trace is event.switch for loop in event.loops):
                _report_owned(program, report, event, switches)
            if switch is None or (event.module, event.switch.site) in seen or nest_key(event.loops) not in trained:
                continue
            is_whole = switch.module == event.module
            if (is_whole and not optimized & event.parts) or _is_held(program, switches, event):
                continue
            if _takes_turns(program, event.freeze.site) or _is_thawed(program, event):
                continue
            if _draws_by_design(program, event):
                continue
            is_average = _keeps_average(program, event) and not _came_with_weights(program, event.module)
            if event.parts & program.followers or is_average:
                continue  # an average of what is trained: its batch norm is meant to see the batches
            seen.add((event.module, event.switch.site))
            function = program.function_around(event.freeze.site)
            together = (event.switch.site, Site(event.freeze.site.path, function.at if function is not None else 0))
            if together in told:
                continue  # parts that one body freezes one by one are one finding, at the first of them
            told.add(together)
            because: list[Trace] = [event.freeze, program.objects[event.module].trace, event.switch, event.trace]
            report(
                event.freeze.site,
                f"`{program.sources.text(event.switch.site)}` puts what is frozen here into train mode: its batch norm "
                "{will go on} updating its statistics, its dropout dropping out. Call `eval()` on the frozen part "
                "after each `train()`.",
                because=because,
                gaps=[Gap.CONVENTION],
                severity=Severity.NOTE
                if is_whole or not _keeps_statistics(program, event) or _is_norm(program, event)
                else Severity.WARNING,
            )


def _is_norm(program: Program, event: FrozenInTrain) -> bool:
    """Whether a batch norm is frozen by itself, among layers that are trained: its statistics may be meant to go on."""
    return "BatchNorm" in program.objects[event.module].name


def _draws_by_design(program: Program, event: FrozenInTrain) -> bool:
    """Whether all that minds the mode in a part are classes of the tree that ask for it: noisy layers of an agent's
    target network draw because training says so."""
    names = {program.objects[part].name for part in event.parts} - {"", None}
    rows = [program.knowledge.row(name) for name in names]
    return all(row is not None and not row.modes and row.parts != "dependent" for row in rows)


def _keeps_statistics(program: Program, event: FrozenInTrain | LeftInTrain | HeldByNobody) -> bool:
    """Whether a part is known to have batch norm, whose statistics are a state that train mode changes. Dropout alone
    leaves nothing behind: evaluation finds what was frozen as it was."""
    names = {program.objects[part].name for part in event.parts}
    rows = [row for name in names if name and (row := program.knowledge.row(name)) is not None]
    return any("BatchNorm" in name for name in names) or any(row.parts == "dependent" for row in rows)


def _takes_turns(program: Program, freeze: Site) -> bool:
    """Whether what is frozen is frozen anew in every step, by the loop that trains: networks that train against each
    other take turns, all of them in train mode."""
    function, unit = program.function_around(freeze), program.unit(freeze.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    asked = list(_asked(body))
    mine = {of for of, numbers, _ in asked if freeze.at in numbers}
    if any(of in mine and is_trained for of, _, is_trained in asked):
        return True  # the same function thaws what it freezes
    for loop in (node for node in walk(body, into_functions=False) if isinstance(node, (ir.For, ir.While))):
        inside = tuple(walk(loop.body, into_functions=False))
        calls = {
            part.callee.attr for part in inside if isinstance(part, ir.Call) and isinstance(part.callee, ir.Attribute)
        }
        if "backward" in calls and any(getattr(part, "at", None) == freeze.at for part in inside):
            return True
    return False


def _is_thawed(program: Program, event: FrozenInTrain) -> bool:
    """Whether what is frozen is trained again: gradients are asked for it afterwards, or by another method of the class
    that freezes it (``train_generator`` and ``train_discriminator``), whose order the callers know."""
    for site, was_frozen in program.thawed.get(event.module, ()):
        if was_frozen or _are_methods_of_one(program, site, event.freeze.site):
            return True
    return False


def _are_methods_of_one(program: Program, one: Site, other: Site) -> bool:
    """Whether two places stand in different methods of one class, of which none is the constructor."""
    mine, theirs = program.function_around(one), program.function_around(other)
    if mine is None or theirs is None or mine is theirs or "__init__" in {mine.name, theirs.name}:
        return False
    cls = program.class_around(Site(one.path, mine.at))
    return bool(cls) and one.path == other.path and cls == program.class_around(Site(other.path, theirs.at))


def _asked(body: ir.Block) -> Iterator[tuple[str, frozenset[int], bool]]:
    """Whose parameters a body asks for gradients, where, and whether it wants them: ``net.requires_grad_(False)``,
    ``for p in net.parameters(): p.requires_grad = False``."""
    for node in walk(body, into_functions=False):
        if isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute) and node.callee.attr == "requires_grad_":
            wanted = node.args[0].value if node.args else None
            is_trained = not (isinstance(wanted, ir.Constant) and not wanted.value)
            yield dotted(node.callee.value) or "", frozenset([node.at]), is_trained
        callee = node.iter.callee if isinstance(node, ir.For) and isinstance(node.iter, ir.Call) else None
        if isinstance(node, ir.For) and isinstance(callee, ir.Attribute) and callee.attr == "parameters":
            numbers = frozenset(getattr(part, "at", -1) for part in walk(node.body, into_functions=False))
            for flag in _flags(node.body):
                yield dotted(callee.value) or "", numbers, bool(flag.value)


def _flags(body: ir.Block) -> Iterator[ir.Constant]:
    """What ``p.requires_grad`` is set to."""
    for node in walk(body, into_functions=False):
        if isinstance(node, ir.Assign) and isinstance(node.value, ir.Constant):
            yield from (
                node.value for to in node.targets if isinstance(to, ir.Attribute) and to.attr == "requires_grad"
            )


def _check_left(program: Program, report: Report) -> None:
    """A network that is only asked (a teacher, the features of a loss) is frozen, and stays as it was made."""
    left = {event.module: event for event in program.of(LeftInTrain)}
    if not left:
        return
    switches = [event for event in program.of(Mode) if event.is_eval != "no"]
    trained = {nest_key(event.loops) for event in program.of(Step) if event.loops}
    optimized = frozenset(part for made in program.of(OptimizerMade) for part in made.parts)
    for event in left.values():
        is_switched = any(not switch.modules or switch.modules & event.parts for switch in switches)
        if is_switched or nest_key(event.loops) not in trained or event.parts & (optimized | program.followers):
            continue
        if program.escapes(event.module) is not None or _goes_one_by_one(program):
            continue
        if _keeps_average(program, event) and not _came_with_weights(program, event.module):
            continue
        report(
            event.freeze.site,
            "What is frozen here runs in train mode, as it was made: nothing puts it into evaluation mode, its batch "
            "norm {will go on} updating its statistics, its dropout dropping out. Call `eval()` on it.",
            because=[program.objects[event.module].trace, event.freeze, event.trace],
            gaps=[Gap.CONVENTION],
            severity=None if _keeps_statistics(program, event) else Severity.NOTE,
        )


def _check_asked(program: Program, report: Report) -> None:
    """A network whose weights were loaded is only asked, with gradients off, in the loop of the steps of another one,
    and no code puts it, or anything that is not known, into a mode."""
    restored = {event.into: event for event in program.of(Restored) if event.into is not None}
    steps = [event for event in program.of(Step) if event.loops]
    if not restored or not steps or any(event.module is None for event in program.of(Mode)):
        return
    switched = frozenset(part for event in program.of(Mode) for part in event.modules)
    moved = frozenset(part for event in steps for part in event.modules)
    optimized = moved | frozenset(part for made in program.of(OptimizerMade) for part in made.parts)
    inside = {nest_key(event.loops) for event in steps}
    passes = [event for event in program.of(Forward) if event.module in restored and event.module not in optimized]
    if not optimized or not switched:
        return  # what is trained, or who sets modes, does not show
    for event in passes:
        module = event.module
        if module is None or (event.grad, event.is_eval) != ("no", "no") or event.depends == "no" or event.modes:
            continue
        if nest_key(event.loops) not in inside or module in switched | program.followers or event.asleep:
            continue
        if program.objects[module].born in {"argument", "called", "eval"} or program.escapes(module) is not None:
            continue
        unit = program.unit(event.site.path)
        if unit is None or any(how & {"lerp_(…)", "mul_(…)", "copy_(…)"} for how in unit.uses.values()):
            continue  # it may follow what is trained
        if len([each for each in program.of(Restored) if each.into == module]) > 1:
            continue
        report(
            event.site,
            f"`{program.sources.text(event.site)}` asks a network whose weights were loaded, and which {{is}} still in "
            "train mode, as it was made: its dropout drops out, its batch norm goes on updating its statistics. Call "
            "`eval()` on it.",
            because=[program.objects[module].trace, restored[module].trace, event.trace],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,  # its layers were not read
        )


def _check_kept(program: Program, report: Report) -> None:
    """A network whose frozen part has batch norm, in a file that trains nothing: who trains it calls `train()`, and the
    class does not hold the part back."""
    if any(True for _ in program.of(Backward)) or any(True for _ in program.of(Step)):
        return
    seen: set[Site] = set()
    for event in program.of(HeldByNobody):
        cls = program.objects[event.owner].cls
        if cls is None or event.why.site in seen or not _came_with_weights(program, event.module):
            continue
        if not _keeps_statistics(program, event) or _MEASURES.search(cls.node.name) or _sleeps_later(cls.node):
            continue
        if any(True for _ in program.project.callers(cls.node.name, cls.path)):
            continue  # what they do was read with them
        seen.add(event.why.site)
        report(
            event.why.site,
            "What is frozen here {will run} in train mode as soon as `train()` of the whole is called"
            + (", whatever `eval()` in the constructor says" if event.is_asleep else "")
            + ": its batch norm goes on updating its statistics. Override `train()` so that this part stays in "
            "evaluation mode.",
            because=[program.objects[event.module].trace, event.why],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,  # who trains it was not read
        )


def _sleeps_later(cls: ir.ClassDef) -> bool:
    """Whether another method than the constructor puts anything into evaluation mode."""
    return any(
        isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute) and node.callee.attr == "eval"
        for method in cls.body
        if isinstance(method, ir.FunctionDef) and method.name != "__init__"
        for node in walk(method.body, True)
    )


def _came_with_weights(program: Program, module: ObjectId) -> bool:
    """``resnet50(weights="DEFAULT")``: no average of what is trained here."""
    given = dict(program.objects[module].arguments)
    value = given.get("weights", given.get("pretrained", given.get("0")))
    return value is not None and all(
        isinstance(case, (Const, External)) and truth(case) is not False for case in value.cases
    )


def _keeps_average(program: Program, event: FrozenInTrain | LeftInTrain) -> bool:
    """Whether the file writes parameters one by one: what is frozen may be a running average of what is trained, whose
    batch norm is meant to see the batches."""
    unit = program.unit(event.freeze.site.path)
    if unit is None or any(how & {"lerp_(…)", "mul_(…)", "copy_(…)"} for how in unit.uses.values()):
        return True
    return any(
        any(isinstance(to, ir.Attribute) and to.attr == "data" for to in node.targets)
        for node in of_type(unit, ir.Assign)
    )


def _report_owned(program: Program, report: Report, event: FrozenInTrain, switches: list[Mode]) -> None:
    """A framework trains what holds the frozen part, and no hook puts it into evaluation mode."""
    if _keeps_average(program, event):
        return
    if any(switch.is_eval != "no" and (not switch.modules or switch.modules & event.parts) for switch in switches):
        return
    report(
        event.freeze.site,
        "The framework trains this module in train mode, with what is frozen here: its batch norm {will go on} "
        "updating its statistics, its dropout dropping out. Call `eval()` on the frozen part when an epoch starts.",
        because=[event.freeze, program.objects[event.module].trace, event.switch, event.trace],
        gaps=[Gap.CONVENTION],
        severity=None if _keeps_statistics(program, event) else Severity.NOTE,
    )


def _is_held(program: Program, switches: list[Mode], event: FrozenInTrain) -> bool:
    """Whether some code puts parts of it, or something that is not known, into evaluation mode while it trains: batch
    norm layers one by one, in a loop or a function."""
    for switch in switches:
        if switch.is_eval == "no":
            continue
        if switch.module is None or (switch.modules & event.parts and event.module not in switch.modules):
            return True
    return _goes_one_by_one(program)


def _goes_one_by_one(program: Program) -> bool:
    """Whether code that was read puts what a loop goes over into evaluation mode, whatever that is."""
    for path in program.modules:
        unit = program.unit(path) if b".eval(" in (program.project.read(path) or b"") else None
        for loop in of_type(unit, ir.For):
            names = set(target_names(loop.target))
            for node in walk(loop.body, into_functions=False):
                callee = node.callee if isinstance(node, ir.Call) else None
                of = callee.value if isinstance(callee, ir.Attribute) and callee.attr == "eval" else None
                if isinstance(of, ir.Name) and of.id in names:
                    return True
    return False
