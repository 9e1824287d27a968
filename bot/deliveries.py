"""Event and payload of a webhook delivery -> one intent. The only place that knows payload shapes.

A payload that lacks a key or has another type there is an `InputError` that names the key; events and actions we do not
know are `Ignore`, because GitHub adds new ones at any time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bot.core.commands.grammar import command_line
from bot.core.plan import BUTTONS, CHECK_NAMES
from bot.errors import InputError
from bot.intents import (
    CheckPush,
    ClosePull,
    DropConfig,
    DropTokens,
    Ignore,
    Intent,
    MergeGroup,
    PressButton,
    Rerun,
    ReviewPull,
    RunCommand,
)

T = TypeVar("T")
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_GROUP_REF = re.compile(r"\bgh-readonly-queue/.+/pr-(\d{1,18})-(?:[0-9a-f]{64}|[0-9a-f]{40})$")
_FULL_NAME = re.compile(r"(?!\.{1,2}/)[A-Za-z0-9_.\-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9_.\-]{1,100}")
"""It becomes part of addresses: no step up."""


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
