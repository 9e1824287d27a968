"""The matrix of options and kinds of run: what an option says is in the estimate, or a line says that it is not."""

from __future__ import annotations

from typing import Any

import pytest

from analyzer.errors import InputError
from estimator.contradictions import contradictions
from estimator.estimation import estimate
from estimator.idle import NEUTRAL
from estimator.models.choose import choose_model
from estimator.options import parse_words
from estimator.runconfig import RunConfig
from estimator.sourced import Origin, Sourced, Unknown
from estimator.vocabulary import WORDS, word_for_field

LLAMA = {
    "model": "meta-llama/Llama-2-7b-hf", "micro_batch": 2, "seq_len": 2048, "gpu": "H100-80GB",
    "precision": "pure-bf16", "optimizer": "adamw",
}  # fmt: skip
SHARED = {**LLAMA, "num_gpus": 8}
SERVED = {"model": LLAMA["model"], "micro_batch": 1, "gpu": "H100-80GB", "precision": "pure-bf16"}
RUNS: dict[str, dict[str, Any]] = {
    "full": LLAMA,
    "lora": {**LLAMA, "method": "lora"},
    "qlora": {**LLAMA, "method": "qlora"},
    "freeze": {**LLAMA, "method": "freeze"},
    "ddp": {**SHARED, "sharding": "ddp"},
    "zero1": {**SHARED, "sharding": "zero1"},
    "fsdp": {**SHARED, "sharding": "fsdp"},
    "tensor parallel": {**SHARED, "tp_degree": 4, "sharding": "ddp"},
    "8-bit": {**LLAMA, "optimizer": "adamw-8bit"},
    "offload": {**LLAMA, "offload": "optimizer"},
    "generate": {**SERVED, "task": "generate", "max_context": 4096},
    "infer": {**SERVED, "task": "infer", "seq_len": 4096},
    "cnn": {"model": "resnet50", "micro_batch": 32, "image_size": 224, "gpu": "A100-80GB", "precision": "amp-bf16"},
    "vit": {"model": "google/vit-base-patch16-224", "micro_batch": 32, "image_size": 224, "gpu": "A100-80GB"},
    "encoder": {"model": "bert-base-uncased", "micro_batch": 32, "seq_len": 128, "gpu": "T4"},
    "relative": {"model": "microsoft/deberta-v3-base", "micro_batch": 32, "seq_len": 128, "gpu": "T4"},
    "encoder-decoder": {"model": "google/flan-t5-base", "micro_batch": 8, "seq_len": 512, "gpu": "A100-80GB"},
    "recurrent": {"model": "state-spaces/mamba-2.8b-hf", "micro_batch": 2, "seq_len": 1024, "gpu": "A100-80GB"},
    "experts": {**SHARED, "model": "mistralai/Mixtral-8x7B-v0.1", "sharding": "fsdp"},
    "diffusion": {"model": "stabilityai/stable-diffusion-xl-base-1.0", "micro_batch": 1, "image_size": 1024,
                  "gpu": "A100-80GB"},
    "image and text": {"model": "Qwen/Qwen2-VL-7B-Instruct", "micro_batch": 1, "seq_len": 2048, "gpu": "H100-80GB"},
    "size alone": {"params": "7B", "micro_batch": 1, "seq_len": 1024, "gpu": "H100-80GB"},
}  # fmt: skip
VALUES: dict[str, tuple[str, ...]] = {
    "params": ("1B", "20B"), "micro_batch": ("1", "4"), "grad_accum": ("1", "8"), "seq_len": ("32", "64"),
    "packing": ("true", "false"), "max_context": ("32", "64"), "image_size": ("224", "448"), "frames": ("9", "49"),
    "precision": ("fp32", "pure-bf16"), "optimizer": ("adamw", "sgd", "lomo"),
    "optimizer_impl": ("foreach", "fused", "loop"),
    "method": ("full", "lora"), "lora_rank": ("8", "512"), "lora_targets": ("q_proj", "all-linear"),
    "dora": ("true", "false"), "trained_layers": ("1", "4"), "objective": ("sft", "dpo", "ppo", "grpo"),
    "companion_params": ("1B", "4B"), "ema": ("true", "false"), "engine_share": ("0.1", "0.5"),
    "quantization": ("nf4", "int8"), "sharding": ("none", "zero3", "fsdp"), "bucket_view": ("true", "false"),
    "sharded_load": ("true", "false"), "tp_degree": ("1", "8"), "pp_degree": ("1", "2"), "cp_degree": ("1", "2"),
    "sp_degree": ("1", "2", "4"), "ep_degree": ("1", "2", "8"), "num_gpus": ("8", "16"), "nodes": ("1", "2"),
    "offload": ("none", "params"), "grad_checkpointing": ("none", "selective", "core-attention", "full"),
    "attention": ("eager", "sdpa", "flash"), "compile": ("true", "false"), "optimizer_in_backward": ("true", "false"),
    "loss_impl": ("full", "chunked", "fused"), "kv_cache_dtype": ("fp16", "fp8"),
}  # fmt: skip
FLOOR_ONLY = {"packing"}
"""Words that no likeliest reading shows: `test_rows_that_may_be_short_count_short_in_the_floor` has what they move."""
EXEMPT = {"model", "task", "gpu", "gpu_memory"}
"""Which run it is and what it is on, rather than how it goes."""
COUNTS = {"num_gpus", "nodes"}
"""How many ranks there are, which changes one rank's memory only where something is shared."""


