"""The same networks in torch itself: parameters, and what autograd saves, for shapes of many kinds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analyzer.test_networks import net

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.exact

NETWORKS = {
    "residual": (
        """
        self.first = nn.Conv2d(3, 16, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.a = nn.Conv2d(16, 16, 3, padding=1)
        self.b = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 10)
        """,
        """
        x = self.pool(F.relu(self.norm(self.first(x)), inplace=True))
        x = x + self.b(F.relu(self.a(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
        """,
    ),
    "unet": (
        """
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.deep = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GroupNorm(2, 16), nn.GELU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 2, 1)
        """,
        "a = self.down(x)\nreturn self.out(torch.cat([a, self.up(self.deep(a))], 1))",
    ),
    "unet of batch norms": (
        """
        def double(given, made):
            return nn.Sequential(nn.Conv2d(given, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU(inplace=True))
        self.down = double(3, 8)
        self.deep = nn.Sequential(nn.MaxPool2d(2), double(8, 16), double(16, 16))
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = nn.Sequential(double(16, 8), nn.Conv2d(8, 1, 1))
        """,
        "a = self.down(x)\nreturn self.last(torch.cat([a, self.up(self.deep(a))], 1))",
    ),
    "attention": (
        """
        self.embed = nn.Embedding(1000, 64)
        self.norm = nn.LayerNorm(64)
        self.qkv = nn.Linear(64, 192, bias=False)
        self.out = nn.Linear(64, 64)
        self.mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
        self.head = nn.Linear(64, 1000)
        """,
        """
        x = self.embed(x)
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm(x)).split(C, dim=2)
        q, k, v = (each.view(B, T, 4, C // 4).transpose(1, 2) for each in (q, k, v))
        att = F.softmax(q @ k.transpose(-2, -1) * 0.25, dim=-1)
        x = x + self.out((att @ v).transpose(1, 2).reshape(B, T, C))
        return self.head(x + self.mlp(x))
        """,
    ),
}


@pytest.mark.parametrize(("init", "forward"), NETWORKS.values(), ids=NETWORKS)
def test_counts_are_those_of_torch(init: str, forward: str) -> None:
    found = net(init, forward)
    one = found.passes[0]
    module = _built(init, forward)
    assert found.params == sum(each.numel() for each in module.parameters())
    given = torch.zeros((4, *one.shape), dtype=torch.long if one.kind == "tokens" else torch.float32)
    kept = _saved(module, given) / 4
    ours = 4 * one.kept + 8 * one.indices + one.masks
    assert ours == pytest.approx(kept, rel=0.01)  # torch also saves a few statistics per channel


@pytest.mark.parametrize("name", ["unet", "unet of batch norms", "residual"])
def test_counts_under_autocast_are_those_of_a_gpu(name: str) -> None:
    """Convolutions in 16 bits; batch norms in what they are given, group norms in fp32 from a copy of it."""
    from estimator.calibration.live import Cuda

    one = net(*NETWORKS[name]).passes[0]
    module, given = _built(*NETWORKS[name]), torch.zeros((4, *one.shape))
    with Cuda(is_mixed=True), torch.autocast("cpu", torch.bfloat16):
        kept = _saved(module, given, is_cast=True) / 4
    assert 2 * one.half + 4 * one.full + 8 * one.indices + one.masks == pytest.approx(kept, rel=0.01)


def _built(init: str, forward: str) -> Any:
    from textwrap import dedent, indent

    text = "import torch, torch.nn as nn, torch.nn.functional as F\nclass Net(nn.Module):\n    def __init__(self):\n"
    text += "        super().__init__()\n" + indent(dedent(init).strip(), " " * 8)
    text += "\n    def forward(self, x):\n" + indent(dedent(forward).strip(), " " * 8)
    names: dict[str, Any] = {}
    exec(text, names)
    return names["Net"]()


def _saved(module: Any, given: Any, *, is_cast: bool = False) -> int:
    """Bytes of the storages that backward would read, weights and buffers aside, and autocast's copies of weights."""
    own = {each.data_ptr() for each in (*module.parameters(), *module.buffers())}
    copied = sum(2 * each.numel() for each in module.parameters() if each.dim() > 1) if is_cast else 0
    saved: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = module(given)
    del result
    return int(sum(each.nbytes() for each in saved.values()) - copied)
