"""GitHub's manifest flow on loopback: a page with a form to GitHub, GitHub's way back with a code, one exchange.

Nothing but the browser of this machine is answered (the Host header must be ours: a page elsewhere could have its name
point to this address), and the code is taken once, with the state that only our form sent.
"""

from __future__ import annotations

import hmac
import html
import json
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import requests

from bot.errors import InputError, PreflightError, Unavailable

_CODE = re.compile(r"[A-Za-z0-9_.\-]{1,200}")
_WANTED = ("id", "slug", "pem", "webhook_secret", "html_url")
_TIMEOUT = 30
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem;color-scheme:light dark}"
    "code{overflow-wrap:anywhere}button{font:inherit;padding:.5rem 1rem}"
)


@dataclass(frozen=True, slots=True)
class GitHub:
    """Where the app is registered: a GitHub, and the organisation that will own it (empty: the person)."""

    web_url: str
    api_url: str
    organisation: str = ""
    verify: bool | str = True

    @property
    def form_url(self) -> str:
        """The page that takes a manifest."""
        owner = f"/organizations/{quote(self.organisation, safe='')}" if self.organisation else ""
        return f"{self.web_url}{owner}/settings/apps/new"


def github_at(url: str, organisation: str = "", verify: bool | str = True) -> GitHub:
    """github.com, or GitHub Enterprise Server at `url`. Raises `InputError`."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
        raise InputError(f"--github: give the address of the GitHub, such as https://github.example.com: {url!r}")
    web = f"{parts.scheme}://{parts.netloc}"
    api = "https://api.github.com" if parts.hostname == "github.com" else f"{web}/api/v3"
    return GitHub(web, api, organisation, verify)


def convert(github: GitHub, code: str) -> dict[str, Any]:
    """Exchange the code for the app and its secrets: works once, within an hour. Raises `PreflightError`."""
    url = f"{github.api_url}/app-manifests/{quote(code, safe='')}/conversions"
    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28", "User-Agent": "preflight"}
    try:
        answer = requests.post(url, headers=headers, timeout=_TIMEOUT, verify=github.verify, allow_redirects=False)
    except requests.RequestException as error:
        raise Unavailable(f"no answer from {github.api_url} ({type(error).__name__})") from None
    if answer.status_code != 201:
        raise InputError(
            f"GitHub refused the code ({answer.status_code}): it holds once and for an hour; register again"
        )
    try:
        document = answer.json()
    except ValueError:
        document = {}
    if not isinstance(document, dict) or not all(document.get(key) for key in _WANTED):
        raise InputError("GitHub's answer lacks a part of the app (was the webhook made inactive?)")
    return document


class Flow:
    """One registration. `manifest(redirect_url)` is the document for the form; `keep` writes the answer away."""

    def __init__(
        self,
        github: GitHub,
        manifest: Callable[[str], Mapping[str, Any]],
        keep: Callable[[Mapping[str, Any]], object],
        port: int = 0,
    ) -> None:
        self._github = github
        self._keep = keep
        self._state = secrets.token_urlsafe(32)
        self._lock = threading.Lock()
        self._taken = False
        self._done = threading.Event()
        self.app: Mapping[str, Any] | None = None
        self.error: PreflightError | None = None
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        except OSError as error:
            raise InputError(f"--port {port}: {error.strerror}") from None
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._manifest = manifest(f"{self.url}/callback")

    def run(self, seconds: float) -> Mapping[str, Any]:
        """Serve until the app is registered. Raises `InputError` after `seconds`, `PreflightError` where it failed."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            if not self._done.wait(seconds):
                raise InputError(f"nobody came back from GitHub within {seconds:.0f} s; nothing was written")
        finally:
            self._server.shutdown()
            self._server.server_close()
        if self.error is not None:
            raise self.error
        assert self.app is not None
        return self.app

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this server."""
        return host in {f"127.0.0.1:{self._server.server_port}", f"localhost:{self._server.server_port}"}

    def form(self) -> str:
        """The page that sends the manifest to GitHub; it works without JavaScript."""
        target = f"{self._github.form_url}?{urlencode({'state': self._state})}"
        lines = [
            f"<p>GitHub will show what the app <strong>{html.escape(str(self._manifest['name']))}</strong> may do, ",
            "and register it when you agree.</p>",
            f"<p>Webhooks go to <code>{html.escape(self._manifest['hook_attributes']['url'])}</code>.</p>",
            f'<form method="post" action="{html.escape(target)}">',
            f'<input type="hidden" name="manifest" value="{html.escape(json.dumps(self._manifest))}">',
            f"<button>Continue to {html.escape(urlsplit(self._github.web_url).netloc)}</button></form>",
        ]
        return _page("Register Preflight", "".join(lines))

    def take(self, query: Mapping[str, list[str]]) -> tuple[int, str]:
        """GitHub's way back: status and page. What is wrong with it changes nothing and the wait goes on."""
        state, code = query.get("state", [""])[0], query.get("code", [""])[0]
        if not hmac.compare_digest(state.encode(), self._state.encode()):
            return 400, _page(
                "Not this registration", "<p>The state is not the one of this form. Start at the form.</p>"
            )
        if not _CODE.fullmatch(code):
            return 400, _page("No code", "<p>GitHub sent no code. Start again at the form.</p>")
        with self._lock:
            if self._taken:
                return 410, _page("Already done", "<p>This registration has been finished.</p>")
            self._taken = True
        return self._finish(code)

    def _finish(self, code: str) -> tuple[int, str]:
        try:
            app = convert(self._github, code)
            self._keep(app)
        except Unavailable as error:  # nothing was done with the code
            self._taken = False
            return 503, _page("No answer", f"<p>{html.escape(str(error))}. Load this page again.</p>")
        except PreflightError as error:
            self.error = error
            return 502, _page("Not registered", f"<p>{html.escape(str(error))}</p>")
        except OSError as error:
            self.error = InputError(f"the secrets could not be written ({error.strerror}); make new ones at GitHub")
            return 500, _page("Not written", f"<p>{html.escape(str(self.error))}</p>")
        self.app = app
        install = html.escape(f"{app['html_url']}/installations/new")
        text = f'<p>The secrets are written. Next: <a href="{install}">install the app</a> on your repositories.</p>'
        return 200, _page("Registered", text)

    def end_if_over(self) -> None:
        """End `run` once the last page is out."""
        if self.app is not None or self.error is not None:
            self._done.set()


def _page(title: str, body: str) -> str:
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    head += '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
    return f"{head}<style>{_STYLE}</style><main><h1>{title}</h1>{body}</main></html>"


def _handler(flow: Flow) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        server_version, sys_version = "preflight", ""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if not flow.is_ours(self.headers.get("Host", "")):
                self._answer(403, _page("Not here", ""))
            elif parts.path == "/":
                self._answer(200, flow.form())
            elif parts.path == "/callback":
                self._answer(*flow.take(parse_qs(parts.query)))
                flow.end_if_over()
            else:
                self._answer(404, _page("Nothing here", ""))

        def _answer(self, status: int, page: str) -> None:
            content = page.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Content-Security-Policy", _POLICY)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:  # the code and the state are in the address
            return

    return Handler
