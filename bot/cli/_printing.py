"""What ``preflight check`` prints, and the files it writes beside it, in every format."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bot.cli._streams import write
from bot.cli._width import columns
from bot.errors import InputError

if TYPE_CHECKING:
    from analyzer.findings import Report

FORMATS = ("terminal", "json", "github", "sarif", "markdown")


def rendered(report: Report, form: str, is_coloured: bool = False) -> str:
    """The report in one of `FORMATS`, with a newline at its end where it says anything."""
    if form == "json":
        return json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n"
    if form == "github":
        from bot.render.annotations import render as commands

        return commands(report)
    if form == "sarif":
        from bot.render.sarif import render as sarif

        return json.dumps(sarif(report, _read), indent=2, ensure_ascii=False) + "\n"
    if form == "markdown":
        from bot.render.report_markdown import render as markdown

        return markdown(report)
    return _terminal(report, is_coloured)


def show(text: str) -> None:
    """Print, whatever the names of files hold."""
    write(text)


def is_coloured() -> bool:
    """Whether a person at a terminal reads this, who did not say no."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def places(words: Sequence[str]) -> list[tuple[str, Path]]:
    """``FORMAT=FILE`` of ``--save``. Raises `InputError`."""
    found = []
    for word in words:
        form, mark, name = word.partition("=")
        if not mark or not name or form not in FORMATS:
            raise InputError(f"--save {word}: give FORMAT=FILE, where FORMAT is one of {', '.join(FORMATS)}")
        found.append((form, Path(name)))
    return found


def save(report: Report, form: str, path: Path) -> None:
    """Write the report to a file. Raises `InputError`."""
    try:
        path.write_text(rendered(report, form), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _terminal(report: Report, is_coloured: bool) -> str:
    from analyzer.api import cell_lines, text_of
    from bot.render.terminal import Style, render

    @cache
    def cells(path: str) -> dict[int, tuple[str, ...]]:
        return cell_lines(_read(path) or b"")

    @cache
    def lines(path: str, cell: int | None) -> tuple[str, ...]:
        if cell is not None:
            return cells(path).get(cell, ())
        return tuple((text_of(_read(path) or b"") or "").splitlines())

    number = 8  # columns of the line's number and the bar behind it
    return render(report, lines, Style(is_coloured, columns(120 + number) - number)) + "\n"


def _read(path: str) -> bytes | None:
    """A file by the path that is shown, which is relative to the working directory."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