def typed(fields: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in fields.items():
        word = word_for_field(name)
        assert word is not None
        words += [f"{word.options[0]}={value}"] if word.is_flag else [word.options[0], str(value)]
    return words


def answer(fields: dict[str, Any]) -> tuple[Any, str]:
    """Everything that a number could show in, and every line said; an error is an answer."""
    try:
        run = parse_words(typed(fields))
        found = estimate(run, with_suggestions=False)
    except InputError as error:
        return str(error), str(error)
    said = "\n".join([*found.reasons, *found.unknowns])
    said += "".join(" ".join(item.words) for item in contradictions(run, choose_model(run)))
    terms = tuple((moment.name, term) for moment in found.timeline for term in moment.terms)
    return (found.peak, terms, found.targets), said


def test_every_option_is_in_the_matrix() -> None:
    assert set(VALUES) | EXEMPT == {word.name for word in WORDS if word.options}


@pytest.mark.parametrize("kind", RUNS)
def test_an_option_counts_or_a_line_says_that_it_does_not(kind: str) -> None:
    silent = []
    for name, values in VALUES.items():
        answers = [answer({**RUNS[kind], name: value}) for value in values]
        reads_text = "seq_len" in RUNS[kind]
        if len({found for found, _ in answers}) > 1 or name in COUNTS or (name in FLOOR_ONLY and reads_text):
            continue
        for value, (_, said) in zip(values, answers, strict=True):
            is_neutral = str(NEUTRAL.get(name)).lower() == value
            if not is_neutral and name not in said:
                silent.append(f"{name} {value}")
    assert silent == []


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_without_idle_options_says_nothing_of_them(kind: str) -> None:
    _, said = answer(RUNS[kind])
    assert "not counted" not in said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"trained_layers": 2, "method": "full"},
            "trained_layers 2 is not counted: the rest is not frozen",
        ),
        ({"dora": "true", "method": "freeze"}, "dora is not counted: no adapters of low rank are trained"),
        ({"optimizer": "sgd", "optimizer_impl": "fused"}, "optimizer_impl fused is not counted: it says nothing about"),
        ({"task": "infer", "ema": "true", "grad_accum": 4}, "grad_accum 4 and ema are not counted: nothing is trained"),
        ({"image_size": 224}, "image_size 224x224 is not counted: the model reads no image"),
        ({"attention": "flash", "precision": "fp32"}, "FlashAttention computes in 16 bits alone"),
        ({"attention": "flash_attention_2", "precision": "fp16", "gpu": "T4"}, "does not run on NVIDIA T4"),
    ],
)
def test_the_line_names_the_option_and_the_reason(fields: dict[str, Any], said: str) -> None:
    assert said in answer({**LLAMA, **fields})[1]


