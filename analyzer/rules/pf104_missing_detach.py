"""PF104 missing-detach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analyzer.engine.events import Backward, Clear, Forward, Loss, Mode, Step
from analyzer.engine.graphs import roots_of
from analyzer.engine.optim_events import OptimizerMade
from analyzer.engine.program import Program, nest_key
from analyzer.engine.targets import Bootstrapped, Mark, PolicyWeighted, marks_of
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.values import ObjectId
from analyzer.engine.words import spelled, words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertAfter
from analyzer.knowledge.words import pattern
from analyzer.rules.averages import check_averages
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.entered import is_assumed, is_volatile
from analyzer.rules.iteration import exclude
from analyzer.rules.roles import Roles
from analyzer.rules.siamese import pairs
from analyzer.syntax import ir
from analyzer.syntax.scope import last_name, target_names, walk


class MissingDetach(Rule):
    """A backward pass runs into a network that it does not train.

    ## Why it matters
    What a discriminator is shown, what a teacher says and what a bootstrap target promises are constants of the step.
    With their graph they cost the memory and time of a second backward pass, and leave gradients in the other network.

    ## Example
    ```python
    fake = generator(noise)
    loss_d = criterion(discriminator(real), ones) + criterion(discriminator(fake), zeros)
    loss_d.backward()
    optimizer_d.step()
    ```

    ## Use instead
    ```python
    loss_d = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
    ```
    For a teacher or a target network, compute its output under ``torch.no_grad()``; the advantage of an actor-critic
    goes into the loss of the policy as ``advantage.detach()``, and a running average takes ``p.detach()``.

    ## When it stays quiet
    When the gradients are applied (encoder and decoder with an optimizer each, joint losses), for networks whose
    parameters need none, for a fixed network that a trained one feeds (perceptual losses), for a difference that
    nothing squares or takes the absolute value of (dual objectives), where an optimizer comes from code that was not
    read, and for averages of a function that switches ``requires_grad`` itself and does not switch it on again before.
    A note for two networks that a function is given, of which it puts one into evaluation mode: who made that one may
    have frozen it; where one of several networks runs at one place; for a function that is given the optimizers of a
    maker and a critic as well; where another branch needs the gradients, or the critic runs under a condition of its
    own; for an advantage whose critic no later step moves, and for one that weighs a ratio of policies or a
    log-probability that was picked by hand.

    ## Fix safety
    ``.detach()`` on a bootstrap target is unsafe: it changes what is learnt. Elsewhere there is no automatic fix:
    whether the value or a whole block leaves the graph is the author's choice.
    """

    code = "PF104"
    name = "missing-detach"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """Every backward pass, what it runs through, and which of that the next steps apply."""
        forwards: dict[object, list[Forward]] = {}
        for forward in program.of(Forward):
            forwards.setdefault(forward.root, []).append(forward)
        runs = forwards
        roles = Roles(forwards)
        # a place where networks run that are no alternatives says nothing about which of them a graph came from
        forwards = {site: roles.played(found) for site, found in forwards.items() if roles.is_one(found)}
        steps = list(program.of(Step))
        trained = roles.of(module for step in steps for module in step.modules)
        backwards = list(program.of(Backward)) if steps else []
        around = _by_nest(program)
        results = [(each, *_applied(each, around.get(nest_key(each.loops), ()), roles)) for each in backwards]
        for backward, applied, updates in results:
            through = [
                each for site in sorted(backward.roots) for each in forwards.get(site, ()) if each.module is not None
            ]
            wanted = [other for other, also, _ in results if other is not backward and also]
            if updates and through:
                _shown_to_critic(program, report, backward, through, applied, trained, wanted, roles)
        _check_fixed(program, report, backwards, forwards, trained, roles)
        _check_asleep(program, report, backwards, forwards)
        every = list(program.of(Backward))
        _check_given(program, report, every, forwards)
        _check_targets(program, report, every, runs)
        _check_advantages(program, report, every, runs, {id(each): moved for each, moved, also in results if also})
        check_averages(program, report)
        _check_views(program, report)


def _check_views(program: Program, report: Report) -> None:
    """Two views of a sample predict each other, and both sides of each comparison learn: they all become one point."""
    for pair in pairs(program):
        report(
            pair.compared,
            f"`{pair.name}` is what the other view is to predict, and gradients flow back through it as well: without "
            f"a stop the network {{will give}} the same for every sample. Compare with `{pair.name}.detach()`.",
            because=[
                start(pair.predicted, "one view is predicted here"),
                start(pair.other, "the network gives the other view here"),
                start(pair.compared, "they are compared here"),
            ],
            gaps=[Gap.CONVENTION],
        )


def _by_nest(program: Program) -> dict[object, list[Clear | Step]]:
    """What clears or applies gradients, by the loops around it."""
    found: dict[object, list[Clear | Step]] = {}
    for event in program.events:
        if isinstance(event, (Clear, Step)):
            found.setdefault(nest_key(event.loops), []).append(event)
    return found


def _applied(
    backward: Backward, around: Iterable[Clear | Step], roles: Roles
) -> tuple[frozenset[ObjectId], list[Step]]:
    """The modules whose gradients are applied before they are cleared, by the steps that follow in the iteration;
    `around` are the events of its loops."""
    cleared: set[ObjectId] = set()
    applied: set[ObjectId] = set()
    updates: list[Step] = []
    for event in around:
        if event.order <= backward.order:
            continue
        if not event.modules:
            return frozenset(), []  # of something we could not tell
        if isinstance(event, Clear):
            cleared |= roles.of(event.modules)
        elif roles.of(event.modules) - cleared:
            applied |= roles.of(event.modules) - cleared
            updates.append(event)
    return frozenset(applied), updates


def _shown_to_critic(
    program: Program,
    report: Report,
    backward: Backward,
    through: list[Forward],
    applied: frozenset[ObjectId],
    trained: frozenset[ObjectId],
    wanted: list[Backward],
    roles: Roles,
) -> None:
    """A network is updated on the output of another one that has an optimizer of its own, which does not step here."""
    for critic in through:
        for maker in through:
            if maker.root not in critic.inputs or maker.module == critic.module or critic.module not in applied:
                continue
            if _is_constant(maker) or any(each.root in maker.inputs and each.module in applied for each in through):
                continue  # the step updates what feeds it: the gradients are on their way there
            if maker.module in applied or maker.module not in trained or not {*maker.guards} <= {*critic.guards}:
                continue
            needed = [other for other in wanted if {maker.root, critic.root} <= other.roots]
            if any(not exclude(other, backward) for other in needed):
                continue  # the same output is what another backward pass needs
            if _is_detached_beside(program, critic):
                continue  # ``critic(segments(real, where), fake.detach())``: only where to cut came from the maker
            report(
                critic.site,
                f"The backward pass of this step {{will run}} on through `{program.sources.text(maker.site)}`, whose "
                "network the step does not update: its gradients are thrown away, or spoil its own step. Detach the "
                "output.",
                because=[maker.trace, critic.trace, backward.trace],
                gaps=[Gap.CONVENTION],
                severity=Severity.NOTE
                if _judges(maker, through, applied)
                or roles.are_shared(maker, critic)
                or needed  # in another branch
                or maker.guards != critic.guards
                else None,
            )


def _check_given(
    program: Program, report: Report, backwards: list[Backward], forwards: dict[object, list[Forward]]
) -> None:
    """A function is given two networks and their optimizers: one backward pass goes through a network's answers to data
    and to what the other one made of noise, as a discriminator's does, the next only through the latter."""
    steps = [step for step in program.of(Step) if step.optimizer is not None]
    if any(program.of(OptimizerMade)) or any(step.modules for step in steps):
        return
    passes = [(each, [pass_ for site in sorted(each.roots) for pass_ in forwards.get(site, ())]) for each in backwards]
    for backward, through in passes:
        own = _stepping(backward, steps)
        for maker, critic in _fed(through):
            if own is None or not _sees_others(maker, critic, through):
                continue
            later = next(
                (
                    other
                    for other, beside in passes
                    if _stepping(other, steps) not in {None, own}
                    and nest_key(other.loops) == nest_key(backward.loops)
                    and any(
                        (one.module, two.module) == (maker.module, critic.module) and not _sees_others(one, two, beside)
                        for one, two in _fed(beside)
                    )
                ),
                None,
            )
            if later is not None:
                report(
                    critic.site,
                    f"`{program.sources.text(critic.site)}` judges what another network made beside other data, and "
                    "the backward pass {will run} on into that network, which another optimizer moves by the pass "
                    "after it. Detach what was made.",
                    because=[maker.trace, critic.trace, backward.trace, later.trace],
                    gaps=[Gap.CONVENTION],
                    severity=Severity.NOTE,  # what the optimizers hold was not seen
                )
                break


