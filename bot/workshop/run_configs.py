"""The run config documents of a tree's launch files, for the commands that start from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analyzer.api import Files
from bot.core.review_input import ReviewInput
from estimator.api import launches
from estimator.launches import candidates

if TYPE_CHECKING:
    from estimator.launches import Launch

_MAX_FILES = 20
_RANK = {"fits": 0, "unknown": 1, "borderline": 2, "exceeds": 3}


def run_configs(head: Files, given: ReviewInput) -> Mapping[str, Mapping[str, Any]]:
    """One document per command, with the origins of its values; the launch files that the pull request changes, else
    all of the tree. A file with several commands is named with their lines."""
    changed = {file.path for file in given.snapshot.changed_files}
    listed = candidates(head)
    chosen = [path for path in listed if path in changed] or listed
    found: dict[str, Mapping[str, Any]] = {}
    for path in chosen[:_MAX_FILES]:
        by_line: dict[int, list[Launch]] = {}
        for launch in launches(head, [path], targets=given.config.targets).launches:
            by_line.setdefault(launch.config.line, []).append(launch)
        for line, readings in by_line.items():
            name = path if len(by_line) == 1 else f"{path}:{line}"
            found[name] = max(readings, key=_severity).to_entry()
    return found


def _severity(launch: Launch) -> int:
    """The least favourable reading is the one that the memory check shows."""
    return _RANK[launch.estimate.verdict] if launch.estimate else 1
