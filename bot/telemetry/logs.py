"""One JSON object a line, with the ids of the delivery, pull request and job it belongs to; nothing secret in it.

``PREFLIGHT_LOG_FORMAT=text`` gives lines for people. Ids are bound once for all lines of a job, those of libraries too.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any

from bot.errors import InputError
from bot.redact import redact

FORMATS = ("json", "text")
_bound: ContextVar[Mapping[str, object] | None] = ContextVar("preflight_log_fields", default=None)


@contextmanager
def bind(**fields: object) -> Iterator[None]:
    """These fields are part of every line that is written inside the block."""
    token = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def event(logger: logging.Logger, message: str, fields: Mapping[str, object], level: int = logging.INFO) -> None:
    """One line with fields of its own."""
    logger.log(level, message, extra={"fields": dict(fields)}, stacklevel=2)


class _Fields(logging.Formatter):
    """Knows the fields of a record."""

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        own: Mapping[str, object] = getattr(record, "fields", {})
        return {**(_bound.get() or {}), **own}

    def trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class JsonFormatter(_Fields):
    """Every string is redacted before it is quoted, so that a line is always a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": redact(record.getMessage()),
            "pid": record.process,
        }
        line |= {key: _plain(value) for key, value in self.fields(record).items() if key not in line}
        if error := self.trace(record):
            line["error"] = redact(error)
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(_Fields):
    """``key=value`` behind the message."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        said = [time, record.levelname, record.name, record.getMessage().replace("\n", " ")]
        said += [f"{key}={_quoted(value)}" for key, value in self.fields(record).items()]
        error = self.trace(record)
        return redact(" ".join(said) + (f"\n{error}" if error else ""))


def install_logging(environment: Mapping[str, str]) -> None:
    """Write to stderr in the format of ``PREFLIGHT_LOG_FORMAT``. Raises `InputError` for one that is none."""
    wanted = environment.get("PREFLIGHT_LOG_FORMAT", "").strip() or FORMATS[0]
    if wanted not in FORMATS:
        raise InputError(f"PREFLIGHT_LOG_FORMAT: {' or '.join(FORMATS)}, not {wanted!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if wanted == "json" else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def _plain(value: object) -> object:
    """JSON's own types as they are; anything else as redacted text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return redact(str(value))


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=\n\r\t') else text