def _fed(through: list[Forward]) -> Iterator[tuple[Forward, Forward]]:
    """The passes of which one gets what the other gave."""
    for critic in through:
        for maker in through:
            is_fed = maker.root in critic.inputs and maker.module != critic.module
            if is_fed and not _is_constant(maker) and None not in {maker.module, critic.module}:
                yield maker, critic


def _sees_others(maker: Forward, critic: Forward, through: list[Forward]) -> bool:
    """Whether a critic also runs on what no pass of the maker gave."""
    made = {each.root for each in through if each.module == maker.module}
    return any(each.module == critic.module and not each.inputs & made for each in through)


def _stepping(backward: Backward, steps: list[Step]) -> ObjectId | None:
    """The optimizer that steps next after a backward pass."""
    after = (step for step in steps if step.order > backward.order and nest_key(step.loops) == nest_key(backward.loops))
    return next((step.optimizer for step in after), None)


def _judges(maker: Forward, through: list[Forward], applied: frozenset[ObjectId]) -> bool:
    """Whether the network also judges what the step updates, as a discriminator that encodes for the generator does:
    the backward pass runs through it in any case."""
    updated = {each.root for each in through if each.module in applied}
    return any(each.module == maker.module and updated & each.inputs for each in through)


def _gives_indices(program: Program, forward: Forward) -> bool:
    """Whether all that is kept of what a pass gives is called indices, which no gradient runs through: ``codes, _ =
    self.tokenizer.encode(x)``."""
    function = program.function_around(forward.site)
    nodes = tuple(walk(function.body, False)) if function is not None else ()
    made = [each for each in nodes if isinstance(each, ir.Assign) and each.value is not None]
    targets = [target for each in made if each.value and each.value.at == forward.site.at for target in each.targets]
    names = {name for target in targets for name in target_names(target)}
    written = {id(part) for target in targets for part in walk((target,), False)}
    read = {each.id for each in nodes if isinstance(each, ir.Name) and each.id in names and id(each) not in written}
    return bool(read) and all(pattern("indices").search(name) for name in read)


