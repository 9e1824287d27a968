"""The run config documents of a tree's launch files, for the commands that start from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzer.api import Files
from bot.core.review_input import ReviewInput
from estimator.api import launches
from estimator.launches import candidates

if TYPE_CHECKING:
    from estimator.launches import Launch

_MAX_FILES = 20
_MAX_READINGS = 3
_RANK = {"fits": 0, "unknown": 1, "borderline": 2, "exceeds": 3}


def run_configs(head: Files, given: ReviewInput, words: Collection[str] = ()) -> Mapping[str, Mapping[str, Any]]:
    """One document per command, with the origins of its values: the launch files and training scripts that `words`
    name, else the launch files that the pull request changes, else all of the tree. A file with several commands is
    named with their lines."""
    changed = {file.path for file in given.snapshot.changed_files}
    listed = candidates(head)
    known = set(head.paths())
    named = [path for word in words if (path := _path(word, known))]
    chosen = named or [path for path in listed if path in changed] or listed
    found: dict[str, Mapping[str, Any]] = {}
    for path in dict.fromkeys(chosen[:_MAX_FILES]):
        by_line: dict[int, list[Launch]] = {}
        for launch in launches(head, [path], targets=given.config.targets).launches:
            by_line.setdefault(launch.config.line, []).append(launch)
        for line, readings in by_line.items():
            name = path if len(by_line) == 1 else f"{path}:{line}"
            found[name] = max(readings, key=_severity).to_entry()
        if not by_line and path.endswith(".py") and path in named:
            scripts = _scripts(head, path)
            found |= {path if len(scripts) == 1 else f"{path}:{n}": run for n, run in enumerate(scripts, 1)}
    return found


def _path(word: str, known: Collection[str]) -> str | None:
    """``run.sh``, ``./run.sh`` or ``run.sh:7`` as a path of the tree."""
    plain = word.removeprefix("./")
    return next((path for path in (plain, plain.rpartition(":")[0]) if path and path in known), None)


def _scripts(head: Files, path: str) -> Sequence[Mapping[str, Any]]:
    """The runs of a training script without arguments, one for each model it may load."""
    from estimator.resolve.script import run_configs as of_script

    return [run.to_entry() for run in of_script(head, path, ())][:_MAX_READINGS]


def _severity(launch: Launch) -> int:
    """The least favourable reading is the one that the memory check shows."""
    return _RANK[launch.estimate.verdict] if launch.estimate else 1
