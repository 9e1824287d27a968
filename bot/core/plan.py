"""Everything a review wants GitHub to show, as one frozen value.

`bot.core.review` computes it without I/O, ``preflight review --dry-run`` prints it, `bot.queue.publish` makes it
true (look, then write). A restarted job computes the same plan, which is what makes publishing repeatable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bot.core.ledger import Posted

Conclusion = Literal["success", "neutral", "failure", "skipped", "cancelled", "timed_out", "action_required"]
State = Literal["ok", "borderline", "exceeds", "unknown", "overridden", "failed", "skipped"]
CheckName = Literal["preflight/code", "preflight/memory"]
CODE_CHECK: CheckName = "preflight/code"
MEMORY_CHECK: CheckName = "preflight/memory"
BUTTONS = frozenset({"rerun", "fix", "fits", "explain"})
CHECK_NAMES: tuple[CheckName, ...] = (CODE_CHECK, MEMORY_CHECK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A note on lines of a file in a check run; unlike a comment it need not be in the diff."""

    path: str
    start_line: int
    end_line: int
    level: Literal["notice", "warning", "failure"]
    title: str
    message: str
    raw_details: str = ""
    start_column: int | None = None  # 1-based, only when start_line == end_line
    end_column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAction:
    """A button. GitHub takes 20 characters of label, 40 of description, 20 of identifier."""

    label: str
    description: str
    identifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """The conclusion of one check run. Texts are cut to GitHub's limits when rendered."""

    name: CheckName
    conclusion: Conclusion
    state: State
    title: str
    summary: str
    text: str = ""
    annotations: tuple[Annotation, ...] = ()
    actions: tuple[CheckAction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewComment:
    """One comment on the RIGHT side of the diff. `start_line` is None for a single line.

    `fingerprint` is hidden in the body as a marker, so that the same thing is never said twice.
    """

    path: str
    line: int
    start_line: int | None
    body: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`comments` empty means no review; `summary` None means no summary comment (one that exists is still edited).

    `standing` holds the fingerprints of every finding that the head introduces, said now or before.
    """

    head_sha: str
    checks: tuple[CheckOutcome, ...]
    comments: tuple[ReviewComment, ...] = ()
    review_body: str = ""
    summary: str | None = None
    standing: tuple[str, ...] = ()
    posted: tuple[Posted, ...] | None = None
    """The findings in the ledger after this review; None where nothing was looked at (a draft): they stay."""
    details: Mapping[str, Any] | None = None
    """The document of `bot.core.details` behind the checks' link; None where there is nothing to look at."""
