"""Findings after a call that its function does not take: `analyzer.engine.stopped`."""

from __future__ import annotations

import pytest

from analyzer.api import analyze
from analyzer.findings import Severity
from tests.analyzer.test_project import Texts

_BODY = "    return torch.utils.data.DataLoader(torch.load(path), shuffle=True)\n"
_DATA = "import torch\n\n\ndef load(path, num_workers):\n" + _BODY
_MAIN = """
import torch
from torch import nn
from data import load


def train(model, loader, optimizer):
    for x, y in loader:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def main(fast=False):
    model = nn.Linear(4, 2)
    loader = {call}
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))


main()
"""


def _severity(call: str, data: str = _DATA) -> Severity:
    files = {"main.py": _MAIN.replace("{call}", call).encode(), "data.py": data.encode()}
    found = [item for item in analyze(Texts(files), ["main.py"]).findings if item.rule == "PF201"]
    assert len(found) == 1
    return found[0].severity


def test_what_comes_after_a_call_that_stops_the_program_is_a_note() -> None:
    assert _severity("load('data', num_workers=2)") is Severity.ERROR
    assert _severity("load('data', n_cpus=2)") is Severity.NOTE


@pytest.mark.parametrize(
    ("call", "data"),
    [
        ("load('data', n_cpus=2)", _DATA.replace("num_workers", "**more")),
        ("load('data', n_cpus=2)", "import tools\n" + _DATA.replace("def ", "@tools.adapt\ndef ")),
        ("load('data', n_cpus=2) if fast else load('data')", _DATA),
    ],
)
def test_a_call_that_may_be_taken_or_need_not_happen_stops_nothing(call: str, data: str) -> None:
    assert _severity(call, data) is Severity.ERROR


def test_who_expects_it_to_fail_goes_on() -> None:
    text = _MAIN.replace(
        "    loader = {call}\n",
        "    try:\n        loader = load('data', n_cpus=2)\n    except TypeError:\n        loader = load('data', 2)\n",
    )
    files = {"main.py": text.encode(), "data.py": _DATA.encode()}
    found = [item.severity for item in analyze(Texts(files), ["main.py"]).findings if item.rule == "PF201"]
    assert found == [Severity.ERROR]
