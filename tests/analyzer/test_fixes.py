"""Edits: minimal, byte-exact, parenthesised where precedence needs it."""

from __future__ import annotations

import time

import libcst as cst
import pytest

from analyzer.findings import Confidence, Edit, Evidence, Finding, Fix, Position, Severity, Span
from analyzer.fixes.apply import apply, choose
from analyzer.fixes.edits import InsertAfter, InsertStatement, Replace, SymbolicEdit, resolve
from analyzer.fixes.reconcile import reconcile
from analyzer.fixes.verify import verify
from analyzer.positions import spans


def _node(module: cst.Module, text: str) -> cst.CSTNode:
    found: list[cst.CSTNode] = []

    class Finder(cst.CSTVisitor):
        def on_visit(self, node: cst.CSTNode) -> bool:
            if isinstance(node, (cst.BaseExpression, cst.BaseSmallStatement)) and module.code_for_node(node) == text:
                found.append(node)
            return True

    module.visit(Finder())
    return found[0]


def _resolved(edit: SymbolicEdit, module: cst.Module, nodes: list[cst.CSTNode]) -> tuple[Edit, ...]:
    places = spans(module, "x.py", nodes)
    by_number = {number: places[node] for number, node in enumerate(nodes)}
    return resolve([edit], lambda: (module, nodes), lambda _: by_number, lambda _: None, module.code.splitlines)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("x = a + b\n", "a + b", "x = (a + b).detach()\n"),
        ("x = (a + b)\n", "(a + b)", "x = ((a + b).detach())\n"),
        ("x = f(a)\n", "f(a)", "x = f(a).detach()\n"),
        ("x = -a\n", "-a", "x = (-a).detach()\n"),
        ("x = a if b else c\n", "a if b else c", "x = (a if b else c).detach()\n"),
        ("é = ü[0]\r\n", "ü[0]", "é = ü[0].detach()\r\n"),
    ],
)
def test_detach_binds_to_the_whole_expression(source: str, target: str, expected: str) -> None:
    module = cst.parse_module(source.encode())
    edits = _resolved(InsertAfter(0, ".detach()"), module, [_node(module, target)])
    assert expected.encode() == apply(source.encode(), edits)


@pytest.mark.parametrize(
    ("source", "where", "expected"),
    [
        ("for x in y:\n\topt.step()\n", "before", "for x in y:\n\tz()\n\topt.step()\n"),
        ("for x in y:\r\n    opt.step()  # c\r\n", "after", "for x in y:\r\n    opt.step()  # c\r\n    z()\r\n"),
        ("opt.step()", "after", "opt.step()\nz()"),
        ("if a: opt.step()\n", "after", "if a: opt.step(); z()\n"),
        ("a; opt.step(); b\n", "before", "a; z(); opt.step(); b\n"),
        ("opt.step(); b\n", "after", "opt.step(); z(); b\n"),
    ],
)
def test_a_statement_gets_the_line_and_indentation_it_needs(source: str, where: str, expected: str) -> None:
    module = cst.parse_module(source.encode())
    edit = InsertStatement("before" if where == "before" else "after", 0, "z()")
    edits = _resolved(edit, module, [_node(module, "opt.step()")])
    assert expected.encode() == apply(source.encode(), edits)


def test_the_source_of_another_node_takes_the_place_of_one() -> None:
    source = b"loss = crit(torch.softmax(a + b, -1), y)\n"
    module = cst.parse_module(source)
    nodes = [_node(module, "torch.softmax(a + b, -1)"), _node(module, "a + b")]
    edits = _resolved(Replace(0, 1), module, nodes)
    assert apply(source, edits) in (b"loss = crit((a + b), y)\n", b"loss = crit(a + b, y)\n")


def test_bytes_around_an_edit_are_untouched() -> None:
    source = b"\xef\xbb\xbf# c\r\nx = '\xc3\xa9'\ry = 1\n"
    span = Span("x.py", Position(3, 4), Position(3, 5))
    assert source.replace(b"y = 1", b"y = 2") == apply(source, [Edit(span, "2")])
    latin = b"# coding: latin-1\nx = '\xe9', 1\n"
    span = Span("x.py", Position(2, 9), Position(2, 10))
    assert latin.replace(b"1\n", b"\xfc\n").replace(b"latin-\xfc", b"latin-1") == apply(latin, [Edit(span, "ü")])


