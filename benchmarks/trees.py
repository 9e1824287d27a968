"""How long a review takes by the size of its repository, cold and warm. ``python -m benchmarks.trees --help``.

The stack of `benchmarks.load`: gunicorn, Redis, supervised rq workers and the local GitHub, all real processes on this
machine. Time runs from the delivery (somebody opens a pull request, or pushes to it) to the moment at which both check
runs are concluded. ``cold``: nothing of the repository is known; ``push``: one more commit to the same pull request;
``other``: another pull request of a repository that was reviewed before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.load import (
    ASIDE,
    MemoryWatch,
    cpu_seconds,
    is_concluded,
    is_patrol,
    percentile,
    raise_groups,
    redis_bytes,
)
from bot.localhub import people
from bot.localhub.model import Pull, Repository
from tests.faults.code import DATA, LAUNCH, Script
from tests.faults.rig import TIMERS, Rig
from tests.localhub.world import commit, git

_SETTINGS = TIMERS | {
    "PREFLIGHT_SWEEP_SECONDS": "30",
    "PREFLIGHT_WORKER_NICE": "5",
    "PREFLIGHT_HEARTBEAT_SECONDS": "5",
    "PREFLIGHT_ORPHAN_SECONDS": "45",
    "PREFLIGHT_REDELIVERY_SECONDS": "0",
    "PREFLIGHT_WATCH_SECONDS": "0",
}
_LOOK_SECONDS = 0.02
_MODULE = '''"""Part {number} of a package: one block, its loss and one epoch with it."""

import math

import torch
from torch import nn

from pkg.part{first} import Block{first}
from pkg.part{second} import scale_{second}


class Block{number}(nn.Module):
    """Attention over {width} features and a feed-forward network."""

    def __init__(self, width: int = {width}, num_heads: int = 4, rate: float = 0.1) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(rate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        h = self.norm(x)
        q = self.query(h).view(batch, length, self.num_heads, -1).transpose(1, 2)
        k = self.key(h).view(batch, length, self.num_heads, -1).transpose(1, 2)
        v = self.value(h).view(batch, length, self.num_heads, -1).transpose(1, 2)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(width // self.num_heads), dim=-1)
        mixed = (self.dropout(weights) @ v).transpose(1, 2).reshape(batch, length, width)
        return x + self.inner(self.out(mixed))


def scale_{number}(values: list[float]) -> list[float]:
    """Between 0 and 1."""
    least, most = min(values), max(values)
    return [(value - least) / ((most - least) or 1.0) for value in values]


def epoch_{number}(loader, optimizer, device="cpu"):
    """The mean loss of one pass over the data."""
    model = nn.Sequential(Block{first}(), Block{number}(), nn.Linear({width}, 10)).to(device)
    model.train()
    total, num = 0.0, 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)).mean(1), y.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total, num = total + loss.item(), num + 1
    return total / max(1, num), scale_{second}([float(num), total])
'''
_YAML = "name: run{number}\nlr: 0.00{number}\nepochs: {number}\nuse_ema: false\nmodel:\n  width: {width}\n  heads: 4\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Reviews of one kind. Times in s."""

    files: int
    kind: str
    num: int
    p50_s: float
    p95_s: float
    read_s: float
    analyse_s: float
    publish_s: float
    """Medians of what the job was at; the rest is the queue and the early check runs."""
    requests: float
    """To GitHub, the token's included."""
    job_cpu_s: float
    """Of the workers and the analysis, for one review."""
    redis_mib: float
    """More in Redis after each."""
    peak_mib: float
    """Private memory of a worker with its job and the analysis, at most."""


