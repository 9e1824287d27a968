"""One JSON object a line, with ids, without secrets."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from bot.errors import InputError
from bot.queue.logbook import Logbook
from bot.telemetry.logs import JsonFormatter, TextFormatter, bind, event, install_logging

_TOKEN = "ghs_12_" + "a" * 30 + ".bcd"
_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"


class _Kept(logging.Handler):
    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> Iterator[_Kept]:
    handler = _Kept(getattr(request, "param", JsonFormatter)())
    logger = logging.getLogger("preflight")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)


def test_every_line_of_a_job_names_what_it_belongs_to(kept: _Kept) -> None:
    with Logbook("review_pull", delivery="d-1", pull="acme/x#7", job_id="pr-1") as log:
        logging.getLogger("preflight.github").warning("slow %s", "answer")
        log.note(outcome="done", calls=12)
    inside, last = (json.loads(line) for line in kept.lines)
    for line in (inside, last):
        assert (line["delivery"], line["pull"], line["job_id"]) == ("d-1", "acme/x#7", "pr-1")
    assert inside["event"] == "slow answer"
    assert (last["outcome"], last["calls"]) == ("done", 12)
    logging.getLogger("preflight.github").warning("outside")
    assert "delivery" not in json.loads(kept.lines[-1])


@pytest.mark.parametrize("kept", [JsonFormatter, TextFormatter], indirect=True)
def test_no_secret_in_message_field_list_or_traceback(kept: _Kept) -> None:
    logger = logging.getLogger("preflight.x")
    with bind(bound=_TOKEN):
        event(logger, f"said {_TOKEN}", {"field": _KEY, "many": [_TOKEN, {"deep": _TOKEN}], "n": 1})
    try:
        raise ValueError(_TOKEN)
    except ValueError:
        logger.exception("failed with %s", _KEY)
    text = "\n".join(kept.lines)
    for secret in (_TOKEN, "MIIabc", "a" * 30):
        assert secret not in text
    assert "ValueError" in text
    assert "[redacted]" in text


def test_a_line_is_one_line_whatever_is_in_it(kept: _Kept) -> None:
    event(logging.getLogger("preflight.x"), 'a\nb "c"', {"branch": "x\ny\u2028z"})
    [line] = kept.lines
    assert "\n" not in line
    assert json.loads(line)["event"] == 'a\nb "c"'


def test_an_unknown_format_is_named() -> None:
    root = logging.getLogger()
    before = root.handlers[:]
    try:
        with pytest.raises(InputError, match="PREFLIGHT_LOG_FORMAT: json or text, not 'xml'"):
            install_logging({"PREFLIGHT_LOG_FORMAT": "xml"})
        install_logging({})
        [handler] = root.handlers
        assert isinstance(handler.formatter, JsonFormatter)
        assert getattr(handler, "stream", None) is sys.stderr
    finally:
        root.handlers[:] = before
