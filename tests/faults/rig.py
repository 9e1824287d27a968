"""The whole bot, all real processes, under an init that starts again what dies; and the means to kill each part.

The local GitHub runs inside this process, so that a kill can be tied to one of its requests: before it is looked at, or
after it was done and before it is answered.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import redis
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.demo.stack import free_port
from bot.localhub.model import Installation, Repository
from bot.localhub.server import Server
from bot.localhub.state import AppSpec
from bot.redis_server import find_server
from bot.store import connect
from tests.faults.processes import client_of, descendants, is_group_leader, kill

SECRET = "a-secret-of-the-fault-suite-0123456789"
TIMERS = {
    "PREFLIGHT_SECONDS_BETWEEN_WRITES": "0.02",
    "PREFLIGHT_WRITES_PER_MINUTE": "100000",
    "PREFLIGHT_WRITES_PER_HOUR": "100000",
    "PREFLIGHT_SWEEP_SECONDS": "1",
    "PREFLIGHT_WORKER_NICE": "0",
    "PREFLIGHT_HEARTBEAT_SECONDS": "1",
    "PREFLIGHT_ORPHAN_SECONDS": "8",
    "PREFLIGHT_REDELIVERY_SECONDS": "2",
    "PREFLIGHT_WATCH_SECONDS": "5",
    "PREFLIGHT_RESTART_SECONDS": "2",
    "PREFLIGHT_WORKER_TTL": "20",
    "PREFLIGHT_MAINTENANCE_SECONDS": "5",
}
"""Shorter than in production, so that hours of bad days fit into minutes; the code is the same."""
PERMISSIONS = {
    "metadata": "read",
    "contents": "read",
    "pull_requests": "write",
    "issues": "write",
    "checks": "write",
    "merge_queues": "read",
}
EVENTS = ("pull_request", "issue_comment", "pull_request_review_comment", "check_run", "check_suite", "push")
VICTIMS = ("horse", "worker", "worker and horse", "supervisor", "web", "web process", "redis")
_INIT_SECONDS = 0.2


@dataclass
class _Service:
    """One process that init keeps running."""

    command: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0


@dataclass
class Rig:
    """``with Rig(directory) as rig:``. `killed` counts what was killed, by victim."""

    directory: Path
    num_workers: int = 2
    timers: dict[str, str] = field(default_factory=lambda: dict(TIMERS))
    hub: Server = field(init=False)
    client: redis.Redis = field(init=False)
    web_url: str = field(init=False)
    environment: dict[str, str] = field(init=False)
    killed: dict[str, int] = field(default_factory=dict)
    _services: dict[str, _Service] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _init: threading.Thread | None = None

    def __enter__(self) -> Rig:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.hub = Server(self.directory / "hub")
        self.hub.__enter__()
        data, socket = self.directory / "redis", self.directory / "r.sock"
        data.mkdir(exist_ok=True)
        options = ["--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700", "--dir", str(data)]
        options += ["--appendonly", "yes", "--appendfsync", "no", "--save", "", "--loglevel", "warning"]
        self._services["redis"] = _Service([str(find_server()), *options], {}, self.directory / "redis.log")
        self.client = connect(f"unix://{socket}", timeout=5)
        port = free_port()
        self.web_url = f"http://127.0.0.1:{port}"
        self.environment = self._register(f"unix://{socket}") | self.timers
        preflight = [sys.executable, "-I", "-m", "preflight"]
        web = [*preflight, "serve", "--bind", f"127.0.0.1:{port}", "--processes", "2"]
        self._services["web"] = _Service(web, self.environment, self.directory / "web.log")
        work = [*preflight, "worker", "--workers", str(self.num_workers)]
        self._services["worker"] = _Service(work, self.environment, self.directory / "worker.log")
        self._tend()
        self._init = threading.Thread(target=self._run_init, name="init", daemon=True)
        self._init.start()
        self.until(self.is_ready, 60, "the stack is ready")

    def _register(self, redis_url: str) -> dict[str, str]:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        key_file = self.directory / "app.pem"
        key_file.touch(mode=0o600)
        no_password = serialization.NoEncryption()
        key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_password)
        )
        form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        spec = AppSpec(
            slug="preflight",
            public_key=key.public_key().public_bytes(*form).decode(),
            webhook_url=f"{self.web_url}/webhook",
            webhook_secret=SECRET,
            permissions=PERMISSIONS,
            events=EVENTS,
        )
        self.app = self.hub.service.hub.register_app(spec, "preflight")
        return {
            "REDIS_URL": redis_url,
            "GITHUB_API_URL": self.hub.api_url,
            "PREFLIGHT_APP_ID": str(self.app.id),
            "PREFLIGHT_PRIVATE_KEY_FILE": str(key_file),
            "PREFLIGHT_WEBHOOK_SECRET": SECRET,
        }

    def add_repository(self, full_name: str, source: Path) -> Repository:
        """A repository with the app on its owner."""
        hub = self.hub.service.hub
        with hub.lock:
            repo = hub.add_repository(full_name, source)
            repo.roles |= {"dana": "write"}
            if not hub.installations_of(repo):
                hub.install(self.app, repo.owner)
            return repo

    @property
    def installations(self) -> list[Installation]:
        return list(self.hub.service.hub.rows.installations.values())

    # --- init ---------------------------------------------------------------------------------------------------

    def _run_init(self) -> None:
        while not self._stop.wait(_INIT_SECONDS):
            self._tend()

    def _tend(self) -> None:
        with self._lock:
            if self._stop.is_set():
                return
            for service in self._services.values():
                if service.process is None or service.process.poll() is not None:
                    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
                    with service.log.open("ab") as sink:
                        service.process = subprocess.Popen(
                            service.command,
                            env=kept | service.environment,
                            cwd=self.directory,
                            stdin=subprocess.DEVNULL,
                            stdout=sink,
                            stderr=subprocess.STDOUT,
                            start_new_session=True,
                        )
                    service.starts += 1

    def pid(self, name: str) -> int:
        """Of a service's first process."""
        process = self._services[name].process
        return process.pid if process is not None else 0

    def is_ready(self) -> bool:
        """The receiver answers, Redis takes writes, a worker is there."""
        with suppress(requests.RequestException):
            return requests.get(f"{self.web_url}/readyz", timeout=2).status_code == 200
        return False

    def until(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Wait; `TimeoutError` names `what`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.1)
        raise TimeoutError(f"{what}: not within {seconds:.0f} s\n{self.tail()}")

    def tail(self, num_lines: int = 15) -> str:
        """The end of every log."""
        texts = []
        for name, service in self._services.items():
            if service.log.exists():
                lines = service.log.read_text(errors="replace").splitlines()[-num_lines:]
                texts += [f"    {name} | {line}" for line in lines]
        return "\n".join(texts)

    # --- kill -9 ------------------------------------------------------------------------------------------------

    def kill(self, victim: str, port: int = 0) -> bool:
        """SIGKILL one part of the stack; with `port`, of the one that holds this connection. False: nobody there."""
        done = bool(kill(self._pids(victim, port)))
        if done:
            self.killed[victim] = self.killed.get(victim, 0) + 1
        return done

    def _pids(self, victim: str, port: int) -> list[int]:
        if victim == "redis":
            return [self.pid("redis")]
        if victim == "web":
            return [self.pid("web"), *descendants(self.pid("web"))]
        if victim == "web process":
            return descendants(self.pid("web"))[:1]
        if victim == "supervisor":
            return [self.pid("worker"), *descendants(self.pid("worker"))]
        workers = [pid for pid in descendants(self.pid("worker")) if _is_rq_worker(pid)]
        horses = {worker: [pid for pid in descendants(worker) if is_group_leader(pid)] for worker in workers}
        if port:
            caller = client_of(port, [pid for found in horses.values() for pid in found])
            horses = {worker: found for worker, found in horses.items() if caller in found}
        chosen = next(((worker, found) for worker, found in horses.items() if found), None)
        if chosen is None:
            return []
        worker, found = chosen
        return {"horse": found, "worker": [worker]}.get(victim, [worker, *found])

    def close(self) -> None:
        """End everything, also what a killed parent left behind."""
        self._stop.set()
        if self._init is not None:
            self._init.join(5)
        with self._lock:
            for name in ("worker", "web", "redis"):
                service = self._services.get(name)
                if service is None or service.process is None:
                    continue
                with suppress(ProcessLookupError):
                    service.process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    service.process.wait(5)
                left = _of_session(service.process.pid)
                kill(left)
                service.process.wait()
        with suppress(AttributeError):
            self.client.close()
            self.hub.__exit__(None, None, None)


def _is_rq_worker(pid: int) -> bool:
    with suppress(OSError):
        return b"--one" in (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0") and not is_group_leader(pid)
    return False


def _of_session(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                    found.append(int(entry.name))
    return found
