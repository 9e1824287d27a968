"""Training steps that compute a loss and step, and run no backward pass: a part of PF219, by the words of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.knowledge.words import pattern
from analyzer.rules.spoken import Act, acts_of, are_apart
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, of_type, walk

_STEPS = re.compile(rb"\.zero_grad\(")
_COMPUTES = re.compile(
    rb"backward|closure|(?<!zero_)grad\(|\.grad\b|scale\(|\.step\(\w|amp\b|engine|jax", re.IGNORECASE
)
"""What may compute gradients in another way, or by another name."""
_LOSS = re.compile(r"(?:^|_)loss", re.IGNORECASE)
_FUNCTIONAL = re.compile(r"(?:^|\.)(?:F|functional)\.\w*(?:loss|cross_entropy)")
_READS = frozenset([
    "append", "print", "float", "isnan", "isfinite", "format", "update", "add_scalar", "log", "str", "set_postfix",
    "info", "write", "mean", "sum", "detach", "item",
])  # fmt: skip


def never_differentiated(program: Program) -> Iterator[tuple[Site, Site, Site, str]]:
    """Where an optimizer is reset, where the loss is computed and where the optimizer steps, in one loop of a file that
    runs no backward pass and hands the loss to nothing that might; and the name of the loss."""
    for path in program.modules:
        source = program.project.read(path) or b""
        unit = program.unit(path) if _STEPS.search(source) and not _COMPUTES.search(source) else None
        for body in (unit.body, *(each.body for each in of_type(unit, ir.FunctionDef))) if unit is not None else ():
            acts = tuple(acts_of(body))
            for step in (act for act in acts if act.kind == "step" and act.loops and not act.call.args):
                clear = next((act for act in acts if _is_beside(act, step)), None)
                loss = _loss_in(body, step, clear) if clear is not None else None
                if clear is not None and loss is not None:
                    yield Site(path, clear.at), Site(path, loss[1]), Site(path, step.at), loss[0]
                    break


def _is_beside(act: Act, step: Act) -> bool:
    return (act.kind, act.of, act.loops) == ("clear", step.of, step.loops) and not are_apart(act, step)


def _loss_in(body: ir.Block, step: Act, clear: Act) -> tuple[str, int] | None:
    """The loss that the loop of a step computes between the reset and the step, by its name and what is called, and
    that only a log reads."""
    loop = next(
        (node for node in walk(body, False) if isinstance(node, (ir.For, ir.While)) and node.at == step.loops[-1]), None
    )
    parts = tuple(walk(loop.body, False)) if loop is not None else ()
    for node in parts:
        if not isinstance(node, ir.Assign) or not isinstance(node.value, ir.Call) or not node.at < step.at:
            continue
        name, callee = dotted(node.targets[0]) or "", node.value.callee
        is_loss = pattern("a loss").search(last_name(callee)) or _FUNCTIONAL.search(dotted(callee) or "")
        if is_loss and _LOSS.search(name.rpartition(".")[2]) and not _is_handed_on(parts, name):
            return name, node.at
    return None


def _is_handed_on(parts: tuple[object, ...], name: str) -> bool:
    """Whether a loss goes into a call that may run backward, is returned, or is combined into something else."""
    called = (part for part in parts if isinstance(part, ir.Call) and last_name(part.callee) not in _READS)
    if any(dotted(arg.value) == name for call in called for arg in call.args):
        return True
    kept = (part.value for part in parts if isinstance(part, (ir.Return, ir.Assign)) and part.value is not None)
    used = (walk((value,), False) for value in kept if not isinstance(value, ir.Call))
    return any(isinstance(each, (ir.Name, ir.Attribute)) and dotted(each) == name for all_ in used for each in all_)
