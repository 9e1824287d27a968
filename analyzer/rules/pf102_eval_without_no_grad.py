"""PF102 eval-without-no-grad."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from analyzer.engine.called import is_never_named
from analyzer.engine.data_events import Restored
from analyzer.engine.device_events import GraphLeft
from analyzer.engine.events import Backward, Escape, Forward, Loop, MethodRun, Run, Step, Store
from analyzer.engine.graphs import roots_of
from analyzer.engine.program import Program, nest_key
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.values import ObjectId
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.fixes.no_grad import without_gradients
from analyzer.knowledge.words import pattern
from analyzer.rules.base import Report, Rule
from analyzer.rules.differentiating import differentiates, may_differentiate
from analyzer.rules.entered import (
    LOSS_DATA,
    is_assumed,
    is_entered_under,
    is_given_volatile,
    is_tree_for_old_torch,
    is_volatile,
)
from analyzer.rules.few_passes import (
    breaks_off,
    is_detached,
    is_handful,
    is_looked_at,
    is_made_anew,
    is_on_call,
    is_one_layer,
)
from analyzer.syntax import ir
from analyzer.syntax.scope import assigned_names, dotted, target_names, walk

_VOLATILE = re.compile(rb"\bvolatile\s*=")
_STEPS_BACK = 3
_CUTS = frozenset({"item", "data", "detach", "numpy", "tolist"})
"""What leaves a graph behind."""


class EvalWithoutNoGrad(Rule):
    """A forward pass in evaluation builds a graph that nobody uses.

    ## Why it matters
    Evaluation mode (``model.eval()``) does not turn gradients off. Every forward pass saves its intermediate tensors,
    so validation needs the memory of training, often with a larger batch.

    ## Example
    ```python
    model.eval()
    for x, y in val_loader:
        correct += (model(x).argmax(1) == y).sum()
    ```

    ## Use instead
    ```python
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            correct += (model(x).argmax(1) == y).sum()
    ```

    It is found without ``eval()`` too, where a program that trains elsewhere only reads numbers off the outputs of a
    loop over data, and, as a note, of a single pass in a function of its own (an agent that acts, a full graph).

    ## When it stays quiet
    Under ``no_grad`` or ``inference_mode`` in any form (decorator, context, bare statement, of the project's own, in
    the caller; also in a context or decorator that was not read and is called like one that switches gradients), when
    the parameters are frozen or were made integers (quantized), of networks of other libraries that come frozen, when
    random numbers go through (a shape, a timing), of a layer that is made for each batch again (a filter), and when a
    backward pass uses the graph or may use it: adversarial examples, saliency, fine-tuning with frozen statistics,
    losses that are returned or handed to code that was not read. One pass in no loop (a prediction for one input) is a
    note: its graph lives as long as its result. So is a loop in a function that nothing in a tree of several files
    names, one in which an agent acts (``state, reward, done, _ = env.step(action)``), one that detaches the output
    where it is made, one that counts to a handful of samples or leaves off after a handful of batches, one over the
    items of one batch or of a list that is no data, one that asks somebody for its input or shows it frame by frame (a
    figure that waits until it is closed, too), one of a single linear layer in a larger tree (a probe on features), one
    in a notebook, whose cells are run by hand and looked at, and one of a model that a configuration names, where a
    network of the tree computes gradients itself or turns them off, and one of a network that code
    which was not read gets before and says to freeze (``freeze(model)``).

    ## Fix safety
    ``@torch.no_grad()`` above the function that evaluates, where nothing in it trains and the file imports torch. It is
    unsafe: a caller that wants the gradient of what the function returns gets none.
    """

    code = "PF102"
    name = "eval-without-no-grad"
    alias = "TG002"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A forward in evaluation with gradients on, whose graph no backward pass can use: one of each loop or
        function, with what else runs in it."""
        together: list[list[_Case]] = []
        for case in sorted(_cases(program), key=lambda case: len(case.nest)):
            home = next((cases for cases in together if _is_inside(program, case, cases[0])), None)
            if home is None:
                together.append([case])
            else:
                home.append(case)
        for first, *others in together:
            forward, at = first.forward, _shown(first.forward, first.nest)
            more = dict.fromkeys(program.sources.text(other.forward.site) for other in others)
            report(
                at,
                _message(program.sources.text(at), forward.is_eval == "yes", [text for text in more if text])
                + _remark(program, at),
                because=first.evidence.because,
                gaps=first.evidence.gaps,
                severity=Severity.NOTE if _is_weak(program, first, at) else None,
                fix=without_gradients(program, first.place) if at.path == first.place.path else None,
            )


class _Evidence(NamedTuple):
    because: list[Trace]
    gaps: list[Gap]


