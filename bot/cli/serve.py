"""Receive webhooks (gunicorn).

Settings come from the environment: REDIS_URL, PREFLIGHT_WEBHOOK_SECRET(_FILE), PREFLIGHT_APP_ID. Answers POST /webhook,
GET /healthz and GET /readyz. The process is stateless: run as many as you like. SIGTERM lets requests finish.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import ssl
import struct
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bot.web.ending import Ending

_SILENCE_SECONDS = 5
"""A client that sends nothing for so long, in the middle of a request, loses its connection and frees the thread."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bind", default="127.0.0.1:8000", help="host:port or unix:/path (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="gunicorn worker processes (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=8, help="threads of each process (default: %(default)s)")
    parser.add_argument(
        "--drain",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="after SIGTERM go on so long while /readyz says 503, until a load balancer has noticed (default: 0)",
    )

    tls = parser.add_argument_group("TLS", "without a proxy in front; an admission webhook is only called over TLS")
    tls.add_argument("--certificate", metavar="FILE", help="the server's certificate chain (PEM)")
    tls.add_argument("--key", metavar="FILE", help="its private key (PEM)")
    tls.add_argument("--client-ca", metavar="FILE", help="verify client certificates, where one is shown")


def run(args: argparse.Namespace) -> int:
    from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

    from bot.pages.settings import page_settings
    from bot.settings import web_settings
    from bot.telemetry.logs import install_logging
    from bot.web.app import create_app
    from bot.web.ending import Ending

    ending = Ending()
    install_logging(os.environ)
    web_settings(os.environ)  # a missing secret refuses to start here, not in a worker
    page_settings(os.environ)

    def when_ready(server: Any) -> None:
        _limit_silence(server)
        _end_in_order(server, ending, args.drain)

    class Receiver(BaseApplication):  # type: ignore[misc]
        """Not gunicorn's command line: that puts the working directory on the import path."""

        def load_config(self) -> None:
            options = {
                "bind": args.bind,
                "workers": args.processes,
                "threads": args.threads,
                "worker_class": "gthread",
                "timeout": 30,
                "graceful_timeout": 20,
                "keepalive": 75,
                "max_requests": 0,
                "proc_name": "preflight",
                "control_socket_disable": True,
                "when_ready": when_ready,
                "certfile": args.certificate,
                "keyfile": args.key,
                "ca_certs": args.client_ca,
                "cert_reqs": ssl.CERT_OPTIONAL if args.client_ca else ssl.CERT_NONE,
            }
            for name, value in options.items():
                if name in self.cfg.settings:
                    self.cfg.set(name, value)

        def load(self) -> object:
            return create_app(ending=ending)

    _log_as_we_do()
    Receiver().run()
    return 0


def _log_as_we_do() -> None:
    """gunicorn's own handlers would write its lines in a form of their own."""
    from gunicorn import glogging  # type: ignore[import-untyped]

    def setup(logger: Any, cfg: Any) -> None:
        for own in (logger.error_log, logger.access_log):
            own.propagate, own.handlers = True, []
        logger.error_log.setLevel(logging.INFO)

    glogging.Logger.setup = setup


def _limit_silence(server: Any) -> None:
    """gunicorn's threads read without a time-out; a connection inherits the one of its listening socket (Linux)."""
    for listener in server.LISTENERS:
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _SILENCE_SECONDS, 0))


def _end_in_order(server: Any, ending: Ending, seconds: float) -> None:
    """First not ready, then not there: gunicorn closes its sockets at once, and who comes in between is refused."""
    stop = server.handle_term

    def handle_term() -> None:
        ending.announce()
        time.sleep(seconds)
        stop()

    server.handle_term = handle_term
