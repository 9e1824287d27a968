"""Who a person's token belongs to."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from bot.localhub.clock import stamp
from bot.localhub.payloads import people
from bot.localhub.routes import caller, hub

routes = Blueprint("user", __name__)


@routes.get("/user")
def get_user() -> Response:
    """A ``public-user``."""
    user = caller().user
    assert user is not None
    empty = dict.fromkeys(("name", "company", "location", "email", "hireable", "bio"))
    counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
    made = {"created_at": stamp(caller().app.created_at), "updated_at": stamp(caller().app.created_at), "blog": ""}
    return jsonify(people.account(hub().urls, user) | empty | counts | made)
