"""The new text of a file from its old text and GitHub's patch of it. Who uses it checks the blob id of the answer."""

from __future__ import annotations

import re

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def apply_patch(old: bytes, patch: str) -> bytes | None:
    """None for a patch that does not fit."""
    before = _lines(old)
    after: list[bytes] = []
    place, last = 0, ""
    for text in patch.split("\n"):  # never splitlines(): U+2028, form feeds and \r are content
        if hunk := _HUNK.match(text):
            start = int(hunk[1]) - (1 if hunk[2] != "0" else 0)
            if not place <= start <= len(before):
                return None
            after += before[place:start]
            place = start
            last = "@"
            continue
        if not last:
            return None
        if text.startswith("\\"):
            if last == "+" and after:
                after[-1] = after[-1].removesuffix(b"\n")
            continue
        last = text[:1]
        if last == "+":
            after.append(text[1:].encode("utf-8", "surrogatepass") + b"\n")
        elif place >= len(before):
            return None
        else:
            if last != "-":
                after.append(before[place])
            place += 1
    return b"".join([*after, *before[place:]]) if last else None


def _lines(content: bytes) -> list[bytes]:
    *whole, rest = content.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])
