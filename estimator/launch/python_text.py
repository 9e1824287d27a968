"""Commands inside Python functions, as shell text: f-strings, lists of words, names of constants. Nothing is executed.

What an expression does not show becomes a shell variable whose reason says so; ``os.environ.get("X", "d")`` is
``${X:-d}``.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from estimator.launch.base import Arg

_MAX_DEPTH = 20
_MAX_TEXT = 8192
_RUNS_WORDS = frozenset({"args", "cmd", "command"})
_DEVICES = "torch.cuda.device_count()"
Scope = Mapping[str, "ast.expr | None"]


def assigned(body: list[ast.stmt]) -> dict[str, ast.expr | None]:
    """What names of one block stand for: None for one that is assigned twice, or by something else than ``=``."""
    found: dict[str, ast.expr | None] = {}
    for node in _within(body):
        targets = node.targets if isinstance(node, ast.Assign) else []
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        targets = [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For)) else targets
        for target in targets:
            if isinstance(target, ast.Name):
                found[target.id] = None if target.id in found else value
    return found


def _within(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a block and those inside its conditions and loops, not those of functions in it."""
    for node in body:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                yield from _within(getattr(node, name, []))


@dataclass(slots=True)
class Text:
    """Renders expressions of one function. `devices` is the number of GPUs, where it is known."""

    path: str
    scopes: tuple[Scope, ...]
    devices: int | None = None
    holes: dict[str, Arg] = field(default_factory=dict)

    def command(self, call: ast.Call) -> str | None:
        """The shell text that a call is given to run; None where it is given no text."""
        given = [*call.args[:1], *(word.value for word in call.keywords if word.arg in _RUNS_WORDS)]
        if not given:
            return None
        value = self._resolved(given[0])
        text = self._words(value, 0) if isinstance(value, (ast.List, ast.Tuple)) else self.text(value, 0)
        name = ast.unparse(call.func).rsplit(".", 1)[-1]
        if name == "parse_args" and text.startswith("-"):
            text = f"torchrun {text}"  # torch.distributed.run.parse_args([...])
        return text[:_MAX_TEXT]

    def text(self, node: ast.expr, depth: int) -> str:
        """An expression as shell text."""
        if depth > _MAX_DEPTH:
            return self.hole(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float)):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(self._part(part, depth) for part in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.text(node.left, depth + 1) + self.text(node.right, depth + 1)
        if isinstance(node, ast.Name) and (known := self._resolved(node)) is not node:
            return self.text(known, depth + 1)
        if isinstance(node, (ast.List, ast.Tuple)):
            return self._words(node, depth + 1)
        if isinstance(node, ast.Call):
            return self._call(node, depth + 1)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
            return "python"
        return self.hole(node)

    def _part(self, part: ast.expr, depth: int) -> str:
        if isinstance(part, ast.FormattedValue):
            return self.text(part.value, depth + 1) if part.format_spec is None else self.hole(part.value)
        return self.text(part, depth + 1)

    def _resolved(self, node: ast.expr) -> ast.expr:
        for _ in range(_MAX_DEPTH):
            if not isinstance(node, ast.Name):
                return node
            value = next((scope[node.id] for scope in self.scopes if node.id in scope), None)
            if value is None:
                return node
            node = value
        return node

    def _words(self, node: ast.List | ast.Tuple, depth: int) -> str:
        words: list[str] = []
        for item in node.elts:
            inner = self._resolved(item.value) if isinstance(item, ast.Starred) else item
            if isinstance(item, ast.Starred) and isinstance(inner, (ast.List, ast.Tuple)):
                words.append(self._words(inner, depth + 1) if depth < _MAX_DEPTH else self.hole(inner))
                continue
            text = self.text(inner, depth + 1)
            words.append(text if "$" in text else shlex.quote(text))
        return " ".join(words)

    def _call(self, node: ast.Call, depth: int) -> str:
        name = ast.unparse(node.func)
        if name in {"os.environ.get", "os.getenv"} and node.args and isinstance(node.args[0], ast.Constant):
            variable = str(node.args[0].value)
            default = self.text(node.args[1], depth + 1) if len(node.args) > 1 else ""
            return f"${{{variable}:-{default}}}" if re.fullmatch(r"\w+", variable) else self.hole(node)
        if name in {"str", "int", "shlex.split", "shlex.quote"} and len(node.args) == 1:
            return self.text(node.args[0], depth + 1)
        if f"{name}()" == _DEVICES and self.devices is not None:
            return str(self.devices)
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"split", "strip"} and not node.args:
            return self.text(node.func.value, depth + 1)
        is_join = isinstance(node.func, ast.Attribute) and node.func.attr == "join" and len(node.args) == 1
        inner = self._resolved(node.args[0]) if is_join else None
        if isinstance(inner, (ast.List, ast.Tuple)):
            return " ".join(self.text(item, depth + 1) for item in inner.elts)
        return self.hole(node)

    def hole(self, node: ast.expr) -> str:
        """A shell variable for what cannot be known."""
        name = f"PYTHON_{node.lineno}_{node.col_offset}"
        shown = re.sub(r"\s+", " ", ast.unparse(node))[:60]
        self.holes[name] = Arg(f"${name}", self.path, node.lineno, f"{shown}: known when the program runs")
        return f"${name}"
