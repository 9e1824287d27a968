"""Configuration files that are a whole training run, read on their own: started the way their program is started."""

from __future__ import annotations

import re

from estimator.launch.base import Arg, LaunchConfig, Processes, Request, Target, UnreadableLaunch, not_known
from estimator.launch.documents import UnreadableDocument, documents
from estimator.resolve.command import parse
from estimator.resolve.recipes import SUFFIXES, kind_of

_MAY_BE = re.compile(
    rb"base_model|model_name_or_path|per_device_train_batch_size|_component_|\btrain\b|train(?:er|ing)\b"
)
_COMMANDS = {
    "axolotl": ("axolotl", "train"), "llamafactory": ("llamafactory-cli", "train"), "litgpt": ("litgpt", "finetune"),
    "torchtune": ("tune", "run"), "torchtitan": ("torchtitan",), "lightning": ("lightning", "fit"),
    "trl": ("trl", "sft"),
}  # fmt: skip


class RecipeReader:
    """Axolotl, LLaMA-Factory, torchtune, litgpt, torchtitan, Lightning and TRL configurations."""

    format = "recipe"
    rank = 70

    def detect(self, path: str, content: bytes) -> bool:
        """A document with the keys of one of the programs."""
        if not path.endswith(SUFFIXES) or not _MAY_BE.search(content[:200_000]):
            return False
        try:
            return any(kind_of(root) is not None for root in documents(path, content))
        except UnreadableDocument:
            return False

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """One launch per document; a recipe names no hardware, unless it counts devices."""
        try:
            roots = documents(request.path, request.content)
        except UnreadableDocument as error:
            raise UnreadableLaunch(str(error)) from None
        found = []
        for root in roots:
            kind = kind_of(root)
            parsed = parse(self._words(kind["name"], request), {}) if kind is not None else None
            if kind is None or parsed is None:
                continue
            nothing = not_known("a recipe names no GPU")
            many = not_known("as many processes as it is started with")
            found.append(
                LaunchConfig(
                    path=request.path, line=root.line, format=str(kind["name"]),
                    target=Target(gpu=nothing, gpus_per_node=many, nodes=many),
                    processes=Processes(per_node=many, nodes=many), command=parsed.command,
                )
            )  # fmt: skip
        return tuple(found)

    def _words(self, name: str, request: Request) -> tuple[Arg, ...]:
        words = (*_COMMANDS[name], request.path, *(arg.text for arg in request.argv or ()))
        return tuple(Arg(word, request.path, 1) for word in words)


READER = RecipeReader()
