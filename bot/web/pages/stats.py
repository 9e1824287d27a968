"""``GET /r/TOKEN/stats`` (with a report's link) and ``GET /stats?repo=owner/name`` (after a login)."""

from __future__ import annotations

import re
import time
from typing import get_args

from flask import Blueprint, Response, make_response, redirect, request

from bot.pages.statistics import Group, Statistics
from bot.render.pages import render
from bot.web.pages.context import Context, message, not_found
from bot.web.pages.sessions import Sessions

_COLUMNS = (
    ("findings", "findings"),
    ("fixed before merge", "fixed"),
    ("merged", "kept"),
    ("dismissed", "dismissed"),
    ("suppressed", "suppressed"),
    ("👍", "up"),
    ("👎", "down"),
)
_GROUPS: tuple[Group, ...] = tuple(group for group in get_args(Group) if group != "repository")
_MAX_ROWS = 200
_NAME = re.compile(r"[\w.\-]{1,100}/[\w.\-]{1,100}", re.ASCII)


def blueprint(context: Context, sessions: Sessions) -> Blueprint:
    """Both routes."""
    routes = Blueprint("stats", __name__)
    statistics = Statistics(context.client, context.keys)

    def of_link(token: str) -> Response:
        opened = context.open(token)
        if opened is None:
            return not_found()
        if opened.is_over(time.time()):
            return make_response(redirect(f"/r/{token}", 303))  # which says how to go on
        repo_id = opened.ref.repo_id
        report = context.shelf.get(opened.ref)
        name = statistics.repositories().get(repo_id) or (str(report["repo"]) if report else "this repository")
        return _page(statistics, {repo_id: name}, sessions.login(), back_url=f"/r/{token}")

    def of_name() -> Response:
        user = sessions.login()
        if user is None:
            if not context.settings.has_login:
                return not_found()
            return message(
                401, "Log in to see statistics", "They are shown to people who can read the repository.", login="/stats"
            )
        name = request.args.get("repo", "").strip()
        repo_id = sessions.find(name) if _NAME.fullmatch(name) else None
        if repo_id is None:
            return _page(statistics, {}, user, asked=name[:200])
        return _page(statistics, {repo_id: name}, user, query=f"repo={name}&")

    routes.add_url_rule("/r/<token>/stats", "of_link", of_link)
    routes.add_url_rule("/stats", "of_name", of_name)
    return routes


def _page(
    statistics: Statistics,
    repositories: dict[int, str],
    user: str | None,
    *,
    back_url: str = "",
    query: str = "",
    asked: str = "",
) -> Response:
    by: Group = next((group for group in _GROUPS if group == request.args.get("by")), "rule")
    months = next((number for number in (1, 3, 12) if str(number) == request.args.get("months")), 3)
    rows = statistics.rows(repositories, by, months, time.time()) if repositories else ()
    page = render(
        "stats.html",
        name=next(iter(repositories.values()), None),
        rows=rows[:_MAX_ROWS],
        by=by,
        months=months,
        groups=_GROUPS,
        columns=_COLUMNS,
        back_url=back_url,
        query=query,
        asked=asked,
        user=user,
    )
    return make_response(page)
