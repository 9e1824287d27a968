"""What an analysis need not import, it does not: starting is most of the time that a small tree takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLEAN = "import torch\nx = torch.ones(3)\n"
FIXABLE = (
    "import torch\n"
    "import torch.nn.functional as F\n"
    "def train(model, loader, optimizer):\n"
    "    for x, y in loader:\n"
    "        optimizer.zero_grad()\n"
    "        F.cross_entropy(F.softmax(model(x), dim=1), y).backward()\n"
    "        optimizer.step()\n"
)
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from analyzer.api import Options, analyze

class Files:
    def paths(self):
        return ["a.py"]

    def read(self, path):
        return sys.argv[2].encode()

report = analyze(Files(), ["a.py"], Options())
print(len(report.findings), any(item.fix for item in report.findings), "libcst" in sys.modules)
"""


@pytest.mark.parametrize(("source", "expected"), [(CLEAN, "0 False False"), (FIXABLE, "1 True True")])
def test_libcst_is_imported_only_for_fixes(source: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT), source], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == expected
