"""What the paths of a command line mean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bot.sources import selection
from bot.sources.selection import select


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")


def plant(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("x = 1\n")


def test_a_folder_means_its_python_files_without_hidden_and_installed_ones() -> None:
    plant("a.py", "pkg/b.py", "pkg/data.txt", ".hidden/c.py", ".git/d.py", "node_modules/e.py", "env/f.py")
    plant("env/pyvenv.cfg", "lib/site-packages/g.py", "__pycache__/h.py", "venv/i.py")
    assert select(["."]).targets == ("a.py", "pkg/b.py", "venv/i.py")  # a folder is no environment by its name


@pytest.mark.parametrize("name", [".hidden", "node_modules", "env", "env/lib/site-packages/x"])
def test_what_is_left_out_is_read_where_it_is_named(name: str) -> None:
    plant("env/pyvenv.cfg", f"{name}/a.py", "b.py")
    assert select([name]).targets == (f"{name}/a.py",)
    assert select([f"{name}/a.py"]).targets == (f"{name}/a.py",)
    assert f"{name}/a.py" in select([name]).paths


def test_links_are_followed_where_they_are_named_only(tmp_path: Path) -> None:
    plant("real/a.py", "../outside/secret.py")
    Path("loop").symlink_to(".")
    Path("real/up").symlink_to("..")
    Path("leak.py").symlink_to(tmp_path / "outside" / "secret.py")
    Path("dangling.py").symlink_to("nowhere")
    assert select(["."]).targets == ("real/a.py",)
    assert select(["leak.py"]).targets == ("leak.py",)
    assert [item.path for item in select(["dangling.py", "real"]).missing] == ["dangling.py"]


def test_a_file_is_taken_whatever_its_name_and_once() -> None:
    plant("bin/train", "a.py")
    assert select(["bin/train", "a.py", "./a.py", "."]).targets == ("bin/train", "a.py")


def test_a_file_is_read_with_all_of_its_tree_that_may_call_it() -> None:
    """Code in notebooks and scripts, and texts that configure it."""
    plant("setup.cfg", "train.py", "show.ipynb", "bin/go", "LICENSE", "data/0001", "conf/a.yaml", "photo.png")
    chosen = select(["train.py"])
    assert chosen.targets == ("train.py",)
    assert sorted(chosen.paths) == ["bin/go", "conf/a.yaml", "setup.cfg", "show.ipynb", "train.py"]


def test_what_cannot_be_read_is_named_and_the_rest_is_kept() -> None:
    plant("a.py")
    os.mkfifo("pipe.py")
    chosen = select(["missing.py", "a.py", "pipe.py"])
    assert chosen.targets == ("a.py",)
    assert [(item.path, item.reason) for item in chosen.missing] == [
        ("missing.py", "no such file or directory"),
        ("pipe.py", "cannot be read: neither a file nor a directory"),
    ]
    assert select(["missing.py"]).targets == ()
    assert select(["."]).targets == ("a.py",)  # and the pipe is not waited for


def test_a_file_that_no_program_has_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plant("a.py", "big.py")
    monkeypatch.setattr(selection, "MAX_BYTES", 6)
    Path("big.py").write_text("x = 10\n")
    chosen = select(["."])
    assert chosen.targets == ("a.py",)
    assert [(item.path, item.reason) for item in chosen.skipped] == [
        ("big.py", "7 bytes long: more than a program has")
    ]


def test_imports_may_lead_through_the_whole_project_and_paths_are_shown_from_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant("pyproject.toml", "src/train.py", "src/net.py", "tools/x.py")
    Path("elsewhere").mkdir()
    monkeypatch.chdir("src")
    chosen = select(["train.py"])
    assert chosen.root == Path.cwd().parent
    assert chosen.targets == ("src/train.py",)
    shown = {path: chosen.shown(path) for path in chosen.paths}
    assert shown == {
        "src/train.py": "train.py",
        "pyproject.toml": "../pyproject.toml",  # who is called from outside, it says
        "src/net.py": "net.py",
        "tools/x.py": "../tools/x.py",
    }


def test_without_a_project_the_tree_is_the_working_directory_or_near_the_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant("code/a.py", "b.py", "pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/c.py")
    assert select(["code/a.py"]).root == Path.cwd()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert select(["../project/pkg/sub/c.py"]).root == tmp_path / "project"
    assert select(["../project/code"]).root == tmp_path / "project" / "code"


def test_a_home_folder_is_no_project(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(".git/config", "code/a.py", "code/b.py", *(f"junk/{number}.py" for number in range(8)))
    monkeypatch.setattr(selection, "_MAX_TREE_ENTRIES", 6)
    chosen = select(["code/a.py"])
    assert (chosen.root.name, chosen.paths) == ("code", ("a.py", "b.py"))
