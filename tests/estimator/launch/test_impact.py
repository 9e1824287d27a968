"""From a change to its effect on launches: the whole way through readers, analyzer and estimate."""

from __future__ import annotations

import pytest

from analyzer.errors import InputError
from estimator.api import RunConfig, affected, impact_finding, launches
from estimator.sourced import Origin
from tests.estimator.launch.trees import Tree

JOB, SCRIPT = "slurm/finetune.slurm", "finetune/train.py"
TREE = Tree.of("finetune_7b")


def test_every_field_of_a_launch_has_a_value_and_an_origin() -> None:
    (entry,) = launches(TREE).to_json()["launches"]
    assert entry["target"] == {"gpu": "a100-40gb", "gpus_per_node": 1, "nodes": 1}
    expected = {
        "model": "meta-llama/Llama-2-7b-hf",
        "micro_batch": 4,
        "seq_len": 2048,
        "precision": "amp-bf16",
        "optimizer": "adamw",
        "method": "full",
        "sharding": "none",
        "offload": "none",
        "grad_checkpointing": "none",
        "attention": "sdpa",
        "task": "train",
    }
    assert expected == {name: entry["run_config"][name] for name in expected}
    origin = entry["origins"]["micro_batch"]
    assert origin.startswith("slurm/finetune.slurm:17 (--batch-size 4")
    assert "overrides finetune/train.py:14 (" in origin
    assert entry["origins"]["seq_len"].startswith("slurm/finetune.slurm:18 (--max-length 2048")
    assert entry["origins"]["optimizer"] == "finetune/train.py:39 (torch.optim.AdamW)"
    assert entry["estimate"]["verdict"] == "exceeds"


def test_what_launches_prints_is_a_run_config() -> None:
    (entry,) = launches(TREE).to_json()["launches"]
    run = RunConfig.from_document(entry, Origin("", "launches.json"))
    assert (run.micro_batch.value, run.gpu.value, run.precision.value) == (4, ("a100-40gb",), "amp-bf16")


def test_a_changed_launch_file_is_reported_with_what_moved_it() -> None:
    base = TREE.with_edit(JOB, "BATCH_SIZE=4", "BATCH_SIZE=1")
    (impact,) = affected(base, TREE, [JOB])
    assert (impact.path, impact.line, impact.verdict) == (JOB, 27, "exceeds")
    (moved,) = impact.moved
    assert moved.startswith("micro_batch 1 -> 4: slurm/finetune.slurm:17 (--batch-size 4")


def test_the_finding_says_interval_floor_capacity_and_a_change_that_fits() -> None:
    base = TREE.with_edit(JOB, "BATCH_SIZE=4", "BATCH_SIZE=1")
    (impact,) = affected(base, TREE, [JOB])
    finding = impact_finding(impact)
    assert finding is not None
    assert impact.head is not None
    assert impact.head.peak is not None
    assert impact.base is not None
    assert (finding.rule, finding.path, finding.line) == ("PF501", JOB, 17)
    floor = impact.head.peak.floor / 2**30
    assert f"at least {floor:.1f} GiB per GPU on NVIDIA A100" in finding.message
    for part in ("usable", "Before this change:", "micro_batch 1 -> 4", "A change that fits:"):
        assert part in finding.message
    assert {JOB, SCRIPT} == {step.path for step in finding.evidence}


def test_a_changed_script_reaches_the_launch_that_runs_it() -> None:
    base = TREE.with_edit(SCRIPT, "torch_dtype=torch.float32", "torch_dtype=torch.bfloat16")
    (impact,) = affected(base, TREE, [SCRIPT])
    assert impact.path == JOB
    assert any(moved.startswith("precision pure-bf16 -> amp-bf16: finetune/train.py:") for moved in impact.moved)


def test_a_new_launch_is_reported_without_a_before() -> None:
    (impact,) = affected(Tree({}), TREE, [JOB, SCRIPT])
    finding = impact_finding(impact)
    assert impact.base is None
    assert finding is not None
    assert "Before this change" not in finding.message


SILENT = [
    ("unrelated file", TREE, TREE, "README.md"),
    ("nothing moved", TREE.with_edit(JOB, "24:00:00", "12:00:00"), TREE, JOB),
    ("learning rate", TREE.with_edit(JOB, "2e-5", "1e-5"), TREE, JOB),
    ("comment", TREE.with_edit(SCRIPT, "on instruction data", "on data"), TREE, SCRIPT),
    ("deleted launch", TREE, Tree({SCRIPT: TREE.read(SCRIPT) or b""}), JOB),
    ("script that nothing launches", Tree({}), Tree({SCRIPT: TREE.read(SCRIPT) or b""}), SCRIPT),
]


@pytest.mark.parametrize(("base", "head", "changed"), [case[1:] for case in SILENT], ids=[case[0] for case in SILENT])
def test_it_is_silent_when_no_launch_moved(base: Tree, head: Tree, changed: str) -> None:
    assert affected(base, head, [changed]) == ()


