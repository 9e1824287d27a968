"""Many stories beside each other on one rig, and the sum of what happened."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.localhub.model import Delivery
from bot.localhub.webhooks import Fate
from tests.faults.cards import Card, deck
from tests.faults.rig import Rig
from tests.faults.story import Story
from tests.faults.verdict import Verdict


@dataclass(slots=True)
class Totals:
    """What was played and what was wrong, over all stories so far."""

    stories: int = 0
    reviews: int = 0
    failed: int = 0
    played: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    hanging: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Of the stories that came to rest."""

    def add(self, name: str, verdict: Verdict, played: Counter[str]) -> None:
        """One story came to rest."""
        self.stories += 1
        self.names.append(name)
        self.reviews += verdict.reviews
        self.failed += verdict.failed
        self.played += played
        for kind in ("lost", "doubled", "hanging"):
            getattr(self, kind).extend(f"{name}: {text}" for text in getattr(verdict, kind))

    @property
    def faults(self) -> int:
        return sum(self.played.values())

    def to_json(self) -> dict[str, Any]:
        """For the file that a later batch goes on from."""
        return {name: getattr(self, name) for name in self.__slots__}

    def save(self, path: Path) -> None:
        """Whole or not at all."""
        half = path.with_suffix(".part")
        half.write_text(json.dumps(self.to_json(), indent=1), encoding="utf-8")
        half.replace(path)

    @classmethod
    def load(cls, path: Path) -> Totals:
        """Those of earlier batches; none where there is no file."""
        if not path.exists():
            return cls()
        document = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**document, "played": Counter(document["played"])})


def hand(seed: str, number: int, size: int) -> list[Card]:
    """The cards of story `number`: the shuffled deck is dealt in turn, again and again."""
    cards = deck()
    dealt: list[Card] = []
    for place in range(number * size, (number + 1) * size):
        lap, index = divmod(place, len(cards))
        if not dealt or index == 0:
            cards = deck()
            random.Random(f"{seed}-{lap}").shuffle(cards)
        dealt.append(cards[index])
    return dealt


class Season:
    """Plays stories on one rig. `unrest` seconds on average between two kills at a random moment (0: none)."""

    def __init__(self, rig: Rig, seed: str, totals: Totals, *, unrest: float = 0.0, file: Path | None = None) -> None:
        """`file` gets the totals after each story."""
        self._rig, self._seed, self._totals, self._unrest, self._file = rig, seed, totals, unrest, file
        self._stories: dict[int, Story] = {}
        self._lock = threading.Lock()
        rig.hub.service.dispatcher.mischief = self._fate

    def deal(self, numbers: Iterable[int], cards: int, acts: int = 3) -> list[Story]:
        """The stories of these numbers; a story's schedule depends on the seed and its number alone."""
        return [
            Story(self._rig, f"s{number}", f"{self._seed}-{number}", acts, hand(self._seed, number, cards))
            for number in numbers
        ]

    def play(self, stories: Iterable[Story], *, at_once: int) -> None:
        """So many beside each other; the rig is killed at random moments meanwhile."""
        over = threading.Event()
        chaos = threading.Thread(target=self._kill_at_random, args=[over], daemon=True)
        chaos.start()
        with ThreadPoolExecutor(at_once) as pool:
            for found in [pool.submit(self._play, story) for story in stories]:
                found.result()
        over.set()
        chaos.join(5)

    def _play(self, story: Story) -> None:
        story.prepare()
        with self._lock:
            self._stories[story.repo.id] = story
        verdict = story.run()
        with self._lock:
            del self._stories[story.repo.id]
            self._totals.add(story.name, verdict, story.played)
            if self._file is not None:
                self._totals.save(self._file)
            mark = "ok" if verdict.is_clean else "WRONG"
            print(
                f"{story.name}: {mark}, {verdict.reviews} reviews ({verdict.failed} said failed),"
                f" {sum(story.played.values())} faults of {len(story.cards)} cards, {', '.join(story.acts)}"
                f" {'; '.join([*verdict.lost, *verdict.doubled, *verdict.hanging])}",
                flush=True,
            )

    def _fate(self, delivery: Delivery) -> Fate | None:
        story = self._stories.get(delivery.repository_id or 0)
        return story.fate(delivery) if story is not None else None

    def _kill_at_random(self, over: threading.Event) -> None:
        dice = random.Random(f"{self._seed}-unrest")
        while self._unrest > 0 and not over.wait(dice.expovariate(1 / self._unrest)):
            victim = dice.choice(["horse", "horse", "worker", "worker and horse", "supervisor", "web process", "redis"])
            if self._rig.kill(victim):
                with self._lock:
                    self._totals.played[f"kill: {victim} at a random moment"] += 1
