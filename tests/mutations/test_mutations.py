"""Each class of bug, put into programs that are right: the program is quiet, the rule speaks once the bug is in it.

A Markdown file holds programs; under each stand the bugs (``### PF101 what it is``) as changes: lines that begin with a
blank or a minus are found in the program, those that begin with a blank or a plus take their place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyzer import catalogue
from analyzer.api import Options, analyze
from analyzer.findings import Confidence, Finding, Severity
from tests.analyzer.mdcases import Case, cases_in

HERE = Path(__file__).parent
_BUG = re.compile(r"### (?P<rule>PF\d+)(?P<what>.*)")


@dataclass(frozen=True, slots=True)
class Bug:
    """What is changed to put a bug in: the lines of each diff."""

    rule: str
    what: str
    diffs: tuple[tuple[str, ...], ...]

    def put_into(self, files: Mapping[str, str]) -> dict[str, str]:
        """The files with the bug. The old lines of each diff stand in exactly one place."""
        lines = {path: text.splitlines() for path, text in files.items()}
        gone: set[tuple[str, int]] = set()
        new: dict[tuple[str, int], list[str]] = {}
        for diff in self.diffs:
            path, at = self._place(lines, [line[1:] for line in diff if line[0] != "+"])
            for line in diff:
                if line[0] == "+":
                    new.setdefault((path, at), []).append(line[1:])
                    continue
                if line[0] == "-":
                    gone.add((path, at))
                at += 1
        return {path: "".join(_edited(path, old, gone, new)) for path, old in lines.items()}

    def _place(self, lines: Mapping[str, list[str]], old: list[str]) -> tuple[str, int]:
        found = [
            (path, at) for path, text in lines.items() for at in range(len(text)) if text[at : at + len(old)] == old
        ]
        assert len(found) == 1, f"{self.rule}{self.what}: {old} stands in {len(found)} places"
        return found[0]


def _edited(
    path: str, old: list[str], gone: set[tuple[str, int]], new: Mapping[tuple[str, int], list[str]]
) -> Iterator[str]:
    for at, line in enumerate([*old, ""]):
        yield from (f"{text}\n" for text in new.get((path, at), ()))
        if (path, at) not in gone and at < len(old):
            yield f"{line}\n"


def bugs_in(document: Path) -> Iterator[tuple[str, Bug]]:
    """The bugs of a document, each with the title of the program it is put into."""
    title, rule, what, diffs = "", "", "", list[tuple[str, ...]]()
    diff: list[str] | None = None
    for line in [*document.read_text(encoding="utf-8").splitlines(), "## "]:
        if diff is not None:
            if line.startswith("```"):
                diffs.append(tuple(diff))
                diff = None
            else:
                diff.append(line or " ")
        elif line.startswith("```diff"):
            diff = []
        elif line.startswith("## ") or _BUG.fullmatch(line):
            if rule:
                yield title, Bug(rule, what, tuple(diffs))
            found = _BUG.fullmatch(line)
            rule, what, diffs = (found["rule"], found["what"], []) if found else ("", "", [])
            title = title if found else line[3:]


def programs() -> Iterator[tuple[str, Case, list[Bug]]]:
    """Every program with its bugs."""
    for document in sorted(HERE.glob("*.md")):
        bugs = list(bugs_in(document))
        for case in cases_in(document):
            title = case.title
            if not _BUG.fullmatch(f"### {title}"):
                yield f"{document.stem}: {title}", case, [bug for name, bug in bugs if name == title]


PROGRAMS = list(programs())


def spoken(files: Mapping[str, str]) -> list[Finding]:
    """What is found in some files, as sure as a comment on a line has to be."""
    report = analyze(Case("", files), list(files), Options(min_confidence=Confidence.LIKELY))
    assert report.skipped == ()
    return list(report.findings)


@pytest.mark.parametrize(("case", "bugs"), [pytest.param(case, bugs, id=name) for name, case, bugs in PROGRAMS])
def test_a_bug_put_into_a_right_program_is_found(case: Case, bugs: list[Bug]) -> None:
    rules = {bug.rule for bug in bugs}
    before = [
        (item.rule, item.line)
        for item in spoken(case.files)
        if item.severity is not Severity.NOTE or item.rule in rules
    ]
    assert before == []
    missed = [bug.rule + bug.what for bug in bugs if bug.rule not in {f.rule for f in spoken(bug.put_into(case.files))}]
    assert missed == []


def test_every_rule_has_a_bug() -> None:
    assert {bug.rule for _, _, bugs in PROGRAMS for bug in bugs} == {rule.code for rule in catalogue.rules()}
