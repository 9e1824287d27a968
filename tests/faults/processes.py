"""The processes of the stack as a machine sees them: who is whose child, who holds a connection, and their end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def parents() -> dict[int, int]:
    """pid -> parent pid of everything that runs."""
    found = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def descendants(root: int) -> list[int]:
    """Children, their children and so on, the nearest first."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found, waiting = [], list(children.get(root, []))
    while waiting:
        pid = waiting.pop(0)
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def is_group_leader(pid: int) -> bool:
    """rq makes each work-horse the leader of a group of its own; its scheduler stays in the worker's."""
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def client_of(port: int, among: list[int]) -> int | None:
    """Which of these processes holds the TCP connection from this local port."""
    inode = _inode(port)
    if inode is None:
        return None
    for pid in among:
        with suppress(OSError):
            for entry in (_PROC / str(pid) / "fd").iterdir():
                with suppress(OSError):
                    if entry.readlink().name == f"socket:[{inode}]" or str(entry.readlink()) == f"socket:[{inode}]":
                        return pid
    return None


def _inode(port: int) -> str | None:
    for line in (_PROC / "net" / "tcp").read_text().splitlines()[1:]:
        parts = line.split()
        if int(parts[1].rpartition(":")[2], 16) == port and parts[9] != "0":
            return parts[9]
    return None


def kill(pids: list[int]) -> int:
    """SIGKILL; how many were there."""
    killed = 0
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def memory_kib(pid: int) -> int:
    """Private memory of a process (what ending it would give back), in KiB."""
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))
