"""Trees that hold more than files: links, submodules, pointers to large files, nothing at all."""

from __future__ import annotations

import os
from typing import Any

from tests.bot.queue.stack import DATA, TRAIN, Stack
from tests.localhub.world import commit, git
from tests.support import wait_for

_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "4d" * 32 + "\nsize 12345\n"


def _odd(stack: Stack) -> None:
    """What a head may be made of."""
    work = stack.work
    commit(work, "files", {"train.py": TRAIN, "net.py": _POINTER, "show.ipynb": _POINTER, "empty.py": ""})
    for name, target in {
        "data.py": "train.py",  # was a file
        "outside.py": "/etc/passwd",
        "above.py": "../../../../etc/passwd",
        "self.py": "self.py",
        "folder.py": ".",
        "line.py": "x = 1\n",  # a target that ends a line
        "conf.yaml": "missing.yaml",
    }.items():
        (work / name).unlink(missing_ok=True)
        os.symlink(target, work / name)
    git(work, "add", "-A")
    head = git(work, "rev-parse", "main")
    git(work, "rm", "-q", "--cached", "gone.py")
    for name in ("sub.py", "vendored", "gone.py"):
        git(work, "update-index", "--add", "--cacheinfo", f"160000,{head},{name}")
    git(work, "commit", "-q", "-m", "odd")
    body = {"branch": "feature", "source": str(work), "ref": "HEAD", "user": "dana"}
    stack.control("POST", f"/repos/{stack.repo}/push", body)


def _rest(stack: Stack, number: int, count: int) -> list[dict[str, Any]]:
    runs = stack.concluded(number, count)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 60, "nothing is open")
    return runs


def test_what_is_no_file_is_none_and_is_so_in_every_way_of_reading_it(stack: Stack) -> None:
    """Of a push the tree follows from the old contents and the patches; after a flush GitHub is asked for it."""
    stack.git_main({"gone.py": "x = 1\n"})
    stack.push("feature", {"train.py": TRAIN})
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    _rest(stack, number, 2)
    _odd(stack)
    warm = _code(_rest(stack, number, 2))
    assert warm["title"] == "1 error, 1 warning, 2 notes introduced; 2 files not analysed"
    assert "Looked at 4 changed Python files" in warm["summary"]
    assert "`net.py`: its content is in Git LFS" in warm["summary"]
    assert "`show.ipynb`: its content is in Git LFS" in warm["summary"]
    stack.client.flushall()
    before = len(stack.show(number)["check_runs"])
    stack.control("POST", f"/check-runs/{stack.show(number)['check_runs'][-1]['id']}/rerun", {"user": "dana"})
    wait_for(lambda: len(stack.show(number)["check_runs"]) > before, 60, "the re-run begins")
    cold = _code(_rest(stack, number, before + 2)[before:])
    assert (cold["title"], cold["summary"]) == (warm["title"], warm["summary"])
    bodies = [comment["body"] for comment in stack.show(number)["review_comments"]]
    assert len(bodies) == len(set(bodies)) == 2


def test_a_file_that_becomes_a_link_is_no_file_any_more(stack: Stack) -> None:
    """GitHub calls it `changed`, and a file that lost the end of its last line `modified`."""
    stack.git_main({"model.py": TRAIN, "short.py": "x = 1\n", "bare.py": "x = 1"})
    stack.push("feature", {"note.py": "x = 1\n"})
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    _rest(stack, number, 2)
    (stack.work / "model.py").unlink()
    os.symlink("data.py", stack.work / "model.py")
    stack.push("feature", {"short.py": "x = 2", "bare.py": "x = 3", "note.py": "x = 2\n"})
    code = _code(_rest(stack, number, 2))
    assert code["title"] == "No problems introduced"
    assert "Looked at 3 changed Python files" in code["summary"]


def test_a_repository_of_nothing(stack: Stack) -> None:
    """Its only commit is empty; then a pull request brings the first files, and another takes all of them away."""
    git(stack.work, "checkout", "-q", "--orphan", "bare")
    git(stack.work, "rm", "-r", "-q", "--cached", ".")
    git(stack.work, "commit", "-q", "--allow-empty", "-m", "nothing")
    body = {"branch": "main", "source": str(stack.work), "ref": "HEAD", "user": "dana"}
    stack.serve()
    stack.work_on()
    stack.control("POST", f"/repos/{stack.repo}/push", body)
    git(stack.work, "clean", "-q", "-f", "-d")
    stack.push("feature", {"train.py": TRAIN, "data.py": DATA})
    number = stack.open_pull()
    assert [run["conclusion"] for run in _rest(stack, number, 2)] == ["neutral", "success"]
    stack.push("main", {"README.md": "# all\n"})
    git(stack.work, "checkout", "-q", "-B", "empty")
    git(stack.work, "rm", "-r", "-q", ".")
    git(stack.work, "commit", "-q", "-m", "nothing again")
    stack.control("POST", f"/repos/{stack.repo}/push", body | {"branch": "empty"})
    number = stack.open_pull("empty")
    assert [run["conclusion"] for run in _rest(stack, number, 2)] == ["success", "success"]


def _code(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the newest check on the code says."""
    return dict([run for run in runs if run["name"] == "preflight/code"][-1]["output"])


def test_what_is_too_much_to_read_is_said(stack: Stack) -> None:
    """First texts beside the code, then code: there the texts are not asked, and not spoken of."""
    stack.git_main({f"data/d{number}.json": f"{number:06d}" + "x" * 250_000 for number in range(70)})
    stack.push("feature", {"train.py": TRAIN})
    stack.serve()
    stack.work_on()
    code = _code(_rest(stack, stack.open_pull(), 2))
    assert code["title"].startswith("1 error, 1 warning")
    assert "Not read: 3 configuration files beside the code" in code["summary"]
    stack.git_main({f"pkg/m{number}.py": f"A = {number}\n" for number in range(1_500)})
    stack.push("more", {"train.py": TRAIN})
    code = _code(_rest(stack, stack.open_pull("more"), 2))
    assert code["title"].startswith("1 error, 1 warning")
    assert "Not read: 1,500 files of code" in code["summary"]
    assert "configuration files" not in code["summary"]
