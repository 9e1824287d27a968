"""How bad a graph that is kept is: a part of PF101."""

from __future__ import annotations

from analyzer.engine.called import is_never_named
from analyzer.engine.events import Backward, Forward, Loop, Step, Store
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap
from analyzer.engine.values import Tensor, Unknown
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.rules.entered import is_assumed
from analyzer.rules.iteration import extra_guards
from analyzer.rules.short_stores import (
    is_evaluated,
)
from analyzer.rules.sums import is_set_back
from analyzer.syntax import ir
from analyzer.syntax.scope import assigned_names, dotted, each_target, last_name, target_names, walk

_SIZES = frozenset({"size", "shape"})


def severity_of(
    program: Program,
    store: Store,
    carrier: Tensor | Unknown,
    freed: Backward | None,
    loops: tuple[Loop, ...],
    gaps: list[Gap],
) -> Severity:
    """What keeps a graph that no backward frees is death by memory, and an error, where all of it was seen: a network
    runs over data, or between steps that train, in a loop that the data or the training ends. Where a convention
    decides, it is a warning if a network runs over data by what was seen, and a note if what is kept comes out of code
    that was not read. How often another loop runs, or whether a function that nobody names runs, the text does not say.
    """
    passes = [event for event in program.of(Forward) if event.root in carrier.roots]
    is_over_all = any(_is_long(program, loop) for loop in loops)
    if freed:
        is_of_network = bool(passes) or any(event.site in store.calls for event in program.of(Forward))
        is_vague = (gaps and not is_of_network) or is_set_back(program, store) or store.site.path.endswith(".ipynb")
        is_brief = (
            _ends_with_call(program, store, loops)
            or _is_of_one_step(program, store, loops)
            or _is_by_name(program, store, loops)
            or _is_of_one_hook(store, loops)
        )
        is_offered = is_never_named(program, store.calls) or _is_switched(program, store, freed)
        return Severity.NOTE if is_vague or is_brief or is_offered else Severity.WARNING
    is_over_data = any(event.on_batch or any(loop.kind == "data" for loop in event.loops) for event in passes)
    is_long = is_over_all or any(program.within(Step, loops))
    if not is_long or is_never_named(program, store.calls):
        return Severity.NOTE
    if not gaps:
        return Severity.ERROR
    is_read = isinstance(carrier, Tensor) and not carrier.is_opaque
    is_over_data = is_over_data and any(_gives_batches(program, loop) for loop in loops)
    if passes and all(map(is_assumed, passes)):
        return Severity.NOTE  # a method that was not read, and may give words or numbers
    return Severity.WARNING if is_over_data and (is_read or is_evaluated(program, carrier)) else Severity.NOTE


def _ends_with_call(program: Program, store: Store, loops: tuple[Loop, ...]) -> bool:
    """Whether what is kept lives for one call of a function whose callers were not seen, over the steps of the tensors
    that it is given: ``for t in range(rewards.size(1))``."""
    is_called = bool(store.calls) and store.calls[0] in program.entries
    over = [node.iter if isinstance(node := words(program).node(loop.site), ir.For) else None for loop in loops]
    return is_called and all(
        each is not None
        and any(isinstance(part, ir.Attribute) and part.attr in _SIZES for part in walk((each,), False))
        for each in over
    )


def _is_by_name(program: Program, store: Store, loops: tuple[Loop, ...]) -> bool:
    """Whether what is kept lies under what the loop goes over, in something that the same call has made: one item of
    each name (``for task in tasks: losses[task] = …``)."""
    node, loop = words(program).node(store.site), words(program).node(loops[-1].site)
    if not isinstance(node, ir.Assign) or not isinstance(loop, ir.For) or not isinstance(store.into, int):
        return False
    if program.function_around(program.objects[store.into].trace.site) is not program.function_around(store.site):
        return False
    over = set(target_names(loop.target))
    keys = (to.index for to in each_target(node) if isinstance(to, ir.Subscript))
    is_known = any(program.objects[obj].kind in {"Loader", "Data"} for obj in loops[-1].over)
    return not is_known and any(isinstance(key, ir.Name) and key.id in over for key in keys)


def _is_switched(program: Program, store: Store, freed: Backward) -> bool:
    """Whether a flag of an object or of a configuration decides whether anything is kept, and not whether it trains
    (``if self.saves_scores:``): a metric that nobody may ask for."""
    tests = (words(program).node(guard.site) for guard in extra_guards(store, freed))
    return any(isinstance(test, ir.Attribute) or _is_flag(test) for test in tests)


def _is_flag(node: object) -> bool:
    return isinstance(node, ir.If) and isinstance(node.test, ir.Attribute)


def _is_of_one_step(program: Program, store: Store, loops: tuple[Loop, ...]) -> bool:
    """Whether what is kept begins anew with each step of the optimizer, and adds up the few backward passes before it:
    ``for _ in range(accumulate): …; loss.backward(); total += loss``."""
    around = store.loops[: len(store.loops) - len(loops)]
    is_counted = all(loop.kind in {"range", "while"} for loop in loops)
    return is_counted and any(program.within(Step, around)) and not any(program.within(Step, store.loops))


def _is_of_one_hook(store: Store, loops: tuple[Loop, ...]) -> bool:
    """Whether what is kept adds up the steps that a hook takes with one batch, and begins anew when the framework calls
    it again: ``for _ in range(self.num_steps): …`` in ``training_step``."""
    around = store.loops[: len(store.loops) - len(loops)]
    return any(loop.kind == "framework" for loop in around) and all(loop.kind == "range" for loop in loops)


def _gives_batches(program: Program, loop: Loop) -> bool:
    """Whether a loop that is taken to go over data may go over batches: not where what it goes over was not seen, and
    each item is still to be made a tensor (``for text in texts: model(torch.tensor(text))``)."""
    node = words(program).node(loop.site)
    is_known = loop.kind != "data" or any(program.objects[obj].kind in {"Loader", "Data"} for obj in loop.over)
    if is_known or not isinstance(node, ir.For) or not isinstance(node.target, ir.Name):
        return True
    calls = (part for part in walk(node.body, False) if isinstance(part, ir.Call))
    made = (call for call in calls if "tensor" in last_name(call.callee).lower())
    items = {node.target.id}
    for each in node.body:  # ``item = text``
        if isinstance(each, ir.Assign) and isinstance(each.value, ir.Name) and each.value.id in items:
            items |= set(assigned_names(each))
    return not any(isinstance(arg.value, ir.Name) and arg.value.id in items for call in made for arg in call.args)


def _is_long(program: Program, loop: Loop) -> bool:
    """Whether a loop goes over data, also in pieces that are cut by hand (``range(0, n, size)``)."""
    node = words(program).node(loop.site)
    over = node.iter if isinstance(node, ir.For) else None
    is_cut = (
        isinstance(over, ir.Call) and dotted(over.callee) == "range" and len(over.args) == len(("from", "to", "by"))
    )
    return loop.kind in {"data", "framework"} or is_cut
