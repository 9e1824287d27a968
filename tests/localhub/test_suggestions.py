"""Suggestions: applied byte for byte, refused where GitHub refuses."""

from __future__ import annotations

import pytest

from bot.localhub import people
from bot.localhub.errors import Refusal
from bot.localhub.suggestions import Change, apply_changes, suggestion_in
from tests.localhub.world import HEAD, World


@pytest.mark.parametrize(
    ("content", "changes", "expected"),
    [
        (b"a\nb\nc\n", [Change(2, 2, "B\n")], b"a\nB\nc\n"),
        (b"a\nb\nc\n", [Change(2, 3, "")], b"a\n"),
        (b"a\nb\nc\n", [Change(1, 1, "1\n1.5\n"), Change(3, 3, "3\n")], b"1\n1.5\nb\n3\n"),
        (b"\ta\r\nb\r\n", [Change(1, 1, "\tA\n")], b"\tA\r\nb\r\n"),
        (b"a\nb", [Change(1, 1, "A\n")], b"A\nb"),
        (b"a\nb", [Change(2, 2, "B\n")], b"a\nB\n"),
        ("é\x0c\u2028\nb\n".encode(), [Change(2, 2, "ü\n")], "é\x0c\u2028\nü\n".encode()),
    ],
)
def test_lines_are_replaced_and_nothing_else(content: bytes, changes: list[Change], expected: bytes) -> None:
    assert apply_changes(content, changes) == expected


@pytest.mark.parametrize(
    "changes", [[Change(1, 1, "a\n")], [Change(1, 2, "x\n"), Change(2, 2, "y\n")], [Change(9, 9, "x\n")]]
)
def test_no_change_an_overlap_and_a_line_beyond_the_end_are_refused(changes: list[Change]) -> None:
    with pytest.raises(Refusal):
        apply_changes(b"a\nb\n", changes)


def test_a_longer_fence_keeps_the_backticks_inside() -> None:
    assert suggestion_in("Use this:\n\n````suggestion\n```py\n````\n") == "```py\n"
    assert suggestion_in("```python\nx\n```\n") is None


def test_applying_makes_a_commit_and_tells(world: World) -> None:
    entry = {"path": "train.py", "line": 4, "start_line": 3, "start_side": "RIGHT", "side": "RIGHT"}
    entry["body"] = "Back:\n\n```suggestion\nline 3\n```"
    body = {"commit_id": world.pull.head_sha, "event": "COMMENT", "body": "b", "comments": [entry]}
    world.call("POST", "/pulls/1/reviews", body)
    service, old = world.server.service, world.pull.head_sha
    dana = service.hub.account("dana")
    with service.hub.lock:
        chosen = service.hub.comments_of(world.pull)
        sha = people.apply_suggestions(service, world.pull, chosen, dana)
        assert world.pull.head_sha == sha
        blob = world.repo.git.entry(sha, "train.py")
        assert blob is not None
        expected = HEAD.replace("line three\nline three and a half\n", "line 3\n").encode()
        assert world.repo.git.blob(blob.sha) == expected
        with pytest.raises(Refusal, match="Validation Failed"):  # its lines are gone: outdated
            people.apply_suggestions(service, world.pull, chosen, dana)
        people.change_state(service, world.pull, "closed", dana)
        with pytest.raises(Refusal):
            people.apply_suggestions(service, world.pull, chosen, dana)
    assert world.pull.past_heads == [old]
    events = [(one.event, one.action) for one in service.hub.rows.deliveries.values()]
    assert ("pull_request", "synchronize") in events