class _Case(NamedTuple):
    forward: Forward
    nest: tuple[Loop, ...]
    evidence: _Evidence

    @property
    def place(self) -> Site:
        """The loop over the batches, or the forward itself."""
        return self.nest[-1].site if self.nest else self.forward.site


def _cases(program: Program) -> Iterator[_Case]:
    """The passes that build a graph for nothing: the first of each loop."""
    used = frozenset(root for event in program.of(Backward) for root in event.roots)
    trained = program.nests_with(program.of(Backward))
    blind = any(not event.is_known for event in program.of(Backward))
    updated = frozenset(module for step in program.of(Step) for module in step.modules)
    generators = {forward.module for forward in program.of(Forward) if forward.is_dry and forward.root in used}
    # what another method does, and whether it turns gradients off itself, was not seen
    methods = {_method(run) for run in program.of(MethodRun) if run.root in used}
    seen: set[Site] = set()
    for forward in (each for each in program.of(Forward) if not is_assumed(each) or _method(each) in methods):
        if (forward.grad, forward.has_graph) != ("yes", "yes") or forward.root in used:
            continue
        if forward.is_dry and forward.module not in generators:
            continue
        if forward.is_frozen == "yes" and not forward.inputs:
            continue
        nest = _over_batches(program, forward)
        if is_made_anew(program, forward, nest):
            continue
        if nest and nest_key(nest) in trained:
            if forward.module not in updated:
                continue
            nest = ()  # it runs between the training steps: a single pass
        place = nest[-1].site if nest else forward.site
        if place in seen:
            continue
        evidence = _evidence(program, forward, nest)
        if evidence is None or (not nest and blind):
            continue
        seen.add(place)
        yield _Case(forward, nest, evidence)


def _method(run: Run) -> tuple[ObjectId | None, str]:
    return run.module, run.method


def _outer_call(program: Program, forward: Forward) -> Site | None:
    """The call of a method of a module that a pass is a part of: ``model.inference(text)``."""
    calls = forward.calls[1:] if forward.calls and forward.calls[0] in program.entries else forward.calls
    return calls[0] if calls and not forward.loops else None


def _is_inside(program: Program, case: _Case, other: _Case) -> bool:
    """Whether what turns gradients off for one pass does so for the other: it runs in the same loop, or, without any,
    in the same run of a function."""
    mine, theirs = case.forward, other.forward
    if not other.nest and (inference := _outer_call(program, theirs)) is not None:
        return _outer_call(program, mine) == inference
    if other.nest:
        return nest_key(case.nest[: len(other.nest)]) == nest_key(other.nest)
    return (
        not case.nest and mine.function is not None and (mine.function, mine.calls) == (theirs.function, theirs.calls)
    )


def _is_for_show(case: _Case) -> bool:
    """Whether one input is run, in no loop that was seen: the graph lives as long as its result, and no other is built
    meanwhile."""
    return not case.nest


def _is_weak(program: Program, case: _Case, at: Site) -> bool:
    """Whether what is shown may be meant, or never run: see *When it stays quiet*."""
    is_called = bool(case.nest) and case.nest[-1].kind == "framework"
    is_dead = not is_called and is_never_named(program, case.forward.calls)
    return (
        is_dead
        or _is_for_show(case)
        or _is_given_to_freeze(program, case.forward)
        or is_assumed(case.forward)
        or _acts(program, case)
        or is_detached(program, case.forward, case.nest)
        or is_handful(program, case.nest)
        or breaks_off(program, case.nest)
        or is_on_call(program, case.forward, case.nest)
        or is_one_layer(program, case.forward, case.nest)
        or _is_old(program, at, case)
        or is_looked_at(at, case.nest)
        or may_differentiate(program, case.forward)
    )


def _is_given_to_freeze(program: Program, forward: Forward) -> bool:
    """Whether code that was not read has made the network, or got it before, and is called like what freezes:
    ``freeze_module(net)``, ``build(path, frozen=True)``."""
    made = program.made_by.get(forward.module) if forward.module is not None else None
    if made is not None and pattern("freezes").search(program.sources.text(made)):
        return True
    for event in program.of(Escape):
        if event.how == "call" and forward.module in event.objects and event.order < forward.order:
            callee = program.sources.callee(event.site)
            if callee is not None and pattern("freezes").search(callee[1].rpartition(".")[2]):
                return True
    return False


def _acts(program: Program, case: _Case) -> bool:
    """Whether an agent acts in the loop, one state at a time (``state, reward, done, _ = env.step(action)``): each
    graph is gone with the step, unless something holds it, and small beside the world that answers."""
    held = (value for event in program.within(Store, case.nest) if event.is_carried for value in event.value.cases)
    if case.nest[-1].kind not in {"range", "while"} or any(case.forward.root in roots_of(value) for value in held):
        return False
    site = case.nest[-1].site
    loop, unit = words(program).node(site), program.unit(site.path)
    parts = walk((loop,), into_functions=False) if loop is not None and unit is not None else ()
    return any(isinstance(part, ir.Assign) and part.value is not None and _is_answer(part.value) for part in parts)


