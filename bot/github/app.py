"""What the app asks as itself, with its JWT: its failed deliveries, its installations, what each of them reaches."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bot.core.plan import CHECK_NAMES
from bot.errors import InputError, Unavailable
from bot.github.auth import AppCredentials
from bot.github.checks import CheckRun, check_run
from bot.github.errors import Refused
from bot.github.limits import Throttle
from bot.github.retry import Api
from bot.settings import WorkerSettings
from bot.store import Client, Keys

_log = logging.getLogger("preflight.github")
_MAX_PAGES = 100
_MAX_PULL_PAGES = 5
_NEXT = re.compile(r'<([^>]*)>;\s*rel="next"')


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDelivery:
    """One attempt that GitHub counts as failed. A redelivery has the same `guid` and another `id`."""

    id: int
    guid: str
    event: str
    action: str
    delivered_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A repository that an installation reaches, and when the app was installed (epoch seconds)."""

    installation_id: int
    repo_id: int
    full_name: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHead:
    """An open pull request. `updated_at` in epoch seconds: the last push, comment or label."""

    number: int
    sha: str
    updated_at: float


class AppApi:
    """The app's own endpoints."""

    def __init__(self, settings: WorkerSettings, client: Client, keys: Keys) -> None:
        self._settings, self._client, self._keys = settings, client, keys
        self._credentials = AppCredentials(settings, client, keys)
        self._api = self._credentials.api

    def failed_deliveries(self, cursor: str = "") -> tuple[list[FailedDelivery], str]:
        """One page, newest first, from `cursor` on, and the cursor of the next ("" at the end)."""
        parameters = {"status": "failure", "per_page": 100} | ({"cursor": cursor} if cursor else {})
        answer = self._api.look_up("/app/hook/deliveries", parameters)
        return [_failed(entry) for entry in answer.document], _next_cursor(answer.headers)

    def deliver_again(self, delivery_id: int) -> None:
        """Ask GitHub for one more attempt; it comes under the same guid."""
        self._api.write("POST", f"/app/hook/deliveries/{delivery_id}/attempts")

    def places(self) -> Iterator[tuple[int, list[Place] | None]]:
        """The repositories of each installation that is not suspended; None where they cannot be listed now.

        One installation (GitHub asked it to wait, say) must not hide the others.
        """
        for entry in self._api.pages("/app/installations", limit=10_000):
            if entry.get("suspended_at") is None:
                number = int(entry["id"])
                try:
                    yield number, list(self.watch(number).places(_seconds(entry["created_at"])))
                except (Refused, InputError, Unavailable) as error:
                    _log.info("installation=%d its repositories are not listed: %s", number, error)
                    yield number, None

    def watch(self, installation_id: int) -> Watch:
        """What the sweeper reads of one installation."""
        gate = Throttle(self._client, self._keys, installation_id, self._settings.pace)
        api = Api(
            lambda fresh: self._credentials.reader(installation_id, fresh=fresh),
            self._settings.api_url,
            gate,
            self._settings.verify,
        )
        return Watch(api, installation_id, self._settings.app_id)


class Watch:
    """Reads of all repositories of one installation, with one token. `calls` counts them."""

    def __init__(self, api: Api, installation_id: int, app_id: str) -> None:
        self._api = api
        self._installation_id = installation_id
        self._ours = {"app_id": app_id} if app_id.isdecimal() else {}

    @property
    def calls(self) -> int:
        return self._api.calls

    def places(self, since: float) -> Iterator[Place]:
        """Every repository but archived and disabled ones: nothing moves there."""
        for page in range(1, _MAX_PAGES + 1):
            answer = self._api.get("/installation/repositories", {"per_page": 100, "page": page})
            for entry in answer["repositories"]:
                if not entry.get("archived") and not entry.get("disabled"):
                    yield Place(
                        installation_id=self._installation_id,
                        repo_id=int(entry["id"]),
                        full_name=str(entry["full_name"]),
                        since=since,
                    )
            if len(answer["repositories"]) < 100:
                return

    def open_heads(self, place: Place, etag: str = "") -> tuple[list[OpenHead] | None, str]:
        """The open pull requests, the last changed first, and the ETag of the first page.

        None where nothing changed since the answer that had `etag`.
        """
        path = f"/repos/{place.full_name}/pulls"
        order = {"state": "open", "sort": "updated", "direction": "desc", "per_page": 100}
        answer = self._api.look_up(path, order, etag)
        if answer.status == 304:
            return None, etag
        found = list(answer.document)
        for page in range(2, _MAX_PULL_PAGES + 1):
            if len(found) < 100 * (page - 1):
                break
            found += self._api.get(path, {**order, "page": page})
        return [_open_head(entry) for entry in found], str(answer.headers.get("etag", ""))

    def runs(self, place: Place, sha: str) -> dict[str, CheckRun]:
        """The newest of our check runs on a commit, by name."""
        parameters = {"filter": "latest", "per_page": 100, **self._ours}
        answer = self._api.get(f"/repos/{place.full_name}/commits/{sha}/check-runs", parameters)
        found = (check_run(entry) for entry in reversed(answer["check_runs"]))
        return {run.name: run for run in found if run.name in CHECK_NAMES}


def _failed(entry: Mapping[str, Any]) -> FailedDelivery:
    return FailedDelivery(
        id=int(entry["id"]),
        guid=str(entry["guid"]),
        event=str(entry["event"]),
        action=str(entry.get("action") or ""),
        delivered_at=_seconds(entry["delivered_at"]),
    )


def _open_head(entry: Mapping[str, Any]) -> OpenHead:
    return OpenHead(
        number=int(entry["number"]), sha=str(entry["head"]["sha"]), updated_at=_seconds(entry["updated_at"])
    )


def _seconds(stamp: object) -> float:
    return datetime.fromisoformat(str(stamp).replace("Z", "+00:00")).timestamp()


def _next_cursor(headers: Mapping[str, Any]) -> str:
    found = _NEXT.search(str(headers.get("link", "")))
    return parse_qs(urlsplit(found[1]).query).get("cursor", [""])[0] if found else ""
