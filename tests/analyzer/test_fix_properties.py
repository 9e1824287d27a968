"""Every fix on offer, on every case in many clothes: the file parses, the finding is gone, no other byte moves."""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.api import Options, analyze, applied, chosen_fixes
from analyzer.findings import Confidence, Edit, Finding, Position
from tests.analyzer.mdcases import Case, cases_in

CASES_DIR = Path(__file__).parents[1] / "cases"
ALL = Options(min_confidence=Confidence.POSSIBLE)
MAX_PASSES = 6


class Tree:
    """A case with its files as bytes."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)

    def paths(self) -> Collection[str]:
        return self.files.keys()

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def findings(self) -> tuple[Finding, ...]:
        targets = sorted(path for path in self.files if path.endswith((".py", ".ipynb")))
        return analyze(self, targets, ALL).findings


@functools.cache
def fixable() -> list[Case]:
    """The cases whose report offers a fix."""
    every = [case for document in sorted(CASES_DIR.rglob("*.md")) for case in cases_in(document)]
    marked = [case for case in every if case.expected()]
    return [case for case in marked if any(item.fix for item in Tree(_bytes(case)).findings())]


def _bytes(case: Case) -> dict[str, bytes]:
    return {path: text.encode() for path, text in case.files.items()}


# --- clothes: the same program, written otherwise ---------------------------------------------------------------


def windows(text: str) -> bytes:
    return b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()


def macintosh(text: str) -> bytes:
    return text.replace("\n", "\r").encode()


def tabs(text: str) -> bytes:
    return "".join(_tabbed(line) for line in text.splitlines(keepends=True)).encode()


def _tabbed(line: str) -> str:
    body = line.lstrip(" ")
    width = len(line) - len(body)
    return "\t" * (width // 4) + " " * (width % 4) + body


def declared(text: str) -> bytes:
    return b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + text.encode("latin-1", "replace")


def nested(text: str) -> bytes:
    return ("if True:\n" + "".join(f"    {line}" for line in text.splitlines(keepends=True))).encode()


def unfinished(text: str) -> bytes:
    return text.rstrip("\n").encode()


def wide(text: str) -> bytes:
    return "".join(line.replace("\n", "  # \N{SNOWMAN} ü\n") for line in text.splitlines(keepends=True)).encode()


CLOTHES: list[Callable[[str], bytes]] = [str.encode, windows, macintosh, tabs, declared, nested, unfinished, wide]


def dressed(case: Case, clothes: Callable[[str], bytes]) -> Tree:
    """The case in other clothes; in its own where they do not fit (a string over several lines, a future import)."""
    files = {path: clothes(text) if path.endswith(".py") else text.encode() for path, text in case.files.items()}
    try:
        for path, content in files.items():
            if path.endswith(".py"):
                ast.parse(content)
    except (SyntaxError, ValueError):
        return Tree(_bytes(case))
    return Tree(files)


def as_notebook(case: Case) -> Tree | None:
    """The case as a notebook of one cell, where it is one file."""
    if len(case.files) != 1:
        return None
    (text,) = case.files.values()
    cell = {"cell_type": "code", "source": text.splitlines(keepends=True), "outputs": [{"text": text}]}
    return Tree({"case.ipynb": json.dumps({"nbformat": 4, "metadata": {}, "cells": [cell]}, indent=1).encode()})


# --- what must hold ---------------------------------------------------------------------------------------------


def spliced(source: bytes, edits: Collection[Edit]) -> bytes:
    """The edits made byte by byte, without the code under test."""
    bom = b"\xef\xbb\xbf" if source.startswith(b"\xef\xbb\xbf") else b""
    encoding = "latin-1" if b"coding: latin-1" in source[:40] else "utf-8"
    text = source[len(bom) :].decode(encoding)
    newline = "\r\n" if "\r\n" in text else "\n" if "\n" in text else "\r"
    lines = text.split(newline)

    def offset(at: Position) -> int:
        return sum(len(line) + len(newline) for line in lines[: at.line - 1]) + at.column

    for edit in sorted(set(edits), key=lambda item: item.span, reverse=True):
        start, end = offset(edit.span.start), offset(edit.span.end)
        text = text[:start] + edit.text.replace("\n", newline) + text[end:]
    return bom + text.encode(encoding)


def program_of(path: str, content: bytes) -> bytes:
    if path.endswith(".py"):
        return content
    (cell,) = json.loads(content)["cells"]
    return "".join(cell["source"]).encode()


def holds(tree: Tree) -> int:
    """Check every fix of a tree by itself, then all together; how many there were."""
    findings = tree.findings()
    fixes = [(item, item.fix) for item in findings if item.fix]
    for finding, fix in fixes:
        (path,) = {edit.span.path for edit in fix.edits}
        after = applied(tree.files[path], fix.edits)
        assert after == spliced(tree.files[path], fix.edits)
        ast.parse(program_of(path, after))
        left = Tree({**tree.files, path: after}).findings()
        assert _count(left, finding.rule) < _count(findings, finding.rule), f"{finding.rule} is not cured"
        assert {item.rule for item in left} <= {item.rule for item in findings}, "the fix brings another defect"
    for with_unsafe in (False, True):
        assert not _chosen(_settled(tree, with_unsafe), with_unsafe), "fixing never ends"
    return len(fixes)


def _count(findings: Collection[Finding], rule: str) -> int:
    return sum(item.rule == rule for item in findings)


def _chosen(tree: Tree, with_unsafe: bool) -> dict[str, list[Edit]]:
    edits: dict[str, list[Edit]] = {}
    for path in tree.files:
        mine = [item for item in tree.findings() if item.path == path]
        for fix in chosen_fixes(mine, with_unsafe):
            edits.setdefault(path, []).extend(fix.edits)
    return edits


def _settled(tree: Tree, with_unsafe: bool) -> Tree:
    """The tree after ``--fix``, as often as it takes."""
    for _ in range(MAX_PASSES):
        edits = _chosen(tree, with_unsafe)
        if not edits:
            break
        changed = {path: applied(tree.files[path], mine) for path, mine in edits.items()}
        for path, content in changed.items():
            ast.parse(program_of(path, content))
        tree = Tree({**tree.files, **changed})
    return tree


@settings(max_examples=40)
@given(st.data())
def test_a_fix_cures_its_finding_and_moves_no_other_byte(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(fixable()))
    holds(dressed(case, data.draw(st.sampled_from(CLOTHES))))


@settings(max_examples=12)
@given(st.data())
def test_a_fix_in_a_notebook_does_the_same(data: st.DataObject) -> None:
    tree = as_notebook(data.draw(st.sampled_from([case for case in fixable() if len(case.files) == 1])))
    assert tree is not None
    holds(tree)


@pytest.mark.parametrize("clothes", CLOTHES, ids=lambda clothes: clothes.__name__)
def test_clothes_fit_and_fixes_are_offered_in_all_of_them(clothes: Callable[[str], bytes]) -> None:
    case = next(case for case in fixable() if len(case.files) == 1)
    tree = dressed(case, clothes)
    assert clothes is str.encode or tree.files != _bytes(case)
    assert holds(tree) > 0
