"""Which file of the tree a name in a launch file means."""

from __future__ import annotations

import posixpath

from analyzer.api import Files
from estimator.launch.base import Arg


def find_file(files: Files, name: str, cwd: str, near: str) -> str | None:
    """A file of the tree by the name a command gives it: from the working folder, the root, or beside `near`."""
    known = files.paths()
    for folder in (cwd, ".", posixpath.dirname(near) or ".", posixpath.join(posixpath.dirname(near), cwd)):
        path = posixpath.normpath(posixpath.join(folder, name))
        if not path.startswith(("../", "/")) and path in known:
            return path
    return None


def find_named(files: Files, named: Arg, cwd: str, near: str) -> str | None:
    """A file by the name a command gives it. Launch files name places on a cluster (``/scratch/repo/src/train.py``,
    ``$REPO/src/train.py``): the longest end of such a path that is a file of the tree is meant."""
    if named.is_known and (found := find_file(files, named.text, cwd, near)) is not None:
        return found
    parts = [part for part in posixpath.normpath(named.text).split("/") if part not in {"", ".", ".."}]
    ends = ["/".join(parts[start:]) for start in range(len(parts))][:16]
    folders = [near.rsplit("/", count)[0] for count in range(1, near.count("/") + 1)]
    known = files.paths()
    for end in ends:
        for path in [*(posixpath.join(folder, end) for folder in folders), end]:
            if "$" not in end and path in known:
                return path
    return _only_one(files, "/".join(parts)) if parts and "$" not in named.text else None


def _only_one(files: Files, name: str) -> str | None:
    """The one file of the tree whose path ends in `name`: commands are typed in folders that they do not name."""
    found = [path for path in files.paths() if path.endswith(f"/{name}")]
    return found[0] if len(found) == 1 else None


def is_in_tool_folder(path: str) -> bool:
    """Folders of tools (``.vscode``, ``node_modules``) start no training; workflows and hidden files may."""
    if path.startswith(".github/workflows/"):
        return False
    return any(part.startswith(".") or part == "node_modules" for part in path.split("/")[:-1])
