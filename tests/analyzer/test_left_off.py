"""Findings under a setting that nothing in the tree turns on: `analyzer.rules.offered.why_left_off`."""

from __future__ import annotations

import pytest

from analyzer.api import analyze
from analyzer.findings import Severity
from tests.analyzer.test_project import Texts

_MAIN = b"""
import argparse
import torch
from torch import nn


def main(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if args.clip:
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        else:
            optimizer.step()


parser = argparse.ArgumentParser()
parser.add_argument("--clip", action="store_true")
main(parser.parse_args(), nn.Linear(4, 2), torch.utils.data.DataLoader(torch.load("data.pt"), shuffle=True))
"""


@pytest.mark.parametrize(
    ("texts", "severity"),
    [
        ({"run.sh": b"python main.py\n"}, Severity.NOTE),
        ({"run.sh": b"python main.py --clip\n"}, Severity.WARNING),
        ({"README.md": b"python main.py --hparams=clip=True\n"}, Severity.WARNING),
        ({"README.md": b"A network.\n"}, Severity.WARNING),
        ({}, Severity.WARNING),
    ],
)
def test_what_happens_under_a_setting_that_is_never_on_is_a_note(texts: dict[str, bytes], severity: Severity) -> None:
    found = [item for item in analyze(Texts({"main.py": _MAIN, **texts}), ["main.py"]).findings if item.rule == "PF210"]
    assert [item.severity for item in found] == [severity]
    assert ("`clip` is on" in found[0].evidence[-1].note) is (severity is Severity.NOTE)
