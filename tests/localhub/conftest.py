"""A hub per test, with one pull request open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.localhub.server import Server
from tests.localhub.world import World, build


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Server(tmp_path / "hub") as server:
        yield build(server, tmp_path)
