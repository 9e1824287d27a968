"""A Redis of our own for every test that needs one, and the processes of the whole stack."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, settings

from bot.redis_server import own_server
from bot.store import connect

# Time is no property of what is tested here, and the machine is shared with the tests' own servers. New examples are
# for people to find: CI repeats the same ones.
settings.register_profile(
    "preflight", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("preflight")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands under test neither find nor leave reports in the developer's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A server started for this session: never one that a developer uses."""
    with own_server() as url:
        yield url


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """An empty database."""
    connection = connect(redis_url)
    connection.flushall()
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def private_key() -> str:
    """A fresh RSA key in PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


@pytest.fixture
def preflight(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start ``preflight …`` with only the given environment; ended after the test, its log in the failure report."""
    started: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        log = tmp_path / f"{arguments[0]}-{len(started)}.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", "preflight", *arguments],
                env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **environment},
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append((process, log))
        return process

    yield start
    for process, _ in started:
        if process.poll() is None:
            process.terminate()
    for process, log in started:
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        print(f"--- {log.name}\n{log.read_text(errors='replace')[-6000:]}")
