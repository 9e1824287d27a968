"""What a pull request introduces: the findings at the head that the merge base does not have, counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from analyzer.findings import Finding, Report, Suppressed
from bot.core.fingerprint import Read, Sources

Key = tuple[str, str, str, str]


def introduced(
    head: Report, base: Report, head_read: Read, base_read: Read, renames: Mapping[str, str]
) -> tuple[Finding, ...]:
    """The head's findings without the base's, as a multiset over rule, file and statement.

    `renames` maps paths at the head to those at the base. Where some of several identical findings are old, those
    between unchanged neighbours are taken for the old ones.
    """
    old: defaultdict[Key, Counter[tuple[str, str]]] = defaultdict(Counter)
    for _, key, around in _described(base.findings, base_read, {}):
        old[key][around] += 1
    unmatched: list[tuple[Finding, Key]] = []
    for finding, key, around in _described(head.findings, head_read, renames):
        if old[key][around] > 0:
            old[key][around] -= 1
        else:
            unmatched.append((finding, key))
    rest = Counter({key: counts.total() for key, counts in old.items()})
    new = []
    for finding, key in unmatched:
        if rest[key] > 0:
            rest[key] -= 1
        else:
            new.append(finding)
    return tuple(new)


def _described(
    findings: Iterable[Finding], read: Read, renames: Mapping[str, str]
) -> Iterator[tuple[Finding, Key, tuple[str, str]]]:
    sources = Sources(read)
    for finding in sorted(findings, key=lambda item: item.span):
        source = sources[finding.path]
        context = source.context(finding.span)
        path = renames.get(finding.path, finding.path)
        key = (finding.rule, path, context.own, source.tokens_of(finding.span))
        yield finding, key, (context.before, context.after)


def added_suppressions(head: Report, base: Report, renames: Mapping[str, str]) -> tuple[Suppressed, ...]:
    """The suppressed findings of the head that were not suppressed, with the same reason, at the base."""
    old = Counter((item.rule, item.path, item.source, item.reason) for item in base.suppressed)
    new = []
    for item in head.suppressed:
        key = (item.rule, renames.get(item.path, item.path), item.source, item.reason)
        if old[key] > 0:
            old[key] -= 1
        else:
            new.append(item)
    return tuple(new)
