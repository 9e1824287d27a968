"""The child: takes one JSON document, analyses, answers. Started as ``python -I -m bot.workshop.child``.

Its input is hostile source text; how it is confined and heard is `bot.isolate.child`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from bot.isolate import child
from bot.isolate.cache import Store, is_possible
from bot.isolate.child import Say, answers, confine, requests
from bot.isolate.remembered import analyze
from bot.sources.base import Tree


class Announcing(child.Announcing):
    """A tree of blobs that says which file is read."""

    def __init__(self, tree: Tree, say: Say) -> None:
        super().__init__(tree, say)
        self._blobs = tree

    def blob_sha(self, path: str) -> str | None:
        """The id git gives the blob."""
        return self._blobs.blob_sha(path)


class _ParentsStore:
    """A `bot.isolate.cache.Store` that only the parent can reach."""

    def __init__(self, say: Say, given: Iterator[Any]) -> None:
        self._say, self._given = say, given

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        self._say({"store": key})
        entry = next(self._given)["entry"]
        return None if entry is None else str(entry).encode("latin-1")

    def put(self, key: str, entry: bytes) -> None:
        """See `Store`."""
        self._say({"store": key, "entry": entry.decode("latin-1")})


def review(document: Mapping[str, Any], say: Say, store: Store | None) -> dict[str, Any]:
    """The plan of a pull request."""
    from bot.core.examine import Engines
    from bot.core.plan_json import plan_to_json, review_input_from_json
    from bot.core.review import review as decide

    given = review_input_from_json(document)
    engines = Engines() if store is None else Engines(analyze=partial(analyze, store=store))
    plan = decide(replace(given, head=Announcing(given.head, say), base=Announcing(given.base, say)), engines)
    return plan_to_json(plan)


def branch(document: Mapping[str, Any], say: Say, _: Store | None) -> dict[str, Any]:
    """The plan of a commit of the default branch."""
    from bot.core.branch import check_branch
    from bot.core.plan_json import plan_to_json, review_input_from_json

    given = review_input_from_json(document)
    return plan_to_json(check_branch(replace(given, head=Announcing(given.head, say))))


def admit(document: Mapping[str, Any], say: Say, _: Store | None) -> list[dict[str, Any]]:
    """The launches of a submitted manifest, with the files of its commit around it."""
    from bot.core.admission import MANIFEST
    from bot.core.plan_json import review_input_from_json
    from bot.core.review_input import WithFile
    from estimator.api import manifest

    given = review_input_from_json(document["input"])
    head = WithFile(Announcing(given.head, say), MANIFEST, document["manifest"].encode())
    found = manifest(head, MANIFEST, given.config.targets)
    return [
        {
            "verdict": item.verdict,
            "estimate": item.estimate.to_json() if item.estimate is not None else None,
            "why": item.why,
        }
        for item in found
    ]


def command(document: Mapping[str, Any], say: Say, _: Store | None) -> dict[str, Any]:
    """What a slash command that looks at code answers: ``text``, or the fields of its act."""
    from bot.core.commands import Act, CommandContext, answer, reads
    from bot.core.commands.grammar import Command
    from bot.core.plan_json import review_input_from_json
    from bot.core.review_input import WithoutFiles
    from bot.workshop.run_configs import run_configs

    given = review_input_from_json(document["input"])
    head = Announcing(WithoutFiles(given.head, given.skip), say)
    given = replace(given, head=head, base=Announcing(given.base, say))
    asked = Command(name=document["name"], words=tuple(document["words"]))
    context = CommandContext(
        head_sha=given.snapshot.head_sha,
        run_configs=run_configs(head, given, asked.words) if reads(asked) == "launches" else {},
        given=given,
        sender=document["sender"],
    )
    found = answer(asked, context)
    return {"act": asdict(found)} if isinstance(found, Act) else {"text": found}


_TASKS: dict[str, Callable[[Mapping[str, Any], Say, Store | None], Any]] = {
    "review": review,
    "branch": branch,
    "command": command,
    "admit": admit,
}


def main() -> None:
    """Serve one document."""
    say, given = answers(), requests()
    request = next(given)
    confine(**request["limits"])
    store = _ParentsStore(say, given) if request.get("remembers") and is_possible() else None
    say({"result": _TASKS[request["task"]](request["document"], say, store)})


if __name__ == "__main__":
    main()
