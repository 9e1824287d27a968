"""Repositories whose code is read as one archive or in batches, on bad days: what comes between is survived too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot.localhub import people
from bot.localhub.faults import Fault
from bot.localhub.model import Pull, Repository
from tests.faults.code import DATA, Script
from tests.faults.rig import Rig
from tests.faults.verdict import judge
from tests.localhub.world import commit, git

_MANY: dict[str, bytes | str | None] = {f"pkg/m{number}.py": f"A = {number}\n" for number in range(330)}
_FEW: dict[str, bytes | str | None] = {f"pkg/m{number}.py": f"A = {number}\n" for number in range(130)}
"""No archive: one query for both trees."""


@dataclass
class _Case:
    """A repository, its pull request and what the head has to be told."""

    rig: Rig
    name: str
    work: Path
    repo: Repository
    script: Script
    pull: Pull | None = None
    at: Fault | None = None

    def change(self, bug: str) -> None:
        """A commit with one more bug."""
        self.script.add(bug)
        commit(self.work, bug, {"train.py": self.script.text()})

    def open(self) -> None:
        hub = self.rig.hub.service.hub
        with hub.lock:
            self.repo.git.fetch(str(self.work), "feature", "refs/heads/feature")
            dana = hub.account("dana")
            self.pull = people.open_pull(
                self.rig.hub.service, self.repo, title="T", body="", base="main", head="feature", author=dana
            )

    def push(self, *, force: bool = False) -> None:
        """A new head, in place of the old one or on top of it."""
        if force:
            git(self.work, "reset", "-q", "--hard", "main")
            self.script = Script()
        self.change("PF204")
        hub = self.rig.hub.service.hub
        with hub.lock:
            people.push(self.rig.hub.service, self.repo, "feature", self.work, "HEAD", hub.account("dana"))

    def delete_branch(self) -> None:
        hub = self.rig.hub.service.hub
        with hub.lock:
            people.delete_branch(self.rig.hub.service, self.repo, "feature", hub.account("dana"))

    def end_tokens(self) -> None:
        with self.rig.hub.service.hub.lock:
            self.rig.hub.service.hub.rows.tokens.clear()

    def when(self, part: str, action: Callable[[int], object] | None = None, **answer: object) -> None:
        """At the first such request of this repository: do something, or answer so."""
        path = f"^/repos/{self.repo.full_name}/{part}"
        fault = Fault(kind="call" if action else "status", path=path, action=action, **answer)  # type: ignore[arg-type]
        self.at = self.rig.hub.service.faults.add(fault)

    @property
    def is_at_rest(self) -> bool:
        hub, pull = self.rig.hub.service.hub, self.pull
        if pull is None or (self.at is not None and self.at.hits == 0):
            return False
        with hub.lock:
            ours = [run for run in hub.rows.runs.values() if run.suite.repo is self.repo]
            at_head = {run.name for run in ours if run.suite.head_sha == pull.head_sha}
            return all(run.status == "completed" for run in ours) and (len(at_head) == 2 or pull.state != "open")


def _case(rig: Rig, name: str, tree: dict[str, bytes | str | None]) -> _Case:
    work = rig.directory / "work" / name
    work.mkdir(parents=True)
    git(work, "init", "-q", "-b", "main")
    commit(work, "Begin", {"data.py": DATA, "train.py": Script().text(), **tree})
    repo = rig.add_repository(f"{name}/trainer", work)
    git(work, "checkout", "-q", "-b", "feature")
    case = _Case(rig, name, work, repo, Script())
    case.change("PF101")
    return case


def _settle(rig: Rig, cases: list[_Case]) -> None:
    rig.until(lambda: all(case.is_at_rest for case in cases), 240, "everything is at rest")
    rig.until(lambda: not rig.client.zcard("preflight:reviews"), 120, "no review is open")
    for case in cases:
        assert case.pull is not None
        verdict = judge(rig.hub.service.hub, rig.app, case.pull, case.script.bugs(), [])
        assert verdict.is_clean, f"{case.name}: {verdict}\n{rig.tail(40)}"
        assert verdict.failed == 0, f"{case.name}\n{rig.tail(40)}"


def test_what_happens_while_the_code_of_a_tree_is_read(tmp_path: Path) -> None:
    with Rig(tmp_path / "rig") as rig:
        cases = {
            name: _case(rig, name, _MANY)
            for name in ("forced", "superseded", "deleted", "tokens", "limited", "refused", "horse", "redis")
        }
        cases["forced"].when("tarball", lambda _: cases["forced"].push(force=True))
        cases["superseded"].when("tarball", lambda _: cases["superseded"].push(), perform=True)
        cases["deleted"].when("tarball", lambda _: cases["deleted"].delete_branch())
        cases["tokens"].when("tarball", lambda _: cases["tokens"].end_tokens())
        cases["limited"].when("tarball", status=403, headers={"Retry-After": "7"})
        cases["refused"].when("tarball", status=404, count=2)
        cases["horse"].when("tarball", lambda port: rig.kill("horse", port))
        cases["redis"].when("tarball", lambda port: rig.kill("redis", port), perform=True)
        for case in cases.values():
            case.open()
        _settle(rig, list(cases.values()))
        assert rig.killed == {"horse": 1, "redis": 1}
        late = _case(rig, "slow", _FEW)
        given_up = Fault(kind="status", method="POST", path="^/graphql$", count=10_000, min_bytes=5_000)
        rig.hub.service.faults.add(given_up)
        late.open()
        _settle(rig, [late])
        assert 0 < given_up.hits < 5, "halved until it is answered"
        for name in ("web", "worker", "redis"):
            log = (rig.directory / f"{name}.log").read_text(errors="replace")
            assert "ghs_" not in log
            assert "PRIVATE KEY" not in log