def main() -> int:
    """0: every review was concluded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees", description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[100, 500, 1499, 1500, 1501], help="Python files")
    parser.add_argument("--num", type=int, default=10, help="reviews of each kind")
    parser.add_argument("--pace", type=float, default=1.0, help="seconds between writes; GitHub asks for 1")
    parser.add_argument("--tree", type=Path, help="take the tree of this folder instead of made files")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    parser.add_argument(
        "--aside", action="store_true", help="push what else runs on this machine aside (Linux, as root)"
    )
    args = parser.parse_args()
    if args.aside:
        os.nice(-ASIDE)
    rows: list[Row] = []
    for files in [0] if args.tree else args.files:
        settings = _SETTINGS | {"PREFLIGHT_SECONDS_BETWEEN_WRITES": str(args.pace)}
        with tempfile.TemporaryDirectory(prefix="pf-trees-") as short, Rig(Path(short), 2, settings) as rig:
            if args.aside:
                raise_groups(os.getpid(), rig.pid("web"), rig.pid("redis"))
            tree = _taken(args.tree) if args.tree else _made(files)
            rows += _measured(rig, tree, args.num)
        print(report(rows[-3:]), flush=True)
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    return 0


def _made(num: int) -> dict[str, bytes | str | None]:
    """A package of `num` Python files that import each other, `train.py` among them; a tenth as many settings."""
    parts = {
        f"pkg/part{number}.py": _MODULE.format(
            number=number, first=(7 * number + 1) % (num - 2), second=(3 * number + 2) % (num - 2), width=64 + number
        )
        for number in range(num - 2)
    }
    settings = {f"conf/run{number}.yaml": _YAML.format(number=number, width=64) for number in range(num // 10)}
    return {"README.md": "# trainer\n", "data.py": DATA, "train.py": Script().text(), **parts, **settings}


def _taken(folder: Path) -> dict[str, bytes | str | None]:
    """The files below a folder."""
    found: dict[str, bytes | str | None] = {}
    for place in sorted(folder.rglob("*")):
        path = place.relative_to(folder)
        if place.is_file() and not place.is_symlink() and path.parts[0] != ".git":
            found[path.as_posix()] = place.read_bytes()
    return found | {"data.py": DATA, "train.py": Script().text()}


@dataclass
class _Clock:
    """Reviews of one kind as they come."""

    rig: Rig
    seconds: list[float] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)
    num_requests: int = 0
    cpu: float = 0.0
    num_bytes: int = 0
    peak_mib: float = 0.0

    @contextmanager
    def one(self) -> Iterator[list[Pull]]:
        """One review: of the pull request that is put into the list."""
        recorder = self.rig.hub.service.recorder
        recorder.clear()
        log = self.rig.directory / "worker.log"
        said = log.stat().st_size
        cpu, num_bytes, pulls = cpu_seconds(self.rig), redis_bytes(self.rig), list[Pull]()
        memory, start = MemoryWatch(self.rig), time.monotonic()
        yield pulls
        while not is_concluded(self.rig, pulls[0]):
            if time.monotonic() - start > 300:
                raise TimeoutError(f"no conclusion\n{self.rig.tail()}")
            time.sleep(_LOOK_SECONDS)
        self.seconds.append(time.monotonic() - start)
        self.rig.until(lambda: not self.rig.client.zcard("preflight:reviews"), 60, "the job ends")
        time.sleep(0.3)  # the work-horse is waited for by its worker, and its time counts then
        rest, peak = memory.stop()  # of one worker, as if all were busy
        self.peak_mib = max(self.peak_mib, rest + (peak - rest) * self.rig.num_workers)
        self.parts.append(_parts(log.read_bytes()[said:]))
        self.num_requests += sum(not is_patrol(one.method, one.path) for one in recorder.all())
        self.cpu += cpu_seconds(self.rig) - cpu
        self.num_bytes += redis_bytes(self.rig) - num_bytes

    def row(self, files: int, kind: str) -> Row:
        """What came out."""
        num = len(self.seconds)
        return Row(
            files=files,
            kind=kind,
            num=num,
            p50_s=percentile(self.seconds, 0.5),
            p95_s=percentile(self.seconds, 0.95),
            read_s=percentile([part["read_s"] for part in self.parts], 0.5),
            analyse_s=percentile([part["analyse_s"] for part in self.parts], 0.5),
            publish_s=percentile([part["publish_s"] for part in self.parts], 0.5),
            requests=self.num_requests / num,
            job_cpu_s=self.cpu / num,
            redis_mib=self.num_bytes / num / (1 << 20),
            peak_mib=self.peak_mib,
        )


def _parts(log: bytes) -> dict[str, float]:
    """What the last review's job says of itself."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.splitlines() if line.startswith(b"{")]
    return [line for line in lines if line.get("job") == "review_pull" and "publish_s" in line][-1]


