"""Security headers, on every answer of the web process; and what may be cached."""

from __future__ import annotations

from flask import Flask, Response

POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""No script at all: what a pull request smuggles into a page stays text, even if an escape were forgotten."""

_ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # the address of a report is its key
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "X-Robots-Tag": "noindex, nofollow",
}


def install(app: Flask, *, is_https: bool) -> None:
    """Add them to every answer, errors included."""

    @app.after_request
    def add(answer: Response) -> Response:
        for name, value in _ALWAYS.items():
            answer.headers.setdefault(name, value)
        if is_https:
            answer.headers.setdefault("Strict-Transport-Security", "max-age=31536000")
        answer.headers.setdefault("Cache-Control", "private, no-store")
        return answer
