"""What a result was made from: the questions that were asked of the tree, each with its answer.

A result of an earlier run holds again where every question has the same answer today (`Answers.hold`): who wrote the
answers down need not know what was concluded from them. Questions are precise, so that few edits touch them: which file
an import means, not which files there are; the files that hold a name next to ``backward``, not the bytes of all files.

| question | answer |
| --- | --- |
| ``read PATH`` | the bytes (kept by who reads the files, as a digest) |
| ``file MODULE FOLDER LEVEL`` | the path that an import means, or null |
| ``naming WORD PATTERN FLAGS BUT`` | the paths that were looked at, in order, and whether there were no more |
| ``importers WORD PATH`` | likewise |
| ``imports PATH OTHER`` | whether one file imports another |
| ``unreached PATH NAMES…`` | why nothing reaches a definition, or null |
| ``linked PATH`` | whether a file imports another one of a program's tree, or is imported |
| ``left off NAME`` | whether the texts of the tree turn a setting off, and none turns it on |
| ``apart PATH OTHER`` | whether no imports lead from one file to the other, in whatever direction |
| ``by itself PATH`` | whether a file is read without its program |
| ``single`` | whether the tree has one Python file |
| ``whole`` | whether all code of the tree can be read |
| ``shown PATH`` | whether findings in a file are wanted |
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyzer.project import Project

Question = tuple[str | int | None, ...]


class Listed:
    """The answer to a question for several files, of which as many are noted as somebody looked at."""

    __slots__ = ("is_whole", "paths")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.is_whole = False


class Journal:
    """The questions asked since the last `clear`."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        """The files whose bytes were asked for."""
        self.answers: dict[Question, Any] = {}

    def clear(self) -> None:
        """Begin anew, with the next target."""
        self.reads.clear()
        self.answers.clear()

    def listed(self, question: Question, found: Iterator[str], but: str | None) -> Iterator[str]:
        """`found`, noted as far as it is taken. `but` is a file whose text is not that of the tree: whether it is among
        them, the tree does not say."""
        known = self.answers.setdefault(question, Listed())
        at = 0
        for path in found:
            if path != but:
                if at == len(known.paths):
                    known.paths.append(path)
                at += 1
            yield path
        known.is_whole = True

    def add(self, other: Journal) -> None:
        """What was asked to find out what is remembered."""
        self.reads |= other.reads
        for question, answer in other.answers.items():
            if isinstance(answer, Listed):
                for _ in self.listed(question, iter(answer.paths), None):
                    pass
                self.answers[question].is_whole |= answer.is_whole
            else:
                self.answers[question] = answer

    def to_json(self) -> list[Any]:
        """The answers but those to ``read``, each question followed by its answer."""
        return [
            [*question, [answer.paths, answer.is_whole] if isinstance(answer, Listed) else answer]
            for question, answer in self.answers.items()
        ]


class Answers:
    """What the tree answers today."""

    def __init__(self, project: Project, shown: Collection[str]) -> None:
        self._project = project
        self._shown = frozenset(shown)
        self._known: dict[Question, Any] = {}

    def hold(self, asked: Sequence[Sequence[Any]]) -> bool:
        """Whether every question (`Journal.to_json`) has the answer that it had. Raises what a malformed one leads to:
        `TypeError`, `ValueError`, `KeyError`."""
        return all(self._holds(tuple(question), answer) for *question, answer in asked)

    def _holds(self, question: Question, answer: Any) -> bool:
        if question[0] not in ("naming", "importers"):
            if question not in self._known:
                self._known[question] = self._asked(*question)
            return bool(self._known[question] == answer)
        paths, is_whole = answer
        if question not in self._known:
            self._known[question] = _Again(self._asked(*question))
        found: list[str] = self._known[question].first(len(paths) + 1)
        return found[: len(paths)] == paths and (not is_whole or len(found) == len(paths))

    def _asked(self, kind: Any, *words: Any) -> Any:
        return _QUESTIONS[kind](self._project, self._shown, *words)


class _Again:
    """The paths of an answer, found as far as they are needed."""

    def __init__(self, found: Iterator[str]) -> None:
        self._found = found
        self._paths: list[str] = []

    def first(self, number: int) -> list[str]:
        while len(self._paths) < number and (path := next(self._found, None)) is not None:
            self._paths.append(path)
        return self._paths[:number]


def _naming(project: Project, _: frozenset[str], word: str, pattern: str | None, flags: int, but: str) -> Iterator[str]:
    return project.naming(word, but, None if pattern is None else re.compile(pattern.encode("latin-1"), flags))


_QUESTIONS: dict[str, Any] = {
    "file": lambda project, _, module, folder, level: project.resolve(module, f"{folder}/x" if folder else "x", level),
    "naming": _naming,
    "importers": lambda project, _, word, path: project.importers(word, path),
    "imports": lambda project, _, path, other: project.imports(path, other),
    "unreached": lambda project, _, path, *names: project.unreached(path, names),
    "left off": lambda project, _, name: project.is_left_off(name),
    "largest": lambda project, _, name: project.largest(name),
    "shows runs": lambda project, _: project.shows_runs(),
    "run alone": lambda project, _: project.is_run_alone(),
    "left on": lambda project, _, name: project.is_left_on(name),
    "apart": lambda project, _, path, other: project.are_apart(path, other),
    "by itself": lambda project, _, path: project.is_by_itself(path),
    "linked": lambda project, _, path: project.is_linked(path),
    "single": lambda project, _: project.is_single,
    "whole": lambda project, _: project.is_whole,
    "shown": lambda _, shown, path: path in shown,
}
