"""Fixes of ``preflight check``: tried in memory until nothing is left to fix, then written at once or shown."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from analyzer.api import applied, chosen_fixes, text_of
from analyzer.findings import Report
from bot.core.patch import file_patch
from bot.errors import InputError
from bot.isolate.pool import Job, analyze_in_children

_MAX_PASSES = 6  # a fix may make room for another; more rounds than this would mean that two undo each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The files that fixes change, before and after, by path; and the report on the tree that has them."""

    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    report: Report
    num_fixes: int


def fixed(job: Job, report: Report, num_children: int, with_unsafe: bool) -> Changes:
    """What the fixes of `report`, and those that become possible by them, make of the tree. Writes nothing."""
    before: dict[str, bytes] = {}
    after: dict[str, bytes] = {}
    num_fixes = 0
    for _ in range(_MAX_PASSES):
        changed = dict(_one_pass(job, report, after, with_unsafe))
        if not changed:
            break
        for path, (old, new, count) in changed.items():
            before.setdefault(path, old)
            after[path] = new
            num_fixes += count
        report = analyze_in_children(replace(job, texts=dict(after)), num_children)
    return Changes(before=before, after=after, report=report, num_fixes=num_fixes)


def _one_pass(
    job: Job, report: Report, texts: Mapping[str, bytes], with_unsafe: bool
) -> Iterator[tuple[str, tuple[bytes, bytes, int]]]:
    """Path -> its text before and after, and the number of fixes; only fixes within one file are applied."""
    for path in dict.fromkeys(finding.path for finding in report.findings):
        mine = [finding for finding in report.findings if finding.path == path]
        fixes = [fix for fix in chosen_fixes(mine, with_unsafe) if all(edit.span.path == path for edit in fix.edits)]
        if not fixes:
            continue
        try:
            old = texts[path] if path in texts else (job.root / path).read_bytes()
            new = applied(old, [edit for fix in fixes for edit in fix.edits])
        except (OSError, ValueError):  # the file changed, or went away, since it was analysed
            continue
        if new != old:
            yield path, (old, new, len(fixes))


def write(root: Path, changes: Changes) -> None:
    """Put the changed files in place, each at once. A file that was changed meanwhile by others stays as it is.

    Raises `InputError` naming the files that could not be written; the others are written.
    """
    problems = []
    for path, content in changes.after.items():
        try:
            found = (root / path).read_bytes()
            if found == content:  # named twice, by a link as well: it was fixed by its other name
                continue
            if found != changes.before[path]:
                problems.append(f"{path}: was changed while it was analysed; not fixed")
            else:
                _replace(root / path, content)
        except OSError as error:
            problems.append(f"{path}: cannot be written: {error.strerror}")
    if problems:
        raise InputError("\n".join(problems))


def _replace(path: Path, content: bytes) -> None:
    """Another process sees the old file or the new one. The mode stays; through a link, the file behind it changes."""
    place = Path(os.path.realpath(path))
    mode = stat.S_IMODE(place.stat().st_mode)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=".preflight")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, mode)
        os.replace(name, place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def unified_diff(changes: Changes, shown: Callable[[str], str]) -> str:
    """What would change, as ``git apply`` reads it."""
    texts = ((path, text_of(changes.before[path]) or "", text_of(changes.after[path]) or "") for path in changes.after)
    return "".join(file_patch(shown(path), old, new) for path, old, new in sorted(texts))
