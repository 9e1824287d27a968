"""Standard output and error where they are closed, full, or read by somebody who went away (``| head``)."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def open_closed() -> None:
    """Let whoever closed them (``>&-``) hear nothing."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  as long as the process lives
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def write(text: str = "") -> None:
    """Print, whatever the text holds, and everything that waits to be printed. Nobody is left to be told anything where
    the reader went away: the exit code is what it is."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()  # here, where it is expected to fail, not at the interpreter's end
    except BrokenPipeError:
        silence()


def tell(text: str) -> None:
    """One line on standard error, if that can be written."""
    with suppress(OSError):
        print(text, file=sys.stderr)


def silence() -> None:
    """Print nothing any more, and let the interpreter end in peace."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
