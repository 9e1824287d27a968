"""Words to launch commands: wrappers, launchers, the script and its arguments."""

from __future__ import annotations

import pytest

from estimator.launch.base import Arg, Command
from estimator.resolve.command import parse


def command(text: str) -> Command | None:
    parsed = parse([Arg(word, "run.sh", 1) for word in text.split()], {})
    return parsed.command if parsed else None


COMMANDS = [
    ("python train.py --lr 1", "python", "train.py", "--lr 1"),
    ("python3.12 -u -X faulthandler train.py a", "python", "train.py", "a"),
    ("/opt/venv/bin/python -m pkg.train --x", "python", "pkg.train", "--x"),
    ("./train.py --x", "python", "./train.py", "--x"),
    ("torchrun --standalone --nproc-per-node=8 train.py --x 1", "torchrun", "train.py", "--x 1"),
    ("torchrun --nproc_per_node 8 -m pkg.train -- --x", "torchrun", "pkg.train", "--x"),
    ("torchrun --some-new-option 3 train.py", "torchrun", "train.py", ""),
    ("python -m torch.distributed.launch --use_env --nproc_per_node 2 train.py --x", "torchrun", "train.py", "--x"),
    ("accelerate launch --multi_gpu --num_processes 4 train.py --x", "accelerate", "train.py", "--x"),
    ("deepspeed --num_gpus 4 train.py --deepspeed ds.json", "deepspeed", "train.py", "--deepspeed ds.json"),
    ("srun -N2 --gres gpu:4 --container-image=x python train.py", "python", "train.py", ""),
    ("time nohup numactl -c 0 python train.py", "python", "train.py", ""),
    ("timeout 10h python train.py", "python", "train.py", ""),
    ("env A=1 B=2 python train.py", "python", "train.py", ""),
    ("CUDA_VISIBLE_DEVICES=0 python train.py", "python", "train.py", ""),
    ("apptainer exec --nv -B /data image.sif python train.py", "python", "train.py", ""),
    ("conda run -n env python train.py", "python", "train.py", ""),
    ("uv run --with x torchrun train.py", "torchrun", "train.py", ""),
]


@pytest.mark.parametrize(("text", "launcher", "script", "argv"), COMMANDS)
def test_launch_commands_are_taken_apart(text: str, launcher: str, script: str, argv: str) -> None:
    found = command(text)
    assert found is not None
    assert (launcher, script, argv) == (found.launcher, found.script.text, " ".join(word.text for word in found.argv))


@pytest.mark.parametrize(
    "text",
    [
     "echo python train.py", "pip install torch", "python -m pip install x",
     "python -c pass", "python setup.py install",
     "python -m http.server", "accelerate config", "ls train.py", "python", "srun hostname", "cat train.py"],
)  # fmt: skip
def test_what_never_trains_is_no_launch(text: str) -> None:
    assert command(text) is None
