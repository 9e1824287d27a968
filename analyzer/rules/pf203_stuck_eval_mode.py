"""PF203 stuck-eval-mode."""

from __future__ import annotations

from analyzer.engine.called import is_for_others
from analyzer.engine.events import Event, Forward, Mode, Step
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site
from analyzer.engine.values import ObjectId
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules import waking
from analyzer.rules.base import Report, Rule
from analyzer.rules.modes import Asleep, Timeline, chain, over_batches, shared, sleeping
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, walk


class StuckEvalMode(Rule):
    """Training goes on in evaluation mode.

    ## Why it matters
    An evaluation in the middle of training calls ``eval()``, and nobody calls ``train()`` again. From then on dropout
    is off and batch norm normalises with frozen statistics: the training loss looks better, the model gets worse.

    ## Example
    ```python
    model.train()
    for epoch in range(10):
        for x, y in train_loader:
            ...
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            validate(model, val_loader)
    ```

    ## Use instead
    ```python
    for epoch in range(10):
        model.train()
        for x, y in train_loader:
            ...
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            validate(model, val_loader)
    ```

    An evaluation between two batches (``if step % 500 == 0: model.eval(); validate(…)``) has to be followed by
    ``model.train()`` there: a call at the start of the epoch comes once, and the rest of the epoch is trained asleep.

    ## When it stays quiet
    When anything brings training mode back: a callee, a context manager, ``train(was_training)``, the framework; for
    modules without dropout, batch norm or ``self.training``; where one function chooses between the two modes; for
    parts that stay in evaluation mode on purpose (frozen teachers and encoders, batch norm layers, all but a head that
    is switched back: ``model.eval(); model.head.train()``); for a pass that sleeps between the two calls of one
    function (``net.eval(); out = net(x); net.train()``); for a network beside another one that is awake, where one
    optimizer over what was not seen steps; when nothing trains after the switch, or only reads gradients (Fisher
    information). A note where a setting brings training mode back (``if args.train_mode: net.train()``), and where what
    is only likely leads through two files. Where a function trains one pass over the data and nothing in the tree calls
    it, the callers are taken to train and evaluate in turn: a warning if the file never calls ``train()``. Of two
    functions that a framework calls for each batch (Ignite's ``Engine``), of which only the one that evaluates sets a
    mode, it is a note.

    ## Fix safety
    Unsafe: training continues differently, which is the point.
    """

    code = "PF203"
    name = "stuck-eval-mode"
    alias = "TG011"
    severity = Severity.ERROR
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A trained forward in the mode that an `eval()` left, called after training began or in a loop around it."""
        timeline = Timeline(program)
        for case in sleeping(timeline):
            if case.switch is None or not case.is_later or _is_put_back(program, case.switch.site):
                continue
            if _is_left_again(program, case.switch) or _is_in_part(timeline, case) or _is_around_pass(timeline, case):
                continue
            again = [each for each in timeline.modes if shared(each, case.forward) and each.is_eval == "no"]
            if any(
                _asks_mode(program, each)
                or _takes_turns(each, case)
                or _is_else(each, case)
                or _asks_whether_there(program, each)
                for each in again
            ):
                continue
            loop = case.nest[-1].trace if case.nest else None
            report(
                case.switch.site,
                f"`{program.sources.text(case.switch.site)}` is not undone before training goes on: from then on "
                f"dropout {{is}} off and batch norm frozen. {waking.advice(case.switch, case.forward)}",
                because=chain(case.switch.trace, loop, case.forward.trace, case.step.trace),
                gaps=case.gaps,
                severity=Severity.NOTE
                if any(_is_option(program, each, case) for each in again) or _is_far(case)
                else None,
                fix=waking.fix(program, case.switch, case.forward),
            )
        _parts_left(timeline, report)
        if not report.drafts:
            _left_by_engine(timeline, report)
        if not report.drafts:
            _left_to_callers(timeline, report)


def _is_in_part(timeline: Timeline, case: Asleep) -> bool:
    """Whether a part of the network is switched back right after the whole, in the same function and before it trains:
    ``model.eval(); model.classifier.train()``. The rest is meant to sleep."""
    switch = case.switch
    assert switch is not None
    parts = switch.modules - {switch.module}
    return any(
        each.is_eval == "no"
        and each.module in parts
        and (each.function, each.calls, each.loops) == (switch.function, switch.calls, switch.loops)
        and timeline.at(switch) < timeline.at(each) < timeline.at(case.forward)
        for each in timeline.modes
    )


def _is_around_pass(timeline: Timeline, case: Asleep) -> bool:
    """Whether the function that puts the network to sleep runs the pass and wakes it right after: ``net.eval(); out =
    net(x); net.train()``. That the pass sleeps is meant, trained or not."""
    switch, forward = case.switch, case.forward
    assert switch is not None
    here = (switch.function, switch.calls)
    return switch.function == forward.function and any(
        each.is_eval == "no"
        and (each.function, each.calls) == here
        and each.guards == switch.guards
        and shared(each, forward)
        and timeline.at(each) > timeline.at(forward)
        for each in timeline.modes
    )


def _is_far(case: Asleep) -> bool:
    """Whether the switch stands in another file than the pass that trains, and it is not sure that one follows the
    other, or that the network minds: much between them was not seen."""
    return bool(case.gaps) and case.switch is not None and case.switch.site.path != case.forward.site.path


def _parts_left(timeline: Timeline, report: Report) -> None:
    """A part is evaluated by itself (``knn_test(model.encoder)``), and stays in evaluation mode inside the model that
    goes on training."""
    program = timeline.program
    for switch in timeline.modes:
        part = switch.module
        if part is None or switch.is_eval != "yes" or not switch.loops or _is_put_back(program, switch.site):
            continue
        if _is_left_again(program, switch):
            continue
        epochs = switch.loops[:1]
        inside = [each for each in timeline.modes if shared(each, switch)]
        if any(each.is_eval != "yes" and (each.module is None or part in each.modules) for each in inside):
            continue
        evaluated = next((each for each in timeline.forwards if _is_evaluated(each, switch)), None)
        trained = next((each for each in timeline.learning if _is_around(each, part, switch)), None)
        step = next((step for step in program.within(Step, epochs) if part in step.modules), None)
        if evaluated is None or trained is None or step is None:
            continue
        report(
            switch.site,
            f"`{program.sources.text(switch.site)}` is not undone before training goes on: from then on this part of "
            f"the model {{is}} in evaluation mode. {waking.advice(switch, trained)}",
            because=chain(switch.trace, epochs[0].trace, evaluated.trace, trained.trace, step.trace),
            gaps=[Gap.CONVENTION],
        )


def _left_by_engine(timeline: Timeline, report: Report) -> None:
    """Of two functions that a framework calls for each batch (Ignite's ``Engine``), one trains and sets no mode, the
    other one evaluates and puts the model to sleep: the engines run in turn, by handlers."""
    awake = [event for event in timeline.modes if event.is_eval != "yes"]
    for forward in timeline.learning:
        engine, module = _engine(forward), forward.module
        if engine is None or module is None or forward.depends == "no" or forward.modes or forward.is_frozen != "no":
            continue
        if any(event.module is None or module in event.modules for event in awake):
            continue
        switch = next((each for each in timeline.modes if _is_of_other_engine(each, engine, module)), None)
        step = next((each for each in timeline.steps if _engine(each) == engine and module in each.modules), None)
        if switch is not None and step is not None:
            report(
                switch.site,
                f"`{timeline.program.sources.text(switch.site)}` is not undone by the function that "
                "trains: as soon as this engine has run, dropout {is} off and batch norm frozen. Call `train()` in the "
                "function that trains.",
                because=chain(switch.trace, forward.loops[-1].trace, forward.trace, step.trace),
                gaps=[Gap.CONVENTION],
                severity=Severity.NOTE,  # when the engines run, their handlers say
            )
            return


def _engine(event: Event) -> Site | None:
    """Where a framework was given the function that it calls for each batch."""
    inner = event.loops[-1] if event.loops else None
    return inner.site if inner is not None and (inner.kind, inner.part) == ("framework", "steps") else None


def _is_of_other_engine(switch: Mode, engine: Site, module: ObjectId) -> bool:
    return switch.is_eval == "yes" and module in switch.modules and _engine(switch) not in {None, engine}


def _left_to_callers(timeline: Timeline, report: Report) -> None:
    """A function trains one pass over the data and sets no mode; another one, or its own end, puts the model to sleep,
    and nothing in the file wakes it. Who calls them was not seen: by convention, in turn, once per epoch."""
    program = timeline.program
    awake = [event for event in timeline.modes if event.is_eval != "yes"]
    training = {event.function for event in timeline.backwards}
    if any(event.module is None or event.function not in training for event in awake):
        return
    for forward in timeline.learning:
        nest, module = over_batches(forward), forward.module
        is_awake = module is not None and not forward.modes and forward.is_frozen == "no" and forward.depends != "no"
        if not is_awake or module is None or len(nest) != 1 or nest[0].kind != "data":
            continue
        if not is_for_others(program, forward) or any(event.function == forward.function for event in awake):
            continue
        step = next((step for step in program.within(Step, nest) if not step.modules or module in step.modules), None)
        handed = timeline.handed_over(module, 0, timeline.at(forward))
        if step is None or any(not _is_building(program, event) for event in handed):
            continue
        switch = next((each for each in timeline.modes if _puts_to_sleep(timeline, each, forward)), None)
        if switch is not None:
            report(
                switch.site,
                f"`{program.sources.text(switch.site)}` is not undone by anything in this file: when "
                f"`{program.entries[forward.calls[0]]}` is called again, dropout {{is}} off and batch norm frozen. "
                f"{waking.advice(switch, forward)}",
                because=chain(switch.trace, nest[0].trace, forward.trace, step.trace),
                gaps=[Gap.CONVENTION],
                severity=Severity.NOTE if awake else Severity.WARNING,  # another one that trains wakes its own
                fix=waking.fix(program, switch, forward),
            )
            return


def _is_building(program: Program, event: Event) -> bool:
    """Whether a constructor hands something on: the mode that is set there is not that of a later round."""
    function = program.function_around(event.site)
    return function is not None and function.name == "__init__"


def _puts_to_sleep(timeline: Timeline, switch: Mode, forward: Forward) -> bool:
    """Whether a switch reaches the model that a pass trains: at the end of the same call, or in an evaluation beside it
    of the only model that the file trains."""
    if switch.module is None or switch.is_eval != "yes" or shared(switch, forward) or not switch.calls:
        return False
    assert forward.module is not None
    if switch.calls[0] == forward.calls[0]:
        made = timeline.program.objects[forward.module].trace.site
        around = timeline.program.function_around(made)  # what the call makes is new in the next one
        is_new = around is not None and Site(made.path, around.at) == forward.calls[0] and made.at != around.at
        is_new = is_new and timeline.program.objects[forward.module].born == ""
        return not is_new and forward.module in switch.modules and timeline.at(switch) > timeline.at(forward)
    asleep = (each for each in timeline.forwards if each.module == switch.module and each.is_eval == "yes")
    if not any(each not in timeline.learning and over_batches(each) for each in asleep) or not is_for_others(
        timeline.program, switch
    ):
        return False
    objects = timeline.program.objects
    trained = {each.module for each in timeline.learning if each.depends != "no" and not each.modes and not each.inputs}
    both = {objects[switch.module].born, objects[forward.module].born}
    return switch.module == forward.module or (trained == {forward.module} and both == {"argument"})


def _is_evaluated(forward: Forward, switch: Mode) -> bool:
    """Whether a pass is the evaluation that a part was switched for."""
    is_after = forward.module == switch.module and forward.function == switch.function and forward.order > switch.order
    return is_after and (forward.is_eval, forward.grad, forward.depends) == ("yes", "no", "yes")


def _is_around(forward: Forward, part: ObjectId, switch: Mode) -> bool:
    return forward.module != part and part in forward.parts and bool(shared(forward, switch))


def _takes_turns(switch: Mode, case: Asleep) -> bool:
    """Whether the loop of the training steps switches the same network back as well, at least under a condition, and
    puts it to sleep for a step of another one: ``critic.train()`` … ``critic.eval()`` in one iteration."""
    assert case.switch is not None
    loops = case.forward.loops
    here = switch.loops[: len(loops)] == loops and case.switch.loops[: len(loops)] == loops
    return here and switch.module == case.switch.module and switch.order < case.switch.order


def _is_else(switch: Mode, case: Asleep) -> bool:
    """Whether the function that puts the network to sleep wakes it where its condition does not hold: it chooses the
    mode to train in (``if self.is_frozen: net.eval()``, or else ``net.train()``)."""
    assert case.switch is not None
    here = (switch.function, switch.calls) == (case.switch.function, case.switch.calls)
    return here and any(guard.other in switch.guards for guard in case.switch.guards)


def _is_option(program: Program, switch: Mode, case: Asleep) -> bool:
    """Whether the loop brings training mode back where an attribute says so that nothing in it sets: ``if
    args.train_mode: net.train()``."""
    extra = [guard for guard in switch.guards if guard not in case.forward.guards]
    if not extra or not shared(switch, case.forward) or switch.order > case.forward.order:
        return False
    return all(_is_setting(words(program).node(guard.site)) for guard in extra)


def _is_setting(node: object) -> bool:
    test = node.test if isinstance(node, ir.If) else None
    if isinstance(test, ir.Operation) and test.op == "not":
        test = test.left
    return isinstance(test, ir.Attribute) and test.attr != "training"


def _asks_mode(program: Program, switch: Mode) -> bool:
    """``if not net.training: net.train()``: training mode whatever it was before."""
    asked = (words(program).of(guard.site) for guard in switch.guards[-1:])
    return any(".training" in each.split() for each in asked)


def _asks_whether_there(program: Program, switch: Mode) -> bool:
    """``if student is not None: student.train()``, ``if isinstance(net, nn.Module): net.train()``: training mode
    wherever there is such a network."""
    call = words(program).node(switch.site)
    if not isinstance(call, ir.Call) or not isinstance(call.callee, ir.Attribute) or not switch.guards:
        return False
    node = words(program).node(switch.guards[-1].site)
    test = node.test if isinstance(node, ir.If) else None
    if isinstance(test, ir.Operation) and test.op == "is not":
        test = test.left
    elif isinstance(test, ir.Call) and dotted(test.callee) in {"isinstance", "hasattr"} and test.args:
        test = test.args[0].value
    name = dotted(call.callee.value)
    return name is not None and isinstance(test, (ir.Name, ir.Attribute)) and dotted(test) == name


def _is_left_again(program: Program, switch: Mode) -> bool:
    """Whether a context of the program's own switches the mode where it is entered, and puts it back where it is left:
    ``with eval_mode(agent):``, whose ``__exit__`` calls ``train(state)``."""
    for site in (switch.site, *switch.calls):
        function, unit = program.function_around(site), program.unit(site.path)
        if function is None or function.name != "__enter__":
            continue
        classes = (each for each in of_type(unit, ir.ClassDef) if function in each.body)
        exits = [each for cls in classes for each in cls.body if getattr(each, "name", "") == "__exit__"]
        parts = walk((*(part for each in exits if isinstance(each, ir.FunctionDef) for part in each.body),), True)
        if any(isinstance(part, ir.Attribute) and part.attr in {"train", "training"} for part in parts):
            return True
    return False


def _is_put_back(program: Program, site: Site) -> bool:
    """Whether the function that calls `eval()` remembers the mode and restores it: ``was = net.training``, and
    ``if was: net.train()`` at its end."""
    function = program.function_around(site)
    body = list(walk(function.body, into_functions=False)) if function is not None else []
    kept = {
        target.id
        for node in body
        if isinstance(node, ir.Assign) and isinstance(node.value, ir.Attribute) and node.value.attr == "training"
        for target in node.targets
        if isinstance(target, ir.Name)
    }
    asked = (
        node for node in body if isinstance(node, ir.If) and isinstance(node.test, ir.Name) and node.test.id in kept
    )
    calls = (part for node in asked for part in walk(node.body, into_functions=False) if isinstance(part, ir.Call))
    return any(isinstance(call.callee, ir.Attribute) and call.callee.attr == "train" for call in calls)
