"""Stores that end with a step, a batch or a list: what they keep does not pile up."""

from __future__ import annotations

from collections.abc import Collection

from analyzer.engine.events import Backward, Forward, Loop, Step, Store
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.values import Scalar, Tensor, Unknown
from analyzer.engine.words import words
from analyzer.knowledge.words import pattern
from analyzer.syntax import ir
from analyzer.syntax.scope import assigned_names, dotted, last_name, target_names, target_values, walk

_HANDFUL = 16
_BACKWARD = frozenset({"backward", "manual_backward"})
_REORDERS = frozenset({"sorted", "zip", "reversed", "enumerate", "list", "tuple"})


def is_evaluated(program: Program, carrier: Tensor | Unknown) -> bool:
    """Whether the passes run in evaluation mode: that gradients are on there, PF102 says."""
    passes = networks_in(program, carrier)
    return bool(passes) and all(event.is_eval == "yes" for event in passes)


def networks_in(program: Program, carrier: Tensor | Unknown) -> list[Forward]:
    """The passes of networks that a graph comes from: a criterion that was made by `nn.CrossEntropyLoss()`, never told
    to evaluate, has no mode to speak of."""
    passes = [event for event in program.of(Forward) if event.root in carrier.roots]
    return [event for event in passes if program.has_parameters(event)]


def is_short(program: Program, store: Store, loops: tuple[Loop, ...]) -> bool:
    """Whether a store lives for a counted loop inside one step over the data (a few updates of a discriminator), or for
    the rows of one batch (the tasks of a meta-learner)."""
    if all(_is_over_rows(program, loop) for loop in loops):
        return True
    around = store.loops[: len(store.loops) - len(loops)]
    return all(loop.kind == "range" for loop in loops) and any(loop.kind == "data" for loop in around)


def _is_over_rows(program: Program, loop: Loop) -> bool:
    """Whether a loop goes over the rows of one tensor: what it is over is asked for its shape as well."""
    node, function = words(program).node(loop.site), program.function_around(loop.site)
    names = _gone_over(node.iter) if isinstance(node, ir.For) else set[str]()
    if function is None or not names:
        return loop.runs_over == "tensor"
    return any(
        isinstance(part, ir.Attribute)
        and part.attr in {"shape", "size", "dim"}
        and isinstance(part.value, ir.Name)
        and part.value.id in names
        for part in walk(function.body, False)
    )


def _gone_over(iterable: ir.Expr) -> set[str]:
    """The names in ``x``, ``zip(x, y)``, ``enumerate(x)``."""
    if isinstance(iterable, ir.Name):
        return {iterable.id}
    if not isinstance(iterable, ir.Call) or dotted(iterable.callee) not in {"zip", "enumerate"}:
        return set()
    return {name for arg in iterable.args for name in _gone_over(arg.value)}


def is_over_models(program: Program, store: Store, carrier: Tensor | Unknown, loops: tuple[Loop, ...]) -> bool:
    """Whether the loops go over the models that are called, an ensemble: as many outputs as there are models. Each may
    be one item of a list, or what holds one: ``self.critics[agent](x)``, ``agent.update(x)``. Or over the optimizers
    that step, in one step of training: as many losses as it has optimizers."""
    if _is_over_optimizers(program, store, loops):
        return True
    passes = [event for event in program.of(Forward) if event.root in carrier.roots]
    return bool(passes) and all(
        drawn_names(program, loop)
        & {
            name
            for event in passes
            for site in (event.site, *event.calls[loop.depth :][:1])
            for name in _chosen_by(program, site)
        }
        for loop in loops
    )


def _is_over_optimizers(program: Program, store: Store, loops: tuple[Loop, ...]) -> bool:
    """``for each in self.optimizers: each.step()``; a loop that counts may go on longer than there are optimizers,
    where these were not read."""
    steps = list(program.within(Step, store.loops))
    return bool(steps) and all(
        any(
            drawn_names(program, loop) & stepped_by(program, step.site)
            for step in steps
            if step.optimizer is not None or loop.kind != "range"
        )
        for loop in loops
    )


