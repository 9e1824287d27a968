"""The pre-commit hook and the GitHub Action, run as a user's repository runs them, installed from a checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.timeout(900)  # two installations from the package index
ROOT = Path(__file__).parents[2]
BUGGY = """import torch
from torch import nn, optim


def train(model: nn.Module, loader, opt: optim.Optimizer):
    criterion = nn.CrossEntropyLoss()
    model.train()
    for x, y in loader:
        loss = criterion(torch.softmax(model(x), dim=1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
CLEAN = BUGGY.replace("torch.softmax(model(x), dim=1)", "model(x)")


def run(*command: str, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=None if env is None else dict(env), capture_output=True, text=True, check=False
    )


def git(*words: str, cwd: Path) -> str:
    names = ("-c", "user.name=Dana", "-c", "user.email=dana@example.org", "-c", "commit.gpgsign=false")
    done = run("git", *names, *words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in the working tree, as a repository with one commit."""
    folder = tmp_path_factory.mktemp("ours") / "preflight"
    listed = git("ls-files", "-co", "--exclude-standard", "-z", "--", ".", ":!tests", ":!docs/images", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    git("init", "-q", "-b", "main", cwd=folder)
    git("add", ".", cwd=folder)
    git("commit", "-q", "-m", "all", cwd=folder)
    return folder


def documented(name: str) -> Any:
    """The file that docs/ci.md tells a user to write."""
    blocks = re.findall(r"```yaml\n# (\S+)\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(), re.DOTALL)
    return yaml.safe_load(dict(blocks)[name])


def project(folder: Path, source: str) -> Path:
    """Somebody's repository, with folders that have the names of our packages."""
    folder.mkdir()
    for name in ("bot", "analyzer", "estimator"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('their code ran')\n")
    (folder / "train.py").write_text(source)
    git("init", "-q", "-b", "main", cwd=folder)
    git("add", ".", cwd=folder)
    return folder


# --- pre-commit -------------------------------------------------------------------------------------------------


def test_the_hook_stops_a_commit_with_a_bug_and_lets_the_fixed_one_pass(checkout: Path, tmp_path: Path) -> None:
    theirs = project(tmp_path / "theirs", BUGGY)
    config = documented(".pre-commit-config.yaml")
    config["repos"][0] |= {"repo": str(checkout), "rev": git("rev-parse", "HEAD", cwd=checkout)}
    (theirs / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    cells = [{"cell_type": "code", "source": BUGGY}]
    (theirs / "train.ipynb").write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": cells}))
    git("add", ".", cwd=theirs)
    command = (sys.executable, "-m", "pre_commit", "run", "--color", "never")
    env = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    done = run(*command, cwd=theirs, env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "train.py:9:" in done.stdout
    assert "train.ipynb:cell 1:9:" in done.stdout
    assert done.stdout.count(" error PF204 ") == 2
    (theirs / "train.py").write_text(CLEAN)
    (theirs / "train.ipynb").unlink()
    git("add", ".", cwd=theirs)
    done = run(*command, cwd=theirs, env=env)
    assert (done.returncode, "Passed" in done.stdout) == (0, True), done.stdout + done.stderr


# --- the Action -------------------------------------------------------------------------------------------------


class Runner:
    """What GitHub's runner does with a composite action, as far as ours goes."""

    def __init__(self, checkout: Path, temp: Path) -> None:
        self.folder = checkout / "deploy" / "action"
        self.action: dict[str, Any] = yaml.safe_load((self.folder / "action.yml").read_text())
        self.temp = temp
        self.installed: dict[str, str] = {}

    def run(self, cwd: Path, **inputs: str) -> tuple[int, str, dict[str, dict[str, str]], str]:
        """Exit code, log, outputs of the steps and the job's summary. Preflight is installed once."""
        given = {name: item["default"] for name, item in self.action["inputs"].items()}
        given |= {"python": sys.executable} | {name.replace("_", "-"): value for name, value in inputs.items()}
        outputs: dict[str, dict[str, str]] = {"install": self.installed} if self.installed else {}
        summary, log = self.temp / "summary", ""
        summary.write_text("")
        for step in self.action["runs"]["steps"]:
            if step.get("id") in outputs or "uses" in step:
                continue
            file = self.temp / "output"
            file.write_text("")
            env = {name: self.value(text, given, outputs) for name, text in step.get("env", {}).items()}
            env |= {"GITHUB_OUTPUT": str(file), "GITHUB_STEP_SUMMARY": str(summary), "RUNNER_TEMP": str(self.temp)}
            env |= {**os.environ, "GITHUB_ACTION_PATH": str(self.folder), **env}
            done = run("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"], cwd=cwd, env=env)
            log += done.stdout + done.stderr
            outputs[step.get("id", "")] = dict(line.split("=", 1) for line in file.read_text().splitlines())
            if done.returncode:
                return done.returncode, log, outputs, summary.read_text()
        self.installed = outputs["install"]
        return 0, log, outputs, summary.read_text()

    @staticmethod
    def value(text: str, inputs: Mapping[str, str], outputs: Mapping[str, Mapping[str, str]]) -> str:
        """A value with its ``${{ … }}`` filled in."""

        def fill(match: re.Match[str]) -> str:
            words = match[1].split(".")
            return inputs[words[1]] if words[0] == "inputs" else outputs[words[1]][words[3]]

        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", fill, text)


@pytest.fixture(scope="module")
def runner(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """One runner whose Preflight is installed by the action itself."""
    ready = Runner(checkout, tmp_path_factory.mktemp("runner"))
    empty = tmp_path_factory.mktemp("empty")
    code, log, _, _ = ready.run(empty)
    assert code == 0, log
    return ready


def test_the_action_annotates_summarises_writes_sarif_and_fails_as_told(runner: Runner, tmp_path: Path) -> None:
    theirs = project(tmp_path / "theirs", BUGGY)
    code, log, outputs, summary = runner.run(theirs)
    assert code == 1
    assert "::error file=train.py,line=9," in log
    assert summary.startswith("### Preflight: 1 error in 4 files\n")
    assert outputs["check"]["findings"] == "1"
    sarif = json.loads(Path(outputs["check"]["sarif"]).read_text())
    assert [item["ruleId"] for item in sarif["runs"][0]["results"]] == ["PF204"]
    step = documented(".github/workflows/preflight.yml")["jobs"]["check"]["steps"][-1]
    assert step["uses"].startswith("preflight-bot/preflight/deploy/action@")
    (theirs / "src").mkdir()
    assert runner.run(theirs, **step["with"])[0] == 1
    assert runner.run(theirs, fail_on="never")[0] == 0
    assert runner.run(theirs, ignore="PF204")[0] == 0
    assert runner.run(theirs, paths="analyzer\nbot\n")[0] == 0


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"paths": "missing.py"}, "missing.py: no such file"),
        ({"select": "PF999"}, "no rule 'PF999'"),
        ({"paths": "$(touch ran)`touch ran`; touch ran"}, "no such file"),
        ({"fail-on": "often"}, "invalid choice"),
    ],
)
def test_wrong_and_hostile_inputs_fail_and_run_nothing(
    runner: Runner, tmp_path: Path, inputs: dict[str, str], message: str
) -> None:
    theirs = project(tmp_path / "theirs", CLEAN)
    code, log, _, _ = runner.run(theirs, **inputs)
    assert (code, message in log) == (2, True), log
    assert not (theirs / "ran").exists()


def test_a_script_of_the_action_holds_no_expression_and_foreign_steps_are_pinned() -> None:
    steps = yaml.safe_load((ROOT / "deploy" / "action" / "action.yml").read_text())["runs"]["steps"]
    assert [step["name"] for step in steps if "${{" in step.get("run", "")] == []
    foreign = [step["uses"] for step in steps if "uses" in step]
    assert all(re.fullmatch(r"[\w-]+/[\w/-]+@v\d+", name) for name in foreign)
