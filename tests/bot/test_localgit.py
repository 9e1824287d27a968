"""A local repository as a pull request, a hostile one included."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bot.cli.main import run
from bot.core.diff import commentable
from bot.errors import InputError
from bot.sources.localgit import Repository


def git(path: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, "-C", str(path), *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "r"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "a b.py").write_text("".join(f"x{n} = {n}\n" for n in range(30)))
    (root / "move.py").write_text("".join(f"y{n} = {n}\n" for n in range(30)))
    (root / "gone.py").write_text("z = 1\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    git(root, "checkout", "-qb", "feat")
    (root / "a b.py").write_text("".join(f"x{n} = {n}\n" for n in range(31)))
    (root / "move.py").rename(root / "moved.py")
    (root / "gone.py").unlink()
    (root / "bin").write_bytes(b"\0\1")
    (root / "new.py").write_bytes(b"a = '\xe2\x80\xa8'\nb = 1")
    (root / "link.py").symlink_to("/etc/passwd")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "two")
    return root


def test_changes_are_listed_as_github_lists_them(repository: Path) -> None:
    with Repository(repository) as opened:
        pull = opened.pull("main", "HEAD")
        tree = opened.tree(pull.head_sha)
        assert tree.read("new.py") == b"a = '\xe2\x80\xa8'\nb = 1"
        assert tree.read("link.py") is None
        assert tree.read("nope") is None
    found = {file.path: (file.status, file.previous_path, file.patch is None) for file in pull.changed_files}
    assert found == {
        "a b.py": ("modified", None, False),
        "bin": ("added", None, True),
        "gone.py": ("removed", None, False),
        "link.py": ("added", None, False),
        "moved.py": ("renamed", "move.py", True),
        "new.py": ("added", None, False),
    }
    patches = {file.path: file.patch for file in pull.changed_files}
    assert ("RIGHT", 31) in commentable(patches["a b.py"])
    assert {("RIGHT", 1), ("RIGHT", 2)} == set(commentable(patches["new.py"]))


def test_the_repositorys_configuration_starts_nothing(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    command = f"touch {trap}; true"
    for key in ("diff.external", "core.fsmonitor", "diff.x.textconv", "diff.x.command", "core.pager"):
        git(repository, "config", key, command)
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("*.py diff=x\n")
    with Repository(repository) as opened:
        assert len(opened.pull("main", "feat").changed_files) == 6
    assert not trap.exists()


@pytest.mark.parametrize("ref", ["nope", "--output=x", "", "a b"])
def test_a_wrong_ref_is_named(repository: Path, ref: str) -> None:
    with Repository(repository) as opened, pytest.raises(InputError):
        opened.pull(ref, "HEAD")


def test_the_command_prints_the_plan(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["review", str(repository), "--base", "main", "--dry-run", "--format", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in plan["checks"]] == ["preflight/code", "preflight/memory"]
    assert run(["review", str(repository), "--base", "feat"]) == 0
    assert capsys.readouterr().err == "preflight review: HEAD adds no commit to feat: only commits are reviewed\n"
    assert run(["review", str(repository), "--base", "nope"]) == 2
    assert run(["review", str(repository / "nope"), "--base", "main"]) == 2


def test_config_check_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "preflight.yml"
    file.write_text("mode:\n  cod: block\n")
    assert run(["config", "check", str(file)]) == 2
    assert ":2: mode.cod" in capsys.readouterr().out
    file.write_text("mode:\n  code: block\n")
    assert run(["config", "check", str(file)]) == 0
