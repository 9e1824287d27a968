"""PF103 speaks of what is kept, not of what it is kept under."""

from __future__ import annotations

import pytest

from analyzer.api import Options, analyze
from analyzer.findings import Confidence
from analyzer.fixes.apply import apply
from tests.analyzer.mdcases import Case

_SOURCE = """\
import torch
import torch.nn.functional as F


@torch.no_grad()
def collect(model, loader, kept):
    model.eval()
    model.cuda()
    found = {kept}
    for names, x, y in loader:
        out = model(x.cuda())
        F.cross_entropy(out, y.cuda())
        {store}
    return found
"""


@pytest.mark.parametrize(
    ("kept", "store", "fixed"),
    [
        ("{}", "found[names] = out", "found[names] = out.cpu()"),
        ("[]", "found.append(out)", "found.append(out.cpu())"),
    ],
)
def test_what_is_kept_is_named_and_moved(kept: str, store: str, fixed: str) -> None:
    source = _SOURCE.replace("{kept}", kept).replace("{store}", store)
    report = analyze(Case("", {"e.py": source}), ["e.py"], Options(min_confidence=Confidence.LIKELY))
    (found,) = [item for item in report.findings if item.rule == "PF103"]
    assert "Keep `out` on the CPU" in found.message
    assert found.fix is not None
    assert apply(source.encode(), found.fix.edits).decode() == source.replace(store, fixed)
