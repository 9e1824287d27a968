"""One finding of the doctor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class Line:
    """What was looked at, how it is, and where it is not good what to do."""

    name: str
    status: Status
    detail: str
    repair: str = ""


def ok(name: str, detail: str) -> Line:
    """Good."""
    return Line(name, "ok", detail)


def warn(name: str, detail: str, repair: str) -> Line:
    """Works, and will not for ever."""
    return Line(name, "warn", detail, repair)


def fail(name: str, detail: str, repair: str) -> Line:
    """Reviews do not happen, or not safely."""
    return Line(name, "fail", detail, repair)


def skip(name: str, detail: str) -> Line:
    """Could not be looked at, because of something that another line says."""
    return Line(name, "skip", detail)


def is_bad(lines: Iterable[Line]) -> bool:
    """Whether one failed."""
    return any(line.status == "fail" for line in lines)


Lines = Iterator[Line]
