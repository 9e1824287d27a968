"""What is a test. Tests are small, thrown away and often wrong on purpose; what they call is not used by that.

Files and functions are those that pytest and unittest collect by default (``test_*.py``, ``*_test.py``; functions and
methods named ``test…``), and modules in a folder ``tests`` that are no scripts (fixtures, models to test with). A
script called ``test.py`` or ``test_net.py`` that evaluates a model is none.

Three ask: rules have nothing to say inside of a test (`is_inside`); what a file of tests names is not reached by that
(`is_file_of_tests`, for `analyzer.reach`); and what stands among tests, whatever it is, trains nothing that anybody
keeps (`is_among_tests`, for `analyzer.engine.aside`).
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analyzer.engine.program import Program
    from analyzer.engine.trace import Site

_FILE = re.compile(r"test_.*\.py|.*_test\.py")
_RUNNER = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(?:pytest|unittest)\b|^ *class \w*Test\w*\(", re.MULTILINE)
_TESTS = re.compile(rb"^(?:async[ \t]+)?def[ \t]+test_", re.MULTILINE)
_EVALUATES = re.compile(rb"\bargparse\b|\bparse_args\b|\bhydra\b|\bsys\.argv\b|^for |^while ", re.MULTILINE)
_SCRIPT = re.compile(rb"%s|\b__main__\b" % _EVALUATES.pattern, re.MULTILINE)
_FUNCTION = re.compile(r"test(?:_|[A-Z0-9]|$)")


def is_inside(program: Program, site: Site) -> bool:
    """Whether a place lies in a function that a test runner would call, or is only reached from a file of tests."""
    target = program.target
    if site.path != target and is_file_of_tests(target, program.project.read(target) or b""):
        return True
    source = program.project.read(site.path) or b""
    if is_file_of_tests(site.path, source):
        return True  # what stands beside tests serves them: references, models, helpers
    if "tests" in posixpath.dirname(site.path).split("/") and site.path.endswith(".py") and not _SCRIPT.search(source):
        return True
    around = program.function_around(site) if _is_named_so(site.path) else None
    return around is not None and bool(_FUNCTION.match(around.name))


def is_file_of_tests(path: str, source: bytes) -> bool:
    """Whether a runner finds tests in a file: one named so that imports it, or that has tests and is no script which
    evaluates a model."""
    if not _is_named_so(path):
        return False
    has_tests = _TESTS.search(source) is not None and _EVALUATES.search(source) is None
    return has_tests or _RUNNER.search(source) is not None


def is_among_tests(path: str) -> bool:
    """Whether a file is named as a test, in a folder of tests."""
    return _is_named_so(path) and any(folder in ("test", "tests") for folder in path.split("/")[:-1])


def _is_named_so(path: str) -> bool:
    return _FILE.fullmatch(posixpath.basename(path)) is not None
