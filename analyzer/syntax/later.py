"""LibCST, imported where it is first used: that takes a third of a second, and most files need no tree of it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst as cst
else:

    class _Later:
        """Stands for the package until something of it is asked for."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module("libcst"), name)
            setattr(self, name, value)
            return value

    cst = _Later()

__all__ = ["cst"]
