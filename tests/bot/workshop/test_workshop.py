"""The child that analyses: what it dies of is left out, it has no secrets, and its limits hold. Real processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bot.core.review_input import MemoryTree, ReviewInput
from bot.sources.base import ChangedFile, PullSnapshot
from bot.workshop import parent
from bot.workshop.parent import AnalysisDied, Limits, review_in_child
from tests.bot.isolate.edits import Memory
from tests.bot.isolate.test_pool import BUGGY

SOURCE = b"import torch\n"


def _patch(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").splitlines()
    return "\n".join([f"@@ -0,0 +1,{len(lines)} @@", *(f"+{line}" for line in lines)])


def _given(files: dict[str, bytes]) -> ReviewInput:
    changed = tuple(ChangedFile(path=path, status="added", patch=_patch(text)) for path, text in files.items())
    snapshot = PullSnapshot(
        repo_id=1,
        full_name="a/b",
        number=1,
        author="dana",
        title="t",
        is_draft=False,
        is_open=True,
        base_ref="main",
        base_sha="a" * 40,
        head_sha="b" * 40,
        merge_base_sha="a" * 40,
        changed_files=changed,
    )
    return ReviewInput(snapshot=snapshot, head=MemoryTree(dict(files)), base=MemoryTree({}))


def test_a_real_review_in_the_child() -> None:
    plan = review_in_child(_given({"train.py": SOURCE}), Limits())
    assert [check.name for check in plan.checks] == ["preflight/code", "preflight/memory"]
    assert plan.checks[0].state == "ok"


def test_what_an_earlier_review_found_out_is_not_found_out_again() -> None:
    files = {"a.py": BUGGY.encode(), "b.py": SOURCE}
    store = Memory()
    plan = review_in_child(_given(files), Limits(), store)
    assert "PF101" in plan.checks[0].summary
    assert plan == review_in_child(_given(files), Limits())
    assert store.num_puts > 0
    before = store.num_puts
    assert plan == review_in_child(_given(files), Limits(), store)
    assert store.num_puts == before
    changed = _given({**files, "b.py": SOURCE + b"x = 1\n"})
    assert review_in_child(changed, Limits(), store) == review_in_child(changed, Limits())
    assert store.num_puts == before + 1


THIEF = """
import json, sys, time
next(sys.stdin)
say = lambda document: print(json.dumps(document), flush=True)
{acts}
"""


def child_that(acts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "child.py").write_text(THIEF.format(acts=acts))
    monkeypatch.setattr(parent, "_COMMAND", (sys.executable, str(tmp_path / "child.py")))


def test_a_child_gets_no_other_keys_and_not_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Memory()
    store.entries["../token"] = b"secret"
    acts = (
        "say({'store': '../token'})\n"
        "assert json.loads(next(sys.stdin)) == {'entry': None}\n"
        "say({'store': 'x', 'entry': 'x'})\n"
        "[say({'store': '%064x' % n, 'entry': 'x'}) for n in range(40)]\n"
    )
    child_that(acts, tmp_path, monkeypatch)
    monkeypatch.setattr(parent, "_MAX_ERRANDS", 10)
    with pytest.raises(AnalysisDied, match="gave no result"):
        review_in_child(_given({"a.py": SOURCE}), Limits(), store)
    assert store.num_puts == 8


def test_a_child_fills_the_store_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Memory()
    child_that("[say({'store': '%064x' % n, 'entry': 'x' * 100}) for n in range(40)]\n", tmp_path, monkeypatch)
    monkeypatch.setattr(parent, "_MAX_KEPT_BYTES", 1_050)
    with pytest.raises(AnalysisDied, match="gave no result"):
        review_in_child(_given({"a.py": SOURCE}), Limits(), store)
    assert store.num_puts == 10


def test_a_child_that_asks_and_does_not_listen_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Memory()
    store.entries["0" * 64] = b"x" * 500_000
    child_that("say({'store': '0' * 64})\ntime.sleep(600)\n", tmp_path, monkeypatch)
    with pytest.raises(AnalysisDied, match="took longer than"):
        review_in_child(_given({"a.py": SOURCE}), Limits(wall_seconds=2.0), store)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("print(chr(10).join(['{\"at\": 3}'] * 6000))", "took longer"),
        ("sys.stderr.buffer.write(b'x' * 65536)", "took longer"),
        ("sys.stdout.buffer.write(b'x' * 1048576)", "said more than an answer can hold"),
        ("print('[' * 100000)", "gave no answer"),
        ("print(7)", "gave no answer"),
        ("print('{}')", "gave no answer"),
        ("print('{\"store\": 3}')", "gave no answer"),
    ],
)
def test_a_child_that_says_anything_without_an_end_has_one(
    says: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been broken into: it holds neither the time nor the memory of the parent."""
    (tmp_path / "child.py").write_text(f"import sys\nwhile True:\n    {says}\n    sys.stdout.flush()\n")
    monkeypatch.setattr(parent, "_COMMAND", (sys.executable, str(tmp_path / "child.py")))
    with pytest.raises(AnalysisDied, match=why):
        review_in_child(_given({"a.py": SOURCE}), Limits(wall_seconds=2, seconds_per_file=1), Memory())


