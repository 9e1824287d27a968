"""Words that cannot all be true are named, and what is merely unusual or unsaid is not."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.api import RunConfig
from estimator.estimation import estimate
from estimator.sourced import Origin

LLAMA = "meta-llama/Llama-2-7b-hf"


def reasons(**fields: Any) -> str:
    words = {"model": LLAMA, "micro_batch": 1, "seq_len": 512, "gpu": "A100-80GB", **fields}
    return "\n".join(estimate(RunConfig.from_document(words, Origin("test")), with_suggestions=False).reasons)


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("1025 tokens are beyond the 1024 positions", {"model": "openai-community/gpt2", "seq_len": 1025}),
        ("positions that the model has", {"seq_len": 100_000}),
        ("zero3 on one GPU shards nothing", {"sharding": "zero3", "num_gpus": 1}),
        ("fsdp on one rank shards nothing", {"sharding": "fsdp", "num_gpus": 8, "tp_degree": 8}),
        ("8 GPUs are not divisible by 3 (tensor parallel)", {"num_gpus": 8, "tp_degree": 3}),
        ("6 GPUs are not divisible by 2 (tensor parallel) x 2 (pipeline parallel)",
         {"num_gpus": 3, "nodes": 2, "tp_degree": 2, "pp_degree": 2}),
        ("8 data-parallel ranks are not divisible by a sharding degree of 3",
         {"num_gpus": 8, "sharding": "fsdp", "sharding_degree": 3}),
        ("32 attention heads are not divisible by 5", {"num_gpus": 5, "tp_degree": 5}),
        ("32 layers are fewer than 64 pipeline stages", {"num_gpus": 8, "nodes": 8, "pp_degree": 64}),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_said(said: str, fields: dict[str, Any]) -> None:
    assert said in reasons(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"seq_len": 4096},
        {"sharding": "zero3"},  # nobody wrote how many GPUs
        {"sharding": "zero3", "num_gpus": 1, "nodes": 4},
        {"sharding": "fsdp", "num_gpus": 8, "sharding_degree": 4},
        {"num_gpus": 8, "tp_degree": 4, "pp_degree": 2},
        {"sharding": "zero3", "num_gpus": 8, "nodes": None},  # somebody wrote the nodes, and it cannot be read
        {"num_gpus": None, "tp_degree": 4},
    ],
)
def test_what_can_be_true_is_not_doubted(fields: dict[str, Any]) -> None:
    assert "divisible" not in reasons(**fields)
    assert "shards nothing" not in reasons(**fields)
    assert "beyond" not in reasons(**fields)
