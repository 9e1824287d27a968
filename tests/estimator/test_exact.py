"""The exact tier on torch: a real model's step without data, and the guard around a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analyzer.errors import InputError
from estimator.exact.answer import estimate_exactly
from estimator.exact.trace import _NAMES, OPTIMIZERS
from estimator.runconfig import RunConfig
from estimator.sourced import Origin

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.exact

MODEL = """
import torch
from torch import nn

def net():
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10))

def with_input():
    return nn.Conv2d(3, 8, 3), torch.zeros(4, 3, 32, 32)

def huge():
    return nn.Linear(200_000, 200_000)

def broken():
    raise RuntimeError("no weights today")

def keyless():
    return {}["depth"]

def leaving():
    raise SystemExit(3)

def nothing():
    return None

class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 64)
        self.base = nn.Linear(64, 64)
        self.base.requires_grad_(False)
        self.down, self.up = nn.Linear(64, 4, bias=False), nn.Linear(4, 64, bias=False)

    def forward(self, input_ids, labels=None):
        x = self.words(input_ids)
        x = self.base(x) + self.up(self.down(x))
        return {"logits": x, "loss": x.float().mean()}

def adapted():
    tokens = torch.zeros(4, 16, dtype=torch.long)
    return Adapted(), {"input_ids": tokens, "labels": tokens}
"""
PARAMS = 1024 * 4096 + 4096 + 4096 * 10 + 10


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``preflight estimate --exact`` as a user types it."""
    command = [sys.executable, "-m", "preflight", "estimate", *words, "--exact", "--format", "json"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "zoo.py").write_text(MODEL)
    return tmp_path


def test_the_peak_of_a_real_step(folder: Path) -> None:
    done = run(folder, "zoo:net", "--micro-batch", "256", "--gpu", "T4")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["model"]["params"] == PARAMS
    assert result["verdict"] == "fits"
    rest = 4 * 4 * PARAMS / 2**30  # weights, gradients, two moments in fp32
    assert result["allocated_gib"]["point"] == pytest.approx(rest, rel=0.6)
    assert result["allocated_gib"]["point"] >= rest


def test_what_cannot_be_allocated_exceeds_without_allocating_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    result = estimate_exactly("zoo:huge", RunConfig.from_document({"gpu": "T4"}, Origin("test")))
    assert result.verdict == "exceeds"
    assert result.peak is not None
    assert result.peak.floor > 16 * 200_000**2 - 2**30


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("zoo:broken", {}, "no weights today"),
        ("zoo:keyless", {}, "KeyError: 'depth'"),
        ("zoo:leaving", {}, "SystemExit: 3"),
        ("zoo:nothing", {}, "NoneType and no torch.nn.Module"),
        ("zoo:absent", {}, "cannot be imported"),
        ("nowhere:net", {}, "cannot be imported"),
        ("zoo", {}, "package.module:factory"),
        ("zoo:net", {"precision": "fp8"}, "cannot be traced"),
        ("zoo:net", {"optimizer": "muon"}, "cannot be traced"),
        ("zoo:net", {"optimizer": "adamm"}, "'adamm' is not modelled: one of adamw, sgd"),
    ],
)
def test_what_cannot_be_traced_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    with pytest.raises(InputError, match=message):
        estimate_exactly(name, RunConfig.from_document(words, Origin("test")))


