"""PF207 eval-mode-missing."""

from __future__ import annotations

from analyzer.engine.data_events import Restored
from analyzer.engine.events import Escape, Forward, Loop, Mode
from analyzer.engine.modes import called
from analyzer.engine.plots import is_only_plotted
from analyzer.engine.program import Program, nest_key
from analyzer.engine.trace import Gap, Site
from analyzer.engine.values import ObjectId
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.knowledge.words import pattern
from analyzer.rules.base import Report, Rule
from analyzer.rules.entered import is_volatile
from analyzer.rules.fed_back import is_trained_on
from analyzer.rules.iteration import extra_guards
from analyzer.rules.mode_gaps import EVAL_WORDS, gaps_of, has_own_switch, is_test, is_woken_elsewhere
from analyzer.rules.modes import (
    Timeline,
    before_loop,
    chain,
    drops_nothing,
    is_known_to_drop,
    over_batches,
    reported_at,
    shared,
)
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, walk

_DROPPING = frozenset({"RNN", "LSTM", "GRU", "MultiheadAttention"})
"""Layers that drop out inside, at a rate that they are given."""
_LOADERS = ("transformers.", "diffusers.", "peft.")


class EvalModeMissing(Rule):
    """A model is evaluated in training mode.

    ## Why it matters
    ``torch.no_grad()`` turns gradients off, not training mode. Dropout goes on dropping and batch norm normalises with
    the statistics of each evaluation batch, and updates its running statistics with them: the numbers are too low,
    depend on the batch size, and the validation data leaks into the model.

    ## Example
    ```python
    for epoch in range(10):
        model.train()
        train_one_epoch(model, train_loader)
        with torch.no_grad():
            for x, y in val_loader:
                correct += (model(x).argmax(1) == y).sum().item()
    ```

    ## Use instead
    ```python
    for epoch in range(10):
        model.train()
        train_one_epoch(model, train_loader)
        model.eval()
        with torch.no_grad():
            for x, y in val_loader:
                correct += (model(x).argmax(1) == y).sum().item()
    ```

    ## When it stays quiet
    When ``eval()`` was called anywhere on the way, also by a caller, a context manager or a framework; for modules
    without dropout, batch norm or ``self.training`` (a recurrent network of one layer drops nothing, whatever its
    rate, and a batch norm without running statistics goes by the batch in either mode); for models that come in
    evaluation mode (``from_pretrained``), unless another method trains them and nothing calls ``eval()``; for passes
    without gradients inside a training loop (teachers, targets, pseudo-labels; samples of a policy and their
    log-probabilities, by a helper whose result goes into the loss); where the outputs are thrown away
    (recomputing the statistics of batch norm); for a function that is handed the parameters it computes with. A note
    where no layer is known that changes the results (instance norm and ``if self.training`` may not, and one that an
    option adds may not be there), and nothing calls ``train()``: of this model, if the code that trains it was read,
    or else anywhere in the program. So it is for a model that a library loads by its name, where nothing says that it
    has dropout (BERT has, Llama has none), where the file sets all rates of dropout to zero, where pictures are drawn
    of what comes out, where parts of the model are switched by themselves or all of it under an option, for a loss
    that minds the mode behind a network that was switched, for texts that are generated, for a function of one batch
    that sets no mode beside one that trains and does, and for a whole graph that is evaluated behind the step, in the
    loop that calls ``train()``, and for a batch of validation, by its name, that is drawn between the steps.

    ## Fix safety
    Unsafe: the results of the evaluation change, which is the point, and a later training loop needs ``train()``.
    """

    code = "PF207"
    name = "eval-mode-missing"
    severity = Severity.WARNING
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A forward over batches, gradients off, in a loop that trains nothing, of a module not in evaluation mode."""
        timeline = Timeline(program)
        entered: dict[object, Forward] = {}
        seen: set[object] = set()
        for forward in timeline.forwards:
            nest = over_batches(forward)
            _check_drawn(timeline, report, forward, seen)
            if not nest:
                _check_restored(timeline, report, forward)
                _check_single(timeline, report, forward)
                _check_one_batch(timeline, report, forward)
                _check_behind(timeline, report, forward, seen)
            elif timeline.backward_within(nest):  # a function of its own, between the steps
                _check_single(timeline, report, forward)
            if not nest or nest[-1].key in seen or forward.module is None or program.runs_once(nest[-1]):
                continue
            first = entered.setdefault(nest[-1].key, forward)
            if not _is_evaluation(timeline, forward, nest):
                continue
            if forward is not first and (forward.depends == "maybe" and first.is_eval == "yes"):
                continue  # the loop minds modes, and what else is called may be a loss
            if forward is not first and program.objects[forward.module].born == "called":
                continue
            seen.add(nest[-1].key)
            gaps = gaps_of(timeline, forward)
            if gaps is None:
                continue
            at = reported_at(forward, nest)
            if is_test(program, forward) or is_trained_on(timeline, forward):
                continue
            report(
                at,
                f"`{program.sources.text(at)}` evaluates a model that {{is}} still in training mode: "
                f"{_effect(program, forward)}. Call `eval()` first.",
                because=chain(forward.mode or program.objects[forward.module].trace, nest[-1].trace, forward.trace),
                gaps=gaps,
                severity=Severity.NOTE
                if forward.method == "generate"  # a language model of today has nothing that minds the mode
                or _is_for_show(program, forward, nest)
                or (forward is not first and first.is_eval == "yes")
                else _severity(timeline, forward),
                fix=before_loop(program, forward, nest, "eval"),
            )


def _is_for_show(program: Program, forward: Forward, nest: tuple[Loop, ...]) -> bool:
    """Whether pictures are drawn of what comes out: by a function that only plots, or in a cell of a notebook that
    counts and goes over no data."""
    is_counted = nest[-1].kind != "data" and program.function_around(forward.site) is None
    return is_only_plotted(program, forward.site) or (is_counted and forward.site.path.endswith(".ipynb"))


def _check_restored(timeline: Timeline, report: Report, forward: Forward) -> None:
    """A program that trains nothing restores weights and runs the model with gradients off, outside any loop."""
    program, module = timeline.program, forward.module
    if module is None or forward.grad != "no" or forward.is_eval != "no" or forward.depends == "no" or forward.is_dry:
        return
    if forward.mode is not None:
        return  # nothing is trained, and somebody calls `train()` all the same: the statistics of the batch are wanted
    born = program.objects[module].born
    is_loaded = born in {"argument", "called"} and _is_loaded_by_class(program, forward)
    if forward.depends == "maybe" and (not (born == "unseen" or is_loaded) or timeline.modes or timeline.steps):
        return  # what its layers mind does not show
    restored = next((event for event in program.of(Restored) if is_loaded or event.into in (None, module)), None)
    is_given = born == "eval" or (born in {"argument", "called"} and not is_loaded)
    if restored is None or timeline.backwards or is_given or is_test(program, forward):
        return
    if any(timeline.handed_over(module, 0, timeline.at(forward))) or any(e.module is None for e in timeline.modes):
        return
    report(
        forward.site,
        f"`{program.sources.text(forward.site)}` runs a restored model that {{is}} still in training mode: "
        f"{_effect(program, forward)}. Call `eval()` first.",
        because=chain(program.objects[module].trace, restored.trace, forward.trace),
        gaps=[Gap.CONVENTION],
        severity=_severity(timeline, forward),
    )


def _is_loaded_by_class(program: Program, forward: Forward) -> bool:
    """Whether another method of the file loads weights into the attribute that is called here (``self.model``), and
    nothing in the file, nor beside its name elsewhere, speaks of evaluation mode."""
    call, path = words(program).node(forward.site), forward.site.path
    name = dotted(call.callee) if isinstance(call, ir.Call) else None
    if name is None or not name.startswith("self.") or EVAL_WORDS.search(program.project.read(path) or b""):
        return False
    loads = (words(program).node(event.site) for event in program.of(Restored) if event.site.path == path)
    is_loaded = any(isinstance(each, ir.Call) and dotted(each.callee) == f"{name}.load_state_dict" for each in loads)
    return is_loaded and not program.names_entry(forward, EVAL_WORDS)


def _check_single(timeline: Timeline, report: Report, forward: Forward) -> None:
    """A function of its own, in the loop of the training steps, runs the trained model with gradients off and takes
    numbers out of it: a full graph is evaluated, or batches that are drawn by hand."""
    program, module = timeline.program, forward.module
    if module is None or module not in timeline.stepped or forward.is_dry or forward.inputs or not forward.loops:
        return
    if (forward.grad, forward.is_eval) != ("no", "no") or forward.mode is None:
        return
    around = {event.function for event in timeline.backwards}
    is_minded = _is_woken_after(timeline, forward) or _is_woken_in_turn(timeline, forward, around)
    if forward.depends == "no" or (forward.depends == "maybe" and not is_minded):
        return
    learning = [each for each in timeline.learning if each.module == module and shared(each, forward)]
    if forward.function in around or not learning or not forward.calls or _returns(program, forward):
        return
    if any(timeline.handed_over(module, 0, timeline.at(forward))) or any(e.module is None for e in timeline.modes):
        return
    if is_trained_on(timeline, forward):
        return
    report(
        forward.site,
        f"`{program.sources.text(forward.site)}` evaluates a model that {{is}} still in training mode: "
        f"{_effect(program, forward)}. Call `eval()` first.",
        because=chain(forward.mode, forward.loops[-1].trace, forward.trace),
        gaps=[Gap.CONVENTION],
        severity=Severity.NOTE,  # one pass at a time, as a teacher or a sample has it too
    )


def _is_woken_after(timeline: Timeline, forward: Forward) -> bool:
    """Whether the function that runs a network in training mode calls `train()` afterwards, as one that evaluates does:
    it has forgotten the `eval()` before."""
    return any(
        event.module == forward.module
        and (event.is_eval, event.function, event.calls) == ("no", forward.function, forward.calls)
        and event.order > forward.order
        for event in timeline.modes
    )


def _is_woken_in_turn(timeline: Timeline, forward: Forward, around: set[Site | None]) -> bool:
    """Whether the function that trains calls `train()` in every round of a loop, in turn with one that evaluates."""
    return any(
        event.is_eval == "no" and event.module == forward.module and event.function in around and shared(event, forward)
        for event in timeline.modes
    )


def _check_one_batch(timeline: Timeline, report: Report, forward: Forward) -> None:
    """A function for one batch runs the network with gradients off, beside another for one batch that calls `train()`
    itself and trains: each of the two sets the mode, and this one does not."""
    program, module = timeline.program, forward.module
    if module is None or (forward.grad, forward.is_eval) != ("no", "no") or forward.depends == "no" or forward.inputs:
        return
    if forward.loops or not forward.calls or forward.is_dry or module not in timeline.trained:
        return
    if any(module in event.modules and event.is_eval != "no" for event in timeline.modes) or _returns(program, forward):
        return
    mine = forward.calls[:1]
    switch = next((each for each in timeline.modes if each.module == module and each.calls[:1] != mine), None)
    if switch is None or switch.loops or not switch.calls or any(each.calls[:1] == mine for each in timeline.modes):
        return
    learning = (each for each in timeline.learning if each.module == module and not each.loops)
    trained = next((each for each in learning if each.calls[:1] == switch.calls[:1]), None)
    around = {event.calls[:1] for event in timeline.backwards}
    if trained is None or mine in around or has_own_switch(program, module):
        return
    if any(timeline.handed_over(module, 0, timeline.at(forward))) or any(e.module is None for e in timeline.modes):
        return
    report(
        forward.site,
        f"`{program.sources.text(forward.site)}` evaluates a model that {{is}} still in training mode, where a step "
        f"of training left it: {_effect(program, forward)}. Call `eval()` first.",
        because=chain(switch.trace, trained.trace, forward.trace),
        gaps=[Gap.CONVENTION],
        severity=Severity.NOTE,  # what calls the two was not seen
    )


def _check_behind(timeline: Timeline, report: Report, forward: Forward, seen: set[object]) -> None:
    """Behind the step, in the loop that calls `train()` and trains on a whole graph or set, the network runs with
    gradients off, and no backward pass follows: the epoch's evaluation."""
    program, module, nest = timeline.program, forward.module, nest_key(forward.loops)
    if module is None or forward.is_dry or forward.inputs or not nest or ("behind", nest) in seen:
        return
    if (forward.grad, forward.is_eval) != ("no", "no") or forward.mode is None or forward.depends == "no":
        return
    here = timeline.at(forward)
    steps = [each for each in timeline.steps if module in each.modules and nest_key(each.loops) == nest]
    woken = [each for each in timeline.modes if module in each.modules and nest_key(each.loops) == nest]
    if not steps or any(each.function != forward.function or timeline.at(each) > here for each in steps):
        return
    if not woken or any(each.is_eval != "no" or timeline.at(each) > here for each in woken):
        return
    if any(timeline.at(each) > here and shared(each, forward) for each in timeline.backwards) or _returns(
        program, forward
    ):
        return
    if program.sources.statement_of(forward.site) is not None or forward.method == "generate":
        return
    if any(timeline.handed_over(module, 0, here)) or any(each.module is None for each in timeline.modes):
        return
    seen.add(("behind", nest))
    report(
        forward.site,
        f"`{program.sources.text(forward.site)}` evaluates a model that {{is}} still in training mode: "
        f"{_effect(program, forward)}. Call `eval()` first.",
        because=chain(forward.mode, steps[0].trace, forward.trace),
        gaps=[Gap.CONVENTION],
        severity=Severity.NOTE,  # a sample may be drawn so on purpose
    )


