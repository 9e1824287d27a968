"""The training script of a story: functions with one known bug each, added and mended push by push."""

from __future__ import annotations

from dataclasses import dataclass, field

DATA = "def make_dataset():\n    return []\n"
LAUNCH = "#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH --time=1:00:00\nsrun python train.py\n"
_HEAD = """import torch
from torch import nn
from torch.utils.data import DataLoader

from data import make_dataset
"""
_PART = """

def part_{number}(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader) -> float:
    total = {start}
    for x, y in loader:
        {zero}
        scores = {scores}
        loss = nn.functional.cross_entropy(scores, y)
        loss.backward()
        optimizer.step()
        total {keep}
    return {result}
"""
_GOOD = {
    "start": "0.0",
    "zero": "optimizer.zero_grad()",
    "scores": "model(x)",
    "keep": "+= loss.item()",
    "result": "total",
}
BUGS = {
    "PF101": {"keep": "+= loss", "result": "float(total)"},
    "PF201": {"zero": "pass"},
    "PF204": {"scores": "torch.softmax(model(x), dim=1)"},
}
_TAIL = """

def main() -> None:
    model = nn.Linear(10, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(make_dataset(), batch_size=8, shuffle=True, num_workers=2, pin_memory=True)
{calls}


if __name__ == "__main__":
    main()
"""


@dataclass
class Script:
    """`parts` maps the number of a function to its bug ("" where it was mended)."""

    parts: dict[int, str] = field(default_factory=dict)
    remarks: int = 0

    def add(self, bug: str) -> None:
        """One more function with this bug."""
        self.parts[len(self.parts) + 1] = bug

    def mend(self) -> None:
        """The first function that has a bug loses it."""
        for number, bug in self.parts.items():
            if bug:
                self.parts[number] = ""
                return

    def bugs(self) -> list[str]:
        """The codes a review of this text has to name."""
        return sorted(bug for bug in self.parts.values() if bug)

    def text(self) -> str:
        """The file."""
        parts = "".join(_PART.format(number=n, **{**_GOOD, **BUGS.get(bug, {})}) for n, bug in self.parts.items())
        calls = "\n".join(f"    part_{number}(model, optimizer, loader)" for number in self.parts)
        remarks = "".join(f"# {number}\n" for number in range(self.remarks))
        return _HEAD + parts + _TAIL.format(calls=calls or "    pass") + remarks
