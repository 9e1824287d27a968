"""Whatever is edited, a run that remembers the runs before says the same, byte for byte, as one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.api import Options
from analyzer.findings import Confidence
from bot.isolate import remembered
from tests.analyzer.mdcases import cases_in
from tests.bot.isolate.edits import Editor, Memory, Texts, Tree
from tests.bot.isolate.test_pool import BUGGY

CASES = Path(__file__).parents[2] / "cases"
NUM_EDITS = 30
LOADER = b"from torch.utils.data import DataLoader\nloader = DataLoader(range(9), batch_size=3, shuffle=True)\n"
HELPERS = b"""
import torch

def evaluate(model, loader):
    total = 0
    for x, y in loader:
        total += (model(x) - y).square().mean()
    return total

def build():
    return torch.nn.Linear(3, 3)
"""
TRAINS = b"""
import torch
from helpers import build, evaluate
from data import loader

model = build()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
"""


def project(seed: int) -> Texts:
    """Programs that share files, and every so many-th case of several files beside them."""
    documents = [case for place in sorted(CASES.rglob("*.md")) for case in cases_in(place) if len(case.files) > 1]
    texts: Texts = {"data.py": LOADER, "helpers.py": HELPERS, "train.py": TRAINS, "other.py": b"import data\n" + TRAINS}
    for number, case in enumerate(documents[seed::11]):
        texts.update({f"case{number}/{path}": text.encode() for path, text in case.files.items()})
    return texts


@pytest.mark.parametrize("seed", range(4))
def test_after_any_edit_the_report_is_that_of_a_first_run(seed: int) -> None:
    editor, store = Editor(project(seed), seed), Memory()
    editor.said(store)
    before = store.num_puts
    num_targets = 0
    for number in range(NUM_EDITS):
        what = editor.edit()
        num_targets += len(editor.targets)
        assert editor.said(store) == editor.said(Memory()), f"edit {number}: {what}"
    assert store.num_puts - before < num_targets / 2


def num_analysed(store: Memory, texts: Texts) -> int:
    """How many targets a run has to look at."""
    before = store.num_puts
    remembered.analyze(Tree(texts), sorted(texts), Options(), store)
    return store.num_puts - before


def test_an_edit_costs_the_file_and_those_that_read_it() -> None:
    store, texts = Memory(), {"data.py": LOADER, "helpers.py": HELPERS, "train.py": TRAINS, "plain.py": b"import os\n"}
    assert num_analysed(store, texts) == 4
    assert num_analysed(store, texts) == 0
    texts["plain.py"] = b"import sys\n"
    assert num_analysed(store, texts) == 1
    texts["new.py"] = b"import torch\n"
    assert num_analysed(store, texts) == 1
    texts["data.py"] += b"# the end\n"  # which train.py imports
    assert num_analysed(store, texts) == 2


def test_a_caller_that_appears_changes_what_is_said_of_what_it_calls() -> None:
    """``collect`` is called by nobody, then under ``no_grad`` in a file that its own does not import."""
    store, texts = Memory(), {"helpers.py": BUGGY.encode(), "train.py": b"import torch\n"}

    def rules() -> set[str]:
        report = remembered.analyze(Tree(texts), ["helpers.py"], Options(min_confidence=Confidence.POSSIBLE), store)
        return {item.rule for item in report.findings if item.confidence is not Confidence.POSSIBLE}

    before = rules()
    texts["train.py"] += b"from helpers import collect\nwith torch.no_grad():\n    collect(1, 2)\n"
    after, store = rules(), Memory()
    assert after == rules()
    assert before != after


def test_what_is_installed_for_others_is_asked_again() -> None:
    """``spare`` is called by nobody of the tree; once the package is installed for others, they may."""
    spare = (
        b"import torch\n\ndef spare(model: torch.nn.Module, x, y):\n"
        b"    return torch.nn.functional.cross_entropy(model(x).softmax(-1), y)\n\ndef used():\n    pass\n"
    )
    texts = {
        "pyproject.toml": b"[tool.black]\n",
        "mylib/__init__.py": b"",
        "mylib/fit.py": spare,
        "run.py": b"from mylib.fit import used\n\nif __name__ == '__main__':\n    used()\n    open('x')\n",
    }
    store = Memory()

    def severities() -> set[str]:
        report = remembered.analyze(Tree(texts), ["mylib/fit.py"], Options(), store)
        return {item.severity.value for item in report.findings if item.rule == "PF204"}

    assert severities() == {"note"}
    texts["pyproject.toml"] = b"[project]\nname = 'mylib'\n"
    assert severities() == {"error"}
