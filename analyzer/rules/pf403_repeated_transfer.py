"""PF403 repeated-transfer."""

from __future__ import annotations

import re

from analyzer.engine.device_events import ModuleMoved, Transfer
from analyzer.engine.events import Backward, Forward, Loop
from analyzer.engine.lookups import is_beginning
from analyzer.engine.program import Program, nest_key
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.words import spelled, words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import assigned_names, base_name, dotted, last_name, of_type, target_names, walk

_WRITTEN_DOWN = re.compile(
    r"(torch\.)?(tensor|as_tensor|FloatTensor|LongTensor)\((?=.*\d)[\s\d.,eE+\-\[\]()]*(, *dtype=[\w.]+)?\)"
    r"(\.(view|reshape|unsqueeze|float|half|double|long|expand)\([\s\d,\-]*\))*"
)
"""A tensor of numbers that are written down, perhaps given another shape or type."""


_ROWS = frozenset({"linspace", "logspace", "arange"})
_EACH = frozenset(["sqrt", "log", "exp", "cumprod", "square", "pow", "clamp", "clip", "float", "double", "cos", "sin"])
"""What makes one row of numbers, and what leaves it one."""

_ASKS = frozenset(["cuda", "to", "size", "dim", "mean", "sum", "float", "astype", "copy", "view", "unsqueeze"])
"""Methods that leave a tensor or an array as it is."""
_OF_ARRAYS = frozenset(["from_numpy", "tensor", "as_tensor", "Tensor", "FloatTensor", "LongTensor"])


