"""What a job knows of a pull request's past: the ledger in our summary, and our threads. GitHub is the only source."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bot.core.ledger import Ledger
from bot.core.lifecycle import with_threads
from bot.core.seal import without_seal
from bot.github.gateway import Gateway
from bot.github.pulls import PullInfo
from bot.github.talk import Talk
from bot.render import limits
from bot.render.summary import SUMMARY_MARKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """`ledger` is what may be believed of it; `talk` is what stands on GitHub."""

    ledger: Ledger = field(default_factory=Ledger)
    talk: Talk = field(default_factory=Talk)


def recall(gateway: Gateway, number: int) -> tuple[PullInfo, Memory]:
    """The pull request and its past, as both are at one moment. Raises `NotFound`."""
    pull, talk = gateway.talks.with_pull(number)
    return pull, remembered(gateway, number, pull.head_sha, talk)


def remembered(gateway: Gateway, number: int, head_sha: str, talk: Talk) -> Memory:
    """The memory in what stands on GitHub. A ledger that is not ours is not believed, and the next summary says so."""
    opened = gateway.unsealed(talk.summary.body if talk.summary else "", number)
    ledger = opened.ledger
    if opened.problem:
        ledger = replace(ledger, distrusted=f"At {head_sha[:12]} {opened.problem}")
    return Memory(ledger=with_threads(ledger, talk.threads), talk=talk)


def write_summary(gateway: Gateway, number: int, text: str, ledger: Ledger, memory: Memory) -> None:
    """The summary with the ledger at its end. A text that has to be cut never cuts the ledger."""
    sealed = gateway.sealed(ledger, number)
    visible = limits.characters(without_seal(text), limits.MAX_BODY - len(sealed) - 2)
    gateway.conversation.write(number, SUMMARY_MARKER, f"{visible}\n\n{sealed}", memory.talk.summary)