def _check_drawn(timeline: Timeline, report: Report, forward: Forward, seen: set[object]) -> None:
    """Every n-th step, between the steps, the network runs with gradients off on a batch that is named for validation
    (``model(next(val_loader))``), and is still in the mode of training."""
    program, module = timeline.program, forward.module
    if module is None or (forward.grad, forward.is_eval) != ("no", "no") or forward.mode is None or forward.is_dry:
        return
    if forward.depends == "no" or module not in timeline.trained or ("drawn", forward.site) in seen:
        return
    if not any(guard.is_periodic for guard in forward.guards) or not timeline.backward_within(forward.loops[-1:]):
        return
    if not pattern("for validation").search(words(program).of(forward.site)) or forward.method == "generate":
        return
    switch, here = timeline.switch(forward, is_eval=False), timeline.at(forward)
    since = timeline.at(switch) if switch is not None else 0
    if any(timeline.handed_over(module, since, here)) or any(each.module is None for each in timeline.modes):
        return
    seen.add(("drawn", forward.site))
    report(
        forward.site,
        f"`{program.sources.text(forward.site)}` evaluates a model that {{is}} still in training mode: "
        f"{_effect(program, forward)}. Call `eval()` first.",
        because=chain(forward.mode, forward.loops[-1].trace, forward.trace),
        gaps=[Gap.CONVENTION],
        severity=Severity.NOTE,  # that the batch is one of validation, its name says
    )


