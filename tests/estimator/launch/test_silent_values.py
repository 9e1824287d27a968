"""What a script does not say for this run must be unknown: values that were once stated, and wrong."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.launches import find
from tests.estimator.launch.trees import Tree

_PARSED = """\
from dataclasses import dataclass, field
import transformers
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer

@dataclass
class ModelArguments:
    model_name_or_path: str = "org/base"
    bits: int = 4

@dataclass
class OurArguments(transformers.TrainingArguments):
    optim: str = field(default="paged_adamw_32bit")
    per_device_train_batch_size: int = field(default=2)
    gradient_checkpointing: bool = True

parser = HfArgumentParser((ModelArguments, OurArguments))
model_args, training_args, rest = parser.parse_args_into_dataclasses(return_remaining_strings=True)
model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path)
Trainer(model=model, args=training_args).train()
"""
_LOAD = """\
import torch
from torch import nn
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
{body}
Trainer(model, TrainingArguments("out", per_device_train_batch_size=1)).train()
"""


def _run(files: dict[str, str | bytes]) -> tuple[dict[str, Any], dict[str, str]]:
    (launch,) = find(Tree(files), ["run.sh"]).launches
    document = launch.to_json()
    return document["run_config"], {item["field"]: item["reason"] for item in document["unknowns"]}


def _scripted(body: str, command: str = "python train.py") -> tuple[dict[str, Any], dict[str, str]]:
    return _run({"run.sh": f"#!/bin/bash\n{command}\n", "train.py": _LOAD.format(body=body)})


def test_defaults_of_a_subclass_of_training_arguments_beat_those_of_the_library() -> None:
    run, _ = _run({"run.sh": "#!/bin/bash\npython train.py --gradient_accumulation_steps 3\n", "train.py": _PARSED})
    assert (run["micro_batch"], run["grad_accum"], run["optimizer"]) == (2, 3, "adamw-paged")
    assert run["grad_checkpointing"] == "full"
    run, _ = _run({"run.sh": "#!/bin/bash\npython train.py --optim adafactor\n", "train.py": _PARSED})
    assert run["optimizer"] == "adafactor"


def test_a_model_that_is_loaded_again_with_another_dtype_does_not_lend_it_to_the_first() -> None:
    body = (
        'model = AutoModelForCausalLM.from_pretrained("gpt2")\n'
        'merged = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)'
    )
    run, reasons = _scripted(body)
    assert run["precision"] is None
    assert "loaded twice" in reasons["precision"]


def test_adapters_on_a_base_whose_quantization_is_not_known_are_not_called_plain_lora() -> None:
    body = (
        "import peft, os\n"
        'config = BitsAndBytesConfig(load_in_4bit=os.environ["BITS"])\n'
        'model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)\n'
        "model = peft.get_peft_model(model, peft.LoraConfig())"
    )
    run, reasons = _scripted(body)
    assert run["method"] is None
    assert "quantized" in reasons["method"]


@pytest.mark.parametrize(
    "freeze", ["model.requires_grad_(False)", "for p in model.parameters():\n    p.requires_grad = False"]
)
def test_frozen_parameters_are_not_full_training(freeze: str) -> None:
    run, reasons = _scripted(f'model = AutoModelForCausalLM.from_pretrained("gpt2")\n{freeze}')
    assert run["method"] is None
    assert "frozen" in reasons["method"]


def test_a_module_that_is_unfrozen_trains_in_full() -> None:
    run, _ = _scripted('model = AutoModelForCausalLM.from_pretrained("gpt2")\nmodel.requires_grad_(True)')
    assert run["method"] == "full"


@pytest.mark.parametrize(
    "command",
    [
        "deepspeed --num_gpus 4 train.py --deepspeed $DS_CONFIG",
        "deepspeed --num_gpus 4 train.py --deepspeed ds/elsewhere.json",
        "accelerate launch --num_processes 4 --config_file elsewhere.yaml train.py",
        "accelerate launch --num_processes 4 --config_file elsewhere.yaml -m axolotl.cli.train run.yaml",
    ],
)
def test_sharding_that_an_unseen_file_decides_is_not_called_ddp(command: str) -> None:
    recipe = "base_model: gpt2\nmicro_batch_size: 1\ndatasets: [{path: a}]\nbf16: auto\n"
    run, reasons = _run({"run.sh": f"#!/bin/bash\n{command}\n", "train.py": _PARSED, "run.yaml": recipe})
    assert run["sharding"] is None
    assert run["offload"] is None
    assert "repository" in reasons["sharding"] or "DS_CONFIG" in reasons["sharding"]


@pytest.mark.parametrize(
    ("words", "sharding", "offload"),
    [
        ("full_shard auto_wrap", "fsdp", "none"),
        ("full_shard auto_wrap offload", "fsdp", "both"),
        ("shard_grad_op", "zero2", "none"),
        ("no_shard", "ddp", "none"),
    ],
)
def test_words_of_fsdp(words: str, sharding: str, offload: str) -> None:
    run, _ = _run(
        {"run.sh": f'#!/bin/bash\ntorchrun --nproc_per_node 4 train.py --fsdp "{words}"\n', "train.py": _PARSED}
    )
    assert (run["sharding"], run["offload"]) == (sharding, offload)


def test_an_optimizer_that_trains_a_block_at_a_time_is_no_adamw() -> None:
    recipe = (
        "model_name_or_path: meta-llama/Llama-3.1-8B\nfinetuning_type: full\ntemplate: llama3\nuse_badam: true\n"
        "per_device_train_batch_size: 1\n"
    )
    run, reasons = _run({"run.sh": "#!/bin/bash\nllamafactory-cli train a.yaml\n", "a.yaml": recipe})
    assert run["optimizer"] is None
    assert "badam" in reasons["optimizer"]
    assert "none on one GPU, ddp on several" in reasons["sharding"]


def test_a_recipe_on_several_processes_without_sharding_is_data_parallel() -> None:
    recipe = "base_model: gpt2\nmicro_batch_size: 1\ndatasets: [{path: a}]\nbf16: auto\n"
    command = "accelerate launch --num_processes 4 --num_machines 1 -m axolotl.cli.train run.yaml"
    run, _ = _run({"run.sh": f"#!/bin/bash\n{command}\n", "run.yaml": recipe})
    assert (run["sharding"], run["offload"]) == ("ddp", "none")


def test_a_network_of_the_repository_answers_for_its_model_and_says_what_is_not_counted() -> None:
    script = (
        "import torch\nfrom torch import nn\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(8, 8)\n"
        "    def forward(self, x):\n        return self.a(x)\n"
        "model = Net()\nopt = torch.optim.Adam(model.parameters())\n"
        "loss = model(torch.zeros(4, 8)).sum()\nloss.backward()\nopt.step()\n"
    )
    _, reasons = _run({"run.sh": "#!/bin/bash\npython train.py\n", "train.py": script})
    assert "model" not in reasons
    assert "accumulates" in reasons["grad_accum"]


def test_a_model_built_by_from_config_has_the_widths_of_its_configuration() -> None:
    body = (
        "from transformers import LlamaConfig\n"
        "model = AutoModelForCausalLM.from_config(LlamaConfig(hidden_size=1024, num_hidden_layers=4))"
    )
    run, reasons = _scripted(body)
    assert (run["arch"]["hidden"], run["arch"]["layers"]) == (1024, 4)
    assert "model" not in reasons


def test_parallel_sizes_of_accelerate_in_code() -> None:
    body = (
        "from accelerate import Accelerator\nfrom accelerate.utils import ParallelismConfig\n"
        "accelerator = Accelerator(parallelism_config=ParallelismConfig(sp_size=4, tp_size=2))\n"
        'model = AutoModelForCausalLM.from_pretrained("gpt2")'
    )
    run, _ = _scripted(body)
    assert (run["sp_degree"], run["tp_degree"]) == (4, 2)


def test_arguments_that_are_unpacked_make_a_default_uncertain_unless_the_text_shows_every_key() -> None:
    hidden = (
        "import json, sys\n"
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        'model = AutoModelForCausalLM.from_pretrained("gpt2")\n'
        "{options}\n"
        'Trainer(model, TrainingArguments("out", **options)).train()\n'
    )
    files: dict[str, str | bytes] = {"run.sh": "#!/bin/bash\npython train.py\n"}
    run, reasons = _run({**files, "train.py": hidden.format(options="options = json.loads(sys.argv[1])")})
    assert (run["micro_batch"], run["grad_accum"], run["optimizer"]) == (None, None, None)
    assert "unpacked" in reasons["micro_batch"]
    run, _ = _run({**files, "train.py": hidden.format(options='options = {"gradient_accumulation_steps": 4}')})
    assert (run["micro_batch"], run["grad_accum"], run["optimizer"]) == (8, 4, "adamw")


_OWN = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
    def forward(self, x):
        return self.a(x)
{body}
opt = torch.optim.AdamW(model.parameters())
model(torch.zeros(4, 8)).sum().backward()
opt.step()
"""


