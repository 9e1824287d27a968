"""What kills the process that analyses costs one file: real children, really killed."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.api import Options, analyze
from analyzer.errors import PreflightError
from analyzer.findings import Report
from bot.isolate import analysis, parent, pool
from bot.isolate.analysis import ListedFiles
from bot.isolate.parent import Child, Overdue
from bot.isolate.pool import Job, Limits, analyze_in_children

BUGGY = """\
import torch
from torch import nn

outputs = []


def collect(model: nn.Module, loader: torch.utils.data.DataLoader) -> None:
    for x in loader:
        outputs.append(model(x))
"""
WITHOUT_GUARD = (
    "import analyzer.nesting as nesting\n"
    "nesting.MAX_DEPTH, nesting.MAX_PARSE_COST = 100_000, 10**12\n"
    "from bot.isolate.analysis import main\n"
    "main()\n"
)  # fmt: skip
READING_KILLS = (
    "import os, signal\n"
    "from bot.isolate import analysis\n"
    "class Deadly(analysis.ListedFiles):\n"
    "    def read(self, path):\n"
    "        if 'deadly' in path: os.kill(os.getpid(), signal.SIGSEGV)\n"
    "        return super().read(path)\n"
    "analysis.ListedFiles = Deadly\n"
    "analysis.main()\n"
)
READING_HANGS = (
    "import time\n"
    "from bot.isolate import analysis\n"
    "class Hanging(analysis.ListedFiles):\n"
    "    def read(self, path):\n"
    "        while 'endless' in path: time.sleep(1)\n"
    "        return super().read(path)\n"
    "analysis.ListedFiles = Hanging\n"
    "analysis.main()\n"
)
RUNNING_HANGS = (
    "import analyzer.pipeline as pipeline\n"
    "from bot.isolate import analysis\n"
    "run = pipeline.analyze_one\n"
    "def analyze_one(sources, path, *rest):\n"
    "    found = list(run(sources, path, *rest))\n"
    "    while 'endless' in path: pass\n"
    "    return found\n"
    "pipeline.analyze_one = analyze_one\n"
    "analysis.main()\n"
)


def job(root: Path, files: dict[str, str]) -> Job:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return Job(root=root, paths=list(files), targets=list(files), options=Options())


def skipped(report: Report) -> dict[str, str]:
    return {item.path: item.reason for item in report.skipped}


def reported(report: Report) -> list[str]:
    return [item.path for item in report.findings]


def test_children_say_what_a_run_in_this_process_says(tmp_path: Path) -> None:
    """Also across files that different children get: the helper is only known to be wrong from its caller."""
    work = job(
        tmp_path,
        {
            "keep.py": "kept = []\n\n\ndef keep(item):\n    kept.append(item)\n",
            "train.py": BUGGY.replace("outputs.append", "keep").replace("outputs = []", "from keep import keep"),
            "other.py": BUGGY,
        },
    )
    here = analyze(ListedFiles(work.root, work.paths, {}), work.targets, work.options)
    assert {"other.py"} < set(reported(here))
    for num_children in (1, 3):
        assert set(analyze_in_children(work, num_children).findings) == set(here.findings)


@pytest.mark.parametrize("num_children", [1, 2])
def test_a_parser_that_overflows_the_stack_costs_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_children: int
) -> None:
    """The measure of nesting is the first net; with it out of the way LibCST really ends the process."""
    monkeypatch.setattr(pool, "_COMMAND", (sys.executable, "-I", "-c", WITHOUT_GUARD))
    deep = "import torch\nx = " + "(" * 10_000 + "1" + ")" * 10_000 + "\n"
    report = analyze_in_children(job(tmp_path, {"a.py": BUGGY, "deep.py": deep, "z.py": BUGGY}), num_children)
    assert skipped(report) == {"deep.py": "the analysis was ended by SIGSEGV at this file"}
    assert (report.num_files, reported(report)) == (3, ["a.py", "z.py"])


def test_memory_is_limited(tmp_path: Path) -> None:
    work = job(tmp_path, {"a.py": BUGGY, "big.py": "import torch\n" + "x = torch.zeros(3)\n" * 30_000, "z.py": BUGGY})
    report = analyze_in_children(work, 1, Limits(memory_bytes=250 << 20))
    assert list(skipped(report)) == ["big.py"]
    assert reported(report) == ["a.py", "z.py"]


def test_time_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child does not come back from one file: no machine is fast enough to end in time."""
    monkeypatch.setattr(pool, "_COMMAND", (sys.executable, "-I", "-c", READING_HANGS))
    work = job(tmp_path, {"a.py": BUGGY, "endless.py": "import torch\n", "z.py": BUGGY})
    report = analyze_in_children(work, 1, Limits(seconds_per_file=2.0))
    assert skipped(report) == {"endless.py": "the analysis took longer than 2 s at this file"}
    assert reported(report) == ["a.py", "z.py"]


