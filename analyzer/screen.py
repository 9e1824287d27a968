"""Bytes to yes or no: can this file matter? Most files of a tree need no parse at all."""

from __future__ import annotations

import re

WORDS = (
    b"torch",  # torchvision, pytorch_lightning, torchmetrics… hold it
    b"lightning",
    b"accelerate",
    b"transformers",
    b"deepspeed",
    b"ignite",
    b"fastai",
    b"composer",
    b"diffusers",
    b"peft",
    b"trl",
    b"timm",
    b"monai",
    b"colossalai",
    b"megatron",
    b"detectron2",
    b"mmengine",
    b"keras",
    b"catalyst",
    b"horovod",
    b"skorch",
    b"apex",
    b"mmcv",
    b"dgl",
    b"backward",  # a helper that imports nothing may still be handed a loss
    b"zero_grad",
    b"no_grad",
)
_ANY = re.compile(b"|".join(WORDS))


def may_matter(source: bytes) -> bool:
    """Whether a file names anything of the torch world. Files reached by imports of one that does are read anyway."""
    return _ANY.search(source) is not None
