"""Pushes to the default branch get a memory check of every launch config, through the whole stack."""

from __future__ import annotations

import os
import signal

from bot.core.external_id import parse_external_id
from bot.core.launch_states import states_in
from bot.localhub.faults import Fault
from bot.localhub.model import CheckRun
from tests.bot.queue.stack import Stack
from tests.bot.queue.test_deaths import _worker_and_horse
from tests.localhub.world import git
from tests.support import wait_for

_MODEL = "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\nimport sys\nmodel = {}\n{}\n"
_TRAIN = _MODEL.format('AutoModelForCausalLM.from_pretrained("{}")', 'Trainer(model, TrainingArguments("o")).train()')
_JOB = "#!/bin/bash\n#SBATCH --gres=gpu:{}:1\npython {}\n"
_FILES: dict[str, bytes | str | None] = {
    "small.py": _TRAIN.format("gpt2"),
    "big.py": _TRAIN.format("meta-llama/Llama-2-7b-hf"),
    "jobs/fits.slurm": _JOB.format("h100", "small.py"),
    "jobs/big.slurm": _JOB.format("t4", "big.py"),
}


def _runs(stack: Stack, sha: str) -> list[CheckRun]:
    hub = stack.hub.service.hub
    with hub.lock:
        return list(hub.runs_on(hub.repository(*stack.repo.split("/")), sha))


def _concluded(stack: Stack, sha: str, count: int = 1) -> list[CheckRun]:
    wait_for(lambda: sum(run.status == "completed" for run in _runs(stack, sha)) >= count, 120, f"checks on {sha}")
    return _runs(stack, sha)


def _quiet(stack: Stack) -> None:
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 30, "nothing is open")


def test_merge_and_later_pushes_each_have_an_answer_for_every_launch_file(stack: Stack) -> None:
    stack.serve()
    stack.work_on()
    slow = stack.hub.service.faults.add(Fault(kind="delay", method="GET", path=r"/git/trees/", seconds=2))
    git(stack.work, "checkout", "-q", "main")
    first = stack.push("main", _FILES, "launch files")
    wait_for(lambda: slow.hits, 60, "the first commit is read")
    git(stack.work, "checkout", "-q", "-b", "topic", "HEAD~1")
    stack.push("topic", {"README.md": "changed\n"})
    git(stack.work, "checkout", "-q", "main")
    git(stack.work, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    merge = stack.push("main", {"notes.txt": "x\n"}, "after the merge")
    for sha in (first, merge):
        (run,) = _concluded(stack, sha)
        known = parse_external_id(run.external_id)
        assert known is not None
        assert (run.name, run.conclusion, known.state, known.sha) == ("preflight/memory", "failure", "exceeds", sha)
        assert states_in(run.text) == {"jobs/big.slurm": "exceeds", "jobs/fits.slurm": "ok"}
        assert [(note["path"], note["start_line"]) for note in run.annotations] == [("jobs/big.slurm", 3)]
        assert run.title == "2 launch configs: 1 cannot fit, 1 fit"
    _quiet(stack)
    stack.control("POST", f"/check-runs/{_runs(stack, first)[0].id}/rerun", {"user": "dana"})
    again = _concluded(stack, first, 2)
    assert {run.conclusion for run in again} == {"failure"}
    again[0].actions = [{"label": "Re-run", "description": "Once more", "identifier": "rerun"}]  # as where it failed
    stack.control("POST", f"/check-runs/{again[0].id}/press", {"user": "dana", "identifier": "rerun"})
    assert len(_concluded(stack, first, 3)) == 3
    _quiet(stack)


def test_a_killed_worker_leaves_no_check_of_a_push_hanging(stack: Stack) -> None:
    stack.serve()
    stack.work_on()
    slow = stack.hub.service.faults.add(Fault(kind="delay", method="GET", path=r"/git/trees/", seconds=40))
    git(stack.work, "checkout", "-q", "main")
    sha = stack.push("main", _FILES, "launch files")
    wait_for(lambda: slow.hits, 60, "the commit is read")
    for pid in _worker_and_horse(stack):
        os.kill(pid, signal.SIGKILL)
    (run,) = _concluded(stack, sha)
    assert run.conclusion == "failure"
    _quiet(stack)
