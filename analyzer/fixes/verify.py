"""A fix is kept only when it is seen to work: the changed file parses, the finding is gone and nothing new appears."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from analyzer.findings import Finding, Fix
from analyzer.fixes.apply import apply, clash

Analyse = Callable[[bytes], Sequence[str] | None]
"""The rules of the findings of the changed file (all confidences); None where it does not parse."""


def verify(source: bytes, findings: Sequence[Finding], analyse: Analyse) -> tuple[Finding, ...]:
    """`findings` of one file, without the fixes that do not work.

    All fixes that can be tried together are tried at once; only if that fails is each tried alone.
    """
    before = Counter(item.rule for item in findings)
    proven: set[int] = set()
    waiting = [item.fix for item in findings if item.fix is not None]
    while waiting:
        together = _compatible(waiting)
        waiting = [fix for fix in waiting if not any(fix is other for other in together)]
        if len(together) > 1 and _works(source, together, findings, before, analyse):
            proven.update(map(id, together))
        else:
            proven.update(id(fix) for fix in together if _works(source, [fix], findings, before, analyse))
    return tuple(item if item.fix is None or id(item.fix) in proven else replace(item, fix=None) for item in findings)


def _compatible(fixes: Sequence[Fix]) -> list[Fix]:
    """The first fix and all that can be tried with it."""
    chosen: list[Fix] = []
    for fix in fixes:
        if not any(clash(fix, other) for other in chosen):
            chosen.append(fix)
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
