"""A run with some fields changed by a person: the suggestions of an estimate, or values typed into a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Origin

_ORIGIN = Origin("what if")


def edited(run: Mapping[str, Any], edit: Mapping[str, Any]) -> RunConfig:
    """`run` with the fields of `edit`, each remembering what it overrides; null takes a field back."""
    base = RunConfig.from_document(run, Origin("run config"))
    taken_back: dict[str, Any] = {name: UNSET for name, value in edit.items() if value is None and name in base.words()}
    changed = {name: value for name, value in edit.items() if value is not None}
    if "micro_batch" in changed:
        changed.setdefault("splits_batch", False)  # it is that of one GPU
    return replace(base, **taken_back).overridden_by(RunConfig.from_document(changed, _ORIGIN))
