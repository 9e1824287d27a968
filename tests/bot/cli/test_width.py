"""What people read at a narrow terminal fits it; a pipe gets what it always got."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-I", "-m", "preflight"]
ESTIMATE = ["estimate", "--model", "meta-llama/Llama-2-7b-hf", "--gpu", "A100", "--precision", "amp-bf16"]


def at_a_terminal(where: Path, columns: int, *words: str) -> list[str]:
    """The lines that a terminal of that width is given."""
    here, there = os.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES"}} | {
        "NO_COLOR": "1"
    }
    with subprocess.Popen([*COMMAND, *words], cwd=where, stdout=there, env=environment) as process:
        os.close(there)
        said = b""
        while True:
            try:
                part = os.read(here, 65_536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            said += part
        os.close(here)
        assert process.wait(60) in {0, 1}
    return said.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize(
    "words",
    [["--help"], ["check", "--help"], ["explain", "PF101"], ["rules"], ["gpus", "A100"], ESTIMATE, ["launches"]],
)
def test_a_narrow_terminal_is_wide_enough(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "train.py").write_text(
        "import argparse\nfrom transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        "p = argparse.ArgumentParser()\np.add_argument('--per-device-batch', type=int, default=1)\na = p.parse_args()\n"
        "model = AutoModelForCausalLM.from_pretrained('meta-llama/Llama-2-7b-hf')\n"
        "args = TrainingArguments(output_dir='out', per_device_train_batch_size=a.per_device_batch)\n"
        "Trainer(model=model, args=args).train()\n"
    )
    (tmp_path / "run.sh").write_text("python train.py --per-device-batch 4\n")
    lines = at_a_terminal(tmp_path, 80, *words)
    assert len(lines) > 10
    assert [line for line in lines if len(line) > 80] == []


def test_a_pipe_gets_the_full_width(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, *ESTIMATE], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert 100 < max(map(len, done.stdout.splitlines())) <= 110


def test_a_line_of_code_is_cut_to_the_terminal_and_its_mark_with_it(tmp_path: Path) -> None:
    call = "nn.functional.cross_entropy(model(x), y, ignore_index=-100, reduction='mean', label_smoothing=0.0)"
    (tmp_path / "train.py").write_text(
        "from torch import nn\ndef fit(loader):\n    model, kept = nn.Linear(8, 2), []\n"
        f"    for x, y in loader:\n        kept.append({call})\n"
    )
    lines = at_a_terminal(tmp_path, 72, "check", "train.py", "--select", "PF101", "--fail-on", "error")
    code, mark = next((lines[at], lines[at + 1]) for at, line in enumerate(lines) if line.startswith("    5 | "))
    assert (len(code), code[-1], len(mark), mark[-1]) == (72, "…", 72, "^")
