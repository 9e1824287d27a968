"""What a schedule was built for: how many steps or epochs its constructor is told, as far as the text shows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from analyzer.engine.counts import same_count
from analyzer.engine.machine import Obj
from analyzer.engine.operations import LENGTHS
from analyzer.engine.optim_events import SchedulerStep
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap
from analyzer.engine.values import Const, Scalar, Tuple, Value
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.syntax import ir
from analyzer.syntax.scope import last_name, of_type, walk

_EPOCHS = re.compile(r"(?:n|nb|num|max|total|tot)?_?(?:train_|training_)?epochs?", re.I)
"""How a number of epochs is named, and not what an epoch has of something."""

FEW = 500
"""An epoch of fewer batches is rare: a schedule that is over after so many steps was meant in epochs."""

GONE = 1e-3
"""What a learning rate may shrink to and still train something."""

TORCH = "torch.optim.lr_scheduler."


def given_to(call: ir.Call, name: str, position: int) -> ir.Expr | None:
    """What a call is given by name or at a place."""
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    named = (arg.value for arg in call.args if arg.keyword == name)
    return next(named, plain[position] if position < len(plain) else None)


def epochs_of(program: Program, made: Obj, event: SchedulerStep) -> Iterator[tuple[str, list[Gap], Severity | None]]:
    """Why a scheduler counts epochs: what it was given is what a loop around the batches counts to; or, as a note, is
    so short that no epoch is over by then, if epochs are as long as usual."""
    row = program.knowledge.row(made.name) if made.name else None
    outer = [loop.bound for loop in event.loops[:-1] if loop.bound is not None]
    if row is not None and row.horizon:
        horizon = argument_of(program, made, row.horizon)
        for bound in outer:
            gaps = same_count(horizon, bound)
            if gaps is not None:
                yield f"`{row.horizon}` is the number of epochs", gaps, None
    if made.name == TORCH + "LambdaLR" and len(event.loops) > 1 and (said := _share_of_epochs(program, made)):
        yield f"its function divides by `{said}`", [Gap.CONVENTION], Severity.NOTE
    gamma, few = number_of(argument_of(program, made, "gamma")), math.inf
    if made.name == TORCH + "StepLR":
        size = number_of(argument_of(program, made, "step_size"))
        few = (size or math.inf) * _decays(0.1 if gamma is None and not _has(program, made, "gamma") else gamma)
    elif made.name == TORCH + "ExponentialLR":
        few = _decays(gamma)
    elif made.name == TORCH + "MultiStepLR":
        few = _last_milestone(program, made)
    if few <= FEW:
        why = f"the learning rate is through with it after {max(1, round(few))} steps"
        yield why, [Gap.CONVENTION], Severity.NOTE


def _share_of_epochs(program: Program, made: Obj) -> str:
    """What the function of a `LambdaLR` divides the count that it is given by, where that is a number of epochs."""
    call = words(program).node(made.trace.site)
    given = given_to(call, "lr_lambda", 1) if isinstance(call, ir.Call) else None
    function: ir.Lambda | ir.FunctionDef | None = given if isinstance(given, ir.Lambda) else None
    if isinstance(given, ir.Name) and (made_by := _assigned_to(program, made, given.id)) is not None:
        given = made_by
        function = given if isinstance(given, ir.Lambda) else None
    if isinstance(given, ir.Attribute) and isinstance(given.value, ir.Call):  # ``Decay(epochs, 0, start).step``
        given = given.value
    if isinstance(given, ir.Call):
        return next((said for arg in given.args if _EPOCHS.fullmatch(said := last_name(arg.value))), "")
    if isinstance(given, ir.Name):
        named = [each for each in of_type(program.unit(made.trace.site.path), ir.FunctionDef) if each.name == given.id]
        function = named[0] if len(named) == 1 else None
    if function is None or len(function.params) != 1:
        return ""
    counted = function.params[0].name
    for node in walk((function.body,), into_functions=False):
        if isinstance(node, ir.Operation) and node.op == "/" and node.right is not None:
            is_plain = isinstance(node.left, ir.Name) and node.left.id == counted
            right = node.right.index if isinstance(node.right, ir.Subscript) else node.right
            said = str(right.value) if isinstance(right, ir.Constant) else last_name(right)
            if is_plain and _EPOCHS.fullmatch(said):
                return said
    return ""


def _assigned_to(program: Program, made: Obj, name: str) -> ir.Expr | None:
    """The function, or the call that gives it, that a name was assigned before a scheduler is made of it."""
    nodes = of_type(program.unit(made.trace.site.path), ir.Assign)
    values = [
        node.value
        for node in nodes
        if node.at < made.trace.site.at and any(isinstance(to, ir.Name) and to.id == name for to in node.targets)
    ]
    return values[-1] if values and isinstance(values[-1], (ir.Lambda, ir.Call)) else None


def _decays(gamma: float | None) -> float:
    """How many times a factor must be applied until nothing is left."""
    if gamma is None or not 0 < gamma < 1:
        return math.inf
    return math.log(GONE) / math.log(gamma)


def _last_milestone(program: Program, made: Obj) -> float:
    held = argument_of(program, made, "milestones")
    numbers = [number_of(item) for item in held.items] if isinstance(held, Tuple) else []
    known = [number for number in numbers if number is not None]
    return max(known) if known and len(known) == len(numbers) else math.inf


def batches_of(program: Program, made: Obj, horizon: str) -> str | None:
    """How a total is said in numbers of batches; None where it is not."""
    held = argument_of(program, made, horizon)
    if isinstance(held, Scalar) and held.kind in LENGTHS:
        return f"`{horizon}` comes from the length of a loader"
    per_epoch = argument_of(program, made, "steps_per_epoch")
    if per_epoch is not None and not (isinstance(per_epoch, Const) and per_epoch.value in (1, None)):
        return "`steps_per_epoch` says how many an epoch has"
    return None


def written(body: ir.Block, expr: ir.Expr | None, hops: int) -> Iterator[ir.Expr]:
    """An expression, and what its names were assigned in a body."""
    if expr is None:
        return
    yield expr
    names = {part.id for part in walk((expr,), False) if isinstance(part, ir.Name)}
    for node in walk(body, into_functions=False) if hops else ():
        if isinstance(node, ir.Assign) and any(isinstance(to, ir.Name) and to.id in names for to in node.targets):
            yield from written(body, node.value, hops - 1)


def argument_of(program: Program, made: Obj, name: str) -> Value | None:
    """What a scheduler was given by a name of its row, or the default there."""
    row = program.knowledge.row(made.name) if made.name else None
    given = dict(made.arguments)
    if name in given or row is None or name not in row.params:
        return given.get(name)
    return given.get(str(row.params.index(name)))


def _has(program: Program, made: Obj, name: str) -> bool:
    return argument_of(program, made, name) is not None


def number_of(value: Value | None) -> float | None:
    """A number that is written down."""
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
        return float(value.value)
    return None
