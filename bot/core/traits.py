"""What kind of finding it is, without a word of the code: the framework of its file and the pattern of its message.

Statistics are kept by these, for months: nothing that a repository wrote may be in them.
"""

from __future__ import annotations

import re

_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_FRAMEWORKS = {
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "lightning_fabric": "lightning",
    "accelerate": "accelerate",
    "transformers": "transformers",
    "trl": "transformers",
    "peft": "transformers",
    "deepspeed": "deepspeed",
    "fastai": "fastai",
    "ignite": "ignite",
    "composer": "composer",
    "ray": "ray",
    "jax": "jax",
}
_ORDER = ("lightning", "fastai", "ignite", "composer", "deepspeed", "accelerate", "transformers", "ray", "jax")
"""The one that owns the training loop names the file, before those it only uses."""
_QUOTED = re.compile(r"`[^`]*`?|\"[^\"]*\"|\([^()]*\)")
_CLAUSE = re.compile(r"[.:;]\s")
_WORD = re.compile(r"[A-Za-z][a-z]{0,19}(?:[-'’][a-z]{1,19})?|GPU|GPUs|DDP|FSDP|BCE|NCCL|CUDA|AMP")
_MAX_PATTERN = 90


def framework(source: str) -> str:
    """The training framework that a file imports; ``torch`` for a plain loop."""
    found = {_FRAMEWORKS[name] for name in _IMPORT.findall(source) if name in _FRAMEWORKS}
    return next((name for name in _ORDER if name in found), "torch")


def pattern(message: str) -> str:
    """The first clause of a message, its quotations, names and numbers replaced by an ellipsis: only words of ours."""
    first = _CLAUSE.split(_QUOTED.sub(" … ", message).strip(), maxsplit=1)[0]
    words = [_plain(word) for word in first.split()]
    kept = [word for index, word in enumerate(words) if word != "…" or index == 0 or words[index - 1] != "…"]
    text = " ".join(kept)
    return text if len(text) <= _MAX_PATTERN else text[: _MAX_PATTERN - 1].rstrip() + "…"


def _plain(word: str) -> str:
    core = word.strip(".,:;!?")
    return core if _WORD.fullmatch(core) else "…"
