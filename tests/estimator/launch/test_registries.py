"""Configurations that are functions of a registry: ``-m torchtitan.train --module M --config NAME``."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.launches import find
from tests.estimator.launch.trees import Tree

_REGISTRY = """\
from titan import FullAC, SelectiveAC, Trainer, TrainingConfig, ParallelismConfig, model_registry, default_adamw

LENGTH = 4096


def small() -> Trainer.Config:
    \"\"\"A small one.\"\"\"
    spec = model_registry("8B", attn_backend="flex")
    return Trainer.Config(
        model_spec=spec,
        optimizer=default_adamw(lr=3e-4),
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * LENGTH, max_context_length=LENGTH),
        activation_checkpoint=SelectiveAC.Config(),
    )


def large() -> Trainer.Config:
    config = small()
    config.model_spec = model_registry("70B", converters=[Float8LinearConverter.Config()])
    config.parallelism.tensor_parallel_degree = 4
    config.activation_checkpoint = FullAC.Config()
    config.training.enable_cpu_offload = True
    return config


def adapted() -> Trainer.Config:
    config = small()
    config.model_spec = model_registry("8B", converters=[LoRAConverter.Config(rank=16)])
    config.training.num_tokens_per_train_step = 65536
    return config


def hidden() -> Trainer.Config:
    config = small()
    if os.environ["BIG"]:
        config.training.max_context_length = 8192
    return config


def computed() -> Trainer.Config:
    config = small()
    config.training.max_context_length = length_of("c4")
    return config


def handed() -> Trainer.Config:
    config = small()
    config.training.steps = shortened(config)
    return config


def again() -> Trainer.Config:
    return again()
"""
_FOLDER = "titan/models/llama3"


def _run(name: str, more: str = "", module: str = "llama3", path: str = f"{_FOLDER}/config_registry.py") -> Any:
    command = f"torchrun --nproc_per_node 8 -m torchtitan.train --module {module} --config {name} {more}"
    tree = Tree({"run.sh": f"#!/bin/bash\n{command}\n", path: _REGISTRY, "other/config_registry.py": "x = 1\n"})
    (launch,) = find(tree, ["run.sh"]).launches
    return launch.to_json()


def test_the_keywords_of_the_function_are_the_configuration() -> None:
    entry = _run("small")
    run = entry["run_config"]
    assert (run["model"], run["micro_batch"], run["seq_len"], run["grad_accum"]) == ("llama3 8B", 2, 4096, 1)
    assert (run["sharding"], run["offload"], run["method"]) == ("fsdp", "none", "full")
    assert (run["grad_checkpointing"], run["optimizer"], run["precision"]) == ("selective", "adamw", "amp-bf16")
    assert entry["origins"]["micro_batch"].startswith(f"{_FOLDER}/config_registry.py:12")


def test_a_function_that_changes_what_another_returns() -> None:
    run = _run("large")["run_config"]
    assert (run["model"], run["tp_degree"], run["grad_checkpointing"], run["offload"]) == (
        "llama3 70B",
        4,
        "full",
        "both",
    )
    assert (run["precision"], run["micro_batch"]) == ("fp8", 2)
    assert _run("small")["run_config"]["tp_degree"] == 1


def test_options_of_the_command_win() -> None:
    run = _run("small", "--training.max_context_length 2048 --parallelism.data_parallel_shard_degree=1")["run_config"]
    assert (run["seq_len"], run["micro_batch"], run["sharding"]) == (2048, 4, "ddp")


def test_adapters_and_what_cannot_be_counted() -> None:
    entry = _run("adapted")
    reasons = {item["field"]: item["reason"] for item in entry["unknowns"]}
    assert entry["run_config"]["method"] == "lora"
    assert "65536" in reasons["grad_accum"]


@pytest.mark.parametrize("name", ["hidden", "handed", "again", "missing"])
def test_a_function_that_is_not_followed_is_not_guessed(name: str) -> None:
    run = _run(name)["run_config"]
    assert (run["model"], run["micro_batch"], run["seq_len"]) == (None, None, None)


def test_a_value_that_is_computed_is_unknown_and_the_others_stand() -> None:
    entry = _run("computed")
    run = entry["run_config"]
    assert (run["model"], run["seq_len"], run["micro_batch"]) == ("llama3 8B", None, None)
    assert "length_of" in next(item["reason"] for item in entry["unknowns"] if item["field"] == "seq_len")


def test_a_registry_of_another_module_is_not_taken() -> None:
    assert _run("small", module="qwen3")["run_config"]["model"] is None
    assert _run("small", module="titan.models.llama3")["run_config"]["model"] == "llama3 8B"
