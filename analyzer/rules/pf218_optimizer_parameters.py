"""PF218 optimizer-parameters."""

from __future__ import annotations

from analyzer.engine.data_events import Restored
from analyzer.engine.events import Backward, Escape, Forward, Step
from analyzer.engine.machine import CONTAINERS
from analyzer.engine.optim_events import LayerReplaced, OptimizerMade, ParametersAdded
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.values import MAX_ROOTS, ObjectId
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.iteration import exclude, extra_guards, in_one_iteration, nest_of
from analyzer.rules.siblings import left_out
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, walk


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
    Of the parts of a model that an optimizer gets by name, only another part of random weights, which the loss goes
    through, is missed. When the new layer gets an optimizer of its own or is added with ``add_param_group``; when the
    optimizer is built anew; when one of several optimizers is meant for other losses of the same loop; when code that
    was not seen may connect the modules. A module that no optimizer holds may be frozen, in evaluation mode,
    pretrained, or of the same class as one that is trained (a target or teacher network follows it). What no optimizer
    holds is a note: it is often meant (noise that is optimised through a network, a loss with weights of its own). So
    is a step of another optimizer than the one whose modules the backward pass was seen to go through.

    ## Fix safety
    No automatic fix: the order of construction is the author's.
    """

    code = "PF218"
    name = "optimizer-parameters"
    severity = Severity.ERROR
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """Layers that come after the optimizer, and steps whose parameters no backward pass reaches."""
        made = list(program.of(OptimizerMade))
        if made:
            _replaced(program, report, made)
            if not program.is_cut:
                _unreached(program, report, made)
                if not report.drafts:
                    _given_twice(program, report, made)
                if not report.drafts:
                    _left_out(program, report, made)
                if not report.drafts:
                    _parts_left_out(program, report, made)
        if not report.drafts and not program.is_cut:
            _siblings_left(program, report)


def _replaced(program: Program, report: Report, made: list[OptimizerMade]) -> None:
    """An optimizer is built, then a module of its gets another layer."""
    for layer in program.of(LayerReplaced):
        later = [event for event in made if event.order > layer.order and event.parts & layer.layers]
        added = [event for event in program.of(ParametersAdded) if event.order > layer.order]
        holders = [event for event in made if event.order < layer.order and layer.owner in event.parts]
        if later or added or not holders or not any(program.may_be_trained(each) for each in layer.layers):
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
            gaps=[Gap.CONVENTION] if not steps or extra_guards(layer, holders[-1]) else [],
        )


def _unreached(program: Program, report: Report, made: list[OptimizerMade]) -> None:
    """A step in a loop none of whose backward passes goes through a module that the optimizer holds."""
    passes: dict[Site, list[Forward]] = {}
    for forward in program.of(Forward):
        passes.setdefault(forward.root, []).append(forward)
    whole = {event.optimizer for event in made if event.is_complete}
    for step in program.of(Step):
        nest = nest_of(step)
        if not nest or step.optimizer not in whole or not step.modules:
            continue
        backwards = list(program.within(Backward, nest))
        reached = _reached(program, backwards, passes)
        if not reached or reached & step.modules:
            continue
        if any(_is_opaque(forward, step) for forward in program.within(Forward, nest)):
            continue
        if all(program.objects[module].born in {"unseen", "called"} for module in step.modules):
            continue  # code that was not read has made it, and may run it
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


def _given_twice(program: Program, report: Report, made: list[OptimizerMade]) -> None:
    """Two optimizers that step in turn hold the same modules, and the backward pass before one of the steps goes
    through a module that no optimizer holds: it was meant to be given to that one."""
    if not all(_is_whole(program, event) for event in made) or any(program.of(ParametersAdded)):
        return
    held = frozenset(part for event in made for part in event.parts)
    steps, passes = list(program.of(Step)), list(program.of(Backward))
    for index, event in enumerate(made):
        twin = next((each for each in made[:index] if each.modules == event.modules), None)
        if twin is None or not event.modules or exclude(twin, event) or twin.loops != event.loops:
            continue
        if (twin.site, twin.calls) == (event.site, event.calls):
            continue  # ``OPTIMIZERS[name](parameters)`` makes one of several
        mine, its = ([s for s in steps if s.optimizer == each.optimizer] for each in (event, twin))
        pair = next(((a, b) for a in mine for b in its if in_one_iteration(program, a, b) and not exclude(a, b)), None)
        if pair is None:
            continue
        near = [each for each in passes for step in pair if in_one_iteration(program, each, step)]
        missed = next((each for each in program.of(Forward) if _is_missed(program, each, held, near)), None)
        if missed is None:
            continue
        backward = next(each for each in near if missed.root in each.roots)
        report(
            event.site,
            "This optimizer {does hold} the same parameters as another one that steps beside it, and no optimizer "
            f"holds those of the network behind `{program.sources.text(missed.site)}`, which the backward pass goes "
            "through: it is never trained.",
            because=[twin.trace, program.objects[event.optimizer].trace, missed.trace, backward.trace],
            gaps=[Gap.CONVENTION],
        )
        return


def _is_missed(program: Program, forward: Forward, held: frozenset[ObjectId], near: list[Backward]) -> bool:
    """Whether a network that no optimizer holds learns, as far as its own passes show."""
    if forward.module is None or forward.parts & held or forward.module in program.followers or forward.is_dry:
        return False
    is_run = (forward.grad, forward.has_graph, forward.is_frozen) == ("yes", "yes", "no") and forward.is_eval != "yes"
    is_made = program.objects[forward.module].born not in {"eval", "called"} and bool(forward.parts)
    is_near = any(forward.root in each.roots and len(each.roots) < MAX_ROOTS for each in near)
    return is_run and is_made and is_near and program.has_parameters(forward)


def _is_opaque(forward: Forward, step: Step) -> bool:
    """Whether a network that the step updates runs, and what it gives was not followed: it may be what is trained."""
    return bool(forward.parts & step.modules) and forward.grad != "no" and forward.has_graph != "yes"


def _left_out(program: Program, report: Report, made: list[OptimizerMade]) -> None:
    """A module that a training step runs backward through, and whose parameters no optimizer holds."""
    steps = list(program.of(Step))
    held = frozenset(part for event in made for part in event.parts)
    if not steps or not all(_is_whole(program, event) for event in made) or any(program.of(ParametersAdded)):
        return
    if not held:  # what is optimised is a tensor that goes through the network: an image, noise, a latent code
        return
    known = {event.optimizer for event in made}
    if any(step.optimizer not in known for step in steps):
        return
    handed = frozenset(obj for event in program.of(Escape) if event.how == "call" for obj in event.objects)
    passes = list(program.of(Backward))
    seen: set[ObjectId] = set()
    for forward in program.of(Forward):
        module = forward.module
        if module is None or module in seen or module in program.followers or forward.parts & (held | handed):
            continue
        is_sibling = _is_sibling(program, forward, held)
        if not is_sibling and not _is_trainable(program, forward):
            continue
        if not is_sibling and any(_is_twin(program, module, other) for other in held):
            continue
        backward = next((each for each in passes if forward.root in each.roots and each.order > forward.order), None)
        after = [s for s in steps if backward and in_one_iteration(program, s, backward) and s.order > backward.order]
        step = next(iter(after), None)
        if backward is None or step is None or len(backward.roots) >= MAX_ROOTS:
            continue
        seen.add(module)
        optimizer = next(event for event in made if event.optimizer == step.optimizer)
        report(
            optimizer.site,
            f"The backward pass computes gradients for the module behind `{program.sources.text(forward.site)}`, but "
            "no optimizer holds its parameters: it {is} never trained. Add its parameters to an optimizer, or "
            "freeze it.",
            because=[program.objects[module].trace, forward.trace, backward.trace, optimizer.trace],
            gaps=[Gap.UNSEEN if _gets_weights(program) else Gap.CONVENTION],
            severity=Severity.NOTE,
        )


def _is_sibling(program: Program, forward: Forward, held: frozenset[ObjectId]) -> bool:
    """Whether a network was made as one that is trained was, by a class that was not read, and learns beside it: of two
    generators, the other one."""
    assert forward.module is not None
    is_run = (forward.grad, forward.has_graph, forward.is_frozen) == ("yes", "yes", "no") and forward.is_eval != "yes"
    maker = _maker(program, forward.module)
    return is_run and bool(forward.parts) and maker != "" and any(_maker(program, other) == maker for other in held)


def _maker(program: Program, module: ObjectId) -> str:
    site = program.made_by.get(module)
    node = words(program).node(site) if site is not None and program.objects[module].born == "unseen" else None
    return (dotted(node.callee) or "") if isinstance(node, ir.Call) else ""


def _parts_left_out(program: Program, report: Report, made: list[OptimizerMade]) -> None:
    """Optimizers get some parts of a model by name, and another part of random weights, which a backward pass goes
    through, is in none of them."""
    held = frozenset(part for event in made for part in event.parts)
    if not all(_is_whole(program, event) for event in made) or any(program.of(ParametersAdded)):
        return
    steps, backwards = list(program.of(Step)), list(program.of(Backward))
    handed = frozenset(obj for event in program.of(Escape) if event.how == "call" for obj in event.objects)
    is_restored = _gets_weights(program)
    for event in made:
        for owner, name, parts in event.left:
            if (
                parts & (held | program.followers)
                or not _are_random(program, parts)
                or not _is_run(program, owner, name)
            ):
                continue
            layers = [part for part in parts if program.objects[part].name]
            if any(_is_twin(program, part, other) for part in layers for other in event.modules):
                continue
            forward = next((each for each in program.of(Forward) if _learns(each, owner, parts, backwards)), None)
            step = next((each for each in steps if each.optimizer == event.optimizer or each.framework), None)
            if forward is None or step is None:
                continue
            report(
                event.site,
                f"This optimizer gets parts of the model, and no optimizer gets `{name}`, which the loss goes through: "
                "it {is} never trained. Add its parameters, or freeze it.",
                because=[program.objects[min(parts)].trace, forward.trace, program.objects[event.optimizer].trace],
                gaps=[Gap.UNSEEN if is_restored or handed & parts else Gap.CONVENTION],
                severity=Severity.NOTE,
            )
            return


def _siblings_left(program: Program, report: Report) -> None:
    """Of two networks that run side by side, and were not read, an optimizer is given one, and none the other."""
    if any(program.of(ParametersAdded)):
        return
    for each in left_out(program):
        report(
            each.optimizer,
            f"`{each.name}` runs beside `{each.held}`, whose parameters an optimizer gets, and no optimizer of this "
            "file gets its own: it {is} never trained. Add its parameters.",
            because=[start(each.run, "it runs here"), start(each.optimizer, "parameters are given here")],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,
        )


def _gets_weights(program: Program) -> bool:
    """Whether weights are read that may be trained already: those of a run that is resumed come with its optimizer."""
    restored = list(program.of(Restored))
    resumed = {
        site
        for event in restored
        if event.into is not None and program.objects[event.into].kind in {"Optimizer", "Stepper"}
        for site in event.read
    }
    return any(not event.read & resumed for event in restored)


def _learns(forward: Forward, owner: ObjectId, parts: frozenset[ObjectId], backwards: list[Backward]) -> bool:
    """Whether a backward pass goes through a forward pass of what holds some parts."""
    is_run = forward.grad != "no" and forward.has_graph == "yes" and forward.is_eval != "yes"
    is_of = forward.module == owner or parts <= forward.parts
    return is_run and is_of and any(forward.root in each.roots for each in backwards)


def _are_random(program: Program, parts: frozenset[ObjectId]) -> bool:
    """Whether parts are layers of torch that were made here, with weights among them."""
    objects = [obj for obj in (program.objects[part] for part in parts) if obj.name or obj.kind not in CONTAINERS]
    if any(obj.cls is not None or obj.born or not obj.name.startswith("torch.nn.") for obj in objects):
        return False
    rows = [program.knowledge.row(obj.name) for obj in objects]
    return any(row is not None and row.graph == "parameters" for row in rows)


def _is_run(program: Program, owner: ObjectId, name: str) -> bool:
    """Whether a method of the owner's class calls the part, or takes it out of a list."""
    cls = program.objects[owner].cls
    methods = [node for node in cls.node.body if isinstance(node, ir.FunctionDef)] if cls is not None else []
    return any(
        (isinstance(node, ir.Call) and dotted(node.callee) == f"self.{name}")
        or (
            isinstance(node, (ir.Subscript, ir.For))
            and dotted(node.value if isinstance(node, ir.Subscript) else node.iter) == f"self.{name}"
        )
        for method in methods
        if method.name != "__init__"
        for node in walk(method.body, True)
    )


