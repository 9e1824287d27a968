"""How long a job waits for a service that does not answer, and how often it asks one that refuses."""

from __future__ import annotations

import pytest

from bot.errors import Unavailable
from bot.github.errors import Forbidden, GitHubDown, NotFound
from bot.queue import failures
from bot.queue.failures import MAX_WAITS, delay, persistently


def test_a_service_that_says_how_long_is_believed_within_reason() -> None:
    assert [delay(Unavailable("x", wish), 7) for wish in (0.0, 2.0, 60.0, 86_400.0)] == [0.0, 2.0, 60.0, 900.0]


def test_an_outage_of_twenty_minutes_is_waited_for_and_its_end_is_seen_within_one() -> None:
    waits = [delay(Unavailable("x"), times) for times in range(MAX_WAITS)]
    assert waits[:4] == [5.0, 10.0, 20.0, 40.0]
    assert max(waits) == 60.0
    assert sum(waits) == pytest.approx(1_275.0)


class _GitHub:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    def ask(self) -> str:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_one_refusal_is_not_believed_and_three_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_PAUSES", (0.0, 0.0))
    assert persistently(_GitHub(NotFound(404, "x")).ask) == "done"
    assert persistently(_GitHub(NotFound(404, "x"), Forbidden(403, "y")).ask) == "done"
    gone = _GitHub(*[NotFound(404, "x")] * 9)
    with pytest.raises(NotFound):
        persistently(gone.ask)
    assert gone.asked == 3


def test_a_service_that_is_down_is_the_job_s_business(monkeypatch: pytest.MonkeyPatch) -> None:
    down = _GitHub(GitHubDown("x"))
    with pytest.raises(GitHubDown):
        persistently(down.ask)
    assert down.asked == 1
