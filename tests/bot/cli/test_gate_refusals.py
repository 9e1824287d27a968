"""What the Preflight server refuses reaches the person at the gate in words, and nothing runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from bot.errors import InputError
from bot.gate_client import check_of_commit

JSON = "application/json"


class Server(HTTPServer):
    """Gives one answer to everybody."""

    answer: tuple[int, str, str]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        status, kind, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), _Handler) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, JSON, '{"message":"a gate token is wanted"}\n'), "401: it does not know this token"),
        (
            (403, JSON, '{"message":"the token is not for this repository"}'),
            "403: the token is not for this repository",
        ),
        ((404, "text/html", "<h1>Not Found</h1>"), "404: it has no gate: PREFLIGHT_GATE_TOKENS_FILE is not set there"),
        ((404, JSON, '{"message":"no such repository"}'), "404: no such repository"),
        ((502, "text/html", "Bad gateway"), "502: Bad gateway"),
        ((500, JSON, '["a"]'), '500: ["a"]'),
    ],
)
def test_a_refusal_is_said_in_words(server: Server, answer: tuple[int, str, str], said: str) -> None:
    server.answer = answer
    environment = {"PREFLIGHT_GATE_URL": f"http://127.0.0.1:{server.server_port}", "PREFLIGHT_GATE_TOKEN": "pfg_x"}
    with pytest.raises(InputError) as caught:
        check_of_commit("7", "0" * 40, environment)
    assert said in str(caught.value)


def test_the_server_wants_a_number(server: Server) -> None:
    environment = {"PREFLIGHT_GATE_URL": f"http://127.0.0.1:{server.server_port}", "PREFLIGHT_GATE_TOKEN": "pfg_x"}
    with pytest.raises(InputError, match=r"--repository ID \(gh api repos/acme/nets --jq \.id\)"):
        check_of_commit("acme/nets", "0" * 40, environment)
