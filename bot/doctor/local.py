"""What this machine holds: settings, and the modes of the files with secrets."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from bot.doctor.line import Lines, fail, ok, warn
from bot.errors import InputError
from bot.settings import web_settings, worker_settings

_SECRET_FILES = (
    "PREFLIGHT_PRIVATE_KEY_FILE",
    "PREFLIGHT_PRIVATE_KEY_PREVIOUS_FILE",
    "PREFLIGHT_WEBHOOK_SECRET_FILE",
    "PREFLIGHT_WEBHOOK_SECRET_PREVIOUS_FILE",
    "PREFLIGHT_CLIENT_SECRET_FILE",
)
_EXAMPLE = "`preflight register` writes them to a file, see docs/install.md"


def settings(environment: Mapping[str, str]) -> Lines:
    """Whether both kinds of processes could start here."""
    for name, read in (("receiver settings", web_settings), ("worker settings", worker_settings)):
        try:
            read(environment)
        except InputError as error:
            yield fail(name, str(error), f"set it in the environment ({_EXAMPLE})")
        else:
            yield ok(name, "complete")


def files(environment: Mapping[str, str]) -> Lines:
    """Secrets that others on this machine can read."""
    for name in _SECRET_FILES:
        path = environment.get(name)
        if not path:
            continue
        try:
            mode = stat.S_IMODE(Path(path).stat().st_mode)
        except OSError as error:
            yield fail("secret files", f"{name}: {path}: {error.strerror}", "correct the path, or its owner")
            continue
        if mode & 0o007:
            yield fail("secret files", f"{path} is open to everybody (mode {mode:04o})", f"chmod 600 {path}")
        elif mode & 0o030:
            yield warn("secret files", f"{path} can be changed by its group (mode {mode:04o})", f"chmod 600 {path}")
        else:
            yield ok("secret files", f"{path} has mode {mode:04o}")
    for name in ("PREFLIGHT_PRIVATE_KEY", "PREFLIGHT_WEBHOOK_SECRET"):
        if environment.get(name) and not environment.get(f"{name}_FILE"):
            text = f"{name} is in the environment, which every child process and crash report sees"
            yield warn("secret files", text, f"put it into a file of mode 0600 and name that in {name}_FILE")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        yield warn("user", "this runs as root", "run receiver and workers as a user of their own, as deploy/ does")
