"""How sure a finding about the mode is where what drops out is an option."""

from __future__ import annotations

import pytest

from analyzer.api import Options, analyze
from analyzer.findings import Confidence
from tests.analyzer.mdcases import Case

_SOURCE = """\
import torch
from torch import nn
import argparse

class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.drop(self.fc(x))


def run(model, train_loader, val_loader, optimizer):
    model.train()
    for epoch in range(10):
        for x, y in train_loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for x, y in val_loader:
                print((model(x).argmax(1) == y).sum())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dropout", type=float, default={default})
    args = p.parse_args()
    model = Net(args.dropout)
    loader = torch.utils.data.DataLoader([], batch_size=4, shuffle=True)
    run(model, loader, loader, torch.optim.Adam(model.parameters()))

main()
"""


@pytest.mark.parametrize(("default", "confidence"), [("0.0", Confidence.LIKELY), ("0.1", Confidence.CERTAIN)])
def test_an_option_that_is_zero_by_default_is_no_certain_dropout(default: str, confidence: Confidence) -> None:
    source = _SOURCE.replace("{default}", default)
    report = analyze(Case("", {"t.py": source}), ["t.py"], Options(min_confidence=Confidence.LIKELY))
    assert [item.confidence for item in report.findings if item.rule == "PF203"] == [confidence]
