"""What large trees need: nothing of a target outlives it, and PyTorch's own tree is not read for its tables."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from analyzer.api import Options, analyze, analyze_each
from analyzer.engine.program import Program
from benchmarks.part_analysis import Corpus

TRAINS = b"""
import torch
from torch import nn
from torch.optim import SGD


def train(loader, rank):
    model = nn.Linear(2, 2)
    optimizer = SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
"""
PYTORCH = {
    "torch/__init__.py": b"from torch import nn\nfrom torch import optim\n",
    "torch/nn/__init__.py": b"class Linear:\n    pass\n",
    "torch/optim/__init__.py": b"class SGD:\n    def step(self):\n        pass\n",
}


def test_a_program_is_gone_when_its_target_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[weakref.ref[Program]] = []
    run_target = Program.run_target

    def noted(self: Program, *args: Any) -> None:
        programs.append(weakref.ref(self))
        run_target(self, *args)

    monkeypatch.setattr(Program, "run_target", noted)
    gc.disable()
    try:
        report = analyze(Corpus({"a.py": TRAINS, "b.py": TRAINS}), ["a.py", "b.py"], Options())
        assert {item.rule for item in report.findings} >= {"PF201"}
        assert len(programs) >= 2
        assert [program() for program in programs] == [None] * len(programs)
    finally:
        gc.enable()


def test_absolute_imports_of_torch_mean_its_tables_in_its_own_tree_too() -> None:
    files = Corpus({**PYTORCH, "train.py": TRAINS})
    reads: set[str] = set()
    [(_, report)] = analyze_each(files, ["train.py"], Options(), ["train.py"], reads)
    assert "PF201" in {item.rule for item in report.findings}
    assert not reads & PYTORCH.keys()