def _returns(program: Program, forward: Forward) -> bool:
    """Whether the function gives the output to its caller: a teacher, a target, a pseudo-label."""
    function = program.function_around(forward.site)
    nodes = walk(function.body, False) if function is not None else ()
    values = (node.value for node in nodes if isinstance(node, ir.Return) and node.value is not None)
    return any(getattr(part, "at", None) == forward.site.at for value in values for part in walk((value,), False))


def _minding(program: Program, forward: Forward) -> tuple[ObjectId, ...]:
    """The parts of the module that mind the mode, as far as they are known."""
    return program.minding.get(forward.module, ()) if forward.module is not None else ()


def _severity(timeline: Timeline, forward: Forward) -> Severity | None:
    """A note where no layer is known whose results depend on the mode, and nothing calls ``train()`` either, of the
    network that was seen to train, or else in the program: ``if self.training`` often chooses what is given back, and
    instance norm goes by each sample's own statistics, as it was trained to."""
    program = timeline.program
    if _is_partly_asleep(timeline, forward):
        return Severity.NOTE
    minding = _minding(program, forward)
    if minding and all(_is_unknown_inside(program, part) for part in minding):
        return Severity.NOTE
    if minding and not any("Norm" in called(program, part) for part in minding):
        made = (program.objects[part].trace.site.path for part in minding)
        entry = forward.calls[:1] or (forward.site,)
        if drops_nothing(program, {forward.site.path, *made, *(site.path for site in entry)}):
            return Severity.NOTE
    is_known = any(_changes_results(program, part) for part in minding)
    return None if is_known or any(_is_minded(timeline, forward, event) for event in timeline.modes) else Severity.NOTE


