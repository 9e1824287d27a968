"""The real stack under load: acknowledgements, reviews, requests, memory. ``python -m benchmarks.load --help``.

gunicorn, Redis with an append-only file, supervised rq workers and the local GitHub, all on this machine. First signed
deliveries at a fixed rate while the workers review; then a number of pull requests at once, until all are concluded.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import http.client
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bot.core.plan import CHECK_NAMES
from bot.localhub import people
from bot.localhub.model import Pull
from tests.faults.code import DATA, LAUNCH, Script
from tests.faults.processes import descendants, memory_kib
from tests.faults.rig import SECRET, TIMERS, Rig
from tests.localhub.world import commit, git

_SENDERS = 8
ASIDE = 18
"""Of 20 steps of niceness: about 55 times the weight of what runs beside."""
_PAYLOAD = "x" * 20_000
"""Of a pull request's text: a delivery is then about as large as GitHub's own."""
_PATROL = ("/app", "/installation/repositories")
_SETTINGS = TIMERS | {
    "PREFLIGHT_SWEEP_SECONDS": "30",
    "PREFLIGHT_WORKER_NICE": "5",
    "PREFLIGHT_HEARTBEAT_SECONDS": "5",
    "PREFLIGHT_ORPHAN_SECONDS": "45",
    "PREFLIGHT_REDELIVERY_SECONDS": "60",
    "PREFLIGHT_WATCH_SECONDS": "900",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run found. Times in ms or s, memory in MiB."""

    rate: float
    seconds: float
    sent: int
    lost: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    workers: int
    reviews: int
    reviews_per_minute_per_worker: float
    requests_per_review: float
    worker_mib: float
    peak_mib: float
    redis_kib_per_review: float
    job_cpu_s: float


def main() -> int:
    """0 when nothing was lost and p99 is at most 100 ms."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0, help="deliveries a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--reviews", type=int, default=24, help="pull requests of the second part")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    parser.add_argument(
        "--aside", action="store_true", help="push what else runs on this machine aside (Linux, as root)"
    )
    parser.add_argument("--send", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.send:
        json.dump(_send(json.load(sys.stdin)), sys.stdout)
        return 0
    if args.aside:
        os.nice(-ASIDE)
    with (
        tempfile.TemporaryDirectory(prefix="pf-load-") as short,
        Rig(Path(short), args.workers, dict(_SETTINGS)) as rig,
    ):
        if args.aside:
            raise_groups(os.getpid(), rig.pid("web"), rig.pid("redis"))
        found = measure(rig, args.rate, args.seconds, args.reviews)
    print(report(found))
    if args.json:
        args.json.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
    return 0 if found.lost == 0 and found.p99_ms <= 100 else 1


def raise_groups(*pids: int) -> None:
    """What else runs here is in other sessions, against which niceness does not count (`bot.isolate.priority`).

    Workers and their children do the same for their own sessions, so they stay as far behind as they always are.
    """
    for pid in pids:
        Path(f"/proc/{pid}/autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, pid)), encoding="ascii")


def measure(rig: Rig, rate: float, seconds: float, reviews: int) -> Measured:
    """Both parts."""
    busy = [_pull(rig, f"busy{number}") for number in range(2 * rig.num_workers)]
    latencies, failed = _acknowledge(rig, busy, rate, seconds)
    claims = sum(1 for _ in rig.client.scan_iter("preflight:claim:*", count=1_000))
    lost = failed + max(0, len(latencies) - claims)
    rig.client.flushall()
    rig.until(lambda: not _horses(rig), 120, "the workers are at rest")
    memory = MemoryWatch(rig)
    before, used = len(rig.hub.service.recorder.all()), redis_bytes(rig)
    cpu, start = cpu_seconds(rig), time.monotonic()
    pulls = [_pull(rig, f"load{number}") for number in range(reviews)]
    rig.until(lambda: all(is_concluded(rig, pull) for pull in pulls), 60 + 30 * reviews, "all are concluded")
    took = time.monotonic() - start
    asked = [one for one in rig.hub.service.recorder.all()[before:] if not is_patrol(one.method, one.path)]
    worker_mib, peak_mib = memory.stop()
    return Measured(
        rate=rate,
        seconds=seconds,
        sent=len(latencies) + failed,
        lost=lost,
        p50_ms=percentile(latencies, 0.5),
        p99_ms=percentile(latencies, 0.99),
        max_ms=max(latencies, default=float("nan")),
        workers=rig.num_workers,
        reviews=reviews,
        reviews_per_minute_per_worker=reviews / took * 60 / rig.num_workers,
        requests_per_review=len(asked) / reviews,
        worker_mib=worker_mib,
        peak_mib=peak_mib,
        redis_kib_per_review=(redis_bytes(rig) - used) / 1024 / reviews,
        job_cpu_s=(cpu_seconds(rig) - cpu) / reviews,
    )


def _pull(rig: Rig, name: str) -> Pull:
    """A repository of its own with one pull request of two files, opened: its delivery goes out."""
    work = rig.directory / "work" / name
    work.mkdir(parents=True)
    git(work, "init", "-q", "-b", "main")
    commit(work, "Begin", {"README.md": "# trainer\n", "data.py": DATA})
    repo = rig.add_repository(f"{name}/trainer", work)
    git(work, "checkout", "-q", "-b", "feature")
    script = Script()
    for bug in ("PF101", "PF201", "PF204"):
        script.add(bug)
    commit(work, "Train", {"train.py": script.text(), "train.slurm": LAUNCH})
    service = rig.hub.service
    with service.hub.lock:
        repo.git.fetch(str(work), "feature", "refs/heads/feature")
        dana = service.hub.account("dana")
        return people.open_pull(service, repo, title="Train", body="", base="main", head="feature", author=dana)


def is_concluded(rig: Rig, pull: Pull) -> bool:
    """Whether both checks of the head are."""
    with rig.hub.service.hub.lock:
        runs = rig.hub.service.hub.runs_on(pull.repo, pull.head_sha)
        return {run.name for run in runs if run.status == "completed"} >= set(CHECK_NAMES)


def is_patrol(method: str, path: str) -> bool:
    """Whether a request belongs to no review."""
    is_list = method == "GET" and path.endswith("/pulls")
    return is_list or (path.startswith(_PATROL) and not path.endswith("/access_tokens"))


# --- deliveries ----------------------------------------------------------------------------------------------------


def _acknowledge(rig: Rig, pulls: list[Pull], rate: float, seconds: float) -> tuple[list[float], int]:
    """From a process of its own: what sends must not slow down what it measures."""
    bodies = [json.dumps(_payload(rig, pull)) for pull in pulls]
    spec = {"url": rig.web_url, "bodies": bodies, "rate": rate, "seconds": seconds}
    command = [sys.executable, "-m", "benchmarks.load", "--send"]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, input=json.dumps(spec), capture_output=True, text=True, check=True, cwd=root)
    answer = json.loads(done.stdout)
    return list(answer["latencies"]), int(answer["failed"])


def _payload(rig: Rig, pull: Pull) -> dict[str, Any]:
    installation = rig.hub.service.hub.installations_of(pull.repo)[0]
    return {
        "action": "synchronize",
        "number": pull.number,
        "pull_request": {"state": "open", "head": {"sha": pull.head_sha}, "body": _PAYLOAD},
        "repository": {"id": pull.repo.id, "full_name": pull.repo.full_name},
        "installation": {"id": installation.id},
    }


def _send(spec: dict[str, Any]) -> dict[str, Any]:
    """Latency counts from when a delivery was due: a late sender hides no queueing."""
    host = spec["url"].removeprefix("http://")
    bodies = [body.encode() for body in spec["bodies"]]
    signed = [(body, "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()) for body in bodies]
    num = int(spec["rate"] * spec["seconds"])
    latencies: list[float] = []
    failed: list[int] = []
    start = time.perf_counter() + 0.5

    def send(first: int) -> None:
        connection = http.client.HTTPConnection(host, timeout=10)
        for number in range(first, num, _SENDERS):
            due = start + number / spec["rate"]
            body, signature = signed[number % len(signed)]
            headers = {
                "Content-Type": "application/json",
                "X-GitHub-Event": "pull_request",
                "X-GitHub-Delivery": str(uuid.uuid4()),
                "X-Hub-Signature-256": signature,
            }
            time.sleep(max(0.0, due - time.perf_counter()))
            try:
                connection.request("POST", "/webhook", body, headers)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                failed.append(number)
                continue
            if answer.status == 202:
                latencies.append((time.perf_counter() - due) * 1000)
            else:
                failed.append(number)
        connection.close()

    threads = [threading.Thread(target=send, args=(first,)) for first in range(_SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"latencies": latencies, "failed": len(failed)}


def percentile(values: list[float], share: float) -> float:
    """The value below which a share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


