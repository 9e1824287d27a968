"""Commands as one would type them: which file is submitted, from where, with which variables."""

from __future__ import annotations

import pytest

from analyzer.errors import InputError
from estimator.api import submissions
from estimator.submission import Shell
from tests.estimator.launch.trees import Tree

TRAIN = """
import argparse, torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import helper
p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=4)
a = p.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=a.batch, bf16=True)).train()
"""
JOB = "#!/bin/bash\n#SBATCH --gres=gpu:h100:1\npython train.py --batch ${BATCH:-2}\n"
FILES: dict[str, str | bytes] = {
    "train.py": TRAIN,
    "helper.py": "",
    "other.py": "",
    "job.slurm": JOB,
    "jobs/job.slurm": JOB,
    "out.txt": JOB,
    "cpu.sh": "#!/bin/bash\n#SBATCH -n 4\nls\n",
    "gpu.sh": "#!/bin/bash\n#SBATCH --gres=gpu:1\n./simulate\n",
}


def _batch(words: str, environment: dict[str, str] | None = None, cwd: str = ".") -> int:
    shell = Shell(cwd=cwd, environment=environment or {})
    (found,) = submissions(Tree(FILES), words.split(), {}, shell).launches
    assert found.estimate is not None
    (line,) = [line for line in found.estimate.inputs if line.name == "micro_batch"]
    return int(line.value)


@pytest.mark.parametrize(
    ("words", "environment", "batch"),
    [
        ("sbatch job.slurm", {}, 2),
        ("sbatch job.slurm", {"BATCH": "16"}, 16),
        ("sbatch --export=NONE job.slurm", {"BATCH": "16"}, 2),
        ("sbatch --export=ALL,BATCH=32 job.slurm", {"BATCH": "16"}, 32),
        ("sbatch --export=BATCH job.slurm", {"BATCH": "16", "X": "1"}, 16),
        ("sbatch --export=X job.slurm", {"BATCH": "16", "X": "1"}, 2),
        ("/usr/bin/sbatch --parsable -N 1 job.slurm", {}, 2),
        ("torchrun --nproc-per-node 1 train.py --batch 7", {}, 7),
        ("python train.py --batch 7", {}, 7),
        ("bash job.slurm", {"BATCH": "9"}, 9),
    ],
)
def test_the_environment_reaches_the_job_as_the_scheduler_hands_it_over(
    words: str, environment: dict[str, str], batch: int
) -> None:
    assert _batch(words, environment) == batch


def test_a_script_is_read_from_the_folder_it_is_submitted_in() -> None:
    assert _batch("sbatch ../job.slurm", cwd="jobs") == 2
    assert _batch("sbatch job.slurm", cwd="jobs") == 2
    assert _batch("sbatch --chdir .. job.slurm", cwd="jobs") == 2


def test_a_file_that_an_option_names_is_not_the_script() -> None:
    found = submissions(Tree(FILES), ["sbatch", "-o", "out.txt", "--parsable", "job.slurm"], {}, Shell())
    assert {item.path for item in found.launches} == {"job.slurm"}
    with pytest.raises(InputError, match="names no batch script"):
        submissions(Tree(FILES), ["sbatch", "-o", "out.txt"], {}, Shell())


@pytest.mark.parametrize("option", ["--hol", "--some-flag-of-a-site"])
def test_a_script_behind_an_option_that_may_have_no_value_is_not_taken_for_its_value(option: str) -> None:
    with pytest.raises(InputError, match=f"write {option}=job.slurm"):
        submissions(Tree(FILES), ["sbatch", option, "job.slurm", "cpu.sh"], {}, Shell())


def test_a_wrapped_command_is_read() -> None:
    words = ["sbatch", "--gres=gpu:h100:1", "--wrap", "python train.py --batch 3"]
    (found,) = submissions(Tree(FILES), words, {}, Shell()).launches
    assert found.verdict == "fits"


def test_the_files_are_those_that_the_answer_was_read_from() -> None:
    found = submissions(Tree(FILES), ["sbatch", "job.slurm"], {}, Shell())
    assert found.files >= {"job.slurm", "train.py", "helper.py"}
    assert not found.files & {"other.py", "cpu.sh", "out.txt"}


def test_only_a_batch_script_can_say_that_it_wants_no_gpu() -> None:
    def asks(*words: str) -> bool:
        return submissions(Tree(FILES), words, {}, Shell()).asks_for_gpu

    assert not asks("sbatch", "cpu.sh")
    assert asks("sbatch", "gpu.sh")
    assert asks("sbatch", "--gres=gpu:2", "cpu.sh")
    assert asks("sbatch", "--partition=long", "cpu.sh")
    assert asks("./simulate")
