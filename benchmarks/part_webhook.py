"""Webhook acknowledgement under load: real gunicorn, real Valkey, signed deliveries on loopback, nothing mocked."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from bot.redis_server import own_server
from bot.store import connect

RATES = (50, 100, 200)
SECONDS = 5.0
_CLIENTS = 8
_BODY = json.dumps(
    {
        "action": "synchronize",
        "number": 7,
        "pull_request": {"state": "open", "head": {"sha": "a" * 40}, "body": "x" * 20_000},
        "repository": {"id": 1, "full_name": "acme/training"},
        "installation": {"id": 2},
    }
).encode()  # about the size of GitHub's own


def run() -> str:
    """Markdown: one row for each rate. Loss is deliveries without a 202 or without a job in Redis."""
    secret = secrets.token_hex(32)
    rows = []
    with own_server() as url, _receiver(url, secret) as port:
        client = connect(url)
        for rate in RATES:
            client.flushall()
            latencies, failed, seconds = _load(port, secret, rate)
            lost = failed + len(latencies) - client.llen("rq:queue:preflight-fast")
            p50, p99 = _percentile(latencies, 0.50), _percentile(latencies, 0.99)
            done = len(latencies) / seconds
            rows.append(f"| {rate} | {done:.0f} | {p50:.1f} | {p99:.1f} | {lost} of {len(latencies) + failed} |")
    head = "| deliveries/s asked | done | p50 ms | p99 ms | lost |\n| ---: | ---: | ---: | ---: | ---: |\n"
    note = (
        f"`preflight serve --processes 2` on {os.cpu_count()} cores with its Redis and the load generator beside it,"
        f" {len(_BODY) // 1024} KiB payloads, {SECONDS:.0f} s for each rate, latency from the time a delivery was due."
    )
    return f"## Webhook acknowledgement\n\n{note}\n\n{head}" + "\n".join(rows) + "\n"


def _load(port: int, secret: str, rate: int) -> tuple[list[float], int, float]:
    """Latencies in ms counted from when each delivery was due (a late sender hides no queueing), failures, seconds."""
    signature = "sha256=" + hmac.new(secret.encode(), _BODY, hashlib.sha256).hexdigest()
    num = int(rate * SECONDS)
    latencies: list[float] = []
    failures: list[int] = []
    start = time.perf_counter() + 0.2

    def send(first: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        for number in range(first, num, _CLIENTS):
            due = start + number / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            headers = {
                "Content-Type": "application/json",
                "X-GitHub-Event": "pull_request",
                "X-GitHub-Delivery": str(uuid.uuid4()),
                "X-Hub-Signature-256": signature,
            }
            try:
                connection.request("POST", "/webhook", _BODY, headers)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                failures.append(number)
                continue
            if answer.status == 202:
                latencies.append((time.perf_counter() - due) * 1000)
            else:
                failures.append(number)
        connection.close()

    threads = [threading.Thread(target=send, args=(first,)) for first in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies, len(failures), time.perf_counter() - start


@contextmanager
def _receiver(redis_url: str, secret: str) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "preflight", "serve", "--bind", f"127.0.0.1:{port}", "--processes", "2"],
        env={"PATH": os.environ["PATH"], "REDIS_URL": redis_url, "PREFLIGHT_WEBHOOK_SECRET": secret},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(port)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _wait(port: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the receiver did not start")


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


if __name__ == "__main__":
    print(run())
