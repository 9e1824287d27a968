"""Tokens never reach a log: installation tokens, other GitHub tokens, JWTs, PEM keys, links to archives."""

from __future__ import annotations

import logging
import re

# `ghs_APPID_JWT` (since 2026-04) is much longer than 40 characters and holds dots: no length is assumed.
_SECRETS = re.compile(
    r"gh[a-z]_[A-Za-z0-9_.\-]+|github_pat_\w+|eyJ[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*"
    r"|(?<=[?&]token=)[^&\s\"']+"  # a link to an archive of a private repository
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


def redact(text: str) -> str:
    """`text` without anything that looks like a token or key."""
    return _SECRETS.sub("[redacted]", text)


class _Redacting(logging.Formatter):
    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return redact(self._inner.format(record))  # after formatting: tracebacks too


def install_redaction(logger: logging.Logger) -> None:
    """Make every handler of `logger` redact. Safe to call again."""
    for handler in logger.handlers:
        if not isinstance(handler.formatter, _Redacting):
            handler.setFormatter(_Redacting(handler.formatter or logging.Formatter(logging.BASIC_FORMAT)))
