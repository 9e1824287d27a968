"""How long a job waits for a service that does not answer."""

from __future__ import annotations

import pytest

from bot.errors import Unavailable
from bot.queue.failures import MAX_WAITS, delay


def test_a_service_that_says_how_long_is_believed_within_reason() -> None:
    assert [delay(Unavailable("x", wish), 7) for wish in (0.0, 2.0, 60.0, 86_400.0)] == [0.0, 2.0, 60.0, 900.0]


def test_an_outage_of_twenty_minutes_is_waited_for_and_its_end_is_seen_within_one() -> None:
    waits = [delay(Unavailable("x"), times) for times in range(MAX_WAITS)]
    assert waits[:4] == [5.0, 10.0, 20.0, 40.0]
    assert max(waits) == 60.0
    assert sum(waits) == pytest.approx(1_275.0)
