"""The REST areas: one blueprint per file. A route reads the request, asks `access` and `rules`, acts on the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from flask import Response, current_app, g, jsonify, request

from bot.localhub.access import Caller, repository_for
from bot.localhub.errors import Refusal
from bot.localhub.model import Json, Repository
from bot.localhub.service import Service
from bot.localhub.state import Hub
from bot.localhub.urls import API_PREFIX

T = TypeVar("T")


def service() -> Service:
    """The service behind this application."""
    return cast(Service, current_app.extensions["localhub"])


def hub() -> Hub:
    """Its state."""
    return service().hub


def caller() -> Caller:
    """Who sent the present request."""
    return cast(Caller, g.caller)


def repository(owner: str, repo: str) -> Repository:
    """The repository of the path, if the caller sees it."""
    return repository_for(hub(), caller(), owner, repo)


def json_body() -> Json:
    """The JSON object of the request; an empty body is an empty object."""
    data = request.get_data()
    if not data.strip():
        return {}
    body = request.get_json(force=True, silent=True)
    if body is None:
        raise Refusal(400, "Problems parsing JSON")
    if not isinstance(body, dict):
        raise Refusal(400, "Body should be a JSON object")
    return body


def paged(items: Sequence[T], shape: Callable[[T], Json], *, wrap: str | None = None) -> Response:
    """One page of a list with GitHub's ``Link`` header; `wrap` puts it into an object with `total_count`."""
    size = min(_number("per_page", 30), 100) or 30
    page = _number("page", 1) or 1
    rows: list[Any] = [shape(item) for item in items[(page - 1) * size : page * size]]
    answer = jsonify({"total_count": len(items), wrap: rows} if wrap else rows)
    last = max(1, -(-len(items) // size))
    links = []
    if page < last:
        links += [_link(page + 1, "next"), _link(last, "last")]
    if page > 1:
        links += [_link(1, "first"), _link(page - 1, "prev")]
    if links:
        answer.headers["Link"] = ", ".join(links)
    return answer


def cursored(items: Sequence[T], number: Callable[[T], int], shape: Callable[[T], Json]) -> Response:
    """One page of a list, newest first, that is walked by an opaque cursor: what is added at its top moves nothing."""
    size = min(_number("per_page", 30), 100) or 30
    cursor = request.args.get("cursor")
    if cursor is not None:
        if not cursor.startswith("v1_") or not cursor[3:].isdigit():
            raise Refusal(422, "Invalid cursor")
        items = [item for item in items if number(item) <= int(cursor[3:])]
    answer = jsonify([shape(item) for item in items[:size]])
    if len(items) > size:
        query = urlencode(request.args.to_dict() | {"cursor": f"v1_{number(items[size])}"})
        answer.headers["Link"] = f'<{hub().urls.root}{API_PREFIX}{request.path}?{query}>; rel="next"'
    return answer


def _link(page: int, relation: str) -> str:
    query = urlencode(request.args.to_dict() | {"page": str(page)})
    return f'<{hub().urls.root}{API_PREFIX}{request.path}?{query}>; rel="{relation}"'


def _number(name: str, default: int) -> int:
    value = request.args.get(name, "")
    return int(value) if value.isdigit() else default
