"""The steps of `deploy/Dockerfile` without Docker: its build stage replayed in a folder, and the result started.

    python benchmarks/image_steps.py

Needs the network (it installs the pinned packages) and takes a minute or more. /opt/preflight becomes a
temporary folder, which is made read-only before it runs, as compose and Kubernetes do.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import requests

from bot.redis_server import own_server

ROOT = Path(__file__).resolve().parents[1]
PREFIX = "/opt/preflight"


def steps() -> list[list[tuple[str, str]]]:
    """Instructions by stage."""
    found: list[list[tuple[str, str]]] = []
    for line in (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            found.append([])
        elif found and word and not word.startswith("#"):
            found[-1].append((word, rest))
    return found


def build(stage: list[tuple[str, str]], source: Path, prefix: Path) -> None:
    """Replay COPY and RUN."""
    for word, rest in stage:
        if word == "COPY":
            *names, _ = rest.split()
            for name in names:
                place = ROOT / name
                if place.is_dir():
                    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
                    shutil.copytree(place, source / name, ignore=ignored)
                else:
                    shutil.copy(place, source / name)
        elif word == "RUN":
            command = [part.replace(PREFIX, str(prefix)) for part in shlex.split(rest)]
            command[0] = sys.executable if command[0] == "python" else command[0]
            started = time.monotonic()
            subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)
            print(f"{time.monotonic() - started:6.1f} s  {rest[:90]}")


def run(stage: list[tuple[str, str]], prefix: Path, work: Path) -> None:
    """Start what the last stage starts, from a folder with a hostile module, and ask it."""
    entry = [part.replace(PREFIX, str(prefix)) for part in json.loads(dict(stage)["ENTRYPOINT"])]
    (work / "bot.py").write_text("raise SystemExit('the working directory was imported')\n")
    environment = {"PATH": os.environ["PATH"], "PREFLIGHT_WEBHOOK_SECRET": "image-steps-0123456789"}
    said = subprocess.run([*entry, "--version"], cwd=work, env=environment, check=True, capture_output=True, text=True)
    print(said.stdout.strip())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with own_server() as redis_url:
        command = [*entry, "serve", "--bind", f"127.0.0.1:{port}"]
        process = subprocess.Popen(command, cwd=work, env=environment | {"REDIS_URL": redis_url})
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    answer = requests.get(f"http://127.0.0.1:{port}/healthz", timeout=3)
                    break
                except requests.RequestException:
                    if time.monotonic() > until or process.poll() is not None:
                        raise
                    time.sleep(0.2)
            assert answer.status_code == 200, answer.text
            print("GET /healthz: 200")
        finally:
            process.terminate()
            process.wait(30)


def main() -> None:
    """Build, make read-only, run."""
    build_stage, last = steps()
    with tempfile.TemporaryDirectory() as folder:
        source, prefix, work = (Path(folder) / name for name in ("src", "opt", "work"))
        for place in (source, work):
            place.mkdir()
        build(build_stage, source, prefix)
        megabytes = sum(file.stat().st_size for file in prefix.rglob("*") if file.is_file()) / 1e6
        tools = [name for name in ("pip", "gcc", "cc", "git") if (prefix / "bin" / name).exists()]
        print(f"{megabytes:.0f} MB in {PREFIX}; build tools there: {', '.join(tools) or 'none'}")
        subprocess.run(["chmod", "-R", "a-w", str(prefix)], check=True)
        run(last, prefix, work)
        subprocess.run(["chmod", "-R", "u+w", str(prefix)], check=True)


if __name__ == "__main__":
    main()
