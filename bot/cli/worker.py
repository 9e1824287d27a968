"""Run the queue's workers and the sweeper.

Settings come from the environment: REDIS_URL, PREFLIGHT_APP_ID, PREFLIGHT_PRIVATE_KEY(_FILE) and, for GHES,
GITHUB_API_URL. More load needs more workers; they may run on any number of machines.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers", "-n", type=int, default=os.cpu_count() or 2, help="worker processes (default: cores)"
    )
    parser.add_argument("--one", action="store_true", help="be one rq worker, without supervisor and sweeper")


def run(args: argparse.Namespace) -> int:
    from bot.errors import InputError
    from bot.queue.room import open_room
    from bot.telemetry.logs import install_logging

    if args.workers < 1:
        raise InputError("--workers: at least 1")
    install_logging(os.environ)
    room = open_room()
    if args.one:
        # Before the fork: each job would bring these in anew.
        import bot.queue.command
        import bot.queue.events
        import bot.queue.jobs
        import bot.sources.github  # noqa: F401
        from bot.queue.worker import PreflightWorker
        from bot.redis_server import die_with_parent

        # An rq worker takes SIGTERM as: finish the job, then end.
        die_with_parent(signal.SIGTERM)
        worker = PreflightWorker(room.client, room.keys, room.settings.times)
        worker.work(with_scheduler=True, logging_level="WARNING")
        return 0
    from analyzer.api import extension_problems
    from bot.isolate.priority import step_back
    from bot.queue.patrol import Patrol
    from bot.queue.supervisor import Supervisor
    from bot.queue.sweep import Sweeper

    for problem in extension_problems():
        logging.getLogger(__name__).warning(problem)
    step_back(room.settings.times.nice)  # and with us the workers and their children
    room.meter.keep_flushing()
    print(f"preflight worker: {args.workers} workers", file=sys.stderr)
    return Supervisor(args.workers, room.settings.times, Sweeper(room), Patrol(room)).run()
