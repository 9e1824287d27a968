"""The errors Preflight raises on purpose.

    PreflightError
    ├── InputError      something a person gave us is wrong: said to that person, exit code 2
    └── Unavailable     something we need does not answer now: tried again later (raised by `bot` only)

Everything else that is raised is a bug of ours, caught at three boundaries (per file, per rule, per job), each of
which leaves a visible note.
"""

from __future__ import annotations


class PreflightError(Exception):
    """Base of the errors we raise on purpose."""


class InputError(PreflightError):
    """A file, option or configuration is wrong. The message is for the person who gave it and names the place."""


class Unavailable(PreflightError):
    """A service does not answer, or asks us to wait. `retry_after` is in seconds where the service said."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
