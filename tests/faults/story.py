"""One repository with one pull request through its life: opened, pushed to, talked to, closed; meanwhile cards play."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import redis

from bot.localhub import people
from bot.localhub.clock import now
from bot.localhub.errors import Refusal
from bot.localhub.faults import Fault
from bot.localhub.model import Account, Delivery, Pull, Repository
from bot.localhub.service import Service
from bot.localhub.state import Hub
from bot.localhub.webhooks import Fate
from tests.faults.cards import REFUSALS, Card
from tests.faults.code import BUGS, DATA, LAUNCH, Script
from tests.faults.rig import Rig
from tests.faults.verdict import Verdict, judge
from tests.localhub.world import commit, git

_REST_SECONDS = 480.0
"""How long a story may take to come to rest; what is wrong then is wrong."""
_BRANCH = "feature"


@dataclass
class Story:
    """`played` counts the cards that took effect."""

    rig: Rig
    name: str
    seed: str
    num_acts: int = 3
    cards: list[Card] = field(default_factory=list)
    rest_seconds: float = _REST_SECONDS
    script: list[str] = field(default_factory=list)
    """Acts in this order; chance decides after them."""
    played: Counter[str] = field(default_factory=Counter)
    repo: Repository = field(init=False)
    pull: Pull = field(init=False)
    acts: list[str] = field(default_factory=list)
    _code: Script = field(default_factory=Script)
    _commands: list[int] = field(default_factory=list)
    _armed: list[tuple[Card, Fault]] = field(default_factory=list)
    _fates: list[Card] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Of the work tree; taken before the hub's."""
    _fates_lock: threading.Lock = field(default_factory=threading.Lock)
    _renames: int = 0

    def run(self) -> Verdict:
        """Play what was prepared to its end; the verdict when everything came to rest."""
        hands = _hands(self.cards, self.num_acts + 1)
        self._arm(hands[0])
        self._open()
        for hand in hands[1:]:
            self._wait()
            self._arm(hand)
            self._act()
        return self._rest()

    # --- acts ---------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """The repository and its branch; nothing is announced yet."""
        self._random = random.Random(self.seed)
        self._work = self.rig.directory / "work" / self.name
        self._work.mkdir(parents=True)
        git(self._work, "init", "-q", "-b", "main")
        files: dict[str, bytes | str | None] = {"README.md": "# trainer\n", "data.py": DATA}
        commit(self._work, "Begin", files)
        self.repo = self.rig.add_repository(f"{self.name}/trainer", self._work)
        git(self._work, "checkout", "-q", "-b", _BRANCH)
        self._code.add(self._random.choice(list(BUGS)))
        launch: dict[str, bytes | str | None] = {"train.slurm": LAUNCH} if self._random.random() < 0.3 else {}
        commit(self._work, "Train", {"train.py": self._code.text(), **launch})
        with self._hub.lock:
            self.repo.git.fetch(str(self._work), _BRANCH, f"refs/heads/{_BRANCH}")

    def _open(self) -> None:
        with self._hub.lock:
            self.pull = people.open_pull(
                self._service, self.repo, title="Train", body="", base="main", head=_BRANCH, author=self._dana
            )
        self.acts.append("opened")

    def _act(self) -> None:
        if self.pull.state != "open":
            self._reopen()
            return
        known = {
            "push_bug": self._push_bug,
            "mend": self._mend,
            "force_push": self._force_push,
            "command": self._command,
            "close": self._close,
            "rerun": self._rerun,
        }
        name = self.script.pop(0) if self.script else self._random.choice(["push_bug", *known])
        known[name]()
        self.acts.append(name)

    def _push_bug(self) -> None:
        with self._lock:
            self._code.add(self._random.choice(list(BUGS)))
            self._push("Another part")

    def _mend(self) -> None:
        with self._lock:
            self._code.mend()
            self._code.remarks += 1
            self._push("Mend")

    def _force_push(self) -> None:
        with self._lock:
            self._code.remarks += 1
            git(self._work, "reset", "-q", "--soft", "main")
            self._push("Squashed")

    def _push(self, message: str) -> None:
        commit(self._work, message, {"train.py": self._code.text()})
        with self._hub.lock:
            people.push(self._service, self.repo, _BRANCH, self._work, "HEAD", self._dana)

    def _command(self) -> None:
        with self._hub.lock:
            body = self._random.choice(["/preflight help", "/preflight explain PF101"])
            self._commands.append(people.comment(self._service, self.pull, body, self._dana).id)

    def _close(self) -> None:
        with self._hub.lock:
            if self.pull.state == "open":
                people.change_state(self._service, self.pull, "closed", self._dana)

    def _reopen(self) -> None:
        with self._lock, self._hub.lock:
            if _BRANCH not in self.repo.git.branches():
                self.repo.git.set_ref(f"refs/heads/{_BRANCH}", self.pull.head_sha)
            if self.pull.state != "open":
                people.change_state(self._service, self.pull, "reopened", self._dana)
        self.acts.append("reopened")

    def _rerun(self) -> None:
        with self._hub.lock:
            for run in self._hub.runs_on(self.repo, self.pull.head_sha)[-1:]:
                people.rerun(self._service, run, self._dana)

    def _wait(self) -> None:
        """Often until the review is done, else only a moment: the next push comes in the middle of it."""
        if self._random.random() < 0.88:
            end = time.monotonic() + 240
            while time.monotonic() < end and not self._judge().is_clean:
                time.sleep(0.3)
        else:
            time.sleep(self._random.uniform(0.0, 4.0))

    # --- cards --------------------------------------------------------------------------------------------------

    def _arm(self, cards: Iterable[Card]) -> None:
        installation = self._hub.installations_of(self.repo)[0]
        places = {
            "repo": rf"/repos/{self.name}/[^/]+",
            "installation": str(installation.id),
        }
        for card in cards:
            if card.kind == "delivery":
                with self._fates_lock:
                    self._fates.append(card)
                continue
            fault = card.fault(places, lambda what, port, card=card: self._strike(card, what, port))  # type: ignore[misc]
            self._armed.append((card, fault))
            self.rig.hub.service.faults.add(fault)

    def fate(self, delivery: Delivery) -> Fate | None:
        """What becomes of a delivery of this repository."""
        if delivery.repository_id != self.repo.id or delivery.event not in {"pull_request", "issue_comment"}:
            return None
        with self._fates_lock:
            if not self._fates:
                return None
            if delivery.event == "issue_comment" and self._fates[0].what == "lose":
                return None  # nobody can know of a comment that GitHub never told of and does not list as failed
            card = self._fates.pop(0)
        self.played[str(card)] += 1
        return card.what  # type: ignore[return-value]

    def _strike(self, card: Card, what: str, port: int) -> None:
        if card.kind == "kill":
            if self.rig.kill(what, port if what in {"horse", "worker and horse"} else 0):
                self.played[str(card)] += 1
            return
        try:
            self._change_the_world(what)
        except Refusal:
            return
        self.played[str(card)] += 1

    def _change_the_world(self, what: str) -> None:
        if what == "force-push":
            if self.pull.state == "open":
                self._force_push()
        elif what == "branch deleted":
            with self._hub.lock:
                people.delete_branch(self._service, self.repo, _BRANCH, self._dana)
        elif what == "repository renamed":
            with self._hub.lock:
                self._renames += 1
                people.rename(self._service, self.repo, f"trainer-{self._renames}")
        elif what == "tokens expire":
            with self._hub.lock:
                for token in self._hub.rows.tokens.values():
                    if token.installation.account is self.repo.owner:
                        token.expires_at = now() - timedelta(seconds=1)
        elif what == "closed":
            self._close()

    # --- the end ------------------------------------------------------------------------------------------------

    def _rest(self) -> Verdict:
        """Wait until nothing is wrong and nothing is under way; what is wrong after that stays wrong."""
        end = time.monotonic() + self.rest_seconds
        quiet_since = time.monotonic()
        verdict = self._judge()
        while time.monotonic() < end:
            verdict = self._judge()
            if verdict.is_clean and self._is_idle():
                if time.monotonic() - quiet_since > 2.0:
                    break
            else:
                quiet_since = time.monotonic()
            time.sleep(0.5)
        for card, fault in self._armed:
            if card.kind == "answer" and fault.hits:
                self.played[str(card)] += fault.hits
        self.rig.hub.service.faults.remove(fault for _, fault in self._armed)
        return verdict

    def _is_idle(self) -> bool:
        with suppress(redis.RedisError):
            names: Any = self.rig.client.zrange("preflight:reviews", 0, -1)
            return not any(name.startswith(f"{self.repo.id}-".encode()) for name in names)
        return False

    def _judge(self) -> Verdict:
        with self._lock:
            bugs = self._code.bugs()
        has_refusal = any(card.what in REFUSALS and fault.hits for card, fault in self._armed)
        return judge(self._hub, self.rig.app, self.pull, [] if has_refusal else bugs, self._commands)

    @property
    def _service(self) -> Service:
        return self.rig.hub.service

    @property
    def _hub(self) -> Hub:
        return self.rig.hub.service.hub

    @property
    def _dana(self) -> Account:
        return self._hub.account("dana")


def _hands(cards: list[Card], num: int) -> list[list[Card]]:
    return [cards[start::num] for start in range(num)]
