"""``preflight estimate``, ``gpus``, ``instances``, ``models``: exit codes, formats, and what is not imported."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from bot.cli.main import run
from bot.render import estimate_markdown, estimate_text
from estimator.api import RunConfig, estimate
from estimator.sourced import Origin
from estimator.vocabulary import WORDS as VOCABULARY
from estimator.vocabulary import Word

WORDS = ["--model", "meta-llama/Llama-2-7b-hf", "--gpu", "A100", "--micro-batch", "1", "--seq-len", "2048"]

WORDS_OF_LISTS = [word for word in VOCABULARY if word.options and "enum" in word.schema]


def printed(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert run(list(argv)) == code
    return capsys.readouterr().out


def test_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(printed(capsys, "estimate", *WORDS, "--format", "json"))
    assert document["verdict"] == "borderline"
    assert len(document["targets"]) == 2


def test_the_terminal_says_verdict_terms_and_changes(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "estimate", *WORDS)
    for words in ("BORDERLINE", "optimizer state", "LoRA", "[--micro-batch]", "not known"):
        assert words in text


@pytest.mark.parametrize(
    ("gpu", "fail_on", "code"),
    [("T4", "exceeds", 1), ("T4", "borderline", 1), ("A100-80GB", "borderline", 1), ("A100-80GB", "exceeds", 0)],
)
def test_fail_on(capsys: pytest.CaptureFixture[str], gpu: str, fail_on: str, code: int) -> None:
    words = ["--model", "meta-llama/Llama-2-7b-hf", "--gpu", gpu, "--micro-batch", "1", "--seq-len", "2048"]
    printed(capsys, "estimate", *words, "--optimizer", "adamw", "--fail-on", fail_on, code=code)
    printed(capsys, "estimate", *words, code=0)


def test_a_document_and_words_that_override_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"model": "gpt2", "micro_batch": 8, "seq_len": 512, "gpu": "T4", "moon_phase": 3}))
    words = ["estimate", "--run-config", str(path), "--micro-batch", "2", "--format", "json"]
    document = json.loads(printed(capsys, *words))
    origins = {item["name"]: item["origin"] for item in document["inputs"]}
    assert origins["micro_batch"] == f"--micro-batch 2, overrides {path}"
    assert "moon_phase: no such field in the vocabulary" in document["unknowns"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not a JSON document"),
        ('{"micro_batch": 1, "micro_batch": 2}', "'micro_batch' is given twice"),
        ("[1]", "one JSON object"),
        ('{"micro_batch": NaN}', "NaN"),
        ('{"micro_batch": -2}', "micro_batch"),
        ('{"gpu": "Z9000"}', "Z9000"),
        ("[" * 100_000, "not a JSON document"),
    ],
)
def test_a_bad_document_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: str
) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)
    assert run(["estimate", "--run-config", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_a_missing_file_is_a_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "--run-config", "nowhere.json"]) == 2
    assert "nowhere.json" in capsys.readouterr().err


SCRIPT = """
import argparse
import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=2)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", torch_dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(dataset, batch_size=args.batch_size)
for batch in loader:
    optimizer.zero_grad()
    model(**batch).loss.backward()
    optimizer.step()
"""
LAUNCH = "#!/bin/bash\n#SBATCH --gres=gpu:a100:4\ntorchrun --nproc-per-node 4 train.py --batch-size 8\n"


@pytest.mark.parametrize(
    ("words", "batch", "place"),
    [
        (["train.py", "--gpu", "A100"], 2, "train.py:7"),
        (["train.py", "--gpu", "A100", "--batch-size", "16"], 16, "--micro-batch 16"),
        (["run.slurm"], 8, "run.slurm:3"),
        (
            ["--gpu", "H100", "--", "torchrun", "--nproc-per-node", "2", "train.py", "--batch-size", "4"],
            4,
            "command line",
        ),
    ],
)
def test_a_script_a_launch_file_and_a_command_say_what_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    batch: int,
    place: str,
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "run.slurm").write_text(LAUNCH)
    monkeypatch.chdir(tmp_path)
    document = json.loads(printed(capsys, "estimate", "--format", "json", *words))
    inputs = {item["name"]: (item["value"], item["origin"]) for item in document["inputs"]}
    assert inputs["model"][0] == "meta-llama/Llama-2-7b-hf"
    assert inputs["optimizer"][0] == "adamw"
    assert inputs["micro_batch"][0] == batch
    assert inputs["micro_batch"][1].startswith(place)
    assert document["peak_gib"]["floor"] > 12


def test_a_file_that_trains_nothing_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.py").write_text("print('hello')\n")
    monkeypatch.chdir(tmp_path)
    assert run(["estimate", "empty.py"]) == 2
    assert "empty.py" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["estimate", *WORDS], ["gpus"], ["instances", "p4d"], ["models", "llama"]])
def test_neither_libcst_nor_torch_is_imported(tmp_path: Path, command: list[str]) -> None:
    done = imported(tmp_path, "from bot.cli.main import run\nassert run(sys.argv[1:]) == 0", command)
    assert done.returncode == 0, done.stderr


def test_an_import_that_is_guarded_would_be_seen(tmp_path: Path) -> None:
    """The test above can fail: an import of torch succeeds there, whatever this environment has."""
    code = "try:\n    import torch\nexcept ImportError:\n    pass"
    done = imported(tmp_path, code, [])
    assert done.returncode != 0
    assert "torch" in done.stderr


def imported(folder: Path, code: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    """`code` in a process of its own that fails where it imported what an estimate must not wait for."""
    heavy = {"libcst", "torch", "transformers", "yaml", "github", "flask", "redis"}
    for name in ("torch", "transformers"):
        (folder / f"{name}.py").write_text("")
    text = (
        f"import sys\nsys.path.insert(0, {str(folder)!r})\n{code}\n"
        f"bad = {heavy!r} & set(sys.modules)\nassert not bad, bad"
    )
    return subprocess.run([sys.executable, "-c", text, *words], capture_output=True, text=True, check=False)


def seconds_of(command: list[str]) -> float:
    """The least processor time of three runs."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


