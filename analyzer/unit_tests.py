"""Unit tests: what they run is small, is thrown away and often wrong on purpose, so rules have nothing to say there.

Files and functions are those that pytest and unittest collect by default (``test_*.py``, ``*_test.py``; functions and
methods named ``test…``), and modules in a folder ``tests`` that are no scripts (fixtures, models to test with). A
script called ``test.py`` that evaluates a model is none.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from analyzer.engine.trace import Site

if TYPE_CHECKING:
    from analyzer.engine.program import Program

_FILE = re.compile(r"test_.*\.py|.*_test\.py")
_RUNNERS = re.compile(rb"\bpytest\b|\bunittest\b|^def test_", re.MULTILINE)
_COLLECTED = re.compile(rb"^import pytest\b|^import unittest\b|^from unittest\b|^ *class \w*Test\w*\(", re.MULTILINE)
_SCRIPT = re.compile(rb"\b__main__\b|\bargparse\b|\bparse_args\b|\bhydra\b|\bsys\.argv\b|^for |^while ", re.MULTILINE)
_FUNCTION = re.compile(r"test(?:_|[A-Z0-9]|$)")


def is_inside(program: Program, site: Site) -> bool:
    """Whether a place lies in a function that a test runner would call, or is only reached from a file of tests."""
    if site.path != program.target and _FILE.fullmatch(posixpath.basename(program.target)):
        return bool(_RUNNERS.search(program.project.read(program.target) or b""))
    source = program.project.read(site.path) or b""
    is_collected = bool(_FILE.fullmatch(posixpath.basename(site.path)))
    if is_collected and _COLLECTED.search(source):
        return True  # what stands beside tests serves them: references, models, helpers
    if "tests" in posixpath.dirname(site.path).split("/") and site.path.endswith(".py") and not _SCRIPT.search(source):
        return True
    around = program.function_around(site) if is_collected else None
    return around is not None and bool(_FUNCTION.match(around.name))
