"""Frameworks that drive the loop: which of a class's methods they call, where, and what they do around them.

A table entry ``[[framework]]`` names the base classes; its ``[[framework.hooks]]`` the methods. What a framework owns
(``zero_grad``, ``backward``, ``step``) happens in its loop without a line in the program under analysis.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from analyzer.errors import InputError

OWNED = frozenset(["zero_grad", "backward", "step", "clip", "mode", "grad", "shard", "device", "log", "seed"])
_GIVES = frozenset(["", "loss", "gradients"])
_STAGES = frozenset(["", "training", "evaluation"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A method that a framework calls `per` step, epoch or run, in training or evaluation.

    `gives`: ``loss``: the framework runs a backward pass through what it returns, and clears and steps around it;
    ``gradients``: the method runs the backward pass itself, the framework does the rest. `params` are the kinds of the
    arguments, in order (``batch``, ``number``, ``Module``; ``any`` says nothing).
    """

    names: tuple[str, ...]
    per: str = "step"
    stage: str = ""
    gives: str = ""
    params: tuple[str, ...] = ()

    @property
    def is_evaluation(self) -> bool:
        """Whether it runs in evaluation mode with gradients off."""
        return self.stage == "evaluation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """`bases`: patterns of the qualified names of its base classes. `shape`: methods that tell a subclass whose base
    class is not in the tree. `first`: methods that run before the hooks and leave their attributes to them. `kind`:
    what an instance is. `manual`: the attribute whose False, and the method whose call, hands backward, step and
    zero_grad back to the class."""

    name: str
    bases: tuple[str, ...]
    source: str
    kind: str = ""
    shape: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    owns: frozenset[str] = frozenset()
    manual: tuple[str, ...] = ()
    hooks: Mapping[str, Hook]

    def matches(self, name: str) -> bool:
        """Whether a class of this qualified name is one of its base classes."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.bases)


def parse_frameworks(tables: Mapping[str, Any], place: str) -> Iterator[Framework]:
    """The frameworks of one table; `place` names it in errors."""
    known = {item.name for item in fields(Framework)}
    for entry in tables.get("framework", []):
        wrong = entry.keys() - known
        owns = frozenset(entry.pop("owns", ()))
        wrong |= owns - OWNED
        if wrong or not entry.get("source") or not entry.get("bases"):
            raise InputError(
                f"{place}: framework {entry.get('name')!r}: unknown {sorted(wrong)}, no bases or no source"
            )
        hooks = {name: hook for hook in _hooks(entry.pop("hooks", []), place) for name in hook.names}
        lists: dict[str, Any] = {key: tuple(entry.pop(key, ())) for key in ("bases", "shape", "first", "manual")}
        yield Framework(**entry, **lists, owns=owns, hooks=hooks)


def _hooks(entries: list[dict[str, Any]], place: str) -> Iterator[Hook]:
    known = {item.name for item in fields(Hook)}
    for entry in entries:
        wrong = entry.keys() - known
        if wrong or entry.get("gives", "") not in _GIVES or entry.get("stage", "") not in _STAGES:
            raise InputError(f"{place}: hook {entry.get('names')!r}: unknown {sorted(wrong) or entry}")
        lists: dict[str, Any] = {key: tuple(entry.pop(key, ())) for key in ("names", "params")}
        yield Hook(**entry, **lists)
