"""Which files of a commit are worth fetching because they may start a run or say what one does, the likeliest first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from bot.core.review_input import MemoryTree
from estimator.launches import candidates
from estimator.resolve.versions import may_pin

CONFIG_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".toml"})
MAX_CONFIGS = 150
MAX_CONFIG_BYTES = 128 * 1024
_MAX_PINS = 20
_WORKFLOW = ".github/workflows/"
_TOLD = re.compile(
    r"train|finetun|pretrain|sft|dpo|rlhf|launch|job|slurm|k8s|kube|sky|dstack|ray|modal|vertex|sagemaker|azure|cluster"
    r"|accelerate|deepspeed|ds_|zero|fsdp|conf|recipe|experiment|hydra|model",
    re.IGNORECASE,
)
_NAMED = re.compile(rb"""["']([\w./\-]{1,200}\.(?:json|ya?ml|toml))["']""")
_NOISE = re.compile(r"(?:^|/)(?:package(?:-lock)?|tsconfig|tokenizer\w*|vocab|\w*_dataset|data)\.json$")


def starting_points(sizes: dict[str, int]) -> list[str]:
    """Launch scripts, workflows and likely configuration files, and what pins versions. `sizes` are bytes by path."""
    tree = MemoryTree(dict.fromkeys(sizes))
    scripts = candidates(tree, with_configs=False)
    configs = sorted((path for path in sizes if _is_config(path, sizes[path])), key=_likelihood)
    pins = sorted(filter(may_pin, sizes), key=lambda path: (path.count("/"), path))[:_MAX_PINS]
    return [*scripts, *configs[:MAX_CONFIGS], *pins]


def _is_config(path: str, size: int) -> bool:
    is_hidden = any(part.startswith(".") or part == "node_modules" for part in path.split("/")[:-1])
    if is_hidden and not path.startswith(_WORKFLOW):
        return False
    is_named = PurePosixPath(path).suffix.lower() in CONFIG_SUFFIXES and bool(_TOLD.search(path))
    return (is_named or path.startswith(_WORKFLOW)) and size <= MAX_CONFIG_BYTES and not _NOISE.search(path)


def _likelihood(path: str) -> tuple[bool, bool, int, str]:
    return (not path.startswith(_WORKFLOW), path.endswith((".json", ".toml")), path.count("/"), path)


def named_configs(source: bytes, path: str, known: Collection[str]) -> list[str]:
    """The configuration files of the tree that a script names in its string constants: beside it, or from the root."""
    here = PurePosixPath(path).parent
    names = dict.fromkeys(match.decode("ascii", "replace") for match in _NAMED.findall(source))
    found: list[str] = []
    for name in list(names)[:20]:
        places: Iterable[str] = (str(here / name), name.removeprefix("./"))
        found += [place for place in places if place in known]
    return list(dict.fromkeys(found))
