"""The measured rows, read once. `benchmarks` is not installed: the root of the checkout is put on the path for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

ROOT = Path(__file__).parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from benchmarks.measured import Scored


@pytest.fixture(scope="session")
def measured_rows() -> list[dict[str, Any]]:
    """Every public row whose value does not contradict its configuration."""
    from benchmarks.measured import load

    return load()


@pytest.fixture(scope="session")
def scored(measured_rows: list[dict[str, Any]]) -> list[Scored]:
    """Our estimate of each."""
    from benchmarks.measured import score

    return score(measured_rows)
