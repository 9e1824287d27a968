"""One HTTP call to GitHub: what is retried on the wire, and what never is.

PyGithub's default repeats a POST after 5xx, which is a second comment when only the answer was lost; and its retry
sleeps out any Retry-After inside the worker. So: the connection retries GET alone, limits are raised to the job
(`Unavailable`), and a write whose answer was lost is looked for before it is written again (`look_then_write`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

import requests
from github import Auth, Github
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from bot.errors import PreflightError, Unavailable
from bot.github.errors import BadCredentials, GitHubDown, RateLimited, Refused, TooSlow, error_for, message_of

T = TypeVar("T")
API_VERSION = "2022-11-28"
_ACCEPT = {"Accept": "application/vnd.github+json"}
_TIMEOUT = 20
_DOWNLOAD_TIMEOUT = 60
_WRITE_ATTEMPTS = 3
_TIMED_OUT = ("something went wrong while executing", "timeout on", "we couldn't respond to your request in time")
"""How GraphQL begins, with a status of 200, to speak of a query that took too long."""


class WriteGate(Protocol):
    """What stands before each write and hears of limits: `bot.github.limits.Throttle`."""

    def before_read(self) -> None: ...

    def before_write(self) -> None: ...

    def heard(self, verb: str, status: int, headers: Mapping[str, Any]) -> None: ...

    def pause(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A success, or 304 where an ETag was sent: then without a document. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, Any]
    document: Any


class _NoGate:
    def before_read(self) -> None: ...

    def before_write(self) -> None: ...

    def heard(self, verb: str, status: int, headers: Mapping[str, Any]) -> None: ...

    def pause(self, seconds: float) -> None: ...


def github_client(auth: Auth.Auth, base_url: str, verify: bool | str = True) -> Github:
    """A PyGithub client without its own throttle (ours is across processes) and with retries for GET alone."""
    return Github(
        auth=auth,
        base_url=base_url,
        api_version=API_VERSION,
        per_page=100,
        timeout=_TIMEOUT,
        retry=_retry(),
        verify=verify,
        seconds_between_requests=None,
        seconds_between_writes=None,
        lazy=True,
    )


def _retry(read: int = 3) -> Retry:
    """`read`: how often an answer may be waited for in vain."""
    return Retry(
        total=3,
        read=read,
        backoff_factor=0.3,
        status_forcelist=[500, 502, 503, 504],
        allowed_methods={"GET"},
        raise_on_status=False,
        respect_retry_after_header=False,
    )


class Api:
    """JSON calls with one credential. Counts its requests for the log line of the job."""

    def __init__(
        self,
        auth: Callable[[bool], Auth.Auth],
        base_url: str,
        gate: WriteGate | None = None,
        verify: bool | str = True,
    ) -> None:
        """`auth(fresh)` gives the credential; it is asked for a fresh one once after a 401."""
        self._auth = auth
        self._base_url = base_url
        self._verify = verify
        self._gate: WriteGate = gate or _NoGate()
        self._client: Github | None = None
        self.calls = 0

    def ready(self) -> None:
        """Ask for the credential now. Raises what asking for it raises."""
        self._requester()

    def get(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """The JSON body. Raises `Refused` or `Unavailable`."""
        return self.look_up(path, parameters).document

    def look_up(self, path: str, parameters: Mapping[str, Any] | None = None, etag: str = "") -> Answer:
        """The whole answer. With the `etag` of an earlier one a 304 costs nothing of the rate limit."""
        self._gate.before_read()
        return self._call("GET", path, parameters=parameters, etag=etag)

    def write(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One write, never repeated here."""
        self._gate.before_write()
        return self._call(verb, path, body=body).document

    def pages(self, path: str, parameters: Mapping[str, Any] | None = None, limit: int = 3_000) -> Iterator[Any]:
        """The items of a list, page after page, at most `limit`."""
        seen = 0
        for page in range(1, 1 + -(-limit // 100)):
            items = self.get(path, {**(parameters or {}), "per_page": 100, "page": page})
            yield from items[: limit - seen]
            seen += len(items)
            if len(items) < 100:
                return

    def graphql(self, query: str, variables: Mapping[str, Any], *, is_write: bool = False) -> dict[str, Any]:
        """``data`` of a query or mutation; partial data beside errors is kept (a missing object is null there)."""
        if is_write:
            self._gate.before_write()
        else:
            self._gate.before_read()
        url = self._requester().graphql_url
        answer = self._call("POST", url, body={"query": query, "variables": dict(variables)}).document
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, dict):
            errors = answer.get("errors") if isinstance(answer, dict) else answer
            if "RATE_LIMITED" in json.dumps(errors):
                self._gate.pause(60)
                raise RateLimited("GitHub limits GraphQL for this installation", 60)
            if message_of(json.dumps(answer)).lstrip(": ").lower().startswith(_TIMED_OUT):
                raise TooSlow("GitHub did not get done with a query")
            raise Refused(200, f"GraphQL: {json.dumps(errors)[:300]}")
        return data

    def download(self, path: str, most: int) -> bytes:
        """At most `most` bytes behind a redirect (a tarball). The credential does not follow it to another host."""
        self._gate.before_read()
        try:
            return self._downloaded(self._auth(False), path, most)
        except BadCredentials:
            return self._downloaded(self._auth(True), path, most)

    def _downloaded(self, token: Auth.Auth, path: str, most: int) -> bytes:
        url = self._base_url + path
        headers = {"Authorization": f"{token.token_type} {token.token}", "X-GitHub-Api-Version": API_VERSION}
        self.calls += 1
        with requests.Session() as session:
            session.trust_env = False  # a .netrc would replace our credential
            session.proxies = requests.utils.get_environ_proxies(url)
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=_retry(read=1)))
            try:
                answer = session.get(url, headers=headers, timeout=_DOWNLOAD_TIMEOUT, verify=self._verify, stream=True)
            except requests.RequestException as error:
                raise self._unheard("GET", error) from None
            first = (answer.history or [answer])[0]  # the API's; where it leads to counts for no budget
            self._gate.heard("GET", first.status_code, _in_lower_case(first.headers))
            try:
                return self._received(answer, most)
            except requests.RequestException as error:
                raise GitHubDown(f"GitHub's answer broke off ({type(error).__name__})") from None

    def _received(self, answer: requests.Response, most: int) -> bytes:
        if answer.status_code != 200:
            raise self._refusal(answer.status_code, _in_lower_case(answer.headers), answer.text)
        content = bytearray()  # bytes would be copied with each part of a tarball
        for chunk in answer.iter_content(1 << 20):
            content += chunk
            if len(content) > most:
                raise Refused(200, f"more than {most} bytes")
        return bytes(content)

    def _refusal(self, status: int, headers: Mapping[str, Any], text: str) -> PreflightError:
        """The exception of an answer; a limit that it tells of holds for every worker."""
        error = error_for(status, headers, text)
        if isinstance(error, RateLimited) and error.retry_after is not None:
            self._gate.pause(error.retry_after)
        return error

    def _call(
        self,
        verb: str,
        path: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        etag: str = "",
    ) -> Answer:
        try:
            return self._once(verb, path, parameters, body, etag)
        except BadCredentials:
            self._client = github_client(self._auth(True), self._base_url, self._verify)
            return self._once(verb, path, parameters, body, etag)  # a 401 did nothing: the write was not made

    def _once(
        self, verb: str, path: str, parameters: Mapping[str, Any] | None, body: Mapping[str, Any] | None, etag: str
    ) -> Answer:
        status, headers, text = self._send(verb, path, parameters, body, etag)
        if status in (307, 308) and "location" in headers:
            # A renamed repository: PyGithub hands the redirect of a POST back as if it were the answer.
            target = urljoin(self._base_url + "/", str(headers["location"]))
            if urlsplit(target).netloc != urlsplit(self._base_url).netloc:
                raise Refused(status, "redirected to another host")
            status, headers, text = self._send(verb, target, parameters, body, etag)
        if status == 304 and etag:
            return Answer(status, headers, None)
        if not 200 <= status < 300:
            raise self._refusal(status, headers, text)
        try:
            return Answer(status, headers, json.loads(text) if text else None)
        except ValueError:
            raise GitHubDown("GitHub's answer is not JSON") from None

    def _send(
        self, verb: str, path: str, parameters: Mapping[str, Any] | None, body: Mapping[str, Any] | None, etag: str
    ) -> tuple[int, dict[str, Any], str]:
        self.calls += 1
        try:
            status, answer_headers, text = self._requester().requestJson(
                verb,
                path,
                parameters=dict(parameters) if parameters else None,
                headers={**_ACCEPT, **({"If-None-Match": etag} if etag else {})},
                input=dict(body) if body is not None else None,
            )
        except requests.RequestException as error:
            raise self._unheard(verb, error) from None
        self._gate.heard(verb, int(status), answer_headers)
        return int(status), dict(answer_headers), str(text)

    def _unheard(self, verb: str, error: requests.RequestException) -> GitHubDown:
        self._gate.heard(verb, 0, {})
        kind = TooSlow if isinstance(error, requests.ReadTimeout) else GitHubDown
        return kind(f"no answer from GitHub ({type(error).__name__})")

    def _requester(self) -> Any:
        if self._client is None:
            self._client = github_client(self._auth(False), self._base_url, self._verify)
        return self._client.requester


def _in_lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def look_then_write(
    write: Callable[[], T], look: Callable[[], T | None], sleep: Callable[[float], None] = time.sleep
) -> T:
    """Write; after a lost answer look whether it was done, and only then write again."""
    for attempt in range(_WRITE_ATTEMPTS):
        try:
            return write()
        except GitHubDown:
            sleep(1.0 + attempt)
            found = look()
            if found is not None:
                return found
            if attempt == _WRITE_ATTEMPTS - 1:
                raise
    raise Unavailable("GitHub does not take the write")
