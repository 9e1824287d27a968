"""Changed files between two commits, each with its patch in GitHub's form, and which lines a comment may stand on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bot.localhub.gitrepo import GitRepo

# A file's patch is left out beyond either (GitHub documentation, repository limits: single file diff).
MAX_PATCH_LINES = 20_000
MAX_PATCH_BYTES = 500 * 1024
_STATUS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied", "T": "changed"}
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file of a diff. `sha` is the blob at the new side (at the old one when removed)."""

    path: str
    previous_path: str | None
    status: str
    sha: str
    additions: int
    deletions: int
    patch: str | None


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a patch: `old` and `new` are 1-based line numbers, None on the side where the line is not."""

    mark: str
    old: int | None
    new: int | None
    text: str
    hunk: int


def changed_files(git: GitRepo, old: str, new: str) -> list[FileChange]:
    """What `new` changes against `old`, in git's order (by path)."""
    counts = _numstat(git.diff_numstat(old, new))
    sections = iter(_sections(git.diff_patch(old, new)))
    files = []
    for status, old_sha, new_sha, old_path, path in _raw(git.diff_raw(old, new)):
        section = next(sections, b"")
        if status == "T":  # git prints a change of type as a deletion and an addition
            next(sections, b"")
        additions, deletions = counts.get(path, (0, 0))
        files.append(
            FileChange(
                path=path,
                previous_path=old_path if status in "RC" else None,
                status=_STATUS.get(status, "changed"),
                sha=old_sha if status == "D" else new_sha,
                additions=additions,
                deletions=deletions,
                patch=None if status == "T" else _patch(section),
            )
        )
    return files


def _raw(raw: bytes) -> list[tuple[str, str, str, str, str]]:
    fields = iter(raw.decode("utf-8", "replace").split("\0")[:-1])
    found = []
    for facts in fields:
        _, _, old_sha, new_sha, status = facts.split(" ")
        old_path = next(fields)
        path = next(fields) if status[0] in "RC" else old_path
        found.append((status[0], old_sha, new_sha, old_path, path))
    return found


def _numstat(raw: bytes) -> dict[str, tuple[int, int]]:
    fields = iter(raw.decode("utf-8", "replace").split("\0")[:-1])
    counts = {}
    for line in fields:
        added, deleted, path = line.split("\t", 2)
        if not path:  # a rename: the two paths follow as fields of their own
            next(fields)
            path = next(fields)
        counts[path] = (0, 0) if added == "-" else (int(added), int(deleted))
    return counts


def _sections(patch: bytes) -> list[bytes]:
    """The patch cut at its ``diff --git`` lines; a line of a file always begins with a mark, so none looks like one."""
    parts = re.split(rb"^(?=diff --git )", patch, flags=re.MULTILINE)
    return [part for part in parts if part]


def _patch(section: bytes) -> str | None:
    start = re.search(rb"^@@ ", section, flags=re.MULTILINE)
    if start is None:
        return None  # binary, or nothing but a new name or mode
    body = section[start.start() :].removesuffix(b"\n")
    if len(body) > MAX_PATCH_BYTES or body.count(b"\n") >= MAX_PATCH_LINES:
        return None
    return body.decode("utf-8", "replace")


def patch_lines(patch: str | None) -> list[PatchLine]:
    """The lines of a patch; the hunk headers (mark ``@``) are among them."""
    lines: list[PatchLine] = []
    old = new = 0
    hunk = -1
    for text in (patch or "").split("\n"):  # never splitlines(): a form feed is content
        header = _HUNK.match(text) if text[:1] == "@" else None
        if header:
            old, new, hunk = int(header[1]), int(header[3]), hunk + 1
            lines.append(PatchLine("@", None, None, text, hunk))
        elif text[:1] == "+":
            lines.append(PatchLine("+", None, new, text[1:], hunk))
            new += 1
        elif text[:1] == "-":
            lines.append(PatchLine("-", old, None, text[1:], hunk))
            old += 1
        elif text[:1] == "\\":
            lines.append(PatchLine("\\", None, None, text, hunk))
        elif hunk >= 0:
            lines.append(PatchLine(" ", old, new, text[1:], hunk))
            old, new = old + 1, new + 1
    return lines


def commentable(patch: str | None) -> dict[tuple[str, int], int]:
    """(side, line) -> number of the hunk, for every line a review comment may stand on."""
    places: dict[tuple[str, int], int] = {}
    for line in patch_lines(patch):
        if line.new is not None:
            places["RIGHT", line.new] = line.hunk
        if line.old is not None:
            places["LEFT", line.old] = line.hunk
    return places


def hunk_until(patch: str | None, side: str, line: int) -> str:
    """GitHub's `diff_hunk`: the hunk from its header to the commented line."""
    kept: list[str] = []
    for item in patch_lines(patch):
        if item.mark == "@":
            kept = []
        kept.append(item.text if item.mark in "@\\" else item.mark + item.text)
        if (item.new if side == "RIGHT" else item.old) == line:
            return "\n".join(kept)
    return ""


def moved_line(git: GitRepo, path: str, old: str, new: str, line: int) -> int | None:
    """Where a line of `path` at commit `old` is at commit `new`; None when it was changed or removed."""
    if old == new:
        return line
    change = next((item for item in changed_files(git, old, new) if (item.previous_path or item.path) == path), None)
    if change is None:
        return line
    if change.status != "modified" or change.patch is None:
        return None
    shift = 0
    for item in patch_lines(change.patch):
        if item.old is not None and item.old > line:
            break
        if item.old == line:
            return item.new
        if item.mark == "@":
            header = _HUNK.match(item.text)
            assert header is not None
            start = int(header[1]) + (1 if header[2] == "0" else 0)
            if start > line:
                break
        shift += {"+": 1, "-": -1}.get(item.mark, 0)
    return line + shift
