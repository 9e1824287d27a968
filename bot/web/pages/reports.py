"""``GET /r/TOKEN``: the report behind a check's link."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, make_response, redirect, request

from bot.pages.links import Opened, ReportRef
from bot.render.pages.report import report_page
from bot.web.pages import what_if
from bot.web.pages.context import Context, message, not_found
from bot.web.pages.sessions import Sessions

_RERUN = "Press Re-run on the check in GitHub: Preflight reviews the commit again, and the new check has a new link."


def blueprint(context: Context, sessions: Sessions) -> Blueprint:
    """The route."""
    routes = Blueprint("reports", __name__)

    def show(token: str) -> Response:
        opened = context.open(token)
        if opened is None:
            return not_found()
        if opened.is_over(time.time()):
            return _renewed(context, sessions, opened)
        document = context.shelf.get(opened.ref)
        if document is None:
            return _absent(context, opened.ref)
        return _page(context, document, opened, request.path, sessions.login())

    routes.add_url_rule("/r/<token>", "show", show)
    return routes


def _renewed(context: Context, sessions: Sessions, opened: Opened) -> Response:
    """A link that has ended: whoever may read the repository gets a new one, the others learn nothing."""
    if sessions.may_read(opened.ref.repo_id):
        answer = redirect(context.fresh(opened.ref), 303)
        return make_response(answer)
    lines = ["Links to reports end after some days, because reports hold code and links are copied.", _RERUN]
    login = ""
    if context.settings.has_login:
        lines.append("Or log in: if you can read the repository, you get a new link to this report.")
        login = request.path
    if user := sessions.login():
        lines.append(f"You are logged in as {user}, who does not see this repository on GitHub.")
    return message(410, "This link has ended", *lines, login=login, user=user)


def _absent(context: Context, ref: ReportRef) -> Response:
    if context.shelf.is_under_way(ref):
        return message(
            202, "The review is under way", "This page looks again every few seconds, or reload it.", refresh=5
        )
    days = context.settings.report_days
    kept = f"Reports are kept for {days} days and for the last few commits of a pull request."
    never = "A draft has none, nor has a review that a newer push replaced or that did not end."
    return message(410, "There is no report of this commit", kept, never, _RERUN)


def _page(context: Context, document: dict[str, Any], opened: Opened, path: str, user: str | None) -> Response:
    question = what_if.asked(request.args, document["launches"])
    if question is not None:
        result = what_if.estimate(context, document["launches"][question.launch]["run"], question.edit)
        question = replace(question, estimate=result.get("estimate"), error=str(result.get("error", "")))
    page = report_page(
        document, form_url=path, stats_url=f"{path}/stats", expires=opened.expires, what_if=question, user=user
    )
    return make_response(page)
