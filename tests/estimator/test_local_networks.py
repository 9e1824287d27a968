"""Networks that the repository defines, from the script to the verdict."""

from __future__ import annotations

import re
from dataclasses import replace
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.errors import InputError
from estimator.estimation import estimate
from estimator.launches import find
from estimator.models.local import LocalNet, Pass
from estimator.options import options_for, run_from
from estimator.report import Estimate, Interval
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


def run_of(text: str, said: RunConfig | None = None, **others: str) -> RunConfig:
    """The one run of a script, over which a person has said something."""
    files: dict[str, str | bytes] = {"train.py": dedent(text), **{f"{name}.py": each for name, each in others.items()}}
    (found,) = run_configs(Tree(files), "train.py", (), said or RunConfig())
    return found.overridden_by(said) if said is not None else found


def sized(side: int, width: int | None = None) -> RunConfig:
    """What ``--image-size`` says."""
    return replace(RunConfig(), image_size=Sourced((side, width or side), HERE))


def long(length: int) -> RunConfig:
    """What ``--seq-len`` says."""
    return replace(RunConfig(), seq_len=Sourced(length, HERE))


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
    assert "image size: the interval is for 32x32 to 1024x1024" in result.unknowns
    assert options_for(result.unknowns) == ["--image-size"]


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


# --- of one size ----------------------------------------------------------------------------------------------------

ANY_SIZE = SCRIPT.replace("transforms.RandomCrop(SIDE), ", "")
GPT = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader
from corpus import Text

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(1000, 256), nn.Embedding(1024, 256)
        self.qkv, self.out = nn.Linear(256, 768), nn.Linear(256, 256)
        self.head = nn.Linear(256, 1000)

    def forward(self, ids):
        B, T = ids.shape
        x = self.token(ids) + self.position(torch.arange(T, device=ids.device))
        q, k, v = (each.view(B, T, 4, 64).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        scores = F.softmax(q @ k.transpose(-2, -1) * 0.125, dim=-1)
        return self.head(x + self.out((scores @ v).transpose(1, 2).reshape(B, T, 256)))

model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x, y in DataLoader(Text(), batch_size=8, shuffle=True):
    optimizer.zero_grad()
    F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    optimizer.step()
"""
GAN = """
import torch, torch.nn as nn
from torch.utils.data import DataLoader
from faces import Faces

class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.ConvTranspose2d(100, 64, 8), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1))
    def forward(self, z):
        return self.net(z)

class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 1, 4))
    def forward(self, x):
        return self.net(x).mean((1, 2, 3))

g, d = G().cuda(), D().cuda()
first, second = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
for real in DataLoader(Faces(), batch_size=64, shuffle=True):
    (d(real.cuda()).mean() - d(g(torch.randn(64, 100, 1, 1, device="cuda"))).mean()).backward()
    first.step()
    second.step()
