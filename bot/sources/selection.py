"""What the paths of a command line mean: Python files to check, and the tree around them that their imports lead to."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from analyzer.api import tells_who_calls
from analyzer.findings import Skipped
from bot.sources.nearby import there_is

_EXCLUDED = frozenset({"node_modules", "site-packages", "__pycache__", "__pypackages__"})
_SUFFIXES = frozenset({".py", ".pyi", ".pyw", ".ipynb"})
_NO_PROGRAM = "neither Python nor a notebook: `preflight estimate` and `preflight launches` read launch configs"
_PROJECT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_MAX_TREE_ENTRIES = 200_000  # a larger folder is no project but somebody's home: imports then stay near the targets
MAX_BYTES = 8 * 2**20  # the analyzer refuses much smaller sources: this only bounds what is read
MAX_NOTEBOOK_BYTES = 64 * 2**20  # as above; outputs make a notebook longer than its program


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Files under `root`, as relative POSIX paths. `missing` are the named paths that cannot be read, as typed;
    `skipped` (as shown) are files and folders below a named folder that cannot be read."""

    root: Path
    paths: tuple[str, ...]
    targets: tuple[str, ...]
    missing: tuple[Skipped, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def shown(self, path: str) -> str:
        """A path of the tree, relative to the working directory."""
        return PurePath(os.path.relpath(self.root / path)).as_posix()


class _Found:
    """The Python files below the named paths, in order, and what stood in the way."""

    def __init__(self) -> None:
        self.files: dict[Path, None] = {}
        self.missing: list[Skipped] = []
        self.skipped: list[Skipped] = []

    def name(self, word: str) -> Path | None:
        """Take a named path; the folder it is or lies in."""
        place = Path(os.path.abspath(word))
        problem = _problem(place) if word else "an empty path: `.` means the working directory"
        if problem:
            self.missing.append(Skipped(word, problem))
            return None
        if place.is_dir():
            for file in _python_files(place, self._refused):
                self._add(file)
            return place
        if _is_program(place):
            self._add(place)
        else:
            self.skipped.append(Skipped(_shown(place), _NO_PROGRAM))
        return place.parent

    def _add(self, file: Path) -> None:
        try:
            size = file.stat().st_size
        except OSError as error:  # it went away
            self._refused(error)
            return
        if size > (MAX_NOTEBOOK_BYTES if file.suffix == ".ipynb" else MAX_BYTES):
            self.skipped.append(Skipped(_shown(file), f"{size:,} bytes long: more than a program has"))
        else:
            self.files[file] = None

    def _refused(self, error: OSError) -> None:
        self.skipped.append(Skipped(_shown(Path(error.filename)), f"cannot be read: {error.strerror}"))


def select(words: Sequence[str]) -> Selection:
    """The files that `words` mean. A folder means its Python files, without hidden and installed ones; a file is taken
    as it is, unless its name or first line says that it is something else. Links are followed where they are named, not
    where they are found."""
    found = _Found()
    folders = [folder for word in words if (folder := found.name(word)) is not None]
    if not folders:
        return Selection(root=Path.cwd(), paths=(), targets=(), missing=tuple(found.missing))
    root, around = _tree(Path(os.path.commonpath(folders)))
    targets = tuple(file.relative_to(root).as_posix() for file in found.files)
    return Selection(
        root=root,
        paths=tuple(dict.fromkeys([*targets, *(file.relative_to(root).as_posix() for file in around)])),
        targets=targets,
        missing=tuple(found.missing),
        skipped=tuple(found.skipped),
    )


def _is_program(file: Path) -> bool:
    """Whether a named file may be Python: by its suffix, for want of one, or by its first line."""
    if file.suffix in _SUFFIXES or not file.suffix:
        return True
    try:
        with file.open("rb") as stream:
            return re.match(rb"#!.*python", stream.read(200)) is not None
    except OSError:  # it went away
        return False


def _problem(place: Path) -> str | None:
    """Why a named path cannot be read."""
    try:
        mode = place.stat().st_mode
    except OSError as error:
        if isinstance(error, FileNotFoundError) and place.is_symlink():
            return f"a link to {os.readlink(place)}, which is not there"
        if isinstance(error, FileNotFoundError):
            return f"no such file or directory{there_is(place)}"
        return f"cannot be read: {error.strerror}"
    if stat.S_ISDIR(mode):
        return None if os.access(place, os.R_OK | os.X_OK) else "cannot be read: Permission denied"
    if not stat.S_ISREG(mode):
        return "cannot be read: neither a file nor a directory"
    return None if os.access(place, os.R_OK) else "cannot be read: Permission denied"


def _shown(place: Path) -> str:
    return PurePath(os.path.relpath(place)).as_posix()


def _python_files(folder: Path, refused: object) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, onerror=refused):  # type: ignore[arg-type]
        folders[:] = sorted(name for name in folders if not _is_excluded(place, name))
        for name in sorted(names):
            file = Path(place, name)
            if name.endswith((".py", ".ipynb")) and _is_regular(file):
                yield file


def _is_excluded(place: str, name: str) -> bool:
    return name.startswith(".") or name in _EXCLUDED or os.path.exists(os.path.join(place, name, "pyvenv.cfg"))


def _is_regular(file: Path) -> bool:
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except OSError:
        return False


def _tree(common: Path) -> tuple[Path, list[Path]]:
    """The project that holds the named paths, and its files that say who calls what: a file by itself is judged as in
    its tree."""
    root = _project_of(common)
    files: list[Path] = []
    num_entries = 0
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not _is_excluded(place, name))
        num_entries += len(folders) + len(names)
        if num_entries > _MAX_TREE_ENTRIES and root != common:
            return common, list(_python_files(common, None))
        inside = "" if Path(place) == root else f"{PurePath(place).relative_to(root).as_posix()}/"
        files += [Path(place, name) for name in sorted(names) if tells_who_calls(f"{inside}{name}")]
    return root, [file for file in files if _is_regular(file)]


def _project_of(common: Path) -> Path:
    """The nearest folder that looks like a project; else the working directory where it is around the paths."""
    for folder in (common, *common.parents):
        if any((folder / mark).exists() for mark in _PROJECT_MARKS):
            return folder
    here = Path.cwd()
    if common.is_relative_to(here):
        return here
    while (common / "__init__.py").exists() and common != common.parent:
        common = common.parent
    return common
