"""What every page has at hand, and the pages that say why there is nothing else to see."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

from flask import Response, make_response

from bot.pages.links import Opened, ReportRef, Signer
from bot.pages.settings import PageSettings
from bot.pages.shelf import Shelf
from bot.render.pages import render
from bot.store import Client, Keys
from bot.web.secrets import WebhookSecrets

_WAIT = 4.0


class Busy(Exception):
    """Too many people ask for the same slow thing at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """`slots` bounds what is slow at the same time, `seats` those and who waits for them: the other threads of the
    process stay free for webhooks."""

    settings: PageSettings
    client: Client
    keys: Keys
    shelf: Shelf
    secrets: WebhookSecrets
    slots: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(2))
    seats: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(3))

    def open(self, token: str) -> Opened | None:
        """The link behind a token of ours. A secret that was replaced a moment ago is looked for."""
        if not self.settings.has_links:
            return None
        found = self._signer().open(token)
        if found is None and (new := self.secrets.after_a_miss()):
            found = Signer(new, self.settings.link_days).open(token)
        return found

    def fresh(self, ref: ReportRef) -> str:
        """A new link's path."""
        return f"/r/{self._signer().sign(ref, time.time())}"

    def _signer(self) -> Signer:
        return Signer(self.secrets.current(), self.settings.link_days)

    @contextmanager
    def slow(self) -> Iterator[None]:
        """Take a turn. Raises `Busy`."""
        if not self.seats.acquire(blocking=False):
            raise Busy
        try:
            if not self.slots.acquire(timeout=_WAIT):
                raise Busy
            try:
                yield
            finally:
                self.slots.release()
        finally:
            self.seats.release()


def make_context(settings: PageSettings, client: Client, keys: Keys, secrets: WebhookSecrets) -> Context:
    """One for the process."""
    shelf = Shelf(client, keys, settings.report_days)
    return Context(settings=settings, client=client, keys=keys, shelf=shelf, secrets=secrets)


def message(
    status: int, title: str, *lines: str, login: str = "", refresh: int = 0, user: str | None = None
) -> Response:
    """A page that says what is the matter and what to do. `login` is where to go on after logging in."""
    page = render(
        "message.html",
        title=title,
        lines=lines,
        login_url=f"/login?next={quote(login, safe='')}" if login else "",
        refresh=refresh,
        user=user,
    )
    answer = make_response(page, status)
    if status == 503:
        answer.headers["Retry-After"] = "10"
    return answer


def not_found() -> Response:
    """The same for what is not there and for what is none of one's business."""
    return message(404, "There is no such page", "Or it is not for you: both look the same from here.")


def busy() -> Response:
    """Come back in a moment."""
    return message(503, "Too many people are asking at once", "Please try again in a few seconds.")


def no_redis() -> Response:
    """The store does not answer."""
    return message(503, "Preflight cannot reach its store", "This is temporary. Please try again in a few seconds.")
