"""The files of the tree: their IR, read once, and the LibCST tree of those that something is reported in."""

from __future__ import annotations

import ast
from collections.abc import Collection

from analyzer.engine.trace import Site
from analyzer.findings import Skipped, Span
from analyzer.journal import Journal
from analyzer.nesting import decode, too_deep
from analyzer.project import Project
from analyzer.syntax import ir, native
from analyzer.syntax.alike import alike
from analyzer.syntax.later import cst
from analyzer.syntax.places import Places, places

MAX_PLACES_BYTES = 512 << 10
"""Of the files whose places are known: Python's tree of a file takes fifty times the memory of its text."""
MAX_HELD_BYTES = 12 << 20
"""Of the files whose IR is kept for the next targets: it takes twenty times the memory of their text."""
MAX_TREES = 12
MAX_TREE_LINES = 200_000
"""A LibCST tree takes a hundred times the memory of its text, and more than a kilobyte for an empty line."""
Tree = tuple["cst.Module", "list[cst.CSTNode]"]


class Renumbered(Exception):
    """The two parsers do not agree on a file: what was seen with the IR of before has to be seen again."""


class Sources:
    """The files of the tree, read and lowered at most once."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.units: dict[str, ir.Unit | None] = {}
        self.skipped: dict[str, Skipped] = {}
        self._trees: dict[str, Tree] = {}
        self._known_places: dict[str, tuple[Places, int]] = {}
        self._placed = 0
        """The length of the files in it."""
        self._agreed: set[str] = set()
        self.called: dict[str, tuple[frozenset[str], Journal]] = {}
        """What each file calls through its imports, once somebody asked, and what was asked to find that out."""
        self._by_libcst: set[str] = set()
        self._recent: dict[str, int] = {}
        """The length of the files that were read, those that were asked for last at the end."""

    def with_changed(self, project: Project, path: str) -> Sources:
        """The same tree with one file changed: the other files are not read again."""
        changed = Sources(project)
        changed.units = {known: unit for known, unit in self.units.items() if known != path}
        changed.skipped = {known: note for known, note in self.skipped.items() if known != path}
        changed._trees = {known: tree for known, tree in self._trees.items() if known != path}
        changed._agreed = self._agreed - {path}
        changed._by_libcst = self._by_libcst - {path}
        return changed

    def make_room(self) -> None:
        """Forget what was asked for longest ago where it is much: between two targets, for one is seen as a whole. What
        is needed again is read again, and says the same."""
        self.project.make_room()
        held = sum(self._recent.values())
        while held > MAX_HELD_BYTES:
            path = next(iter(self._recent))
            held -= self._recent.pop(path)
            self.project.let_go(path)
            for known in (self.units, self.skipped, self._trees, self.called):
                known.pop(path, None)
            if path in self._known_places:
                self._placed -= self._known_places.pop(path)[1]
            self._agreed.discard(path)
            self._by_libcst.discard(path)

    def unit(self, path: str) -> ir.Unit | None:
        """The IR of a file; None, with a note, where it cannot be read."""
        self.project.journal.reads.add(path)
        if path not in self.units:
            self.units[path] = None
            self.units[path] = self._lowered(path)
        self._recent[path] = self._recent.pop(path, 0)
        return self.units[path]

    def unit_if_cheap(self, path: str, source: bytes) -> None:
        """A screened-out file is not parsed for its findings; that it is no Python at all is still said."""
        if reason := too_deep(source):
            self.skipped[path] = Skipped(path, reason)
            return
        from analyzer.syntax.problems import syntax_problem  # needs LibCST where something is wrong

        if reason := syntax_problem(source):
            self.skipped[path] = Skipped(path, reason)

    def tree(self, path: str) -> Tree:
        """The LibCST module of a file with IR, and the node of every number. Raises `Renumbered`."""
        known = self._trees.get(path)
        if known is not None:
            return known
        source, unit = self.project.read(path), self.units.get(path)
        made = self._parsed(path, source) if source is not None and unit is not None else None
        if made is None:
            self.units[path] = None
            raise Renumbered(path)
        if path not in self._agreed:
            self._agreed.add(path)
            if not alike(made[0], unit):  # type: ignore[arg-type]
                self.units[path] = made[0]
                self._by_libcst.add(path)
                self._keep(path, made[1])
                raise Renumbered(path)
        return self._keep(path, made[1])

    def spans(self, path: str, numbers: Collection[int]) -> dict[int, Span]:
        """Where nodes of a file stand. LibCST is asked only where Python's tree does not say. Raises `Renumbered`."""
        places = self._places(path)
        if places is not None:
            found = {number: span for number in numbers if (span := places.span(path, number)) is not None}
            if len(found) == len(numbers):
                return found
        from analyzer.positions import spans  # as in `_parsed`

        module, nodes = self.tree(path)
        by_node = spans(module, path, {nodes[number] for number in numbers})
        return {number: by_node[nodes[number]] for number in numbers if nodes[number] in by_node}

    def is_loose(self, path: str, number: int) -> bool | None:
        """Whether ``.x`` behind an expression would bind to a part of it only; None where Python's tree cannot say."""
        places = self._places(path)
        return None if places is None else places.is_loose(number)

    def lines(self, path: str) -> list[str]:
        """The lines of a file that can be decoded."""
        return decode(self.project.read(path) or b"").splitlines()

    def _places(self, path: str) -> Places | None:
        source = self.project.read(path) if path not in self._by_libcst else None
        if source is None:
            return None
        known = self._known_places.get(path)
        return known[0] if known is not None else places(source)

    def _keep(self, path: str, tree: Tree) -> Tree:
        lines = self._lines(path) + sum(map(self._lines, self._trees))
        while self._trees and (len(self._trees) >= MAX_TREES or lines > MAX_TREE_LINES):
            oldest = next(iter(self._trees))
            lines -= self._lines(oldest)
            del self._trees[oldest]
        self._trees[path] = tree
        return tree

    def _lines(self, path: str) -> int:
        return (self.project.read(path) or b"").count(b"\n")

    def _place(self, path: str, places: Places, length: int) -> None:
        self._placed += length - self._known_places.pop(path, (places, 0))[1]
        while self._known_places and self._placed > MAX_PLACES_BYTES:
            self._placed -= self._known_places.pop(next(iter(self._known_places)))[1]
        self._known_places[path] = places, length

    def _lowered(self, path: str) -> ir.Unit | None:
        source = self.project.read(path)
        if source is None:
            self.skipped[path] = Skipped(path, "cannot be read")
            return None
        self._recent[path] = len(source)
        self.project.hold(path, source)
        if reason := too_deep(source):
            self.skipped[path] = Skipped(path, reason)
            return None
        numbered = native.numbered(source, path)
        if numbered is not None:
            self._place(path, Places(numbered[1], source), len(source))
            return numbered[0]
        made = self._parsed(path, source)
        if made is None:
            return None
        self._agreed.add(path)
        self._by_libcst.add(path)
        self._keep(path, made[1])
        return made[0]

    def _parsed(self, path: str, source: bytes) -> tuple[ir.Unit, Tree] | None:
        """By LibCST, whatever the version of the syntax; None, with a note, where it is no Python."""
        from analyzer.syntax.lower import lower  # needs LibCST, which most files do not
        from analyzer.syntax.problems import syntax_problem

        try:
            module = cst.parse_module(source)
            unit, nodes = lower(module, path)
        except cst.ParserSyntaxError as error:
            place = f"syntax error at {error.raw_line}:{error.raw_column}"
            self.skipped[path] = Skipped(path, syntax_problem(source) or place)
            return None
        except RecursionError:
            self.skipped[path] = Skipped(path, "nested too deeply")
            return None
        except Exception as error:  # noqa: BLE001  boundary per file: an odd encoding or a parser bug must not end the run
            self.skipped[path] = Skipped(path, f"cannot be parsed: {type(error).__name__}: {error}"[:200])
            return None
        return unit, (module, nodes)

    # --- what rules say about a place -------------------------------------------------------------------------

    def node(self, site: Site) -> cst.CSTNode:
        """The LibCST node of a site."""
        return self.tree(site.path)[1][site.at]

    def receiver_text(self, site: Site) -> str | None:
        """``optimizer`` of the call ``optimizer.step()``."""
        return self._called_on(site, without_arguments=True)

    def called_on(self, site: Site) -> str | None:
        """``logits`` of the call ``logits.softmax(1)``."""
        return self._called_on(site, without_arguments=False)

    def _called_on(self, site: Site, without_arguments: bool) -> str | None:
        places = self._places(site.path)
        if places is not None and (made := places.call(site.at)) is not None:
            if not isinstance(made.func, ast.Attribute) or (without_arguments and (made.args or made.keywords)):
                return None
            if (text := places.text_of_head(made.func.value, made)) is not None:
                return text
        module, nodes = self.tree(site.path)
        call = nodes[site.at]
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
            return None if without_arguments and call.args else module.code_for_node(call.func.value)
        return None

    def callee(self, site: Site) -> tuple[int, str] | None:
        """The number and the text of ``F.relu`` in the call ``F.relu(x)``."""
        number = site.at + 1  # a call's callee is numbered right after it
        places = self._places(site.path)
        made = places.call(site.at) if places is not None else None
        if places is not None and made is not None and places.is_node(number, made.func):
            text = places.text_of_head(made.func, made)
            if text is not None:
                return number, text
        module, nodes = self.tree(site.path)
        call = nodes[site.at]
        if isinstance(call, cst.Call) and number < len(nodes) and nodes[number] is call.func:
            return number, module.code_for_node(call.func)
        return None

    def receiver(self, site: Site) -> int | None:
        """The number of ``loss`` in the call ``loss.backward()``, where it binds tightly."""
        nodes = self.tree(site.path)[1]
        call, number = nodes[site.at], site.at + 2  # the callee is numbered right after the call, then its value
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or number >= len(nodes):
            return None
        is_atom = isinstance(call.func.value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        return number if is_atom and nodes[number] is call.func.value else None

    def modulus(self, site: Site) -> str | None:
        """``n`` of the condition ``if (i + 1) % n == 0``, where it is a name or a number."""
        module, nodes = self.tree(site.path)
        condition = nodes[site.at]
        todo: list[cst.CSTNode] = [condition.test] if isinstance(condition, cst.If) else []
        while todo:
            node = todo.pop()
            if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
                is_plain = isinstance(node.right, (cst.Name, cst.Attribute, cst.Integer))
                return module.code_for_node(node.right) if is_plain else None
            todo += node.children
        return None

    def statement_of(self, site: Site) -> int | None:
        """The number of the expression statement that a call is, if it is one."""
        places = self._places(site.path)
        if places is not None and places.call(site.at) is not None:
            return places.statement_of(site.at)
        nodes = self.tree(site.path)[1]
        before = nodes[site.at - 1] if site.at else None
        return site.at - 1 if isinstance(before, cst.Expr) and before.value is nodes[site.at] else None

    def condition(self, site: Site) -> str:
        """The source of the test of an ``if``, for one that hushes a rule: it accuses nobody."""
        module, nodes = self.tree(site.path)
        node = nodes[site.at]
        return module.code_for_node(node.test) if isinstance(node, cst.If) else ""

    def line_of(self, site: Site) -> int | None:
        """The number of the simple statement that an expression is a part of: a line can be put before it."""
        nodes = self.tree(site.path)[1]
        wanted = nodes[site.at]
        for at in range(site.at - 1, max(-1, site.at - 40), -1):
            statement = nodes[at]
            if isinstance(statement, cst.BaseSmallStatement):
                return at if _holds(statement, wanted) else None
            if isinstance(statement, cst.BaseCompoundStatement):
                return None
        return None

    def argument_text(self, site: Site) -> str | None:
        """``optimizer`` of the call ``scaler.step(optimizer)``."""
        module, nodes = self.tree(site.path)
        call = nodes[site.at]
        if isinstance(call, cst.Call) and call.args and not call.args[0].star:
            return module.code_for_node(call.args[0].value)
        return None

    def iterated_text(self, site: Site) -> str | None:
        """``loader`` of a loop over ``loader``, ``enumerate(loader)``, ``tqdm(loader, …)``."""
        module, nodes = self.tree(site.path)
        node: cst.CSTNode = nodes[site.at]
        node = node.iter if isinstance(node, cst.For) else node
        while isinstance(node, cst.Call) and node.args:
            node = node.args[0].value
        return module.code_for_node(node) if isinstance(node, (cst.Name, cst.Attribute)) else None

    def head_of_loop(self, site: Site) -> tuple[str, int] | None:
        """The variable of a ``for`` loop and the number of the first statement in it."""
        nodes = self.tree(site.path)[1]
        node = nodes[site.at]
        if not isinstance(node, cst.For) or not isinstance(node.target, cst.Name):
            return None
        first: cst.CSTNode = node.body.body[0]
        first = first.body[0] if isinstance(first, cst.SimpleStatementLine) else first
        number = next((at for at in range(site.at, len(nodes)) if nodes[at] is first), None)
        return None if number is None else (node.target.value, number)

    def text(self, site: Site) -> str:
        """The source of a site on one line, shortened, without backticks: it will stand between them in Markdown."""
        places = self._places(site.path)
        text = places.text(site.at) if places is not None else None
        if text is None:
            module, nodes = self.tree(site.path)
            text = module.code_for_node(nodes[site.at])
        text = " ".join(text.replace("`", "'").split())
        return text if len(text) <= 60 else text[:57] + "…"


def _holds(node: cst.CSTNode, wanted: cst.CSTNode) -> bool:
    return node is wanted or any(_holds(child, wanted) for child in node.children)