def _is_unknown_inside(program: Program, part: ObjectId) -> bool:
    """Whether a part is a whole model of a library that loads any by their names, and nothing says that it is one with
    dropout: many have none, and no batch norm."""
    obj = program.objects[part]
    return obj.name.startswith(_LOADERS) and not is_known_to_drop(program, obj.trace.site)


def _is_minded(timeline: Timeline, forward: Forward, event: Mode) -> bool:
    """Whether ``train()`` says that the mode matters to a network: to this one, if the code that trains it was read."""
    own = {forward.module, *forward.parts}
    if event.is_eval != "no" or event.module is None or own & event.modules:
        return event.is_eval == "no"
    return forward.module not in timeline.trained and not _puts_back(timeline, event)


def _puts_back(timeline: Timeline, event: Mode) -> bool:
    """Whether a function that trains nothing calls ``eval()`` and then ``train()`` of one network: it leaves the mode
    as it was, and minds that of no other network."""
    before = timeline.modes[: timeline.modes.index(event)]
    asleep = any(
        each.is_eval == "yes" and each.module == event.module and each.function == event.function for each in before
    )
    return asleep and not any(each.function == event.function for each in timeline.backwards)


def _is_partly_asleep(timeline: Timeline, forward: Forward) -> bool:
    """Whether parts of the model were put into evaluation mode by themselves, so that the others were left out on
    purpose, or all of it under a condition on the way to the evaluation, an option (``if args.eval_mode: net.eval()``).
    """
    return any(
        event.is_eval == "yes"
        and event.module in {forward.module, *forward.parts}
        and (
            event.module != forward.module
            or (
                extra_guards(event, forward)
                and nest_key(event.loops) == nest_key(forward.loops[: len(event.loops)])
                and event.order < forward.order
            )
        )
        for event in timeline.modes
    )