def _measured(rig: Rig, tree: dict[str, bytes | str | None], num: int) -> list[Row]:
    files = sum(path.endswith(".py") for path in tree)
    cold, push, other = _Clock(rig), _Clock(rig), _Clock(rig)
    for number in range(num):
        work, repo = _repository(rig, f"org{number}", tree)
        with cold.one() as pulls:
            pulls.append(_open(rig, repo, work, "first"))
    for number in range(num):
        script = _script()
        script.remarks = number + 1
        commit(work, "Once more", {"train.py": script.text()})
        with push.one() as pulls:
            pulls.append(_push(rig, repo, work, "first"))
    for number in range(num):
        with other.one() as pulls:
            pulls.append(_open(rig, repo, work, f"next{number}"))
    return [cold.row(files, "cold"), push.row(files, "push"), other.row(files, "other")]


def _repository(rig: Rig, owner: str, tree: dict[str, bytes | str | None]) -> tuple[Path, Repository]:
    work = rig.directory / "work" / owner
    work.mkdir(parents=True)
    git(work, "init", "-q", "-b", "main")
    commit(work, "Begin", tree)
    return work, rig.add_repository(f"{owner}/trainer", work)


def _script() -> Script:
    script = Script()
    for bug in ("PF101", "PF201", "PF204"):
        script.add(bug)
    return script


def _open(rig: Rig, repo: Repository, work: Path, branch: str) -> Pull:
    """A pull request that changes the script and adds what launches it: the number of Python files stays."""
    git(work, "checkout", "-q", "-B", branch, "main")
    commit(work, "Train", {"train.py": f"# {branch}\n" + _script().text(), "train.slurm": LAUNCH})
    service = rig.hub.service
    with service.hub.lock:
        repo.git.fetch(str(work), branch, f"refs/heads/{branch}")
        dana = service.hub.account("dana")
        return people.open_pull(service, repo, title="Train", body="", base="main", head=branch, author=dana)


def _push(rig: Rig, repo: Repository, work: Path, branch: str) -> Pull:
    service = rig.hub.service
    with service.hub.lock:
        people.push(service, repo, branch, work, "HEAD", service.hub.account("dana"))
        return next(pull for pull in service.hub.pulls(repo) if pull.head_ref == branch)


def report(rows: Sequence[Row]) -> str:
    """Markdown."""
    load = f"{os.getloadavg()[0]:.0f}" if hasattr(os, "getloadavg") else "?"
    note = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, load {load}"
    names = "Python files|review|times|p50 s|p95 s|read s|analyse s|publish s|requests|processor s|Redis MiB|peak MiB"
    lines = [
        (
            f"{row.files:,}",
            row.kind,
            str(row.num),
            *(f"{value:.1f}" for value in (row.p50_s, row.p95_s, row.read_s, row.analyse_s, row.publish_s)),
            *(f"{value:.1f}" for value in (row.requests, row.job_cpu_s, row.redis_mib)),
            f"{row.peak_mib:.0f}",
        )
        for row in rows
    ]
    cells = [names.split("|"), ["---:", "---", *["---:"] * 10], *lines]
    return "\n".join([note, "", *(f"| {' | '.join(line)} |" for line in cells)])


if __name__ == "__main__":
    sys.exit(main())