def _is_answer(value: ir.Expr) -> bool:
    """What a world answers to an action: an optimizer's step is given no action, and its result is not kept."""
    calls = (part for part in walk((value,), into_functions=False) if isinstance(part, ir.Call) and part.args)
    return any(isinstance(call.callee, ir.Attribute) and call.callee.attr == "step" for call in calls)


def _is_cut(program: Program, forward: Forward) -> bool:
    """Whether a function that hands something back was too large to be followed to its end, and what it hands back may
    be what a pass in it gave, by the names: not where it was made numbers of on the way."""
    function = program.function_around(forward.site)
    if function is None or function.name not in program.too_large:
        return False
    nodes, names = tuple(walk(function.body, False)), set[str]()
    for _ in range(_STEPS_BACK):
        for node in nodes:
            names |= _takes(node, forward.site.at, names)
    returned = (node.value for node in nodes if isinstance(node, ir.Return) and node.value is not None)
    return any(_holds(value, forward.site.at, names) for value in returned)


def _takes(node: object, at: int, names: set[str]) -> set[str]:
    """The names that a statement gives what a call gave, or what holds it: ``y = model(x)``, ``kept.append(y)``."""
    if isinstance(node, ir.Assign) and node.value is not None and _holds(node.value, at, names):
        return set(assigned_names(node))
    if isinstance(node, ir.Augment) and _holds(node.value, at, names):
        return {dotted(node.target) or ""}
    callee = node.callee if isinstance(node, ir.Call) else None
    if isinstance(node, ir.Call) and isinstance(callee, ir.Attribute) and callee.attr in {"append", "extend", "update"}:
        return {dotted(callee.value) or ""} if any(_holds(arg.value, at, names) for arg in node.args) else set()
    return set()


def _holds(value: ir.Expr, at: int, names: set[str]) -> bool:
    parts = tuple(walk((value,), False))
    if any(isinstance(part, ir.Attribute) and part.attr in _CUTS for part in parts):
        return False
    return any(getattr(part, "at", None) == at or (isinstance(part, ir.Name) and part.id in names) for part in parts)


def _evidence(program: Program, forward: Forward, nest: tuple[Loop, ...]) -> _Evidence | None:
    """What says that a forward is evaluation: its mode, or a loop over data that throws every graph away."""
    lost = _loses(program, forward)
    if is_entered_under(program, forward.calls) or differentiates(program, forward) or _is_cut(program, forward):
        return None
    if program.is_called_without_grad(forward):
        lost = Gap.UNSEEN
    if forward.is_eval == "yes" and forward.mode is not None:
        if nest:
            returned = any(forward.root in event.roots for event in program.of(Escape) if event.how == "return")
            gaps = [Gap.UNSEEN] if program.is_called_without_grad(forward) else [Gap.CONVENTION] if returned else []
            return _Evidence([forward.mode, nest[-1].trace, forward.trace], gaps)
        is_own = _mode_here(program, forward) and _loses(program, forward, but_for_effect=True) is not Gap.UNSEEN
        if lost is Gap.UNSEEN and not is_own:
            return None
        gap = Gap.UNSEEN if _is_unpickled(program, forward) else Gap.CONVENTION
        return _Evidence([forward.mode, forward.trace], [gap])
    is_single = not nest and forward.is_eval != "yes" and _is_apart(program, forward)
    is_over_data = bool(nest) and nest[-1].kind == "data" and forward.on_batch
    if not (is_single or is_over_data) or not program.has_parameters(forward):
        return None
    left = next((event for event in program.within(GraphLeft, nest) if forward.root in event.roots), None)
    if lost is Gap.UNSEEN or left is None or not any(program.of(Backward)) or program.runs_under_unseen_base(forward):
        return None
    read = start(left.site, "only numbers without a graph are made of it")
    return _Evidence([(nest or forward.loops)[-1].trace, forward.trace, read], [Gap.CONVENTION])


def _is_apart(program: Program, forward: Forward) -> bool:
    """Whether a pass between training steps stands in a function that trains nothing (an agent that acts): what is
    detached inside a step is the step's own business."""
    trained = {event.function for event in program.of(Backward)}
    return bool(forward.loops) and forward.function not in trained


def _is_unpickled(program: Program, forward: Forward) -> bool:
    """Whether the whole module was read from a file in a program that trains nothing: its parameters may be frozen."""
    if forward.module is None or next(program.of(Backward), None) is not None:
        return False
    read = {event.trace.site for event in program.of(Restored)}
    steps = program.objects[forward.module].trace.steps()
    return any(step.site in read or "torch.load" in step.note for step in steps)


