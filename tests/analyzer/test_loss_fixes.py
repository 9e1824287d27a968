"""The fixes of the rules about losses: what they write, and which are safe."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from analyzer.api import Options, analyze
from analyzer.fixes.apply import apply

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
ACCUMULATION = """def f(m, loader, opt, args):
    for i, (x, y) in enumerate(loader):
        {}.backward()
        if (i + 1) % args.n == 0:
            opt.step()
            opt.zero_grad()
"""


class OneFile:
    """A tree of one file."""

    def __init__(self, source: str) -> None:
        self.source = source.encode()

    def paths(self) -> Collection[str]:
        return ["train.py"]

    def read(self, path: str) -> bytes | None:
        return self.source if path == "train.py" else None


@pytest.mark.parametrize(
    ("rule", "before", "after", "applicability"),
    [
        (
            "PF205",
            "def f(m, x, y):\n    return F.binary_cross_entropy_with_logits(torch.sigmoid(m(x)), y)\n",
            "def f(m, x, y):\n    return F.binary_cross_entropy_with_logits(m(x), y)\n",
            "safe",
        ),
        (
            "PF205",
            "def f(m, x, y):\n    p = torch.sigmoid(m(x))\n    return nn.BCEWithLogitsLoss()(p, y)\n",
            "def f(m, x, y):\n    p = m(x)\n    return nn.BCEWithLogitsLoss()(p, y)\n",
            "unsafe",
        ),
        (
            "PF205",
            "def f(x, y):\n    return nn.BCELoss(reduction='sum')(nn.Linear(3, 1)(x), y)\n",
            "def f(x, y):\n    return nn.BCEWithLogitsLoss(reduction='sum')(nn.Linear(3, 1)(x), y)\n",
            "unsafe",
        ),
        (
            "PF220",
            "def f(m, x, y):\n    return F.nll_loss(m(x).softmax(dim=1), y)\n",
            "def f(m, x, y):\n    return F.nll_loss(m(x).log_softmax(dim=1), y)\n",
            "safe",
        ),
        (
            "PF220",
            "def f(x, y):\n    return F.nll_loss(nn.Linear(3, 2)(x), y)\n",
            "def f(x, y):\n    return F.cross_entropy(nn.Linear(3, 2)(x), y)\n",
            "unsafe",
        ),
        (
            "PF202",
            ACCUMULATION.format("F.cross_entropy(m(x), y)"),
            ACCUMULATION.format("(F.cross_entropy(m(x), y) / args.n)"),
            "unsafe",
        ),
    ],
)
def test_a_fix_of_a_loss(rule: str, before: str, after: str, applicability: str) -> None:
    tree = OneFile(HEAD + before)
    (finding,) = analyze(tree, ["train.py"], Options(select=frozenset({rule}))).findings
    assert finding.fix is not None
    assert finding.fix.applicability == applicability
    assert apply(tree.source, finding.fix.edits).decode() == HEAD + after


def test_a_fix_that_breaks_another_use_is_not_offered() -> None:
    """The criterion also gets probabilities: switching it to logits would be wrong there."""
    source = (
        "criterion = nn.BCELoss()\nhead = nn.Linear(3, 1)\n"
        "for x, y in torch.utils.data.DataLoader([], batch_size=4):\n"
        "    one = criterion(head(x), y)\n    two = criterion(torch.sigmoid(head(x)), y)\n"
    )
    (finding,) = analyze(OneFile(HEAD + source), ["train.py"], Options(select=frozenset({"PF205"}))).findings
    assert finding.line == len(HEAD.splitlines()) + 4
    assert finding.fix is None
