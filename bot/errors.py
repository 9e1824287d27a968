"""The error tree, as `bot` sees it (drawn in `analyzer.errors`)."""

from __future__ import annotations

from analyzer.errors import InputError, PreflightError, Unavailable

__all__ = ["InputError", "PreflightError", "Unavailable"]