def test_a_changed_pin_moves_the_default_dtype() -> None:
    bare = TREE.with_edit(SCRIPT, "torch_dtype=torch.float32, ", "")
    newer = bare.with_edit("requirements.txt", "==4.57.3", "==5.1.0")
    (impact,) = affected(bare, newer, ["requirements.txt"])
    assert any(moved.startswith("precision amp-bf16 -> unknown") for moved in impact.moved)


def test_an_ambiguous_gpu_blocks_only_if_every_size_is_exceeded() -> None:
    small = TREE.with_edit(JOB, "gpu:a100-40gb:1", "gpu:a100:1").with_edit(SCRIPT, "torch.float32", "torch.bfloat16")
    (impact,) = affected(Tree({}), small.with_edit(JOB, "MAX_LENGTH=2048", "MAX_LENGTH=256"), [JOB])
    assert impact.head is not None
    assert {"exceeds"} < {target.verdict for target in impact.head.targets}
    assert (impact.head.verdict, impact.verdict, impact_finding(impact)) == ("borderline", "borderline", None)


def test_a_branch_that_fits_keeps_the_other_from_blocking() -> None:
    tree = TREE.with_edit(JOB, "BATCH_SIZE=4", "if [ -f big ]; then MODEL=openai-community/gpt2; fi\nBATCH_SIZE=4")
    tree = tree.with_edit(JOB, "MAX_LENGTH=2048", "MAX_LENGTH=256")
    (impact,) = affected(Tree({}), tree, [JOB])
    assert (len(impact.readings), impact.verdict, impact_finding(impact)) == (2, "borderline", None)


def test_a_branch_that_changes_nothing_for_memory_is_no_reading() -> None:
    tree = TREE.with_edit(JOB, "BATCH_SIZE=4", 'if [ -d /opt/cluster ]; then RESUME="--resume 1"; fi\nBATCH_SIZE=4')
    tree = tree.with_edit(JOB, "srun python", "srun $RESUME python")
    (launch,) = launches(tree).launches
    assert not any("assumes" in reason for _, reason in launch.run.not_understood)


def test_a_partition_is_a_gpu_only_through_targets() -> None:
    tree = TREE.with_edit(JOB, "#SBATCH --gres=gpu:a100-40gb:1", "#SBATCH --partition=big --gres=gpu:1")
    (unknown,) = affected(Tree({}), tree, [JOB])
    (known,) = affected(Tree({}), tree, [JOB], {"big": "A100-40GB"})
    assert (unknown.verdict, known.verdict) == ("unknown", "exceeds")


def test_a_broken_file_is_a_note_and_hides_nothing() -> None:
    broken = Tree(
        {**{path: TREE.read(path) or b"" for path in TREE.paths()}, "bad.sh": b"#!/bin/bash\npython t.py\n\0"}
    )
    found = affected(Tree({}), broken, [JOB, "bad.sh"])
    assert [impact.path for impact in found] == [JOB]
    assert [(note.path, "NUL" in note.reason) for note in found.notes] == [("bad.sh", True)]


def test_comments_and_noqa_do_not_silence_it() -> None:
    tree = TREE.with_edit(
        JOB, 'srun python finetune/train.py "${ARGS[@]}"', 'srun python finetune/train.py "${ARGS[@]}"'
    )
    marked = tree.with_edit(
        JOB, "set -euo pipefail", "set -euo pipefail # noqa: PF501\n# preflight: ignore[PF501] fits"
    )
    (impact,) = affected(Tree({}), marked, [JOB])
    assert impact_finding(impact) is not None


def test_submit_options_beat_the_file() -> None:
    (entry,) = launches(TREE, command=f"sbatch --gres=gpu:h100:8 -N 2 {JOB}").to_json()["launches"]
    assert entry["target"] == {"gpu": "h100", "gpus_per_node": 8, "nodes": 2}


def test_a_typed_command_is_a_launch() -> None:
    command = f"torchrun --nproc-per-node 8 {SCRIPT} --batch-size 2 --output-dir out"
    (entry,) = launches(TREE, command=command).to_json()["launches"]
    assert (entry["run_config"]["micro_batch"], entry["run_config"]["num_gpus"]) == (2, 8)


@pytest.mark.parametrize("command", ["", "ls", "sbatch missing.slurm", "python 'unclosed"])
def test_a_command_that_is_none_is_an_input_error(command: str) -> None:
    with pytest.raises(InputError):
        launches(TREE, command=command)


BROKEN = [("def f(:\n", "syntax error"), ("x = " + "(" * 5000 + ")" * 5000, "nested"), ("\udcff", "UTF-8")]


@pytest.mark.parametrize(("source", "reason"), BROKEN, ids=["syntax", "nesting", "encoding"])
def test_a_script_that_cannot_be_read_is_unknown_with_the_reason(source: str, reason: str) -> None:
    script = b"import torch\n" + source.encode("utf-8", "surrogateescape")
    tree = Tree({**{path: TREE.read(path) or b"" for path in TREE.paths()}, SCRIPT: script})
    (entry,) = launches(tree).to_json()["launches"]
    (said,) = [item["reason"] for item in entry["unknowns"] if item["field"] == "model"]
    assert reason in said
    (impact,) = affected(TREE, tree, [SCRIPT])
    assert impact.verdict == "unknown"
