"""A report of an earlier run counts only where it would be the same today; what is damaged is no entry."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.api import Options
from analyzer.findings import Confidence, Report
from bot.isolate import cache, pool
from bot.isolate import folder as folders
from bot.isolate.folder import Folder, folder_for
from bot.isolate.pool import Job, analyze_in_children
from bot.isolate.snapshot import digest_of
from tests.analyzer.test_unreached import _LOADS, _MAIN, _NET
from tests.bot.isolate.test_pool import BUGGY, job

HELPER = "kept = []\n\n\ndef keep(item):\n    kept.append(item)\n"
CALLER = BUGGY.replace("outputs.append", "keep").replace("outputs = []", "from keep import keep")
Kept = tuple[Job, Path]


def text(report: Report) -> str:
    return json.dumps(report.to_json())


def remembered(work: Job, folder: Path) -> set[str]:
    """The targets whose reports would be taken from the cache."""
    found = pool._cache(work, Folder(folder))
    assert found is not None
    return {target for target in work.targets if found.get(target) is not None}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A tree, and the cache after one run."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "tree").mkdir()
    files = {"keep.py": HELPER, "train.py": CALLER, "other.py": BUGGY, "plain.py": "x = 1\n"}
    work = job(folder / "tree", files)
    analyze_in_children(work, 1, store=Folder(folder / "cache"))
    return work, folder / "cache"


@pytest.fixture
def kept(first: Kept, tmp_path: Path) -> Kept:
    """A copy of `first` to change."""
    work, folder = first
    shutil.copytree(work.root, tmp_path / "tree")
    shutil.copytree(folder, tmp_path / "cache")
    return replace(work, root=tmp_path / "tree"), tmp_path / "cache"


def test_cached_parallel_and_plain_runs_say_the_same(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    work, folder = kept
    plain = text(analyze_in_children(work, 1))
    assert '"other.py"' in plain
    assert text(analyze_in_children(work, 3)) == plain
    monkeypatch.setattr(pool, "_COMMAND", ("false",))  # no child is needed
    assert text(analyze_in_children(work, 2, store=Folder(folder))) == plain


def test_a_change_costs_what_was_made_from_the_file(kept: Kept) -> None:
    """``train.py`` imports ``keep.py``; callers of a function that nobody calls are looked for in every file."""
    work, folder = kept
    assert remembered(work, folder) == set(work.targets)
    (work.root / "keep.py").write_text("y = 2\n")
    assert remembered(work, folder) == {"plain.py", "other.py"}
    (work.root / "plain.py").write_text("from other import collect\n")
    assert remembered(work, folder) == set()


def test_a_file_that_is_gone_is_a_change(kept: Kept) -> None:
    work, folder = kept
    (work.root / "plain.py").unlink()
    assert "plain.py" not in remembered(work, folder)


def test_options_are_part_of_the_question(first: Kept) -> None:
    work, folder = first
    others = [
        replace(work, options=Options(min_confidence=Confidence.CERTAIN)),
        replace(work, options=Options(ignore=frozenset({"PF101"}))),
        replace(work, options=Options(select=frozenset({"PF101"}))),
    ]
    assert [remembered(other, folder) for other in others] == [set()] * len(others)


def test_of_the_list_of_files_only_what_an_import_finds(kept: Kept) -> None:
    """And what belongs together, and whether all can be read: ``other.py`` has a function that nobody calls, which says
    something where files import each other, and nothing where one cannot be read."""
    work, folder = kept
    without = [path for path in work.paths if path != "keep.py"]
    assert remembered(replace(work, paths=without), folder) == {"plain.py"}
    assert remembered(replace(work, paths=[*work.paths, "gone.py"]), folder) == {"plain.py", "keep.py"}
    (work.root / "new.py").write_text("")
    assert remembered(replace(work, paths=[*work.paths, "new.py"]), folder) == set(work.targets)
    assert remembered(replace(work, paths=["train.py"], targets=["train.py"]), folder) == set()


def test_of_the_texts_of_a_tree_only_what_was_asked(tmp_path: Path) -> None:
    """Names are looked up in this tree, so that every text of it may name what nothing calls."""
    (tmp_path / "tree").mkdir()
    texts = {"README.md": "# nets\n", "nets.yaml": "head: linear\n"}
    work = job(tmp_path / "tree", {"net.py": _NET, "main.py": _MAIN, "other.py": _LOADS, **texts})
    work = replace(work, targets=[path for path in work.targets if path.endswith(".py")])
    analyze_in_children(work, 1, store=Folder(tmp_path / "cache"))
    assert b"unreached" in b"".join(place.read_bytes() for place in (tmp_path / "cache").rglob("*") if place.is_file())
    for path, text in (("README.md", "# other words\n"), ("nets.yaml", "head: convolution\n"), ("new.yaml", "a: 1\n")):
        (work.root / path).write_text(text)
        assert remembered(replace(work, paths=[*work.paths, path]), tmp_path / "cache") == set(work.targets), path
    (work.root / "nets.yaml").write_text("head: spare\n")
    assert "net.py" not in remembered(work, tmp_path / "cache")


def test_a_finding_in_a_file_that_is_not_shown_is_no_part_of_a_report(kept: Kept) -> None:
    work, folder = kept
    (work.root / "keep.py").write_text(BUGGY)
    (work.root / "train.py").write_text(CALLER.replace("from keep import keep", "import keep"))
    alone = replace(work, targets=["train.py"])
    for each in (work, alone, work):
        assert text(analyze_in_children(each, 1, store=Folder(folder))) == text(analyze_in_children(each, 1))


def signed(body: bytes) -> bytes:
    return digest_of(body).encode() + b"\n" + body


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda old: b"",
    lambda old: old[:-10],
    lambda old: old.replace(b"listing", b"listinh"),
    lambda old: b"\xff" + old,
    lambda old: signed(b"[]"),
    lambda old: signed(b"[]\n[]\n[]"),
    lambda old: signed(b'{"reads": {}, "listing": "", "texts": null}\n[[["no such question", 1]], []]\n{}'),
    lambda old: signed(b'{"reads": {}, "listing": "", "texts": null}\n[[], []]\n{}'),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_none(kept: Kept, damage: Callable[[bytes], bytes]) -> None:
    work, folder = kept
    entries = [place for place in folder.rglob("*") if place.is_file()]
    assert len(entries) == len(work.targets)
    for place in entries:
        place.write_bytes(damage(place.read_bytes()))
    assert remembered(work, folder) == set()


def test_another_engine_asks_again(first: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "engine", lambda: "another")
    assert remembered(*first) == set()


def test_the_oldest_entries_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_MAX_ENTRIES", 2)
    for number in range(5):
        (tmp_path / str(number)).write_text("")
        os.utime(tmp_path / str(number), (number, number))
    folders._thin_out(tmp_path)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["3", "4"]
    monkeypatch.setattr(folders, "_MAX_BYTES", 10)
    (tmp_path / "3").write_text("x" * 6)
    (tmp_path / "5").write_text("x" * 6)
    folders._thin_out(tmp_path)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["5"]


def test_many_may_write_and_read_at_once(tmp_path: Path) -> None:
    """An entry is there whole or not at all."""
    store, entries = Folder(tmp_path), [bytes([number]) * 200_000 for number in range(8)]

    def busy(entry: bytes) -> bool:
        found: list[bytes | None] = []
        for _ in range(20):
            store.put("ab1", entry)
            found.append(store.get("ab1"))
        return all(each is None or each in entries for each in found)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(busy, entries))
    assert [place.name for place in (tmp_path / "ab").iterdir()] == ["1"]


def test_what_is_used_is_young(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    store.put("ab1", b"entry")
    os.utime(tmp_path / "ab" / "1", (0, 0))
    assert store.get("ab1") == b"entry"
    assert (tmp_path / "ab" / "1").stat().st_mtime > 0


def test_the_folder_is_the_users_and_outside_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    other = tmp_path / "temporary" / f"preflight-{os.getuid()}"
    other.parent.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(other.parent))
    assert folder_for(tmp_path / "tree") == tmp_path / "cache" / "preflight"
    assert folder_for(tmp_path / "cache") == other
    os.chmod(tmp_path / "cache" / "preflight", 0o777)
    assert folder_for(tmp_path / "tree") == other
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "below"))
    (tmp_path / "file").write_text("")
    assert folder_for(tmp_path / "tree") == other


def test_a_folder_that_others_may_have_put_there_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_folders", lambda: iter([(tmp_path / "shared" / "ours", True)]))
    (tmp_path / "shared").mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "shared" / "ours").symlink_to(tmp_path / "elsewhere")
    assert folder_for(tmp_path / "tree") is None
    (tmp_path / "shared" / "ours").unlink()
    (tmp_path / "shared" / "ours").mkdir()
    os.chmod(tmp_path / "shared" / "ours", 0o755)
    assert folder_for(tmp_path / "tree") is None
    os.chmod(tmp_path / "shared" / "ours", 0o700)
    assert folder_for(tmp_path / "tree") == tmp_path / "shared" / "ours"
    assert folder_for(tmp_path) is None


def test_a_cache_that_cannot_be_written_costs_nothing(first: Kept, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    broken = pool._cache(first[0], Folder(tmp_path / "cache"))
    assert broken is not None
    broken.put("train.py", {"reads": {"train.py": ""}, "listing": "", "texts": "", "asked": []}, {})
    assert broken.get("train.py") is None
