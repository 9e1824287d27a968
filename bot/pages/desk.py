"""The worker's side: the address of a report, and putting it down. A page that cannot be kept stops no review."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol

import redis

from bot.core.tally import hidden_by, traits_of
from bot.pages.links import ReportRef, Signer
from bot.pages.settings import PageSettings
from bot.pages.shelf import Shelf
from bot.pages.statistics import Statistics
from bot.store import Client, Keys

_log = logging.getLogger("preflight.pages")


class _Reviewed(Protocol):
    """A review's record, as much as a report needs of it."""

    @property
    def repo_id(self) -> int: ...

    @property
    def number(self) -> int: ...

    @property
    def head_sha(self) -> str: ...


class Desk:
    """Does nothing where the pages are not set up."""

    def __init__(self, settings: PageSettings, client: Client, keys: Keys) -> None:
        self._settings = settings
        self._shelf = Shelf(client, keys, settings.report_days)
        self.statistics = Statistics(client, keys)
        self._signer = Signer(settings.link_secrets, settings.link_days) if settings.has_links else None

    def address(self, ref: ReportRef) -> str:
        """The signed address of a report; empty where there are no pages."""
        if self._signer is None or ref.number <= 0:
            return ""
        return f"{self._settings.public_url}/r/{self._signer.sign(ref, time.time())}"

    def put(self, review: _Reviewed, document: Mapping[str, Any] | None) -> None:
        """Keep the document of a review for the people who follow its link, and what will be counted of it."""
        if document is None:
            return
        ref = ReportRef(repo_id=review.repo_id, number=review.number, head_sha=review.head_sha)
        try:
            self.statistics.note(ref.repo_id, ref.number, traits_of(document), hidden_by(document))
            if self._signer is not None and not self._shelf.put(ref, document, time.time()):
                _log.warning("report of %s#%s is too large and was not kept", review.repo_id, review.number)
        except redis.RedisError as error:  # full, or away: the checks and comments are what matters
            _log.warning("report of %s#%s was not kept: %s", review.repo_id, review.number, type(error).__name__)
