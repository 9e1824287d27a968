"""Methods that a framework calls in a loop of its own: what holds around them.

A class that derives from one of `FRAMEWORKS` is run hook by hook, as the framework would: inside its epochs and steps,
with the grad mode it sets, and with a backward pass through what a training hook returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analyzer.engine.events import Loop
from analyzer.engine.machine import Machine
from analyzer.engine.trace import Site, start
from analyzer.engine.values import Class, External


@dataclass(frozen=True, slots=True)
class Hook:
    """`per`: how often it is called; `gives_loss`: the framework runs a backward pass through what it returns;
    `is_evaluation`: it runs in evaluation mode with gradients off."""

    per: str
    gives_loss: bool = False
    is_evaluation: bool = False


_LIGHTNING: Mapping[str, Hook] = {
    "training_step": Hook("step", gives_loss=True),
    "on_train_batch_start": Hook("step"),
    "on_train_batch_end": Hook("step"),
    "on_train_epoch_start": Hook("epoch"),
    "on_train_epoch_end": Hook("epoch"),
    "training_epoch_end": Hook("epoch"),
    **{
        f"{stage}_step": Hook("step", is_evaluation=True) for stage in ("validation", "test", "predict")
    },
    **{
        name: Hook("epoch", is_evaluation=True)
        for stage in ("validation", "test", "predict")
        for name in (f"on_{stage}_epoch_start", f"on_{stage}_epoch_end", f"{stage}_epoch_end")
    },
}  # fmt: skip
"""Lightning docs, "LightningModule": hooks, and automatic optimization."""
_HF: Mapping[str, Hook] = {
    "compute_loss": Hook("step", gives_loss=True),
    "training_step": Hook("step"),
    "prediction_step": Hook("step", is_evaluation=True),
}
"""transformers docs, "Trainer": ``training_step`` runs backward through what ``compute_loss`` returns."""
FRAMEWORKS: Mapping[str, Mapping[str, Hook]] = {"LightningModule": _LIGHTNING, "Trainer": _HF}
_PACKAGES = {
    "LightningModule": ("pytorch_lightning.", "lightning."),
    "Trainer": ("transformers.", "trl.", "sentence_transformers."),
}


def hooks_of(cls: Class, depth: int = 0) -> Mapping[str, Hook]:
    """The hooks of the framework that a class derives from, if any."""
    for case in (case for base in cls.bases for case in base.cases if depth < 10):
        found: Mapping[str, Hook] = {}
        if isinstance(case, Class):
            found = hooks_of(case, depth + 1)
        elif isinstance(case, External):
            found = _by_name(case.name)
        if found:
            return found
    return {}


def _by_name(name: str) -> Mapping[str, Hook]:
    for ending, packages in _PACKAGES.items():
        if name.endswith(ending) and name.startswith(packages):
            return FRAMEWORKS[ending]
    return {}


def loops_around(machine: Machine, cls: Class, hook: Hook) -> tuple[Loop, ...]:
    """The framework's loops over epochs and steps. A class stands for the loop over epochs, its body for the steps."""
    site = Site(cls.path, cls.node.at)
    trace = start(site, "the framework calls the hooks of this class in its loop")
    stage = "evaluation" if hook.is_evaluation else "training"
    nest = (Loop(site, "framework", trace, f"{stage} epochs"), Loop(site, "framework", trace, f"{stage} steps"))
    return nest if hook.per == "step" else nest[:1]
