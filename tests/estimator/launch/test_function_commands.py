"""Scripts whose command line is a function: click, typer, fire, tyro, jsonargparse, absl."""

from __future__ import annotations

import pytest

from estimator.launches import find
from tests.estimator.launch.trees import Tree

HEAD = """
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
from data import ds
"""
TRAIN = """
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    opt = torch.optim.AdamW(model.parameters())
    for b in DataLoader(ds, batch_size=SIZE):
        opt.zero_grad()
        model(**b).loss.backward()
        opt.step()
"""
END = "\nif __name__ == '__main__':\n    "
SCRIPTS = {
    "click": (
        "import click\n@click.command()\n@click.option('--size', '-s', default=8, type=int)\n"
        f"@click.option('--fast/--slow', default=False)\ndef main(size, fast):{TRAIN}{END}main()"
    ),
    "typer.run": f"import typer\ndef main(size: int = 8, fast: bool = False):{TRAIN}{END}typer.run(main)",
    "typer app": (
        "import typer\napp = typer.Typer()\n@app.command()\n"
        f"def main(size: int = typer.Option(8, '--size', '-s'), fast: bool = False):{TRAIN}{END}app()"
    ),
    "typer annotated": (
        "import typer\nfrom typing import Annotated\napp = typer.Typer()\n@app.command()\n"
        f"def main(size: Annotated[int, typer.Option('--size')] = 8, fast: bool = False):{TRAIN}{END}app()"
    ),
    "fire": f"import fire\ndef main(size=8, fast=False):{TRAIN}{END}fire.Fire(main)",
    "jsonargparse": f"from jsonargparse import CLI\ndef main(size: int = 8, fast: bool = False):{TRAIN}{END}CLI(main)",
    "tyro function": f"import tyro\ndef main(size: int = 8, fast: bool = False):{TRAIN}{END}tyro.cli(main)",
    "tyro dataclass": (
        "import tyro\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Args:\n    size: int = 8\n    fast: bool = False\n"
        f"def main():\n    args = tyro.cli(Args){TRAIN.replace('SIZE', 'args.size')}{END}main()"
    ),
    "absl": (
        "from absl import app, flags\nFLAGS = flags.FLAGS\nflags.DEFINE_integer('size', 8, 'help')\n"
        "flags.DEFINE_bool('fast', False, 'help')\n"
        f"def main(argv):{TRAIN.replace('SIZE', 'FLAGS.size')}{END}app.run(main)"
    ),
    "absl holder": (
        "from absl import app, flags\n_SIZE = flags.DEFINE_integer('size', 8, 'help')\n"
        "_FAST = flags.DEFINE_bool('fast', False, '')\n"
        f"def main(argv):{TRAIN.replace('SIZE', '_SIZE.value')}{END}app.run(main)"
    ),
}


def micro_batch(script: str, words: str) -> tuple[object, str]:
    text = HEAD + script.replace("SIZE", "size")
    (launch,) = find(Tree({"train.py": text, "run.sh": f"python train.py {words}\n"}), ["run.sh"]).launches
    found = launch.run.micro_batch
    return (found.value, found.describe()) if found.is_known else (None, "")


@pytest.mark.parametrize("kind", SCRIPTS)
@pytest.mark.parametrize(
    ("words", "expected"), [("", 8), ("--size 32", 32), ("--size=32 --fast", 32), ("--fast --size 4", 4)]
)
def test_the_command_line_decides_and_else_the_default(kind: str, words: str, expected: int) -> None:
    value, origin = micro_batch(SCRIPTS[kind], words)
    assert value == expected
    assert ("run.sh:1" in origin) == bool(words)


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [("click", "-s 16", 16), ("click", "-s16", 16), ("click", "--slow -s 16", 16), ("typer app", "-s 16", 16),
     ("fire", "16", 16), ("fire", "--fast=True 16", 16)],
)  # fmt: skip
def test_short_options_and_places(kind: str, words: str, expected: int) -> None:
    assert micro_batch(SCRIPTS[kind], words)[0] == expected


def test_a_class_under_fire_trains_where_its_method_is_named() -> None:
    body = TRAIN.replace("SIZE", "self.size").replace("\n    ", "\n        ")
    script = (
        f"import fire\nclass T:\n    def __init__(self, size=8):\n        self.size = size\n    def train(self):{body}"
    )
    assert micro_batch(f"{script}{END}fire.Fire(T)", "train --size 32")[0] == 32


def test_a_value_that_is_no_number_is_not_read() -> None:
    assert micro_batch(SCRIPTS["click"], "--size many")[0] is None


def test_an_argument_by_its_place_is_the_model() -> None:
    script = SCRIPTS["typer annotated"].replace("def main(", "def main(name: Annotated[str, typer.Argument()], ")
    text = HEAD + script.replace('"gpt2"', "name").replace("SIZE", "size")
    tree = Tree({"train.py": text, "run.sh": "python train.py --size 2 facebook/opt-125m --fast\n"})
    (launch,) = find(tree, ["run.sh"]).launches
    assert launch.run.model.value == "facebook/opt-125m"
