"""The harness for a real GPU, as far as it goes without one: what it would run, its rows, its refusal, its steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analyzer.errors import InputError
from analyzer.toml import parse_toml
from estimator.calibration import __main__ as command
from estimator.calibration import gpu
from estimator.calibration.compare import cases
from estimator.calibration.variants import CASES, VARIANTS

GIB = 2**30
DEEP = parse_toml(CASES.read_text(encoding="utf-8"))["deep"]
RUN = gpu.Run(model="openai-community/gpt2", variant="LoRA on bf16", step="lists", batch=4, seq=128, layers=12)
FOUND = {"gpu": "Tesla T4", "total": int(14.56 * GIB), "torch": "2.13.0", "at": 7, "allocated": GIB,
         "reserved": 2 * GIB, "used": 3 * GIB, "oom": False}  # fmt: skip


def test_every_variant_of_every_deep_model_is_run_with_both_kinds_of_step() -> None:
    found = list(gpu.runs(cases(), DEEP, ()))
    assert len(found) == len(set(found))
    assert {run.variant for run in found} == {variant.name for variant in VARIANTS}
    assert {(run.model, run.batch, run.seq) for run in found} == {(one["id"], one["batch"], one["seq"]) for one in DEEP}
    encoders = {run.variant for run in found if "bert" in run.model}
    assert not any("LoRA" in name for name in encoders)


def test_words_and_sizes_choose() -> None:
    found = list(gpu.runs(cases(), DEEP, ["gpt2", "bf16 checkpointed", "lists"], batches=[1, 8], seqs=[64, 256]))
    assert [(run.batch, run.seq) for run in found] == [(1, 64), (1, 256), (8, 64), (8, 256)]


def test_a_run_becomes_rows_that_the_accuracy_command_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks import accuracy
    from benchmarks.measured import load, score

    lines = [*gpu.rows(RUN, FOUND), *gpu.rows(RUN, {**FOUND, "oom": True})]
    path = tmp_path / "measurements.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [line["measured_gib"] for line in lines] == [1.0, 2.0, 3.0, None]
    found = score(load(path))
    assert [item.comparable == kind for item, kind in zip(
        found, (found[0].result.allocated, found[0].result.reserved, found[0].result.peak), strict=False
    )] == [True, True, True]  # fmt: skip
    inputs = {line.name: line.value for line in found[0].result.inputs}
    assert inputs["lora_rank"] == 16
    assert inputs["precision"] == "pure-bf16"
    assert found[0].result.unknowns == ()
    assert accuracy.main(["--records", str(path)]) == 0
    assert "| openai-community/gpt2 | 4 | 4 |" in capsys.readouterr().out


def test_without_a_device_it_refuses_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "measurements.jsonl"
    words = [sys.executable, "-m", "estimator.calibration", "measure", "gpt2", "--records", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert (done.returncode, path.exists()) == (2, False)
    assert "needs" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_runs_can_be_listed_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["measure", "--list", "gpt2", "bf16 checkpointed", "--batch", "2"]) == 0
    assert "batch=2, seq=128, layers=12" in capsys.readouterr().out


def test_rows_are_appended_and_a_run_that_broke_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([(0, f"a library said hello\n{json.dumps(FOUND)}\n"), (1, ""), (0, "")])

    def started(*_: Any, **__: Any) -> Any:
        code, out = next(answers)
        return SimpleNamespace(returncode=code, stdout=out)

    monkeypatch.setattr(gpu, "device_or_refuse", lambda: None)
    monkeypatch.setattr(subprocess, "run", started)
    path = tmp_path / "measurements.jsonl"
    path.write_text('{"id": "before"}\n')
    assert gpu.measure([RUN, RUN, RUN], path) == 2
    ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    assert ids == [
        "before",
        *(f"gpu-7-gpt2-b4-s128-{kind}" for kind in ("max_allocated", "max_reserved", "nvidia_smi")),
    ]


# --- with torch -----------------------------------------------------------------------------------------------------


class Still:
    """A meter of nothing."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def reset(self) -> None:
        self.calls.append("reset")

    def read(self) -> dict[str, int]:
        self.calls.append("read")
        return {"allocated": 1, "reserved": 2, "used": 3, "total": 4}


@pytest.mark.exact
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of transformers
@pytest.mark.parametrize(
    ("model", "variant"),
    [
        ("openai-community/gpt2", "bf16 checkpointed"),
        ("openai-community/gpt2", "LoRA on bf16 under autocast"),
        ("openai-community/gpt2", "fp32, eager attention"),
        ("google-bert/bert-base-uncased", "autocast, eager attention"),
    ],
)
def test_the_steps_of_a_run_are_trained(model: str, variant: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    meter = Still()
    run = gpu.Run(model=model, variant=variant, step="lists", batch=1, seq=16, layers=1)
    case = next(case for case in cases() if case["id"] == model)
    assert gpu.train(run, case, meter, "cpu")["reserved"] == 2
    assert meter.calls == ["reset", "read"]


@pytest.mark.exact
def test_the_meter_asks_what_torch_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name that it uses is one of torch.cuda, called as it is declared there."""
    torch = pytest.importorskip("torch")
    for name, answer in {
        "empty_cache": None, "reset_peak_memory_stats": None, "synchronize": None, "mem_get_info": (10, 30),
        "max_memory_allocated": 5, "max_memory_reserved": 8, "current_device": 0, "is_available": True,
        "get_device_properties": SimpleNamespace(name="Tesla T4", total_memory=30),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, mocked(getattr(torch.cuda, name), answer))
    meter = gpu.CudaMeter()
    meter.reset()
    assert meter.read() == {"allocated": 5, "reserved": 8, "used": 20, "total": 30}

    def dies(*_: Any) -> dict[str, int]:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(gpu, "train", dies)
    found = gpu.one(RUN, {})
    assert (found["oom"], found["gpu"], found["total"]) == (True, "Tesla T4", 30)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="torch sees none"):
        gpu.one(RUN, {})


def mocked(real: Any, answer: Any) -> Any:
    import inspect

    declared = inspect.signature(real)

    def called(*args: Any, **named: Any) -> Any:
        declared.bind(*args, **named)
        return answer

    return called
