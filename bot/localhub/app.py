"""The WSGI application: the guard around every API route, and the aliases of paths."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from flask import Flask, Response, g, jsonify, request
from werkzeug.exceptions import HTTPException

from bot.localhub import limits
from bot.localhub.access import ANYBODY, NEEDS, authenticate, check_allowed
from bot.localhub.errors import Refusal
from bot.localhub.faults import Fault
from bot.localhub.recorder import Exchange, without_secrets
from bot.localhub.routes import (
    administration,
    checks,
    control,
    gitdata,
    graphql,
    issues,
    oauth,
    pages,
    pulls,
    registration,
    repos,
    reviews,
    user,
    web,
)
from bot.localhub.routes import app as app_routes
from bot.localhub.service import Service
from bot.localhub.urls import API_PREFIX

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

API_VERSIONS = {"2022-11-28", "2026-03-10"}
_BY_ID = re.compile(r"^/repositories/(\d+)(?=/|$)")
_ACCEPTED = re.compile(r"\*/\*|application/(\*|json|vnd\.github[a-z0-9.\-+]*)|text/html", re.IGNORECASE)


class Aliases:
    """Takes ``/api/v3`` off and turns ``/repositories/{id}`` into ``/repos/{owner}/{name}``."""

    def __init__(self, inner: WSGIApplication, service: Service) -> None:
        self._inner, self._service = inner, service

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/api/graphql":
            path = "/graphql"
        environ["localhub.is_api"] = path.startswith(API_PREFIX + "/")
        path = path.removeprefix(API_PREFIX)
        moved = self._service.hub.moved(path)
        if moved is not None:
            return self._redirect(environ, start_response, moved)
        by_id = _BY_ID.match(path)
        if by_id:
            repo = self._service.hub.rows.repositories.get(int(by_id[1]))
            path = f"/repos/{repo.full_name if repo else 'nobody/nothing'}{path[by_id.end() :]}"
        environ["PATH_INFO"] = path
        return self._inner(environ, start_response)

    def _redirect(self, environ: WSGIEnvironment, start_response: StartResponse, path: str) -> Iterable[bytes]:
        """A renamed repository: 301 for what is read, 307 for what is written, both by the repository's id."""
        query = f"?{environ['QUERY_STRING']}" if environ.get("QUERY_STRING") else ""
        url = f"{self._service.hub.urls.root}{API_PREFIX}{path}{query}"
        status = "301 Moved Permanently" if environ["REQUEST_METHOD"] == "GET" else "307 Temporary Redirect"
        body = json.dumps({"message": status[4:], "url": url}).encode()
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        headers = [("Location", url), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [body]


def create_app(service: Service) -> Flask:
    """The application of one hub."""
    app = Flask("bot.localhub", static_folder=None, template_folder="templates", root_path=_here())
    app.extensions["localhub"] = service
    app.url_map.merge_slashes = False
    for module in (
        app_routes,
        repos,
        gitdata,
        pulls,
        reviews,
        issues,
        checks,
        graphql,
        user,
        oauth,
        control,
        administration,
        registration,
        web,
        pages,
    ):
        app.register_blueprint(module.routes)
    app.add_url_rule("/_codeload/<key>", view_func=repos.archive, endpoint="codeload")
    for endpoint in NEEDS:
        app.view_functions[endpoint] = _guarded(service, endpoint, app.view_functions[endpoint])
    app.register_error_handler(Refusal, _refused)
    app.register_error_handler(HTTPException, _plain_error)
    app.wsgi_app = Aliases(app.wsgi_app, service)  # type: ignore[method-assign]
    return app


def _here() -> str:
    return str(__import__("pathlib").Path(__file__).parent)


def _refused(refusal: Refusal) -> Response:
    answer = jsonify(refusal.body())
    answer.status_code = refusal.status
    answer.headers.update(refusal.headers)
    return answer


def _plain_error(error: HTTPException) -> Response:
    if error.response is not None:
        return cast(Response, error.response)
    return _refused(Refusal(error.code or 500, error.name))


def _guarded(service: Service, endpoint: str, view: Callable[..., Any]) -> Callable[..., Response]:
    """Faults, authentication, permission, the lock, the recording: the same for every API route."""

    def call(**arguments: Any) -> Response:
        body = request.get_data()
        fault = service.faults.take(request.method, request.path, len(body))
        if fault is not None and fault.kind == "delay":
            time.sleep(fault.seconds)
        if fault is not None and not fault.perform:
            _act(fault)
        if fault is not None and fault.kind == "status" and not fault.perform:
            return _record(service, body, _made_by(fault), is_fault=True)
        answer = _record(service, body, _answer(service, endpoint, view, arguments))
        if fault is not None and fault.kind == "status":
            return _record(service, body, _made_by(fault), is_fault=True)
        if fault is not None and fault.kind == "lose":
            _hang_up()
        if fault is not None and fault.kind == "late":
            time.sleep(fault.seconds)
        if fault is not None and fault.perform:
            _act(fault)
        return answer

    return call


def _act(fault: Fault) -> None:
    if fault.kind == "call" and fault.action is not None:
        fault.action(int(request.environ.get("REMOTE_PORT") or 0))


def _answer(service: Service, endpoint: str, view: Callable[..., Any], arguments: dict[str, Any]) -> Response:
    from flask import current_app

    with service.hub.lock:
        try:
            _check_headers()
            if NEEDS[endpoint] != ANYBODY:
                g.caller = authenticate(service.hub, request.headers.get("Authorization"))
                limits.count(service.hub, g.caller)
                check_allowed(g.caller, endpoint)
            answer = current_app.make_response(view(**arguments))
        except Refusal as refusal:
            answer = _refused(refusal)
        if "caller" in g:
            answer.headers.update(limits.headers(service.hub, g.caller))
    if request.method == "GET" and answer.status_code == 200:
        answer.add_etag()
        answer.make_conditional(request)
    return answer


def _check_headers() -> None:
    if not request.headers.get("User-Agent"):
        text = "Request forbidden by administrative rules. Please make sure your request has a User-Agent header"
        raise Refusal(403, text)
    accept = request.headers.get("Accept", "*/*")
    if not any(_ACCEPTED.search(part) for part in accept.split(",")):
        raise Refusal(415, f"Unsupported 'Accept' header: '{accept}'. Must accept 'application/json'.")
    version = request.headers.get("X-GitHub-Api-Version", "2022-11-28")
    if version not in API_VERSIONS:
        raise Refusal(400, f"Requested API version ({version}) is not supported")


def _made_by(fault: Fault) -> Response:
    answer = jsonify(fault.body)
    answer.status_code = fault.status
    answer.headers.update(fault.headers)
    return answer


def _record(service: Service, body: bytes, answer: Response, *, is_fault: bool = False) -> Response:
    is_json = answer.mimetype == "application/json"
    service.recorder.add(
        Exchange(
            method=request.method,
            path=request.path,
            query=request.query_string.decode("latin-1"),
            request=without_secrets(body),
            status=answer.status_code,
            response=without_secrets(answer.get_data()) if is_json else None,
            is_fault=is_fault,
        )
    )
    return answer


def _hang_up() -> None:
    """Close the connection: the client never learns that its write was done."""
    connection = request.environ.get("werkzeug.socket")
    if isinstance(connection, socket.socket):
        connection.shutdown(socket.SHUT_RDWR)