def stepped_by(program: Program, site: Site) -> set[str]:
    """The names that say which optimizer a call steps: ``each["optimizer"].step()``, ``scaler.step(each)``."""
    call = words(program).node(site)
    given = [arg.value for arg in call.args[:1]] if isinstance(call, ir.Call) else []
    return _chosen_by(program, site).union(*(_indices(value) for value in given))


def _chosen_by(program: Program, site: Site) -> set[str]:
    """The names that say which model a call is of: ``model`` of ``model.encode(x)``, ``i`` of ``self.models[i](x)``,
    also where a name was given to it before."""
    call = words(program).node(site)
    callee = call.callee if isinstance(call, ir.Call) else None
    found = set[str]()
    if isinstance(callee, ir.Name):
        assigns = [node for node in _statements(program, site) if isinstance(node, ir.Assign)]
        given = (value for node in assigns for to, value in target_values(node) if dotted(to) == callee.id)
        found = {name for value in given if isinstance(value, ir.Subscript) for name in _indices(value)}
    return found | _indices(callee)


def is_of_one_batch(program: Program, sites: Collection[Site], around: tuple[Loop, ...]) -> bool:
    """Whether what is called is given items of the loops around (a batch): loops inside of these, over models, scales
    or views, go through that batch again."""
    drawn = {name for loop in around for name in drawn_names(program, loop)}
    for site in sites:
        call = words(program).node(site)
        names = (
            {name for arg in call.args for name in _read_by(arg.value)[0]} if isinstance(call, ir.Call) else set[str]()
        )
        for _ in range(2):  # ``x = aug(batch)``
            assigns = [node for node in _statements(program, site) if isinstance(node, ir.Assign)]
            given = (value for node in assigns for to, value in target_values(node) if dotted(to) in names)
            names = names.union(*(_read_by(value)[0] for value in given))
        if names & drawn:
            return True
    return False


def _indices(node: ir.Expr | None) -> set[str]:
    """The names in the indices of a chain of attributes and items, and the one that it begins with."""
    found = set[str]()
    while isinstance(node, (ir.Attribute, ir.Subscript)):
        if isinstance(node, ir.Subscript) and isinstance(node.index, ir.Name):  # not `nets[step % 2]`
            found.add(node.index.id)
        node = node.value
    return found | {node.id} if isinstance(node, ir.Name) else found