def _check_fixed(
    program: Program,
    report: Report,
    backwards: list[Backward],
    forwards: dict[object, list[Forward]],
    trained: frozenset[ObjectId],
    roles: Roles,
) -> None:
    """A network that nothing trains, and that nothing trained feeds, is a part of the graph of a loss."""
    known = [made for made in program.of(OptimizerMade) if made.is_complete]
    if len(known) != len(list(program.of(OptimizerMade))) or bool(trained) != bool(known):
        return
    parts = roles.of(part for made in known for part in made.parts) | trained
    is_given = not known  # an optimizer that a caller made: of what is no average of what is trained
    for backward in backwards:
        through = [each.module for site in sorted(backward.roots) for each in forwards.get(site, ())]
        others = any(each in parts or (is_given and each not in program.followers) for each in through)
        for forward in (each for site in sorted(backward.roots) for each in forwards.get(site, ()) if others):
            has_graph = forward.has_graph == "yes" and forward.is_frozen == "no"
            is_asleep = forward.is_eval == "yes" and forward.mode is not None
            is_fixed = has_graph and ((is_asleep and not is_given) or forward.module in program.followers)
            if not is_fixed or forward.module in parts or forward.inputs or not program.has_parameters(forward):
                continue
            if _gives_indices(program, forward):
                continue
            report(
                forward.site,
                f"No optimizer updates the network behind `{program.sources.text(forward.site)}`, and it "
                f"{'runs in evaluation mode' if is_asleep else 'takes its weights from another one'}, but the backward "
                "pass {will run} through it. Compute its output under `torch.no_grad()`.",
                because=[step for step in (forward.mode, forward.trace, backward.trace) if step],
                gaps=[Gap.CONVENTION],
                severity=Severity.NOTE
                if is_given or is_volatile(program, forward.site) or is_assumed(forward) or roles.are_shared(forward)
                else None,
            )


