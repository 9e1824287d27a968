"""A client of the local GitHub's control API (``/_hub``): what people do there, and what they see."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from bot.errors import Unavailable

Json = dict[str, Any]


class HubClient:
    """Raises `Unavailable` with the hub's own words when it refuses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def ask(self, method: str, path: str, body: Json | None = None) -> Any:
        """One request under ``/_hub``."""
        answer = self._session.request(method, f"{self.url}/_hub{path}", json=body, timeout=60)
        if answer.status_code >= 400:
            raise Unavailable(f"local GitHub: {method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer.json() if answer.content else None

    def post(self, path: str, **body: Any) -> Any:
        """A POST with a JSON body."""
        return self.ask("POST", path, body)

    def pull(self, full_name: str, number: int) -> Json:
        """Everything a person sees on a pull request."""
        return dict(self.ask("GET", f"/repos/{full_name}/pulls/{number}"))

    def push(self, full_name: str, branch: str, source: Path, ref: str, user: str) -> str:
        """Push `ref` of the work tree at `source`."""
        body = {"branch": branch, "source": str(source), "ref": ref, "user": user}
        return str(self.post(f"/repos/{full_name}/push", **body)["sha"])

    def until(self, ready: Callable[[], Any], seconds: float, what: str) -> Any:
        """The first true answer of `ready`; `Unavailable` when there is none in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := ready():
                return found
            time.sleep(0.25)
        raise Unavailable(f"{what}: not within {seconds:.0f} s")

    def until_concluded(self, full_name: str, number: int, names: tuple[str, ...], seconds: float = 120.0) -> Json:
        """The pull request once the newest run of each named check on its head is completed."""

        def ready() -> Json | None:
            seen = self.pull(full_name, number)
            newest = {run["name"]: run for run in seen["check_runs"]}
            done = all(name in newest and newest[name]["status"] == "completed" for name in names)
            return seen if done else None

        found: Json = self.until(ready, seconds, f"check runs {', '.join(names)}")
        return found
