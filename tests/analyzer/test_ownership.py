"""The tables of frameworks: what they may say, and that every one of them is reached by its base classes."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from analyzer.errors import InputError
from analyzer.knowledge.ownership import OWNED, parse_frameworks
from analyzer.knowledge.schema import knowledge

TOML: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
GOOD = """
[[framework]]
name = "Ours"
bases = ["ours.*Task"]
kind = "Module"
owns = ["zero_grad", "step"]
source = "our docs"

  [[framework.hooks]]
  names = ["train_batch", "train_pair"]
  stage = "training"
  gives = "gradients"
  params = ["batch"]
"""


def tables(text: str) -> dict[str, Any]:
    """A table as the loader reads it."""
    read: dict[str, Any] = TOML.loads(text)
    return read


def test_a_hook_is_found_under_each_of_its_names() -> None:
    (framework,) = parse_frameworks(tables(GOOD), "ours.toml")
    assert framework.matches("ours.lib.BigTask")
    assert not framework.matches("ours.lib.Task2")
    assert framework.hooks["train_batch"] is framework.hooks["train_pair"]
    assert not framework.hooks["train_batch"].is_evaluation


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ('source = "our docs"', ""),
        ('owns = ["zero_grad", "step"]', 'owns = ["everything"]'),
        ('bases = ["ours.*Task"]', "bases = []"),
        ('kind = "Module"', 'kinds = "Module"'),
        ('gives = "gradients"', 'gives = "money"'),
        ('stage = "training"', 'stage = "cooking"'),
        ('params = ["batch"]', 'arguments = ["batch"]'),
    ],
)
def test_a_table_that_says_something_unknown_is_refused_by_its_name(line: str, wrong: str) -> None:
    assert line in GOOD
    with pytest.raises(InputError, match=r"ours\.toml"):
        list(parse_frameworks(tables(GOOD.replace(line, wrong)), "ours.toml"))


def test_every_framework_has_a_source_hooks_and_owns_what_is_known() -> None:
    for framework in knowledge().frameworks:
        assert framework.source
        assert framework.hooks or framework.first
        assert framework.owns <= OWNED


@pytest.mark.parametrize(
    ("base", "hook", "gives"),
    [
        ("lightning.LightningModule", "training_step", "loss"),
        ("pytorch_lightning.core.LightningModule", "validation_step", ""),
        ("transformers.Trainer", "compute_loss", "loss"),
        ("trl.SFTTrainer", "training_step", "gradients"),
        ("skorch.NeuralNetClassifier", "train_step_single", "gradients"),
        ("fastai.callback.core.Callback", "after_batch", ""),
        ("composer.models.ComposerModel", "eval_forward", ""),
        ("mmengine.model.BaseModel", "train_step", ""),
        ("catalyst.dl.Runner", "handle_batch", ""),
    ],
)
def test_base_classes_lead_to_their_hooks(base: str, hook: str, gives: str) -> None:
    framework = knowledge().framework(base)
    assert framework is not None
    assert framework.hooks[hook].gives == gives
