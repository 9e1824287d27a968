"""`preflight docs` brings the documents of a checkout up to date, and says which are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.catalogue import all_rules
from bot.cli.main import command_names, parser_for, run
from bot.render.help import WIDTH, command_help


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "preflight-bot"\n')
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path / "docs")
    return tmp_path / "docs"


def test_documents_are_written_once_and_then_fresh(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", "--check"]) == 1
    assert "docs/cli.md is stale" in capsys.readouterr().out
    assert not list(checkout.iterdir())
    assert run(["docs"]) == 0
    assert "wrote docs/rules/PF101.md" in capsys.readouterr().out
    assert run(["docs", "--check"]) == 0
    assert capsys.readouterr().out == ""


def test_stale_and_orphaned_pages_are_named(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["docs"])
    (checkout / "rules" / "PF101.md").write_text("typed by hand\n")
    (checkout / "rules" / "PF999.md").write_text("a rule that was\n")
    capsys.readouterr()
    assert run(["docs", "--check"]) == 1
    assert capsys.readouterr().out.count("is stale") == 2
    run(["docs"])
    assert not (checkout / "rules" / "PF999.md").exists()
    assert run(["docs", "--check"]) == 0


def test_outside_a_checkout_it_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    monkeypatch.chdir(tmp_path)
    assert run(["docs"]) == 2
    assert [item.name for item in tmp_path.iterdir()] == ["pyproject.toml"]


def test_every_rule_and_command_has_its_place(checkout: Path) -> None:
    run(["docs"])
    table = (checkout / "rules" / "README.md").read_text()
    assert [code for code in (rule.code for rule in all_rules()) if f"[{code}]({code}.md)" not in table] == []
    page = (checkout / "cli.md").read_text()
    titles = {name: f"\n## preflight {name.replace('_', '-')}\n" for name in command_names()}
    assert [name for name, title in titles.items() if (title in page) is (name == "docs")] == []


@pytest.mark.parametrize("command", command_names())
def test_help_names_every_option_and_fits(command: str) -> None:
    parser, _ = parser_for(command)
    text = command_help(parser)
    assert [option for action in parser._actions for option in action.option_strings if option not in text] == []
    assert max(map(len, text.splitlines())) <= WIDTH