def test_a_time_out_is_said() -> None:
    with pytest.raises(AnalysisDied, match="took longer than"):
        review_in_child(_given({"train.py": SOURCE}), Limits(wall_seconds=0.05))


def test_memory_is_limited() -> None:
    """Either the child dies, or the engines say that they could not: never a good result."""
    try:
        plan = review_in_child(_given({"train.py": SOURCE}), Limits(memory_bytes=30 << 20))
    except AnalysisDied:
        return
    assert plan.checks[0].state in {"failed", "unknown"}


def test_a_real_death_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that kills itself when it reads one file; everything else is the real protocol."""
    script = tmp_path / "child.py"
    script.write_text(
        "import os, signal\n"
        "from bot.workshop import child\n"
        "read = child.Announcing.read\n"
        "def deadly(self, path):\n"
        "    content = read(self, path)\n"
        "    if path == 'bad.py' and content is not None: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    return content\n"
        "child.Announcing.read = deadly\n"
        "child.main()\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(parent, "_COMMAND", (sys.executable, "-I", str(script)))
    plan = review_in_child(_given({"bad.py": SOURCE, "good.py": SOURCE}), Limits())
    assert plan.checks[0].state in {"ok", "unknown"}
    assert "bad.py" in plan.checks[0].summary + plan.checks[0].text


def test_a_file_is_not_slow_because_the_machine_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits longer than a file may work is waited for; one that works that long is left out."""
    script = tmp_path / "child.py"
    script.write_text(
        "import time\n"
        "from bot.workshop import child\n"
        "read, seen = child.Announcing.read, set()\n"
        "def slow(self, path):\n"
        "    content = read(self, path)\n"
        "    if path == 'waits.py' and path not in seen: time.sleep(4)\n"
        "    seen.add(path)\n"
        "    while path == 'works.py' and content is not None: pass\n"
        "    return content\n"
        "child.Announcing.read = slow\n"
        "child.main()\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(parent, "_COMMAND", (sys.executable, "-I", str(script)))
    limits = Limits(seconds_per_file=3.0)
    plan = review_in_child(_given({"waits.py": SOURCE}), limits)
    assert plan.checks[0].state == "ok"
    plan = review_in_child(_given({"works.py": SOURCE, "good.py": SOURCE}), limits)
    assert "works.py" in plan.checks[0].summary + plan.checks[0].text


def test_no_secret_reaches_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFLIGHT_PRIVATE_KEY", "very secret")
    dump = tmp_path / "environment"
    script = tmp_path / "child.py"
    script.write_text(f"import os; open({str(dump)!r}, 'w').write(repr(dict(os.environ)))", encoding="utf-8")
    monkeypatch.setattr(parent, "_COMMAND", (sys.executable, "-I", str(script)))
    with pytest.raises(AnalysisDied, match="no result"):
        review_in_child(_given({"a.py": SOURCE}), Limits())
    assert "secret" not in dump.read_text()
    assert "PREFLIGHT" not in dump.read_text()
    assert os.environ["PREFLIGHT_PRIVATE_KEY"] == "very secret"
