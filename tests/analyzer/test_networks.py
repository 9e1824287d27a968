"""Networks that a repository defines: counted as torch counts them, and never guessed."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import PurePosixPath
from textwrap import dedent
from typing import Any

import pytest

from analyzer.api import Network, networks

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
"""
TRAIN = """
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


class Tree:
    """Files in memory."""

    def __init__(self, **files: str) -> None:
        self.files = {f"{name}.py": dedent(text).encode() for name, text in files.items()}

    def paths(self) -> Collection[str]:
        return self.files

    def read(self, path: str) -> bytes | None:
        return self.files.get(str(PurePosixPath(path)))


def one(text: str, **others: str) -> Network:
    """The one network that a script trains."""
    (found,) = networks(Tree(train=HEAD + dedent(text), **others), "train.py")
    return found


def net(init: str, forward: str) -> Network:
    """A class with this constructor and this forward pass."""
    body = "\n".join(f"        {line}" for line in dedent(init).strip().splitlines())
    run = "\n".join(f"        {line}" for line in dedent(forward).strip().splitlines())
    head = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    return one(f"{head}{body}\n    def forward(self, x):\n{run}\n{TRAIN}")


def test_a_convolutional_network_counts_its_parameters_and_finds_the_size_that_fits() -> None:
    found = net(
        """
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)
        """,
        """
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)
        """,
    )
    assert found.params == 1_199_882  # the number of PyTorch's MNIST example
    assert [each.shape for each in found.passes] == [(1, 28, 28)]
    kept = 28 * 28 + 26 * 26 * 32 + 24 * 24 * 64 + 12 * 12 * 64 + 128 + 10  # each input or result once
    assert found.passes[0].kept == kept
    assert found.passes[0].indices == 12 * 12 * 64
    assert not found.gaps


@pytest.mark.parametrize(
    ("layer", "params"),
    [
        ("nn.Linear(10, 4, bias=False)", 40),
        ("nn.Conv2d(8, 16, (3, 5), groups=4)", 16 * 2 * 15 + 16),
        ("nn.ConvTranspose2d(8, 4, 2)", 8 * 4 * 4 + 4),
        ("nn.LSTM(10, 20, num_layers=2, bidirectional=True)", 2 * (80 * 30 + 160) + 2 * (80 * 60 + 160)),
        ("nn.GRU(10, 20)", 60 * 30 + 120),
        ("nn.MultiheadAttention(64, 4)", 4 * 64 * 64 + 4 * 64),
        ("nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64), 3)", 3 * (4 * 1024 + 128 + 2 * 2048 + 96 + 128)),
        ("nn.BatchNorm2d(7)", 14),
        ("nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))", 25),
        ("nn.ModuleList([nn.Linear(4, 4) for _ in range(5)])", 100),
        ("nn.ModuleDict({'a': nn.Embedding(9, 3), 'b': nn.PReLU()})", 28),
        ("nn.utils.weight_norm(nn.Conv1d(4, 6, 3))", 4 * 6 * 3 + 6 + 6),
        ("nn.Parameter(torch.zeros(1, 5, 7))", 35),
    ],
)
def test_each_layer_counts_what_torch_counts(layer: str, params: int) -> None:
    assert net(f"self.part = {layer}", "return x").params == params


def test_weights_that_are_tied_count_once() -> None:
    found = net(
        "self.a = nn.Embedding(100, 8)\nself.b = nn.Linear(8, 100, bias=False)\nself.b.weight = self.a.weight",
        "return self.b(self.a(x))",
    )
    assert found.params == 800


def test_modules_in_a_plain_list_are_no_parameters() -> None:
    assert net("self.parts = [nn.Linear(4, 4)]\nself.kept = nn.Linear(2, 2)", "return x").params == 6


def test_what_a_network_is_given_is_what_its_unregistered_layers_take_too() -> None:
    found = net(
        """
        self.blocks = [nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 128, 3, padding=1)]
        self.fc = nn.Linear(128, 10)
        self.mean = torch.tensor([0.5, 0.5, 0.5]).view(1, 3, 1, 1)
        """,
        """
        x = x - self.mean
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean(dim=(2, 3)))
        """,
    )
    assert (found.params, {each.kind for each in found.passes}) == (1_290, {"image"})


def test_configuration_inheritance_other_files_and_arguments_are_followed() -> None:
    found = one(
        """
        import argparse
        from blocks import Base, Config, widths
        parser = argparse.ArgumentParser()
        parser.add_argument("--layers", type=int, default=3)
        args = parser.parse_args()

        class Net(Base):
            def __init__(self, config, *, layers):
                super().__init__(config)
                self.blocks = nn.Sequential(*[nn.Linear(w, w) for w in widths(config.width, layers)])

            def forward(self, x):
                return self.blocks(super().forward(x))

        model = Net(Config(width=8), layers=args.layers).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        """,
        blocks="""
        from dataclasses import dataclass
        from torch import nn

        @dataclass
        class Config:
            width: int
            inputs: int = 4

        class Base(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.first = nn.Linear(config.inputs, config.width)

            def forward(self, x):
                return self.first(x)

        def widths(width, count):
            return [width for _ in range(count)]
        """,
    )
    assert (found.params, found.gaps) == (4 * 8 + 8 + 3 * (64 + 8), ())
    assert found.passes[0].shape == (4,)


def test_what_the_text_does_not_show_is_named_and_the_rest_counted() -> None:
    found = one(
        """
        import timm
        class Net(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.body = timm.create_model("resnet50")
                self.head = nn.Linear(2048, 10)
            def forward(self, x):
                return self.head(self.body(x))
        model = Net(7)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """
    )
    assert found.params == 20_490
    assert ["timm.create_model" in gap.reason for gap in found.gaps] == [True]
    assert not found.passes


def test_a_frozen_part_needs_no_gradient_and_keeps_nothing() -> None:
    found = net(
        """
        self.body = nn.Linear(100, 50)
        self.head = nn.Linear(50, 10)
        for p in self.body.parameters():
            p.requires_grad = False
        """,
        "return self.head(torch.relu(self.body(x)))",
    )
    assert (found.params, found.trained) == (5050 + 510, 510)
    assert found.passes[0].kept == 50


def test_checkpointed_parts_keep_their_inputs_alone() -> None:
    part = "nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))"
    init = f"self.parts = nn.ModuleList([{part} for _ in range(4)])"
    plain = net(init, "for part in self.parts:\n    x = x + part(x)\nreturn x")
    saved = net(
        init,
        "for p in self.parts:\n    x = x + torch.utils.checkpoint.checkpoint(p, x, use_reentrant=False)\nreturn x",
    )
    assert plain.passes[0].kept == 4 * (64 + 256 + 256)
    assert saved.passes[0].kept == 4 * 64
    assert saved.passes[0].recomputed == 64 + 2 * 256


def test_autocast_keeps_what_norms_and_softmax_compute_in_32_bits() -> None:
    found = net(
        "self.norm = nn.LayerNorm(64)\nself.first = nn.Linear(64, 64)\nself.second = nn.Linear(64, 64)",
        "x = self.second(torch.tanh(self.first(x)))\nreturn F.softmax(self.norm(x), -1)",
    )
    one_pass = found.passes[0]
    assert (one_pass.half, one_pass.full) == (2 * 64, 2 * 64)  # two matmul inputs; the norm's input and the softmax


@pytest.mark.parametrize(
    ("norm", "half", "full"),
    [("nn.BatchNorm1d(64)", 3 * 64, 0), ("nn.GroupNorm(4, 64)", 2 * 64, 2 * 64), ("nn.LayerNorm(64)", 2 * 64, 2 * 64)],
)
def test_autocast_runs_group_and_layer_norms_in_32_bits_and_batch_norms_in_what_they_are_given(
    norm: str, half: int, full: int
) -> None:
    found = net(
        f"self.first = nn.Linear(64, 64)\nself.norm = {norm}\nself.second = nn.Linear(64, 64)",
        "return self.second(torch.tanh(self.norm(self.first(x))))",
    )
    one_pass = found.passes[0]
    assert (one_pass.half, one_pass.full) == (half, full)  # the wide ones read a copy, and are copied for the matmul


def test_two_networks_are_two() -> None:
    tree = Tree(
        train=HEAD
        + """
G = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 784))
D = nn.Sequential(nn.Linear(784, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
g = torch.optim.Adam(G.parameters())
d = torch.optim.Adam(D.parameters())
"""
    )
    assert [each.params for each in networks(tree, "train.py")] == [2080 + 25872, 25120 + 33]


NEST = "a = [1]\nb = [1]\nfor i in range(64):\n    a = [a, a]\n    b = [b, b]\n"
BIG = "l = [0] * 4096\nfor i in range(4):\n    l = l + l\n"
HOSTILE = {
    "doubling lists": "x = [1]\nfor _ in range(200):\n    x = x + x\nself.a = nn.Linear(len(x), 1)",
    "doubling by extend": "x = [1]\nfor _ in range(200):\n    x.extend(x)\nself.a = nn.Linear(len(x), 1)",
    "a method that is kept": "x = [1]\ngrow = x.extend\nfor _ in range(60):\n    grow(x)",
    "doubling by slices": "x = [1]\nfor _ in range(60):\n    x[len(x):] = x\nself.a = nn.Linear(len(x), 1)",
    "towers of powers": "n = 9\nfor _ in range(50):\n    n = n ** n\nself.a = nn.Linear(n, 1)",
    "an endless loop": "while True:\n    pass",
    "an absurd layer": "self.a = nn.Linear(10 ** 9, 10 ** 9)",
    "itself": "self.a = Net()",
    "long strings": "s = 'a'\nfor _ in range(200):\n    s = s + s\nself.a = nn.Linear(len(s), 1)",
    "nested loops": "for a in range(4000):\n    for b in range(4000):\n        c = a * b",
    "shared lists compared": f"{NEST}c = a == b",
    "shared lists as text": NEST + "c = f'{a}' + str(b)",
    "shared lists as a name": f"{NEST}c = getattr(self, a)",
    "shared lists copied": f"import copy\n{NEST}c = copy.deepcopy(a)",
    "shared tuples as keys": "t = (1,)\nfor i in range(64):\n    t = (t, t)\nd = {t: 1}",
    "rounding far": "self.a = nn.Linear(round(5, -10 ** 9), 1)",
    "sums of lists": f"{BIG}c = sum([l] * 4096, [])",
    "chains of lists": f"import itertools\n{BIG}c = list(itertools.chain(*[l] * 4096))",
    "sums of sums": f"import numpy as np\n{BIG}c = np.cumsum(l)",
    "membership": f"{BIG}while True:\n    c = 1 in l",
    "copies": f"{BIG}while True:\n    c = l.copy()",
    "repeated lists": "import operator\nc = operator.mul([0] * 4096, 2 ** 30)",
    "parts of a slice": "x = [1, 2, 3]\nx[::2] = [1]\nself.a = nn.Linear(len(x), 1)",
    "a weight of one dimension": "self.a = nn.Linear(8, 8)\nself.a.weight = nn.Parameter(torch.zeros(5))",
    "a flat convolution": "self.a = nn.Conv2d(3, 8, 3)\nself.a.weight = nn.Parameter(torch.zeros(5, 5))",
}
PASSES = {
    "a step of nothing": "return self.fc(x)[:, ::0]",
    "shapes beyond counting": "x = x.repeat(1, 2 ** 40).repeat(1, 2 ** 40)\nreturn x[:, 1:]",
    "an absurd index": f"return x[0x{'f' * 6000}]",
    "squares of sizes": "y = torch.arange(1000)\nfor i in range(60):\n    y = torch.outer(y, y).flatten()\nreturn y",
    "joined to itself": "y = x\nfor i in range(600):\n    y = torch.cat([y] * 4096, 1)\nreturn y + torch.zeros(3, 5)",
    "very many results": "l = [x] * 4096\nfor i in range(3):\n    l = [l] * 4096\nreturn l",
}


@pytest.mark.parametrize("init", HOSTILE.values(), ids=HOSTILE)
def test_hostile_constructors_end_soon_with_a_reason(init: str) -> None:
    begin = time.process_time()
    found = net(init, "return x")
    assert time.process_time() - begin < 20
    assert found.gaps or not found.passes or found.params < 10**6
    assert "bug in Preflight" not in str(found)


@pytest.mark.parametrize("forward", PASSES.values(), ids=PASSES)
def test_hostile_forward_passes_end_soon_with_a_reason(forward: str) -> None:
    begin = time.process_time()
    found = net("self.fc = nn.Linear(8, 8)", forward)
    assert time.process_time() - begin < 20
    assert found.params == 72
    assert "bug in Preflight" not in str(found)


GETTING = {
    "raises": "@property\n    def forward(self):\n        raise ValueError",
    "asks itself": "@property\n    def forward(self):\n        return self.forward",
    "is its own": "forward = Net.forward",
}


@pytest.mark.parametrize("forward", GETTING.values(), ids=GETTING)
def test_a_forward_pass_that_cannot_be_had_is_a_reason(forward: str) -> None:
    body = "def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(8, 8)\n    "
    found = one(f"class Net(nn.Module):\n    {body}{forward}\n{TRAIN}")
    assert (found.params, found.passes) == (72, ())
    assert found.problem is not None
    assert "bug in Preflight" not in str(found)


def test_modules_that_import_everything_from_each_other_are_looked_through_once() -> None:
    files = {f"{kind}{i}": f"from m{i + 1} import *\nfrom n{i + 1} import *\n" for i in range(30) for kind in "mn"}
    begin = time.process_time()
    text = "from m0 import *\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    text += f"        self.fc = nn.Linear(nowhere, 8)\n    def forward(self, x):\n        return self.fc(x)\n{TRAIN}"
    assert one(text, **files).gaps
    assert time.process_time() - begin < 20


TORCHVISION = {
    "alexnet": 61_100_840, "vgg11": 132_863_336, "vgg16_bn": 138_365_992, "resnet18": 11_689_512,
    "resnet50": 25_557_032, "resnet152": 60_192_808, "resnext101_64x4d": 83_455_272, "wide_resnet50_2": 68_883_240,
    "densenet121": 7_978_856, "densenet161": 28_681_000, "mobilenet_v2": 3_504_872, "efficientnet_b0": 5_288_548,
    "efficientnet_b7": 66_347_960, "convnext_tiny": 28_589_128, "convnext_large": 197_767_336,
    "vit_b_16": 86_567_656, "vit_h_14": 632_045_800,
}  # fmt: skip
"""Parameters as torchvision's documentation lists them."""


@pytest.mark.parametrize("name", TORCHVISION)
@pytest.mark.parametrize("how", ["models.{}(weights=None)", "models.__dict__['{}'](pretrained=True)"])
def test_a_classifier_of_torchvision_is_known_by_its_layers(name: str, how: str) -> None:
    optimizer = "torch.optim.SGD(model.parameters(), lr=0.1)"
    found = one(f"from torchvision import models\nmodel = {how.format(name)}\noptimizer = {optimizer}\n")
    assert (found.params, found.gaps) == (TORCHVISION[name], ())
    assert found.passes[0].shape == (3, 224, 224)


BACKBONES = {
    "its head replaced": ("self.b = models.resnet18()\nself.b.fc = nn.Linear(512, 7)", "return self.b(x)", 11_180_103),
    "a layer replaced by index": (
        "self.b = models.efficientnet_b0()\nself.b.classifier[1] = nn.Linear(self.b.classifier[1].in_features, 10)",
        "return self.b(x)", 4_020_358,
    ),
    "a layer replaced by name": (
        "self.b = models.vit_b_16()\nself.b.heads.head = nn.Linear(768, 10)", "return self.b(x)", 85_806_346,
    ),
    "cut": (
        ("net = models.resnet50()\nself.b = nn.Sequential(*list(net.children())[:-1])\n"
        "self.h = nn.Linear(net.fc.in_features, 7)"), "return self.h(self.b(x).flatten(1))", 23_522_375,
    ),
    "chosen by name": ("self.b = getattr(models, 'resnet34')(num_classes=7)", "return self.b(x)", 21_288_263),
    "its class": (
        "self.b = models.resnet.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10)",
        "return self.b(x)", 4_910_922,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("init", "forward", "params"), BACKBONES.values(), ids=BACKBONES)
def test_a_backbone_of_torchvision_is_part_of_a_network(init: str, forward: str, params: int) -> None:
    found = net(f"from torchvision import models\n{init}", forward)
    assert (found.params, found.gaps) == (params, ())
    assert found.passes


def test_arguments_that_a_module_parses_are_its_constants() -> None:
    found = one("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--nz", type=int, default=100)
        parser.add_argument("--kind", default="TALL")
        opt = parser.parse_args()
        nz = int(opt.nz)
        opt.kind = opt.kind.lower()

        class Generator(nn.Module):
            def __init__(self):
                super().__init__()
                self.main = nn.Sequential(nn.ConvTranspose2d(nz, 64, 4, bias=False), nn.BatchNorm2d(64), nn.ReLU())
                self.end = nn.Linear(1, 5 if opt.kind == "tall" else 7)

            def forward(self, noise):
                return self.main(noise)

        model = Generator()
        optimizer = torch.optim.Adam(model.parameters())
        """)
    assert (found.params, found.gaps) == (100 * 64 * 16 + 128 + 10, ())
    assert found.passes[0].shape == (100, 1, 1)


def test_options_as_a_dictionary_are_known() -> None:
    found = one("""
        import argparse
        class Net(nn.Module):
            def __init__(self, width, depth):
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
        parser = argparse.ArgumentParser()
        parser.add_argument("--width", type=int, default=10)
        parser.add_argument("--depth", type=int, default=3)
        config = vars(parser.parse_args())
        model = Net(config["width"], depth=config["depth"])
        again = Net(**config)
        optimizer = torch.optim.Adam(model.parameters())
        """)
    assert (found.params, found.gaps) == (330, ())


MAKER = """
class Net(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.features = features
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))

def layers(widths):
    made, before = [], 3
    for width in widths:
        made += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
        before = width
    return nn.Sequential(*made)

def small(classes):
    net = Net(layers([16, 32]), 1000)
    net.head = nn.Linear(32, classes)
    return net
"""


def test_what_a_function_puts_together_is_followed_step_by_step() -> None:
    found = one(f"{MAKER}\nmodel = small(10)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)")
    assert (found.params, found.gaps) == (3 * 16 * 9 + 16 + 16 * 32 * 9 + 32 + 330, ())
    assert found.passes[0].shape == (3, 224, 224)


def test_layers_in_a_list_that_nobody_can_follow_are_missing_not_none() -> None:
    body = MAKER.replace("for width in widths:", "for width in [int(each) for each in open(widths)]:")
    found = one(f"{body}\nmodel = Net(layers('f'), 10)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)")
    assert found.gaps


@pytest.mark.parametrize("name", ["'l_{}'.format(i)", "'l_%d' % i", "f'l_{i}'", "unknown(i)"])
def test_children_have_names_of_their_own(name: str) -> None:
    init = f"self.f = nn.Sequential()\nfor i in range(3):\n    self.f.add_module({name}, nn.Linear(8, 8))"
    assert net(init, "return self.f(x)").params == 3 * 72


def test_a_backbone_is_cut_where_the_text_says() -> None:
    init = "from torchvision import models\nfrom torchvision.models._utils import IntermediateLayerGetter\n"
    init += "self.b = IntermediateLayerGetter(models.resnet18(), {'layer3': 'mid', 'layer4': 'out'})"
    found = net(init, "return self.b(x)['out']")
    assert found.params == 11_689_512 - 513_000
    assert found.passes[0].outputs == 512 * 7 * 7


def test_a_loop_over_what_is_not_known_hides_parts_only_if_it_makes_some() -> None:
    loop = "for k, v in torch.load('f').items():\n    {}\nself.a = nn.Linear(8, 8)"
    assert not net("d = {}\n" + loop.format("d[k[7:]] = v"), "return self.a(x)").gaps
    assert net(loop.format("self.b = nn.Linear(8, 8)"), "return self.a(x)").gaps


KEPT = {
    # What torch 2.13 keeps, in tensors of the input's size, measured with saved_tensors_hooks: the convolutions' inputs
    # are two of them (and the norm's is one).
    "nn.ReLU(inplace=True)": 3, "nn.ReLU6()": 4, "nn.ReLU6(inplace=True)": 4, "nn.Hardtanh()": 4,
    "nn.LeakyReLU()": 4, "nn.LeakyReLU(inplace=True)": 3, "nn.ELU()": 4, "nn.ELU(inplace=True)": 3,
    "nn.SELU(inplace=True)": 3, "nn.CELU(inplace=True)": 3, "nn.SiLU(inplace=True)": 4, "nn.Mish(inplace=True)": 4,
    "nn.Hardswish(inplace=True)": 4, "nn.Hardsigmoid(inplace=True)": 4,
}  # fmt: skip


@pytest.mark.parametrize("layer", KEPT)
def test_an_activation_keeps_what_torch_keeps(layer: str) -> None:
    init = (
        f"self.a = nn.Conv2d(16, 16, 1)\nself.b = nn.BatchNorm2d(16)\nself.c = {layer}\nself.d = nn.Conv2d(16, 16, 1)"
    )
    (found, *_) = net(init, "return self.d(self.c(self.b(self.a(x))))").passes
    assert found.kept == KEPT[layer] * 16 * found.shape[1] * found.shape[2]


BETWEEN = {
    # The same between two convolutions of 16 channels, whose inputs are two of them where nothing else is kept.
    "y": 2, "y.transpose(2, 3)": 2, "y.transpose(1, 2).contiguous().transpose(1, 2)": 2,
    "F.relu(y)": 2, "shuffled(F.relu(y))": 3, "shuffled(y)": 2,
    "y * y.mean((2, 3), keepdim=True).expand_as(y)": 3, "torch.cat([F.relu(part) for part in y.chunk(2, 1)], 1)": 3,
    "torch.cat([y[:, 8:], y[:, :8]], 1)": 2, "y[:, :16]": 2,
    "y.flatten(2).transpose(1, 2).transpose(1, 2).reshape(y.shape)": 2,
    "F.relu(y).flatten(2).transpose(1, 2).reshape(y.shape)": 3, "F.relu(y).clone()": 3,
}  # fmt: skip
SHUFFLE = """
def shuffled(x):
    b, c, h, w = x.shape
    return x.view(b, 4, c // 4, h, w).transpose(1, 2).reshape(b, c, h, w)
"""


@pytest.mark.parametrize("step", BETWEEN)
def test_a_view_is_kept_once_and_a_copy_of_its_own(step: str) -> None:
    text = f"""{SHUFFLE}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(16, 16, 1)
        self.d = nn.Conv2d(16, 16, 1)

    def forward(self, x):
        y = self.a(x)
        return self.d({step})
{TRAIN}"""
    (found, *_) = one(text).passes
    whole = 16 * found.shape[1] * found.shape[2]
    assert round(found.kept / whole, 2) == BETWEEN[step]


def test_a_part_keeps_the_whole_in_memory() -> None:
    (found, *_) = net(
        "self.a = nn.Conv2d(3, 16, 1)\nself.d = nn.Conv2d(4, 4, 1)", "return self.d(self.a(x)[:, :4])"
    ).passes
    assert found.kept == (3 + 16) * found.shape[1] * found.shape[2]


def test_modules_set_by_their_name_are_parts() -> None:
    init = "for i in range(2):\n    self.__setattr__('l%d' % i, nn.Linear(8, 8))"
    assert net(init, "return self.__getattr__('l1')(self.l0(x))").params == 144


def test_parameters_in_a_dict_are_parameters() -> None:
    found = net(
        "self.fc = nn.Linear(8, 4)\n"
        "self.scales = nn.ParameterDict({k: nn.Parameter(torch.ones(3)) for k in ('a', 'b')})",
        "return self.fc(x) * self.scales['a'].sum()",
    )
    assert (found.params, found.gaps) == (8 * 4 + 4 + 6, ())


def test_a_class_of_torch_that_nobody_wrote_down_is_a_gap_however_it_is_used() -> None:
    found = net("self.fc = nn.Linear(8, 4)\nself.other = nn.SomethingNew(3)", "return self.fc(x) + self.other['a']")
    assert [gap.reason for gap in found.gaps] == ["`torch.nn.SomethingNew` is not in the repository"]


DELETED = {
    "del self.extra": 36 + 3 * 72,
    "del self.layers[2]": 36 + 2 * 72 + 36,
    "del self.layers[1:]": 36 + 1 * 72 + 36,
    "del self.layers[-2:]": 36 + 1 * 72 + 36,
}


@pytest.mark.parametrize("statement", DELETED)
def test_what_is_deleted_is_no_part_any_more(statement: str) -> None:
    found = net(
        f"""
        self.fc = nn.Linear(8, 4)
        self.extra = nn.Linear(8, 4)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        {statement}
        """,
        "return self.fc(x)",
    )
    assert (found.params, found.gaps) == (DELETED[statement], ())


def test_what_is_deleted_at_an_index_that_nobody_knows_may_be_any_part() -> None:
    found = net(
        "self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])\ndel self.layers[input()]", "return x"
    )
    assert found.gaps


def test_a_class_method_that_makes_the_network_is_followed() -> None:
    found = one("""
        class Net(nn.Module):
            @classmethod
            def from_preset(cls, name):
                presets = {"small": {"width": 64}, "big": {"width": 256}}
                return cls(**presets[name])

            def __init__(self, width):
                super().__init__()
                self.a, self.b = nn.Linear(32, width), nn.Linear(width, 10)

            def forward(self, x):
                return self.b(self.a(x))

        model = Net.from_preset("big")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """)
    assert found.params == 32 * 256 + 256 + 256 * 10 + 10


def test_an_argument_that_is_not_in_the_text_is_named() -> None:
    found = one("""
        import os
        class Net(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.a = nn.Linear(32, width)

            def forward(self, x):
                return self.a(x)

        model = Net(int(os.environ["WIDTH"]))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """)
    assert "argument `width`" in found.gaps[0].reason


def test_layers_of_einops_are_patterns_without_parameters() -> None:
    found = one("""
        from einops.layers.torch import Rearrange
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                cut = Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
                self.patches = nn.Sequential(cut, nn.Linear(48, 64))
                self.head = nn.Linear(64, 10)

            def forward(self, x):
                return self.head(self.patches(x).mean(1))

        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """)
    assert (found.params, found.gaps) == (48 * 64 + 64 + 64 * 10 + 10, ())


LATER = {
    "model.fc = nn.Linear(16, 10)": 48 * 16 + 16 + 16 * 10 + 10,
    "model.fc = nn.Linear(model.fc.in_features, 10)": 48 * 16 + 16 + 16 * 10 + 10,
    "model.fc = nn.Identity()": 48 * 16 + 16,
    "model.more = nn.Linear(4, 4)": 48 * 16 + 16 + 16 * 1000 + 1000 + 20,
    "model.name = 'mine'": 48 * 16 + 16 + 16 * 1000 + 1000,
}


@pytest.mark.parametrize("statement", LATER)
def test_a_part_that_is_set_after_the_constructor_is_the_one_that_counts(statement: str) -> None:
    found = one(f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.fc = nn.Linear(48, 16), nn.Linear(16, 1000)

            def forward(self, x):
                return self.fc(self.a(x))

        model = Net()
        {statement}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """)
    assert (found.params, found.gaps) == (LATER[statement], ())


def test_the_head_of_a_torchvision_classifier_is_replaced_where_the_script_does_it() -> None:
    found = one("""
        from torchvision.models import resnet18
        model = resnet18()
        model.fc = nn.Linear(model.fc.in_features, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """)
    assert (found.params, found.gaps) == (11_689_512 - 512 * 1000 - 1000 + 512 * 10 + 10, ())


def test_a_part_that_is_set_later_to_what_nobody_knows_makes_the_count_a_part() -> None:
    found = one("""
        import os
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(48, 16)

            def forward(self, x):
                return self.a(x)

        model = Net()
        model.a = nn.Linear(48, int(os.environ["WIDTH"]))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """)
    assert found.gaps


# --- inputs of a size that is known ---------------------------------------------------------------------------------

MAPS = ("self.a = nn.Conv2d(3, 8, 3, padding=1)", "return self.a(x)")
SIGNAL = ("self.a = nn.Conv1d(80, 8, 3, padding=1)", "return self.a(x)")
STEPS = ("self.a = nn.GRU(80, 8, batch_first=True)", "return self.a(x)[0][:, -1]")
VOLUME = ("self.a = nn.Conv3d(1, 8, 3, padding=1)", "return self.a(x)")


def text_of(init: str, forward: str) -> str:
    return f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        {forward}
{TRAIN}"""


@pytest.mark.parametrize(
    ("parts", "said", "kind", "shape"),
    [
        (MAPS, {"image": (300, 200)}, "image", (3, 300, 200)),
        (SIGNAL, {"length": 777}, "signal", (80, 777)),
        (STEPS, {"length": 777}, "sequence", (777, 80)),
        (
            (
                "self.a, self.b = nn.LSTM(80, 256, 2, batch_first=True), nn.Linear(256, 1)",
                "return self.b(self.a(x)[0][:, -1])",
            ),
            {"length": 777},
            "sequence",
            (777, 80),
        ),
        (VOLUME, {"image": (96, 96)}, "volume", (1, 96, 96, 96)),
        (VOLUME, {"image": (96, 80)}, "volume", (1, 16, 96, 80)),
        (VOLUME, {"image": (96, 96), "frames": 5}, "volume", (1, 5, 96, 96)),
        (("self.a = nn.Linear(80, 8)", "return self.a(x)"), {"length": 777}, "sequence", (777, 80)),
        (("self.a = nn.Linear(80, 8)", "return self.a(x)"), {"image": (32, 32)}, "features", (80,)),
        (("self.a = nn.Linear(784, 8)", "return self.a(x.flatten(1))"), {"image": (28, 28)}, "image", (1, 28, 28)),
        (("self.a = nn.Embedding(9, 8)", "return self.a(x)"), {"length": 777, "image": (9, 9)}, "tokens", (777,)),
        (("self.a = nn.ConvTranspose2d(100, 8, 4)", "return self.a(x)"), {"image": (9, 9)}, "latent", (100, 1, 1)),
    ],
)
def test_an_input_of_a_known_size_is_put_in(
    parts: tuple[str, str], said: dict[str, Any], kind: str, shape: tuple[int, ...]
) -> None:
    (found,) = networks(Tree(train=HEAD + text_of(*parts)), "train.py", **said)
    assert [(each.kind, each.shape) for each in found.passes] == [(kind, shape)]


@pytest.mark.parametrize("position", ["torch.arange(n)", "torch.arange(n).unsqueeze(0).expand(x.shape[0], -1)"])
def test_a_table_has_no_more_positions_than_rows(position: str) -> None:
    found = net(
        "self.a, self.b = nn.Embedding(9, 8), nn.Embedding(512, 8)",
        f"n = x.shape[1]\nreturn self.a(x) + self.b({position})",
    )
    assert max(each.shape for each in found.passes) == (512,)
    shifted = net(
        "self.a, self.b = nn.Embedding(9, 8), nn.Embedding(512, 8)",
        "n = x.shape[1] + 300\nreturn self.a(x) + self.b(torch.arange(n)[300:])",
    )
    assert max(each.shape for each in shifted.passes) == (4096,)  # which of the positions are left is not followed
