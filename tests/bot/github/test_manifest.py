"""`app.yml` asks for what the gateway's calls need and for the events the intents read; nothing more, nothing less."""

from __future__ import annotations

import ast
from pathlib import Path

import yaml

from bot import deliveries
from bot.github.auth import PERMISSIONS

ROOT = Path(__file__).parents[3]
MANIFEST = yaml.safe_load((ROOT / "app.yml").read_text(encoding="utf-8"))
_LEVEL = {"read": 1, "write": 2}

# Path fragment of a call -> the permission area GitHub documents for it, the most specific first.
AREAS = (
    ("/access_tokens", None),
    ("/check-runs", "checks"),
    ("/collaborators/", "metadata"),
    ("/issues/", "issues"),
    ("/pulls", "pull_requests"),
    ("/compare/", "contents"),
    ("/git/", "contents"),
    ("/tarball/", "contents"),
    ("/app", None),
)
ALWAYS_SENT = {"installation", "installation_repositories", "ping"}
"""Events every app gets; a manifest must not list them."""


def _needed() -> dict[str, str]:
    """From every ``get``, ``pages``, ``download`` and ``write`` in `bot.github`, by its path."""
    needed: dict[str, str] = {}
    for file in (ROOT / "bot" / "github").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                text = ast.unparse(node)
                if "/" not in text or " " in text.strip("f'\""):
                    continue
                area = next((area for part, area in AREAS if part in text), None)
                if area:
                    needed.setdefault(area, "read")
    for area in ("checks", "issues", "pull_requests"):  # the three we write to
        needed[area] = "write"
    return needed


def test_permissions_are_what_the_calls_need() -> None:
    needed = _needed()
    assert needed == PERMISSIONS
    asked = dict(MANIFEST["default_permissions"])
    assert asked.pop("merge_queues") == "read", "the merge_group event needs it, no call does"
    assert asked == needed


def test_events_are_what_the_intents_read() -> None:
    assert set(MANIFEST["default_events"]) == set(deliveries.EVENTS) - ALWAYS_SENT


def test_manifest_holds_what_github_requires() -> None:
    assert MANIFEST["url"]
    assert MANIFEST["hook_attributes"]["url"].startswith("https://")
    assert MANIFEST["public"] is False
    assert all(level in _LEVEL for level in MANIFEST["default_permissions"].values())
