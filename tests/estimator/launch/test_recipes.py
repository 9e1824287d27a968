"""Configuration files that are a whole run: what their keys mean, what a command overrides, what stays unknown."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.launch.documents import MAX_BYTES, UnreadableDocument, documents
from estimator.launches import Launch, find
from tests.estimator.launch.trees import Tree

ZERO3 = '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true}}'
AXOLOTL = """\
base_model: NousResearch/Llama-2-7b-hf
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_target_linear: true
sequence_len: 2048
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: paged_adamw_8bit
bf16: auto
gradient_checkpointing: true
flash_attention: true
datasets:
  - path: org/data
"""
FACTORY = """\
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
finetuning_type: lora
lora_target: all
template: llama3
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
deepspeed: ds/zero3.json
"""
LITGPT = """\
checkpoint_dir: checkpoints/meta-llama/Llama-2-7b-hf
precision: bf16-true
quantize: bnb.nf4
devices: 1
num_nodes: 1
lora_r: 32
train:
  global_batch_size: 8
  micro_batch_size: 2
  max_seq_length: 512
optimizer:
  class_path: torch.optim.AdamW
"""
TUNE = """\
model:
  _component_: torchtune.models.llama2.lora_llama2_7b
  lora_rank: 8
tokenizer:
  _component_: torchtune.models.llama2.llama2_tokenizer
  max_seq_len: null
batch_size: 2
gradient_accumulation_steps: 8
dtype: bf16
enable_activation_checkpointing: true
optimizer:
  _component_: torch.optim.AdamW