def drawn_names(program: Program, loop: Loop) -> set[str]:
    """The names that a loop, or a clause of a comprehension, gives its items."""
    node = words(program).node(loop.site)
    if isinstance(node, ir.For):
        return set(target_names(node.target))
    function, unit = program.function_around(loop.site), program.unit(loop.site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    clauses = (part.clauses for part in walk(body, into_functions=False) if isinstance(part, ir.Comprehension))
    found = [clause.target for each in clauses for clause in each if clause.iter.at == loop.site.at]
    return {name for target in found for name in target_names(target)}


_NUMBERS = frozenset({"item", "tolist", "numpy"})


def is_other_item(program: Program, store: Store, carrier: Tensor | Unknown) -> bool:
    """Whether what is kept is one of several things that code which was not read gave together, and not what runs
    backward: ``loss, count = self.criterion(output, y)``."""
    trace = carrier.trace
    if not isinstance(carrier, Tensor) or trace is None:
        return False
    site, value = store.site, words(program).node(Site(store.site.path, store.value_at))
    function = program.function_around(site)
    names = _plain_names(value) if isinstance(value, ir.Expr) else set()
    params = [param.name for param in function.params] if function is not None else []
    if names & set(params) and store.calls:  # a meter: what it was given
        site, call = store.calls[-1], words(program).node(store.calls[-1])
        given = _given(call, params) if isinstance(call, ir.Call) else {}
        names = {name for param in names & given.keys() for name in _plain_names(given[param])}
    elif not isinstance(value, ir.Name):
        return False
    nodes = _statements(program, site)
    counts = {name for name in names if pattern("counts").search(name)}
    together = names & _unpacked(nodes, trace.site.at)
    if together - counts and not (carrier.is_opaque or trace.gap):
        return False
    return bool(together) and not (names - counts) & _run_backward(nodes)


def _given(call: ir.Call, params: list[str]) -> dict[str, ir.Expr]:
    """What a call gives each parameter, those of a method without its object."""
    own = params[1:] if params[:1] == ["self"] else params
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    return {**dict(zip(own, plain, strict=False)), **{arg.keyword: arg.value for arg in call.args if arg.keyword}}


def _plain_names(value: ir.Expr) -> set[str]:
    """The names in an expression, unless a number is read off the whole: ``loss.item()``."""
    callee = value.callee if isinstance(value, ir.Call) else None
    if isinstance(callee, ir.Attribute) and callee.attr in _NUMBERS:
        return set()
    parts = tuple(walk((value,), False))
    called = {part.callee.id for part in parts if isinstance(part, ir.Call) and isinstance(part.callee, ir.Name)}
    return {part.id for part in parts if isinstance(part, ir.Name)} - called


def _unpacked(nodes: tuple[object, ...], call: int) -> set[str]:
    """The names that take one of several things which a call gives."""
    made = (node for node in nodes if isinstance(node, ir.Assign) and node.value is not None and node.value.at == call)
    targets = (target for node in made for target in node.targets if isinstance(target, ir.Display))
    return {name for target in targets for name in target_names(target)}


def _run_backward(nodes: tuple[object, ...]) -> set[str]:
    """The names that ``backward`` is called on, or is given, and those that went into these."""
    calls = [
        node
        for node in nodes
        if isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute) and node.callee.attr in _BACKWARD
    ]
    found: set[str] = {name for call in calls for name in _read_by(call)[0]}
    last = max((call.at for call in calls), default=0)
    before = [node for node in nodes if isinstance(node, (ir.Assign, ir.Augment)) and node.at < last]
    for _ in range(3):
        for node in before:
            targets = node.targets if isinstance(node, ir.Assign) else (node.target,)
            if node.value is not None and found & {name for target in targets for name in target_names(target)}:
                found |= _read_by(node.value)[0]
    return found


def is_summand(program: Program, store: Store) -> bool:
    """Whether what is kept was added to what ``backward`` is called on: a part of the loss, which only a tensor with a
    graph is worth being."""
    value = words(program).node(Site(store.site.path, store.value_at))
    nodes = _statements(program, store.site)
    ran = _run_backward(nodes)
    if _of_dict(value, nodes) & _added_up(nodes, ran):
        return True
    if not isinstance(value, ir.Name):
        return False
    sums = (
        node.value
        for node in nodes
        if isinstance(node, ir.Assign) and ran & {dotted(target) for target in node.targets}
    )
    return any(value.id in _summands(each) for each in sums if each is not None)


def _of_dict(value: object, nodes: tuple[object, ...]) -> set[str | None]:
    """The dict that a value is an item of: ``losses["a"]``, or the second of ``for name, loss in losses.items()``."""
    if isinstance(value, ir.Subscript):
        return {dotted(value.value)} - {None}
    name = value.id if isinstance(value, ir.Name) else None
    loops = (node for node in nodes if isinstance(node, ir.For) and [*target_names(node.target)][-1:] == [name])
    return {_values_of(loop.iter) for loop in loops} - {None}


def _added_up(nodes: tuple[object, ...], ran: set[str]) -> set[str | None]:
    """The dicts whose values are added up to what ``backward`` is called on: ``sum(losses.values())``."""
    made = (
        node.value
        for node in nodes
        if isinstance(node, ir.Assign) and ran & {dotted(target) or "" for target in node.targets}
    )
    sums = (each for each in made if isinstance(each, ir.Call) and dotted(each.callee) == "sum" and each.args)
    given = (each.args[0].value for each in sums)
    return {
        _values_of(each.clauses[0].iter if isinstance(each, ir.Comprehension) and _is_bare(each) else each)
        for each in given
    } - {None}


def _is_bare(each: ir.Comprehension) -> bool:
    """``(loss for loss in losses.values())``: every one, as it is."""
    is_item = isinstance(each.element, ir.Name) and each.element.id in set(target_names(each.clauses[0].target))
    return is_item and not each.clauses[0].conditions