@pytest.mark.parametrize("optimizer", [*OPTIMIZERS])
def test_every_optimizer_that_is_offered_can_be_traced(
    folder: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    """Adafactor's asks tensors for their numbers, which have none here."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    result = estimate_exactly("zoo:net", RunConfig.from_document({"optimizer": optimizer}, Origin("test")))
    copies = {"adamw": 2, "sgd": 0, "sgd-momentum": 1, "adagrad": 1, "rmsprop": 1, "adafactor": 0}[optimizer]
    assert result.allocated is not None
    assert result.allocated.floor == pytest.approx(4 * (2 + copies) * PARAMS, rel=0.01)  # the moments' rows and columns


def test_an_example_input_of_the_factory_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    result = estimate_exactly("zoo:with_input", RunConfig.from_document({"task": "infer"}, Origin("test")))
    assert result.model.params == 3 * 8 * 9 + 8


def test_frozen_weights_and_named_arguments(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As transformers' batches and peft's adapters are."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    given = {"micro_batch": 32, "gpu": "T4"}
    result = estimate_exactly("zoo:adapted", RunConfig.from_document(given, Origin("test")))
    trained = 100 * 64 + 2 * 64 * 4
    assert result.model.params == trained + 64 * 64 + 64
    assert result.allocated is not None
    counters = 3 * 4  # AdamW's steps, one of each tensor that is trained
    assert result.allocated.floor == 4 * (result.model.params + 3 * trained) + counters
    assert result.reasons == ("micro_batch is not used: the factory returns an example of its own",)


def test_the_kinds_of_memory_have_names_of_ours_and_what_was_assumed_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    given = {"precision": "amp-bf16", "micro_batch": 32}
    result = estimate_exactly("zoo:net", RunConfig.from_document(given, Origin("test")))
    names = {term.name for term in result.terms if term.num_bytes}
    assert {"weights", "gradients", "optimizer state and temporaries"} <= names
    assert names - {*_NAMES.values()} == {"allocator", "driver context"}  # what the peak holds beside tensors
    assumed = {line.name: line.value for line in result.inputs if line.name not in given}
    assert assumed == {"optimizer": "adamw", "input": "32x1024"}
    own = estimate_exactly("zoo:with_input", RunConfig.from_document(given, Origin("test")))
    assert "input" not in {line.name for line in own.inputs}


# --- the guard ------------------------------------------------------------------------------------------------------


def model() -> Any:
    """The same network, with data."""
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))


def test_the_guard_stops_only_what_cannot_fit() -> None:
    from preflight import VRAMExceeded, VRAMGuard

    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    params = sum(each.numel() for each in net.parameters())
    with (
        pytest.raises(VRAMExceeded, match="optimizer state"),
        VRAMGuard(net, optimizer=optimizer, device_memory=16 * params - 1),
    ):
        pytest.fail("the block must not start")
    with VRAMGuard(net, optimizer=optimizer, device_memory=16 * params):
        pass


def test_the_guard_warns_of_a_step_that_does_not_fit() -> None:
    from preflight import VRAMGuard, VRAMWarning

    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    guard = VRAMGuard(net, optimizer=optimizer, example_input=torch.zeros(4096, 64), device_memory=2**20)
    with pytest.warns(VRAMWarning, match="expected to allocate"), guard:
        pass
    assert guard.traced is not None
    assert guard.traced.peak > 4096 * 256 * 4
    assert net[0].weight.sum() != 0  # the model itself is untouched


def test_a_model_that_cannot_be_traced_is_no_error() -> None:
    from preflight import VRAMGuard, VRAMWarning

    class Odd(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.part = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            raise ValueError("only on Sundays")

    guard = VRAMGuard(Odd(), example_input=torch.zeros(1, 4), device_memory=2**30)
    with pytest.warns(VRAMWarning, match="could not be traced"), guard:
        pass


def test_without_a_device_there_is_nothing_to_guard() -> None:
    from preflight import VRAMGuard

    with VRAMGuard(model(), batch_size=8) as guard:
        assert guard.measured is None


def test_a_batch_of_named_tensors_and_frozen_weights_are_traced() -> None:
    from preflight import VRAMGuard

    class Adapted(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(100, 64)
            self.words.requires_grad_(False)
            self.part = torch.nn.Linear(64, 64)

        def forward(self, input_ids: Any) -> Any:
            return self.part(self.words(input_ids))

    net = Adapted()
    batch = {"input_ids": torch.zeros(4, 16, dtype=torch.long)}
    optimizer = torch.optim.SGD(net.part.parameters(), lr=0.1, momentum=0.9)
    with VRAMGuard(net, optimizer=optimizer, example_input=batch, device_memory=2**30) as guard:
        pass
    assert guard.traced is not None
    assert guard.traced.trained == 64 * 64 + 64
    assert guard.traced.state == 4 * guard.traced.trained


class Config:
    """What a model of transformers knows of itself."""

    _name_or_path = "openai-community/gpt2"


def test_what_a_device_measured_is_a_row_that_the_accuracy_command_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device that is not there: every name that is asked is one of torch.cuda."""
    from benchmarks import accuracy
    from preflight import VRAMExceeded, VRAMGuard

    gib = 2**30
    properties = SimpleNamespace(name="Tesla T4", total_memory=int(14.56 * gib))
    for name, answer in {
        "is_available": True, "current_device": 0, "get_device_properties": properties, "reset_peak_memory_stats": None,
        "max_memory_reserved": 2 * gib, "max_memory_allocated": gib,
    }.items():  # fmt: skip
        assert hasattr(torch.cuda, name)
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    net = model()
    net.config = Config()
    path = tmp_path / "peaks.jsonl"
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    batch = {"input_ids": torch.zeros(8, 128, dtype=torch.long)}
    with VRAMGuard(net, optimizer=optimizer, precision="amp-fp16", record=path) as guard:
        guard.example_input = batch
    with pytest.raises(torch.OutOfMemoryError, match="of memory"):
        died(VRAMGuard(net, optimizer=optimizer, record=path, batch_size=16, seq_len=128))
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert (first["model"], first["optimizer"], first["precision"]) == (
        Config._name_or_path,
        "sgd-momentum",
        "amp-fp16",
    )
    assert (first["micro_batch"], first["seq_len"], first["measured_gib"], first["oom"]) == (8, 128, 2.0, False)
    assert (second["micro_batch"], second["oom"]) == (16, True)
    assert accuracy.main(["--records", str(path)]) == 0
    assert f"| {Config._name_or_path} | 2 | 2 |" in capsys.readouterr().out
    properties.total_memory = 1000  # less than the weights
    with pytest.raises(VRAMExceeded, match="the device has"), VRAMGuard(net, optimizer=optimizer):
        pytest.fail("the block must not start")


def died(guard: Any) -> None:
    with guard:
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_record_that_cannot_be_written_hides_nothing(tmp_path: Path) -> None:
    from preflight import VRAMGuard, VRAMWarning

    with pytest.warns(VRAMWarning, match="not written"):
        VRAMGuard(model())._write(tmp_path / "nowhere" / "peaks.jsonl", {})
