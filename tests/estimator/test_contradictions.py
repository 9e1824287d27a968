"""Words that cannot all be true are named, and what is merely unusual or unsaid is not."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.api import RunConfig
from estimator.estimation import estimate
from estimator.sourced import Origin

LLAMA = "meta-llama/Llama-2-7b-hf"


NOT_GIVEN = object()


def reasons(**fields: Any) -> str:
    given = {"model": LLAMA, "micro_batch": 1, "seq_len": 512, "gpu": "A100-80GB", **fields}
    words = {name: value for name, value in given.items() if value is not NOT_GIVEN}
    found = estimate(RunConfig.from_document(words, Origin("test")), with_suggestions=False).reasons
    verdicts = ("most likely too large", "nobody says over how many GPUs")  # why it is not said to fit: no doubt
    return "\n".join(reason for reason in found if not reason.startswith(verdicts))


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("1025 tokens are beyond the 1024 positions", {"model": "openai-community/gpt2", "seq_len": 1025}),
        ("8192 tokens are beyond the 4096 positions that the model was trained on; it runs", {"seq_len": 8192}),
        ("513 tokens are beyond the 512 positions of the model's table", {"model": "roberta-base", "seq_len": 513}),
        ("1025 tokens are beyond the 1024 positions of the model's table",
         {"model": "facebook/bart-base", "seq_len": 1025}),
        ("449 tokens are beyond the 448 positions of its decoder's table",
         {"model": "openai/whisper-small", "seq_len": 449}),
        ("384 pixels are beyond the 224 that the model's positions are for",
         {"model": "google/vit-base-patch16-224", "seq_len": NOT_GIVEN, "image_size": 384}),
        ("6 GPUs are not divisible by 4 (expert parallel)",
         {"model": "mistralai/Mixtral-8x7B-v0.1", "num_gpus": 6, "ep_degree": 4}),
        ("8 experts are not divisible by 16",
         {"model": "mistralai/Mixtral-8x7B-v0.1", "num_gpus": 16, "ep_degree": 16}),
        ("over the 4 tensor-parallel ranks, not over 2", {"num_gpus": 4, "tp_degree": 4, "sp_degree": 2}),
        ("kept in host memory by ZeRO-3 and FSDP alone", {"sharding": "ddp", "num_gpus": 8, "offload": "params"}),
        ("the model generates no text", {"model": "bert-base-uncased", "task": "generate"}),
        ("dpo learns from answers, and the model writes none", {"model": "bert-base-uncased", "objective": "dpo"}),
        ("adapters of rank 4096 are not smaller", {"method": "lora", "lora_rank": 4096}),
        ("offload optimizer is given, and nothing is trained", {"task": "generate", "offload": "optimizer"}),
        ("T4 has 14.6 GiB; 80 GiB are given, and counted", {"gpu": "T4", "gpu_memory": 80}),
        ("of convolutions the number is rough", {"model": "resnet50", "tp_degree": 2, "num_gpus": 2}),
        ("LOMO steps inside backward", {"optimizer": "lomo", "grad_accum": 2}),
        ("resnet50 has 25.6M parameters; 7B are given, and not counted", {"model": "resnet50", "params": "7B"}),
        ("zero3 on one GPU shards nothing", {"sharding": "zero3", "num_gpus": 1}),
        ("fsdp on one rank shards nothing", {"sharding": "fsdp", "num_gpus": 8, "tp_degree": 8}),
        ("8 GPUs are not divisible by 3 (tensor parallel)", {"num_gpus": 8, "tp_degree": 3}),
        ("6 GPUs are not divisible by 2 (tensor parallel) x 2 (pipeline parallel)",
         {"num_gpus": 3, "nodes": 2, "tp_degree": 2, "pp_degree": 2}),
        ("8 data-parallel ranks are not divisible by a sharding degree of 3",
         {"num_gpus": 8, "sharding": "fsdp", "sharding_degree": 3}),
        ("32 attention heads are not divisible by 5", {"num_gpus": 5, "tp_degree": 5}),
        ("32 layers are fewer than 64 pipeline stages", {"num_gpus": 8, "nodes": 8, "pp_degree": 64}),
        ("no experts to spread over 8 ranks", {"num_gpus": 8, "ep_degree": 8}),
        ("weights stored as nf4 are frozen", {"method": "full", "quantization": "nf4"}),
        ("adapters are described, and the method is full", {"method": "full", "lora_rank": 8}),
        ("'banana' is no module name", {"method": "lora", "lora_targets": ["q_proj", "banana"]}),
        ("cannot accumulate over 8 micro-batches", {"optimizer_in_backward": True, "grad_accum": 8}),
        ("optimizer adamw is given, and nothing is trained", {"task": "infer", "optimizer": "adamw"}),
        ("grad_checkpointing full is given, and nothing is trained", {"task": "generate", "grad_checkpointing": True}),
        ("NVIDIA T4 has no arithmetic in bf16", {"gpu": "T4", "precision": "pure-bf16"}),
        ("NVIDIA A100 80GB SXM has no arithmetic in fp8", {"precision": "fp8"}),
        ("gpt2 has 0.124B parameters; 70B are given", {"model": "gpt2", "params": "70B"}),
        ("an image network reads no sequence", {"model": "resnet50"}),
        ("so short a sequence length is not counted", {"model": "facebook/wav2vec2-base", "seq_len": 512}),
        ("reads frames (--frames): a sequence length is not counted", {"model": "MCG-NJU/videomae-base"}),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_said(said: str, fields: dict[str, Any]) -> None:
    assert said in reasons(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"seq_len": 4096},
        {"model": "roberta-base", "seq_len": 512},
        {"gpu": "A100", "gpu_memory": 40},
        {"gpu": "T4", "gpu_memory": 16},
        {"gpu": "a card of ours", "gpu_memory": 20},
        {"model": "facebook/wav2vec2-base", "seq_len": 320_000},  # twenty seconds of sound
        {"model": "google/flan-t5-base", "seq_len": 4096},  # relative positions
        {"model": "bigscience/bloom-560m", "seq_len": 8192},  # slopes
        {"model": NOT_GIVEN, "params": "7B", "seq_len": 65536},  # nobody knows its positions
        {"model": "state-spaces/mamba-130m-hf", "seq_len": 65536},
        {"model": "google/vit-base-patch16-224", "seq_len": NOT_GIVEN, "image_size": 224},
        {"sharding": "zero3"},  # nobody wrote how many GPUs
        {"sharding": "zero3", "num_gpus": 1, "nodes": 4},
        {"sharding": "fsdp", "num_gpus": 8, "sharding_degree": 4},
        {"num_gpus": 8, "tp_degree": 4, "pp_degree": 2},
        {"sharding": "zero3", "num_gpus": 8, "nodes": None},  # somebody wrote the nodes, and it cannot be read
        {"num_gpus": None, "tp_degree": 4},
        {"model": "mistralai/Mixtral-8x7B-v0.1", "num_gpus": 8, "ep_degree": 8},
        {"method": "lora", "lora_rank": 8, "lora_targets": ["all-linear"]},
        {"method": "lora", "lora_targets": [r"^model\.layers\.\d+\.self_attn\.(q|v)_proj$", "lm_head"]},
        {"model": "meta-llama/Llama-2-7b-hf", "params": "7B"},
        {"task": "generate", "quantization": "nf4", "precision": "fp8", "gpu": "H100"},
        {"task": "generate", "precision": "fp8"},  # stored so, computed otherwise
        {"gpu": "T4", "precision": "amp-fp16"},
        {"gpu": "MI300X", "precision": "fp8"},
        {"optimizer": "adamw", "grad_accum": 8, "grad_checkpointing": True},
        {"model": "resnet50", "seq_len": NOT_GIVEN},
    ],
)
def test_what_can_be_true_is_not_doubted(fields: dict[str, Any]) -> None:
    assert reasons(**fields) == ""


@pytest.mark.parametrize(
    ("fields", "least"),
    [
        ({"sharding": "fsdp"}, 5.0),
        ({"sharding": "zero3", "num_gpus": None}, 5.0),
        ({"sharding": "fsdp", "num_gpus": 8, "nodes": None}, 5.0),
        ({"num_gpus": None}, 5.0),  # nobody says that it does not shard
        ({"sharding": "none", "num_gpus": None}, 25.0),
        ({"sharding": "ddp", "num_gpus": None}, 25.0),
        ({"sharding": "fsdp", "num_gpus": 1}, 25.0),
        ({"sharding": "zero2", "num_gpus": None}, 12.0),  # whose weights are whole
    ],
)
def test_how_many_ranks_share_is_not_guessed_for_the_floor(fields: dict[str, Any], least: float) -> None:
    """Weights, gradients and state in 16 bits: what one rank must hold is next to nothing where there may be many."""
    words = {"model": LLAMA, "micro_batch": 1, "seq_len": 64, "gpu": "T4", "precision": "pure-bf16", **fields}
    found = estimate(RunConfig.from_document(words, Origin("test")), with_suggestions=False)
    assert found.peak is not None
    assert least - 5.0 < found.peak.floor / 2**30 < least + 5.0
    assert (found.verdict == "exceeds") == (least > 20)