def _values_of(over: ir.Expr) -> str | None:
    """``losses`` of ``losses.values()`` and ``losses.items()``."""
    callee = over.callee if isinstance(over, ir.Call) and not over.args else None
    return dotted(callee.value) if isinstance(callee, ir.Attribute) and callee.attr in {"values", "items"} else None


def _summands(node: ir.Expr | None) -> set[str]:
    """The names in ``a + 10 * b - c``."""
    if isinstance(node, ir.Name):
        return {node.id}
    if isinstance(node, ir.Operation) and node.op in {"+", "-", "*", "/"}:
        return _summands(node.left) | _summands(node.right)
    return set()


def is_sorted(program: Program, store: Store) -> bool:
    """Whether a comprehension puts what there is into another list: nothing computes an item."""
    value = words(program).node(Site(store.site.path, store.value_at))
    over = words(program).node(store.loops[-1].site)
    if not isinstance(value, ir.Name) or not isinstance(over, ir.Expr):
        return False
    calls = (part for part in walk((ir.Evaluate(over.at, over),), True) if isinstance(part, ir.Call))
    return all(dotted(call.callee) in _REORDERS for call in calls)


def is_metric(program: Program, store: Store, carrier: Tensor | Unknown) -> bool:
    """Whether what gives a tensor was handed in and is named as a measure: such functions give numbers, unless a
    backward pass begins with what they gave (``policy.evaluate_actions(…)``). So is what it gives beside its loss
    (``loss, acc = model(x)``)."""
    is_sure = carrier.trace is None or not carrier.trace.gaps
    stored = words(program).node(Site(store.site.path, store.value_at))
    if not is_sure and isinstance(stored, ir.Expr) and any(map(pattern("a measure").search, _summands(stored))):
        return True
    made = carrier.trace.site if carrier.trace is not None else None
    if any(
        root.at == made.at and root.path == made.path for event in program.of(Backward) for root in event.roots if made
    ):
        return False
    node = words(program).node(carrier.trace.site) if carrier.trace is not None else None
    named = last_name(node.callee) if isinstance(node, ir.Call) else ""
    return bool(pattern("a measure").search(named))


def is_counted_out(program: Program, store: Store, loops: tuple[Loop, ...]) -> bool:
    """Whether a loop makes a handful of items, as many as its text says, and trains nothing in between: the turned
    copies of an image, the steps of a short sequence. Nothing piles up."""
    if any(program.within(Backward, store.loops)) or any(program.within(Step, store.loops)):
        return False
    return all(_is_handful(words(program).node(loop.site)) for loop in loops)


def _is_handful(node: object) -> bool:
    """``for i in range(8)``, as a statement or in a comprehension."""
    over = node.iter if isinstance(node, ir.For) else node
    if not isinstance(over, ir.Call) or dotted(over.callee) != "range" or len(over.args) != 1:
        return False
    count = over.args[0].value
    return isinstance(count, ir.Constant) and isinstance(count.value, int) and count.value <= _HANDFUL


def starts_over(program: Program, store: Store) -> bool:
    """Whether a loop before a running sum, in the same iteration, gives its name another value: that it runs at least
    once is taken for granted."""
    node, loop = words(program).node(store.site), words(program).node(store.loops[-1].site)
    if not isinstance(node, ir.Augment) or not isinstance(node.target, ir.Name):
        return False
    name = node.target.id
    if _begins_at_step(program, store, name):
        return True
    if not isinstance(loop, ir.For):
        return False
    return any(
        isinstance(each, ir.Assign) and name in {named for target in each.targets for named in target_names(target)}
        for inner in loop.body
        if isinstance(inner, ir.For) and inner.at < node.at
        for each in inner.body
    )