def _check_asleep(
    program: Program, report: Report, backwards: list[Backward], forwards: dict[object, list[Forward]]
) -> None:
    """A function is given two networks and the optimizer: it puts one into training mode, the other into evaluation
    mode, and the backward pass of the step runs through both. Who made them may have frozen the second."""
    if any(program.of(OptimizerMade)):
        return
    modes = list(program.of(Mode))
    fed = {each.module for found in forwards.values() for each in found if each.inputs}
    for backward in backwards:
        through = [each for site in sorted(backward.roots) for each in forwards.get(site, ())]
        here = [each for each in through if each.function == backward.function and each.calls == backward.calls]
        woken = {each.module for each in here if each.is_eval == "no" and _is_switched(each, modes)}
        for forward in here:
            is_given = forward.module is not None and program.objects[forward.module].born == "argument"
            is_asleep = forward.is_eval == "yes" and forward.has_graph == "yes" and _is_switched(forward, modes)
            if not is_given or not is_asleep or not woken or forward.module in fed or forward.is_frozen != "no":
                continue
            report(
                forward.site,
                f"`{program.sources.text(forward.site)}` runs in evaluation mode beside the network that is trained, "
                "and the backward pass {will run} through it, unless its parameters are frozen elsewhere. Compute its "
                "output under `torch.no_grad()`.",
                because=[step for step in (forward.mode, forward.trace, backward.trace) if step],
                gaps=[Gap.CONVENTION],
                severity=Severity.NOTE,
            )


def _is_switched(forward: Forward, modes: list[Mode]) -> bool:
    """Whether the function that runs a network sets the mode of it."""
    return any(
        (each.module, each.function, each.is_eval) == (forward.module, forward.function, forward.is_eval)
        for each in modes
    )


def _check_targets(
    program: Program, report: Report, backwards: list[Backward], forwards: dict[object, list[Forward]]
) -> None:
    """A loss compares an output with a bootstrap target, and the backward pass runs through both."""
    differences = (event for event in program.of(Bootstrapped) if _is_made_small(program, event))
    compared = [(event.target, event.output, event.function, event.is_guess) for event in differences]
    compared += [(*pair, event.function, False) for event in program.of(Loss) for pair in _compared(event)]
    for target, output, function, is_guess in compared:
        own = target - output  # what else both are made of is no target
        backward = next((each for each in backwards if each.roots & own and each.roots & output), None)
        for site in sorted(own & backward.roots) if backward is not None else ():
            forward = next(iter(forwards.get(site, ())), None)
            if forward is None or any(_is_constant(each) for each in forwards[site]):
                continue
            if not program.has_parameters(forward):  # a module that computes a loss is no critic
                continue
            assert backward is not None
            learning = {each.module for root in output for each in forwards.get(root, ())}
            is_costly = not is_guess or forward.module in learning  # a target network that only costs a second pass
            report(
                forward.site,
                f"The target of the loss is made of `{program.sources.text(forward.site)}`, and the backward pass "
                "{will run} through it, but a target is a constant of the step. Compute it under "
                "`torch.no_grad()`, or detach it.",
                because=[forward.trace, backward.trace],
                gaps=[Gap.CONVENTION],
                severity=None
                if forward.function == function and is_costly and not is_volatile(program, forward.site)
                else Severity.NOTE,
                fix=DraftFix("Detach the target", "unsafe", (InsertAfter(forward.site.at, ".detach()"),)),
            )


