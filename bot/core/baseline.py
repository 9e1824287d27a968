"""A baseline: the findings that an old code base has when it adopts Preflight, kept in a file of the repository.

An entry is a fingerprint (`bot.core.fingerprint`), so it survives shifted lines and reformatted code, and ends with the
statement it speaks of. What else an entry says is for people who read a diff of the file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from analyzer.findings import Finding, Report, Suppressed
from bot.core.fingerprint import Read, fingerprints
from bot.errors import InputError


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One finding that is known. `path` is relative to the project."""

    path: str
    rule: str
    fingerprint: str
    message: str = ""


def load(text: str, name: str) -> tuple[Entry, ...]:
    """The entries of a baseline file. Raises `InputError` where it is none."""
    try:
        document = json.loads(text)
        entries = [
            Entry(item["path"], item["rule"], item["fingerprint"], str(item.get("message", "")))
            for item in document["findings"]
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(
            f"{name}: no baseline (`preflight check --baseline {name} --write-baseline` makes one)"
        ) from None
    if document.get("version") != 1 or not all(isinstance(part, str) for item in entries for part in _key(item)):
        raise InputError(f"{name}: a baseline of another version")
    return tuple(entries)


def _key(entry: Entry) -> tuple[str, str, str]:
    return entry.path, entry.rule, entry.fingerprint


def entries_of(report: Report, read: Read) -> tuple[Entry, ...]:
    """The report's findings as entries, sorted."""
    marks = fingerprints(report.findings, read, {})
    pairs = zip(report.findings, marks, strict=True)
    return tuple(sorted(Entry(item.path, item.rule, mark, item.message) for item, mark in pairs))


def dump(entries: Collection[Entry]) -> str:
    """The file. One entry a line: a diff shows what came and went."""
    lines = [
        json.dumps(
            {"path": item.path, "rule": item.rule, "fingerprint": item.fingerprint, "message": item.message},
            ensure_ascii=True,
        )
        for item in sorted(entries)
    ]
    body = "[\n  " + ",\n  ".join(lines) + "\n ]" if lines else "[]"
    return f'{{"version": 1, "findings": {body}}}\n'


def known(
    findings: Collection[Finding], entries: Collection[Entry], read: Read, renames: Mapping[str, str] | None = None
) -> dict[int, Entry]:
    """Of the findings in order, by number: those that an entry knows."""
    by_key = {_key(item): item for item in entries}
    moved = renames or {}
    marks = fingerprints(tuple(findings), read, moved)
    found = {}
    for number, (finding, mark) in enumerate(zip(findings, marks, strict=True)):
        entry = by_key.get((moved.get(finding.path, finding.path), finding.rule, mark))
        if entry is not None:
            found[number] = entry
    return found


def hidden(
    report: Report, entries: Collection[Entry], read: Read, is_checked: Collection[str]
) -> tuple[Report, tuple[Entry, ...]]:
    """The report without what the baseline knows, which counts as suppressed; and the entries that are over: their
    rule ran on their file (`is_checked` are the paths), and the finding is gone."""
    matched = known(report.findings, entries, read)
    kept = tuple(item for number, item in enumerate(report.findings) if number not in matched)
    gone = tuple(
        Suppressed(item.rule, item.path, item.line, "baseline", "")
        for number, item in enumerate(report.findings)
        if number in matched
    )
    used = set(matched.values())
    unsure = {item.path for item in report.skipped}
    expired = tuple(
        sorted(item for item in entries if item not in used and item.path in is_checked and item.path not in unsure)
    )
    return replace(report, findings=kept, suppressed=(*report.suppressed, *gone)), expired
