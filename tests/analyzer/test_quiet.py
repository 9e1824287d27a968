"""Files at which no program is started."""

from __future__ import annotations

import pytest

from analyzer.api import Options, analyze
from analyzer.quiet import is_quiet
from analyzer.syntax import native
from tests.analyzer.test_project import Texts

_LAYER = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.size = config.hidden // 2
        self.names = ["a", "b"]
        self.seen = {}
        self.layers = nn.ModuleList([nn.Linear(self.size, 3) for _ in range(4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(nn.functional.dropout(x, p=0.1, training=self.training))
        return x
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("", ""), True),
        (("self.seen = {}", "self.seen = [nn.Linear(3, 3)]"), False),
        (("self.seen = {}", "layers = [nn.Linear(3, 3)]\n        self.seen = layers"), False),
        (("self.seen = {}", "self.seen = {}\n        self.seen.update(a=nn.Linear(3, 3))"), False),
        (("self.seen = {}", "self.mask = torch.ones(3, 3)"), False),
        (("self.seen = {}", "self.scale = nn.Parameter(torch.ones(3)) * 2"), False),
        ((", training=self.training", ""), False),
        (("x = layer", "x = layer.to(torch.ones(3).device)"), False),
        (("return x", "return nn.functional.cross_entropy(x, x)"), False),
        (("return x", "x.sum().backward()\n        return x"), False),
        (("return x", "return x  # x.backward()"), True),
    ],
)
def test_what_a_file_must_show(change: tuple[str, str], expected: bool) -> None:
    source = _LAYER.replace(*change).encode() if change[0] else _LAYER.encode()
    assert is_quiet(source, native.lowered(source, "block.py")) is expected


def test_a_quiet_file_is_read_where_another_runs_it() -> None:
    block = _LAYER.replace("return x", "return x.softmax(-1)").encode()
    main = b"import torch\nfrom block import Block\n\ndef loss(x, y):\n"
    main += b"    return torch.nn.functional.cross_entropy(Block(x)(x), y)\n"
    assert is_quiet(block, native.lowered(block, "block.py"))
    files = {"block.py": block, "main.py": main}
    found = analyze(Texts(files), list(files), Options()).findings
    assert [(item.rule, item.path) for item in found] == [("PF204", "main.py")]
    assert "block.py" in {step.path for step in found[0].evidence}
