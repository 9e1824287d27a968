"""What several tests share."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

WEBHOOK_SECRET = "a-secret-of-the-tests-0123456789"


def wait_for(condition: Callable[[], object], seconds: float = 30.0, what: str = "") -> None:
    """Poll until `condition()` is true; fail with `what` afterwards."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    pytest.fail(f"not within {seconds:.0f} s: {what or condition}")