@pytest.mark.parametrize(
    "words",
    [
        WORDS,
        ["--params", "7B", "--gpu", "T4"],  # eight shapes that it may have, and changes tried on each
        ["--model", "mistralai/Mixtral-8x7B-v0.1", "--gpu", "H100", "--gpus", "8", "--micro-batch", "16"],
    ],
)
def test_an_estimate_does_not_keep_anybody_waiting(words: list[str]) -> None:
    """Half a second is promised; here as a multiple of a Python that does nothing (0.011 s where that is so)."""
    idle = seconds_of([sys.executable, "-I", "-c", "pass"])
    assert seconds_of([sys.executable, "-m", "preflight", "estimate", *words]) < 45 * idle


@pytest.mark.parametrize(
    ("argv", "key", "name"),
    [
        (["gpus", "a100"], "gpus", "NVIDIA A100 80GB SXM"),
        (["instances", "p4d"], "instances", "p4d.24xlarge"),
        (["models", "llama-2-7b"], "models", "meta-llama/Llama-2-7b-hf"),
    ],
)
def test_tables_can_be_searched(capsys: pytest.CaptureFixture[str], argv: list[str], key: str, name: str) -> None:
    rows: list[dict[str, Any]] = json.loads(printed(capsys, *argv, "--format", "json"))[key]
    assert any(name in row.values() for row in rows)
    assert name in printed(capsys, *argv)


def test_names_of_strangers_are_harmless_in_markdown_and_terminal() -> None:
    name = "<img src=x onerror=alert(1)> | @everyone **b** [l](http://x.y) `c`"
    run_config = RunConfig.from_document({"model": name, "params": "1B", "gpu": "T4"}, Origin("a|b\x1b[2J @all\n# h"))
    result = estimate(run_config)
    markdown = estimate_markdown.render(result)
    html = MarkdownIt("commonmark").enable("table").render(markdown)
    for bad in ("<img", "<strong>b", "<a ", "<h1", "\x1b"):
        assert bad not in html
    assert html.count("<details") == 1
    assert "@all" not in markdown
    assert "\x1b" not in estimate_text.render(result)
    assert {line.count("<td") for line in html.split("<tr>") if "a|b" in line} == {3}


def test_markdown_without_a_number_says_why() -> None:
    text = estimate_markdown.render(estimate(RunConfig.from_document({"model": "nobody/x"}, Origin("here"))))
    assert text.startswith("**No number** for `nobody/x`: model 'nobody/x' is not in the table")


@pytest.mark.parametrize(
    ("word", "value"),
    [(word, value) for word in WORDS_OF_LISTS for value in ("fdsp", f"{word.schema['enum'][0]}x")],
    ids=lambda item: getattr(item, "name", item),
)
def test_a_slip_in_a_word_of_a_list_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, word: Word, value: str
) -> None:
    option = word.options[0]
    assert run(["estimate", *WORDS, f"{option}={value}"]) == 2
    said = capsys.readouterr().err
    assert value in said
    assert all(str(item) in said for item in word.schema["enum"] if item is not None)
    if word.is_open:  # in a file it may be news to us: a line of the answer
        place = tmp_path / "run.json"
        place.write_text(json.dumps({"model": "gpt2", word.name: value}))
        text = printed(capsys, "estimate", "--run-config", str(place), "--gpu", "T4")
        assert f"{value!r} is not modelled" in " ".join(text.split())


def test_a_model_nobody_lists_is_told_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "estimate", "--model", "nosuch/thing", "--gpu", "T4")
    assert "preflight models WORD" in " ".join(text.split())
    text = printed(capsys, "estimate", "--model", "mistralai/Mistral-7B-v0.4", "--gpu", "T4")
    assert "nearest: mistralai/Mistral-7B-v0.3" in " ".join(text.split())


def test_several_files_are_no_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("train.py", "run.sh"):
        (tmp_path / name).write_text("import torch\n")
    assert run(["estimate", str(tmp_path / "train.py"), str(tmp_path / "run.sh")]) == 2
    assert "one file at a time" in capsys.readouterr().err
