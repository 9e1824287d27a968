"""The words of a place in the program: names and literals of an expression, for questions that only hush a rule.

Asked of the IR, so that a file which ends without a finding is never parsed into a full tree.
"""

from __future__ import annotations

from functools import lru_cache

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.syntax import ir
from analyzer.syntax.scope import every, walk


class Words:
    """The nodes of the files of one program by number."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def node(self, site: Site) -> ir.Expr | ir.Stmt | None:
        """The IR node of a site."""
        unit = self.program.unit(site.path)
        return _numbered(unit).get(site.at) if unit is not None else None

    def of(self, site: Site) -> str:
        """The names and literals of an expression; of an ``if``, of its test; in a fixed order."""
        node = self.node(site)
        if isinstance(node, (ir.If, ir.While)):
            node = node.test
        return spelled(node) if isinstance(node, ir.Expr) else ""


@lru_cache(maxsize=16)
def _numbered(unit: ir.Unit) -> dict[int, ir.Expr | ir.Stmt]:
    """The nodes of a file by number."""
    nodes = reversed(every(unit))  # a part may share the number of its whole, which comes first
    return {node.at: node for node in nodes if isinstance(node, (ir.Expr, ir.Stmt))}


def spelled(node: ir.Expr) -> str:
    """The names and literals of an expression, in a fixed order: the same for expressions written alike."""
    parts: list[str] = []
    for part in walk((ir.Evaluate(node.at, node),), True):
        if isinstance(part, ir.Name):
            parts.append(part.id)
        elif isinstance(part, ir.Attribute):
            parts.append(f".{part.attr}")
        elif isinstance(part, ir.Constant):
            parts.append(repr(part.value))
        elif isinstance(part, ir.Arg) and part.keyword:
            parts.append(f"{part.keyword}=")
    return " ".join(parts)


def words(program: Program) -> Words:
    """The questions, for all rules once."""
    found = program.answers.get(Words)
    if not isinstance(found, Words):
        found = program.answers[Words] = Words(program)
    return found
