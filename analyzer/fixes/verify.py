"""A fix is kept only when it is seen to work: the changed file parses, the finding is gone and nothing new appears."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from analyzer.findings import Finding, Fix
from analyzer.fixes.apply import Taken, apply

FEW = 4
Analyse = Callable[[bytes], Sequence[str] | None]
"""The rules of the findings of the changed file (all confidences); None where it does not parse."""


def verify(
    source: bytes, findings: Sequence[Finding], analyse: Analyse, may_go_on: Callable[[], bool] = lambda: True
) -> tuple[Finding, ...]:
    """`findings` of one file, without the fixes that do not work.

    All fixes that can be tried together are tried at once; only if that fails are parts of them, down to each alone.
    `may_go_on` is asked before each further analysis: what is not tried is not offered.
    """
    before = Counter(item.rule for item in findings)
    proven: set[int] = set()
    num_tried = 0
    waiting = [item.fix for item in findings if item.fix is not None]
    while waiting:
        together = _compatible(waiting)
        tried = set(map(id, together))
        waiting = [fix for fix in waiting if id(fix) not in tried]
        groups = [together]
        while groups:
            group = groups.pop(0)
            if num_tried and not may_go_on():
                return _with(findings, proven)
            num_tried += 1
            if _works(source, group, findings, before, analyse):
                proven.update(map(id, group))
            elif len(group) > 1:
                groups += _parts(group)  # the larger ones first: if it ends early, little is left
    return _with(findings, proven)


def _with(findings: Sequence[Finding], proven: set[int]) -> tuple[Finding, ...]:
    """The findings with those fixes only."""
    return tuple(item if item.fix is None or id(item.fix) in proven else replace(item, fix=None) for item in findings)


def _parts(group: list[Fix]) -> list[list[Fix]]:
    """A few are tried one by one; of many, which rarely all fail, half at a time."""
    if len(group) <= FEW:
        return [[fix] for fix in group]
    middle = len(group) // 2
    return [group[:middle], group[middle:]]


def _compatible(fixes: Sequence[Fix]) -> list[Fix]:
    """The first fix and all that can be tried with it."""
    chosen: list[Fix] = []
    taken = Taken()
    for fix in fixes:
        if not taken.clashes(fix):
            chosen.append(fix)
            taken.add(fix)
    return chosen


def _works(
    source: bytes, fixes: Sequence[Fix], findings: Sequence[Finding], before: Counter[str], analyse: Analyse
) -> bool:
    try:
        changed = apply(source, [edit for fix in fixes for edit in fix.edits])
    except ValueError:
        return False
    after = analyse(changed)
    if after is None:
        return False
    expected = before - Counter(item.rule for item in findings if any(item.fix is fix for fix in fixes))
    found = Counter(after)
    return all(found[rule] <= expected[rule] for rule in found)