class _Escapes:
    """The escapes of a program by the graphs that escape: forwards may be thousands, and so may these."""

    def __init__(self, program: Program) -> None:
        self.by_root: dict[Site, list[Escape]] = {}
        for event in program.of(Escape):
            for root in event.roots:
                self.by_root.setdefault(root, []).append(event)

    @classmethod
    def of(cls, program: Program) -> _Escapes:
        """Made once for a program."""
        known = program.answers.get(cls)
        if not isinstance(known, cls):
            known = program.answers[cls] = cls(program)
        return known


def _mode_here(program: Program, forward: Forward) -> bool:
    """Whether the function that runs a network puts it into evaluation mode itself: not a constructor, which tries once
    how large an output is."""
    mode = forward.mode.site if forward.mode is not None else None
    function = program.function_around(forward.site)
    is_tried = function is not None and function.name == "__init__"
    return mode is not None and not is_tried and program.function_around(mode) is function


def _loses(program: Program, forward: Forward, *, but_for_effect: bool = False) -> Gap | None:
    """Whether code that we cannot see may still run a backward pass through the graph: it is returned, or handed to a
    call that stands alone (but where those are no matter: a metric) or gets an optimizer. A call whose result is used
    computes something: a convention."""
    gap: Gap | None = None
    for event in _Escapes.of(program).by_root.get(forward.root, ()):
        trains = any(program.objects[obj].kind in {"Optimizer", "Stepper", "Scaler"} for obj in event.objects)
        if event.how == "return" or (event.is_for_effect and not but_for_effect) or trains:
            return Gap.UNSEEN
        gap = Gap.CONVENTION
    return gap


def _remark(program: Program, at: Site) -> str:
    """What the author may have relied on."""
    is_volatile = _VOLATILE.search(program.project.read(at.path) or b"") is not None
    return " `volatile=True` has had no effect since PyTorch 0.4." if is_volatile else ""


def _is_old(program: Program, at: Site, case: _Case) -> bool:
    """Whether the function makes volatile inputs, or the file does, or torchtext for it, in a tree that can only run on
    a PyTorch that heeds them: losses are read as ``loss.data[0]``."""
    if is_volatile(program, at) or is_volatile(program, case.forward.site):
        return True
    if is_given_volatile(program, (at, case.forward.site, *case.forward.calls)):
        return True
    source = program.project.read(at.path) or b""
    if LOSS_DATA.search(source) is not None:
        return _VOLATILE.search(source) is not None or b"torchtext" in source
    return _VOLATILE.search(source) is not None and is_tree_for_old_torch(program)


def _message(text: str, is_eval: bool, more: list[str]) -> str:
    named = f" So does `{more[0]}` in it" if more else ""
    rest = f"{named}{f', and {len(more) - 1} more' if len(more) > 1 else ''}." if more else ""
    if is_eval:
        return (
            f"`{text}` runs in evaluation mode and {{does build}} an autograd graph that no backward pass uses: "
            f"`eval()` does not turn gradients off.{rest} Run it under `torch.no_grad()` or `torch.inference_mode()`."
        )
    return (
        f"`{text}` runs over data that nothing is trained on, and {{does build}} an autograd graph that no backward "
        f"pass uses.{rest} Run the loop under `torch.no_grad()` or `torch.inference_mode()`."
    )


def _shown(forward: Forward, nest: tuple[Loop, ...]) -> Site:
    """The forward, or the call of the loop that leads to it."""
    if not nest or nest[-1].kind == "framework":
        return forward.site
    inside = forward.calls[nest[-1].depth :]
    return inside[0] if inside else forward.site


def _gives_model(program: Program, forward: Forward, loop: Loop) -> bool:
    """Whether a loop goes over networks, each of which gets the same input: ``for net in nets: net(x)``."""
    statement, call = program.statement_of(loop), words(program).node(forward.site)
    if statement is None or not isinstance(call, ir.Call) or forward.site.path != loop.site.path:
        return False
    given = set(target_names(statement.target))
    named = {part.id for arg in call.args for part in walk((arg.value,), False) if isinstance(part, ir.Name)}
    assigned = (to for node in walk(statement.body, False) if isinstance(node, ir.Assign) for to in node.targets)
    inside = {name for to in assigned for name in target_names(to)}
    return dotted(call.callee) in given and not named & (given | inside)


def _over_batches(program: Program, forward: Forward) -> tuple[Loop, ...]:
    """The loops around a forward up to the one over batches: over data, or else the innermost counted one. One that
    ends after its first batch is no loop."""
    for kinds in ({"data", "framework"}, {"range", "while"}):
        found = [
            index for index, loop in enumerate(forward.loops) if loop.kind in kinds and not program.runs_once(loop)
        ]
        while len(found) > 1 and _gives_model(program, forward, forward.loops[found[-1]]):
            found.pop()
        if found:
            return forward.loops[: found[-1] + 1]
    return ()
