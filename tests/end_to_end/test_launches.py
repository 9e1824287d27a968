"""What pull requests do to launch configs, and what the gate makes of it: the whole stack, a clone, an ``sbatch``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests

from bot.core.launch_states import states_in
from bot.demo import sample
from bot.demo.stack import Stack
from tests.end_to_end.scene import CHECKS, Scene, runs

_TRAIN = """\
import argparse

import yaml
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=1)
args = parser.parse_args()
with open("configs/model.yaml") as stream:
    settings = yaml.safe_load(stream)
config = LlamaConfig(
    hidden_size=settings["hidden_size"],
    num_hidden_layers=settings["layers"],
    num_attention_heads=16,
    intermediate_size=settings["intermediate_size"],
    vocab_size=32000,
)
model = LlamaForCausalLM(config)
training = TrainingArguments("out", per_device_train_batch_size=args.batch_size, bf16=True, gradient_checkpointing=True)
Trainer(model=model, args=training).train()
"""
_MODEL = "hidden_size: 2048\nintermediate_size: 5632\nlayers: 24\n"
_JOB = "#!/bin/bash\n#SBATCH --job-name=pretrain\n#SBATCH --gres=gpu:{}:1\n\npython {}\n"
_UNKNOWN = (
    "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
    'model = AutoModelForCausalLM.from_pretrained("acme/nobody-knows")\n'
    'Trainer(model, TrainingArguments("o")).train()\n'
)
_BASE = {
    "train.py": _TRAIN,
    "configs/model.yaml": _MODEL,
    "jobs/pretrain.slurm": _JOB.format("h100", "train.py"),
    "docs/index.md": "# trainer\n",
}
_CHANGES: dict[str, dict[str, str]] = {
    "yaml": {"configs/model.yaml": _MODEL.replace("2048", "8192").replace("5632", "22016")},
    "argparse": {"train.py": _TRAIN.replace("default=1)", "default=16)")},
    "gres": {"jobs/pretrain.slurm": _JOB.format("t4", "train.py")},
    "unknown": {"jobs/new.slurm": _JOB.format("h100", "new.py"), "new.py": _UNKNOWN},
    "docs": {"docs/index.md": "# trainer, explained\n"},
}


@dataclass
class Place:
    """One repository; `numbers` are its pull requests by the name of their branch."""

    scene: Scene
    numbers: dict[str, int]

    def memory(self, branch: str) -> dict[str, Any]:
        """The concluded memory check of a branch's pull request, with the whole of what is seen as ``seen``."""
        self.scene.number = self.numbers[branch]
        # Five reviews are queued at once: the last one waits for all.
        seen = self.scene.stack.hub.until_concluded(self.scene.name, self.scene.number, CHECKS, 240)
        return dict(runs(seen)["preflight/memory"]) | {"seen": seen}


