"""What a webhook delivery asks of us: event and payload -> one intent. The only place that knows payload shapes.

An intent holds ids and, for a command, its one line: nothing else of a payload travels in a job. A payload that
lacks a key or has another type there is an `InputError` that names the key; events and actions we do not know are
`Ignore`, because GitHub adds new ones at any time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Protocol, TypeVar

from bot.core.commands.grammar import command_line
from bot.core.plan import BUTTONS, CHECK_NAMES
from bot.errors import InputError

T = TypeVar("T")
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_GROUP_REF = re.compile(r"\bgh-readonly-queue/.+/pr-(\d{1,18})-(?:[0-9a-f]{64}|[0-9a-f]{40})$")
_FULL_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,100}/[A-Za-z0-9_.\-]{1,100}")


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


def read(event: str, payload: Mapping[str, Any], app_id: int | None = None) -> Intent:
    """The intent of one delivery. With `app_id`, re-runs of another app's checks are ignored.

    Raises `InputError`, naming the key, for a payload that is not what GitHub documents.
    """
    reader = _READERS.get(event)
    if reader is None:
        return Ignore(reason=f"event {event!r} is not ours")
    intent = reader(_Payload(payload))
    if isinstance(intent, (Rerun, PressButton)) and app_id is not None and _app_of(event, payload) != app_id:
        return Ignore(reason="a check of another app")
    return intent


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


class _Payload:
    """Typed look-up by dotted path; the path is in every error."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def find(self, path: str) -> object | None:
        """The value at `path`; None where any step of it is missing or null."""
        value: object = self._document
        for key in path.split("."):
            if value is None:
                return None
            if not isinstance(value, Mapping):
                raise InputError(f"{path}: not an object on the way to {key!r}")
            value = value.get(key)
        return value

    def _typed(self, path: str, kind: type[T]) -> T:
        value = self.find(path)
        if value is None:
            raise InputError(f"{path}: missing")
        if type(value) is not kind:
            raise InputError(f"{path}: {type(value).__name__} instead of {kind.__name__}")
        return value

    def text(self, path: str) -> str:
        return self._typed(path, str)

    def flag(self, path: str) -> bool:
        return self._typed(path, bool)

    def number(self, path: str) -> int:
        value = self._typed(path, int)
        if not 0 <= value < 1 << 63:
            raise InputError(f"{path}: out of range")
        return value

    def sha(self, path: str) -> str:
        value = self.text(path)
        if not _SHA.fullmatch(value):
            raise InputError(f"{path}: not a full commit id")
        return value

    def place(self) -> dict[str, Any]:
        """Installation and repository, as nearly every intent carries them."""
        full_name = self.text("repository.full_name")
        if not _FULL_NAME.fullmatch(full_name):
            raise InputError("repository.full_name: not owner/name")
        return {
            "installation_id": self.number("installation.id"),
            "repo_id": self.number("repository.id"),
            "full_name": full_name,
        }


_REVIEWED = frozenset({"opened", "reopened", "ready_for_review", "synchronize"})


def _pull_request(payload: _Payload) -> Intent:
    action = payload.text("action")
    if action == "edited":
        if payload.find("changes.base") is None:
            return Ignore(reason="title or description edited")
        action = "retargeted"
    elif action not in {"closed", "converted_to_draft"} and action not in _REVIEWED:
        return Ignore(reason=f"pull_request action {action!r}")
    pull = {"number": payload.number("number"), "head_sha": payload.sha("pull_request.head.sha"), **payload.place()}
    if action == "closed":
        return ClosePull(**pull, merged=payload.flag("pull_request.merged"))
    if payload.text("pull_request.state") != "open":
        return Ignore(reason="the pull request is closed")
    if action == "converted_to_draft":
        return ClosePull(**pull, merged=False, to_draft=True)
    return ReviewPull(**pull, reason=action)


def _issue_comment(payload: _Payload) -> Intent:
    action = payload.text("action")
    if action != "created":
        # People with write access can edit other people's comments: only what was created counts.
        return Ignore(reason=f"issue_comment action {action!r}")
    if payload.find("issue.pull_request") is None:
        return Ignore(reason="a comment on a plain issue")
    return _command(payload, payload.number("issue.number"))


def _review_comment(payload: _Payload) -> Intent:
    action = payload.text("action")
    if action != "created":
        return Ignore(reason=f"pull_request_review_comment action {action!r}")
    first = "comment.in_reply_to_id" if payload.find("comment.in_reply_to_id") is not None else "comment.id"
    return _command(payload, payload.number("pull_request.number"), thread=payload.number(first))


