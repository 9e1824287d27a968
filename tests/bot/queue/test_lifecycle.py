"""A comment's life over several pushes, through the whole stack: said once, closed when fixed, opened again."""

from __future__ import annotations

from typing import Any

from bot.core.ledger import Ignored, Ledger, Override
from bot.core.seal import seal, without_seal
from bot.localhub import talk
from bot.localhub.faults import Fault
from bot.localhub.model import ReviewComment
from bot.render.summary import SUMMARY_MARKER
from tests.bot.queue.stack import TRAIN, Stack
from tests.localhub.world import git
from tests.support import wait_for

STORED = "losses.append(loss)"
FIXED = TRAIN.replace(STORED, "losses.append(loss.item())")


def settled(stack: Stack, number: int) -> dict[str, Any]:
    """What a person sees once the head is reviewed."""
    stack.concluded(number)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 60, "nothing is open")
    return stack.show(number)


def of_rule(stack: Stack, rule: str) -> ReviewComment:
    """The one comment about `rule`."""
    rows = stack.hub.service.hub.rows.review_comments.values()
    (found,) = [one for one in rows if one.in_reply_to is None and f"**{rule} " in one.body]
    return found


def summary(shown: dict[str, Any]) -> str:
    """The one summary."""
    (found,) = [one["body"] for one in shown["conversation"] if one["body"].startswith("<!-- preflight:summary -->")]
    return str(found)


def test_a_comment_is_closed_by_an_edit_and_comes_back_through_a_flush(stack: Stack) -> None:
    """Without ``contents: write``; Redis is emptied between the pushes, and the branch is rewritten."""
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    first = settled(stack, number)
    said = of_rule(stack, "PF101").body
    num_said = len(first["review_comments"])
    assert num_said >= 2

    stack.client.flushall()
    stack.push("feature", {"train.py": "# shifted\n\n" + FIXED})
    shown = settled(stack, number)
    gone = of_rule(stack, "PF101")
    head = shown["pull"]["head"]["sha"]
    assert f"> **Fixed** in `{head[:12]}`." in gone.body
    assert gone.body.startswith(said.split("\n")[0])
    assert gone.minimized_reason == "resolved"
    assert not gone.is_resolved
    assert of_rule(stack, "PF201").minimized_reason is None
    assert "PF101" not in summary(shown)

    stack.client.flushall()
    git(stack.work, "commit", "--amend", "-q", "-m", "another message")
    stack.push("feature", {"train.py": None, "src/train.py": TRAIN, "train.slurm": None})
    shown = settled(stack, number)
    assert len(shown["review_comments"]) == num_said
    back = of_rule(stack, "PF101")
    assert (back.body, back.minimized_reason) == (said, None)
    assert "PF101" in summary(shown)


def test_threads_are_resolved_where_it_is_granted_and_never_those_of_people(stack: Stack) -> None:
    hub = stack.hub.service.hub
    for installation in hub.rows.installations.values():
        installation.permissions["contents"] = "write"
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    num_said = len(settled(stack, number)["review_comments"])
    answered, said = of_rule(stack, "PF201"), of_rule(stack, "PF201").body
    with hub.lock:
        talk.reply(stack.hub.service, answered, "We clear them in the hook.", hub.rows.accounts["dana"])

    stack.push(
        "feature", {"train.py": FIXED.replace("loss.backward()", "optimizer.zero_grad()\n        loss.backward()")}
    )
    settled(stack, number)
    gone = of_rule(stack, "PF101")
    assert (gone.is_resolved, gone.minimized_reason) == (True, None)
    assert "Fixed" not in gone.body
    assert (answered.is_resolved, answered.body, answered.minimized_reason) == (False, said, None)

    stack.push("feature", {"train.py": TRAIN})
    shown = settled(stack, number)
    assert not of_rule(stack, "PF101").is_resolved
    assert len([one for one in shown["review_comments"] if one["user"]["type"] == "Bot"]) == num_said

    with hub.lock:
        gone.is_resolved, gone.resolved_by = True, hub.rows.accounts["dana"]
    stack.push("feature", {"notes.txt": "a person resolved it\n"})
    settled(stack, number)
    assert gone.is_resolved


def test_a_forged_ledger_is_not_believed_and_a_decision_beats_a_running_review(stack: Stack) -> None:
    hub = stack.hub.service.hub
    stack.serve()
    stack.work_on(2)
    number = stack.open_pull()
    first = settled(stack, number)
    num_said, head = len(first["review_comments"]), first["pull"]["head"]["sha"]
    forged = Ledger(
        ignores=(Ignored(rule="PF101", reason="", who="dana", when="", head_sha=head),),
        overrides=(Override(check="memory", sha=head, reason="", who="dana", when=""),),
    )
    with hub.lock:
        (row,) = [one for one in hub.rows.issue_comments.values() if one.body.startswith(SUMMARY_MARKER)]
        row.body = f"{without_seal(row.body)}\n\n{seal(forged, 1001, number, b'somebody elses key')}"
    stack.control("POST", f"/check-runs/{first['check_runs'][0]['id']}/rerun", {"user": "dana"})
    wait_for(lambda: "was not believed" in summary(stack.show(number)), 60, "the forgery is said")
    shown = settled(stack, number)
    assert "PF101" in summary(shown)
    assert not any(run["external_id"].endswith(":overridden") for run in shown["check_runs"])
    assert len(shown["review_comments"]) == num_said

    with hub.lock:  # somebody deletes our comment: it is not written again
        gone = of_rule(stack, "PF101")
        gone.review.comments.remove(gone)
        del hub.rows.review_comments[gone.id]
    slow = stack.hub.service.faults.add(Fault(kind="delay", method="GET", path=r"/compare/", seconds=4))
    stack.push("feature", {"notes.txt": "while this is reviewed, somebody decides\n"})
    wait_for(lambda: slow.hits, 60, "the review runs")
    where = f"/repos/{stack.repo}/pulls/{number}/comments"
    stack.control("POST", where, {"user": "dana", "body": "/preflight dismiss PF201 the hook clears them"})
    wait_for(lambda: "the hook clears them" in summary(stack.show(number)), 60, "the decision is listed")
    shown = settled(stack, number)
    assert "the hook clears them" in summary(shown)
    assert "PF201" not in summary(shown).partition("Decided")[0]
    assert len(shown["review_comments"]) == num_said - 1
    assert "**Dismissed** by `dana`" in of_rule(stack, "PF201").body
