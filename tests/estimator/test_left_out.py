"""A word that a run leaves out: what is expected lies between the runs that say it, and the floor below all of theirs.

Two kinds of word. Some have a value where nobody writes them (checkpointing is off, there is one GPU): leaving them out
is writing that. The others are open, and the estimate may not know better than the runs that say them.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyzer.errors import InputError
from estimator.api import RunConfig
from estimator.estimation import estimate
from estimator.report import Interval
from estimator.sourced import Origin

OPEN: dict[str, tuple[Any, ...]] = {
    "precision": ("fp32", "amp-bf16", "pure-bf16", "bf16-master"),
    # One that keeps no gradients (LOMO) has to be named: nobody runs it without saying so.
    "optimizer": ("adamw", "sgd", "sgd-momentum", "adamw-8bit", "adafactor", "lion", "adamw-paged", "adagrad"),
    "optimizer_impl": ("foreach", "fused", "loop"),
    "attention": ("eager", "sdpa", "flash"),
    "micro_batch": (1, 2, 4),
    "seq_len": (64, 512, 1024, 2048),
    "lora_rank": (8, 16, 64),
    "lora_targets": (["q_proj", "v_proj"], ["all-linear"]),
    "sharded_load": (True, False),
    "sp_degree": (1, 2),
}
DEFAULTS: dict[str, Any] = {
    "grad_accum": 1, "dora": False, "ema": False, "objective": "sft", "bucket_view": False, "offload": "none",
    "grad_checkpointing": "none", "compile": False, "optimizer_in_backward": False, "tp_degree": 1, "pp_degree": 1,
    "cp_degree": 1, "nodes": 1, "loss_impl": "full", "packing": True, "method": "full", "companion_params": 0,
    "kv_cache_dtype": "bf16", "engine_share": 0.0,
}  # fmt: skip
MODELS = (
    "meta-llama/Llama-2-7b-hf", "meta-llama/Meta-Llama-3-8B", "google/gemma-2-9b", "gpt2", "bert-base-uncased",
    "google/flan-t5-base", "state-spaces/mamba-2.8b-hf", "mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen2-VL-7B-Instruct",
    "resnet50", "google/vit-base-patch16-224", "stabilityai/stable-diffusion-xl-base-1.0",
)  # fmt: skip
EXTRA: dict[str, tuple[Any, ...]] = {
    "grad_checkpointing": ("none", "full"), "method": ("full", "lora", "qlora"), "grad_accum": (1, 4),
    "objective": ("sft", "dpo"), "ema": (False, True), "num_gpus": (1, 8), "sharding": ("ddp", "zero2", "fsdp"),
    "tp_degree": (1, 2), "offload": ("none", "optimizer"), "task": ("train", "infer"),
}  # fmt: skip
ROUNDING = 2**20


def peak(fields: dict[str, Any]) -> Interval | None:
    """None where no run can be so."""
    try:
        found = estimate(
            RunConfig.from_document({"gpu": "A100-80GB", **fields}, Origin("test")), with_suggestions=False
        )
    except InputError:
        return None
    return found.peak


def runs() -> st.SearchStrategy[dict[str, Any]]:
    words = {name: st.sampled_from(values) for name, values in (OPEN | EXTRA).items()}
    return st.fixed_dictionaries({"model": st.sampled_from(MODELS)}, optional=words)


def without(run: dict[str, Any], name: str) -> dict[str, Any]:
    """A rank or a target describes adapters: where they are left out, the method must be said."""
    kept = {word: value for word, value in run.items() if word != name}
    if name in ("lora_rank", "lora_targets"):
        kept.setdefault("method", "lora")
    return kept


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(run=runs(), name=st.sampled_from(sorted(OPEN)))
def test_what_is_left_out_lies_between_what_it_may_be(run: dict[str, Any], name: str) -> None:
    base = without(run, name)
    absent, said = peak(base), [found for value in OPEN[name] if (found := peak({**base, name: value})) is not None]
    if absent is None or not said:
        return
    assert absent.floor <= min(found.floor for found in said) + ROUNDING
    assert (
        min(found.point for found in said) - ROUNDING <= absent.point <= max(found.point for found in said) + ROUNDING
    )


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(run=runs(), name=st.sampled_from(sorted(DEFAULTS)))
def test_a_word_with_a_default_may_be_left_out(run: dict[str, Any], name: str) -> None:
    base = without(run, name)
    if name == "method" and base.keys() & {"lora_rank", "lora_targets"}:
        return  # which say it
    assert peak(base) == peak({**base, name: DEFAULTS[name]})


@pytest.mark.parametrize("gpu", ["A100-80GB", "H100-80GB", "T4"])
def test_the_optimizers_implementation_lies_between(gpu: str) -> None:
    """The run that showed it: lists in the step hid what the loss needs, and the middle fell below every value."""
    run = {"model": "meta-llama/Llama-2-7b-hf", "micro_batch": 1, "seq_len": 2048, "gpu": gpu, "optimizer": "adamw"}
    run["precision"] = "pure-bf16"
    points = [found.point for impl in OPEN["optimizer_impl"] if (found := peak({**run, "optimizer_impl": impl}))]
    absent = peak(run)
    assert absent is not None
    assert min(points) < absent.point < max(points)
