"""Who yields to whom, as the kernel sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_GROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")
_NICEST = 19
_SAY = "import os; from pathlib import Path; print(os.nice(0), Path('/proc/self/autogroup').read_text().split()[-1])"


@pytest.mark.skipif(
    not _GROUPS.exists() or _GROUPS.read_text().strip() != "1", reason="a kernel without groups of sessions"
)
@pytest.mark.parametrize("is_leader", [True, False])
def test_a_session_of_ours_is_as_nice_as_we_are_and_somebody_else_s_is_left_alone(is_leader: bool) -> None:
    """However nice the tests are themselves: what they start begins with that."""
    nicer = str(min(os.nice(0) + 7, _NICEST))
    ours = f"from bot.isolate.priority import step_back; step_back(7); {_SAY}"
    inner = [sys.executable, "-c", ours]
    outer = [sys.executable, "-c", f"import subprocess; subprocess.run({inner!r}, check=True)"]
    command = inner if is_leader else outer
    done = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)
    assert done.stdout.split() == [nicer, nicer if is_leader else "0"]
