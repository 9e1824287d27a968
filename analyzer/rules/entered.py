"""How the functions are called that were read without their callers, as far as the text of their file shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import spelled
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, walk

_OFF = re.compile(r"no_grad|inference_mode")


def is_entered_under(program: Program, calls: Sequence[Site]) -> bool:
    """Whether the function that `calls` begin with, read without its callers, is called under ``no_grad`` somewhere in
    its file."""
    name = program.entries.get(calls[0], "") if calls else ""
    unit = program.unit(calls[0].path) if name else None
    for node in walk(unit.body, into_functions=True) if unit is not None else ():
        if isinstance(node, ir.With) and any(_OFF.search(spelled(item)) for item, _ in node.items):
            inside = (part for part in walk(node.body, into_functions=False) if isinstance(part, ir.Call))
            if any((dotted(call.callee) or "").rpartition(".")[2] == name for call in inside):
                return True
    return False
