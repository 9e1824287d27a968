"""``preflight gate``: a real git repository, a real hub, and an ``sbatch`` that only says what it was given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.cli.main import run
from bot.core.external_id import external_id
from bot.core.launch_states import states_marker
from bot.localhub.server import Server
from bot.localhub.state import AppSpec
from tests.localhub.world import PERMISSIONS, app_key, commit, git

TRAIN = """
import argparse, torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import helper
p = argparse.ArgumentParser()
p.add_argument("--model", default="gpt2")
a = p.parse_args()
model = AutoModelForCausalLM.from_pretrained(a.model)
Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=2, bf16=True)).train()
"""
FITS = "#!/bin/bash\n#SBATCH --gres=gpu:h100:1\npython train.py --model gpt2\n"
BIG = "#!/bin/bash\n#SBATCH --gres=gpu:t4:1\npython train.py --model meta-llama/Llama-2-7b-hf\n"
SBATCH = '#!/bin/sh\nfor word in "$0" "$@"; do printf "<%s>" "$word"; done\n'


class _Replaced(BaseException):
    """The process would be another program now."""


@dataclass(frozen=True)
class Done:
    """How the gate ended: `ran` is the argument vector that replaced it, None where nothing ran."""

    code: int
    ran: list[str] | None
    said: str


@dataclass
class Site:
    """A login node: `work` is the clone, `bin` holds its ``sbatch``."""

    work: Path
    bin: Path
    patch: pytest.MonkeyPatch
    output: pytest.CaptureFixture[str]

    def gate(self, *words: str) -> Done:
        """Everything but the last step, which replaces the process."""
        ran: list[list[str]] = []

        def replace(program: str, argv: list[str]) -> None:
            ran.append([program, *argv[1:]])
            raise _Replaced

        self.patch.setattr(os, "execv", replace)
        code = 0
        try:
            code = run(["gate", *words])
        except _Replaced:
            pass
        except SystemExit as end:  # what argparse says about options
            code = int(end.code or 0)
        seen = self.output.readouterr()
        return Done(code, ran[0] if ran else None, seen.out + seen.err)

    def process(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The whole of it."""
        return subprocess.run(
            [sys.executable, "-I", "-m", "preflight", "gate", *words],
            env={"PATH": f"{self.bin}:{os.environ['PATH']}", "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Site:
    work, programs = tmp_path / "work", tmp_path / "bin"
    work.mkdir()
    programs.mkdir()
    (programs / "sbatch").write_text(SBATCH)
    (programs / "sbatch").chmod(0o755)
    git(work, "init", "-q", "-b", "main")
    launches = {"fits.slurm": FITS, "old.slurm": FITS, "big.slurm": BIG, "wide.slurm": BIG.replace("t4", "h100")}
    commit(work, "start", {"train.py": TRAIN, "helper.py": "", **launches})
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for name in ("PREFLIGHT_GATE_URL", "GITHUB_TOKEN", "GH_TOKEN", "MODEL"):
        monkeypatch.delenv(name, raising=False)
    return Site(work, programs, monkeypatch, capsys)


def test_a_job_that_fits_runs_word_for_word_and_its_output_is_its_own(site: Site) -> None:
    words = ["sbatch", "--comment", 'a  b"$(touch owned)`id`', "fits.slurm", "--", "*"]
    done = site.process("--local", "--", *words)
    given = [str(site.bin / "sbatch"), *words[1:]]
    assert (done.returncode, done.stdout) == (0, "".join(f"<{word}>" for word in given))
    assert "fits" in done.stderr
    assert not (site.work / "owned").exists()


def test_a_job_that_cannot_fit_is_blocked_with_what_would_fit(site: Site) -> None:
    done = site.gate("--local", "--", "sbatch", "big.slurm")
    assert (done.code, done.ran) == (1, None)
    assert "blocked: big.slurm:3 cannot fit its GPU" in done.said
    assert "would fit: " in done.said
    assert site.gate("--local", "--allow-borderline", "--allow-unknown", "--", "sbatch", "big.slurm").ran is None


def test_the_policy_of_the_work_tree_does_not_count(site: Site) -> None:
    (site.work / ".github").mkdir()
    (site.work / ".github/preflight.yml").write_text("mode: {memory: advisory}\n")
    assert site.gate("--local", "--", "sbatch", "big.slurm").code == 1
    commit(site.work, "policy", {})
    git(site.work, "checkout", "-q", "-b", "feature")
    done = site.gate("--local", "--", "sbatch", "big.slurm")
    assert done.ran == [str(site.bin / "sbatch"), "big.slurm"]
    assert "policy: main at" in done.said
    (site.work / "strict.yml").write_text("mode: {memory: block}\n")
    assert site.gate("--local", "--policy", "strict.yml", "--", "sbatch", "big.slurm").code == 1


def test_a_dry_run_says_the_same_as_json_and_runs_nothing(site: Site) -> None:
    done = site.gate("--local", "--dry-run", "--format", "json", "--", "sbatch", "big.slurm")
    document = json.loads(done.said)
    assert (done.code, document["allowed"], document["version"]) == (1, False, 1)
    assert [(item["path"], item["verdict"]) for item in document["launches"]] == [("big.slurm", "exceeds")]
    fine = site.gate("--local", "--dry-run", "--", "sbatch", "fits.slurm")
    assert (fine.code, fine.ran) == (0, None)


@pytest.mark.parametrize(
    "words",
    [
        ("--", "sbatch", "fits.slurm"),
        ("--local", "--sha", "a" * 40, "--", "sbatch", "fits.slurm"),
        ("--local",),
        ("--sha", "abc123", "--", "sbatch", "fits.slurm"),
        ("--sha", "a" * 40, "--", "sbatch", "fits.slurm"),
        ("--local", "--policy", "nothing.yml", "--", "sbatch", "fits.slurm"),
        ("--local", "--allow-unknown", "--", "no-such-command", "fits.slurm"),
    ],
)
def test_a_gate_that_cannot_be_asked_exits_2_and_runs_nothing(site: Site, words: tuple[str, ...]) -> None:
    done = site.gate(*words)
    assert (done.code, done.ran) == (2, None)


@pytest.mark.parametrize("name", ["outside", "link", "folder", "pipe", "large", "secret"])
def test_a_script_that_is_not_plain_text_of_this_tree_is_not_run_unread(site: Site, name: str) -> None:
    """Links, ``..``, pipes, and what is too large to be read: slurm would run it all the same."""
    outside = site.work.parent / "outside"
    outside.mkdir()
    (outside / "x.slurm").write_text(FITS)
    places = {"outside": "../outside/x.slurm", "folder": "elsewhere/x.slurm", "secret": "/etc/passwd"}
    (site.work / "elsewhere").symlink_to(outside)
    (site.work / "link.slurm").symlink_to("fits.slurm")
    os.mkfifo(site.work / "pipe.slurm")
    (site.work / "large.slurm").write_text("#!/bin/bash\n" + "#" * (9 << 20))
    done = site.gate("--local", "--", "sbatch", places.get(name, f"{name}.slurm"))
    assert (done.code, done.ran) == (1, None)
    assert "unknown" in done.said


@pytest.mark.parametrize("name", ["a\nallowed.slurm", "a\x1b[2J.slurm", "\udcff.slurm", "-x.slurm", "a b'$(id).slurm"])
def test_a_name_says_nothing_but_itself(site: Site, name: str) -> None:
    (site.work / name).write_text(BIG)
    done = site.gate("--local", "--", "sbatch", "--", name)
    assert (done.code, done.ran) == (1, None)
    assert "\nallowed" not in done.said
    assert "\x1b" not in done.said


def test_what_sbatch_takes_from_the_environment_counts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("--local", "--allow-borderline", "--", "sbatch")
    assert site.gate(*asked, "wide.slurm").ran is not None
    monkeypatch.setenv("SBATCH_GRES", "gpu:t4:1")
    assert site.gate(*asked, "wide.slurm").code == 1
    assert site.gate(*asked, "--gres=gpu:h100:1", "wide.slurm").ran is not None


# --- with a commit ------------------------------------------------------------------------------------------------


@dataclass
class Hub:
    """The local GitHub with one repository, and the app's token."""

    server: Server
    token: str
    repo_id: int
    site: Site

    def check(self, sha: str, state: str | None, text: str = "", summary: str = "s", **more: Any) -> None:
        """A check run of the app on a commit."""
        import requests

        body: dict[str, Any] = {
            "name": "preflight/memory",
            "head_sha": sha,
            "external_id": external_id(self.repo_id, 0, sha, 1, state),  # type: ignore[arg-type]
            "output": {"title": "a title", "summary": summary, **({"text": text} if text else {})},
        }
        body |= {"status": "in_progress"} if state is None else {"status": "completed", "conclusion": "neutral"}
        url = f"{self.server.api_url}/repos/acme/trainer/check-runs"
        answer = requests.post(url, json=body | more, headers={"Authorization": f"Bearer {self.token}"}, timeout=20)
        assert answer.status_code == 201, answer.text

    def push(self) -> str:
        """The work tree's commit, at the hub."""
        sha = git(self.site.work, "rev-parse", "HEAD")
        repo = self.server.service.hub.repository("acme", "trainer")
        repo.git.fetch(str(self.site.work), "HEAD", "refs/heads/main")
        return sha


@pytest.fixture
def hub(site: Site, tmp_path: Path) -> Iterator[Hub]:
    with Server(tmp_path / "hub") as server:
        state = server.service.hub
        with state.lock:
            spec = AppSpec(
                slug="preflight",
                public_key=app_key()[1],
                webhook_url="http://127.0.0.1:9/",
                webhook_secret="x" * 20,
                permissions=PERMISSIONS,
                events=(),
            )
            app = state.register_app(spec, "acme")
            repo = state.add_repository("acme/trainer", site.work)
            installation = state.install(app, repo.owner)
            from bot.localhub.access import issue_token

            token = issue_token(state, installation, None, None).value
        site.patch.setenv("GITHUB_API_URL", server.api_url)
        site.patch.setenv("GITHUB_TOKEN", token)
        site.patch.setenv("PREFLIGHT_APP_ID", str(app.id))
        git(site.work, "remote", "add", "origin", "git@github.example:acme/trainer.git")
        yield Hub(server, token, repo.id, site)


def _gate(hub: Hub, sha: str, *words: str) -> Done:
    return hub.site.gate("--sha", sha, "--", "sbatch", *words)


def test_absent_and_unfinished_block_and_ok_runs(hub: Hub) -> None:
    sha = hub.push()
    absent = _gate(hub, sha, "fits.slurm")
    assert (absent.code, absent.ran) == (1, None)
    assert "no preflight/memory check" in absent.said
    hub.check(sha, None)
    assert "not finished" in _gate(hub, sha, "fits.slurm").said
    hub.check(sha, "ok")
    done = _gate(hub, sha, "fits.slurm")
    assert done.ran == [str(hub.site.bin / "sbatch"), "fits.slurm"]
    assert hub.token not in done.said + absent.said
    hub.site.patch.setenv("PREFLIGHT_APP_ID", "424242")
    assert _gate(hub, sha, "fits.slurm").code == 1


def test_a_merge_commit_runs_its_own_check_also_for_a_file_the_pull_request_did_not_touch(hub: Hub) -> None:
    work = hub.site.work
    git(work, "checkout", "-q", "-b", "feature")
    commit(work, "feature", {"fits.slurm": FITS.replace("gpt2", "gpt2-medium")})
    git(work, "checkout", "-q", "main")
    commit(work, "meanwhile", {"README.md": "x\n"})
    git(work, "merge", "-q", "--no-ff", "-m", "merge", "feature")
    sha = hub.push()
    assert len(git(work, "rev-list", "--parents", "-1", sha).split()) == 3
    hub.check(sha, "exceeds", states_marker([("fits.slurm", "ok"), ("old.slurm", "ok"), ("big.slurm", "exceeds")]))
    assert _gate(hub, sha, "fits.slurm").ran is not None
    assert _gate(hub, sha, "old.slurm").ran is not None
    big = _gate(hub, sha, "big.slurm")
    assert (big.code, big.ran) == (1, None)


def test_a_dirty_tree_names_what_differs_and_blocks(hub: Hub) -> None:
    work, sha = hub.site.work, hub.push()
    hub.check(sha, "ok")
    (work / "README.md").write_text("not read by the job\n")
    assert _gate(hub, sha, "fits.slurm").ran is not None
    (work / "helper.py").write_text("x = 1\n")
    changed = _gate(hub, sha, "fits.slurm")
    assert (changed.code, changed.ran) == (1, None)
    assert "helper.py (changed)" in changed.said
    (work / "helper.py").unlink()
    assert "helper.py (missing)" in _gate(hub, sha, "fits.slurm").said
    git(work, "checkout", "-q", "--", "helper.py")
    (work / "new.slurm").write_text(FITS)
    assert "new.slurm (untracked)" in _gate(hub, sha, "new.slurm").said
    (work / "torch.py").write_text("")  # shadows the library for the script beside it
    assert "torch.py (untracked)" in _gate(hub, sha, "fits.slurm").said


def test_an_override_lets_what_was_overridden_run_and_says_who_and_why(hub: Hub) -> None:
    sha = hub.push()
    states = states_marker([("big.slurm", "exceeds"), ("wide.slurm", "ok")])
    hub.check(sha, "overridden", states, summary="**Overridden** by `rita` at `x` for it: measured, it fits\n\ns")
    done = _gate(hub, sha, "big.slurm")
    assert done.ran is not None
    assert "by rita at x for it: measured, it fits" in done.said
    wide = ("--sha", sha, "--allow-borderline", "--", "sbatch")
    assert hub.site.gate(*wide, "wide.slurm").ran is not None
    smaller = hub.site.gate(*wide, "--gres=gpu:t4:1", "wide.slurm")
    assert (smaller.code, smaller.ran) == (1, None)
    assert "options or variables of this command" in smaller.said
    (hub.site.work / "big.slurm").write_text(BIG + "\n")
    assert _gate(hub, sha, "big.slurm").code == 1


def test_the_estimate_here_counts_where_it_is_stricter(hub: Hub) -> None:
    sha = hub.push()
    hub.check(sha, "ok", states_marker([("big.slurm", "ok")]))
    done = _gate(hub, sha, "big.slurm")
    assert (done.code, done.ran) == (1, None)
    assert "cannot fit" in done.said
