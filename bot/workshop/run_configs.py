"""The run config documents of a tree's launch files, for the commands that start from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzer.api import Files
from bot.core.review_input import ReviewInput
from bot.errors import InputError
from estimator.api import RunConfig, launches
from estimator.launches import candidates

if TYPE_CHECKING:
    from estimator.launches import Launch

_MAX_FILES = 20
_MAX_READINGS = 3
_RANK = {"fits": 0, "unknown": 1, "borderline": 2, "exceeds": 3}


def run_configs(head: Files, given: ReviewInput, words: Collection[str] = ()) -> Mapping[str, Mapping[str, Any]]:
    """One document per command, with the origins of its values: the launch files and training scripts that `words`
    name, else the launch files that the pull request changes, else all of the tree. A file with several commands is
    named with their lines. A network of the repository is run on inputs of the size that `words` give."""
    changed = {file.path for file in given.snapshot.changed_files}
    listed = candidates(head)
    known = set(head.paths())
    named = [path for word in words if (path := _path(word, known))]
    chosen = named or [path for path in listed if path in changed] or listed
    said = _said([word for word in words if not _path(word, known)])
    found: dict[str, Mapping[str, Any]] = {}
    for path in dict.fromkeys(chosen[:_MAX_FILES]):
        by_line: dict[int, list[Launch]] = {}
        for launch in launches(head, [path], targets=given.config.targets, said=said).launches:
            by_line.setdefault(launch.config.line, []).append(launch)
        for line, readings in by_line.items():
            name = path if len(by_line) == 1 else f"{path}:{line}"
            found[name] = max(readings, key=_severity).to_entry()
        if not by_line and path.endswith(".py") and path in named:
            scripts = _scripts(head, path, said)
            found |= {path if len(scripts) == 1 else f"{path}:{n}": run for n, run in enumerate(scripts, 1)}
    return found


def _path(word: str, known: Collection[str]) -> str | None:
    """``run.sh``, ``./run.sh`` or ``run.sh:7`` as a path of the tree."""
    plain = word.removeprefix("./")
    return next((path for path in (plain, plain.rpartition(":")[0]) if path and path in known), None)


def _said(words: Sequence[str]) -> RunConfig:
    """The options of a command; none where they are wrong, which its answer says."""
    from estimator.options import parse_words

    try:
        return parse_words(words)
    except InputError:
        return RunConfig()


def _scripts(head: Files, path: str, said: RunConfig) -> Sequence[Mapping[str, Any]]:
    """The runs of a training script without arguments, one for each model it may load."""
    from estimator.resolve.script import run_configs as of_script

    return [run.to_entry() for run in of_script(head, path, (), said)][:_MAX_READINGS]


def _severity(launch: Launch) -> int:
    """The least favourable reading is the one that the memory check shows."""
    return _RANK[launch.estimate.verdict] if launch.estimate else 1
