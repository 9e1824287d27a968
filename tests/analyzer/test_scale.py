"""What large trees need: nothing of a target outlives it, and PyTorch's own tree is not read for its tables."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from analyzer.api import Journal, Options, analyze, analyze_each
from analyzer.engine.events import Forward
from analyzer.engine.program import Program
from analyzer.engine.sources import Sources
from analyzer.knowledge.schema import knowledge
from analyzer.project import Project
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
    journal = Journal()
    [(_, report)] = analyze_each(files, ["train.py"], Options(), ["train.py"], journal)
    assert "PF201" in {item.rule for item in report.findings}
    assert not journal.reads & PYTORCH.keys()


PACKAGE = {
    "package/__init__.py": b"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .models import *\n"
    b"    from .nets import Net, Other\n",
    "package/models/__init__.py": b"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .one import *\n"
    b"    from .two import *\n",
    "package/models/one.py": b"import torch\nclass One(torch.nn.Module):\n    pass\n",
    "package/models/two.py": b"import torch\nclass Two(torch.nn.Module):\n    pass\n",
    "package/nets.py": b"import torch\nfrom .models.one import One\nclass Net(torch.nn.Module):\n    pass\n",
}
EVALUATES = b"""
import package
from package import {name}


def run(net: {name}, loader):
    return sum(net(x).sum().item() for x in loader)
"""


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("Net", {"package/nets.py", "package/models/one.py"}),
        ("Two", {"package/models/__init__.py", "package/models/one.py", "package/models/two.py"}),
        ("missing", {"package/models/__init__.py", "package/models/one.py", "package/models/two.py"}),
    ],
)
def test_imports_for_type_checkers_are_followed_as_far_as_somebody_asks(name: str, reads: set[str]) -> None:
    """Names are looked for in the files that say them; nothing else of the package is looked into."""
    source = EVALUATES.replace(b"{name}", name.encode())
    sources = Sources(Project(Corpus({**PACKAGE, "eval.py": source})))
    program = Program(sources.project, knowledge(), sources)
    program.run_target("eval.py")
    forwards = list(program.of(Forward))
    assert len(forwards) == (0 if name == "missing" else 1)
    assert sources.project.journal.reads - {"eval.py", "package/__init__.py"} == reads
