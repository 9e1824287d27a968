"""PF104 missing-detach."""

from __future__ import annotations

from analyzer.engine.events import Backward, Clear, Forward, Step
from analyzer.engine.optim_events import OptimizerMade
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site
from analyzer.engine.values import ObjectId
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule


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
    For a teacher or a target network, compute its output under ``torch.no_grad()``.

    ## When it stays quiet
    When the gradients are applied (encoder and decoder with an optimizer each, joint losses), for networks whose
    parameters need none, for a fixed network that a trained one feeds (perceptual losses), and where an optimizer comes
    from code that was not read.

    ## Fix safety
    No automatic fix: whether the value or a whole block leaves the graph is the author's choice.
    """

    code = "PF104"
    name = "missing-detach"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """Every backward pass, what it runs through, and which of that the next steps apply."""
        forwards: dict[object, list[Forward]] = {}
        for forward in program.of(Forward):
            forwards.setdefault(forward.site, []).append(forward)
        # a place where several networks run says nothing about which of them a graph came from
        forwards = {site: found for site, found in forwards.items() if len({each.module for each in found}) == 1}
        steps = list(program.of(Step))
        trained = frozenset(module for step in steps for module in step.modules)
        backwards = list(program.of(Backward)) if steps else []
        results = [(backward, *_applied(program, backward, steps)) for backward in backwards]
        for backward, applied, updates in results:
            through = [each for site in backward.roots for each in forwards.get(site, ()) if each.module is not None]
            wanted = [other.roots for other, also, _ in results if other is not backward and also]
            if updates and through:
                _shown_to_critic(program, report, backward, through, applied, trained, wanted)
        _check_fixed(program, report, backwards, forwards, trained)


def _applied(program: Program, backward: Backward, steps: list[Step]) -> tuple[frozenset[ObjectId], list[Step]]:
    """The modules whose gradients are applied before they are cleared, by the steps that follow in the iteration."""
    cleared: set[ObjectId] = set()
    applied: set[ObjectId] = set()
    updates: list[Step] = []
    for event in program.events:
        if event.order <= backward.order or [each.key for each in event.loops] != [each.key for each in backward.loops]:
            continue
        if isinstance(event, Clear):
            if not event.modules:
                return frozenset(), []  # of something we could not tell
            cleared |= event.modules
        elif isinstance(event, Step):
            if not event.modules:
                return frozenset(), []
            if event.modules - cleared:
                applied |= event.modules - cleared
                updates.append(event)
    return frozenset(applied), updates


def _shown_to_critic(
    program: Program,
    report: Report,
    backward: Backward,
    through: list[Forward],
    applied: frozenset[ObjectId],
    trained: frozenset[ObjectId],
    wanted: list[frozenset[Site]],
) -> None:
    """A network is updated on the output of another one that has an optimizer of its own, which does not step here."""
    for critic in through:
        for maker in through:
            if maker.site not in critic.inputs or maker.module == critic.module or critic.module not in applied:
                continue
            if maker.module in applied or maker.module not in trained or maker.guards != critic.guards:
                continue
            if any({maker.site, critic.site} <= roots for roots in wanted):
                continue  # the same output is what another backward pass needs
            report(
                critic.site,
                f"The backward pass of this step {{will run}} on through `{program.sources.text(maker.site)}`, whose "
                "network the step does not update: its gradients are thrown away, or spoil its own step. Detach the "
                "output.",
                because=[maker.trace, critic.trace, backward.trace],
                gaps=[Gap.CONVENTION],
            )


def _check_fixed(
    program: Program,
    report: Report,
    backwards: list[Backward],
    forwards: dict[object, list[Forward]],
    trained: frozenset[ObjectId],
) -> None:
    """A network that nothing trains, and that nothing trained feeds, is a part of the graph of a loss."""
    known = [made for made in program.of(OptimizerMade) if made.is_complete]
    if not trained or len(known) != len(list(program.of(OptimizerMade))) or not known:
        return
    parts = frozenset(part for made in known for part in made.parts) | trained
    for backward in backwards:
        others = any(each.module in parts for site in backward.roots for each in forwards.get(site, ()))
        for forward in (each for site in backward.roots for each in forwards.get(site, ()) if others):
            has_graph = forward.has_graph == "yes" and forward.is_frozen == "no"
            is_fixed = has_graph and forward.is_eval == "yes" and forward.mode is not None
            if not is_fixed or forward.module in parts or forward.inputs or not program.has_parameters(forward):
                continue
            report(
                forward.site,
                f"No optimizer updates the network behind `{program.sources.text(forward.site)}`, and it runs in "
                "evaluation mode, but the backward pass {will run} through it. Compute its output under "
                "`torch.no_grad()`.",
                because=[step for step in (forward.mode, forward.trace, backward.trace) if step],
                gaps=[Gap.CONVENTION],
            )
