"""The state of each launch config, as a marker at the start of the text of ``preflight/memory``.

The external id has the worst of all; the submission gate is asked about one file. Only the very start of the text
counts: further down a marker could be the name of somebody's file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import cast, get_args

from bot.core.plan import State

MAX_PATHS = 400
_MAX_PATH = 250
_STATES = frozenset(get_args(State))
_MARKER = re.compile(r"<!-- preflight:launches=(\{[^\n]*\}) -->")
_WORST_FIRST: tuple[State, ...] = ("exceeds", "borderline", "unknown", "ok")


def states_marker(found: Iterable[tuple[str, State]]) -> str:
    """The marker; of several launches in one file the worst counts, and of too many files the worst are kept."""
    worst: dict[str, State] = {}
    for path, state in found:
        known = worst.get(path)
        if known is None or _WORST_FIRST.index(state) < _WORST_FIRST.index(known):
            worst[path] = state
    ranked = sorted(worst.items(), key=lambda item: (_WORST_FIRST.index(item[1]), item[0]))
    kept = {path: state for path, state in ranked if len(path) <= _MAX_PATH}
    text = json.dumps(dict(list(kept.items())[:MAX_PATHS]), separators=(",", ":"))
    harmless = text.replace(">", "\\u003e").replace("--", "-\\u002d")  # nothing in it ends the comment
    return f"<!-- preflight:launches={harmless} -->"


def states_in(text: str | None) -> Mapping[str, State] | None:
    """What `states_marker` wrote; None where the text does not begin with one."""
    match = _MARKER.match(text or "")
    if match is None:
        return None
    try:
        document = json.loads(match[1])
    except (ValueError, RecursionError):
        return None
    return known_states(document)


def known_states(document: object) -> Mapping[str, State] | None:
    """Path -> state; None for a document that is something else."""
    if not isinstance(document, dict) or not all(state in _STATES for state in document.values()):
        return None
    return {str(path): cast(State, state) for path, state in document.items()}
