"""``GET /gate`` and the admission webhook, through the whole stack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from bot.web.gate_tokens import hashed
from tests.bot.queue.stack import Stack
from tests.bot.queue.test_branch import _FILES, _concluded
from tests.localhub.world import git
from tests.support import wait_for

_SECRET = "pfg_a-token-of-the-tests"


def _manifest(gpu: str, script: str, **annotations: str) -> dict[str, Any]:
    container = {
        "name": "train",
        "image": "x",
        "command": ["python", script],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    spec = {
        "nodeSelector": {"nvidia.com/gpu.product": gpu},
        "containers": [container],
        "restartPolicy": "Never",
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": annotations},
        "spec": {"template": {"spec": spec}},
    }


def _admit(stack: Stack, manifest: Any, path: str = "/admission", **headers: str) -> requests.Response:
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": "CREATE", "object": manifest},
    }
    return requests.post(f"http://{stack.address}{path}", json=review, headers=headers, timeout=30)


@pytest.fixture
def gated(stack: Stack, tmp_path: Path) -> Stack:
    """The stack with a commit on ``main``, its check, and a token for it."""
    hub = stack.hub.service.hub
    (installation,) = hub.rows.installations.values()
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(
        f'[[token]]\nname = "a"\ninstallation = {installation.id}\nsha256 = "{hashed(_SECRET)}"\n'
        f'[[token]]\nname = "b"\ninstallation = {installation.id}\nsha256 = "{hashed(_SECRET + "b")}"\n'
        "repositories = [1]\n"
    )
    stack.environment["PREFLIGHT_GATE_TOKENS_FILE"] = str(tokens)
    stack.serve()
    stack.work_on()
    return stack


def test_the_gate_answers_for_a_commit_and_admission_reads_its_code(gated: Stack) -> None:
    stack, bearer = gated, {"Authorization": f"Bearer {_SECRET}"}
    git(stack.work, "checkout", "-q", "main")
    sha = stack.push("main", _FILES, "launch files")
    repo_id = stack.hub.service.hub.repository(*stack.repo.split("/")).id
    _concluded(stack, sha)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 30, "nothing is open")

    def gate(path: str, **headers: str) -> requests.Response:
        return requests.get(f"http://{stack.address}/gate/{path}", headers=headers, timeout=30)

    answer = gate(f"{repo_id}/{sha}", **bearer)
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert (document["version"], document["state"], document["sha"]) == (1, "exceeds", sha)
    assert document["launches"] == {"jobs/big.slurm": "exceeds", "jobs/fits.slurm": "ok"}
    assert gate(f"{repo_id}/{'0' * 40}", **bearer).json()["state"] == "absent"
    assert gate(f"{repo_id}/{sha[:12]}", **bearer).status_code == 400
    assert gate(f"{repo_id}/{sha}").status_code == 401
    assert gate(f"{repo_id}/{sha}", Authorization="Bearer wrong").status_code == 401
    assert gate(f"{repo_id}/{sha}", Authorization=f"Bearer {_SECRET}b").status_code == 403
    assert gate(f"{repo_id + 5_000}/{sha}", **bearer).status_code == 404

    asked = ["--sha", sha, "--repository", str(repo_id), "--dry-run", "--", "sbatch"]
    environment = {"PREFLIGHT_GATE_URL": f"http://{stack.address}", "PREFLIGHT_GATE_TOKEN": _SECRET}
    for launch, code in (("jobs/fits.slurm", 0), ("jobs/big.slurm", 1)):
        done = subprocess.run(
            [sys.executable, "-I", "-m", "preflight", "gate", *asked, launch],
            cwd=stack.work, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert f"preflight/memory of {sha[:12]}: exceeds" in done.stdout

    named = {"preflight/repository-id": str(repo_id), "preflight/commit": sha}
    denied = _admit(stack, _manifest("Tesla-T4", "big.py", **named), **bearer)
    assert denied.status_code == 200, denied.text
    response = denied.json()["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u-1", False, 403)
    assert "cannot fit" in response["status"]["message"]
    fits = _admit(stack, _manifest("NVIDIA-H100-80GB-HBM3", "small.py", **named), f"/admission/{_SECRET}").json()
    assert fits["response"] == {"uid": "u-1", "allowed": True}
    unknown = _admit(stack, _manifest("Tesla-T4", "big.py"), **bearer).json()["response"]
    assert unknown["allowed"]
    assert unknown["warnings"][0].startswith("preflight: ")
    absent = _admit(stack, _manifest("Tesla-T4", "small.py", **named | {"preflight/commit": "0" * 40}), **bearer)
    assert "no preflight/memory check" in absent.json()["response"]["status"]["message"]
    assert _admit(stack, _manifest("Tesla-T4", "small.py")).status_code == 401
    assert _admit(stack, None, **bearer).json()["response"]["allowed"]
    for path in stack.work.parent.rglob("*.log"):
        assert _SECRET not in path.read_text(errors="replace"), path
