"""Findings that meet on a line: one cause is reported once, and of overlapping fixes one is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analyzer.findings import Finding
from analyzer.fixes.apply import Taken

CAUSES: tuple[tuple[str, ...], ...] = (
    ("PF101", "PF103"),  # kept with its graph, kept on the device: the graph holds the device memory as well
    ("PF204", "PF205", "PF220"),  # the input of a loss is on the wrong scale
    ("PF201", "PF215"),  # gradients not cleared, cleared in the wrong place
    ("PF203", "PF208"),  # training in eval mode
    ("PF302", "PF304"),  # one order of the data, replayed
)
"""The first rule of a group that reports a line speaks for the others. A table by cause, never by rule pair."""


def reconcile(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """`findings` without those that another one on the same line speaks for, and without fixes that collide."""
    present = {(item.path, item.line, item.rule) for item in findings}
    kept = [item for item in findings if not _spoken_for(item, present)]
    taken = Taken()
    result: list[Finding] = []
    for item in kept:
        if item.fix is not None and taken.overlaps(item.fix):
            item = replace(item, fix=None)
        if item.fix is not None:
            taken.add(item.fix)
        result.append(item)
    return tuple(result)


def _spoken_for(item: Finding, present: set[tuple[str, int, str]]) -> bool:
    for group in CAUSES:
        if item.rule in group:
            return any((item.path, item.line, rule) in present for rule in group[: group.index(item.rule)])
    return False
