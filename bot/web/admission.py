"""``POST /admission``: a validating admission webhook (``AdmissionReview`` of admission.k8s.io/v1).

The bearer token comes from the API server's own configuration; where that cannot be set (managed clusters) it may be
the last part of the path. An error of ours is no decision but a 5xx: then the configuration's ``failurePolicy`` holds.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from flask import Blueprint, jsonify, request

from bot.queue import names
from bot.queue.ask import Asker
from bot.web.gate import Answer, Door, refuse
from bot.web.gate_tokens import Token

MAX_BYTES = 3 * 1024 * 1024  # etcd takes objects of 1.5 MiB; an update brings two
_MAX_POLICY = 65_536
_VERSION, _KIND = "admission.k8s.io/v1", "AdmissionReview"
_log = logging.getLogger("preflight.gate")


def blueprint(door: Door, asker: Asker) -> Blueprint:
    """The route, with and without a token in its path."""
    routes = Blueprint("admission", __name__)

    def admit(secret: str = "") -> Answer:
        token = door.caller(secret)
        if token is None:
            return refuse(401, "a gate token is wanted")
        if request.mimetype != "application/json":
            return refuse(415, "an AdmissionReview in JSON is wanted")
        body = request.stream.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            return refuse(413, "body over 3 MiB")
        try:
            review = json.loads(body)
        except (ValueError, RecursionError):
            return refuse(400, "the body is not JSON")
        review = review if isinstance(review, dict) else {}
        asked = review.get("request")
        if review.get("apiVersion") != _VERSION or review.get("kind") != _KIND or not isinstance(asked, dict):
            return refuse(400, f"a request of {_VERSION} {_KIND} is wanted")
        uid = asked.get("uid")
        if not isinstance(uid, str) or not 0 < len(uid) <= 128:
            return refuse(400, "request.uid is missing")
        if asked.get("operation") not in {"CREATE", "UPDATE"}:
            return _decided(uid, {"allowed": True})
        return door.through(token, lambda: _judged(asker, token, uid, asked.get("object")))

    routes.add_url_rule("/admission", "admission", admit, methods=["POST"])
    routes.add_url_rule("/admission/<secret>", "admission_by_path", admit, methods=["POST"])
    return routes


def _judged(asker: Asker, token: Token, uid: str, document: Any) -> Answer:
    try:
        policy = Path(token.policy).read_text(encoding="utf-8")[:_MAX_POLICY] if token.policy else None
    except (OSError, UnicodeDecodeError) as error:
        _log.error("policy of token %s cannot be read: %s", token.name, type(error).__name__)
        return refuse(500, "the policy of this token cannot be read")
    question = {
        "installation_id": token.installation_id,
        "repositories": sorted(token.repositories),
        "object": document,
        "policy": policy,
        "allow": sorted(token.allow),
        "require_commit": token.require_commit,
    }
    found = asker.ask(names.GATE_ADMIT, question)
    if found.get("status") == 422:  # what the object says of itself is wrong: a decision
        return _decided(uid, {"allowed": False, "message": str(found["error"])})
    if "error" in found:
        return refuse(int(found["status"]), str(found["error"]))
    return _decided(uid, found)


def _decided(uid: str, found: dict[str, Any]) -> Answer:
    response: dict[str, Any] = {"uid": uid, "allowed": found["allowed"]}
    if found.get("message"):
        response["status"] = {"code": 403, "message": f"preflight: {found['message']}"}
    if found.get("warnings"):
        response["warnings"] = found["warnings"]
    return jsonify({"apiVersion": _VERSION, "kind": _KIND, "response": response}), 200
