"""The app as GitHub knows it: key, clock, permissions, events, installations, webhook and its deliveries."""

from __future__ import annotations

import hashlib
import hmac
import time
import uuid
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import requests

from bot.doctor.line import Line, Lines, fail, ok, skip, warn
from bot.errors import PreflightError
from bot.github.auth import AppSigner
from bot.github.errors import BadCredentials, NotFound
from bot.github.retry import Api
from bot.manifest import Manifest
from bot.settings import Secret, WorkerSettings

_LEVELS = {"": 0, "read": 1, "write": 2, "admin": 3}
_OPTIONAL = frozenset({"contents", "merge_queues"})
"""What is used where it is granted: `contents: write` commits fixes and resolves threads; some servers have queues."""
_MAX_SKEW = 30.0
_DEADLY_SKEW = 60.0
_PING = b'{"zen": "preflight doctor", "hook_id": 0}'
_SHOWN = 5


def look(settings: WorkerSettings, manifest: Manifest, secret: Secret | None) -> Lines:
    """Everything that GitHub can be asked; one line where it does not answer."""
    api = Api(AppSigner(settings).auth, settings.api_url, verify=settings.verify)
    try:
        answer = api.look_up("/app")
    except BadCredentials:
        yield fail(
            "app",
            f"GitHub does not take the private key for app {settings.app_id}",
            "compare PREFLIGHT_APP_ID and the key with the app's settings, and this machine's clock with the time",
        )
        return
    except PreflightError as error:
        yield fail("app", str(error), "is GITHUB_API_URL right, and GitHub reachable from here?")
        return
    app = answer.document
    yield ok("app", f"{app['slug']} (id {app['id']}) at {settings.api_url}")
    yield from _clock(answer.headers)
    yield from _granted("app permissions", app.get("permissions") or {}, manifest, "the app's settings, Permissions")
    yield from _events(app.get("events") or (), manifest)
    yield from _asked("installations", lambda: _installations(api, manifest))
    yield from _asked("webhook", lambda: _hook(api, secret))
    yield from _asked("deliveries", lambda: _deliveries(api))


def _asked(name: str, lines: Any) -> Lines:
    """One part of it; what GitHub refuses is said and the rest goes on."""
    try:
        yield from lines()
    except PreflightError as error:
        yield skip(name, str(error))


def _clock(headers: Mapping[str, Any]) -> Lines:
    try:
        there = parsedate_to_datetime(str(headers["date"])).timestamp()
    except (KeyError, ValueError):
        yield skip("clock", "GitHub's answer has no date")
        return
    skew = time.time() - there
    repair = "run an NTP client (chrony, systemd-timesyncd): GitHub refuses tokens from the past and the future"
    if abs(skew) > _DEADLY_SKEW:
        yield fail("clock", f"{skew:+.0f} s from GitHub's", repair)
    elif abs(skew) > _MAX_SKEW:
        yield warn("clock", f"{skew:+.0f} s from GitHub's", repair)
    else:
        yield ok("clock", f"{skew:+.0f} s from GitHub's")


def _granted(name: str, granted: Mapping[str, str], manifest: Manifest, where: str) -> Lines:
    missing = [
        f"{key}: {level}"
        for key, level in sorted(manifest.permissions.items())
        if _LEVELS.get(granted.get(key, ""), 0) < _LEVELS[level]
    ]
    more = [
        f"{key}: {level}"
        for key, level in sorted(granted.items())
        if _LEVELS.get(level, 0) > _LEVELS[manifest.permissions.get(key, "")] and key not in _OPTIONAL
    ]
    if missing:
        yield fail(name, f"missing {', '.join(missing)}", f"grant them in {where}")
    if more:
        yield warn(name, f"more than needed: {', '.join(more)}", f"take them away in {where}")
    if not missing and not more:
        yield ok(name, "those of app.yml")


def _events(subscribed: Any, manifest: Manifest) -> Lines:
    missing = sorted(set(manifest.events) - set(subscribed))
    if missing:
        yield fail("app events", f"not subscribed to {', '.join(missing)}", "tick them in the app's settings, Events")
    else:
        yield ok("app events", "those of app.yml")


