"""A finding's program made small."""

from __future__ import annotations

import ast
import builtins
import re
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


def _unbound(text: str) -> set[str]:
    """The names that a program loads and binds nowhere."""
    nodes = list(ast.walk(ast.parse(text)))
    loaded = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(each.asname or each.name).partition(".")[0] for each in node.names}
    return loaded - bound - set(dir(builtins))


PARAMETERS = LONG.replace('name="run"', 'name="run", every=30000, *, log=None').replace(
    "    criterion", "    print(every)\n    criterion"
)


def test_what_is_left_reads_as_a_program() -> None:
    caller = "\n\ntrain(Net(), torch.ones(4, 2, 2), optim.SGD([torch.ones(1)], 0.1), 'x', 10, log=print)\n"
    tree = Tree({"train.py": PARAMETERS + caller})
    small = reduced(tree, only(tree, "train.py", "PF101"), "train.py")
    assert small is not None
    text = small.sources["train.py"]
    assert _unbound(text) == set()
    assert "30000" not in text
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.args.defaults == []
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"range", "enumerate", "criterion"}:
            assert node.args, ast.unparse(node)


def test_a_parameter_goes_with_its_default_and_with_what_callers_give() -> None:
    source = (
        "import torch\n\n\nclass Meter:\n    def __init__(self, size=30000, name='a'):\n        self.size = size\n"
        "        self.total = 0\n\n    def add(self, loss, unused=5):\n        self.total += loss\n\n\n"
        "def fit(model: torch.nn.Module, data):\n    meter = Meter(10, name='b')\n    for x in data:\n"
        "        loss = model(x).sum()\n        loss.backward()\n        meter.add(loss, 7)\n"
    )
    tree = Tree({"m.py": source})
    small = reduced(tree, only(tree, "m.py", "PF101"), "m.py")
    assert small is not None
    text = small.sources["m.py"]
    assert "def add(self, loss):" in text
    assert "meter.add(loss)" in text
    assert "self=" not in text
    assert not {"30000", "10", "5", "7"} & set(re.findall(r"\d+", text))


def test_files_between_the_program_and_the_finding_come_along() -> None:
    files = {
        "main.py": (
            "import torch\nfrom build import make\nfrom work import run\n\nmodel = make()\n"
            "run(model, torch.utils.data.DataLoader([1, 2]))\n"
        ),
        "build.py": "import torch\nfrom sizes import SIZE\n\n\ndef make():\n    return torch.nn.Linear(SIZE, 2)\n",
        "sizes.py": "SIZE = 2\n",
        "work.py": (
            "import unrelated\n\n\ndef run(model, data):\n    total = 0\n    for x in data:\n"
            "        total += model(x).sum()\n    print(total)\n"
        ),
        "unrelated.py": "import torch\n",
    }
    tree = Tree(files)
    report = analyze(tree, sorted(files), Options(select=frozenset({"PF101"})))
    (finding,) = report.findings
    assert finding.path == "work.py"
    small = reduced(tree, finding, "main.py")
    assert small is not None
    assert "unrelated.py" not in small.sources
    assert "pass" not in small.sources.values()
    again = analyze(Tree(small.sources), sorted(small.sources), Options(select=frozenset({"PF101"}))).findings
    assert [(item.path, item.severity, item.confidence) for item in again] == [
        (finding.path, finding.severity, finding.confidence)
    ]