def _changes_results(program: Program, part: ObjectId) -> bool:
    obj = program.objects[part]
    if part not in program.reads_mode:
        return "InstanceNorm" not in obj.name
    handed = walk(obj.cls.node.body, True) if obj.cls is not None else ()
    return any(
        isinstance(node, ir.Arg) and isinstance(node.value, ir.Attribute) and node.value.attr == "training"
        for node in handed
    )  # ``F.dropout(x, training=self.training)``


def _effect(program: Program, forward: Forward) -> str:
    """What training mode does to the evaluation, by the layers that mind it."""
    said: list[str] = []
    for layer in (called(program, part) for part in _minding(program, forward)):
        if "Norm" in layer:
            said.append(f"`{layer}` uses these batches' statistics and keeps them")
        elif "Drop" in layer or layer in _DROPPING or layer.startswith("Transformer"):
            said.append(f"`{layer}` goes on dropping")
        else:
            said.append(f"`{layer}` does what it does in training")
    known = list(dict.fromkeys(said))[:2]
    return " and ".join(known) or "dropout goes on dropping, batch norm keeps these batches' statistics, if it has any"


def _is_evaluation(timeline: Timeline, forward: Forward, nest: tuple[Loop, ...]) -> bool:
    if forward.depends == "no" or forward.module is None:
        return False
    if forward.is_eval != "no" and not (forward.asleep and is_woken_elsewhere(timeline, forward)):
        return False
    if forward.grad != "no" and not _is_unused(timeline, forward):
        return False
    if nest[-1].kind == "framework" or timeline.backward_within(nest):
        return False
    is_thrown_away = timeline.program.sources.statement_of(forward.site) is not None
    return not is_thrown_away


def _is_unused(timeline: Timeline, forward: Forward) -> bool:
    """Whether a model that is trained elsewhere runs over data, and no backward pass ever uses the graph: an evaluation
    that has forgotten `no_grad` as well."""
    if forward.grad != "yes" or forward.module not in timeline.trained or forward.root in timeline.roots:
        return False
    is_counted = forward.on_batch and is_volatile(timeline.program, forward.site)
    if not forward.loops or any(loop.kind != "data" and not is_counted for loop in over_batches(forward)[-1:]):
        return False
    return not any(event.how == "return" and forward.root in event.roots for event in timeline.program.of(Escape))
