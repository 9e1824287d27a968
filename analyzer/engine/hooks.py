"""Methods that a framework calls in a loop of its own: which framework a class belongs to, and what holds around them.

A class that derives from a base class of a framework is run hook by hook, as the framework would: inside its epochs and
steps, with the modes it sets, and with the backward pass and the step that it makes itself. Which methods these are is
data (`analyzer.knowledge.ownership`).
"""

from __future__ import annotations

from analyzer.engine.events import Clear, Loop, Step
from analyzer.engine.machine import Machine
from analyzer.engine.state import State
from analyzer.engine.trace import Site, start
from analyzer.engine.uses import Uses
from analyzer.engine.values import Class, External, Func, ObjectId, Ref, Scalar, Tensor, Value, truth
from analyzer.knowledge.ownership import Framework, Hook
from analyzer.knowledge.schema import Knowledge
from analyzer.syntax import ir

MAX_BASES = 10


def framework_of(knowledge: Knowledge, cls: Class, depth: int = 0) -> Framework | None:
    """The framework that a class belongs to: by a base class, or, where that was not read, by the methods it has."""
    unread = False
    for case in (case for base in cls.bases for case in base.cases):
        found = None
        if isinstance(case, Class):
            found = framework_of(knowledge, case, depth + 1) if depth < MAX_BASES else None
        elif isinstance(case, External):
            found = knowledge.framework(case.name)
            unread = unread or knowledge.row(case.name) is None
        else:
            unread = True
        if found is not None:
            return found
    return by_shape(knowledge, cls) if unread else None


def by_shape(knowledge: Knowledge, cls: Class) -> Framework | None:
    """A framework all of whose telling methods a class defines."""
    methods = {each.name for each in cls.node.body if isinstance(each, ir.FunctionDef)}
    return next((each for each in knowledge.frameworks if each.shape and methods >= set(each.shape)), None)


def is_manual(machine: Uses, framework: Framework, this: Ref, state: State, uses: frozenset[str]) -> bool:
    """Whether a class takes back what its framework owns: it says so in an attribute, or makes the calls itself."""
    cls = machine.obj(this).cls
    for name in framework.manual:
        value = state.get((this.obj, name)) or (machine.class_attribute(cls, name, state) if cls is not None else None)
        if value is not None and (truth(value) is False or any(isinstance(case, Func) for case in value.cases)):
            return True
        if f"self.{name}" in uses:
            return True
    return False


def loops_around(machine: Machine, cls: Class, hook: Hook) -> tuple[Loop, ...]:
    """The framework's loops over epochs and steps. A class stands for the loop over epochs, its body for the steps."""
    site = Site(cls.path, cls.node.at)
    trace = start(site, "the framework calls the hooks of this class in its loop")
    stage = "evaluation" if hook.is_evaluation else "training"
    nest = (Loop(site, "framework", trace, f"{stage} epochs"), Loop(site, "framework", trace, f"{stage} steps"))
    return {"step": nest, "epoch": nest[:1]}.get(hook.per, ())


def argument(machine: Machine, kind: str, name: str, at: int) -> Value | None:
    """What a framework gives a hook for a parameter of a kind."""
    if kind == "batch":
        return Tensor(is_opaque=True, is_batch=True, trace=start(machine.site(at), "a batch that the framework draws"))
    if kind == "number":
        return Scalar()
    if kind == "any":
        return None
    return machine.create(("given", name), at, kind, f"the framework gives `{name}`", born="argument")


def updates(machine: Machine, framework: Framework, modules: frozenset[ObjectId], at: int, is_after: bool) -> None:
    """What a framework does around a training hook: it clears the gradients before, and steps after."""
    trace = start(machine.site(at), f"{framework.name} does this around the hook")
    if not is_after and "zero_grad" in framework.owns:
        machine.emit(Clear, at, trace, modules=modules, framework=framework.name)
    if is_after and "step" in framework.owns:
        machine.emit(
            Step, at, trace, optimizer=None, modules=modules, is_stale="no", born_in=(), clears=True,
            framework=framework.name,
        )  # fmt: skip
