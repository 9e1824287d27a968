"""Deliveries: payload, signature, one attempt, and the record of it. GitHub never tries again by itself."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Literal

import requests

from bot.localhub.clock import now
from bot.localhub.model import App, CheckRun, CheckSuite, Delivery, Installation, Json, Pull, Repository
from bot.localhub.payloads import checks, people, pulls, repos
from bot.localhub.state import Hub

TIMEOUT_SECONDS = 10
LATE_SECONDS = 2.0
Fate = Literal["lose", "fail", "late", "twice"]
"""What may become of a delivery: no trace of it at all, no attempt, after others that came later, or two attempts."""


class Dispatcher:
    """Sends deliveries one after the other in a thread of its own, so that nobody holds the lock while waiting."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.mischief: Callable[[Delivery], Fate | None] | None = None
        self._queue: queue.Queue[tuple[Delivery, threading.Event] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="localhub-webhooks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after what is queued."""
        self._queue.put(None)
        self._thread.join(timeout=TIMEOUT_SECONDS + 1)

    def send(self, delivery: Delivery) -> threading.Event:
        """Queue one delivery; the event is set when it was attempted."""
        done = threading.Event()
        fate = self.mischief(delivery) if self.mischief is not None and not delivery.is_redelivery else None
        if fate == "lose":
            done.set()
            return done
        self.hub.rows.deliveries[delivery.id] = delivery
        if fate == "fail":
            delivery.status, delivery.status_code = "failed to connect to host", 502
            done.set()
        elif fate == "late":
            threading.Timer(LATE_SECONDS, self._queue.put, [(delivery, done)]).start()
        else:
            self._queue.put((delivery, done))
        if fate == "twice":
            self._queue.put((delivery, threading.Event()))
        return done

    def announce(self, event: str, repo: Repository, payload: Json, app: App | None = None) -> list[Delivery]:
        """Deliver an event of a repository to the apps installed on it (checks events: to their own `app` alone)."""
        sent = []
        for installation in self.hub.installations_of(repo):
            if app is not None and installation.app is not app:
                continue
            if event in installation.app.events and installation.suspended_at is None:
                body = payload | {"installation": {"id": installation.id, "node_id": f"IN_{installation.id}"}}
                sent.append(self._new(event, installation, repo, body))
        for delivery in sent:
            self.send(delivery)
        return sent

    def tell(self, event: str, installation: Installation, payload: Json, repo: Repository | None = None) -> Delivery:
        """An event that its app gets whatever it subscribed to, also for a suspended installation."""
        delivery = self._delivery(installation.app, event, payload, installation.id, repo.id if repo else None)
        self.send(delivery)
        return delivery

    def ping(self, app: App) -> Delivery:
        """What GitHub sends when a hook is registered."""
        delivery = self._delivery(app, "ping", {"zen": "Keep it logically awesome.", "hook_id": app.id}, None, None)
        self.send(delivery)
        return delivery

    def redeliver(self, old: Delivery) -> Delivery:
        """The same payload under the same guid, as a new attempt."""
        again = self._delivery(old.app, old.event, old.payload, old.installation_id, old.repository_id)
        again.guid, again.is_redelivery = old.guid, True
        self.send(again)
        return again

    def wait_idle(self, timeout_seconds: float = 30.0) -> None:
        """Until everything queued so far was attempted, or the time is over."""
        marker = threading.Thread(target=self._queue.join, daemon=True)
        marker.start()
        marker.join(timeout_seconds)

    def _new(self, event: str, installation: Installation, repo: Repository, payload: Json) -> Delivery:
        return self._delivery(installation.app, event, payload, installation.id, repo.id)

    def _delivery(
        self, app: App, event: str, payload: Json, installation_id: int | None, repository_id: int | None
    ) -> Delivery:
        return Delivery(
            id=self.hub.new_id(),
            guid=str(uuid.uuid4()),
            app=app,
            event=event,
            action=payload.get("action"),
            installation_id=installation_id,
            repository_id=repository_id,
            payload=payload,
            delivered_at=now(),
        )

    def _run(self) -> None:
        with requests.Session() as session:
            session.trust_env = False  # a proxy of the machine is not between GitHub and the app
            while (item := self._queue.get()) is not None:
                delivery, done = item
                attempt(session, delivery)
                done.set()
                self._queue.task_done()
            self._queue.task_done()


def signature(secret: str, body: bytes) -> str:
    """The value of ``X-Hub-Signature-256``."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def attempt(session: requests.Session, delivery: Delivery) -> None:
    """POST one delivery and note what came back."""
    body = json.dumps(delivery.payload, ensure_ascii=False).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/local",
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Delivery": delivery.guid,
        "X-GitHub-Hook-ID": str(delivery.app.id),
        "X-GitHub-Hook-Installation-Target-ID": str(delivery.app.id),
        "X-GitHub-Hook-Installation-Target-Type": "integration",
        "X-Hub-Signature-256": signature(delivery.app.webhook_secret, body),
    }
    delivery.request_headers = headers
    started = time.monotonic()
    try:
        answer = session.post(
            delivery.app.webhook_url, data=body, headers=headers, timeout=TIMEOUT_SECONDS, allow_redirects=False
        )
    except requests.RequestException as error:
        delivery.status = "timed out" if isinstance(error, requests.Timeout) else "failed to connect to host"
        delivery.status_code = 504 if isinstance(error, requests.Timeout) else 502
    else:
        delivery.status_code = answer.status_code
        delivery.status = "OK" if answer.ok else f"Invalid HTTP Response: {answer.status_code}"
        delivery.response_headers = dict(answer.headers)
        delivery.response_body = answer.text[:4096]
    delivery.duration = round(time.monotonic() - started, 3)


# --- payloads --------------------------------------------------------------------------------------------------


def pull_event(hub: Hub, pull: Pull, action: str, sender: Any, **more: Any) -> Json:
    """``pull_request`` with an action."""
    return {
        "action": action,
        "number": pull.number,
        "pull_request": pulls.full(hub, pull),
        "repository": repos.repository(hub.urls, pull.repo),
        "sender": people.account(hub.urls, sender),
        **more,
    }


def check_run_event(hub: Hub, run: CheckRun, action: str, sender: Any, **more: Any) -> Json:
    """``check_run`` with an action."""
    return {
        "action": action,
        "check_run": checks.run_in_webhook(hub, run),
        "repository": repos.repository(hub.urls, run.suite.repo),
        "sender": people.account(hub.urls, sender),
        **more,
    }


def check_suite_event(hub: Hub, suite: CheckSuite, action: str, sender: Any) -> Json:
    """``check_suite`` with an action."""
    body = checks.suite(hub, suite)
    del body["repository"]
    # GitHub's description of this one payload has a list of events that `merge_group` is not in.
    body["app"]["events"] = [name for name in body["app"]["events"] if name != "merge_group"]
    return {
        "action": action,
        "check_suite": body,
        "repository": repos.repository(hub.urls, suite.repo),
        "sender": people.account(hub.urls, sender),
    }


def installation_event(hub: Hub, found: Installation, action: str, sender: Any) -> Json:
    """``installation`` with an action."""
    return {
        "action": action,
        "installation": people.installation(hub.urls, found),
        "repositories": [],
        "requester": None,
        "sender": people.account(hub.urls, sender),
    }


def merge_group_event(hub: Hub, repo: Repository, group: Json, sender: Any) -> Json:
    """``merge_group`` with ``checks_requested``."""
    return {
        "action": "checks_requested",
        "merge_group": group,
        "repository": repos.repository(hub.urls, repo),
        "sender": people.account(hub.urls, sender),
    }


def delivery_item(found: Delivery) -> Json:
    """A ``hook-delivery-item``."""
    return {
        "id": found.id,
        "guid": found.guid,
        "delivered_at": found.delivered_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "redelivery": found.is_redelivery,
        "duration": found.duration,
        "status": found.status,
        "status_code": found.status_code,
        "event": found.event,
        "action": found.action,
        "installation_id": found.installation_id,
        "repository_id": found.repository_id,
        "throttled_at": None,
    }


def delivery_full(found: Delivery) -> Json:
    """A ``hook-delivery``."""
    return delivery_item(found) | {
        "url": found.app.webhook_url,
        "request": {"headers": found.request_headers, "payload": found.payload},
        "response": {"headers": found.response_headers, "payload": found.response_body},
    }
