"""What a webhook delivery asks of us, as a value. `bot.deliveries` reads it from a payload.

An intent holds ids and, for a command, its one line: nothing else of a payload travels in a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Protocol

from bot.errors import InputError


class Repository(Protocol):
    """Whatever says which repository it is about: an intent, a record, the desk of a command."""

    @property
    def installation_id(self) -> int: ...
    @property
    def repo_id(self) -> int: ...
    @property
    def full_name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPull:
    """Review a pull request at `head_sha`. `reason` is the action that asked for it."""

    installation_id: int
    repo_id: int
    full_name: str
    number: int
    head_sha: str
    reason: str

    @classmethod
    def of(cls, repository: Repository, number: int, head_sha: str, reason: str) -> ReviewPull:
        """A review in the repository that something else is about."""
        return cls(**_names(repository), number=number, head_sha=head_sha, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPush:
    """The default branch stands at `head_sha`: every launch config there gets an answer for the submission gate."""

    installation_id: int
    repo_id: int
    full_name: str
    head_sha: str

    @classmethod
    def of(cls, repository: Repository, head_sha: str) -> CheckPush:
        """A check in the repository that something else is about."""
        return cls(**_names(repository), head_sha=head_sha)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosePull:
    """A pull request was closed, or became a draft (`to_draft`): stop its jobs and conclude its open check runs."""

    installation_id: int
    repo_id: int
    full_name: str
    number: int
    head_sha: str
    merged: bool
    to_draft: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand:
    """Answer a slash command. `body` is the command's line alone; the head is not in the payload: look it up.

    `thread` is the first comment of the review thread it was written in, 0 in the conversation.
    """

    installation_id: int
    repo_id: int
    full_name: str
    number: int
    comment_id: int
    comment_node_id: str
    author: str
    author_type: str
    body: str
    thread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """Somebody pressed *Re-run* on a check run, or *Re-run all* on the suite (then there is no run id)."""

    installation_id: int
    repo_id: int
    full_name: str
    head_sha: str
    check_run_id: int | None
    external_id: str | None
    sender: str
    queued: int = 0
    """The pull request of a merge group, where the commit is one's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PressButton:
    """Somebody pressed one of our buttons (`bot.core.buttons`) on a check run."""

    installation_id: int
    repo_id: int
    full_name: str
    head_sha: str
    check: str
    check_run_id: int
    external_id: str | None
    button: str
    sender: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeGroup:
    """A merge queue waits for our checks on `head_sha`. `queued` is the pull request that the group adds, 0 where its
    branch does not say: each one in the queue has a group of its own, on top of those before it."""

    installation_id: int
    repo_id: int
    full_name: str
    head_sha: str
    base_sha: str
    queued: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTokens:
    """The installation changed, or its owner's defaults: what is cached about it may be old."""

    installation_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DropConfig:
    """A branch moved: cached configuration of the repository may be old."""

    repo_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """Nothing to do, and why."""

    reason: str


Intent = (
    ReviewPull
    | CheckPush
    | ClosePull
    | RunCommand
    | Rerun
    | PressButton
    | MergeGroup
    | DropTokens
    | DropConfig
    | Ignore
)
_KINDS: dict[str, type[Any]] = {
    "review_pull": ReviewPull,
    "check_push": CheckPush,
    "close_pull": ClosePull,
    "run_command": RunCommand,
    "rerun": Rerun,
    "press_button": PressButton,
    "merge_group": MergeGroup,
    "drop_tokens": DropTokens,
    "drop_config": DropConfig,
    "ignore": Ignore,
}
_KIND_OF = {kind: name for name, kind in _KINDS.items()}


def _names(repository: Repository) -> dict[str, Any]:
    return {name: getattr(repository, name) for name in ("installation_id", "repo_id", "full_name")}


def to_json(intent: Intent) -> dict[str, Any]:
    """A small JSON object with the intent's kind and fields."""
    return {"kind": _KIND_OF[type(intent)], **asdict(intent)}


def from_json(document: Mapping[str, Any]) -> Intent:
    """The intent that `to_json` wrote. Raises `InputError` for anything else."""
    kind = _KINDS.get(str(document.get("kind")))
    if kind is None:
        raise InputError(f"kind: no intent {document.get('kind')!r}")
    values = {key: value for key, value in document.items() if key != "kind"}
    wanted = {field.name: str(field.type) for field in fields(kind)}
    # Jobs that an older version queued lack what was added since with a default.
    needed = {field.name for field in fields(kind) if field.default is MISSING}
    if not needed <= values.keys() <= wanted.keys():
        raise InputError(f"{document['kind']}: fields {sorted(values)} instead of {sorted(wanted)}")
    for name, value in values.items():
        if not _fits(value, wanted[name]):
            raise InputError(f"{document['kind']}.{name}: {type(value).__name__} instead of {wanted[name]}")
    intent: Intent = kind(**values)
    return intent


def _fits(value: object, annotation: str) -> bool:
    allowed = {"int": int, "str": str, "bool": bool, "None": type(None)}
    return any(type(value) is allowed[name] for name in annotation.split(" | "))