@pytest.mark.parametrize("attention", ["xformers", "flex", "sdpa"])
def test_other_kernels_run_anywhere(attention: str) -> None:
    assert "Flash" not in answer({**LLAMA, "attention": attention, "precision": "fp32", "gpu": "T4"})[1]


@pytest.mark.parametrize(
    ("packing", "is_low"),
    [(None, False), (True, False), (False, True), (Unknown("padding is not known", (False, True)), True)],
)
def test_rows_that_may_be_short_count_short_in_the_floor(packing: Any, is_low: bool) -> None:
    """A length is what a run reaches; only where nothing fills the samples up to it may they all be short."""
    run = parse_words(typed({**LLAMA, "micro_batch": 16, "seq_len": 4096}))
    said = RunConfig() if packing is None else RunConfig(packing=Sourced(packing, Origin("train.py")))
    full, found = (estimate(one, with_suggestions=False).peak for one in (run, run.overridden_by(said)))
    assert full is not None
    assert found is not None
    assert (found.floor < 0.7 * full.floor) == is_low
    assert (found.point, found.high) == (full.point, full.high)


@pytest.mark.parametrize(
    ("fields", "method"), [({"dora": "true"}, "lora"), ({"lora_rank": 16}, "lora"), ({"trained_layers": 2}, "freeze")]
)
def test_a_word_of_one_method_says_the_method(fields: dict[str, Any], method: str) -> None:
    assert answer({**LLAMA, **fields})[0] == answer({**LLAMA, **fields, "method": method})[0]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": "gpt2", "seq_len": 2048}, "2048 tokens are beyond the 1024 positions of the model's table"),
        ({"model": "openai/clip-vit-base-patch32", "seq_len": 128}, "beyond the 77 positions"),
        ({"model": "roberta-base", "seq_len": 513}, "beyond the 512 positions"),
        ({"model": "facebook/bart-base", "seq_len": 1025}, "beyond the 1024 positions"),
        ({"num_gpus": 8, "tp_degree": 3}, "8 GPUs are not divisible by 3 (tensor parallel)"),
        ({"num_gpus": 1, "tp_degree": 8}, "1 GPU is not divisible by 8"),
        ({"model": "mistralai/Mixtral-8x7B-v0.1", "num_gpus": 8, "ep_degree": 3}, "8 GPUs are not divisible by 3"),
        ({"model": "mistralai/Mixtral-8x7B-v0.1", "num_gpus": 16, "ep_degree": 16}, "8 experts are not divisible"),
        ({"pp_degree": 64}, "32 layers are fewer than 64 pipeline stages"),
        ({"method": "freeze", "trained_layers": 64}, "32 layers are fewer than the 64 that are to be trained"),
        ({"method": "full", "quantization": "nf4"}, "weights stored as nf4 are frozen"),
        ({"optimizer": "lomo", "grad_accum": 4}, "LOMO steps inside backward"),
        ({"micro_batch": 0}, "micro_batch must be a whole number from 1"),
        ({"micro_batch": -1}, "micro_batch must be a whole number from 1"),
        ({"micro_batch": 2**20, "seq_len": 2**20}, "more than 1 PiB"),
        ({"seq_len": 0}, "seq_len must be a whole number from 1"),
        ({"lora_rank": 0}, "lora_rank must be a whole number from 1"),
        ({"engine_share": 1}, "must be a share of the card"),
    ],
)
def test_what_no_run_can_be_is_an_error_where_it_is_typed(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        estimate(parse_words(typed({**LLAMA, **fields})), with_suggestions=False)
    assert said in str(caught.value)