def _begins_at_step(program: Program, store: Store, name: str) -> bool:
    """Whether the branch that steps the optimizer sets a running sum back: it is over the batches of one step."""
    steps = program.within(Step, store.loops)
    branches = {guard.site for step in steps for guard in step.guards if guard not in store.guards}
    nodes = (words(program).node(site) for site in branches if site.path == store.site.path)
    return any(
        isinstance(each, ir.Assign)
        and isinstance(each.value, ir.Constant)
        and any(isinstance(target, ir.Name) and target.id == name for target in each.targets)
        for node in nodes
        if isinstance(node, ir.If)
        for each in walk(node.body, into_functions=False)
    )


def is_overwritten(program: Program, store: Store, loops: tuple[Loop, ...]) -> bool:
    """Whether an item stands under a key that comes again: the next iteration puts another in its place. A key is new
    in every iteration if it counts, or is of the data; a key out of a loop of its own (the names of losses) is not."""
    if store.how not in {"item", "joined", "update"} or _adds_up(program, store):
        return False
    node = words(program).node(Site(store.site.path, store.value_at))
    keys = [key for key, _ in node.items if key is not None] if isinstance(node, ir.DictDisplay) else [node]
    if store.how == "update" and not isinstance(node, ir.DictDisplay):
        return True
    return not any(isinstance(key, ir.Expr) and _changes(program, store, key, loops) for key in keys)


def _adds_up(program: Program, store: Store) -> bool:
    """``sums[key] += value``, ``sums[key] = sums.get(key, 0) + value``, ``kept = torch.cat([kept, value])``."""
    statement = words(program).node(store.site)
    if isinstance(statement, ir.Augment):
        return True
    if isinstance(statement, ir.Assign) and not any(isinstance(each, ir.Subscript) for each in statement.targets):
        return True
    for node in _statements(program, store.site):
        if isinstance(node, ir.Assign) and node.value is not None and node.value.at == store.site.at:
            into = {dotted(each.value) for each in node.targets if isinstance(each, ir.Subscript)}
            return bool(into & _read_by(node.value)[0])
    return False


def _statements(program: Program, site: Site) -> tuple[object, ...]:
    """The nodes of the function, or the module, that a place stands in."""
    function, unit = program.function_around(site), program.unit(site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    return tuple(walk(body, into_functions=False))


def _changes(program: Program, store: Store, key: ir.Expr, loops: tuple[Loop, ...]) -> bool:
    function, nodes = program.function_around(store.site), _statements(program, store.site)
    names, calls = _read_by(key)
    for _ in range(3):  # what the names were computed from, a few steps back
        for each in nodes:
            if not isinstance(each, ir.Assign) or each.value is None:
                continue
            if names & set(assigned_names(each)):
                more, others = _read_by(each.value)
                names, calls = names | more, calls | others
    if "len" in calls or any(_counts(each, names) for each in nodes):
        return True
    taken = {each.at for each in nodes if isinstance(each, ir.For) and names & set(target_names(each.target))}
    around = [loop for loop in store.loops if loop.site.path == store.site.path and loop.site.at in taken]
    over_data = next((loop for loop in loops if loop.kind in {"data", "framework"}), loops[0])
    if any(loop.key in {loops[0].key, over_data.key} for loop in around):
        return True
    params = {param.name for param in function.params} - {"self"} if function is not None else set()
    counted = store.key.cases if store.key is not None else ()
    return bool(names & params) and any(isinstance(case, Scalar) and case.kind != "str" for case in counted)


def _counts(node: object, names: set[str]) -> bool:
    """``step += 1``, ``self.place = (self.place + 1) % self.size``."""
    if isinstance(node, ir.Augment):
        return dotted(node.target) in names
    if not isinstance(node, ir.Assign) or node.value is None:
        return False
    counted = names & {dotted(target) for target in node.targets}
    return bool(counted and counted & _read_by(node.value)[0])


def _read_by(node: ir.Expr) -> tuple[set[str], set[str]]:
    """The names and attributes of ``self`` that an expression reads, and the functions that it calls."""
    parts = tuple(walk((ir.Evaluate(node.at, node),), into_functions=False))
    names = {dotted(part) for part in parts if isinstance(part, (ir.Name, ir.Attribute))}
    calls = {dotted(part.callee) for part in parts if isinstance(part, ir.Call)}
    return {name for name in names if name}, {name for name in calls if name}