# --- what it takes -------------------------------------------------------------------------------------------------


def _horses(rig: Rig) -> list[int]:
    """Everything below the rq workers but what they always have."""
    workers = descendants(rig.pid("worker"))
    return [pid for pid in workers if os.path.exists(f"/proc/{pid}") and _is_leader(pid)]


def _is_leader(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def redis_bytes(rig: Rig) -> int:
    """What Redis holds."""
    found: Any = rig.client.info("memory")
    return int(found["used_memory"])


def cpu_seconds(rig: Rig) -> float:
    """Seconds of processor time of the workers and all their finished children."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for pid in [rig.pid("worker"), *descendants(rig.pid("worker"))]:
        try:
            parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(value) for value in parts[11:15])
    return total / ticks


class MemoryWatch:
    """Watches the private memory below the supervisor, per worker: at rest, and with its job and analysis."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._over = threading.Event()
        self._rest = self._sum()
        self._peak = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[float, float]:
        """MiB of one worker at rest and at its busiest."""
        self._over.set()
        self._thread.join()
        num = self._rig.num_workers
        return self._rest / 1024 / num, max(self._rest, self._peak) / 1024 / num

    def _watch(self) -> None:
        while not self._over.wait(0.25):
            self._peak = max(self._peak, self._sum())

    def _sum(self) -> int:
        return sum(memory_kib(pid) for pid in descendants(self._rig.pid("worker")))


def report(found: Measured) -> str:
    """Markdown."""
    rows = [
        (
            f"deliveries acknowledged, {found.rate:.0f}/s for {found.seconds:.0f} s",
            f"{found.sent - found.lost} of {found.sent}",
        ),
        ("lost", str(found.lost)),
        ("acknowledgement p50 / p99 / max", f"{found.p50_ms:.1f} / {found.p99_ms:.1f} / {found.max_ms:.0f} ms"),
        ("reviews a minute and worker", f"{found.reviews_per_minute_per_worker:.1f}"),
        ("processor time of one review", f"{found.job_cpu_s:.2f} s"),
        ("requests to GitHub of one review", f"{found.requests_per_review:.1f}"),
        ("private memory of a worker, at rest / busiest", f"{found.worker_mib:.0f} / {found.peak_mib:.0f} MiB"),
        ("Redis memory that a review leaves", f"{found.redis_kib_per_review:.0f} KiB"),
    ]
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    note = f"{machine}; {found.workers} workers, 2 receiver processes, Redis, GitHub and sender on the same machine."
    return "\n".join([note, "", "| measured | |", "| --- | ---: |", *(f"| {name} | {value} |" for name, value in rows)])


if __name__ == "__main__":
    sys.exit(main())