"""
SCRIPTS = {"convolutions": ANY_SIZE, "unet": ANY_SIZE.partition("class Net")[0] + UNET.lstrip()
           + ANY_SIZE[ANY_SIZE.index("transform = "):], "text": GPT, "two networks": GAN}  # fmt: skip
GPUS = ("T4", "RTX_4090", "A100-40GB", "H200")


def holds(one: Interval, other: Interval) -> bool:
    return one.floor <= other.floor and one.low <= other.low and other.high <= one.high


def holds_every(open_size: Estimate, listed: list[Estimate]) -> None:
    """The invariant of an interval for several sizes."""
    peaks = [each.peak for each in listed]
    for name in ("peak", "reserved", "allocated"):
        whole = getattr(open_size, name)
        assert all(holds(whole, getattr(each, name)) for each in listed)
        assert whole.low <= whole.point <= whole.high
    assert open_size.peak is not None
    assert open_size.peak.low == min(each.low for each in peaks if each is not None)
    assert open_size.peak.floor == min(each.floor for each in peaks if each is not None)
    if open_size.verdict == "fits":
        assert {each.verdict for each in listed} == {"fits"}
    if open_size.verdict == "exceeds":
        assert {each.verdict for each in listed} == {"exceeds"}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_an_unknown_size_is_answered_for_every_size_that_is_listed(text: str) -> None:
    run = run_of(text)
    net = run.network.value
    assert isinstance(net, LocalNet)
    sizes = list(dict.fromkeys(each.size for each in net.passes))
    assert len(sizes) > 2
    for gpu in GPUS:
        said = [sized(*size) if len(size) == 2 else long(*size) for size in sizes]
        made_anew = [estimate(on(run_of(text, each), gpu), with_suggestions=False) for each in said]
        from_a_document = [estimate(on(run.overridden_by(each), gpu), with_suggestions=False) for each in said]
        assert [each.peak for each in made_anew] == [each.peak for each in from_a_document]
        parts = [replace(run, network=Sourced(part, HERE)) for part in net.parts]
        alone = [estimate(on(part, gpu), with_suggestions=False) for part in parts]
        holds_every(estimate(on(run, gpu), with_suggestions=False), [*made_anew, *alone])


COUNT = st.integers(0, 2**31)


@st.composite
def nets(draw: st.DrawFn) -> LocalNet:
    """A network whose counts grow with its input, in no particular way."""
    sides = sorted(draw(st.sets(st.integers(8, 2048), min_size=2, max_size=5)))
    steps = [draw(st.lists(COUNT, min_size=9, max_size=9)) for _ in sides]
    counts = [[sum(column) for column in zip(*steps[: index + 1], strict=True)] for index in range(len(sides))]
    passes = [Pass("image", (3, side, side), *each) for side, each in zip(sides, counts, strict=True)]
    params = draw(st.integers(1, 2**33))
    trained = draw(st.integers(0, params))
    likeliest = draw(st.permutations(passes))
    return LocalNet("Net", params, trained, params, draw(st.integers(1, 99)), passes=tuple(likeliest))


@settings(max_examples=60, deadline=None)
@given(
    net=nets(), gpu=st.sampled_from(GPUS), batch=st.sampled_from([None, 1, 4, 64]),
    words=st.fixed_dictionaries({}, optional={
        "precision": st.sampled_from(["fp32", "amp-fp16", "pure-bf16"]), "optimizer": st.sampled_from(["sgd", "adamw"]),
        "grad_checkpointing": st.sampled_from(["none", "full", None]), "task": st.sampled_from(["train", "infer"]),
        "num_gpus": st.sampled_from([1, 8]), "sharding": st.sampled_from(["ddp", "fsdp"]),
    }),
)  # fmt: skip
def test_so_it_is_whatever_a_network_counts_and_a_run_says(
    net: LocalNet, gpu: str, batch: int | None, words: dict[str, object]
) -> None:
    document = {"gpu": gpu, "network": net.to_document(), **({"micro_batch": batch} if batch else {}), **words}
    run = RunConfig.from_document(document, HERE)
    try:
        whole = estimate(run, with_suggestions=False)
        listed = [estimate(run.overridden_by(sized(*each.size)), with_suggestions=False) for each in net.passes]
    except InputError:
        return  # more than 1 PiB
    holds_every(whole, listed)


@pytest.mark.parametrize("side", [40, 300, 320, 2000])
def test_a_size_that_is_not_listed_is_run_at_that_size(side: int) -> None:
    """The size of an option is as good as that of a crop in the script."""
    said, written = run_of(ANY_SIZE, sized(side)), run_of(SCRIPT.replace("SIDE", str(side)))
    one, other = estimate(on(said, "T4")), estimate(on(written, "T4"))
    assert one.peak == other.peak
    assert one.peak is not None
    assert estimate(on(run_of(SCRIPT.replace("SIDE", "64"), sized(side)), "T4")).peak == one.peak


def test_a_length_is_run_as_it_is_said() -> None:
    saved = [
        next(term for term in estimate(on(run_of(GPT, long(length)), "T4")).terms if term.name == "saved activations")
        for length in (100, 200)
    ]
    assert 2 < saved[1].num_bytes / saved[0].num_bytes < 4  # the scores are a square
    assert "(100)" in saved[0].formula


@pytest.mark.parametrize("text", [ANY_SIZE, SCRIPTS["unet"]], ids=["convolutions", "unet"])
@pytest.mark.parametrize("size", [(48, 48), (300, 300), (640, 480), (1000, 1000)])
def test_a_document_answers_between_its_sizes_and_holds_what_is_right(text: str, size: tuple[int, int]) -> None:
    document = run_of(text).to_document()
    between = estimate(on(RunConfig.from_document(document, HERE).overridden_by(sized(*size)), "T4")).peak
    exact = estimate(on(run_of(text, sized(*size)), "T4")).peak
    assert between is not None
    assert exact is not None
    assert holds(between, exact)
    assert between.point == pytest.approx(exact.point, rel=0.05)


@pytest.mark.parametrize(
    ("text", "said", "reason"),
    [
        (ANY_SIZE, sized(2048), "for 32x32 to 1024x1024, not for 2048x2048: .*--image-size 2048x2048"),
        (ANY_SIZE, sized(16), "for 32x32 to 1024x1024, not for 16x16"),
        (GPT, long(2000), "for 64 to 1,024, not for 2,000: .*--seq-len 2000"),
    ],
)
def test_a_document_says_for_which_sizes_it_is(text: str, said: RunConfig, reason: str) -> None:
    result = estimate(on(RunConfig.from_document(run_of(text).to_document(), HERE).overridden_by(said), "T4"))
    assert result.verdict == "unknown"
    assert re.search(reason, result.reasons[0])
    assert "at least" in result.reasons[1]


def test_a_size_that_does_not_fit_says_why_and_which_does() -> None:
    text = ANY_SIZE.replace("self.head = nn.Conv2d(width, 2, 1)", "self.head = nn.Linear(width * 28 * 28, 2)")
    text = text.replace("self.head(self.body(x))", "self.head(self.body(x).flatten(1))")
    result = estimate(on(run_of(text, sized(100)), "T4"))
    assert result.verdict == "unknown"
    assert "an image of 100x100 does not fit it: a linear layer" in result.reasons[0]
    assert "of usual sizes 3x28x28 fits" in result.reasons[0]
    long_text = estimate(on(run_of(GPT, long(2000)), "T4"))
    assert "a length of 2000 does not fit it: position 1999 of a table of 1024" in long_text.reasons[0]
    assert "of usual sizes 64, 128, 256, 512, 1024 fit" in long_text.reasons[0]


@pytest.mark.parametrize(
    ("text", "option", "wrong", "told"),
    [
        (ANY_SIZE, "--image-size", "seq_len", "seq_len 512 is not counted: the network reads images (--image-size)"),
        (GPT, "--seq-len", "image_size", "image_size 512x512 is not counted: the network reads a sequence (--seq-len)"),
    ],
)
def test_a_network_is_asked_for_what_it_reads(text: str, option: str, wrong: str, told: str) -> None:
    plain = estimate(on(run_of(text), "A100"))
    asked = options_for(plain.unknowns)
    assert [each for each in asked if each in ("--image-size", "--seq-len")] == [option]
    result = estimate(on(run_of(text, run_from({wrong: "512"})), "A100"))
    assert told in result.reasons
    assert result.peak == plain.peak


def test_a_size_that_overrules_an_argument_of_the_script_says_where_it_belongs() -> None:
    text = ANY_SIZE.replace("import torch\n", "import argparse, torch\np = argparse.ArgumentParser()\n", 1).replace(
        "class Net", "p.add_argument('--size', type=int, default=64)\nargs = p.parse_args()\n\nclass Net", 1
    )
    text = text.replace("transforms.ToTensor()", "transforms.RandomCrop(args.size), transforms.ToTensor()")
    text = text.replace("nn.Conv2d(width, 2, 1)", "nn.Linear(width * args.size ** 2, 2)")
    text = text.replace("self.head(self.body(x))", "self.head(self.body(x).flatten(1))")
    assert estimate(on(run_of(text), "T4")).verdict == "fits"
    result = estimate(on(run_of(text, sized(100)), "T4"))
    assert re.search(r"made for the size that is overruled, train.py:\d+ \(--size, default 64\)", result.reasons[0])
    assert "give it in the command" in result.reasons[0]


def test_frames_of_a_volume_are_counted() -> None:
    text = ANY_SIZE.replace("Conv2d", "Conv3d").replace("BatchNorm2d", "BatchNorm3d")
    run = run_of(text, run_from({"image_size": "64x48", "frames": "20"}))
    result = estimate(on(run, "T4"))
    assert any("(3x20x64x48)" in term.formula for term in result.terms)
    assert not any("not counted" in reason for reason in result.reasons)
