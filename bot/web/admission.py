"""``POST /admission``: a validating admission webhook (``AdmissionReview`` of admission.k8s.io/v1).

The bearer token comes from the API server's own configuration; where that cannot be set (managed clusters) it may be
the last part of the path. An error of ours is no decision but a 5xx: then the configuration's ``failurePolicy`` holds.
What the submitter can bring about is a decision: an object too large or too deep to be read asks for a GPU in vain.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

from flask import Blueprint, jsonify, request

from bot.core.manifests import asks_for_gpu, is_deep
from bot.queue import names
from bot.queue.ask import Asker
from bot.web.gate import Answer, Door, refuse
from bot.web.gate_tokens import Token

MAX_BYTES = 3 * 1024 * 1024
"""Of a review that is judged. etcd takes objects of 1.5 MiB."""
MAX_READ = 24 * 1024 * 1024
"""The API server writes some characters as six (``\\u003c``), and an update brings two objects."""
_MAX_POLICY = 65_536
_VERSION, _KIND = "admission.k8s.io/v1", "AdmissionReview"
_UID = re.compile(rb'"uid"\s*:\s*"([A-Za-z0-9-]{1,128})"')
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
        body = request.stream.read(MAX_READ + 1)
        if len(body) > MAX_READ:
            return refuse(413, "body over 24 MiB")
        return _answered(door, asker, token, body)

    routes.add_url_rule("/admission", "admission", admit, methods=["POST"])
    routes.add_url_rule("/admission/<secret>", "admission_by_path", admit, methods=["POST"])
    return routes


def _answered(door: Door, asker: Asker, token: Token, body: bytes) -> Answer:
    try:
        review = json.loads(body)
    except RecursionError:
        found = _UID.search(body, 0, 4_096)
        return _too_much(found[1].decode(), body) if found else refuse(400, "request.uid is missing")
    except ValueError:
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
    if len(body) > MAX_BYTES or is_deep(asked):
        return _too_much(uid, body)
    return door.through(token, lambda: _judged(asker, token, uid, asked))


def _too_much(uid: str, body: bytes) -> Answer:
    if not asks_for_gpu(body.decode("utf-8", "replace")):
        return _decided(uid, {"allowed": True})
    return _decided(uid, {"allowed": False, "message": "the object is larger or nested deeper than Preflight reads"})


def _judged(asker: Asker, token: Token, uid: str, asked: dict[str, Any]) -> Answer:
    try:
        policy = Path(token.policy).read_text(encoding="utf-8")[:_MAX_POLICY] if token.policy else None
    except (OSError, UnicodeDecodeError) as error:
        _log.error("policy of token %s cannot be read: %s", token.name, type(error).__name__)
        return refuse(500, "the policy of this token cannot be read")
    question = {
        "installation_id": token.installation_id,
        "repositories": sorted(token.repositories),
        "object": asked.get("object"),
        "username": _text(asked.get("userInfo"), "username"),
        "namespace": _text(asked, "namespace"),
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


def _text(document: Any, name: str) -> str:
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, str) else ""


def _decided(uid: str, found: dict[str, Any]) -> Answer:
    response: dict[str, Any] = {"uid": uid, "allowed": found["allowed"]}
    if found.get("message"):
        response["status"] = {"code": 403, "message": f"preflight: {found['message']}"}
    if found.get("warnings"):
        response["warnings"] = found["warnings"]
    return jsonify({"apiVersion": _VERSION, "kind": _KIND, "response": response}), 200