"""
TITAN = """\
[model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 2
seq_len = 8192

[parallelism]
tensor_parallel_degree = 4

[activation_checkpoint]
mode = "full"
"""
LIGHTNING = """\
trainer:
  devices: 4
  num_nodes: 2
  strategy: deepspeed_stage_2
  precision: bf16-mixed
  accumulate_grad_batches: 2
model:
  class_path: net.Net
data:
  class_path: net.Data
  init_args:
    batch_size: 16
"""


def only(files: dict[str, str | bytes], path: str | None = None, command: str | None = None) -> Launch:
    found = find(Tree(files), [path] if path else None, command)
    assert len(found.launches) == 1, (found.launches, found.skipped)
    return found.launches[0]


def words(launch: Launch) -> dict[str, Any]:
    return {name: sourced.value for name, sourced in launch.run.words().items() if sourced.is_known}


def test_axolotl() -> None:
    found = words(only({"configs/qlora.yml": AXOLOTL}))
    expected = {
        "model": "NousResearch/Llama-2-7b-hf", "micro_batch": 2, "grad_accum": 4, "seq_len": 2048, "method": "qlora",
        "quantization": "nf4", "lora_rank": 32, "lora_targets": ("all-linear",), "optimizer": "adamw-8bit-paged",
        "precision": "amp-bf16", "grad_checkpointing": "full", "attention": "flash", "offload": "none",
    }  # fmt: skip
    assert {name: found.get(name) for name in expected} == expected
    assert "sharding" not in found, "nothing says how many processes start it"


def test_llamafactory_follows_its_deepspeed_file() -> None:
    found = words(only({"sft.yaml": FACTORY, "ds/zero3.json": ZERO3}, "sft.yaml"))
    assert (found["sharding"], found["offload"], found["precision"]) == ("zero3", "optimizer", "bf16-master")
    assert (found["method"], found["lora_rank"], found["seq_len"]) == ("lora", 8, 2048)
    assert found["grad_checkpointing"] == "full", "on unless it is disabled"


def test_a_deepspeed_file_that_is_not_there_leaves_sharding_open() -> None:
    launch = only({"sft.yaml": FACTORY}, "sft.yaml")
    reasons = {item["field"]: item["reason"] for item in launch.to_json()["unknowns"]}
    assert "ds/zero3.json is not in the repository" in reasons["sharding"]


def test_litgpt_derives_accumulation_from_the_global_batch() -> None:
    launch = only({"hub/qlora.yaml": LITGPT}, command="litgpt finetune_lora --config hub/qlora.yaml")
    found = words(launch)
    assert (found["grad_accum"], found["sharding"], found["grad_checkpointing"]) == (4, "none", "none")
    assert (found["model"], found["quantization"], found["precision"]) == (
        "meta-llama/Llama-2-7b-hf", "nf4", "pure-bf16",
    )  # fmt: skip
    assert launch.config.target.gpus_per_node.value == 1


def test_the_command_line_beats_the_file() -> None:
    command = "tune run --nproc_per_node 4 lora_finetune_distributed --config llama2/7B_lora batch_size=1"
    command += " tokenizer.max_seq_len=4096"
    launch = only({"recipes/configs/llama2/7B_lora.yaml": TUNE}, command=command)
    found = words(launch)
    assert (found["micro_batch"], found["seq_len"], found["sharding"]) == (1, 4096, "fsdp")
    assert launch.config.target.gpus_per_node.value == 4
    assert launch.run.micro_batch.origin.path == "command line"


def test_torchtitan_toml_has_lines() -> None:
    launch = only({"train_configs/llama3_8b.toml": TITAN})
    found = words(launch)
    assert (found["micro_batch"], found["seq_len"], found["tp_degree"]) == (2, 8192, 4)
    assert (found["precision"], found["grad_checkpointing"], found["sharding"]) == ("amp-bf16", "full", "fsdp")
    assert launch.run.seq_len.origin.line == 7


def test_lightning_cli() -> None:
    launch = only({"cfg.yaml": LIGHTNING})
    found = words(launch)
    assert (found["micro_batch"], found["grad_accum"], found["sharding"]) == (16, 2, "zero2")
    assert (launch.config.target.gpus_per_node.value, launch.config.target.nodes.value) == (4, 2)


def test_a_shell_script_that_starts_one() -> None:
    script = "#!/bin/bash\n#SBATCH --gres=gpu:a100:8\nsrun accelerate launch -m axolotl.cli.train configs/qlora.yml\n"
    launch = only({"job.slurm": script, "configs/qlora.yml": AXOLOTL}, "job.slurm")
    assert words(launch)["micro_batch"] == 2
    assert launch.config.target.gpus_per_node.value == 8


@pytest.mark.parametrize(
    "text",
    ["a: 1\n", "trainer: x\ndefaults: [y]\n", "base_model: x\n", "name: ci\non: push\njobs: {}\n", "", "- 1\n- 2\n"],
)
def test_other_documents_are_no_launches(text: str) -> None:
    assert find(Tree({"x.yaml": text})).launches == ()


@pytest.mark.parametrize(
    "text",
    [
        "base_model: [" * 200,
        "base_model: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\nmicro_batch_size: 1\n",
        "base_model: !!python/object/apply:os.system ['x']\nmicro_batch_size: 1\n",
        "base_model: x\nmicro_batch_size: " + "9" * 5000,
        "base_model: ../../etc/passwd\nmicro_batch_size: 1\ndeepspeed: ../../../etc/passwd\n",
        "base_model: x\n\tmicro_batch_size: 1\n",
        "base_model: x\nmicro_batch_size: -3\nsequence_len: yes\n",
    ],
)
def test_hostile_documents_do_no_harm(text: str) -> None:
    for launch in find(Tree({"x.yaml": text})).launches:
        assert not isinstance(launch.run.micro_batch.value, int) or launch.run.micro_batch.value == 1


def test_a_document_that_is_too_large_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="more than"):
        documents("x.yaml", b"a" * (MAX_BYTES + 1))


@pytest.mark.parametrize(
    ("text", "is_counted"),
    [
        ("base_model: gpt2\nmicro_batch_size: 1\nsequence_len: 256\nbf16: true\ndatasets: [{path: a}]\n", True),
        (
            "base_model: gpt2\nmicro_batch_size: 1\nsequence_len: 256\nbf16: true\ndatasets: [{path: a}]\nrl: dpo\n",
            True,
        ),
        (
            "base_model: gpt2\nmicro_batch_size: 1\nsequence_len: 256\nbf16: true\ndatasets: [{path: a}]\nrl: grpo\n",
            False,
        ),
        (
            "base_model: gpt2\nmicro_batch_size: 1\nsequence_len: 256\nbf16: true\ndatasets: [{path: a}]\nrl: orpo\n",
            True,
        ),
    ],
)
def test_a_job_that_holds_models_which_are_not_counted_is_not_said_to_fit(text: str, is_counted: bool) -> None:
    job = "#!/bin/bash\n#SBATCH --gres=gpu:h200:1\naxolotl train run.yaml\n"
    (launch,) = find(Tree({"job.slurm": job, "run.yaml": text}), ["job.slurm"]).launches
    assert launch.estimate is not None
    assert launch.estimate.verdict == ("fits" if is_counted else "borderline")
    assert any("what generates them" in reason for reason in launch.estimate.reasons) is not is_counted


@pytest.mark.parametrize(
    ("words", "offload", "method"),
    [
        ("", "none", "full"),
        ("actor_rollout_ref.actor.fsdp_config.param_offload=True", "both", "full"),
        ("actor_rollout_ref.actor.fsdp_config.optimizer_offload=True", "optimizer", "full"),
        ("actor_rollout_ref.model.lora_rank=32", "none", "lora"),
        ("actor_rollout_ref.model.lora_rank=0", "none", "full"),
    ],
)
def test_verl_on_the_command_line(words: str, offload: str, method: str) -> None:
    command = (
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B trainer.n_gpus_per_node=4 "
        f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 {words}"
    )
    (launch,) = find(Tree({"run.sh": f"#!/bin/bash\n{command}\n"}), ["run.sh"]).launches
    run = launch.run.words()
    assert (run["sharding"].value, run["offload"].value, run["method"].value) == ("fsdp", offload, method)
    assert any(name == "not counted" for name, _ in launch.run.not_understood)


def test_verl_with_another_trainer_is_not_read_as_fsdp() -> None:
    command = "python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer actor_rollout_ref.model.path=org/m"
    command += " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2"
    found = find(Tree({"run.sh": f"#!/bin/bash\n{command}\n"}), ["run.sh"]).launches
    assert all(not launch.run.words()["sharding"].is_known for launch in found)


def _typed(command: str, **files: str) -> dict[str, Any]:
    tree = Tree({"run.sh": f"#!/bin/bash\n{command}\n", **{f"{name}.yaml": text for name, text in files.items()}})
    (launch,) = find(tree, ["run.sh"]).launches
    return {name: value.value if value.is_known else None for name, value in launch.run.words().items()}


def test_of_a_configuration_that_is_elsewhere_only_what_the_command_overrides_is_known() -> None:
    run = _typed(
        "tune run --nproc_per_node 8 full_finetune_distributed --config llama4/maverick tokenizer.max_seq_len=4096 "
        "batch_size=2 optimizer_in_bwd=True"
    )
    assert (run["seq_len"], run["micro_batch"], run["sharding"], run["offload"]) == (4096, 2, "fsdp", None)
    assert (run["grad_accum"], run["method"], run["precision"], run["model"]) == (None, None, None, None)
    run = _typed("accelerate launch --num_processes 2 -m axolotl.cli.train elsewhere.yml --micro-batch-size 4")
    assert (run["micro_batch"], run["seq_len"], run["sharding"]) == (4, None, None)


def test_a_run_that_is_all_options_has_the_defaults_of_its_program() -> None:
    run = _typed(
        "llamafactory-cli train --stage sft --model_name_or_path gpt2 --finetuning_type full --template default "
        "--per_device_train_batch_size 3 --bf16 true"
    )
    assert (run["model"], run["micro_batch"], run["seq_len"], run["method"]) == ("gpt2", 3, 2048, "full")


@pytest.mark.parametrize(
    ("lines", "sharding", "offload"),
    [
        ("fsdp: [full_shard, auto_wrap]\n", "fsdp", "none"),
        ("fsdp: [shard_grad_op, auto_wrap]\n", "zero2", "none"),
        ("fsdp: [full_shard, offload]\n", "fsdp", "both"),
        ("fsdp_version: 2\nfsdp_config: {reshard_after_forward: false, offload_params: true}\n", "zero2", "both"),
        ("fsdp_version: 2\nfsdp_config: {reshard_after_forward: true}\n", "fsdp", "none"),
    ],
)
def test_what_fsdp_gathers_again(lines: str, sharding: str, offload: str) -> None:
    text = f"base_model: gpt2\nmicro_batch_size: 1\ndatasets: [{{path: a}}]\n{lines}"
    run = _typed("axolotl train run.yaml", run=text)
    assert (run["sharding"], run["offload"]) == (sharding, offload)


@pytest.mark.parametrize(
    ("value", "sharding"), [("false", "zero2"), ("true", "fsdp"), ("SHARD_GRAD_OP", "zero2"), ("FULL_SHARD", "fsdp")]
)
def test_accelerate_fsdp_reshards_or_not(value: str, sharding: str) -> None:
    text = f"distributed_type: FSDP\nnum_processes: 4\nfsdp_config:\n  fsdp_reshard_after_forward: {value}\n"
    run = _typed("accelerate launch --config_file fsdp.yaml train.py", fsdp=text)
    assert run["sharding"] == sharding


MEGATRON = "torchrun pretrain_gpt.py --num-layers 24 --hidden-size 1024 --micro-batch-size 4 --seq-length 1024 --bf16"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("rl: dpo\npeft_use_dora: true\nadapter: lora\nsample_packing: false\n",
         {"objective": "dpo", "dora": True, "packing": False}),
        ("optimizer: adamw_torch\n", {"optimizer": "adamw", "optimizer_impl": "foreach", "objective": None}),
        ("rl: simpo\n", {"objective": "orpo", "packing": False}),
    ],
)  # fmt: skip
def test_what_axolotl_says_beside_the_model(document: str, expected: dict[str, Any]) -> None:
    text = f"base_model: gpt2\nmicro_batch_size: 1\nsequence_len: 256\ndatasets: [{{path: a}}]\n{document}"
    (launch,) = find(Tree({"job.sh": "axolotl train run.yaml\n", "run.yaml": text}), ["job.sh"]).launches
    found = launch.run.to_document()
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--recompute-granularity selective", "core-attention"),
        ("--recompute-activations", "core-attention"),
        ("--recompute-granularity full --recompute-method uniform", "full"),
        ("", "none"),
    ],
)
def test_megatron_selective_is_the_core_attention(options: str, expected: str) -> None:
    (launch,) = find(Tree({"job.sh": f"{MEGATRON} {options}\n"}), ["job.sh"]).launches
    assert launch.run.grad_checkpointing.value == expected


SCRIPT = """
import torch
from transformers import AutoModelForCausalLM
from timm.utils import ModelEmaV2
from torch.nn.parallel import DistributedDataParallel
model = AutoModelForCausalLM.from_pretrained("gpt2")
ema = ModelEmaV2(model)
model = DistributedDataParallel(model, gradient_as_bucket_view=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for batch in torch.utils.data.DataLoader([], batch_size=8):
    model(**batch).loss.backward()
    optimizer.step()
"""


def test_what_a_script_says_beside_the_model() -> None:
    tree = Tree({"job.sh": "torchrun --nproc-per-node 8 train.py\n", "train.py": SCRIPT})
    (launch,) = find(tree, ["job.sh"]).launches
    found = launch.run.to_document()
    assert (found["ema"], found["bucket_view"], found["optimizer_impl"]) == (True, True, "fused")


def test_a_trainer_of_preferences_says_so() -> None:
    script = (
        "from trl import DPOTrainer, DPOConfig\n"
        "t = DPOTrainer(model='gpt2', args=DPOConfig(per_device_train_batch_size=2))\nt.train()\n"
    )
    (launch,) = find(Tree({"job.sh": "python train.py\n", "train.py": script}), ["job.sh"]).launches
    assert launch.run.objective.value == "dpo"


@pytest.mark.parametrize("value", [b"[" * 50_000, b"0x" + b"f" * 5000, b"9" * 5000])
def test_toml_that_python_cannot_hold_is_unreadable(value: bytes) -> None:
    with pytest.raises(UnreadableDocument):
        documents("train.toml", b"x = " + value)