class RepeatedTransfer(Rule):
    """The same tensor is copied from the host to the device in every iteration.

    ## Why it matters
    A copy out of ordinary host memory waits for the device and runs at the speed of the bus. Class weights, masks and
    positional tables do not change: one copy before the loop is enough.

    ## Example
    ```python
    weights = torch.tensor([0.2, 0.8])
    for x, y in loader:
        loss = F.cross_entropy(model(x.to(device)), y.to(device), weight=weights.to(device))
        loss.backward()
    ```

    ## Use instead
    ```python
    weights = torch.tensor([0.2, 0.8], device=device)
    ```
    In a module, ``self.register_buffer("table", table)``: the table moves with the module.

    ## When it stays quiet
    For data that is new in every iteration (batches, observations, noise, slices and rows of a data set), for a tensor
    that is changed inside the loop or replaced by its copy (the next ``.to()`` finds it there), under
    ``step % n == 0``, and outside of loops that run a model. A note for a handful of numbers that are written down or
    a row of a schedule (nobody would notice the copy), for a table that a forward pass copies, under
    a condition, once per epoch, where nothing trains, and for what a function is given: how often that is, how much,
    and where it is, its callers know.

    ## Fix safety
    No automatic fix: the copy belongs where the tensor is made, which may be another function.
    """

    code = "PF403"
    name = "repeated-transfer"
    alias = "TG013"
    severity = Severity.WARNING
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A copy of a tensor that was made outside the loop over steps around the copy and does not change in it."""
        _report_modules(program, report)
        _report_parameters(program, report)
        transfers = list(program.of(Transfer))
        events = [*program.of(Backward), *(each for each in program.of(Forward) if program.has_parameters(each))]
        running = program.nests_with(events) if transfers else frozenset()
        training = program.nests_with(program.of(Backward)) if transfers else frozenset()
        for transfer in transfers:
            if any(guard.is_periodic for guard in transfer.guards):
                continue
            loops = _repeated_over(program, transfer, running)
            is_table = not transfer.loops and transfer.in_pass and _is_made_elsewhere(program, transfer)
            if not (loops or is_table) or _changes(program, transfer, loops) or _is_yielded(program, transfer):
                continue
            if _is_another_item(program, transfer) or _is_replaced(program, transfer):
                continue
            made = start(transfer.made_at, "made in the host's memory here, once")
            report(
                transfer.site,
                f"`{program.sources.text(transfer.site)}` {{does copy}} the same tensor to the device in every "
                f"{'iteration' if loops else 'forward pass'}: nothing changes it in between. "
                f"{'Copy it once, before the loop.' if loops else 'Register it as a buffer, so that it moves once.'}",
                because=[made, *(loop.trace for loop in loops[:1]), transfer.trace],
                gaps=[Gap.CONVENTION] if is_table or transfer.guards else [],
                severity=None if _costs(program, transfer, loops, training) else Severity.NOTE,
            )


def _is_replaced(program: Program, transfer: Transfer) -> bool:
    """Whether the copy takes the place of what is copied, if there is anything: ``self.mask = self.mask.to(device) if
    self.mask is not None else None``."""
    function, call = program.function_around(transfer.site), words(program).node(transfer.site)
    name = dotted(call.callee.value) if isinstance(call, ir.Call) and isinstance(call.callee, ir.Attribute) else None
    return any(
        isinstance(node, ir.Assign)
        and isinstance(node.value, ir.Conditional)
        and transfer.site.at in {node.value.body.at, node.value.orelse.at}
        and any(dotted(target) == name for target in node.targets)
        for node in walk(function.body if function is not None and name is not None else (), False)
    )


def _report_modules(program: Program, report: Report) -> None:
    """A model that is sent to its device in every iteration of the loop over the data."""
    moves = [move for move in program.of(ModuleMoved) if move.loops and move.loops[-1].kind == "data"]
    for move in moves:
        born = len(program.objects[move.module].loops)
        back = [each for each in program.within(ModuleMoved, move.loops) if each.module == move.module]
        runs = [each for each in program.within(Forward, move.loops) if each.module == move.module]
        is_swapped = any(each.to != move.to or each.site != move.site for each in back)
        if born >= len(move.loops) or is_swapped or not runs or move.guards or move.to == "host":
            continue
        report(
            move.site,
            f"`{program.sources.text(move.site)}` {{does look}} at every parameter again in every iteration: the model "
            "is there since the first. Move it once, before the loop.",
            because=[program.objects[move.module].trace, move.loops[-1].trace, move.trace],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,
        )


def _report_parameters(program: Program, report: Report) -> None:
    """What a function is given, or what is read from a file, and is sent to the device in every iteration. Nobody sends
    what is there, but who made it was not seen."""
    events = [*program.of(Backward), *(each for each in program.of(Forward) if program.has_parameters(each))]
    inner = (event.loops[-1] for event in events if event.loops and len(event.calls) <= 1)
    for loop in dict.fromkeys(inner):
        function, statement = program.function_around(loop.site), program.statement_of(loop)
        if statement is None or (function and Site(loop.site.path, function.at) not in program.entries):
            continue
        devices = _devices(statement) | _places(function)
        sent = [(node, name) for node in walk(statement.body, False) if (name := _sent(node, devices)) is not None]
        if not sent:
            continue
        given = _given(program, loop.site.path, function, statement)
        kept = {name for name in {name for _, name in sent} & given if not _is_touched(statement.body, name)}
        for node, name in sent:
            if name in kept and isinstance(node, ir.Call) and _is_value(statement, node):
                site = Site(loop.site.path, node.at)
                report(
                    site,
                    f"`{program.sources.text(site)}` {{does copy}} the same tensor to the device in every iteration, "
                    "unless it is there already: nothing changes it in between. Copy it once, before the loop.",
                    because=[
                        start(Site(site.path, function.at), f"`{name}` comes into this function from elsewhere")
                        if function is not None
                        else start(site, f"`{name}` was read from a file before the loop"),
                        loop.trace,
                    ],
                    gaps=[Gap.CONVENTION],
                    severity=Severity.NOTE,
                )


def _given(program: Program, path: str, function: ir.FunctionDef | None, loop: ir.For) -> frozenset[str]:
    """The names that hold what a function is given, what its object was made with, what a file holds, or what torch
    makes of these before the loop. `function` is None for the body of a file, which is given nothing."""
    given: set[str] = set()
    unit = program.unit(path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    if function is not None:
        params = (each for each in function.params if each.annotation is None or "Tensor" in spelled(each.annotation))
        plain = {param.name for param in params}
        given = {name for name in plain if not _is_touched(body, name)} | _attributes(program, path, function)
    assigned: dict[str, list[ir.Expr | None]] = {}
    for node in walk(body, False):
        if isinstance(node, ir.Assign):
            for name in assigned_names(node):
                assigned.setdefault(name, []).append(node.value if isinstance(node.targets[0], ir.Name) else None)
    for name, values in assigned.items():  # in the order of the text
        if len(values) == 1 and values[0] is not None and values[0].at < loop.at and _comes_from(values[0], given):
            given.add(name)
    return frozenset(given)


def _comes_from(value: ir.Expr, given: set[str]) -> bool:
    """``self.priors``, ``torch.load(path)``, ``torch.cumprod(1 - betas, 0)``."""
    if isinstance(value, (ir.Name, ir.Attribute)):
        return dotted(value) in given
    if not isinstance(value, ir.Call):
        return False
    name = dotted(value.callee) or ""
    if name == "torch.load":
        return all(arg.keyword == "map_location" and _is_host(arg.value) for arg in value.args[1:])
    read = {part.id for arg in value.args for part in walk((ir.Evaluate(arg.value.at, arg.value),), False)
            if isinstance(part, ir.Name)}  # fmt: skip
    return name.startswith("torch.") and bool(read) and read <= given


def _is_host(device: ir.Expr) -> bool:
    """``"cpu"``, ``torch.device("cpu")``."""
    if isinstance(device, ir.Call) and len(device.args) == 1:
        device = device.args[0].value
    return isinstance(device, ir.Constant) and device.value == "cpu"


def _attributes(program: Program, path: str, function: ir.FunctionDef) -> set[str]:
    """The attributes of a method's object that are parameters of its constructor, as they are, and nothing else."""
    unit = program.unit(path)
    classes = (each for each in (unit.body if unit is not None else ()) if isinstance(each, ir.ClassDef))
    own = next((each for each in classes if any(part is function for part in each.body)), None)
    if own is None:
        return set()
    made = next((each for each in own.body if isinstance(each, ir.FunctionDef) and each.name == "__init__"), None)
    names = {param.name for param in made.params} if made is not None else set()
    found: dict[str, list[ir.Expr | None]] = {}
    for node in walk(own.body, True):
        for target in node.targets if isinstance(node, ir.Assign) else ():
            found.setdefault(dotted(target) or "", []).append(node.value if isinstance(node, ir.Assign) else None)
        if isinstance(node, ir.Augment):
            found.setdefault(dotted(node.target) or "", []).append(None)
    return {
        name
        for name, values in found.items()
        if name.startswith("self.") and len(values) == 1 and isinstance(values[0], ir.Name) and values[0].id in names
    }


