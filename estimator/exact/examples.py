"""An input for a model that came without one: tokens, pixels or features, by its first layer with weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analyzer.errors import InputError


def example(model: Any, *, batch: int, length: int | None, image: tuple[int, int] | None) -> Sequence[Any]:
    """One batch. Raises `InputError` where the first layer does not say what it reads."""
    import torch

    for layer in model.modules():
        if isinstance(layer, torch.nn.Embedding):
            return [torch.zeros(batch, length or 128, dtype=torch.long)]
        if isinstance(layer, torch.nn.Conv2d):
            height, width = image or (224, 224)
            return [torch.zeros(batch, layer.in_channels, height, width)]
        if isinstance(layer, torch.nn.Conv1d):
            return [torch.zeros(batch, layer.in_channels, length or 1024)]
        if isinstance(layer, torch.nn.Linear):
            return [torch.zeros(batch, *([length] if length else []), layer.in_features)]
    raise InputError(
        "the model's first layer does not say what it reads: let the factory return (model, example_input)"
    )
