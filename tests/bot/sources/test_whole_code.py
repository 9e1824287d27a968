"""A review reads all code of a tree up to a size, so that it judges a finding as `preflight check` does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from analyzer.api import Options, analyze
from analyzer.findings import Severity
from bot.core.review_input import MemoryTree, Unread, git_blob_id
from bot.github.contents import Entry, Listing
from bot.sources import github
from bot.sources.github import LazyTree, fetch_closure
from tests.analyzer.test_unreached import _LOADS, _MAIN, _NET

_FILES = {
    "net.py": _NET,
    "main.py": _MAIN,
    "show.ipynb": '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "import net\\nnet.Lone()(1)"}]}',
    "bin/go": "#!/usr/bin/python3\nimport net\n\nprint(net)\n",
    "pyproject.toml": "[tool.black]\n",
    "photo.svg": "spare",
    "large.json": "x" * 300_000,
    **{f"apart/m{number}.py": f"A = {number}\n" for number in range(150)},
}


class _Hub:
    """The contents of one commit."""

    def __init__(self, files: dict[str, str]) -> None:
        self.by_path = {path: text.encode() for path, text in files.items()}
        self.num_batches = 0

    def tree(self, commit: str) -> Listing:
        return Listing({path: Entry(git_blob_id(raw), len(raw)) for path, raw in self.by_path.items()}, is_cut=False)

    def blobs(self, entries: Iterable[Entry], commit: str) -> dict[str, bytes]:
        self.num_batches += 1
        wanted = {entry.sha for entry in entries}
        return {sha: raw for raw in self.by_path.values() if (sha := git_blob_id(raw)) in wanted}


def _read(files: dict[str, str]) -> tuple[MemoryTree, _Hub]:
    """What a review of a change to `net.py` reads."""
    hub: Any = _Hub(files)
    tree = LazyTree(hub, "c0ffee")
    fetch_closure(hub, {tree: ["net.py", *tree.code()]}, pairs={})
    return tree.frozen(), hub


def _severities(tree: MemoryTree) -> list[tuple[str, int, Severity]]:
    return [(item.rule, item.line, item.severity) for item in analyze(tree, ["net.py"]).findings]


def test_the_code_of_a_tree_is_read_in_one_batch_and_judged_as_on_a_laptop() -> None:
    tree, hub = _read(_FILES)
    assert hub.num_batches == 1
    assert tree.read("photo.svg") is None
    assert tree.read("large.json") is None
    whole = MemoryTree({path: text.encode() for path, text in _FILES.items()})
    assert _severities(tree) == _severities(whole)
    assert Severity.NOTE in {severity for rule, _, severity in _severities(tree) if rule == "PF204"}


def test_a_configuration_that_names_what_is_looked_up_is_read_as_well() -> None:
    named = {**_FILES, "other.py": _LOADS, "conf/nets.yaml": "head: spare\n"}
    assert {severity for rule, _, severity in _severities(_read(named)[0]) if rule == "PF204"} == {Severity.ERROR}
    unnamed, _ = _read({**_FILES, "other.py": _LOADS})
    assert Severity.NOTE in {severity for rule, _, severity in _severities(unnamed) if rule == "PF204"}


def test_nothing_is_concluded_from_a_tree_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody names in the files that were read may be named in the others."""
    monkeypatch.setattr(github, "CODE_FILES", 100)
    tree, _ = _read(_FILES)
    assert tree.read("apart/m0.py") is None
    assert {severity for rule, _, severity in _severities(tree) if rule == "PF204"} == {Severity.ERROR}


_SETTINGS = {
    "net.py": _NET,
    "main.py": _MAIN,
    "other.py": _LOADS,
    "pyproject.toml": "[tool.black]\n",
    **{f"conf/large{number}.json": f"{number}" + "x" * 900 for number in range(4)},
}


def _judged(tree: LazyTree) -> Severity:
    options = Options(has_all_texts=not tree.unread().texts)
    found = analyze(tree.frozen(), ["net.py"], options).findings
    return min((item.severity for item in found if item.rule == "PF204"), key=lambda severity: severity.rank)


def test_texts_do_not_crowd_the_code_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have room of their own. Where some were not read, no name counts as spoken nowhere in them."""
    hub: Any = _Hub(_SETTINGS)
    trees = []
    for room in (16 << 20, 2000):
        monkeypatch.setattr(github, "TEXT_BYTES", room)
        monkeypatch.setattr(github, "CODE_BYTES", len("".join(_SETTINGS[path] for path in _SETTINGS if ".py" in path)))
        tree = LazyTree(hub, "c0ffee")
        fetch_closure(hub, {tree: ["net.py", *tree.code()]}, pairs={})
        trees.append(tree)
    whole, part = trees
    assert (whole.unread(), part.unread()) == (Unread(), Unread(texts=2))
    assert all(part.read(path) is not None for path in ("net.py", "main.py", "other.py", "pyproject.toml"))
    assert (_judged(whole), _judged(part)) == (Severity.NOTE, Severity.ERROR)


def test_code_that_was_not_read_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github, "CODE_FILES", 100)
    hub: Any = _Hub(_FILES)
    tree = LazyTree(hub, "c0ffee")
    fetch_closure(hub, {tree: ["net.py", *tree.code()]}, pairs={})
    assert tree.unread() == Unread(code=len([path for path in _FILES if path.endswith(("py", "go"))]))


def test_files_that_are_no_code_do_not_crowd_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github, "MAX_FETCHED_FILES", 1)
    hub: Any = _Hub({**_FILES, "a.csv": "1\n", "b.csv": "2\n"})
    tree = LazyTree(hub, "c0ffee")
    fetch_closure(hub, {tree: ["a.csv", "b.csv", *tree.code()]}, pairs={})
    assert [tree.read(path) is not None for path in ("a.csv", "b.csv", "net.py", "bin/go")] == [
        True,
        False,
        True,
        True,
    ]
