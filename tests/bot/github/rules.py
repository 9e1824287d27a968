"""What we may send: GitHub's description, and the rules about which it is silent.

A conclusion comes with ``completed`` and the other way round; texts are limited in bytes; times are UTC; ``side`` is an
enum; a range starts before it ends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.contract import Contract

# Operations of GitHub that the trimmed description leaves out, and the status of success.
_MORE = {
    ("DELETE", re.compile(r"/repos/[^/]+/[^/]+/pulls/\d+/reviews/\d+")),
    ("POST", re.compile(r"/graphql")),
}
_SUCCESS = {"/check-runs": 201, "/access_tokens": 201, "/comments": 201, "/reactions": 201}


def faults_of(contract: Contract, method: str, url: str, body: Any) -> list[str]:
    """What is wrong with one request of ours; empty where nothing is."""
    path = urlsplit(url).path
    if any(method == verb and expression.fullmatch(path) for verb, expression in _MORE):
        return []
    status = next((code for end, code in _SUCCESS.items() if path.endswith(end)), 200) if method == "POST" else 200
    found = contract.check(method, path, body, status, None)
    return found + [f"{method} {path}{line}" for line in _silent(path, method, body)]


def _silent(path: str, method: str, sent: Any) -> list[str]:
    if not isinstance(sent, dict) or method == "GET":
        return []
    if "/check-runs" in path:
        return _check_run(sent)
    if path.endswith(("/reviews", "/comments")):
        return [line for comment in [sent, *sent.get("comments", [])] for line in _comment(comment)]
    return []


def _check_run(sent: Mapping[str, Any]) -> list[str]:
    output = sent.get("output") or {}
    found = []
    if (sent.get("status") == "completed") != ("conclusion" in sent):
        found.append(": conclusion and completed come together")
    if len(output.get("title") or "") > 255:
        found.append("/output/title: over 255 characters")
    for key in ("summary", "text"):
        if len((output.get(key) or "").encode()) > 65_535:
            found.append(f"/output/{key}: over 65,535 bytes")
    if any(str(sent.get(key, "Z"))[-1:] != "Z" for key in ("started_at", "completed_at")):
        found.append(": times are sent in UTC")
    return found


def _comment(comment: Mapping[str, Any]) -> list[str]:
    found = []
    if comment.get("side", "RIGHT") not in ("LEFT", "RIGHT"):
        found.append("/side: LEFT or RIGHT")
    if "start_line" in comment and comment["start_line"] >= comment.get("line", 0):
        found.append("/start_line: must precede the end line")
    if len(comment.get("body") or "") > 65_536:
        found.append("/body: over 65,536 characters")
    return found
