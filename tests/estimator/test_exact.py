"""The exact tier on torch: a real model's step without data, and the guard around a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analyzer.errors import InputError
from estimator.exact.answer import estimate_exactly
from estimator.exact.trace import _NAMES
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
        ("zoo:nothing", {}, "cannot be imported"),
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


def test_an_example_input_of_the_factory_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    result = estimate_exactly("zoo:with_input", RunConfig.from_document({"task": "infer"}, Origin("test")))
    assert result.model.params == 3 * 8 * 9 + 8


def test_the_kinds_of_memory_have_names_of_ours_and_what_was_assumed_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    given = {"precision": "amp-bf16", "micro_batch": 32}
    result = estimate_exactly("zoo:net", RunConfig.from_document(given, Origin("test")))
    names = {term.name for term in result.terms if term.num_bytes}
    assert {"weights", "gradients", "optimizer state and temporaries"} <= names
    assert names <= {*_NAMES.values()}
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
