"""The same answer whatever order Python's sets have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import analyzer

_NAMES = ["one", "two", "three", "four", "five"]
_TREE = {
    "train.py": """
import torch


def resume(net, path):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net.to(device)
    net.load_state_dict(torch.load(path))
    return net


if __name__ == "__main__":
    resume(torch.nn.Linear(2, 2), "net.pt")
""",
    "save.py": "import torch\n\n\ndef save(net):\n    last = net.cpu()\n    one_a = last\n"
    + "".join(f"    {name} = 1, {name}_a, {name}_b, {name}_c\n" for name in _NAMES)
    + f"    torch.save(dict(x=[{', '.join(_NAMES)}]), 'net.pt')\n",
    "gan.py": """
import torch
from torch import nn

maker, critic = nn.Linear(8, 8), nn.Linear(8, 1)
makes, judges = torch.optim.Adam(maker.parameters()), torch.optim.Adam(critic.parameters())


def train(loader):
    for x in loader:
        one = maker(x)
        two = maker(x.flip(0))
        three = maker(x.flip(1))
        judges.zero_grad()
        critic(torch.cat([one, two, three])).mean().backward()
        judges.step()
        makes.zero_grad()
        critic(maker(x)).mean().backward()
        makes.step()
""",
}
_RUN = f"""
from analyzer.api import Options, analyze

FILES = {_TREE!r}


class Tree:
    def paths(self):
        return FILES.keys()

    def read(self, path):
        text = FILES.get(path)
        return None if text is None else text.encode()


report = analyze(Tree(), ["gan.py", "train.py"], Options())
print([(each.rule, each.span.start.line, [step.line for step in each.evidence]) for each in report.findings])
"""


def test_hash_seeds() -> None:
    """More names than are followed lead from what is saved to where it was moved, and one of several outputs is
    told: it is the same ones every time."""
    root = str(Path(analyzer.__file__).parent.parent)
    answers = {
        subprocess.run(
            [sys.executable, "-c", _RUN],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(6)
    }
    assert len(answers) == 1, answers
