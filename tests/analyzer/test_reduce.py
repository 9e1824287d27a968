"""A finding's program made small."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from analyzer.api import Options, analyze, reduced
from analyzer.findings import Finding

LONG = '''"""Trains a secret model."""
import os, sys
import torch
from torch import nn, optim

SECRET = "hunter2"


@torch.jit.ignore
def unrelated(path: str) -> list[str]:
    """Reads."""
    return [line for line in open(path)]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        print("forward", x.shape)
        return self.fc(x)


def train(model: nn.Module, loader, opt: optim.Optimizer, name="run"):
    criterion = nn.CrossEntropyLoss(reduction="mean")
    total = 0.0
    model.train()
    for epoch in range(3):
        for step, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)  # the loss
            opt.zero_grad()
            if step % 2 == 0:
                loss.backward()
            opt.step()
            total += loss
            print(f"{name} {step}")
    return total
'''


class Tree:
    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def paths(self) -> Collection[str]:
        return self.files.keys()

    def read(self, path: str) -> bytes | None:
        return self.files[path].encode() if path in self.files else None


def only(tree: Tree, path: str, rule: str) -> Finding:
    (finding,) = (item for item in analyze(tree, [path], Options(select=frozenset({rule}))).findings)
    return finding


def test_what_the_finding_does_not_need_goes() -> None:
    tree = Tree({"train.py": LONG})
    finding = only(tree, "train.py", "PF101")
    small = reduced(tree, finding, "train.py")
    assert small is not None
    text = small.sources["train.py"]
    again = only(Tree(small.sources), "train.py", "PF101")
    assert (again.confidence, small.num_after < 12, len(small.sources)) == (finding.confidence, True, 1)
    for word in ("secret", "hunter2", "unrelated", "#", "print", "zero_grad"):
        assert word not in text


def test_a_file_that_the_evidence_needs_stays() -> None:
    keep = "kept = []\n\n\ndef unused():\n    return 1\n\n\ndef keep(item):\n    kept.append(item)\n"
    head = "import torch\nfrom torch import nn\nfrom keeping import keep, unused\n\n\n"
    body = "def collect(model: nn.Module, loader: torch.utils.data.DataLoader):\n    for x in loader:\n"
    tree = Tree({"keeping.py": keep, "collect.py": f"{head}{body}        keep(model(x))\n"})
    report = analyze(tree, ["collect.py", "keeping.py"], Options(select=frozenset({"PF101"})))
    (finding,) = report.findings
    small = reduced(tree, finding, "collect.py")
    assert small is not None
    assert set(small.sources) == {"keeping.py", "collect.py"}
    assert "unused" not in "".join(small.sources.values())


def test_what_stays_is_the_finding_and_not_another_of_its_rule() -> None:
    source = LONG.replace("    total = 0.0\n", "    total = 0.0\n    kept = []\n").replace(
        "            total += loss\n", "            total += loss\n            kept.append(loss)\n"
    )
    tree = Tree({"train.py": source})
    found = {
        item.message.split()[1]: item
        for item in analyze(tree, ["train.py"], Options(select=frozenset({"PF101"}))).findings
    }
    assert set(found) == {"running", "container"}
    for kind, wanted, other in (
        ("container", "kept.append(loss)", "total +="),
        ("running", "total += loss", "kept.append"),
    ):
        small = reduced(tree, found[kind], "train.py")
        assert small is not None
        assert (wanted in small.sources["train.py"], other in small.sources["train.py"]) == (True, False)
