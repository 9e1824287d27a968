"""The words of a place in the program: names and literals of an expression, for questions that only hush a rule.

Asked of the IR, so that a file which ends without a finding is never parsed into a full tree.
"""

from __future__ import annotations

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.syntax import ir, scope
from analyzer.syntax.scope import node_at, walk


class Words:
    """The nodes of the files of one program by number."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.known: dict[Site, ir.Expr | ir.Stmt | None] = {}

    def node(self, site: Site) -> ir.Expr | ir.Stmt | None:
        """The IR node of a site."""
        if site not in self.known:
            unit = self.program.unit(site.path)
            self.known[site] = node_at(unit, site.at) if unit is not None else None
        return self.known[site]

    def of(self, site: Site) -> str:
        """The names and literals of an expression; of an ``if``, of its test; in a fixed order."""
        node = self.node(site)
        if isinstance(node, (ir.If, ir.While)):
            node = node.test
        return spelled(node) if isinstance(node, ir.Expr) else ""


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


def asked_around(program: Program, site: Site) -> list[ir.Expr]:
    """The conditions that a place stands under by its text, also those whose answer was known where it was interpreted
    (``save(rank=0)``), and those that leave its function before it."""
    function, unit = program.function_around(site), program.unit(site.path)
    return scope.asked_around(function.body if function is not None else unit.body if unit is not None else (), site.at)


def words(program: Program) -> Words:
    """The questions, for all rules once."""
    found = program.answers.get(Words)
    if not isinstance(found, Words):
        found = program.answers[Words] = Words(program)
    return found
