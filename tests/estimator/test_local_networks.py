"""Networks that the repository defines, from the script to the verdict."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from analyzer.errors import InputError
from estimator.estimation import estimate
from estimator.launches import find
from estimator.resolve.script import run_configs
from estimator.runconfig import RunConfig
from estimator.sourced import Origin, Sourced
from tests.estimator.launch.trees import Tree

HERE = Origin("test")
SCRIPT = """
import torch
import torch.nn as nn
from torchvision import transforms
from torch.utils.data import DataLoader
from data import images

class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        return self.head(self.body(x))

transform = transforms.Compose([transforms.RandomCrop(SIDE), transforms.ToTensor()])
loader = DataLoader(images(transform), batch_size=16, shuffle=True)
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def run_of(text: str, **others: str) -> RunConfig:
    """The one run of a script."""
    files: dict[str, str | bytes] = {"train.py": dedent(text), **{f"{name}.py": each for name, each in others.items()}}
    (found,) = run_configs(Tree(files), "train.py", ())
    return found


def on(run: RunConfig, gpu: str) -> RunConfig:
    """The same on a card."""
    return replace(run, gpu=Sourced((gpu,), HERE))


def test_the_bytes_are_those_of_the_forward_pass() -> None:
    run = run_of(SCRIPT.replace("SIDE", "256"))
    result = estimate(on(run, "T4"))
    pixels = 256 * 256
    kept = pixels * (3 + 64 + 64)  # the image, the convolution's result, and what the in-place ReLU left of the norm's
    saved = next(term for term in result.terms if term.name == "saved activations")
    assert saved.num_bytes == 16 * 4 * kept
    assert result.model.params == 3 * 64 * 9 + 64 + 2 * 64 + 64 * 2 + 2
    assert result.verdict == "fits"
    assert any(line.name == "network" and line.origin.startswith("train.py:8") for line in result.inputs)


UNET = """
def double(given, made):
    return nn.Sequential(
        nn.Conv2d(given, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU(inplace=True),
        nn.Conv2d(made, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU(inplace=True),
    )

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.deep = double(3, 16), double(16, 32), double(32, 64)
        self.up, self.third = nn.ConvTranspose2d(64, 32, 2, stride=2), double(64, 32)
        self.out, self.last = nn.ConvTranspose2d(32, 16, 2, stride=2), double(32, 16)
        self.head = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        one = self.first(x)
        two = self.second(nn.functional.max_pool2d(one, 2))
        deep = self.deep(nn.functional.max_pool2d(two, 2))
        x = self.third(torch.cat([self.up(deep), two], 1))
        return self.head(self.last(torch.cat([self.out(x), one], 1)))
"""


@pytest.mark.parametrize(
    ("made", "side", "traced"),
    [
        ("torchvision.models.resnet50(num_classes=100)", 224, 43_757_624),  # ours lacks the allocator's rounding
        (UNET, 128, 9_469_952),
    ],
    ids=["resnet50", "unet"],
)
def test_batch_norms_under_autocast_keep_16_bits(made: str, side: int, traced: int) -> None:
    """Traced with `estimator.calibration.live` in torch 2.14 and torchvision 0.29: what a sample's forward pass leaves,
    without the fp32 image and the prediction."""
    body, _, after = SCRIPT.partition("class Net")
    start = after.index("transform = ")
    if made == UNET:
        text = body + made.lstrip() + after[start:]
    else:
        text = "import torchvision\n" + body + after[start:].replace("Net()", made)
    text = text.replace("SIDE", str(side)).replace(
        "    nn.functional.cross_entropy(model(x), y).backward()",
        "    with torch.autocast('cuda', dtype=torch.float16):\n"
        "        loss = nn.functional.cross_entropy(model(x), y)\n    loss.backward()",
    )
    result = estimate(run_of(text))
    saved = next(term for term in result.terms if term.name == "saved activations")
    assert saved.num_bytes / 16 == pytest.approx(traced, rel=1e-5)


def test_a_larger_crop_no_longer_fits() -> None:
    result = estimate(on(run_of(SCRIPT.replace("SIDE", "4096")), "T4"))
    assert result.verdict == "exceeds"
    assert not any("LoRA" in item.change for item in result.suggestions)
    assert result.peak is not None
    assert result.peak.floor > result.targets[0].usable_bytes  # type: ignore[operator]


def test_what_eager_torch_keeps_is_in_the_floor() -> None:
    script = SCRIPT.replace("SIDE", "1024")
    result = estimate(on(run_of(script), "T4"))
    kept = 16 * 4 * 1024 * 1024 * (3 + 64 + 64)  # 8.2 GiB
    assert result.peak is not None
    assert kept < result.peak.floor < 1.2 * kept
    assert 2 * kept < estimate(on(run_of(script.replace("batch_size=16", "batch_size=32")), "T4")).peak.floor  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model = Net().cuda()", "model = torch.compile(Net().cuda())"),
        ("    nn.functional", "    with torch.autograd.graph.save_on_cpu(): nn.functional"),
    ],
)
def test_what_a_compiler_or_a_hook_may_drop_is_not(old: str, new: str) -> None:
    script = SCRIPT.replace("SIDE", "1024")
    plain, other = (estimate(on(run_of(text), "T4")).peak for text in (script, script.replace(old, new)))
    assert plain is not None
    assert other is not None
    assert other.floor < plain.floor