def test_time_is_the_time_that_the_child_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped child is one that a busy machine gives no time: it may wait, five times as long."""
    with Child((sys.executable, "-c", "import time\nprint('{}', flush=True)\nwhile True: time.sleep(1)")) as child:
        child.receive(time.monotonic() + 60)
        allowance = child.allowance(0.3)
        began = time.monotonic()
        with pytest.raises(Overdue):
            child.receive(allowance)
        waited = time.monotonic() - began
    assert waited > 1.4
    monkeypatch.setattr(parent, "_processor_seconds", lambda pid: None)
    with Child((sys.executable, "-c", "import time\nprint('{}', flush=True)\nwhile True: time.sleep(1)")) as child:
        child.receive(time.monotonic() + 60)
        assert child.allowance(1.0).left() <= 1.0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the wall counts")
def test_a_child_that_works_is_over_when_its_own_time_is() -> None:
    with Child((sys.executable, "-c", "print('{}', flush=True)\nwhile True: pass")) as child:
        child.receive(time.monotonic() + 60)
        allowance = child.allowance(0.5)
        with pytest.raises(Overdue):
            child.receive(allowance)
        assert allowance.left() <= 0.0


def test_a_file_that_was_read_last_is_not_therefore_to_blame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`helper` is blamed for the endless file that imports it; as a target of its own it is analysed all the same."""
    monkeypatch.setattr(pool, "_COMMAND", (sys.executable, "-I", "-c", RUNNING_HANGS))
    files = {"endless.py": BUGGY + "\nimport helper\n", "helper.py": BUGGY, "use.py": BUGGY + "\nimport helper\n"}
    report = analyze_in_children(job(tmp_path, files), 1, Limits(seconds_per_file=1.0))
    assert reported(report) == ["helper.py", "use.py"]
    assert skipped(report)["endless.py"] == "the analysis took longer than 1 s at this file"


def test_an_import_that_kills_is_blamed_and_its_importer_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_COMMAND", (sys.executable, "-I", "-c", READING_KILLS))
    work = job(tmp_path, {"train.py": BUGGY + "\nimport deadly\n", "deadly.py": "import torch\n"})
    report = analyze_in_children(replace(work, targets=["train.py"]), 1)
    assert skipped(report) == {"deadly.py": "the analysis was ended by SIGSEGV at this file"}
    assert (report.num_files, reported(report)) == (1, ["train.py"])


def test_it_gives_up_when_everything_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_COMMAND", (sys.executable, "-I", "-c", READING_KILLS))
    monkeypatch.setattr(pool, "_MAX_DEATHS_IN_A_ROW", 2)
    report = analyze_in_children(job(tmp_path, {f"deadly{number}.py": BUGGY for number in range(4)}), 1)
    assert len(report.skipped) == 4
    assert skipped(report)["deadly3.py"] == "not analysed: the analysis died 2 times in a row"


def test_a_child_that_cannot_start_is_no_finding_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_COMMAND", (sys.executable, "-I", "-c", "raise SystemExit('no')"))
    with pytest.raises(PreflightError, match="cannot be started"):
        analyze_in_children(job(tmp_path, {"a.py": BUGGY}), 1)


def test_texts_stand_in_for_the_disk(tmp_path: Path) -> None:
    work = job(tmp_path, {"a.py": BUGGY})
    assert reported(analyze_in_children(work, 1)) == ["a.py"]
    assert reported(analyze_in_children(replace(work, texts={"a.py": b"\xff\xfeimport torch"}), 1)) == []


def test_a_child_sees_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "very secret")
    dump = tmp_path / "environment"
    script = f"import os; open({str(dump)!r}, 'w').write(repr((dict(os.environ), os.getcwd())))"
    monkeypatch.setattr(pool, "_COMMAND", (sys.executable, "-I", "-c", script))
    with pytest.raises(PreflightError):
        analyze_in_children(job(tmp_path, {"a.py": BUGGY}), 1)
    assert "secret" not in dump.read_text()
    assert dump.read_text().endswith("'/')")


def test_data_of_any_size_are_not_read_for_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "MAX_TEXT_BYTES", 10)
    for name in ("data.json", "small.json", "main.py"):
        (tmp_path / name).write_bytes(b"#" * (9 if name == "small.json" else 11))
    files = ListedFiles(tmp_path, ["data.json", "small.json", "main.py"], {})
    assert [files.read(path) is None for path in ("data.json", "small.json", "main.py")] == [True, False, False]