def _is_whole(program: Program, made: OptimizerMade) -> bool:
    """Whether all that an optimizer holds is known: parameters of modules, or tensors of none."""
    return made.is_complete or program.objects[made.optimizer].born == "tensors"


def _is_twin(program: Program, module: ObjectId, other: ObjectId) -> bool:
    """Whether two modules are of one class: a target or teacher network follows the one that is trained."""
    one, two = program.objects[module], program.objects[other]
    if one.cls is None or two.cls is None:
        return one.cls is two.cls and (one.name, one.arguments) == (two.name, two.arguments)
    return one.cls.node is two.cls.node


def _is_trainable(program: Program, forward: Forward) -> bool:
    """Whether a module was made here, of random weights, and nothing says that it should stay as it is."""
    assert forward.module is not None
    obj = program.objects[forward.module]
    if (
        (obj.cls is None and not obj.name.startswith("torch.nn."))
        or obj.kind != "Module"
        or "?" in obj.name  # ``getattr(nn, name)()`` may be a loss
        or obj.born in {"eval", "argument", "called", "unseen"}
    ):
        return False
    is_run = forward.has_graph == "yes" and forward.grad == "yes" and forward.is_frozen == "no"
    return (
        is_run
        and program.has_parameters(forward)
        and _owns_weights(program, forward)
        and forward.is_eval != "yes"
        and bool(forward.parts)
    )


def _owns_weights(program: Program, forward: Forward) -> bool:
    """Whether a part of the module is a layer with weights, or a class of the repository makes parameters."""
    for part in forward.parts:
        obj = program.objects[part]
        row = program.knowledge.row(obj.name) if obj.name else None
        if row is not None and row.graph == "parameters":
            return True
        if obj.cls is not None and _makes_parameters(obj.cls.node):
            return True
    return False


@remembered(maxsize=512)
def _makes_parameters(cls: ir.ClassDef) -> bool:
    rest: list[object] = []
    for node in cls.body:
        if not isinstance(node, ir.FunctionDef):
            rest.append(node)
            continue
        rest += [node.decorators, node.params, node.returns]
        if any("()" in how and name.rpartition(".")[2] == "Parameter" for name, how in node.uses.items()):
            return True
    calls = (dotted(node.callee) or "" for node in walk(tuple(rest), True) if isinstance(node, ir.Call))
    return any(name.rpartition(".")[2] == "Parameter" for name in calls)


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
                found |= forward.parts | forward.given
    return frozenset(found)
