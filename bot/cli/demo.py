"""Show the main job end to end on this machine: a pull request in, a review and two check runs out.

Starts Redis (REDIS_URL, or one of its own), gunicorn, workers and a local GitHub, and stops them when it ends. With CI
in the environment it also proves the suggested fixes and a redelivery, and ends by itself; otherwise Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.demo.story import Source


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repo", type=Path, help="a git repository of yours (read only; default: a sample)")
    parser.add_argument("--base", help="what to compare with (needed with --repo)")
    parser.add_argument("--head", default="HEAD", help="what to review (default: the current commit)")


def run(args: argparse.Namespace) -> int:
    from bot.demo import show, story
    from bot.demo.stack import Stack
    from bot.errors import InputError

    if args.repo and not args.base:
        raise InputError("--base: say what to compare with, for instance --base main")
    # A stopped demo cleans up too; and a shell that starts it in the background has SIGINT ignored.
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, signal.default_int_handler)
    in_ci = bool(os.environ.get("CI"))
    started = time.monotonic()
    show.step("starting Redis, the local GitHub, gunicorn and two workers")
    with Stack(redis_url=os.environ.get("REDIS_URL", "")) as stack:
        show.step(f"ready after {time.monotonic() - started:.1f} s")
        source = _source(args, stack.directory)
        number, seen = story.tell(stack, source)
        if in_ci:
            if not args.repo:
                story.check_sample(seen)
            story.prove(stack, source, number, seen)
        else:
            show.say("\nOpen the page in a browser; Ctrl-C ends the demo.")
            _until_interrupted()
    show.say(f"\ndone in {time.monotonic() - started:.0f} s; everything was stopped and removed")
    return 0


def _source(args: argparse.Namespace, directory: Path) -> Source:
    from bot.demo import sample, story

    if args.repo:
        copy = sample.copy_of(args.repo, args.base, args.head, directory / "source.git")
        title = sample.git(copy, "log", "-1", "--format=%s", "head") or "Review"
        name = f"local/{args.repo.resolve().name.replace(' ', '-') or 'repository'}"
        return story.Source(path=copy, base="base", head="head", title=title, name=name)
    path = sample.build(directory / "source")
    return story.Source(path=path, base="main", head="classifier", title=sample.TITLE, body=sample.BODY)


def _until_interrupted() -> None:
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        return
