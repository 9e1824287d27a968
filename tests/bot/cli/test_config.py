"""`preflight config`: problems with their lines, as text and as JSON, and the schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cli.main import run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".github").mkdir()
    return tmp_path


def test_a_good_one_is_good(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / ".github" / "preflight.yml").write_text("mode: {code: warn}\n")
    assert run(["config", "check"]) == 0
    assert capsys.readouterr().out == ".github/preflight.yml: good\n"


def test_problems_are_named_and_the_rest_acts(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "x.yml").write_text("mode:\n  code: warn\n  memorry: block\n")
    assert run(["config", "check", "x.yml", "--format", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert (document["valid"], document["config"]["code"]) == (False, "warn")
    message = "mode.memorry: unknown setting; did you mean 'memory'?"
    assert document["problems"] == [{"path": "x.yml", "line": 3, "message": message}]


def test_a_gpu_that_nobody_sells_is_a_problem(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "x.yml").write_text(
        "targets: {long: A100-40GBB, short: 8xH100, '*': p4d.24xlarge}\ndefault_targets: [T4]\n"
    )
    assert run(["config", "check", "x.yml"]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("x.yml:1: targets.long: gpu: no GPU or instance type is called 'A100-40GBB'; nearest: ")


def test_the_owners_defaults_can_be_given(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "owner.yml").write_text("mode: {code: block}\ntargets: {long: A100}\n")
    (here / "x.yml").write_text("targets: {short: T4}\n")
    assert run(["config", "check", "x.yml", "--defaults", "owner.yml", "--format", "json"]) == 0
    config = json.loads(capsys.readouterr().out)["config"]
    assert (config["code"], config["targets"]) == ("block", {"long": "A100", "short": "T4"})


@pytest.mark.parametrize("arguments", [["check"], ["check", "no.yml"], ["schema", "x.yml"], ["chekc"]])
def test_nothing_to_check_is_an_input_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = run(["config", *arguments])
    except SystemExit as ending:
        code = int(str(ending.code))
    assert code == 2
    assert capsys.readouterr().err.startswith("preflight config: ")


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Preflight configuration"


BAD = (
    "import torch\n\ndef f(model, loader, opt):\n    kept = []\n    for x in loader:\n        loss = model(x).mean()\n"
)
BAD += "        loss.backward()\n        opt.step()\n        kept.append(loss)\n    return kept\n"


def test_check_follows_paths_and_exclusions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.py", "research/b.py", "vendor/c.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(BAD)
    text = "exclude: [vendor/]\npaths: [{match: research/, rules: {ignore: [PF101], severity: {PF201: note}}}]\n"
    (here / ".github" / "preflight.yml").write_text(text)
    run(["check", ".", "vendor/c.py", "--format", "json", "--no-cache", "--jobs", "1"])
    document = json.loads(capsys.readouterr().out)
    found = {(item["path"], item["rule"], item["severity"]) for item in document["findings"]}
    assert ("a.py", "PF201", "error") in found
    assert ("research/b.py", "PF201", "note") in found
    assert {path for path, rule, _ in found if rule == "PF101"} == {"a.py"}
    assert document["skipped"] == [{"path": "vendor/c.py", "reason": "excluded by the configuration"}]
    assert not [item for item in found if item[0].startswith("vendor")]


LAUNCH = "#!/bin/bash\n#SBATCH --partition=long\n#SBATCH --gres=gpu:1\nsrun python t.py\n"
TRAIN = "from transformers import AutoModelForCausalLM\nAutoModelForCausalLM.from_pretrained('gpt2')\n"


def test_the_command_line_knows_the_projects_targets(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "t.py").write_text(TRAIN)
    (here / "job.slurm").write_text(LAUNCH)
    (here / ".github" / "preflight.yml").write_text("targets: {long: A100-40GB}\nlunch: x\n")

    def gpu(*arguments: str) -> object:
        assert run(["launches", "job.slurm", "--format", "json", *arguments]) == 0
        return json.loads(capsys.readouterr().out)["launches"][0]["target"]["gpu"]

    assert gpu() == "A100-40GB"
    assert gpu("--target", "long=T4") == "T4"
    run(["estimate", "job.slurm", "--format", "json"])
    shown = capsys.readouterr()
    assert json.loads(shown.out)["target"]["name"].startswith("NVIDIA A100")
    assert "did you mean 'launch'" in shown.err
