"""Secrets never reach a log: tokens, keys, signed links, what a header or an address authorises with."""

from __future__ import annotations

import logging
import re

_IN_LINKS = (
    "token|access_token|refresh_token|id_token|jwt|auth|sig|signature|code|key|api_?key|client_secret|secret|password"
    "|passwd|policy|credential|awsaccesskeyid|x-(?:amz|goog)-(?:signature|credential|security-token)"
)
"""Parameters of addresses that let whoever has them in: GitHub's archives, S3, Google and Azure storage, CloudFront."""
_ANYWHERE = (
    "x-(?:amz|goog)-(?:signature|credential|security-token)|aws_secret_access_key|aws_session_token|client_secret"
)
_HEADERS = "(?:proxy-)?authorization|x-hub-signature(?:-256)?|x-api-key|private-token"
_TO_THE_END = (
    "(?:proxy-)?authorization[\"']?\\s*[:=]\\s*[\"']?(?=(?:aws4-hmac-sha256|digest)\\s)|(?:set-)?cookie[\"']?\\s*:\\s*"
)
"""Headers of several parts: the rest of their line goes."""
_WORD = r"[A-Za-z0-9_.\-]+"
_VALUE = r"[^&\s\"'<>\\]+"

_SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # `ghs_APPID_JWT` (since 2026-04) is much longer than 40 characters and holds dots: no length is assumed
        rf"gh[a-z]_{_WORD}|github_pat_\w+",
        r"(?:(?<![\w\-])|(?<=%3D))eyJ[\w\-]+\.[\w\-]+\.[\w\-]*",  # a JSON Web Token
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])",
        rf"(?P<kept>(?:[?&]|%3F|%26)(?:{_IN_LINKS})(?:=|%3D)){_VALUE}",
        rf"(?P<kept>(?<![\w\-])(?:{_ANYWHERE})[\"']?\s*(?:[:=]|%3D)\s*[\"']?){_VALUE}",
        # ``Authorization: Bearer …``, also as a dict of headers is printed
        rf"(?P<kept>(?<![\w\-])(?:{_TO_THE_END}))[^\r\n]+",
        rf"(?P<kept>(?<![\w\-])(?:{_HEADERS})[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|token|basic|negotiate)\s+)?){_VALUE}",
        r"(?P<kept>://[^/\s:@\"']{0,200}:)[^/\s@\"']{1,2000}(?=@)",  # ``https://x-access-token:…@github.com/``
        r"(?P<kept>/app-manifests/)[^/\s]+(?=/conversions)",  # changes into the key of a new app, for an hour
    )
)
"""What is told by its shape, and what by the name before it, which is `kept`. Rows are read in order: what one of them
has replaced, none of the later ones needs to find."""


def redact(text: str) -> str:
    """`text` without anything that looks like a token, a key, or the part of an address or a header that lets in."""
    for pattern in _SECRETS:
        text = pattern.sub(_said, text)
    return text


def _said(match: re.Match[str]) -> str:
    return f"{match.groupdict().get('kept') or ''}[redacted]"


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
