"""PF218 optimizer-parameters."""

from __future__ import annotations

from analyzer.engine.events import Backward, Escape, Forward, Step
from analyzer.engine.optim_events import LayerReplaced, OptimizerMade, ParametersAdded
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.values import MAX_ROOTS, ObjectId
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.iteration import nest_of


class OptimizerParameters(Rule):
    """An optimizer holds other parameters than those that are trained.

    ## Why it matters
    An optimizer keeps the parameters it was given. A layer that is put in place later is not among them and stays at
    its random values; parameters that no loss reaches are never moved. Nothing fails.

    ## Example
    ```python
    optimizer = torch.optim.Adam(model.parameters())
    model.fc = nn.Linear(512, 10)
    ```

    ## Use instead
    ```python
    model.fc = nn.Linear(512, 10)
    optimizer = torch.optim.Adam(model.parameters())
    ```

    ## When it stays quiet
    When the new layer gets an optimizer of its own or is added with ``add_param_group``; when the optimizer is built
    anew; when one of several optimizers is meant for other losses of the same loop; when code that was not seen may
    connect the modules.

    ## Fix safety
    No automatic fix: the order of construction is the author's.
    """

    code = "PF218"
    name = "optimizer-parameters"
    severity = Severity.ERROR
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """Layers that come after the optimizer, and steps whose parameters no backward pass reaches."""
        made = list(program.of(OptimizerMade))
        if made:
            _replaced(program, report, made)
            if not program.is_cut:
                _unreached(program, report, made)


def _replaced(program: Program, report: Report, made: list[OptimizerMade]) -> None:
    """An optimizer is built, then a module of its gets another layer."""
    for layer in program.of(LayerReplaced):
        later = [event for event in made if event.order > layer.order and event.parts & layer.layers]
        added = [event for event in program.of(ParametersAdded) if event.order > layer.order]
        holders = [event for event in made if event.order < layer.order and layer.owner in event.parts]
        if later or added or not holders:
            continue
        steps = [step for step in program.of(Step) if step.optimizer == holders[-1].optimizer]
        handed = [event for event in program.of(Escape) if holders[-1].optimizer in event.objects]
        if not any(step.order > layer.order for step in steps) and not handed:
            continue
        report(
            layer.site,
            f"The optimizer was built before `{layer.name}` {{is}} replaced: it holds the parameters of the old layer, "
            "and the new one is never trained. Build the optimizer afterwards.",
            because=[holders[-1].trace, layer.layer, start(layer.site, "the layer is put in place here")],
            gaps=[] if steps else [Gap.CONVENTION],
        )


def _unreached(program: Program, report: Report, made: list[OptimizerMade]) -> None:
    """A step in a loop none of whose backward passes goes through a module that the optimizer holds."""
    passes: dict[Site, list[Forward]] = {}
    for forward in program.of(Forward):
        passes.setdefault(forward.site, []).append(forward)
    whole = {event.optimizer for event in made if event.is_complete}
    for step in program.of(Step):
        nest = nest_of(step)
        if not nest or step.optimizer not in whole or not step.modules:
            continue
        backwards = list(program.within(Backward, nest))
        reached = _reached(program, backwards, passes)
        if not reached or reached & step.modules:
            continue
        mine = step.modules | {step.optimizer}
        if any(event.how == "call" and event.objects & mine for event in program.of(Escape)):
            continue
        report(
            step.site,
            "No backward pass of this loop goes through the modules whose parameters this optimizer holds: the step "
            "{does change} nothing that is trained. Another optimizer, or the parameters of another module, are meant.",
            because=[program.objects[step.optimizer].trace, backwards[-1].trace, step.trace],
            gaps=[Gap.CONVENTION],
        )


def _reached(
    program: Program, backwards: list[Backward], passes: dict[Site, list[Forward]]
) -> frozenset[ObjectId] | None:
    """All modules that some backward passes go through; None where that is not wholly known."""
    found: set[ObjectId] = set()
    for backward in backwards:
        if not backward.roots or len(backward.roots) >= MAX_ROOTS:
            return None
        for root in backward.roots:
            forwards = passes.get(root, [])
            if not forwards:
                return None
            for forward in forwards:
                if forward.module is None or not forward.parts or program.objects[forward.module].trace.gap:
                    return None
                found |= forward.parts
    return frozenset(found)
