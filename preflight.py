"""The only entry point and the only public name of Preflight.

The packages behind it are called ``bot``, ``analyzer`` and ``estimator``; a repository under analysis may
hold folders of the same names, and a pull request may hold them on purpose. So the command never runs with
the working directory or ``PYTHONPATH`` on its import path: see ``docs/decisions/0001-entry-point.md``.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from estimator.exact.guard import VRAMExceeded, VRAMGuard, VRAMWarning

__all__ = ["VRAMExceeded", "VRAMGuard", "VRAMWarning", "main"]


def __getattr__(name: str) -> Any:
    """The guard, which needs torch, only where it is asked for."""
    if name in ("VRAMExceeded", "VRAMGuard", "VRAMWarning"):
        from estimator.exact import guard

        return getattr(guard, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run the command line in an isolated interpreter (``python -I``) and exit with its code."""
    if not sys.flags.isolated:
        # Nothing but the standard library was imported so far; the new interpreter ignores the working
        # directory, PYTHONPATH and the user's site folder.
        os.execv(sys.executable, [sys.executable, "-I", "-m", "preflight", *sys.argv[1:]])  # noqa: S606
    try:
        from bot.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before the command could see it
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
