"""The `external_id` of our check runs: ``repo_id:number:sha:generation:state``.

It is how a check run is found again (fork pull requests have no ``pull_requests`` in their events) and what the
submission gate reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast, get_args

from bot.core.plan import State

_STATES = frozenset(get_args(State))
_FORM = re.compile(r"(\d{1,19}):(\d{1,19}):([0-9a-f]{40}|[0-9a-f]{64}):(\d{1,19}):([a-z]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalId:
    """The parts; `state` is None while the check has no conclusion."""

    repo_id: int
    number: int
    sha: str
    generation: int
    state: State | None

    @property
    def is_of_branch(self) -> bool:
        """The check of a commit of the default branch."""
        return self.number == 0 and self.generation > 0

    @property
    def is_mirror(self) -> bool:
        """What a merge queue was told: nothing was estimated there."""
        return self.number == 0 and self.generation == 0


def external_id(repo_id: int, number: int, sha: str, generation: int, state: State | None = None) -> str:
    """The text for a check run; without `state` for one that is queued or in progress."""
    return f"{repo_id}:{number}:{sha}:{generation}:{state or ''}"


def parse_external_id(text: str | None) -> ExternalId | None:
    """The parts of `text`; None when we did not write it."""
    match = _FORM.fullmatch(text or "")
    if match is None or (match[5] and match[5] not in _STATES):
        return None
    return ExternalId(
        repo_id=int(match[1]),
        number=int(match[2]),
        sha=match[3],
        generation=int(match[4]),
        state=cast(State, match[5]) if match[5] else None,
    )
