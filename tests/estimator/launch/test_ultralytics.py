"""YOLO as people start it: its command line, and its class in a script."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.launches import find
from estimator.sourced import Unknown
from tests.estimator.launch.trees import Tree

SCRIPT = 'from ultralytics import YOLO\nmodel = YOLO("yolov8n.pt")\nmodel.train(data="coco.yaml"{})\n'
COMMON = {"model": "yolov8n.pt", "micro_batch": 16, "image_size": (640, 640), "precision": "amp-fp16", "ema": True,
          "splits_batch": True, "task": "train"}  # fmt: skip


def words_of(command: str, script: str = "") -> dict[str, Any]:
    [launch] = find(Tree({"run.sh": command, "train.py": script})).launches
    words = launch.run.words()
    return {name: None if isinstance(item.value, Unknown) else item.value for name, item in words.items()}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", {}),
        (", imgsz=1280, batch=8", {"micro_batch": 8, "image_size": (1280, 1280)}),
        (", amp=False", {"precision": "fp32"}),
        (", batch=-1", {"micro_batch": None}),
        (', optimizer="SGD"', {"optimizer": "sgd"}),
        (', optimizer="auto"', {"optimizer": None}),
    ],
)
def test_its_class_says_how_it_trains(arguments: str, said: dict[str, Any]) -> None:
    found = words_of("python train.py", SCRIPT.format(arguments))
    expected = {**COMMON, **said}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("yolo detect train model=yolov8n.pt data=coco.yaml", {}),
        ("yolo train model=yolo11s.pt data=coco8.yaml batch=32 amp=False", {"model": "yolo11s.pt", "micro_batch": 32,
                                                                           "precision": "fp32"}),
        ("yolo task=detect mode=train model=yolov8m.pt imgsz=1024", {"model": "yolov8m.pt",
                                                                     "image_size": (1024, 1024)}),
    ],
)  # fmt: skip
def test_its_command_line_says_how_it_trains(command: str, said: dict[str, Any]) -> None:
    found = words_of(command)
    expected = {**COMMON, **said}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("mode", ["predict", "val", "export"])
def test_what_does_not_train_is_no_launch(mode: str) -> None:
    assert not find(Tree({"run.sh": f"yolo detect {mode} model=yolov8n.pt source=a.jpg"})).launches


def test_several_devices_share_the_batch() -> None:
    [launch] = find(Tree({"run.sh": "yolo train model=yolov8n.pt data=coco.yaml device=0,1"})).launches
    assert (launch.config.target.gpus_per_node.value, launch.run.sharding.value) == (2, "ddp")
