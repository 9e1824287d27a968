"""Look for what keeps reviews from happening: settings, secrets, Redis, workers, the app at GitHub, its webhook.

Run it where the workers run, with their environment. Nothing is changed; a signed ping is sent to the app's webhook.

Exit code 1: something failed. Each line that is not good says how to repair it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import InputError

if TYPE_CHECKING:
    from bot.doctor.line import Line

_MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL", "skip": "skip"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--manifest", metavar="FILE", help="compare with another app.yml than this version's")
    parser.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="look again until nothing fails, for so long at most"
    )
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Print what was found; 1 where something failed."""
    from bot.doctor.line import is_bad

    manifest = Path(args.manifest) if args.manifest else None
    lines = list(_lines(manifest))
    until = time.monotonic() + args.wait
    while is_bad(lines) and time.monotonic() < until:
        time.sleep(1.0)
        lines = list(_lines(manifest))
    if args.format == "json":
        print(json.dumps({"version": 1, "ok": not is_bad(lines), "checks": [asdict(line) for line in lines]}, indent=2))
        return int(is_bad(lines))
    for line in lines:
        print(f"{_MARKS[line.status]}  {line.name}: {line.detail}")
        if line.repair:
            print(f"      -> {line.repair}")
    return int(is_bad(lines))


def _lines(manifest_path: Path | None) -> Iterator[Line]:
    from bot.doctor import app, local, queue
    from bot.doctor.line import skip
    from bot.manifest import load
    from bot.settings import redis_url, web_settings, worker_settings

    manifest = load(manifest_path)
    yield from local.settings(os.environ)
    yield from local.files(os.environ)
    try:
        yield from queue.look(redis_url(os.environ), os.environ.get("PREFLIGHT_NAMESPACE", "preflight"))
    except InputError as error:
        yield skip("redis", str(error))
    try:
        settings = worker_settings(os.environ)
    except InputError:
        yield skip("app", "needs the worker settings")
        return
    if "api.github.com" not in settings.api_url:
        manifest = manifest.without_merge_queues()
    try:
        secret = web_settings(os.environ).webhook_secrets[0]
    except InputError:
        secret = None
    yield from app.look(settings, manifest, secret)