def _devices(statement: ir.For) -> frozenset[str]:
    """What says where the items of a loop are sent, or where something is made: ``for x, y in loader: x.to(place)``,
    ``torch.zeros(n, device=place)``."""
    items = frozenset(target_names(statement.target))
    calls = [node for node in walk(statement.body, False) if isinstance(node, ir.Call)]
    sent = [
        call.args[0].value
        for call in calls
        if isinstance(call.callee, ir.Attribute) and call.callee.attr == "to" and call.args
        if base_name(call.callee.value) in items
    ]
    made = [arg.value for call in calls for arg in call.args if arg.keyword == "device"]
    return frozenset(name for each in (*sent, *made) if (name := dotted(each)) is not None)


@remembered(maxsize=512)
def _places(function: ir.FunctionDef | None) -> frozenset[str]:
    """What says where a function sends its model: ``model.to(place)``, a statement of its own."""
    body = walk(function.body, False) if function is not None else ()
    calls = (each.value for each in body if isinstance(each, ir.Evaluate) and isinstance(each.value, ir.Call))
    sent = (call.args[0].value for call in calls if (dotted(call.callee) or "").endswith(".to") and call.args)
    return frozenset(name for each in sent if (name := dotted(each)) is not None)


def _sent(node: object, devices: frozenset[str]) -> str | None:
    """The name of which a copy is asked for on a device: ``weights.cuda()``, ``weights.to(place)``."""
    callee = node.callee if isinstance(node, ir.Call) else None
    if not isinstance(node, ir.Call) or not isinstance(callee, ir.Attribute):
        return None
    held = callee.value
    is_part = isinstance(held, ir.Subscript) and isinstance(held.index, ir.Constant)  # ``data["features"]``
    name = dotted(held.value if isinstance(held, ir.Subscript) and is_part else held)
    if callee.attr == "cuda":
        return name
    to = node.args[0].value if callee.attr == "to" and node.args else None
    is_device = isinstance(to, (ir.Name, ir.Attribute)) and dotted(to) in devices
    return name if is_device or (isinstance(to, ir.Constant) and isinstance(to.value, str)) else None


