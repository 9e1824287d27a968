"""Gate tokens: a file of hashes, believed whole or not at all, read again when it changes."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

from bot.cli.main import run
from bot.errors import InputError
from bot.web.gate_tokens import GateTokens, hashed, parse

TODAY = datetime.date(2026, 11, 30)
ENTRY = f'[[token]]\nname = "a"\ninstallation = 7\nsha256 = "{hashed("secret")}"\n'


def _tokens(path: Path, text: str) -> GateTokens:
    path.write_text(text)
    return GateTokens(path)


def test_a_token_is_known_by_its_hash_until_it_expires(tmp_path: Path) -> None:
    tokens = _tokens(tmp_path / "t", f"{ENTRY}repositories = [5]\nexpires = 2026-11-30\n")
    found = tokens.find("secret", TODAY)
    assert found is not None
    assert (found.name, found.installation_id, found.reaches(5), found.reaches(6)) == ("a", 7, True, False)
    assert tokens.find("secret", TODAY + datetime.timedelta(days=1)) is None
    assert tokens.find(hashed("secret"), TODAY) is None
    assert tokens.find("", TODAY) is None


def test_a_changed_file_counts_at_once_and_a_broken_one_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "t"
    tokens = _tokens(path, ENTRY)
    assert tokens.find("secret", TODAY) is not None
    path.write_text(ENTRY + ENTRY.replace(hashed("secret"), hashed("new")).replace('"a"', '"b"'))
    assert tokens.find("new", TODAY) is not None
    assert tokens.find("secret", TODAY) is not None
    path.write_text(ENTRY + "nonsense = 1\n")
    assert tokens.find("secret", TODAY) is None
    path.unlink()
    assert tokens.find("secret", TODAY) is None
    assert GateTokens(None).find("secret", TODAY) is None


@pytest.mark.parametrize(
    "text",
    [
        "token = 1",
        "[other]\nx = 1",
        ENTRY.replace("7", '"7"'),
        ENTRY.replace("7", "0"),
        ENTRY.replace('"a"', '"a b"'),
        ENTRY.replace(hashed("secret"), "secret"),
        f'{ENTRY}repositories = ["x"]',
        f"{ENTRY}repositories = [true]",
        f'{ENTRY}expires = "soon"',
        f"{ENTRY}expires = 2026-11-30T10:00:00",
        f'{ENTRY}allow = ["exceeds"]',
        f"{ENTRY}require_commit = 1",
        f"{ENTRY}surprise = 1",
        "[[token",
    ],
)
def test_an_entry_that_is_wrong_is_named(text: str) -> None:
    with pytest.raises(InputError):
        parse(text)


def test_the_command_makes_a_token_that_the_file_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens.toml"
    for name in ("a", "b"):
        assert run(["gate-token", name, "--installation", "7", "--days", "30", "--file", str(path)]) == 0
    first, second = capsys.readouterr().out.split()
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert first not in path.read_text()
    today = datetime.datetime.now(datetime.timezone.utc).date()
    assert [GateTokens(path).find(token, today).name for token in (first, second)] == ["a", "b"]  # type: ignore[union-attr]
    assert run(["gate-token", "not a name", "--installation", "7"]) == 2
