"""The whole bot against a local GitHub: gunicorn, supervisor, rq workers, Valkey, all real processes."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import requests
from cryptography.hazmat.primitives import serialization

from bot.localhub.server import Server
from tests.localhub.world import commit, git
from tests.support import WEBHOOK_SECRET, wait_for

TRAIN = """import torch
from torch import nn
from torch.utils.data import DataLoader

from data import make_dataset


def main():
    model = nn.Linear(10, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(make_dataset(), batch_size=8)
    losses = []
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        losses.append(loss)
    print(sum(losses))


main()
"""
LAUNCH = "#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH --time=1:00:00\nsrun python train.py\n"
DATA = "def make_dataset():\n    return []\n"


@dataclass
class Stack:
    """`client` is the Redis of the bot; `pull` the number of the open pull request."""

    hub: Server
    client: redis.Redis
    environment: dict[str, str]
    work: Path
    start: Callable[..., subprocess.Popen[bytes]]
    address: str
    repo: str = "acme/training"

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """A call of the hub's own interface."""
        answer = requests.request(method, f"{self.hub.url}/_hub{path}", json=body, timeout=30)
        answer.raise_for_status()
        return answer.json() if answer.text else None

    def show(self, number: int = 1) -> dict[str, Any]:
        """What a person sees on the pull request."""
        return dict(self.control("GET", f"/repos/{self.repo}/pulls/{number}"))

    def serve(self) -> subprocess.Popen[bytes]:
        process = self.start("serve", "--bind", self.address, "--processes", "1", **self.environment)
        wait_for(lambda: _answers(f"http://{self.address}/healthz"), 60, "the receiver answers")
        return process

    def work_on(self, num: int = 1, **environment: str) -> subprocess.Popen[bytes]:
        process = self.start("worker", "-n", str(num), **{**self.environment, **environment})
        wait_for(lambda: len(self.client.smembers("rq:workers")) >= num, 90, "the workers are there")
        return process

    def push(self, branch: str, files: dict[str, bytes | str | None], message: str = "work") -> str:
        """A commit on `branch`, pushed to the hub by its author."""
        commit(self.work, message, files)
        body = {"branch": branch, "source": str(self.work), "ref": "HEAD", "user": "dana"}
        return str(self.control("POST", f"/repos/{self.repo}/push", body)["sha"])

    def git_main(self, files: dict[str, bytes | str | None]) -> None:
        """A commit on ``main``, pushed; the work tree then stands on a feature branch made from it."""
        git(self.work, "checkout", "-q", "main")
        self.push("main", files, "base")
        git(self.work, "checkout", "-q", "-B", "feature")

    def open_pull(self, head: str = "feature", *, draft: bool = False) -> int:
        body = {"title": "Train", "base": "main", "head": head, "user": "dana", "draft": draft}
        return int(self.control("POST", f"/repos/{self.repo}/pulls", body)["number"])

    def concluded(self, number: int = 1, count: int = 2) -> list[dict[str, Any]]:
        """The check runs of the head, once `count` of them are concluded."""
        wait_for(lambda: len(_done(self.show(number))) >= count, 120, "the check runs are concluded")
        return _done(self.show(number))


def _done(shown: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for run in shown["check_runs"] if run["status"] == "completed"]


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=1).status_code == 200
    except requests.RequestException:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def build_stack(
    hub: Server,
    client: redis.Redis,
    redis_url: str,
    private_key: str,
    tmp_path: Path,
    start: Callable[..., subprocess.Popen[bytes]],
) -> Stack:
    """A repository with a branch that adds a training script with bugs; nothing of the bot runs yet."""
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    commit(work, "start", {"README.md": "training\n", "data.py": DATA})
    address = f"127.0.0.1:{free_port()}"
    stack = Stack(hub, client, {}, work, start, address)
    public = serialization.load_pem_private_key(private_key.encode(), None).public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    roles = {"dana": "write", "rita": "read"}
    stack.control("POST", "/repos", {"full_name": stack.repo, "source": str(work), "roles": roles})
    app = stack.control(
        "POST",
        "/apps",
        {
            "slug": "preflight",
            "public_key": pem,
            "webhook_url": f"http://{address}/webhook",
            "webhook_secret": WEBHOOK_SECRET,
            "permissions": {
                "metadata": "read",
                "contents": "read",
                "pull_requests": "write",
                "issues": "write",
                "checks": "write",
                "merge_queues": "read",
            },
            "events": [
                "pull_request",
                "issue_comment",
                "pull_request_review_comment",
                "check_run",
                "check_suite",
                "merge_group",
                "push",
            ],
        },
    )
    stack.control("POST", "/installations", {"app_id": app["id"], "account": "acme"})
    stack.environment |= {
        "REDIS_URL": redis_url,
        "PREFLIGHT_APP_ID": str(app["id"]),
        "PREFLIGHT_PRIVATE_KEY": private_key,
        "PREFLIGHT_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "GITHUB_API_URL": hub.api_url,
        "PREFLIGHT_SECONDS_BETWEEN_WRITES": "0.05",
        "PREFLIGHT_SWEEP_SECONDS": "1",
        "PREFLIGHT_WORKER_NICE": "0",
        "PREFLIGHT_HEARTBEAT_SECONDS": "1",
        "PREFLIGHT_ORPHAN_SECONDS": "5",
    }
    git(work, "checkout", "-q", "-b", "feature")
    stack.push("feature", {"train.py": TRAIN, "train.slurm": LAUNCH})
    return stack