def _installations(api: Api, manifest: Manifest) -> Lines:
    found = list(api.pages("/app/installations"))
    if not found:
        yield warn("installations", "none", "install the app on a repository: its public page has the button")
        return
    good = 0
    for one in found:
        owner = str((one.get("account") or {}).get("login") or one["id"])
        name = f"installation {owner}"
        if one.get("suspended_at"):
            yield warn(name, "suspended: nothing is reviewed there", "its owner can unsuspend it")
            continue
        where = f"{one.get('html_url', owner)} (its owner)"
        lines = list(_granted(name, one.get("permissions") or {}, manifest, where))
        bad = [line for line in lines if line.status == "fail"]
        good += not bad
        yield from bad
    yield ok("installations", f"{good} of {len(found)} with everything app.yml asks for")


def _hook(api: Api, secret: Secret | None) -> Iterator[Line]:
    config = api.get("/app/hook/config")
    url = str(config.get("url") or "")
    if not url:
        yield fail("webhook", "the app has no webhook address", "set it in the app's settings: https://…/webhook")
        return
    if config.get("content_type") != "json":
        yield fail("webhook", "its content type is not JSON", "set it to application/json in the app's settings")
    if str(config.get("insecure_ssl", "0")) != "0":
        yield warn("webhook", "GitHub does not verify the certificate", "enable SSL verification in the app's settings")
    if secret is None:
        yield skip("webhook", f"{url} not tried: no webhook secret here")
        return
    yield _tried(url, secret)


def _tried(url: str, secret: Secret) -> Line:
    """A ping of our own, signed as GitHub signs."""
    signature = "sha256=" + hmac.new(secret.reveal().encode(), _PING, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "ping",
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": signature,
        "User-Agent": "preflight-doctor",
    }
    started = time.monotonic()
    try:
        answer = requests.post(url, data=_PING, headers=headers, timeout=10, allow_redirects=False)
    except requests.RequestException as error:
        text = f"{url} does not answer from here ({type(error).__name__})"
        return fail("webhook", text, "does `preflight serve` run, and the proxy before it? Is this machine inside?")
    took = time.monotonic() - started
    if answer.status_code == 401:
        return fail("webhook", f"{url} refuses our signature", "the receiver has another secret: correct it")
    if answer.status_code != 200:
        return fail("webhook", f"{url} answered {answer.status_code} to a ping", "does the proxy pass POST /webhook?")
    return ok("webhook", f"{url} answers a signed ping in {took * 1000:.0f} ms")


def _deliveries(api: Api) -> Lines:
    try:
        newest = list(api.get("/app/hook/deliveries", {"per_page": 100}))
    except NotFound:
        yield skip("deliveries", "GitHub lists none")
        return
    done = {one["guid"] for one in newest if 200 <= int(one["status_code"]) < 400}
    failed = [one for one in newest if one["guid"] not in done and int(one["status_code"]) >= 400]
    # A ping is what was sent at registration, before anybody listened; nobody asks for it again.
    by_guid = {one["guid"]: one for one in reversed(failed) if one["event"] != "ping"}
    is_early = not by_guid and failed
    if not newest:
        yield warn("deliveries", "GitHub has sent nothing lately", "redeliver the ping in the app's settings, Advanced")
    elif by_guid:
        shown = ", ".join(f"{one['event']} {one['status_code']}" for one in list(by_guid.values())[:_SHOWN])
        text = f"{len(by_guid)} of the last {len(newest)} failed: {shown}"
        repair = "401: the secret at GitHub is another one; 5xx: see the receiver. Workers ask for them again"
        line = fail if newest[0]["guid"] in by_guid else warn  # the newest one first
        yield line("deliveries", text, repair)
    elif is_early and not done:
        text = "only GitHub's first ping, which came before anybody listened"
        yield warn("deliveries", text, "open a pull request, and look again")
    else:
        yield ok("deliveries", f"the last {len(newest)} arrived{', but for the first ping' if is_early else ''}")
