"""Texts that a script holds for another program (``sbatch <<EOF``): what variables it knows filled in, lines kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from estimator.launch.base import Arg
from estimator.launch.shell_state import State
from estimator.launch.shell_tree import line_of, text_of

_VARIABLE = re.compile(r"\\(\$)|\$(?:(\w+)|\{(\w+)(?::-([^{}$]*))?\})")
_MAX_TEXT = 65536


@dataclass(frozen=True, slots=True)
class HereText:
    """A text, its first line in the file, and the command that is given it."""

    text: str
    line: int
    words: tuple[Arg, ...] = ()
    env: Mapping[str, Arg] = field(default_factory=dict)
    cwd: str = "."

    def padded(self) -> bytes:
        """The text on its lines of the file."""
        return ("\n" * (self.line - 1) + self.text).encode("utf-8", "replace")


def here_text(here: Node, state: State, line_offset: int) -> HereText | None:
    """The text of a here-document as the program sees it; what the script does not show stays as it is written."""
    parts = {child.type: child for child in here.children}
    body, start = parts.get("heredoc_body"), parts.get("heredoc_start")
    if body is None or start is None:
        return None
    text = text_of(body)[:_MAX_TEXT]
    if not re.search(r"[\'\"\\]", text_of(start)):

        def filled(match: re.Match[str]) -> str:
            if match[1]:
                return "$"  # escaped: resolved where the text runs
            known = state.look_up(match[2] or match[3])
            if known is not None and known.is_known and "\n" not in known.text:
                return known.text
            return match[4] if known is None and match[4] is not None else match[0]

        text = _VARIABLE.sub(filled, text)
    return HereText(text, max(line_of(body) + line_offset, 1))
