"""Which files of a tree hold code, by their names and first lines: who may call what another file defines."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SUFFIXES = (".py", ".ipynb")
_SCRIPT = re.compile(r"(?:(?:.*/)?(?:bin|s?bin|scripts?|tools|exe|cli)/)?[a-z][\w-]*")
"""A file without a suffix that may be a script: at the root, or in a folder of those. Data have no suffix either, by
the thousand."""
_SHEBANG = re.compile(rb"#![^\n]{0,200}(?:python|\buv[ \t]+run\b)")
_SETTINGS = ("setup.cfg", "pyproject.toml")
MARK = b"\xef\xbb\xbf"
"""What some editors put before the first line."""


def is_python(path: str) -> bool:
    """Whether a file is one of Python, or a notebook."""
    return path.endswith(_SUFFIXES)


def is_code(path: str) -> bool:
    """Whether a file is Python, a notebook, or may be a script without a suffix (`code` tells)."""
    return is_python(path) or _SCRIPT.fullmatch(path) is not None


def tells_who_calls(path: str) -> bool:
    """Whether a file may say who calls something: code, and what is installed for others."""
    return is_code(path) or path.rpartition("/")[2] in _SETTINGS


def code(path: str, source: bytes | None) -> bytes | None:
    """The code in a file for which `is_code` holds; nothing in one that is no script of Python after all."""
    if source is None or path.endswith(".py"):
        return source if source is None else source.removeprefix(MARK)
    return source if is_python(path) or _SHEBANG.match(source) else b""


def scripts(paths: Iterable[str]) -> list[str]:
    """The files of a tree without a suffix that may be scripts."""
    return sorted(path for path in paths if not is_python(path) and is_code(path))
