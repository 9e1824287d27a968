"""List what fits: for each launch config the cheapest known instances, and the largest micro-batch on them.

Starts from the launch configs that the pull request changes, where there are any; a path picks one. Other words narrow
the instances: a provider, a GPU or a part of an instance type (`/preflight fits aws h100`).
"""

from __future__ import annotations

from bot.core.commands.base import Answer, CommandContext, Reads, Who
from bot.core.commands.estimate import MAX_CONFIGS, picked
from bot.errors import InputError
from bot.render.answers import wrong_words
from bot.render.offers import offers_text
from estimator import api
from estimator.sourced import Origin

USAGE = "/preflight fits [path] [provider|GPU|instance…]"
WHO: Who = "author_or_write"
READS: Reads = "launches"
MAX_WORDS = 5


def answer(words: tuple[str, ...], context: CommandContext) -> Answer:
    """One table for each launch config, at the head that was pinned when the command was read."""
    paths, search = picked(words, context.run_configs)
    if not context.run_configs:
        return wrong_words("fits", "no launch config was found in this pull request or its tree")
    if len(search) > MAX_WORDS or any(word.startswith("-") for word in search):
        return wrong_words("fits", f"it takes paths of launch configs and at most {MAX_WORDS} words to search for")
    try:
        found = [
            (path, api.offers(api.RunConfig.from_document(context.run_configs[path], Origin(path)), search))
            for path in paths
        ]
    except InputError as error:
        return wrong_words("fits", str(error))
    more = 0 if len(paths) < MAX_CONFIGS else len(context.run_configs) - len(paths)
    return offers_text(context.head_sha, found, search, more)
