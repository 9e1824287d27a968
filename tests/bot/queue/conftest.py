"""The whole stack, without its processes: a test starts those it needs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from bot.localhub.server import Server
from tests.bot.queue.stack import Stack, build_stack


@pytest.fixture
def stack(
    client: redis.Redis,
    redis_url: str,
    private_key: str,
    tmp_path: Path,
    preflight: Callable[..., subprocess.Popen[bytes]],
) -> Iterator[Stack]:
    with Server(tmp_path / "hub") as hub:
        yield build_stack(hub, client, redis_url, private_key, tmp_path, preflight)