@pytest.mark.parametrize(
    ("body", "precision"),
    [
        ("model = Net().to(torch.bfloat16)", "pure-bf16"),
        ("model = Net().to('cuda', torch.bfloat16)", "pure-bf16"),
        ("model = Net().to(device='cuda', dtype=torch.float16)", "pure-fp16"),
        ("model = Net().bfloat16()", "pure-bf16"),
        ("torch.set_default_dtype(torch.bfloat16)\nmodel = Net()", "pure-bf16"),
        ("model = Net().to('cuda')", "fp32"),
        ("x = torch.zeros(3).to(torch.bfloat16)\nmodel = Net().cuda()", "fp32"),
        ("torch.set_default_dtype(torch.bfloat16)\nmodel = Net()\ntorch.set_default_dtype(torch.float32)", None),
    ],
)
def test_modules_that_are_converted_are_not_float32(body: str, precision: str | None) -> None:
    run, _ = _run({"run.sh": "#!/bin/bash\npython train.py\n", "train.py": _OWN.format(body=body)})
    assert run["precision"] == precision


def test_megatron_under_deepspeed_is_sharded_as_its_options_say() -> None:
    base = "deepspeed --num_gpus 8 pretrain.py --micro-batch-size 1 --seq-length 512 --num-layers 4 --deepspeed"
    run, _ = _run({"run.sh": f"#!/bin/bash\n{base} --zero-stage 1 --deepspeed_config ds.json\n"})
    assert (run["sharding"], run["offload"]) == ("zero1", None)
    run, reasons = _run({"run.sh": f"#!/bin/bash\n{base} --deepspeed_config ds.json\n"})
    assert run["sharding"] is None
    assert "ds.json" in reasons["sharding"]


@pytest.mark.parametrize(("directive", "sharding"), [("", None), ("#SBATCH --gres=gpu:a100:4\n", None),
                                                      ("#SBATCH --gres=gpu:a100:1\n", "none")])  # fmt: skip
def test_a_process_of_a_script_that_is_not_here_may_start_others(directive: str, sharding: str | None) -> None:
    tree = Tree({"job.slurm": f"#!/bin/bash\n{directive}python gone.py\n"})
    found = find(tree, ["job.slurm"]) if directive else find(tree, command="python gone.py trainer=ddp")
    (launch,) = found.launches
    assert launch.to_json()["run_config"]["sharding"] == sharding
