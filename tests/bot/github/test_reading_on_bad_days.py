"""Contents are read from a GitHub that gives up on large queries, limits archives, and ends tokens: the local one."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import redis

from bot.errors import Unavailable
from bot.github import contents
from bot.github.contents import BATCH, Entry, blob_id
from bot.github.errors import GitHubDown, RateLimited, TooSlow
from bot.github.gateway import Gateway
from bot.localhub.faults import Fault
from bot.localhub.server import Server
from bot.redact import redact
from bot.settings import Pace, Secret, WorkerSettings, WorkerTimes
from bot.store import Keys
from tests.localhub.world import World, build, commit

_TEXTS = [f"x = {number}\n".encode() for number in range(BATCH)]
_MANY = [f"y = {number}\n".encode() for number in range(320)]
"""From 300 on they come as one archive."""
_BYTES_OF_A_BLOB = 85
"""Of a query, more or less."""
Asking = Callable[[], Gateway]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Server(tmp_path / "hub") as server:
        yield build(server, tmp_path)


@pytest.fixture
def asking(world: World, client: redis.Redis, redis_url: str) -> Asking:
    """A gateway as each job makes itself one; those of one installation share Redis."""
    settings = WorkerSettings(
        redis_url=redis_url,
        namespace="preflight",
        app_id=str(world.app.id),
        private_key=Secret(world.private_key),
        api_url=world.server.api_url,
        verify=True,
        pace=Pace(seconds_between_writes=0.0),
        times=WorkerTimes(),
    )

    def made() -> Gateway:
        return Gateway(
            settings,
            client,
            Keys(),
            installation_id=world.installation.id,
            repo_id=world.repo.id,
            full_name=world.repo.full_name,
        )

    return made


def _commit(world: World, texts: list[bytes]) -> tuple[str, list[Entry]]:
    """A commit with these files, and what a tree says of them."""
    sha = commit(world.source, "Many", {f"many/f{number}.py": text for number, text in enumerate(texts)})
    with world.server.service.hub.lock:
        world.repo.git.fetch(str(world.source), sha, "refs/heads/many")
    return sha, [Entry(blob_id(text), len(text)) for text in texts]


def _asked(world: World, part: str) -> list[int]:
    return [one.status for one in world.server.service.recorder.all() if part in one.path]


def _gives_up(world: World, num_blobs: int, *, status: int = 502, count: int = 10_000) -> Fault:
    """On queries for more blobs than that."""
    fault = Fault(
        kind="status",
        method="POST",
        path="/graphql",
        count=count,
        status=status,
        min_bytes=(num_blobs + 1) * _BYTES_OF_A_BLOB,
    )
    return world.server.service.faults.add(fault)


@pytest.mark.parametrize("status", [502, 504])
def test_a_query_that_asks_for_too_much_is_halved_until_it_is_answered(
    world: World, asking: Asking, status: int
) -> None:
    sha, entries = _commit(world, _TEXTS)
    _gives_up(world, 30, status=status)
    assert len(asking().contents.blobs(entries, sha)) == BATCH
    statuses = _asked(world, "/graphql")
    assert statuses.count(200) == 8, "of 25 each"
    assert statuses.count(status) == 7
    assert not _asked(world, "/git/blobs/")
    assert not _asked(world, "/tarball/")


def test_one_bad_moment_costs_one_query_more(world: World, asking: Asking) -> None:
    sha, entries = _commit(world, _TEXTS)
    _gives_up(world, 0, count=1)
    assert len(asking().contents.blobs(entries, sha)) == BATCH
    assert _asked(world, "/graphql") == [502, 200, 200]


def test_where_queries_never_work_the_archive_does(world: World, asking: Asking) -> None:
    """A single blob is asked for elsewhere, as it may be the one that every query fails for; not all of them are."""
    sha, entries = _commit(world, _TEXTS)
    _gives_up(world, 0)
    assert len(asking().contents.blobs(entries, sha)) == BATCH
    assert len(_asked(world, "/graphql")) < 14
    assert len(_asked(world, "/git/blobs/")) == 3
    assert _asked(world, "/tarball/") == [302]


def test_a_github_that_is_down_is_left_in_peace_soon(world: World, asking: Asking) -> None:
    """And what it gave before is not asked for again."""
    sha, entries = _commit(world, _TEXTS)
    world.server.service.faults.add(
        Fault(kind="status", method="POST", path="/graphql", skip=1, count=10_000, min_bytes=20 * _BYTES_OF_A_BLOB)
    )
    _gives_up(world, 0, count=1)  # the first query
    world.server.service.faults.add(Fault(kind="status", path="/git/blobs/|/graphql", skip=1, count=10_000))
    with pytest.raises(GitHubDown):
        asking().contents.blobs(entries, sha)
    assert len(world.server.service.recorder.all()) < 20
    num_asked = len(_asked(world, "/graphql"))
    world.server.service.faults.clear()
    assert len(asking().contents.blobs(entries, sha)) == BATCH
    assert len(_asked(world, "/graphql")) == num_asked + 1


def test_a_query_that_took_too_long_says_so_with_a_status_of_200(world: World, asking: Asking) -> None:
    sha, entries = _commit(world, _TEXTS)
    message = "Something went wrong while executing your query. This may be the result of a timeout."
    world.server.service.faults.add(
        Fault(kind="status", path="/graphql", status=200, body={"data": None, "errors": [{"message": message}]})
    )
    assert len(asking().contents.blobs(entries, sha)) == BATCH
    assert _asked(world, "/graphql") == [200, 200, 200]
    assert not _asked(world, "/git/blobs/")
    assert issubclass(TooSlow, GitHubDown), "a mutation that took too long may have been done"


# --- archives ---------------------------------------------------------------------------------------------------------


def test_an_archive_waits_for_its_turn_like_any_request(world: World, asking: Asking, client: redis.Redis) -> None:
    sha, entries = _commit(world, _MANY)
    client.set(Keys().pause(world.installation.id), repr(time.time() + 60))
    with pytest.raises(RateLimited):
        asking().contents.blobs(entries, sha)
    assert not _asked(world, "/tarball/")
    client.set(Keys().pause(world.installation.id), repr(time.time() + 1.5))
    start = time.monotonic()
    assert len(asking().contents.blobs(entries, sha)) == len(_MANY)
    assert time.monotonic() - start > 1, "a short pause is slept out"
    assert len(_asked(world, "/tarball/")) == 1


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [(403, {"Retry-After": "72"}, 72), (429, {}, 60), (403, {"X-RateLimit-Remaining": "0"}, 60)],
)
def test_a_limit_that_an_archive_met_holds_for_every_worker(
    world: World, asking: Asking, status: int, headers: dict[str, str], wait: float
) -> None:
    sha, entries = _commit(world, _MANY)
    world.server.service.faults.add(Fault(kind="status", path="/tarball/", status=status, headers=headers))
    with pytest.raises(RateLimited) as caught:
        asking().contents.blobs(entries, sha)
    assert caught.value.retry_after == pytest.approx(wait, abs=1)
    num_asked = len(world.server.service.recorder.all())
    with pytest.raises(RateLimited):
        asking().pull(world.pull.number)
    assert len(world.server.service.recorder.all()) == num_asked, "another worker does not even ask"


def test_archives_are_counted_and_repeated(world: World, asking: Asking, client: redis.Redis) -> None:
    sha, entries = _commit(world, _MANY)
    world.server.service.faults.add(Fault(kind="status", path="/tarball/", status=502, count=2))
    assert len(asking().contents.blobs(entries, sha)) == len(_MANY)
    assert _asked(world, "/tarball/") == [502, 502, 302]
    counted: Any = client.hkeys(Keys().metrics())
    assert any(b'["status","302"]' in name for name in counted), counted
    assert client.hget(Keys().budgets(), str(world.installation.id)), "what is left of the hour"


def test_a_token_that_ended_before_the_archive_is_renewed(world: World, asking: Asking) -> None:
    sha, entries = _commit(world, _MANY)
    gateway = asking()
    gateway.pull(world.pull.number)
    with world.server.service.hub.lock:
        world.server.service.hub.rows.tokens.clear()
    assert len(gateway.contents.blobs(entries, sha)) == len(_MANY)
    assert _asked(world, "/tarball/") == [401, 302]


class _Archive(BaseHTTPRequestHandler):
    """Where archives are kept, as on github.com: another host, a link with a token of its own. It hangs up."""

    seen: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        self.close_connection = True

    def log_message(self, *_: Any) -> None: ...


def test_neither_the_credential_nor_the_link_goes_where_it_should_not(
    world: World, asking: Asking, caplog: pytest.LogCaptureFixture
) -> None:
    """The library that repeats a request says at what address."""
    sha, entries = _commit(world, _MANY)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Archive)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    link = f"http://localhost:{server.server_port}/acme/legacy.tar.gz/{sha}?token=AAATHELINKSSECRET"
    fault = Fault(kind="status", path="/tarball/", status=302, headers={"Location": link}, count=9)
    world.server.service.faults.add(fault)
    with caplog.at_level("INFO"), pytest.raises(GitHubDown) as caught:
        asking().contents.blobs(entries, sha)
    server.shutdown()
    server.server_close()
    assert _Archive.seen
    assert set(_Archive.seen) == {None}
    assert "AAATHELINKSSECRET" in caplog.text, "else nothing is tried here"
    assert "AAATHELINKSSECRET" not in redact(caplog.text)
    assert "AAATHELINKSSECRET" not in str(caught.value)


def test_what_an_archive_leaves_out_or_changes_is_asked_for(world: World, asking: Asking) -> None:
    """The tree says so itself, and a pull request may: nothing is hidden by it, nothing forged."""
    texts = [*_MANY, b"# $Format:%H$\n"]
    (world.source / ".gitattributes").write_text("many/f1*.py export-ignore\nmany/f320.py export-subst\n")
    sha, entries = _commit(world, texts)
    assert asking().contents.blobs(entries, sha) == {blob_id(text): text for text in texts}
    assert _asked(world, "/tarball/") == [302]
    assert len(_asked(world, "/graphql")) == 1


class _Slow:
    """GitHub gives blobs one by one, and takes its time."""

    def __init__(self, blobs: dict[str, bytes], seconds: float) -> None:
        self._blobs, self._seconds = blobs, seconds
        self.asked: list[str] = []

    def graphql(self, query: str, variables: object) -> dict[str, Any]:
        return {}

    def get(self, path: str) -> dict[str, str]:
        sha = path.rpartition("/")[2]
        self.asked.append(sha)
        time.sleep(self._seconds)
        return {"content": base64.b64encode(self._blobs[sha]).decode()}


def test_slow_blobs_are_no_endless_wait_and_what_came_is_kept(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "READ_SECONDS", 0.1)
    blobs = {blob_id(text): text for text in _TEXTS[:8]}
    api = _Slow(blobs, 0.04)
    entries = [Entry(sha, len(text)) for sha, text in blobs.items()]
    said: list[str] = []
    found: dict[str, bytes] = {}
    while not found:
        reading = contents.Contents(api, client, Keys(), repo_id=1, full_name="acme/x")  # type: ignore[arg-type]
        try:
            found = reading.blobs(entries, "0" * 40)
        except Unavailable as error:
            said.append(str(error))
    assert found == blobs
    assert 2 <= len(said) < len(blobs)
    assert set(said) == {"GitHub took longer than 0 s to give a part of the repository's files"}
    assert sorted(api.asked) == sorted(blobs)
