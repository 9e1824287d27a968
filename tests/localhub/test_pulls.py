"""What a client reads: pull requests, files, contents, trees, blobs, comparisons, archives."""

from __future__ import annotations

import io
import tarfile

import requests

from bot.localhub.patches import commentable
from tests.localhub.world import HEAD, World, commit, git


def test_pygithub_reads_a_pull_request_its_files_and_contents(world: World) -> None:
    repo = world.client().get_repo("acme/trainer")
    pull = repo.get_pull(world.pull.number)
    assert (pull.title, pull.user.login, pull.head.sha, pull.changed_files) == (
        "Train faster",
        "dana",
        world.pull.head_sha,
        2,
    )
    files = {item.filename: item for item in pull.get_files()}
    assert {name: item.status for name, item in files.items()} == {"new/data.py": "added", "train.py": "modified"}
    assert files["train.py"].patch.startswith("@@ -1,6 +1,7 @@\n line 1\n line 2\n-line 3\n+line three\n")
    content = repo.get_contents("train.py", ref=pull.head.sha)
    assert not isinstance(content, list)
    assert content.decoded_content.decode() == HEAD
    assert repo.get_git_blob(files["train.py"].sha).size == len(HEAD)


def test_the_patch_is_what_git_prints_after_the_file_header(world: World) -> None:
    commit(
        world.source,
        "More",
        {"README.md": None, "moved.py": "x = 1\n", "new/data.py": None, "picture.bin": b"\0\1\2", "open.txt": "no end"},
    )
    _push(world)
    files = {item["filename"]: item for item in world.call("GET", "/pulls/1/files").json()}
    assert files["README.md"]["status"] == "removed"
    assert files["picture.bin"]["status"] == "added"
    assert "patch" not in files["picture.bin"]
    assert files["open.txt"]["patch"] == "@@ -0,0 +1 @@\n+no end\n\\ No newline at end of file"


def test_a_pure_rename_has_a_previous_name_and_no_patch(world: World) -> None:
    git(world.source, "mv", "README.md", "READ.md")
    commit(world.source, "Rename", {})
    _push(world)
    entry = next(item for item in world.call("GET", "/pulls/1/files").json() if item["filename"] == "READ.md")
    assert (entry["status"], entry["previous_filename"], "patch" in entry) == ("renamed", "README.md", False)


def _push(world: World) -> str:
    from bot.localhub import people

    hub = world.server.service.hub
    with hub.lock:
        return people.push(world.server.service, world.repo, "feature", world.source, "feature", hub.account("dana"))


def test_long_lists_come_in_pages_with_links(world: World) -> None:
    commit(world.source, "Many", {f"many/{number:03}.py": f"{number}\n" for number in range(120)})
    _push(world)
    answer = world.call("GET", "/pulls/1/files?per_page=50&page=2")
    assert len(answer.json()) == 50
    assert set(answer.links) == {"next", "last", "first", "prev"}
    assert answer.links["next"]["url"].startswith(world.server.api_url)
    listed = list(world.client().get_repo("acme/trainer").get_pull(1).get_files())
    assert len(listed) == 122


def test_the_comparison_names_the_merge_base(world: World) -> None:
    git(world.source, "switch", "-q", "main")
    tip = commit(world.source, "Base moves on", {"other.py": "y = 2\n"})
    hub = world.server.service.hub
    from bot.localhub import people

    with hub.lock:
        people.push(world.server.service, world.repo, "main", world.source, "main", hub.account("dana"))
    body = world.call("GET", f"/compare/{tip}...{world.pull.head_sha}").json()
    assert (body["status"], body["ahead_by"], body["behind_by"]) == ("diverged", 1, 1)
    assert body["merge_base_commit"]["sha"] == git(world.source, "merge-base", "main", "feature")
    assert [item["filename"] for item in body["files"]] == ["new/data.py", "train.py"]


def test_trees_raw_contents_and_archives(world: World) -> None:
    sha = world.pull.head_sha
    tree = world.call("GET", f"/git/trees/{sha}?recursive=1").json()
    assert [(row["path"], row["type"]) for row in tree["tree"]] == [
        ("README.md", "blob"),
        ("new", "tree"),
        ("new/data.py", "blob"),
        ("train.py", "blob"),
    ]
    raw = world.call("GET", f"/contents/new/data.py?ref={sha}", Accept="application/vnd.github.raw+json")
    assert raw.content == b"x = 1\n"
    redirect = world.call("GET", f"/tarball/{sha}")
    assert redirect.status_code == 302
    packed = requests.get(redirect.headers["Location"], timeout=10).content
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert f"acme-trainer-{sha[:7]}/train.py" in archive.getnames()


def test_a_repository_is_found_by_its_id_too(world: World) -> None:
    token = world.token()
    url = f"{world.server.api_url}/repositories/{world.repo.id}/pulls/1"
    answer = requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=10)
    assert answer.json()["number"] == 1


def test_an_unchanged_answer_is_304(world: World) -> None:
    token = world.token()
    first = world.call("GET", "/pulls/1", token=token)
    again = world.call("GET", "/pulls/1", token=token, **{"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304


def test_commentable_lines_are_those_of_the_hunks(world: World) -> None:
    change = next(one for one in world.server.service.hub.files(world.pull) if one.path == "train.py")
    places = commentable(change.patch)
    assert places["RIGHT", 4] == 0
    assert places["LEFT", 3] == 0
    assert places["RIGHT", 26] == 1
    assert ("RIGHT", 15) not in places
