"""Programs whose whole run is on the command line."""

from __future__ import annotations

from typing import Any

from estimator.launches import find
from tests.estimator.launch.trees import Tree

MEGATRON = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:h100:8
ARGS=(
    --num-layers 32
    --hidden-size 4096
    --num-attention-heads 32
    --seq-length 8192
    --micro-batch-size 2
    --global-batch-size 256
    --tensor-model-parallel-size 4
    --pipeline-model-parallel-size 2
    --use-distributed-optimizer
    --recompute-granularity full
    --bf16
)
srun torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py ${ARGS[@]}
"""


def shown(script: str) -> dict[str, Any]:
    (launch,) = find(Tree({"job.sh": script}), ["job.sh"]).launches
    entry = launch.to_json()
    return {**entry["run_config"], **entry["target"]}


def test_options_of_megatron_are_a_run() -> None:
    run = shown(MEGATRON)
    wanted = {"micro_batch": 2, "seq_len": 8192, "tp_degree": 4, "pp_degree": 2, "sharding": "zero1", "method": "full"}
    wanted |= {"precision": "bf16-master", "grad_checkpointing": "full", "gpu": "h100", "gpus_per_node": 8, "nodes": 2}
    assert run | wanted == run
    assert run.get("model") is None


def test_an_option_that_the_file_does_not_show_is_unknown() -> None:
    run = shown(MEGATRON.replace("--micro-batch-size 2", "--micro-batch-size $(cat size)"))
    assert run["micro_batch"] is None


def test_other_programs_with_some_of_the_options_are_not_megatron() -> None:
    found = find(
        Tree({"job.sh": "#!/bin/bash\ntorchrun x.py --micro-batch-size 2 --seq-length 9\n"}), ["job.sh"]
    ).launches
    assert all(launch.run.micro_batch.value != 2 for launch in found)


def test_overrides_of_verl_are_a_run() -> None:
    run = shown(
        "#!/bin/bash\npython3 -m verl.trainer.main_ppo trainer.n_gpus_per_node=4 trainer.nnodes=2 \\\n"
        " actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct actor_rollout_ref.actor.strategy=fsdp \\\n"
        " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16\n"
    )
    wanted = {
        "micro_batch": 16,
        "model": "Qwen/Qwen2-7B-Instruct",
        "sharding": "fsdp",
        "gpus_per_node": 4,
        "num_gpus": 4,
    }
    assert run | wanted == run


def test_megatron_without_a_number_of_layers_is_still_megatron() -> None:
    command = (
        "torchrun --nproc_per_node 8 pretrain_hybrid.py --micro-batch-size 4 --seq-length 4096 --hidden-size 1024 "
        "--tensor-model-parallel-size 2 --bf16 --hybrid-layer-pattern M-M*-"
    )
    (launch,) = find(
        Tree({"run.sh": f"#!/bin/bash\n{command}\n", "pretrain_hybrid.py": "main()\n"}), ["run.sh"]
    ).launches
    run = launch.run.words()
    assert (run["micro_batch"].value, run["seq_len"].value, run["tp_degree"].value) == (4, 4096, 2)