def _is_made_small(program: Program, event: Bootstrapped) -> bool:
    """Whether something on the way of a difference makes it small, whatever its sign: a square, an absolute value, a
    loss. A dual objective (as DICE has) takes the difference itself, or its exponential, and means both gradients."""
    ways = {program.function_around(site) for site in (event.site, *event.calls)}
    if None in ways:
        return True  # the body of a file
    return any(_is_distance(part) for way in ways if way is not None for part in walk(way.body, True))


def _is_distance(part: object) -> bool:
    """``x ** 2``, ``x * x``, ``x @ x``, ``x.abs()``, ``F.smooth_l1_loss(x, y)``, ``self.criterion(x, y)``."""
    if isinstance(part, ir.Operation) and part.right is not None:
        return part.op == "**" or (part.op in {"*", "@"} and spelled(part.left) == spelled(part.right))
    return isinstance(part, ir.Call) and bool(pattern("a distance").search(last_name(part.callee)))


def _is_detached_beside(program: Program, critic: Forward) -> bool:
    """Whether the call of the critic detaches another of its arguments."""
    call = words(program).node(critic.site)
    given = walk(tuple(arg.value for arg in call.args), into_functions=True) if isinstance(call, ir.Call) else ()
    return any(isinstance(part, ir.Attribute) and part.attr == "detach" for part in given)


def _is_constant(forward: Forward) -> bool:
    """Whether a forward pass has no graph, or may have none."""
    return forward.has_graph != "yes" or forward.is_frozen != "no"


def _compared(event: Loss) -> list[tuple[frozenset[Site], frozenset[Site]]]:
    """The forward passes of a bootstrap target that a loss is given, in either place, and of the output beside it."""
    if event.expects != "same shape" or event.target is None:
        return []
    sides = [event.input, event.target]
    roots = [frozenset(root for case in side.cases for root in roots_of(case)) for side in sides]
    is_target = [any(Mark.BOOTSTRAP in marks_of(case) for case in side.cases if roots_of(case)) for side in sides]
    if not all(roots) or is_target[0] == is_target[1]:
        return []
    return [(roots[0], roots[1]) if is_target[0] else (roots[1], roots[0])]


def _check_advantages(
    program: Program,
    report: Report,
    backwards: list[Backward],
    forwards: dict[object, list[Forward]],
    moved: dict[int, frozenset[ObjectId]],
) -> None:
    """The loss of a policy is weighted by an advantage that the critic could change: where the steps that follow are
    known, one of them moves it."""
    for event in program.of(PolicyWeighted):
        backward = next(
            (each for each in backwards if each.roots & event.advantage and each.roots & event.policy), None
        )
        passes = [each for site in sorted(event.advantage) for each in forwards.get(site, ())]
        critics = {each.module for each in passes}
        if backward is not None:
            is_here = all(each.function == event.function for each in passes)
            is_moved = id(backward) not in moved or not critics or bool(critics & moved[id(backward)])
            report(
                event.site,
                f"The advantage in `{program.sources.text(event.site)}` {{does carry}} the graph of the critic, so the "
                f"loss of the policy {'{will move} the critic' if is_moved else '{will run} through the critic'} too. "
                "Detach the advantage.",
                because=[event.trace, backward.trace],
                gaps=[Gap.CONVENTION],
                severity=None if is_here and is_moved and not event.is_by_hand else Severity.NOTE,
            )
