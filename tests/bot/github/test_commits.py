"""A commit through the Git data API: modes stay, the branch only moves forward, lost answers do no harm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from github import Auth

from bot.github.commits import Commits, HeadMoved
from bot.github.errors import Forbidden, Invalid
from bot.github.retry import Api
from bot.localhub.faults import Fault
from bot.localhub.server import Server
from tests.localhub import world as worlds
from tests.localhub.world import World, commit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Server(tmp_path / "hub") as server:
        found = worlds.build(server, tmp_path)
        with server.service.hub.lock:
            found.installation.permissions["contents"] = "write"
        yield found


@pytest.fixture
def commits(world: World) -> Commits:
    token = Auth.Token(world.token())
    return Commits(Api(lambda fresh: token, world.server.api_url), f"/repos/{world.repo.full_name}")


def _push(world: World) -> str:
    from bot.localhub import people

    hub = world.server.service.hub
    with hub.lock:
        return people.push(world.server.service, world.repo, "feature", world.source, "feature", hub.account("dana"))


def test_modes_and_other_files_stay(world: World, commits: Commits) -> None:
    (world.source / "run me.py").write_text("x = 1\n")
    (world.source / "run me.py").chmod(0o755)
    commit(world.source, "Executable", {})
    head = _push(world)
    sha = commits.on_top(head, {"run me.py": b"x = 2\r\n", "new/data.py": b"\xff"}, "Fix\n\n@x")
    commits.advance("feature", sha)
    repo = world.repo.git
    found = {entry.path: (entry.mode, repo.blob(entry.sha)) for entry in repo.tree(sha, recursive=True)}
    assert found["run me.py"] == ("100755", b"x = 2\r\n")
    assert found["new/data.py"] == ("100644", b"\xff")
    assert found["train.py"][1] == worlds.HEAD.encode()
    assert repo.commit(sha).parents == (head,)
    assert world.pull.head_sha == sha


def test_lost_answers_move_the_branch_by_one_commit(world: World, commits: Commits) -> None:
    for path in ("/git/blobs$", "/git/trees$", "/git/commits$", "/git/refs/heads/feature$"):
        method = "PATCH" if "refs" in path else "POST"
        world.server.service.faults.add(Fault(kind="lose", method=method, path=path))
        world.server.service.faults.add(Fault(kind="status", method=method, path=path, status=502, perform=True))
    head = world.pull.head_sha
    commits.advance("feature", commits.on_top(head, {"train.py": b"new"}, "Fix"))
    assert world.repo.git.rev_list(world.pull.head_sha, f"^{head}") == [world.pull.head_sha]


def test_a_branch_that_is_elsewhere_or_gone_is_left_alone(world: World, commits: Commits) -> None:
    sha = commits.on_top(world.pull.head_sha, {"train.py": b"new"}, "Fix")
    commit(world.source, "Meanwhile", {"README.md": "more\n"})
    pushed = _push(world)
    with pytest.raises(HeadMoved):
        commits.advance("feature", sha)
    with pytest.raises(HeadMoved):
        commits.advance("no/such branch#1", sha)
    assert world.pull.head_sha == pushed
    world.repo.protected.add("feature")
    with pytest.raises(Invalid, match="rule violations"):
        commits.advance("feature", commits.on_top(pushed, {"train.py": b"new"}, "Fix"))


def test_a_token_that_may_not_is_refused(world: World) -> None:
    token = Auth.Token(world.token(permissions={"contents": "read"}))
    commits = Commits(Api(lambda fresh: token, world.server.api_url), f"/repos/{world.repo.full_name}")
    with pytest.raises(Forbidden):
        commits.on_top(world.pull.head_sha, {"train.py": b"new"}, "Fix")
