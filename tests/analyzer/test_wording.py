"""What messages say of a program must be true of it, whatever the program does."""

from __future__ import annotations

import pytest

from analyzer.api import Options, analyze
from tests.analyzer.mdcases import Case

_LOADER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def run(data, model, other):
    model = model.cuda()
    loader = DataLoader(data, batch_size=8, shuffle=True)
"""
_STEP = """\
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
"""
_EVALUATES = (
    "    model.eval()\n    with torch.no_grad():\n        for x in loader:\n            print(model(x).argmax(1))\n"
)


def _messages(files: dict[str, str], rule: str) -> list[tuple[str, str]]:
    options = Options(select=frozenset({rule}))
    return [(item.path, item.message) for item in analyze(Case("", files), sorted(files), options).findings]


@pytest.mark.parametrize(
    ("body", "process"),
    [
        (_STEP, "the process that trains"),
        (f"{_EVALUATES}", "the process that evaluates"),
        ("    for x in loader:\n        print(x.shape)\n", "the process that iterates over it"),
        (f"{_EVALUATES}{_STEP}", "the process that trains"),
    ],
)
def test_a_slow_loader_keeps_the_process_waiting_that_draws_from_it(body: str, process: str) -> None:
    source = _LOADER.replace("model, other", "model: nn.Module") + body
    ((_, message),) = _messages({"a.py": source}, "PF401")
    assert f"loads every batch in {process} (`num_workers` is 0)" in message


_HELPER = """\
import numpy as np
import torch


def prepare(model, data):
    order = np.random.permutation(len(data))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in order:
        opt.zero_grad()
        model(data[i]).sum().backward()
        opt.step()
"""
_MAIN = "import torch\nfrom helper import prepare\n\nmodel = torch.nn.Linear(2, 2)\nprepare(model, torch.ones(4, 2))\n"


def test_what_several_programs_import_is_no_program() -> None:
    found = dict(_messages({"helper.py": _HELPER, "one.py": _MAIN, "two.py": _MAIN}, "PF206"))
    assert "seeded in a program that imports this file: no two runs" in found["helper.py"]
    alone = _HELPER + "\n\nprepare(torch.nn.Linear(2, 2), torch.ones(4, 2))\n"
    assert "seeded in this program: no two runs" in dict(_messages({"helper.py": alone}, "PF206"))["helper.py"]


def test_seeds_that_several_programs_share_are_told_of_one_of_them() -> None:
    seeds = "import torch\n\n\ndef seed(number):\n    torch.manual_seed(number)\n"
    body = _HELPER.replace("def prepare", "from seeds import seed\n\n\ndef prepare") + "\n\nseed(0)\n"
    body += "prepare(torch.nn.Linear(2, 2), torch.ones(4, 2))\n"
    found = dict(_messages({"seeds.py": seeds, "main.py": body, "more.py": body}, "PF206"))
    assert "but a program that imports this file also draws from NumPy" in found["seeds.py"]
    own = body.replace("from seeds import seed\n", "").replace("seed(0)", "torch.manual_seed(0)")
    assert "but this program also draws from NumPy" in dict(_messages({"main.py": own}, "PF206"))["main.py"]