@pytest.fixture(scope="module")
def place(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Place:
    stack.hub.ask("DELETE", "/faults")
    work = tmp_path_factory.mktemp("launches") / "work"
    work.mkdir()
    sample.git(work, "init", "-q", "-b", "main")
    sample.commit(work, "Begin", _BASE)
    name = "launchers/trainer"
    installation = stack.add_repository(name, work, roles={"dana": "write", "wanda": "write"})
    scene, numbers = Scene(stack, work, name, installation), {}
    for branch, files in _CHANGES.items():
        sample.git(work, "checkout", "-q", "-b", branch, "main")
        sample.commit(work, f"Change {branch}", files)
        stack.hub.push(name, branch, work, branch, "dana")
        body = {"title": branch, "base": "main", "head": branch, "user": "dana"}
        numbers[branch] = stack.hub.post(f"/repos/{name}/pulls", **body)["number"]
    return Place(scene, numbers)


@pytest.mark.parametrize(
    ("branch", "conclusion", "states", "said"),
    [
        ("yaml", "failure", {"jobs/pretrain.slurm": "exceeds"}, "arch hidden 2048 -> 8192, ffn 5632 -> 22016"),
        ("gres", "failure", {"jobs/pretrain.slurm": "exceeds"}, "gpu h100 -> t4: jobs/pretrain.slurm:3"),
        ("unknown", "neutral", {"jobs/new.slurm": "unknown"}, "is not in the table"),
        ("docs", "success", {}, ""),
    ],
)
def test_a_pull_request_is_judged_by_what_its_jobs_need(
    place: Place, branch: str, conclusion: str, states: dict[str, str], said: str
) -> None:
    check = place.memory(branch)
    assert check["conclusion"] == conclusion, check["output"]
    assert states_in(check["output"]["text"]) == states
    assert said in check["output"]["text"]
    if states and conclusion != "neutral":
        assert " → **" in check["output"]["summary"], "old -> new"
        line = {"yaml": 5, "gres": 3}[branch]  # of the command, or what the pull request changed in the launch file
        assert [(note["path"], note["start_line"]) for note in check["annotations"]] == [("jobs/pretrain.slurm", line)]
    if branch == "docs":
        assert check["seen"]["conversation"] == []
        assert check["seen"]["reviews"] == []


def test_a_changed_default_shows_its_line_and_how_much_it_moved(place: Place) -> None:
    check = place.memory("argparse")
    assert states_in(check["output"]["text"])
    assert "micro_batch 1 -> 16: train.py:7" in check["output"]["text"]
    assert " → **" in check["output"]["summary"]


def _token(stack: Stack) -> str:
    """A token of the app's installation, as its own worker gets it."""
    key = (stack.directory / "app.pem").read_text()
    now = int(time.time())
    signed = jwt.encode({"iat": now - 30, "exp": now + 300, "iss": str(stack.app_id)}, key, algorithm="RS256")
    api, headers = f"{stack.hub.url}/api/v3", {"Authorization": f"Bearer {signed}"}
    found = requests.get(f"{api}/repos/launchers/trainer/installation", headers=headers, timeout=20).json()
    made = requests.post(f"{api}/app/installations/{found['id']}/access_tokens", headers=headers, timeout=20)
    return str(made.json()["token"])


def test_the_gate_blocks_and_lets_run_by_commit_override_and_tree(place: Place, stack: Stack, tmp_path: Path) -> None:
    scene = place.scene
    place.memory("gres")
    work, head = scene.work, str(scene.seen()["pull"]["head"]["sha"])
    program = tmp_path / "sbatch"
    program.write_text('#!/bin/sh\necho "submitted $*"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "GITHUB_API_URL": f"{stack.hub.url}/api/v3",
        "GITHUB_TOKEN": _token(stack),
        "PREFLIGHT_APP_ID": str(stack.app_id),
    }

    def gate(sha: str, *more: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "preflight", "gate", "--sha", sha, "--repository", scene.name, *more,
             "--", "sbatch", "jobs/pretrain.slurm"],
            cwd=work, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    sample.git(work, "checkout", "-q", "gres")
    code, out, err = gate(head)
    assert (code, out) == (1, ""), err
    scene.comment(f"/preflight override memory {head} measured on the node", "wanda")
    stack.hub.until(lambda: ":overridden" in runs(scene.seen())["preflight/memory"]["external_id"], 90, "the override")
    code, out, err = gate(head)
    assert (code, out) == (0, "submitted jobs/pretrain.slurm\n"), err
    assert "wanda" in err
    assert "measured on the node" in err
    (work / "train.py").write_text(_TRAIN + "# dirty\n")
    code, out, err = gate(head)
    assert (code, out) == (1, "")
    assert "train.py (changed)" in err
    sample.git(work, "checkout", "-q", "--", "train.py")

    sample.git(work, "checkout", "-q", "main")
    sample.git(work, "merge", "-q", "--no-ff", "-m", "Merge docs", "docs")
    merge = stack.hub.push(scene.name, "main", work, "main", "dana")
    stack.hub.until(lambda: _finished(scene, merge), 120, "the check of the merge commit")
    code, out, err = gate(merge)
    assert (code, out) == (0, "submitted jobs/pretrain.slurm\n"), err


def _finished(scene: Scene, sha: str) -> bool:
    """Whether the merge commit has its answer."""
    headers = {"Authorization": f"Bearer {_token(scene.stack)}"}
    url = f"{scene.stack.hub.url}/api/v3/repos/{scene.name}/commits/{sha}/check-runs"
    listed = requests.get(url, headers=headers, timeout=20).json()["check_runs"]
    return any(run["status"] == "completed" and run["name"] == CHECKS[1] for run in listed)
