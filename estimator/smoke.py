"""The exact command of a short run that shows whether a borderline launch fits: its peak comes in the first steps."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from estimator.submission import TYPED

MINUTES = 10
_DIRECT = frozenset({"shell"})


def smoke_test(path: str, form: str, command: Sequence[str] = ()) -> str:
    """A command line; empty where the format has no short form that we know."""
    if form == "slurm" and path != TYPED:
        return f"sbatch --time=00:{MINUTES}:00 {shlex.quote(path)}"
    if path != TYPED and path.endswith((".sh", ".bash")):
        return f"timeout {MINUTES}m bash {shlex.quote(path)}"
    if form in _DIRECT and command and not any("$" in word for word in command):
        return f"timeout {MINUTES}m {shlex.join(command)}"
    return ""
