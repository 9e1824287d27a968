"""Which files of the tree a launch depends on: the script, what it imports, and the config files its command names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable

from analyzer import api as analyzer
from analyzer.api import Files
from analyzer.errors import PreflightError
from estimator.launch.base import Arg, Command, LaunchConfig
from estimator.launch.places import find_file, find_named

MAX_FILES = 500
_PYTHON = (".py", ".ipynb")
_FILE_NAME = re.compile(rb"""["']([\w./\-]{1,200}\.(?:json|ya?ml|toml))["']""")


def script_path(files: Files, command: Command, near: str) -> str | None:
    """The script's file in the tree; None where the command runs something else (an installed module)."""
    if not command.is_module:
        return find_named(files, command.script, command.cwd, near)
    if not command.script.is_known:
        return None
    known = files.paths()
    stem = command.script.text.replace(".", "/")
    for root in (command.cwd, ".", "src"):
        for name in (f"{stem}.py", f"{stem}/__main__.py"):
            path = posixpath.normpath(posixpath.join(root, name))
            if not path.startswith("../") and path in known:
                return path
    return None


def closure(files: Files, launch: LaunchConfig) -> frozenset[str]:
    """Every file whose change may change the launch. Deterministic; at most `MAX_FILES` modules are followed.

    Files that a recipe names are those that its values came from; those of a script its string constants."""
    command = launch.command
    found = {launch.path}
    words = [*command.words, *command.options.values(), *command.env.values()]
    found |= {word.path for word in words if word.path}
    found |= set(_named_files(files, words, command.cwd, launch.path)) | launch.sources
    said = [*(launch.recipe or {}).values(), *launch.overrides.values(), launch.target.gpu, launch.target.nodes]
    found |= {value.origin.path for value in said if value.origin.path in files.paths()}
    entries = [launch.path] if launch.path.endswith(_PYTHON) else []
    script = script_path(files, command, launch.path)
    entries += [script] if script is not None else []
    for entry in entries:
        found |= _imports(files, entry)
    return frozenset(found)


def _named_files(files: Files, words: Iterable[Arg], cwd: str, near: str) -> Iterable[str]:
    for word in words:
        name = word.text.rpartition("=")[2]
        if word.is_known and 0 < len(name) < 256 and "." in name:
            path = find_file(files, name, cwd, near)
            if path is not None:
                yield path


def _imports(files: Files, script: str) -> set[str]:
    known = files.paths()
    seen, pending = {script}, [script]
    named: set[str] = set()
    while pending and len(seen) < MAX_FILES:
        path = pending.pop()
        source = files.read(path)
        if source is None or not path.endswith(_PYTHON):
            continue
        for imported in _imported(source, path, known):
            if imported not in seen:
                seen.add(imported)
                pending.append(imported)
        named |= {found for name in set(_FILE_NAME.findall(source)) if (found := _beside(files, name, script))}
    return seen | named


def _imported(source: bytes, path: str, known: Collection[str]) -> list[str]:
    try:
        return analyzer.imported_paths(source, path, known)
    except PreflightError:  # a broken notebook imports nothing
        return []


def _beside(files: Files, name: bytes, script: str) -> str | None:
    return find_file(files, name.decode("ascii"), ".", script)
