"""Imports resolved inside the tree."""

from __future__ import annotations

import pytest

from analyzer.api import imported_paths
from analyzer.screen import may_matter

TREE = frozenset(
    {"train.py", "utils.py", "pkg/__init__.py", "pkg/a.py", "pkg/b.py", "pkg/sub/__init__.py", "pkg/sub/c.py",
     "src/lib/__init__.py", "src/lib/x.py", "loose/one.py", "loose/two.py"}
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "path", "expected"),
    [
        ("import utils", "train.py", ["utils.py"]),
        ("import os, pkg.a as q, torch", "train.py", ["pkg/__init__.py", "pkg/a.py"]),
        ("from pkg import (\n  a,  # one\n  b as z,\n)", "train.py", ["pkg/__init__.py", "pkg/a.py", "pkg/b.py"]),
        ("from . import b", "pkg/a.py", ["pkg/__init__.py", "pkg/b.py"]),
        ("from .sub.c import f", "pkg/a.py", ["pkg/sub/__init__.py", "pkg/sub/c.py"]),
        ("from ..a import f", "pkg/sub/c.py", ["pkg/a.py"]),
        ("from lib.x import f", "train.py", ["src/lib/__init__.py", "src/lib/x.py"]),
        ("import two", "loose/one.py", ["loose/two.py"]),
        ("if x:\n    from utils \\\n        import *", "train.py", ["utils.py"]),
        ("from .... import a", "pkg/a.py", []),
        ("x = 1  # import utils", "train.py", []),
        ("import (((", "train.py", []),
        ("import train", "train.py", []),
    ],
)
def test_imports_lead_to_files(source: str, path: str, expected: list[str]) -> None:
    assert expected == imported_paths(source.encode(), path, TREE)


@pytest.mark.parametrize(
    ("source", "expected"), [(b"import torch", True), (b"loss.backward()", True), (b"import os\nprint(1)", False)]
)
def test_the_screen(source: bytes, expected: bool) -> None:
    assert expected == may_matter(source)
