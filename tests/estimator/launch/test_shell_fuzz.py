"""No script, however broken, makes a reader raise anything but its own refusal."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.launch.base import Request, UnreadableLaunch, readers
from tests.estimator.launch.trees import Tree

FRAGMENTS = [
    "python t.py",
    "X=1",
    "X=$Y",
    'X="$X $X"',
    "${X:-",
    "${X##*",
    "}",
    "$(",
    ")",
    "$((",
    "))",
    "`",
    '"',
    "'",
    "\\\n",
    "\n",
    ";",
    "if ",
    "[ -z $X ]",
    "; then ",
    "; else ",
    "fi",
    "for x in ",
    "do ",
    "done",
    "case $X in a)",
    ";;",
    "esac",
    "f() {",
    "f",
    "}",
    "bash -c ",
    "eval ",
    "<<EOF\n",
    "EOF\n",
    "A=(",
    "${A[@]}",
    "$@",
    "$1",
    "srun ",
    "torchrun --nproc_per_node=",
    "accelerate launch ",
    "#SBATCH --nodes=2\n",
    "#SBATCH --gres=gpu:a100:",
    "\r\n",
    "é",
    "[[ $X == ",
    "]]",
    "&& ",
    "|| ",
    "| ",
    "& ",
    "source run.sh",
    "cd ..",
    "${!X}",
    "${X^^}",
    "((X++))",
    "local X=",
    "declare -a A=(",
    "while true; ",
    "exit",
    "return",
    "shift 99",
    "set -- ",
    "-N",
    "--",
]

SCRIPTS = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(lambda parts: " ".join(parts).encode()),
    st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(lambda parts: "".join(parts).encode()),
    st.binary(max_size=200),
)


@settings(max_examples=400, deadline=None)
@given(SCRIPTS)
def test_readers_answer_or_refuse(script: bytes) -> None:
    tree = Tree({"run.sh": script, "t.py": "", "fsdp.yaml": script, "ds.json": script})
    for reader in readers():
        reader.detect("run.sh", script)
        with contextlib.suppress(UnreadableLaunch):
            for launch in reader.read(Request(path="run.sh", content=script, files=tree)):
                assert launch.line >= 1