def _is_value(statement: ir.For, call: ir.Call) -> bool:
    """Whether a call is a part of a larger expression or of an assignment: a statement of its own moves a module."""
    return not any(isinstance(each, ir.Evaluate) and each.value is call for each in walk(statement.body, False))


def _repeated_over(program: Program, transfer: Transfer, running: frozenset[tuple[object, ...]]) -> tuple[Loop, ...]:
    """The loops inside of which the tensor is copied but not made, or made of the same constants, where their
    iterations run a model."""
    made = () if _is_constant(program, transfer) or _is_of_outer(program, transfer) else transfer.made_under
    shared = 0
    while shared < min(len(made), len(transfer.loops)) and made[shared] == transfer.loops[shared].key:
        shared += 1
    if shared < len(made):
        return ()  # another loop made many, of which each iteration may take its own: ``[batch_of(x) for x in texts]``
    inner = transfer.loops[shared:]
    kinds = {loop.kind for loop in inner}
    is_step = any(nest_key(transfer.loops[: shared + depth]) in running for depth in range(1, len(inner) + 1))
    return inner if is_step and kinds & {"data", "range", "while", "framework"} else ()


def _is_per_epoch(program: Program, nest: tuple[Loop, ...]) -> bool:
    """Whether the steps of the loops around are those of loops over batches inside of them: a copy for each epoch, of
    the noise for a picture, costs nothing to speak of."""
    passes = list(program.within(Backward, nest)) if nest else []
    return bool(passes) and all(any(loop.kind == "data" for loop in event.loops[len(nest) :]) for event in passes)


def _trains(
    program: Program, transfer: Transfer, loops: tuple[Loop, ...], training: frozenset[tuple[object, ...]]
) -> bool:
    """Whether the copy is made in steps of a training: in the innermost loop over data around it, if there is one."""
    nest = transfer.loops
    if _is_per_epoch(program, nest):
        return False
    over_data = [depth for depth, loop in enumerate(nest, 1) if loop.kind in {"data", "framework"}]
    return bool(loops) and nest_key(nest[: max(over_data, default=len(nest))]) in training


def _costs(
    program: Program, transfer: Transfer, loops: tuple[Loop, ...], training: frozenset[tuple[object, ...]]
) -> bool:
    """Whether somebody would notice: in every step of a training, and of more than a handful of numbers."""
    return _trains(program, transfer, loops, training) and not transfer.guards and not _is_small(program, transfer)


