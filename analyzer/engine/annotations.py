"""Types that the program states: annotations, written out or in quotes, and the types that docstrings name.

An annotation leaves no gap. A docstring is a convention: nobody checks it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from analyzer.engine.values import Class, External, Value
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered

if TYPE_CHECKING:
    from analyzer.engine.machine import Machine
    from analyzer.engine.state import State

_KINDS = {
    "torch.nn.Module": "Module", "torch.nn.modules.module.Module": "Module", "torch.optim.Optimizer": "Optimizer",
    "torch.optim.optimizer.Optimizer": "Optimizer", "torch.optim.lr_scheduler.LRScheduler": "Scheduler",
    "torch.optim.lr_scheduler._LRScheduler": "Scheduler", "torch.cuda.amp.GradScaler": "Scaler",
    "torch.amp.GradScaler": "Scaler", "torch.utils.data.DataLoader": "Loader",
    "accelerate.Accelerator": "Accelerator", "transformers.PreTrainedModel": "Module",
}  # fmt: skip
_LIKE = re.compile(
    r"torch\.nn\.|torch\.optim\.(?!lr_scheduler\.)[A-Z]|torch\.optim\.lr_scheduler\.|transformers\..*Model$"
)
_LIKE_KINDS = {"torch.nn.": "Module", "torch.optim.lr_scheduler.": "Scheduler", "transformers.": "Module"}
_PLAIN = {"builtins.int", "builtins.float", "builtins.str", "builtins.bool"}
_EITHER = ("Optional", "Union", "Annotated", "Final", "ClassVar", "Required")
_DOTTED = re.compile(r"[A-Za-z_][\w.]*")
_IN_DOCSTRING = (
    r":type\s+{name}\s*:\s*(?P<type>[^\n]+)",
    r"^[ \t]*{name}\s*\((?P<type>[^)\n]+)\)\s*:",
    r"^[ \t]*{name}[ \t]*:[ \t]*(?P<type>[^\n]+)$",
)
"""Sphinx, Google and NumPy style, each with the name of a parameter."""
_DOCUMENTED = {
    "module": "Module", "dataloader": "Loader", "optimizer": "Optimizer", "gradscaler": "Scaler",
    "lrscheduler": "Scheduler", "_lrscheduler": "Scheduler",
}  # fmt: skip


def stated(machine: Machine, annotation: ir.Expr | None, state: State) -> Iterator[str | Class]:
    """What an annotation allows: kinds of objects (``plain`` for numbers and text, ``tensor``) and classes of the
    repository."""
    for expr in _alternatives(machine, annotation, state, 3) if annotation is not None else ():
        for case in machine.evaluate(expr, state).cases:
            if isinstance(case, Class):
                yield case
            elif isinstance(case, External) and (kind := kind_named(case.name)):
                yield kind


def kind_named(name: str) -> str | None:
    """The kind of a type outside the repository, by its qualified name."""
    if name in _PLAIN:
        return "plain"
    if name == "torch.Tensor":
        return "tensor"
    if name in _KINDS:
        return _KINDS[name]
    if not _LIKE.match(name):
        return None
    return next((kind for start, kind in _LIKE_KINDS.items() if name.startswith(start)), "Optimizer")


def _alternatives(machine: Machine, expr: ir.Expr, state: State, depth: int) -> Iterator[ir.Expr]:
    if isinstance(expr, ir.Operation) and expr.op == "|" and expr.right is not None and depth:
        yield from _alternatives(machine, expr.left, state, depth - 1)
        yield from _alternatives(machine, expr.right, state, depth - 1)
    elif isinstance(expr, ir.Subscript) and depth:
        if _ends(machine.evaluate(expr.value, state)):
            inner = expr.index.items if isinstance(expr.index, ir.Display) else (expr.index,)
            for each in inner:
                yield from _alternatives(machine, each, state, depth - 1)
    elif isinstance(expr, ir.Constant):
        if isinstance(expr.value, str) and "[" not in expr.value.replace("Optional[", ""):
            for name in _DOTTED.findall(expr.value)[:4]:
                yield _expression(name, expr.at)
    elif isinstance(expr, (ir.Name, ir.Attribute)):
        yield expr


def _ends(value: Value) -> bool:
    return isinstance(value, External) and value.name.endswith(_EITHER)


def _expression(name: str, at: int) -> ir.Expr:
    first, *rest = [part for part in name.split(".") if part]
    expr: ir.Expr = ir.Name(at, first)
    for part in rest:
        expr = ir.Attribute(at, expr, part)
    return expr


@remembered(maxsize=4096)
def documented(node: ir.FunctionDef, name: str) -> str | None:
    """The kind that the docstring of a function gives one of its parameters."""
    text = _docstring(node)
    if name not in text:
        return None
    for style in _IN_DOCSTRING:
        found = re.search(style.format(name=re.escape(name)), text, re.MULTILINE)
        for word in _DOTTED.findall(found["type"]) if found else ():
            kind = _DOCUMENTED.get(word.rpartition(".")[2].lower())
            if kind:
                return kind
    return None


def _docstring(node: ir.FunctionDef) -> str:
    first = node.body[0] if node.body else None
    if isinstance(first, ir.Evaluate) and isinstance(first.value, ir.Constant) and isinstance(first.value.value, str):
        return first.value.value[:20_000]
    return ""
