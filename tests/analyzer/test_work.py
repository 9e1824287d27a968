"""How much work an analysis is, counted and not timed: calls in Python and steps of the engine for one program of ours.

A timed test fails on a busy machine and passes a change that doubles the work on a fast one. The bounds are a quarter
above what is counted today: who needs more raises them in the same commit and says why.
"""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from analyzer.api import Options, analyze
from analyzer.engine import program as programs
from analyzer.engine.program import BUDGET, Program
from tests.analyzer.engine.test_engine import Tree

MODEL = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, stride=1, dropout=0.1):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, stride=stride, padding=1)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(width)
        self.drop = nn.Dropout(dropout)
        self.short = nn.Sequential(nn.Conv2d(width, width, 1, stride=stride)) if stride > 1 else nn.Identity()

    def forward(self, x):
        out = torch.relu(self.norm1(self.conv1(x)))
        out = self.drop(self.norm2(self.conv2(out)))
        return torch.relu(out + self.short(x))


class Net(nn.Module):
    def __init__(self, classes, width=64, depth=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2))
        layers = []
        for index in range(depth):
            layers.append(Block(width, stride=2 if index % 2 else 1))
        self.layers = nn.Sequential(*layers)
        self.first, self.second = Block(width), Block(width, stride=2)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.second(self.first(self.layers(self.stem(x))))
        x = x.mean((2, 3))
        return self.head(x)
"""
TRAIN = """
import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

from model import Net


class Average:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.count = 0.0, 0

    def update(self, value, number=1):
        self.total += value * number
        self.count += number

    @property
    def mean(self):
        return self.total / max(1, self.count)


def loaders(args):
    steps = [transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))]
    train = datasets.CIFAR10(args.data, train=True, transform=transforms.Compose(steps), download=True)
    test = datasets.CIFAR10(args.data, train=False, transform=transforms.Compose(steps))
    return (
        DataLoader(train, batch_size=args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=True),
        DataLoader(test, batch_size=args.batch_size, num_workers=args.workers, pin_memory=True),
    )


def train_epoch(args, model, loader, optimizer, criterion, device, epoch, losses):
    model.train()
    meter = Average()
    history = []
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        outputs = model(images)
        loss = criterion(outputs, labels)
        if args.penalty:
            loss = loss + args.penalty * sum(weight.pow(2).sum() for weight in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        history.append(loss)
        meter.update(loss.item(), images.size(0))
        if step % args.log_every == 0:
            print(f"{epoch} {step}/{len(loader)} {meter.mean:.3f}")
    losses.append(meter.mean)
    return history


def evaluate(model, loader, criterion, device):
    meter, right, seen = Average(), 0, 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        outputs = model(images)
        meter.update(criterion(outputs, labels).item(), labels.size(0))
        right += (outputs.argmax(1) == labels).sum().item()
        seen += labels.size(0)
    return meter.mean, right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--penalty", type=float, default=0.0)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--resume")
    args = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net(10).to(device)
    teacher = Net(10, width=128).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    start, best, losses = 0, 0.0, []
    if args.resume:
        state = torch.load(args.resume)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"]
    train, test = loaders(args)
    for epoch in range(start, args.epochs):
        train_epoch(args, model, train, optimizer, criterion, device, epoch, losses)
        schedule.step()
        loss, accuracy = evaluate(model, test, criterion, device)
        with torch.no_grad():
            soft = F.softmax(teacher(torch.randn(2, 3, 32, 32, device=device)), dim=1)
        print(loss, accuracy, soft.max())
        if accuracy > best:
            best = accuracy
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
            torch.save(state, "best.pt")


if __name__ == "__main__":
    main()
"""
TREE = Tree(model=MODEL, train=TRAIN)
TARGETS = ["model.py", "train.py"]
MAX_CALLS = 250_000
MAX_STEPS = 8_300
MAX_RUNS = 3
"""Of programs: one for each target, and one for each try of fixes."""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps of each program that is run."""
    found: list[int] = []
    run_target = programs.Program.run_target

    def counted(self: Program, *given: object) -> None:
        run_target(self, *given)  # type: ignore[arg-type]
        found.append(BUDGET - self.budget_left)

    monkeypatch.setattr(programs.Program, "run_target", counted)
    return found


def test_an_analysis_takes_no_more_steps_than_it_did(runs: list[int]) -> None:
    report = analyze(TREE, TARGETS, Options())
    assert any(finding.fix for finding in report.findings)
    assert len(runs) <= MAX_RUNS
    assert sum(runs) <= MAX_STEPS


def test_an_analysis_takes_no_more_calls_than_it_did() -> None:
    analyze(TREE, TARGETS, Options())  # what is made once is no matter here
    num_calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal num_calls
        num_calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        analyze(TREE, TARGETS, Options())
    finally:
        sys.setprofile(before)
    assert num_calls <= MAX_CALLS
