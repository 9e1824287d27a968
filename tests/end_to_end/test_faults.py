"""The fault suite in small: each kind of fault once, over a few reviews. ``benchmarks/faults.py`` is the large one."""

from __future__ import annotations

from pathlib import Path

from tests.faults.cards import Card
from tests.faults.rig import Rig
from tests.faults.season import Season, Totals
from tests.faults.story import Story

_KILLS = [
    Card("kill", "horse", "post review", "before"),
    Card("delivery", "twice"),
    Card("answer", "answer lost", "start check"),
    Card("kill", "redis", "read files", "after"),
    Card("answer", "502 three times", "conclude check", "after"),
    Card("kill", "worker and horse", "conclude check", "after"),
]
_CHANGES = [
    Card("world", "tokens expire", "start check"),
    Card("delivery", "fail"),
    Card("answer", "429 with Retry-After", "post review"),
    Card("world", "repository renamed", "read files"),
    Card("answer", "500", "post review", "after"),
    Card("world", "force-push", "conclude check"),
    Card("kill", "supervisor", "post comment", "after"),
    Card("kill", "web", "start check", "before"),
]


def test_nothing_is_lost_doubled_or_left_hanging(tmp_path: Path) -> None:
    totals = Totals()
    with Rig(tmp_path / "rig") as rig:
        season = Season(rig, "small", totals)
        stories = [
            Story(rig, f"s{number}", f"small-{number}", num_acts=1, cards=cards, rest_seconds=300.0, script=[act])
            for number, (cards, act) in enumerate([(_KILLS, "push_bug"), (_CHANGES, "push_bug")])
        ]
        season.play(stories, at_once=2)
        tail = rig.tail()
    assert (totals.lost, totals.doubled, totals.hanging) == ([], [], []), tail
    assert totals.failed == 0, tail
    assert totals.reviews >= 2
    played = set(totals.played)
    assert {str(card) for card in [*_KILLS[:4], *_CHANGES[:5]]} <= played, sorted(played)
