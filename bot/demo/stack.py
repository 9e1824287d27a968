"""The processes of a demonstration, all real: Redis, the local GitHub, gunicorn, workers. Stopped with the block."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.demo.hub import HubClient
from bot.errors import Unavailable
from bot.manifest import load
from bot.redis_server import die_with_parent, redis_for

_START_SECONDS = 40.0
_STOP_SECONDS = 8.0


@dataclass(slots=True)
class Process:
    """One child, and the file its output goes to."""

    name: str
    child: subprocess.Popen[bytes]
    log: Path

    def tail(self, num_lines: int = 12) -> str:
        """The end of what it wrote."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-num_lines:]
        return "\n".join(f"    {self.name} | {line}" for line in lines)


@dataclass(slots=True)
class Stack:
    """``with Stack() as stack:`` runs everything. `environment` adds settings of the web process and the workers."""

    environment: dict[str, str] = field(default_factory=dict)
    num_workers: int = 2
    redis_url: str = ""
    hub: HubClient = field(init=False)
    directory: Path = field(init=False)
    app_id: int = field(init=False)
    processes: dict[str, Process] = field(default_factory=dict)
    web_url: str = ""
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Stack:
        try:
            self._start()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _start(self) -> None:
        self.directory = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="preflight-demo-")))
        self._open.callback(self._stop_all)
        self.redis_url = self._open.enter_context(redis_for(self.redis_url or None))
        self._open.callback(self._stop_all)  # before Redis goes
        hub_url = self._start_hub()
        self.hub = HubClient(hub_url)
        self._open.callback(self.hub.close)
        port = free_port()
        self.web_url = f"http://127.0.0.1:{port}"
        settings = self._register(hub_url)
        self.start("web", ["preflight", "serve", "--bind", f"127.0.0.1:{port}", "--processes", "1"], settings)
        self.start("worker", ["preflight", "worker", "--workers", str(self.num_workers)], settings)
        self._until_ready()

    def _start_hub(self) -> str:
        process = self.start("hub", ["bot.localhub", "--data", str(self.directory / "hub")], {})
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            first = process.log.read_text(encoding="utf-8").partition("\n")
            if first[1] and first[0].startswith("http://"):
                return first[0]
            self._check_alive()
            time.sleep(0.05)
        raise Unavailable(f"the local GitHub did not start\n{process.tail()}")

    def _register(self, hub_url: str) -> dict[str, str]:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        key_file = self.directory / "app.pem"
        key_file.touch(mode=0o600)
        no_password = serialization.NoEncryption()
        pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
        key_file.write_bytes(key.private_bytes(*pem, no_password))
        form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        manifest = load()
        app = self.hub.post(
            "/apps",
            slug="preflight",
            public_key=key.public_key().public_bytes(*form).decode(),
            webhook_url=f"{self.web_url}/webhook",
            webhook_secret=self.secret,
            permissions=dict(manifest.permissions),
            events=list(manifest.events),
        )
        self.app_id = app["id"]
        return {
            "REDIS_URL": self.redis_url,
            "GITHUB_API_URL": f"{hub_url}/api/v3",
            "PREFLIGHT_APP_ID": str(self.app_id),
            "PREFLIGHT_PRIVATE_KEY_FILE": str(key_file),
            "PREFLIGHT_WEBHOOK_SECRET": self.secret,
            "PREFLIGHT_PUBLIC_URL": self.web_url,
            "PREFLIGHT_CLIENT_ID": app["client_id"],
            "PREFLIGHT_CLIENT_SECRET": app["client_secret"],
            "PREFLIGHT_NAMESPACE": f"preflight-demo-{secrets.token_hex(4)}",
            "PREFLIGHT_SECONDS_BETWEEN_WRITES": "0.05",  # nobody else waits at this GitHub
            "PREFLIGHT_WORKER_NICE": "0",  # whatever else this machine does, somebody watches
            **self.environment,
        }

    def start(self, name: str, module: list[str], settings: dict[str, str]) -> Process:
        """Start ``python -I -m MODULE …`` with a clean environment; its output goes to a file."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFLIGHT_", "GITHUB_", "REDIS_"))}
        log = self.directory / f"{name}.log"
        with log.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-I", "-m", *module],
                cwd=self.directory,
                env=kept | settings,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to us; we stop them in order
                preexec_fn=partial(die_with_parent, signal.SIGTERM),  # noqa: PLW1509  no thread of ours runs yet
            )
        self.processes[name] = Process(name, child, log)
        return self.processes[name]

    def _until_ready(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            self._check_alive()
            try:
                if requests.get(f"{self.web_url}/readyz", timeout=3).status_code == 200:
                    return
            except requests.RequestException:
                pass
            time.sleep(0.1)
        raise Unavailable(f"the web process and a worker were not ready in time\n{self.diagnosis()}")

    def _check_alive(self) -> None:
        for process in self.processes.values():
            if process.child.poll() is not None:
                raise Unavailable(f"{process.name} ended with code {process.child.returncode}\n{process.tail()}")

    def diagnosis(self) -> str:
        """The end of every log."""
        return "\n".join(process.tail() for process in self.processes.values())

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End one process and everything in its session."""
        process = self.processes.pop(name)
        _signal_group(process.child.pid, number)
        try:
            process.child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            _signal_group(process.child.pid, signal.SIGKILL)
            process.child.wait()
        _signal_group(process.child.pid, signal.SIGKILL)  # what it left behind

    def _stop_all(self) -> None:
        for name in reversed(list(self.processes)):
            self.stop(name)

    def add_repository(self, full_name: str, source: Path, **more: Any) -> int:
        """A repository on the hub with the app installed on its owner; returns the installation's id."""
        self.hub.post("/repos", full_name=full_name, source=str(source), **more)
        return int(self.hub.post("/installations", app_id=self.app_id, account=full_name.partition("/")[0])["id"])


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def free_port() -> int:
    """A loopback port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
