"""What GitHub refuses in the body of a write, with its status and its words.

The words come from GitHub's answers as people quoted them in issues; where nobody did, the status is GitHub's and the
sentence is ours in its style.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bot.localhub.errors import Refusal, invalid, invalid_request, unprocessable
from bot.localhub.model import Json
from bot.localhub.patches import FileChange, commentable

MAX_ANNOTATIONS = 50
MAX_OUTPUT_BYTES = 65_535
MAX_ANNOTATION_BYTES = 64 * 1024
MAX_TITLE = 255
MAX_ACTIONS = 3
MAX_BODY = 65_536
CHECK_STATUSES = ("queued", "in_progress", "completed")
CONCLUSIONS = ("action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out")
REVIEW_EVENTS = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
_RUN_KEYS = {
    "name",
    "head_sha",
    "details_url",
    "external_id",
    "status",
    "started_at",
    "conclusion",
    "completed_at",
    "output",
    "actions",
}
_OUTPUT_KEYS = {"title", "summary", "text", "annotations", "images", "annotations_count", "annotations_url"}
_ANNOTATION_KEYS = {
    "path",
    "start_line",
    "end_line",
    "start_column",
    "end_column",
    "annotation_level",
    "message",
    "title",
    "raw_details",
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)")


# --- checks ----------------------------------------------------------------------------------------------------


def check_run_body(body: Json, *, is_new: bool) -> None:
    """The body of ``POST`` or ``PATCH …/check-runs``."""
    _known(body, _RUN_KEYS)
    for key in ("name", "head_sha") if is_new else ():
        _supplied(body, key)
    for key in ("name", "head_sha", "details_url", "external_id", "started_at", "completed_at"):
        if key in body and not isinstance(body[key], str):
            raise invalid_request(f"For 'properties/{key}', {_shown(body[key])} is not a string.")
    for key in ("started_at", "completed_at"):
        if key in body and not _TIME.fullmatch(body[key]):
            raise invalid_request(f"For 'properties/{key}', {_shown(body[key])} is not a valid date-time.")
    _one_of(body, "status", CHECK_STATUSES)
    _one_of(body, "conclusion", CONCLUSIONS)
    if body.get("status") == "completed" and "conclusion" not in body:
        raise invalid_request('"conclusion" wasn\'t supplied.')
    if "output" in body:
        _check_output(body["output"], is_new=is_new)
    _check_actions(body.get("actions", []))


def _check_output(output: Any, *, is_new: bool) -> None:
    if not isinstance(output, dict):
        raise invalid_request(f"For 'properties/output', {_shown(output)} is not an object.")
    _known(output, _OUTPUT_KEYS)
    for key in ("title", "summary") if is_new else ("summary",):
        _supplied(output, key)
    if len(str(output.get("title") or "")) > MAX_TITLE:
        raise invalid("CheckRun", "title", f"title is too long (maximum is {MAX_TITLE} characters)")
    for key in ("summary", "text"):
        if len(str(output.get(key) or "").encode()) > MAX_OUTPUT_BYTES:
            raise invalid("CheckRun", key, f"{key} exceeds a maximum bytesize of {MAX_OUTPUT_BYTES}")
    annotations = output.get("annotations", [])
    if len(annotations) > MAX_ANNOTATIONS:
        raise invalid_request(f"No more than {MAX_ANNOTATIONS} items are allowed; {len(annotations)} were supplied.")
    for annotation in annotations:
        _check_annotation(annotation)


def _check_annotation(annotation: Json) -> None:
    _known(annotation, _ANNOTATION_KEYS)
    for key in ("path", "start_line", "end_line", "annotation_level", "message"):
        _supplied(annotation, key)
    _one_of(annotation, "annotation_level", ("notice", "warning", "failure"))
    for key in ("start_line", "end_line", "start_column", "end_column"):
        if key in annotation and (not isinstance(annotation[key], int) or annotation[key] < 1):
            raise invalid_request(f"For 'properties/{key}', {_shown(annotation[key])} is not a positive number.")
    if annotation["end_line"] < annotation["start_line"]:
        raise invalid_request("end_line must not be before start_line.")
    has_columns = "start_column" in annotation or "end_column" in annotation
    if has_columns and annotation["start_line"] != annotation["end_line"]:
        raise invalid_request("start_column and end_column are only allowed when start_line equals end_line.")
    if len(str(annotation.get("title") or "")) > MAX_TITLE:
        raise invalid_request(f"Only {MAX_TITLE} characters are allowed; {len(annotation['title'])} were supplied.")
    for key in ("message", "raw_details"):
        if len(str(annotation.get(key) or "").encode()) > MAX_ANNOTATION_BYTES:
            raise invalid_request(f"{key} exceeds a maximum bytesize of {MAX_ANNOTATION_BYTES}")


def _check_actions(actions: Sequence[Json]) -> None:
    if len(actions) > MAX_ACTIONS:
        raise invalid_request(f"No more than {MAX_ACTIONS} items are allowed; {len(actions)} were supplied.")
    for action in actions:
        _known(action, {"label", "description", "identifier"})
        for key, limit in (("label", 20), ("description", 40), ("identifier", 20)):
            _supplied(action, key)
            if len(action[key]) > limit:
                raise invalid_request(f"Only {limit} characters are allowed; {len(action[key])} were supplied.")


def _known(body: Json, keys: set[str]) -> None:
    for key in body:
        if key not in keys:
            raise invalid_request(f'"{key}" is not a permitted key.')


def _supplied(body: Json, key: str) -> None:
    if body.get(key) is None:
        raise invalid_request(f'"{key}" wasn\'t supplied.')


def _one_of(body: Json, key: str, allowed: Sequence[str]) -> None:
    if key in body and body[key] not in allowed:
        listed = ", ".join(f'"{value}"' for value in allowed)
        raise invalid_request(f"For 'properties/{key}', {_shown(body[key])} is not a member of [{listed}].")


def _shown(value: Any) -> str:
    return "nil" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


# --- reviews and comments --------------------------------------------------------------------------------------


def text_body(value: Any, resource: str, *, may_be_empty: bool = False) -> str:
    """The `body` of a comment or review."""
    if not isinstance(value, str) or (not value.strip() and not may_be_empty):
        raise Refusal(422, "Validation Failed", [{"resource": resource, "code": "missing_field", "field": "body"}])
    if len(value) > MAX_BODY:
        raise invalid(resource, "body", f"body is too long (maximum is {MAX_BODY} characters)")
    return value


def review_body(body: Json) -> tuple[str | None, str]:
    """Event (None: pending) and text of a review to create or submit."""
    event = body.get("event") or None
    if event is not None and event not in REVIEW_EVENTS:
        raise unprocessable(f"Variable $event of type PullRequestReviewEvent was provided invalid value {event!r}")
    text = body.get("body") or ""
    if not isinstance(text, str):
        raise unprocessable("Variable $body of type String was provided invalid value")
    if event in {"REQUEST_CHANGES", "COMMENT"} and not text.strip():
        raise unprocessable(f"Review body can't be blank when the event is {event}")
    if len(text) > MAX_BODY:
        raise unprocessable(f"Body is too long (maximum is {MAX_BODY} characters)")
    return event, text


def anchor_faults(comment: Json, files: Sequence[FileChange]) -> list[str]:
    """Why a comment cannot stand where it wants to; empty when it can."""
    change = next((item for item in files if item.path == comment.get("path")), None)
    if change is None:
        return ["Path could not be resolved"]
    line, side = comment.get("line"), comment.get("side", "RIGHT")
    start, start_side = comment.get("start_line"), comment.get("start_side") or side
    if side not in {"LEFT", "RIGHT"} or start_side not in {"LEFT", "RIGHT"}:
        return ["Variable $side of type DiffSide was provided invalid value"]
    if not isinstance(line, int):
        return ["Pull request review thread line can't be blank"]
    places = commentable(change.patch)
    if (side, line) not in places:
        return [
            "Pull request review thread line must be part of the diff",
            "Pull request review thread diff hunk can't be blank",
        ]
    return [] if start is None else _start_faults(places, (start_side, start), (side, line))


def _start_faults(places: dict[tuple[str, int], int], start: tuple[str, Any], end: tuple[str, int]) -> list[str]:
    if not isinstance(start[1], int) or (start[0] == end[0] and start[1] >= end[1]):
        return ["Pull request review thread start line must precede the end line"]
    if start not in places:
        return ["Pull request review thread start line must be part of the diff"]
    if places[start] != places[end]:
        return ["Pull request review thread start line must be part of the same hunk as the line"]
    return []
