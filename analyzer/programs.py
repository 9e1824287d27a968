"""Which files of a tree say who calls what, and how, by their names and first lines: code, and texts that configure it.

One list for all who ask the whole tree (`analyzer.reach`, `analyzer.settings`, `Project.naming`), who read a tree to be
asked (the command line, the bot), and who keep answers (the cache): what one of them did not read, another would call
dead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_SUFFIXES = (".py", ".ipynb")
_SCRIPT = re.compile(r"(?:(?:.*/)?(?:bin|s?bin|scripts?|tools|exe|cli)/)?[a-z][\w-]*")
"""A file without a suffix that may be a script: at the root, or in a folder of those. Data have no suffix either, by
the thousand."""
_SHEBANG = re.compile(rb"#![^\n]{0,200}(?:python|\buv[ \t]+run\b)")
_TEXTS = (
    ".yaml", ".yml", ".json", ".jsonnet", ".toml", ".cfg", ".ini", ".conf", ".gin", ".sh", ".bash", ".slurm", ".md",
    ".rst", ".txt",
)  # fmt: skip
INSTALLERS = ("setup.py", "setup.cfg", "pyproject.toml")
MAX_TEXTS, MAX_TEXT_BYTES = 2000, 256 * 1024
"""Of texts that configure, those nearest to the root; larger ones are data."""
MARK = b"\xef\xbb\xbf"
"""What some editors put before the first line."""


_POINTER = b"version https://git-lfs.github.com/spec/"
POINTER = "its content is in Git LFS"
"""Why such a file is no code."""


def is_pointer(source: bytes) -> bool:
    """Whether a file holds the address of its content, as Git LFS writes it."""
    return source.startswith(_POINTER)


def is_python(path: str) -> bool:
    """Whether a file is one of Python, or a notebook."""
    return path.endswith(_SUFFIXES)


def is_code(path: str) -> bool:
    """Whether a file is Python, a notebook, or may be a script without a suffix (`code` tells)."""
    return is_python(path) or _SCRIPT.fullmatch(path) is not None


def is_text(path: str) -> bool:
    """Whether a file is a configuration, a launch script or a page."""
    return path.endswith(_TEXTS)


def installs(path: str) -> bool:
    """Whether a file says how its folder is installed for others."""
    return path.rpartition("/")[2] in INSTALLERS


def texts(paths: Iterable[str]) -> list[str]:
    """The texts of a tree that are asked."""
    return sorted(filter(is_text, paths), key=lambda path: (path.count("/"), path))[:MAX_TEXTS]


def text(source: bytes | None) -> bytes:
    """What is read of a text."""
    return source if source is not None and len(source) <= MAX_TEXT_BYTES else b""


def tells_who_calls(path: str) -> bool:
    """Whether a file may say who calls something, and how."""
    return is_code(path) or is_text(path)


def files_to_ask(paths: Collection[str]) -> list[str]:
    """The files of a tree that questions about all of it may read."""
    return sorted({*filter(is_code, paths), *texts(paths)})


def code(path: str, source: bytes | None) -> bytes | None:
    """The code in a file for which `is_code` holds; nothing in one that is no script of Python after all."""
    if source is None or path.endswith(".py"):
        return source if source is None else source.removeprefix(MARK)
    return source if is_python(path) or _SHEBANG.match(source) else b""


def scripts(paths: Iterable[str]) -> list[str]:
    """The files of a tree without a suffix that may be scripts."""
    return sorted(path for path in paths if not is_python(path) and is_code(path))
