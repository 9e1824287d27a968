"""May a command run: the check of the commit and the estimate here, the stricter one counting."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from bot.core.external_id import external_id
from bot.core.gate import Allow, Check, CheckState, Difference, Here, check_of, decide
from bot.core.launch_states import MAX_PATHS, states_in, states_marker
from estimator.api import Verdict

SHA = "a" * 40
APP, REPO = 7, 99


def _run(state: str | None = "ok", **more: Any) -> dict[str, Any]:
    """A check run as GitHub lists it."""
    is_done = state is not None
    return {
        "id": 1,
        "name": "preflight/memory",
        "head_sha": SHA,
        "app": {"id": APP},
        "status": "completed" if is_done else "in_progress",
        "external_id": external_id(REPO, 3, SHA, 1, state),  # type: ignore[arg-type]
        "output": {"title": "a title", "summary": "", "text": None},
        "html_url": "https://github.example/run/1",
    } | more


def _here(verdict: Verdict = "fits", **more: Any) -> Here:
    given: dict[str, Any] = {"path": "a.slurm", "line": 3, "verdict": verdict, "sources": frozenset({"a.slurm"})}
    return Here(**(given | more))


def test_the_newest_run_of_our_app_for_exactly_this_commit_counts() -> None:
    runs = [_run("exceeds"), _run("ok", id=2)]
    assert check_of(runs, sha=SHA, app_id=APP, repo_id=REPO).state == "ok"
    assert check_of(runs[::-1], sha=SHA, app_id=APP, repo_id=REPO).state == "ok"


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (_run(app={"id": APP + 1}), "absent"),
        (_run(app=None), "absent"),
        (_run(name="preflight/code"), "absent"),
        (_run(head_sha="b" * 40), "absent"),
        (_run(external_id=external_id(REPO, 3, "b" * 40, 1, "ok")), "absent"),
        (_run(external_id=external_id(REPO + 1, 3, SHA, 1, "ok")), "absent"),
        (_run(external_id="somebody's"), "absent"),
        (_run(external_id=None), "absent"),
        (_run(None), "unfinished"),
        (_run(status="queued"), "unfinished"),
        (_run("failed"), "failed"),
        (_run("skipped"), "skipped"),
    ],
)
def test_a_check_that_is_not_ours_or_not_done_is_no_answer(run: dict[str, Any], state: str) -> None:
    check = check_of([run], sha=SHA, app_id=APP, repo_id=REPO)
    assert check.state == state
    assert not decide([_here()], Allow(borderline=True, unknown=True), check=check).is_allowed


def test_no_run_at_all_blocks() -> None:
    assert not decide([_here()], Allow(), check=check_of([], sha=SHA, app_id=APP)).is_allowed


_BLOCKS: dict[tuple[str, bool], bool] = {("exceeds", True): True, ("exceeds", False): True}
_BLOCKS |= {(verdict, lifted): not lifted for verdict in ("borderline", "unknown") for lifted in (True, False)}
_BLOCKS |= {("fits", lifted): False for lifted in (True, False)}


@pytest.mark.parametrize("lifted", [True, False])
@pytest.mark.parametrize("verdict", ["fits", "borderline", "unknown", "exceeds"])
def test_without_a_commit_the_estimate_here_decides(verdict: Verdict, lifted: bool) -> None:
    decision = decide([_here(verdict)], Allow(borderline=lifted, unknown=lifted))
    assert decision.is_allowed is not _BLOCKS[verdict, lifted]
    assert decision.is_allowed or "a.slurm" in decision.blockers[0]


@pytest.mark.parametrize("mode", ["warn", "advisory"])
@pytest.mark.parametrize("verdict", ["borderline", "unknown", "exceeds"])
def test_a_policy_that_only_warns_says_so_and_runs(mode: str, verdict: Verdict) -> None:
    decision = decide([_here(verdict, mode=mode)], Allow())
    assert decision.is_allowed
    assert decision.notes


_WORD: dict[str, Verdict] = {"ok": "fits", "borderline": "borderline", "unknown": "unknown", "exceeds": "exceeds"}


@pytest.mark.parametrize(("state", "verdict"), list(itertools.product(_WORD, _WORD.values())))
def test_the_stricter_answer_counts(state: CheckState, verdict: Verdict) -> None:
    for allow in (Allow(), Allow(borderline=True), Allow(unknown=True), Allow(borderline=True, unknown=True)):
        alone = [decide([_here(answer)], allow).is_allowed for answer in (verdict, _WORD[state])]
        both = decide([_here(verdict)], allow, check=Check(state=state)).is_allowed
        assert both == all(alone), (state, verdict, allow)


def test_an_override_lifts_what_exceeds_at_that_commit_and_nothing_else() -> None:
    check = check_of(
        [_run("overridden", output={"title": "overridden by rita: measured, it fits"})], sha=SHA, app_id=APP
    )
    lifted = decide([_here("exceeds")], Allow(), check=check)
    assert lifted.is_allowed
    assert "rita" in " ".join(lifted.notes)
    assert "measured, it fits" in " ".join(lifted.notes)
    assert "*" not in " ".join(lifted.notes)
    assert not decide([_here("exceeds", is_of_commit=False)], Allow(), check=check).is_allowed
    assert not decide([_here("borderline")], Allow(), check=check).is_allowed
    assert not decide([_here("unknown")], Allow(), check=check).is_allowed
    changed = [Difference("a.slurm", "changed")]
    assert not decide([_here("exceeds")], Allow(), check=check, differences=changed).is_allowed


def test_files_that_are_not_the_commits_are_named_and_block_whatever_the_policy() -> None:
    differences = [Difference(f"f{number}.py", "untracked") for number in range(50)]
    decision = decide([_here(mode="advisory")], Allow(), check=Check(state="ok"), differences=differences)
    assert not decision.is_allowed
    assert "f0.py (untracked)" in decision.blockers[0]
    assert "30 more" in decision.blockers[0]


def test_the_check_speaks_of_the_file_that_is_submitted() -> None:
    check = Check(state="exceeds", launches={"big.slurm": "exceeds", "a.slurm": "ok"})
    assert decide([_here()], Allow(), check=check).is_allowed
    assert not decide([_here(path="big.slurm", sources=frozenset({"big.slurm"}))], Allow(), check=check).is_allowed
    untouched = _here(path="old.slurm", sources=frozenset({"old.slurm"}))
    assert decide([untouched], Allow(), check=check).is_allowed
    assert not decide([_here()], Allow(), check=Check(state="exceeds")).is_allowed


def test_states_survive_their_marker_and_cannot_end_the_comment() -> None:
    marker = states_marker([("a-->b.slurm", "ok"), ("x.slurm", "ok"), ("x.slurm", "exceeds"), ("--y", "unknown")])
    assert marker.count("-->") == 1
    assert states_in(f"{marker}\n\ntext") == {"x.slurm": "exceeds", "--y": "unknown", "a-->b.slurm": "ok"}
    assert states_in(f"text\n{marker}") is None
    assert states_in('<!-- preflight:launches={"a":"free"} -->') is None
    assert states_in(states_marker([])) == {}
    many = states_in(states_marker([(f"{number}.slurm", "ok") for number in range(1_000)] + [("z", "exceeds")]))
    assert many is not None
    assert len(many) == MAX_PATHS
    assert many["z"] == "exceeds"
