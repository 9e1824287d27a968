"""The safe fixes of what a pull request introduces, applied in memory until nothing is left to fix."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from analyzer.api import applied, chosen_fixes
from analyzer.findings import Finding
from bot.core.examine import Code, Engines, Failed, examine_code
from bot.core.placing import place
from bot.core.review_input import ReviewInput, git_blob_id
from bot.errors import InputError
from bot.render.markdown import Links
from bot.sources.base import Tree

_MAX_PASSES = 6  # a fix may make room for another; more rounds than this would mean that two undo each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """`before` and `after` by path, for the files that change; the findings that were cured, and those that stay."""

    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    cured: tuple[Finding, ...]
    left: tuple[Finding, ...]


class WithChanges:
    """A tree in which some files have other bytes."""

    def __init__(self, tree: Tree, changed: Mapping[str, bytes]) -> None:
        self._tree = tree
        self._changed = changed

    def paths(self) -> Collection[str]:
        """Every path of the tree."""
        return self._tree.paths()

    def read(self, path: str) -> bytes | None:
        """The bytes of one file."""
        return self._changed[path] if path in self._changed else self._tree.read(path)

    def blob_sha(self, path: str) -> str | None:
        """The id git gives the blob."""
        return git_blob_id(self._changed[path]) if path in self._changed else self._tree.blob_sha(path)


def safe_fixes(given: ReviewInput, engines: Engines | None = None) -> Fixed:
    """What the safe fixes make of the head. A file that could not be analysed afterwards keeps its old text.

    Raises `InputError` where the analysis breaks.
    """
    doors = engines or Engines()
    after: dict[str, bytes] = {}
    cured: list[Finding] = []
    spoilt: set[str] = set()
    code = _examined(given, after, doors)
    for _ in range(_MAX_PASSES):
        changed, fixed = _one_pass(given, code, after, spoilt)
        if not changed:
            break
        after |= changed
        code = _examined(given, after, doors)
        if worse := {item.path for item in code.skipped} & changed.keys():
            spoilt |= worse
            after = {path: text for path, text in after.items() if path not in worse}
            cured = [finding for finding in cured if finding.path not in worse]
            fixed = [finding for finding in fixed if finding.path not in worse]
            code = _examined(given, after, doors)
        cured += fixed
    before = {path: given.head.read(path) or b"" for path in after}
    return Fixed(before=before, after=after, cured=tuple(cured), left=code.findings)


def _examined(given: ReviewInput, after: Mapping[str, bytes], doors: Engines) -> Code:
    """Without what people dismissed or ignore on this pull request."""
    now = replace(given, head=WithChanges(given.head, dict(after)))
    found = examine_code(now, doors)
    if isinstance(found, Failed):
        raise InputError(f"the analysis failed with an internal error ({found.what}): a fault of Preflight")
    nowhere = Links("", given.snapshot.full_name, given.snapshot.head_sha, has_page=False)
    heard = [item.finding for item in place(now, found.findings, nowhere) if not item.is_silenced]
    return replace(found, findings=tuple(sorted(heard, key=lambda item: (item.span, item.rule))))


def _one_pass(
    given: ReviewInput, code: Code, after: Mapping[str, bytes], spoilt: Collection[str]
) -> tuple[dict[str, bytes], list[Finding]]:
    """The files that one round of fixes changes, and the findings that it cures."""
    changed: dict[str, bytes] = {}
    cured: list[Finding] = []
    for path in dict.fromkeys(finding.path for finding in code.findings):
        old = after[path] if path in after else given.head.read(path)
        if old is None or path in spoilt:
            continue
        mine = [finding for finding in code.findings if finding.path == path]
        fixes = [fix for fix in chosen_fixes(mine) if all(edit.span.path == path for edit in fix.edits)]
        try:
            new = applied(old, [edit for fix in fixes for edit in fix.edits])
        except ValueError:
            continue
        if new != old:
            changed[path] = new
            cured += [finding for finding in mine if any(finding.fix is fix for fix in fixes)]
    return changed, cured