def test_overlapping_edits_are_refused() -> None:
    one = Edit(Span("x.py", Position(1, 0), Position(1, 3)), "a")
    other = Edit(Span("x.py", Position(1, 2), Position(1, 4)), "b")
    with pytest.raises(ValueError, match="overlap"):
        apply(b"abcdef\n", [one, other])


def _finding(rule: str, line: int, edits: tuple[Edit, ...] = ()) -> Finding:
    return Finding(
        rule=rule,
        name="n",
        span=Span("x.py", Position(line, 0), Position(line, 1)),
        severity=Severity.ERROR,
        confidence=Confidence.CERTAIN,
        message="m",
        evidence=(Evidence("x.py", line, 0, "here"),),
        fix=Fix("t", "safe", edits) if edits else None,
    )


def test_one_cause_on_one_line_is_reported_once() -> None:
    findings = [_finding("PF205", 3), _finding("PF204", 3), _finding("PF205", 4), _finding("PF101", 3)]
    assert [(item.rule, item.line) for item in reconcile(findings)] == [("PF204", 3), ("PF205", 4), ("PF101", 3)]


def test_of_colliding_fixes_one_is_kept() -> None:
    edit = Edit(Span("x.py", Position(1, 0), Position(1, 3)), "a")
    first, second = reconcile([_finding("PF101", 1, (edit,)), _finding("PF201", 1, (edit,))])
    assert (first.fix is not None, second.fix) == (True, None)


@pytest.mark.parametrize(("after", "keeps"), [([], True), (["PF101"], False), (["PF204"], False), (None, False)])
def test_a_fix_must_be_seen_to_work(after: list[str] | None, keeps: bool) -> None:
    edit = Edit(Span("x.py", Position(1, 0), Position(1, 1)), "y")
    seen: list[bytes] = []

    def analyse(changed: bytes) -> list[str] | None:
        seen.append(changed)
        return after

    (result,) = verify(b"x\n", [_finding("PF101", 1, (edit,))], analyse)
    assert (keeps, b"y\n") == (result.fix is not None, seen[0])


def test_fixes_that_add_the_same_line_are_tried_together() -> None:
    def at(column: int, text: str) -> Edit:
        return Edit(Span("x.py", Position(1, column), Position(1, column)), text)

    imported = at(0, "import copy\n")
    findings = [
        _finding("PF221", 1, (imported, at(3, "a"))),
        _finding("PF221", 2, (imported, at(5, "b"))),
        _finding("PF221", 3, (at(5, "c"),)),
    ]
    seen: list[bytes] = []

    def analyse(changed: bytes) -> list[str]:
        seen.append(changed)
        return ["PF221"]

    kept = verify(b"x = y z\n", findings, analyse)
    assert seen == [b"import copy\nx =a yb z\n", b"x = yc z\n"]
    assert all(item.fix is not None for item in kept)


def _many(number: int) -> tuple[bytes, list[Finding]]:
    def at(line: int) -> Edit:
        return Edit(Span("x.py", Position(line, 0), Position(line, 1)), "good")

    return b"x\n" * number, [_finding("PF101", line, (at(line),)) for line in range(1, number + 1)]


def test_one_bad_fix_among_many_costs_a_few_tries() -> None:
    source, findings = _many(200)
    seen: list[bytes] = []

    def analyse(changed: bytes) -> list[str]:
        seen.append(changed)
        lines = changed.splitlines()
        return ["PF204"] * (lines[76] == b"good") + ["PF101"] * lines.count(b"x")

    kept = verify(source, findings, analyse)
    assert [item.line for item in kept if item.fix is None] == [77]
    assert len(seen) < 20


def test_what_is_not_tried_is_not_offered() -> None:
    source, findings = _many(8)
    tries = iter([True, False])

    def analyse(changed: bytes) -> list[str]:
        return ["PF204"] * (changed.startswith(b"x")) + ["PF101"] * changed.splitlines().count(b"x")

    kept = verify(source, findings[1:], analyse, lambda: next(tries))  # all fail, and so does the first half
    assert [item.fix for item in kept] == [None] * 7


def test_fixes_of_hundreds_of_findings_are_chosen_by_their_neighbours() -> None:
    _, findings = _many(3_000)
    start = time.process_time()
    assert len(choose(findings * 2, with_unsafe=True)) == len(findings)
    assert sum(item.fix is not None for item in reconcile(findings * 2)) == len(findings)
    assert time.process_time() - start < 5
