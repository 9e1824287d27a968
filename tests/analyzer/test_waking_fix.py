"""PF203's fix: `train()` once per epoch where an evaluation stands between epochs, after it where it stands between
batches."""

from __future__ import annotations

import pytest

from analyzer.api import Options, analyze
from analyzer.findings import Confidence, Finding
from analyzer.fixes.apply import apply
from tests.analyzer.mdcases import Case

_HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def validate(model, loader):
    with torch.no_grad():
        return sum(model(x).argmax(1).eq(y).sum().item() for x, y in loader)


def evaluate(model, loader):
    model.eval()
    return validate(model, loader)


def main(train_set, val_set):
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train, val = DataLoader(train_set, batch_size=8, shuffle=True), DataLoader(val_set, batch_size=8)
    best = 0
"""
_STEP = """\
loss = nn.functional.cross_entropy(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""
_EPOCHS = "for epoch in range(10):\n    model.train()\n    for i, (x, y) in enumerate(train):\n"


def _source(body: str) -> str:
    """The head, and a body in which `STEP` trains on a batch."""
    lines: list[str] = []
    for line in body.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += [indent + each for each in _STEP.splitlines()] if line.strip() == "STEP" else [line]
    return _HEAD + "".join(f"    {line}\n" for line in lines)


def _findings(source: str) -> list[Finding]:
    report = analyze(Case("", {"e.py": source}), ["e.py"], Options(min_confidence=Confidence.LIKELY))
    assert report.skipped == ()
    return [item for item in report.findings if item.rule == "PF203"]


BETWEEN_BATCHES = [
    pytest.param(
        f"{_EPOCHS}        STEP\n        if i % 100 == 0:\n            model.eval()\n"
        "            validate(model, val)\n",
        "            validate(model, val)\n",
        id="a condition",
    ),
    pytest.param(
        f"{_EPOCHS}        STEP\n        if i % 100 == 0:\n            evaluate(model, val)\n",
        "            evaluate(model, val)\n",
        id="a helper that switches",
    ),
    pytest.param(
        f"{_EPOCHS}        STEP\n        if i % 100 == 0:\n            for x, y in val:\n                model.eval()\n"
        "                with torch.no_grad():\n                    model(x)\n",
        "                    model(x)\n",
        id="a loop of its own",
    ),
    pytest.param(
        f"{_EPOCHS}        STEP\n        if i % 100 == 0:\n            if evaluate(model, val) > best:\n"
        "                best = i\n",
        "                best = i\n",
        id="the test of a condition",
    ),
    pytest.param(
        f"{_EPOCHS}        STEP\n        if i % 100 == 0: model.eval(); validate(model, val)\n",
        "validate(model, val)\n",
        id="one line",
    ),
    pytest.param(
        "model.train()\nit = iter(train)\nfor i in range(1000):\n    x, y = next(it)\n    STEP\n"
        "    if i % 100 == 0:\n        model.eval()\n        validate(model, val)\n",
        "        validate(model, val)\n",
        id="steps that are counted",
    ),
]


@pytest.mark.parametrize(("body", "behind"), BETWEEN_BATCHES)
def test_an_evaluation_between_batches_is_undone_there(body: str, behind: str) -> None:
    source = _source(body)
    (found,) = _findings(source)
    assert "right after the evaluation" in found.message
    assert "each training epoch" not in found.message
    assert found.fix is not None
    changed = apply(source.encode(), found.fix.edits).decode()
    head, tail = changed.split("model.train()", 2 - (source.count("model.train()") == 0))[-2:]
    assert head.rstrip(" ;\n").endswith(behind.strip())
    assert tail.strip() == ""
    assert _findings(changed) == []


def test_before_the_pass_where_that_comes_in_the_same_block() -> None:
    source = _source(f"{_EPOCHS}        model.eval()\n        validate(model, val)\n        STEP\n")
    (found,) = _findings(source)
    assert found.fix is not None
    changed = apply(source.encode(), found.fix.edits).decode()
    assert "validate(model, val)\n            model.train()\n            loss =" in changed
    assert _findings(changed) == []


def test_before_what_leaves_the_block() -> None:
    source = _source(
        f"{_EPOCHS}        STEP\n        if i % 100 == 0:\n            evaluate(model, val)\n            continue\n"
    )
    (found,) = _findings(source)
    assert found.fix is not None
    changed = apply(source.encode(), found.fix.edits).decode()
    assert "model.train()\n                continue\n" in changed
    assert _findings(changed) == []


def test_an_evaluation_between_epochs_is_undone_once_per_epoch() -> None:
    source = _source(
        "model.train()\nfor epoch in range(10):\n    for x, y in train:\n        STEP\n    evaluate(model, val)\n"
    )
    (found,) = _findings(source)
    assert "at the start of each training epoch" in found.message
    assert found.fix is not None
    changed = apply(source.encode(), found.fix.edits).decode()
    assert "        model.train()\n        for x, y in train:\n" in changed
    assert _findings(changed) == []