def test_a_size_that_nobody_wrote_is_not_called_a_fit() -> None:
    run = run_of(SCRIPT.replace("transforms.RandomCrop(SIDE), ", "").replace("batch_size=16", "batch_size=64"))
    result = estimate(on(run, "T4"))
    assert result.verdict == "borderline"
    assert "input size" in result.unknowns


def test_it_survives_as_a_document() -> None:
    run = run_of(SCRIPT.replace("SIDE", "128"))
    again = RunConfig.from_document(run.to_document(), HERE)
    assert again.network.value == run.network.value
    assert estimate(again).peak == estimate(run).peak


def test_parameters_alone_can_exceed_a_card() -> None:
    text = """
    import torch, torch.nn as nn, eyes
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.eyes = eyes.make()
            self.table = nn.Linear(65536, 65536)
        def forward(self, x):
            return self.table(self.eyes(x))
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    model(1).sum().backward()
    """
    result = estimate(on(run_of(text), "T4"))
    assert result.verdict == "exceeds"
    assert result.peak is None
    assert any("at least 6" in reason for reason in result.reasons)  # 65536 x 65536 x 16 B are 64 GiB
    assert estimate(on(run_of(text), "B200")).verdict == "unknown"


def test_networks_of_which_one_is_chosen_block_only_if_each_would() -> None:
    text = """
    import os, torch, torch.nn as nn
    kind = os.environ["KIND"]
    if kind == "small":
        model = nn.Sequential(nn.Linear(10, 10))
    else:
        model = nn.Sequential(nn.Linear(65536, 65536))
    optimizer = torch.optim.Adam(model.parameters())
    model(1).sum().backward()
    """
    assert estimate(on(run_of(text), "T4")).verdict == "borderline"


@pytest.mark.parametrize(
    "document",
    [
        {"name": "n"},
        {"name": "n", "params": -1, "trained": 0, "largest": 0, "layers": 1},
        {"name": "n", "params": 1, "trained": 0, "largest": 0, "layers": 1, "odd": 1},
        {"name": "n", "params": 1, "trained": 0, "largest": 0, "layers": 1, "passes": [{"kind": "image"}]},
    ],
)
def test_a_broken_network_of_a_document_is_named(document: object) -> None:
    with pytest.raises(InputError, match="network"):
        RunConfig.from_document({"network": document}, HERE)


PARALLEL = SCRIPT.replace("SIDE", "256").replace("Net().cuda()", "nn.DataParallel(Net()).cuda()")


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        ("#SBATCH --gres=gpu:t4:4\npython train.py", 4),
        ("#SBATCH --gres=gpu:t4:1\npython train.py", 16),
        ("export CUDA_VISIBLE_DEVICES=0,1\npython train.py", 8),
    ],
)
def test_a_process_that_splits_its_batches_uses_every_gpu(launch: str, expected: int) -> None:
    (found,) = find(Tree({"train.py": PARALLEL, "run.slurm": f"#!/bin/bash\n{launch}\n"}), ["run.slurm"]).launches
    assert found.estimate is not None
    lines = {line.name: line for line in found.estimate.inputs}
    assert lines["micro_batch"].value == expected
    assert lines["sharding"].value == "none"


def test_how_many_gpus_split_a_batch_is_not_guessed() -> None:
    run = run_of(PARALLEL.replace("256", "2048"))
    assert estimate(on(run, "1xT4")).verdict == "exceeds"
    assert estimate(on(run, "T4")).verdict == "borderline"
    assert estimate(on(run, "8xT4")).verdict == "fits"


@pytest.mark.parametrize(
    ("built", "model"),
    [
        ("torchvision.models.detection.maskrcnn_resnet50_fpn(weights='DEFAULT')", "maskrcnn_resnet50_fpn"),
        ("torchvision.models.segmentation.deeplabv3_resnet101(num_classes=19)", "deeplabv3_resnet101"),
        ("torch.hub.load('pytorch/vision:v0.10.0', 'resnet50', pretrained=True)", "resnet50"),
    ],
)
def test_networks_that_libraries_build_by_name_have_it(built: str, model: str) -> None:
    script = SCRIPT.replace("SIDE", "512").replace("Net().cuda()", built)
    result = estimate(on(run_of("import torchvision\n" + script), "A100-80GB"))
    assert result.model.id == model
    assert result.peak is not None
    assert "attention implementation" not in result.unknowns
