"""PF102's fix: a decorator above the function that evaluates, or none where something in it trains."""

from __future__ import annotations

import pytest

from analyzer.api import Options, analyze
from analyzer.findings import Confidence, Finding
from analyzer.fixes.apply import apply
from tests.analyzer.mdcases import Case

_LOOP = "    model.eval()\n    for x, y in loader:\n        print(model(x).argmax(1) == y)\n"


def _findings(source: str) -> list[Finding]:
    report = analyze(Case("", {"e.py": source}), ["e.py"], Options(min_confidence=Confidence.LIKELY))
    return [item for item in report.findings if item.rule == "PF102"]


@pytest.mark.parametrize(
    ("head", "define", "decorator"),
    [
        ("import torch\n", "def evaluate(model, loader):\n", "@torch.no_grad()\n"),
        ("import torch as th\nfrom torch import nn\n", "def evaluate(model, loader):\n", "@th.no_grad()\n"),
        ("import torch.nn as nn\nfrom torch import no_grad as off\n", "def evaluate(model, loader):\n", "@off()\n"),
        ("import torch.nn\n", "def evaluate(model, loader):\n", "@torch.no_grad()\n"),
        ("import torch\n", "@print\ndef evaluate(model, loader):\n", "@torch.no_grad()\n"),
    ],
)
def test_a_decorator_spelt_as_the_file_imports_torch(head: str, define: str, decorator: str) -> None:
    source = f"{head}\n{define}{_LOOP}"
    (found,) = _findings(source)
    assert found.fix is not None
    assert found.fix.applicability == "unsafe"
    changed = apply(source.encode(), found.fix.edits).decode()
    assert changed == source.replace("def evaluate", f"{decorator}def evaluate")
    assert _findings(changed) == []


@pytest.mark.parametrize(
    "source",
    [
        f"from torch import nn\n\ndef evaluate(model: nn.Module, loader):\n{_LOOP}",
        f"import torch\n\ndef fit(model, loader, loss):\n{_LOOP}    loss(model).backward()\n",
        (
            f"import torch\n\ndef run(model, loader):\n    train(model)\n{_LOOP}\n\n"
            "def train(model):\n    for x in [torch.ones(2)]:\n        model(x).sum().backward()\n"
        ),
        (
            "import torch\n\nmodel = torch.nn.Linear(2, 2)\nmodel.eval()\n"
            "for x in torch.utils.data.DataLoader([]):\n    print(model(x))\n"
        ),
    ],
)
def test_no_fix_without_torch_in_sight_or_where_something_trains(source: str) -> None:
    (found,) = _findings(source)
    assert found.fix is None
