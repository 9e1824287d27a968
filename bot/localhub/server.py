"""Running a hub: in a thread (`Server`, for tests) or as a process (``python -m bot.localhub``)."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from bot.localhub.app import create_app
from bot.localhub.service import Service
from bot.localhub.urls import API_PREFIX


class _Handler(WSGIRequestHandler):
    """Keep-alive, no log lines: what crossed is in the recorder."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        return


class Server:
    """A hub that listens on a loopback port (0: any free one) as long as the ``with`` block runs."""

    def __init__(self, data_dir: Path, port: int = 0, host: str = "127.0.0.1") -> None:
        self._server: BaseWSGIServer = make_server(host, port, _nothing, threaded=True, request_handler=_Handler)
        self._server.daemon_threads = True  # type: ignore[attr-defined]
        self._server.block_on_close = False  # type: ignore[attr-defined]
        self.url = f"http://{host}:{self._server.port}"
        self.api_url = self.url + API_PREFIX
        self.service = Service(data_dir, self.url)
        self._server.app = create_app(self.service)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="localhub", daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.service.close()
        self._server.shutdown()
        self._thread.join(timeout=5)
        self._server.server_close()

    def serve_forever(self) -> None:
        """Serve in the present thread until interrupted."""
        try:
            self._server.serve_forever()
        finally:
            self.service.close()
            self._server.server_close()


def _nothing(environ: Any, start_response: Any) -> list[bytes]:
    """Stands in until the port, and with it the hub's own address, is known."""
    start_response("503 Service Unavailable", [("Content-Length", "0")])
    return []
