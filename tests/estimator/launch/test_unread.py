"""Files that gave no launch: nothing is silently lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.cli.main import run
from estimator.affected import affected
from estimator.launch.documents import MAX_BYTES
from estimator.launches import find
from tests.estimator.launch.trees import Tree

_LARGE = "apiVersion: batch/v1\nkind: Job\n" + "# a line that makes it long\n" * (MAX_BYTES // 27)


def test_one_note_names_the_configuration_files_that_are_too_large() -> None:
    tree = Tree(
        {"jobs/a.yaml": _LARGE, "b.json": "[" + "1," * MAX_BYTES, "small.yaml": "a: 1", ".vscode/c.yaml": _LARGE}
    )
    found = find(tree)
    assert not found.launches
    (note,) = found.skipped
    assert note.path == "b.json"
    assert "512 KiB are read at most" in note.reason
    assert "jobs/a.yaml" in note.reason
    assert ".vscode" not in note.reason


def test_a_change_to_a_configuration_file_that_is_too_large_is_said_and_an_unchanged_one_is_not() -> None:
    small, large = Tree({"a.yaml": "a: 1", "b.yaml": _LARGE}), Tree({"a.yaml": _LARGE, "b.yaml": _LARGE})
    (note,) = affected(small, large, {"a.yaml"}).notes
    assert note.path == "a.yaml"
    assert "b.yaml" not in note.reason
    assert not affected(small, large, {"c.py"}).notes


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("job.yml", "$schema: https://x/commandJob.schema.json\ncommand: bash create.sh\ncompute: azureml:a\n",
         "create.sh is not in the repository"),
        ("run.sh", "#!/bin/bash\necho python\n", "no command in it starts training"),
        ("a.yaml", "a: {\n", "not YAML at line"),
        ("a.toml", "a = \n", "not TOML"),
        ("b.yaml", "name: x\n", "no kind of launch file that we know"),
        ("d.yaml", "distributed_type: FSDP\nnum_processes: 8\n", "a configuration of accelerate"),
        ("ds.json", '{"zero_optimization": {"stage": 2}}', "a configuration of DeepSpeed"),
        ("c.yaml", _LARGE, "more than 512 KiB"),
        ("launch.py", "!pip install sagemaker\nimport sagemaker\n", "syntax error at 1:0"),
        ("train.py", "print(1)\n", "starts no job that we know"),
    ],
)  # fmt: skip
def test_a_file_that_a_person_names_and_that_has_no_launch_says_why(path: str, text: str, reason: str) -> None:
    found = find(Tree({path: text}), [path], named={path})
    assert not found.launches
    (note,) = found.skipped
    assert (note.path, reason in note.reason) == (path, True), note.reason


def test_the_command_line_says_why_a_named_file_has_no_launch_but_not_of_each_file_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text("name: x\n")
    monkeypatch.chdir(tmp_path)
    assert run(["launches", "a.yaml"]) == 0
    assert "not read: a.yaml: no kind of launch file" in capsys.readouterr().out
    assert run(["launches", "."]) == 0
    assert "not read" not in capsys.readouterr().out


def test_more_candidates_than_are_read_are_counted() -> None:
    tree = Tree({f"jobs/{number:04}.yaml": "name: x\n" for number in range(450)})
    (note,) = find(tree).skipped
    assert note.reason.startswith("50 more files may start runs")
