"""``preflight launches``: exit codes, JSON contract, paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cli.main import run

JOB = "#!/bin/bash\n#SBATCH --gres=gpu:a100:4\n#SBATCH -p big\nsrun torchrun --nproc-per-node 4 missing.py --x\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.slurm").write_text(JOB)
    (tmp_path / "b.sh").write_bytes(b"#!/bin/bash\ntorchrun x.py\n\0")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_json_names_every_launch_and_every_file_that_cannot_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["launches", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (entry,) = document["launches"]
    assert (document["version"], entry["path"], entry["line"], entry["format"]) == (1, "jobs/a.slurm", 4, "slurm")
    assert entry["command"] == ["srun", "torchrun", "--nproc-per-node", "4", "missing.py", "--x"]
    assert entry["target"] == {"gpu": "a100", "gpus_per_node": 4, "nodes": 1}
    assert {"model", "micro_batch"} <= {item["field"] for item in entry["unknowns"]}
    assert entry["run_config"]["model"] is None
    assert [item["path"] for item in document["skipped"]] == ["b.sh"]


def test_site_names_are_mapped_with_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["launches", "jobs", "--target", "a100=A100-80GB", "--format", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["launches"]
    assert entry["target"]["gpu"] == "A100-80GB"


def test_terminal_output_groups_what_is_unknown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["launches", "jobs/a.slurm"]) == 0
    text = capsys.readouterr().out
    assert "jobs/a.slurm:4" in text
    assert "script missing.py is not in the repository" in text


@pytest.mark.parametrize("words", [["nowhere.sh"], ["/"], ["--target", "x"], ["--command", "ls"]])
def test_wrong_input_is_said_and_exits_with_2(
    folder: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["launches", *words]) == 2
    assert "preflight launches:" in capsys.readouterr().err


def test_a_tree_with_very_many_launches_is_listed_up_to_a_limit_and_says_so() -> None:
    from bot.core.review import MemoryTree
    from estimator.launches import MAX_FOUND, find

    job = b"#!/bin/bash\n#SBATCH --gres=gpu:t4:1\npython nowhere.py\n"
    found = find(MemoryTree({f"job{index:03}.slurm": job for index in range(MAX_FOUND + 20)}))
    assert len(found.launches) == MAX_FOUND
    assert "and 19 more not read" in found.skipped[0].reason
