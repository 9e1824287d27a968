"""Niceness that counts between sessions.

Linux gives each session a scheduling group (autogroup), divides the processor among the groups, and compares niceness
only within one: a nice worker in a session of its own takes as much as everything else together. So whoever leads a
session gives its group the niceness that he has himself. Within cgroups (systemd, containers) the weights of those
decide, and this changes nothing: `deploy/` sets them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def step_back(by: int) -> None:
    """Be nicer `by` so much, from now on and for all children."""
    os.nice(by)
    share_niceness()


def share_niceness() -> None:
    """Give the group of our session our niceness, where the session is ours: it began with this process."""
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # no Linux, no such groups, or /proc is not ours to write
            Path("/proc/self/autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, 0)), encoding="ascii")
