"""Batch scripts that a shell script holds: ``sbatch <<EOF``, ``cat <<EOF | sbatch``, ``cat > job.slurm <<EOF``."""

from __future__ import annotations

import pytest

from estimator.launches import Launch, find
from tests.estimator.launch.trees import Tree

_TRAIN = """\
import argparse
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader([], batch_size=args.batch_size, shuffle=True):
    model(**batch).loss.backward()
    optimizer.step()
"""
_JOB = "#!/bin/bash\n#SBATCH --gres=gpu:a100:$GPUS\nsrun python train.py --batch-size $BATCH\n"


def _found(script: str) -> list[Launch]:
    return list(find(Tree({"submit.sh": script, "train.py": _TRAIN}), ["submit.sh"]).launches)


@pytest.mark.parametrize(
    "form",
    [
        "sbatch <<EOF\n{job}EOF\n",
        "cat <<EOF | sbatch\n{job}EOF\n",
        "cat > run.slurm <<EOF\n{job}EOF\nsbatch run.slurm\n",
        "cat <<EOF > run.slurm\n{job}EOF\nsbatch --parsable run.slurm\n",
        "tee run.slurm <<EOF\n{job}EOF\nsbatch run.slurm\n",
    ],
)
def test_a_text_that_is_submitted_is_a_batch_script(form: str) -> None:
    (launch,) = _found("#!/bin/bash\nGPUS=2\nBATCH=16\n" + form.format(job=_JOB))
    assert launch.to_json()["target"] == {"gpu": "a100", "gpus_per_node": 2, "nodes": 1}
    batch = launch.run.words()["micro_batch"]
    assert (batch.value, batch.origin.line, launch.config.line) == (16, 7, 7)


def test_options_of_the_command_beat_the_text_and_a_quoted_one_keeps_its_variables() -> None:
    (launch,) = _found(f"#!/bin/bash\nGPUS=2\nBATCH=16\nsbatch --gres=gpu:h100:4 <<'EOF'\n{_JOB}EOF\n")
    assert launch.to_json()["target"] == {"gpu": "h100", "gpus_per_node": 4, "nodes": 1}
    assert not launch.run.words()["micro_batch"].is_known  # nothing is exported: the job has no BATCH
    (launch,) = _found(f"#!/bin/bash\nexport GPUS=2 BATCH=16\nsbatch --gres=gpu:h100:4 <<'EOF'\n{_JOB}EOF\n")
    assert launch.run.words()["micro_batch"].value == 16


def test_a_loop_that_writes_and_submits() -> None:
    script = f"#!/bin/bash\nGPUS=1\nfor BATCH in 8 32; do\ncat > run.slurm <<EOF\n{_JOB}EOF\nsbatch run.slurm\ndone\n"
    assert [launch.run.words()["micro_batch"].value for launch in _found(script)] == [8, 32]


def test_a_text_that_is_only_written_or_never_reached_starts_nothing() -> None:
    assert not _found(f"#!/bin/bash\ncat > run.slurm <<EOF\n{_JOB}EOF\n")
    assert not _found(f"#!/bin/bash\nexit 0\nsbatch <<EOF\n{_JOB}EOF\n")


def test_texts_that_submit_texts_end() -> None:
    inner = "#!/bin/bash\npython train.py\n"
    for depth in range(6):
        inner = f"#!/bin/bash\nsbatch <<E{depth}\n{inner}E{depth}\n"
    assert len(_found(inner)) <= 1
