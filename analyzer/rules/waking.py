"""Where `train()` has to go: once per epoch undoes an evaluation between epochs, not one between batches."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.engine.events import Loop, Mode, Run
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.fixes.edits import InsertStatement
from analyzer.rules.base import DraftFix
from analyzer.rules.modes import before_loop, called_module, over_batches, shared
from analyzer.syntax import ir
from analyzer.syntax.scope import blocks_around

_EACH_EPOCH = "Call `train()` at the start of each training epoch."
_EACH_TIME = (
    "Call `train()` right after the evaluation: this is inside the loop over the training steps, where once per epoch "
    "is too late."
)


def advice(switch: Mode, forward: Run) -> str:
    """What to do about a switch that a pass which trains comes after."""
    return _EACH_TIME if _between_steps(switch, forward) else _EACH_EPOCH


def fix(program: Program, switch: Mode, forward: Run) -> DraftFix | None:
    """A call of `train()` where it undoes the switch; none where that is another file than the one it is shown in."""
    if forward.site.path != switch.site.path:
        return None
    loops = _between_steps(switch, forward)
    if not loops:
        return before_loop(program, forward, over_batches(forward) or forward.loops, "train")
    return _after_evaluation(program, switch, forward, loops[-1])


def _between_steps(switch: Mode, forward: Run) -> Sequence[Loop]:
    """The loops around a pass that trains up to that over the training steps, where the switch is inside them all."""
    steps = over_batches(forward) or forward.loops
    return steps if steps and len(shared(switch, forward)) >= len(steps) else ()


def _after_evaluation(program: Program, switch: Mode, forward: Run, loop: Loop) -> DraftFix | None:
    """Behind the block that evaluates, in the function with the loop; before the pass, if that comes in this block."""
    name, unit = called_module(program, forward), program.unit(loop.site.path)
    evaluates, trains = _seen_in(loop, switch), _seen_in(loop, forward)
    if name is None or unit is None or evaluates.path != loop.site.path or forward.site != trains:
        return None  # by this name the function with the loop knows it
    inside = _evaluating(unit, loop, evaluates.at)
    if inside is None:
        return None
    block, index = inside
    later = next((i for i in _holding(unit, trains.at, block) if i > index), None)
    last = block[-1] if later is None else block[later]
    where = InsertStatement("after", last.at, f"{name}.train()")
    if later is not None or isinstance(last, (ir.Jump, ir.Return, ir.Raise)):
        where = InsertStatement("before", last.at, f"{name}.train()")
    return DraftFix("Call `train()` after the evaluation", "unsafe", (where,))


def _evaluating(unit: ir.Unit, loop: Loop, at: int) -> tuple[ir.Block, int] | None:
    """The block in the body of a loop that evaluates: under its conditions, around its own loops and contexts."""
    nest = list(blocks_around(unit, at))
    around = next((depth for depth, (block, index) in enumerate(nest) if block[index].at == loop.site.at), len(nest))
    inside = nest[around + 1 :]
    direct = (place for place in inside if not isinstance(place[0][place[1]], (ir.If, ir.Try)))
    return next(direct, inside[-1] if inside else None)


def _holding(unit: ir.Unit, at: int, block: ir.Block) -> list[int]:
    """The index of the statement of a block that a number is in, if one is."""
    return [index for each, index in blocks_around(unit, at) if each is block]


def _seen_in(loop: Loop, event: Mode | Run) -> Site:
    """The place in the function with the loop that leads to an event."""
    return event.calls[loop.depth] if len(event.calls) > loop.depth else event.site
