"""Cases written in Markdown: a heading, prose, and one or more files; what must be found stands behind the line.

    ## A running sum of losses
    `train.py`:
    (fenced block)  total += loss  # warning: [PF101]

A marker is the severity and the rule in brackets. Several may stand behind one line; a line without one must be quiet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_HEADING = re.compile(r"#+ (?P<title>.+)")
_FILE = re.compile(r"`(?P<path>[^`]+)`:?\s*")
_MARKER = re.compile(r"(?P<severity>error|warning|note): \[(?P<rules>[^\]]+)\]")

Expected = tuple[str, int, str, str]
"""Path, line, rule, severity."""


@dataclass(frozen=True, slots=True)
class Case:
    """One small tree and the findings it must give. It is a `Files` itself."""

    title: str
    files: Mapping[str, str]

    def paths(self) -> Collection[str]:
        """Every path of the tree."""
        return self.files.keys()

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, markers included: they are comments."""
        text = self.files.get(path)
        return None if text is None else text.encode()

    def expected(self) -> list[Expected]:
        """What the markers ask for, in order."""
        found: list[Expected] = []
        for path, text in self.files.items():
            for number, line in enumerate(text.splitlines(), 1):
                for marker in _MARKER.finditer(line.partition("#")[2]):
                    rules = [rule.strip() for rule in marker["rules"].split(",")]
                    found += [(path, number, rule, marker["severity"]) for rule in rules]
        return sorted(found)


def cases_in(document: Path) -> Iterator[Case]:
    """The cases of one Markdown file: every heading under which files stand."""
    title, path, fence = document.stem, "train.py", False
    files: dict[str, str] = {}
    for line in document.read_text(encoding="utf-8").splitlines():
        if fence:
            fence = not line.startswith("```")
            files[path] += "" if not fence else line + "\n"
        elif line.startswith("```python"):
            fence = True
            files[path] = ""
        elif heading := _HEADING.fullmatch(line):
            if files:
                yield Case(title, files)
            title, path, files = heading["title"], "train.py", {}
        elif name := _FILE.fullmatch(line):
            path = name["path"]
    if files:
        yield Case(title, files)