def _command(payload: _Payload, number: int, thread: int = 0) -> Intent:
    """Also on a closed pull request: a command is answered, if only with a refusal."""
    if payload.find("comment.user") is None or payload.text("comment.user.type") != "User":
        return Ignore(reason="not written by a person")
    if payload.find("comment.performed_via_github_app") is not None:
        return Ignore(reason="written through an app")
    line = command_line(payload.text("comment.body"))
    if line is None:
        return Ignore(reason="no command in the comment")
    return RunCommand(
        **payload.place(),
        number=number,
        comment_id=payload.number("comment.id"),
        comment_node_id=payload.text("comment.node_id"),
        author=payload.text("comment.user.login"),
        author_type=payload.text("comment.user.type"),
        body=line,
        thread=thread,
    )


def _check_run(payload: _Payload) -> Intent:
    action = payload.text("action")
    if action not in {"rerequested", "requested_action"}:
        return Ignore(reason=f"check_run action {action!r}")
    if payload.text("check_run.name") not in CHECK_NAMES:
        return Ignore(reason="not one of our checks")
    run: dict[str, Any] = {
        **payload.place(),
        "head_sha": payload.sha("check_run.head_sha"),
        "check_run_id": payload.number("check_run.id"),
        "external_id": payload.text("check_run.external_id") if payload.find("check_run.external_id") else None,
        "sender": payload.text("sender.login"),
    }
    if action == "rerequested":
        return Rerun(**run, queued=_queued(payload.find("check_run.check_suite.head_branch")))
    button = payload.text("requested_action.identifier")
    if button not in BUTTONS:
        return Ignore(reason="not one of our buttons")
    if payload.text("sender.type") != "User":
        return Ignore(reason="not pressed by a person")
    return PressButton(**run, check=payload.text("check_run.name"), button=button)


def _check_suite(payload: _Payload) -> Intent:
    action = payload.text("action")
    if action != "rerequested":
        # `requested` fires beside pull_request: handling both would review twice.
        return Ignore(reason=f"check_suite action {action!r}")
    return Rerun(
        **payload.place(),
        head_sha=payload.sha("check_suite.head_sha"),
        check_run_id=None,
        external_id=None,
        sender=payload.text("sender.login"),
        queued=_queued(payload.find("check_suite.head_branch")),
    )


def _merge_group(payload: _Payload) -> Intent:
    action = payload.text("action")
    if action != "checks_requested":
        return Ignore(reason=f"merge_group action {action!r}")
    return MergeGroup(
        **payload.place(),
        head_sha=payload.sha("merge_group.head_sha"),
        base_sha=payload.sha("merge_group.base_sha"),
        queued=_queued(payload.find("merge_group.head_ref")),
    )


def _queued(ref: object) -> int:
    """``gh-readonly-queue/main/pr-7-<sha>`` -> 7."""
    found = _GROUP_REF.search(ref) if isinstance(ref, str) else None
    return int(found[1]) if found else 0


def _installation(payload: _Payload) -> Intent:
    return DropTokens(installation_id=payload.number("installation.id"))


def _push(payload: _Payload) -> Intent:
    if not payload.text("ref").startswith("refs/heads/"):
        return Ignore(reason="not a branch")
    if payload.text("repository.full_name").endswith("/.github"):
        return DropTokens(installation_id=payload.number("installation.id"))
    is_default = payload.text("ref") == f"refs/heads/{payload.text('repository.default_branch')}"
    if not is_default or payload.flag("deleted"):
        return DropConfig(repo_id=payload.number("repository.id"))
    return CheckPush(**payload.place(), head_sha=payload.sha("after"))


def _ping(payload: _Payload) -> Intent:
    return Ignore(reason="ping")


_READERS: dict[str, Callable[[_Payload], Intent]] = {
    "pull_request": _pull_request,
    "issue_comment": _issue_comment,
    "pull_request_review_comment": _review_comment,
    "check_run": _check_run,
    "check_suite": _check_suite,
    "merge_group": _merge_group,
    "installation": _installation,
    "installation_repositories": _installation,
    "push": _push,
    "ping": _ping,
}


EVENTS = frozenset(_READERS)
"""The events that we subscribe to or that GitHub sends to every app."""


def _app_of(event: str, payload: Mapping[str, Any]) -> object | None:
    return _Payload(payload).find(f"{event}.app.id")
