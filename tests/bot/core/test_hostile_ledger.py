"""A record that is signed and yet no ledger (a bug of ours, a stolen key): it is not believed, and nothing breaks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import zlib
from typing import Any

import pytest

from bot.core.ledger import Ledger
from bot.core.seal import unseal

KEY = b"k" * 32
STRANGE: list[Any] = [[], {}, None, 1.5]
ROW: dict[str, Any] = {
    "fingerprint": "a" * 16,
    "rule": "PF101",
    "path": "train.py",
    "line": 7,
    "severity": "error",
    "where": "comment",
    "status": "open",
    "head_sha": "1" * 40,
}


def _signed(text: str) -> str:
    payload = base64.b64encode(zlib.compress(text.encode())).decode()
    mac = hmac.new(KEY, f"1:5:17:{payload}".encode(), hashlib.sha256).hexdigest()
    return f"<!-- preflight:ledger=1:{payload}:{mac} -->"


def test_the_row_itself_is_good() -> None:
    opened = unseal(_signed(json.dumps({"posted": [ROW]})), 5, 17, [KEY])
    assert opened.problem == ""
    assert [item.line for item in opened.ledger.posted] == [7]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        "null",
        '"posted"',
        "[" * 200_000,
        '{"a":' * 200_000,
        '{"posted":' + "[" * 100_000,
        '{"posted": {"a": 1}}',
        '{"posted": "abc"}',
        '{"posted": 3}',
        '{"posted": null}',
        '{"posted": [null]}',
        '{"posted": [[]]}',
        '{"posted": [{}]}',
        '{"head_sha": {}}',
        '{"distrusted": ["x"]}',
        *(json.dumps({"posted": [ROW | change]}) for change in ({"line": "7"}, {"line": True}, {"line": None})),
        *(json.dumps({"posted": [ROW | {name: value}]}) for name in ROW for value in STRANGE),
        json.dumps({"posted": [ROW | {"status": "gone"}]}),
        json.dumps({"posted": [ROW | {"where": ["comment"]}]}),
        json.dumps({"posted": [ROW | {"more": 1}]}),
        json.dumps({"overrides": [{"check": "code", "sha": "1" * 40, "reason": "", "who": "x", "when": ""}]}),
        json.dumps({"posted": [ROW | {"line": 7}]}).replace("7", "7" * 5_000),
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
        " " * (5 << 20),
    ],
    ids=lambda text: text[:40] or "empty",
)
def test_what_is_no_ledger_is_not_believed(text: str) -> None:
    opened = unseal(_signed(text), 5, 17, [KEY])
    assert opened.ledger == Ledger()
    assert opened.problem.startswith("the record in the summary cannot be read")
