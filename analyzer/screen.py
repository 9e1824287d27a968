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
REMARK = re.compile(rb"#[^\n]*|(\"\"\"|\'\'\').*?\1", re.DOTALL)
"""Comments and texts of several lines: what they name, nobody uses."""


def may_matter(source: bytes) -> bool:
    """Whether a file names anything of the torch world: in its code, or, where it can be run as a program, anywhere.
    Files reached by imports of one that does are read anyway."""
    if _ANY.search(source) is None:
        return False
    return b"__main__" in source or _ANY.search(without_remarks(source)) is not None


def without_remarks(source: bytes) -> bytes:
    """A file without its comments and texts of several lines."""
    return REMARK.sub(b"", source)
