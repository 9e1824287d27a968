"""Frozen dataclasses for what is made by the hundred thousand.

For mypy and for readers `dataclass` is the one of the standard library: ``frozen=True`` is checked. At run time the
instances can be written to, because a frozen ``__init__`` takes three times as long, which was a fifth of an analysis.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:
    import dataclasses

    _Record = TypeVar("_Record")

    def dataclass(*, frozen: bool = False, **options: Any) -> Any:
        """See the module."""
        if not frozen:
            return dataclasses.dataclass(**options)
        if options.get("eq", True):
            options["unsafe_hash"] = True  # what a frozen one has

        def decorate(kind: Any) -> Any:
            bases = [base.__dataclass_params__ for base in kind.__mro__[1:] if hasattr(base, "__dataclass_params__")]
            for params in bases:
                params.frozen = False
            made = dataclasses.dataclass(**options)(kind)
            for params in (*bases, made.__dataclass_params__):
                params.frozen = True  # so that a frozen class of the standard library may derive from it
            return made

        return decorate

    def replace(record: _Record, /, **changes: Any) -> _Record:
        """See `dataclasses.replace`."""
        return _replacing(record.__class__)(record, **changes)

    @cache
    def _replacing(kind: Any) -> Any:
        """A call of the class with every field named, compiled once."""
        names = [item.name for item in dataclasses.fields(kind) if item.init]
        params = ", ".join(f"{name}=_ABSENT" for name in names)
        given = ", ".join(f"{name}=_record.{name} if {name} is _ABSENT else {name}" for name in names)
        return eval(f"lambda _record, *, {params}: _KIND({given})", {"_ABSENT": object(), "_KIND": kind})  # noqa: S307  our own field names


__all__ = ["dataclass", "replace"]
