"""The fix that turns gradients off in a whole function: a decorator above it, spelt as the file imports torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from analyzer.engine.events import Backward, Event, Step
from analyzer.engine.program import extent
from analyzer.fixes.edits import InsertStatement
from analyzer.rules.base import DraftFix
from analyzer.syntax import ir

if TYPE_CHECKING:
    from analyzer.engine.program import Program
    from analyzer.engine.trace import Site

_TRAINS = {"backward", "backward(…)", "step", "step(…)", "zero_grad", "zero_grad(…)", "manual_backward(…)"}


def without_gradients(program: Program, place: Site) -> DraftFix | None:
    """A decorator above the function around `place`, where nothing in it, or called from it, trains."""
    function = program.function_around(place)
    unit = program.sources.unit(place.path)
    if function is None or function.is_async or unit is None:
        return None
    if any(how & _TRAINS for how in function.uses.values()):
        return None
    reached: Iterable[Event] = (*program.of(Backward), *program.of(Step))
    inside = extent(function)
    if any(site.path == place.path and site.at in inside for event in reached for site in (event.site, *event.calls)):
        return None
    decorator = _spelling(unit.body, function)
    if decorator is None:
        return None
    edit = InsertStatement("before", function.at, f"@{decorator}()")
    return DraftFix(f"Turn gradients off in `{function.name}`", "unsafe", (edit,))


def _spelling(body: ir.Block, function: ir.FunctionDef) -> str | None:
    """How the module names ``torch.no_grad`` where the function is defined."""
    for node in body:
        if node.at > function.at:
            return None
        if isinstance(node, ir.Import):
            for name, bound in node.names:
                if name == "torch" or (name.startswith("torch.") and bound is None):
                    return f"{bound or 'torch'}.no_grad"
        elif isinstance(node, ir.ImportFrom) and node.module == "torch" and not node.level:
            for name, bound in node.names:
                if name in {"no_grad", "inference_mode"}:
                    return bound
    return None