def _is_small(program: Program, transfer: Transfer) -> bool:
    """Whether the tensor is a list of numbers that are written down, or a row of a schedule: some kilobytes at most,
    beside a batch."""
    text = program.sources.text(transfer.made_at)
    if _WRITTEN_DOWN.fullmatch(text):
        return True
    made, function = words(program).node(transfer.made_at), program.function_around(transfer.made_at)
    if not isinstance(made, ir.Expr) or function is None:
        return _is_row(made, {}) if isinstance(made, ir.Expr) else False
    given = {
        name: node.value
        for node in walk(function.body, False)
        if isinstance(node, ir.Assign) and node.value is not None
        for target in node.targets
        if (name := dotted(target))
    }
    return _is_row(made, given)


def _is_row(value: ir.Expr, given: dict[str, ir.Expr], depth: int = 8) -> bool:
    """Whether a value is one row of numbers, and what is computed of each of them: ``torch.cumprod(1 - betas, dim=0)``
    of ``betas = torch.linspace(…)``. `given`: what the names of the function hold."""
    if isinstance(value, ir.Operation):
        sides = [side for side in (value.left, value.right) if side is not None and not isinstance(side, ir.Constant)]
        return bool(sides) and all(_is_row(side, given, depth) for side in sides)
    if isinstance(value, (ir.Name, ir.Attribute)):
        known = given.get(dotted(value) or "")
        return known is not None and depth > 0 and _is_row(known, given, depth - 1)
    if not isinstance(value, ir.Call):
        return False
    name = last_name(value.callee)
    if name in _ROWS:
        return not any(arg.star for arg in value.args)
    of = value.args[0].value if value.args else None
    if isinstance(value.callee, ir.Attribute) and not (dotted(value.callee) or "").startswith(("torch.", "np.")):
        of = value.callee.value
    return name in _EACH and of is not None and _is_row(of, given, depth)


def _is_constant(program: Program, transfer: Transfer) -> bool:
    """Whether the tensor is made of a list of numbers that are written down: the same in every iteration. A single
    number costs nothing to speak of."""
    text = program.sources.text(transfer.made_at)
    return "[" in text and "," in text and bool(_WRITTEN_DOWN.fullmatch(text))


def _is_of_outer(program: Program, transfer: Transfer) -> bool:
    """Whether the tensor is made anew of an array or a list that stands outside the loops and that nothing in them
    touches otherwise: ``torch.from_numpy(adjacency)``."""
    node = words(program).node(transfer.made_at)
    if not isinstance(node, ir.Call):
        return False
    made = _innermost(node)
    given = made.args[0].value if len(made.args) == 1 else None
    is_of_array = last_name(made.callee) in _OF_ARRAYS
    if not isinstance(given, ir.Name) or not is_of_array or not transfer.loops:
        return False
    function = program.function_around(transfer.made_at)
    if _is_given_to_lambda(program, transfer, given.id):
        return False
    for loop in transfer.loops:
        statement = program.statement_of(loop)
        if statement is None or program.function_around(loop.site) is not function:
            return False
        if _is_touched_in(statement, given.id):
            return False
    return True


def _is_given_to_lambda(program: Program, transfer: Transfer, name: str) -> bool:
    """Whether the array is the argument of a ``lambda`` around: another one in each call."""
    path = transfer.made_at.path
    around = of_type(program.unit(path), ir.Lambda) if b"lambda" in (program.project.read(path) or b"") else ()
    return any(
        any(param.name == name for param in each.params)
        and any(getattr(part, "at", None) == transfer.made_at.at for part in walk((each,), True))
        for each in around
    )


def _innermost(call: ir.Call) -> ir.Call:
    """``torch.from_numpy(adjacency)`` in ``torch.from_numpy(adjacency).float()``."""
    while isinstance(call.callee, ir.Attribute) and isinstance(call.callee.value, ir.Call):
        call = call.callee.value
    return call


@remembered(maxsize=512)
def _is_touched_in(statement: ir.For, name: str) -> bool:
    return any(type(each) in _TOUCHING and _touches(each, name) for each in walk((statement,), True))


def _is_touched(body: ir.Block, name: str | None) -> bool:
    return name is None or any(type(each) in _TOUCHING and _touches(each, name) for each in walk(body, True))


_TOUCHING = frozenset([ir.For, ir.Assign, ir.Augment, ir.With, ir.Call])


def _touches(node: object, name: str) -> bool:
    """Whether a node gives a name a value, changes what it holds, or calls it or a method of it."""
    if isinstance(node, ir.For):
        return name in target_names(node.target)
    if isinstance(node, (ir.Assign, ir.Augment)):
        targets = node.targets if isinstance(node, ir.Assign) else (node.target,)
        return any(name in target_names(each) or base_name(each) == name for each in targets)
    if isinstance(node, ir.With):
        return any(target is not None and name in target_names(target) for _, target in node.items)
    if not isinstance(node, ir.Call):
        return False
    if isinstance(node.callee, ir.Attribute):
        return node.callee.attr not in _ASKS and base_name(node.callee.value) == name
    return isinstance(node.callee, ir.Name) and node.callee.id == name


def _is_made_elsewhere(program: Program, transfer: Transfer) -> bool:
    """Whether a forward pass copies what another method made, and does not keep the copy."""
    made, here = program.function_around(transfer.made_at), program.function_around(transfer.site)
    is_other = made is not None and made is not here and transfer.made_at.path == transfer.site.path
    return is_other and not program.is_kept(transfer.site) and not _reads_input(made) and not _calls(here, made)


def _calls(here: ir.FunctionDef | None, made: ir.FunctionDef | None) -> bool:
    """Whether the pass itself calls the function that makes the tensor: it is another one every time."""
    calls = (node for node in walk(here.body, True) if isinstance(node, ir.Call)) if here is not None else ()
    return made is not None and any(last_name(c.callee) == made.name for c in calls)


def _reads_input(function: ir.FunctionDef | None) -> bool:
    """Whether a method takes elements out of what it is given: what it makes is another tensor for every input."""
    names = {param.name for param in function.params[1:]} if function is not None else set()
    read = (node.value for node in walk(function.body, True) if isinstance(node, ir.Subscript)) if function else ()
    return any(isinstance(value, ir.Name) and value.id in names for value in read)


def _is_yielded(program: Program, transfer: Transfer) -> bool:
    """Whether a generator makes the tensor: another one for each step that asks it."""
    made = program.function_around(transfer.made_at)
    if made is None or made is program.function_around(transfer.site):
        return False
    return any(isinstance(node, ir.Yield) for node in walk(made.body, False))


def _is_another_item(program: Program, transfer: Transfer) -> bool:
    """``batches[i].to(device)``, ``for x in batches: x.to(device)``: whether a loop gives one item of a container
    for each iteration. Or one object, whose method moves what it holds: ``for x in batches: model(x.inputs())``. The
    beginning of a table (``mask[:n, :n]``, as long as the batch) is the same table."""
    node = words(program).node(transfer.site)
    moved = node.callee.value if isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute) else None
    read = set[str]()
    if isinstance(moved, ir.Subscript):
        if is_beginning(moved.index):
            return False
        read = {part.id for part in walk((moved.index,), False) if isinstance(part, ir.Name)}
    elif isinstance(moved, (ir.Name, ir.Attribute)):
        read = {base_name(moved)}
    if read == {"self"}:
        asked = [words(program).node(site) for site in transfer.calls]
        parts = (each.callee if isinstance(each, ir.Call) else each for each in asked)
        read = {base_name(part) for part in parts if isinstance(part, ir.Attribute)}
    around = [program.statement_of(loop) for loop in transfer.loops]
    return any(loop is not None and not read.isdisjoint(target_names(loop.target)) for loop in around)


def _changes(program: Program, transfer: Transfer, loops: tuple[Loop, ...]) -> bool:
    """Whether something in the loops changes the tensor in place."""
    keys = {loop.key for loop in loops}
    return any(loop.key in keys for nest in program.changed.get(transfer.made_at, ()) for loop in nest)
