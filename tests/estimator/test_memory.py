"""Terms against numbers worked out by hand, and properties that hold whatever the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.api import Estimate, Interval, RunConfig, estimate
from estimator.memory import activations, candidates, generation, search, weights
from estimator.memory.choice import Choices
from estimator.memory.interval import floor_bytes, reserve_of, residual_of, state_share
from estimator.memory.setup import Setup
from estimator.memory.timeline import peak, timeline
from estimator.models.choose import choose_model
from estimator.runconfig import UNSET
from estimator.sourced import Origin
from estimator.units import GIB

LLAMA = "meta-llama/Llama-2-7b-hf"
PARAMS = 6_738_415_616


def run(**fields: Any) -> RunConfig:
    return RunConfig.from_document(fields, Origin("test"))


def setup(**fields: Any) -> Setup:
    config = run(**{"model": LLAMA, "micro_batch": 1, "seq_len": 2048, "precision": "amp-bf16", **fields})
    return candidates.typical(candidates.choices(config, choose_model(config).readings), "Ampere")


@pytest.mark.parametrize(
    ("precision", "weight", "gradient", "state"),
    [("fp32", 4, 4, 8), ("amp-bf16", 4, 4, 8), ("pure-bf16", 2, 2, 4), ("fp16-master", 2, 2, 12)],
)
def test_bytes_per_parameter_of_adamw(precision: str, weight: int, gradient: int, state: int) -> None:
    one = setup(precision=precision, optimizer="adamw")
    found = (weights.weights(one), weights.gradients(one), weights.optimizer_state(one))
    assert [term.num_bytes for term in found] == [PARAMS * weight, PARAMS * gradient, PARAMS * state]


@pytest.mark.parametrize(
    ("optimizer", "per_param"),
    [("sgd", 0.0), ("sgd-momentum", 4.0), ("adamw-8bit", 2 * (1 + 4 / 256)), ("lion", 4.0)],
)
def test_state_of_other_optimizers(optimizer: str, per_param: float) -> None:
    assert weights.state_bytes_per_param(setup(optimizer=optimizer)) == pytest.approx(per_param)


@pytest.mark.parametrize(
    ("model", "published"),
    [
        (LLAMA, 4_194_304),
        ("meta-llama/Llama-2-13b-hf", 6_553_600),
        ("stabilityai/stablelm-base-alpha-3b", 2_097_152),
        ("microsoft/phi-1_5", 1_572_864),
    ],
)
def test_adapters_have_the_published_number_of_parameters(model: str, published: int) -> None:
    one = setup(model=model, method="lora", lora_rank=8, lora_targets=["q_proj", "v_proj"])
    assert one.lora_params == published


@pytest.mark.parametrize(
    ("sharding", "divided"),
    [
        ("ddp", (1, 1, 1)),
        ("zero1", (1, 1, 8)),
        ("zero2", (1, 8, 8)),
        ("zero3", (8, 8, 8)),
        ("fsdp", (8, 8, 8)),
    ],
)
def test_sharding_divides_weights_gradients_and_state(sharding: str, divided: tuple[int, int, int]) -> None:
    one = setup(sharding=sharding, num_gpus=8, optimizer="adamw")
    found = (weights.weights(one), weights.gradients(one), weights.optimizer_state(one))
    whole = (PARAMS * 4, PARAMS * 4, PARAMS * 8)
    assert [term.num_bytes for term in found] == [all_ // by for all_, by in zip(whole, divided, strict=True)]


def test_kv_cache_of_llama_2_7b_is_half_a_mib_per_token() -> None:
    one = setup(task="generate", max_context=4096, precision="pure-bf16")
    assert generation.kv_cache(one).num_bytes == 2 * GIB


def test_grouped_queries_shrink_the_cache() -> None:
    one = setup(model="meta-llama/Llama-3.1-8B-Instruct", task="generate", max_context=4096)
    assert generation.kv_cache(one).num_bytes == GIB // 2


def test_nf4_weights_are_about_half_a_byte_and_embeddings_stay() -> None:
    one = setup(method="qlora", quantization="nf4", precision="pure-bf16", lora_rank=8)
    quantised = (PARAMS - 2 * 32000 * 4096) * (0.5 + 0.5 / 32)
    adapters = one.trainable_params * 4  # peft makes them fp32
    assert weights.weights(one).num_bytes == int(quantised + 2 * 32000 * 4096 * 2 + adapters)


@pytest.mark.parametrize(
    "change",
    [
        {"checkpointing": "full"},
        {"checkpointing": "selective"},
        {"micro_batch": 2},
        {"seq_len": 1024},
        {"tp": 2},
        {"cp": 2},
        {"pp": 2},
        {"is_compiled": True},
    ],
)
def test_what_lowers_saved_activations(change: dict[str, Any]) -> None:
    one = setup(micro_batch=4)
    assert activations.saved(replace(one, **change)).kept < activations.saved(one).kept


def test_eager_attention_is_quadratic_and_flash_is_not() -> None:
    long, short = setup(seq_len=4096, attention="eager"), setup(seq_len=2048, attention="eager")
    assert activations.layer(long).saved > 2.5 * activations.layer(short).saved
    long, short = replace(long, attention="flash"), replace(short, attention="flash")
    assert activations.layer(long).saved == pytest.approx(2 * activations.layer(short).saved)


def test_the_peak_is_the_largest_moment_not_a_sum() -> None:
    moments = timeline(setup(optimizer="adamw"))
    names = [moment.name for moment in moments]
    assert names == ["model load", "forward end", "loss forward", "loss backward", "deepest backward", "backward end",
                     "optimizer step", "evaluation"]  # fmt: skip
    assert peak(moments).num_bytes == max(moment.num_bytes for moment in moments)
    everything = {term.name: term.num_bytes for moment in moments for term in moment.terms}
    assert peak(moments).num_bytes < sum(everything.values())


def test_gradients_live_through_forward_when_accumulating() -> None:
    def at_forward_end(accumulation: int) -> list[str]:
        moments = timeline(setup(grad_accum=accumulation))
        return [term.name for moment in moments if moment.name == "forward end" for term in moment.terms]

    assert "gradients" not in at_forward_end(1)
    assert "gradients" in at_forward_end(4)


DOCUMENTS = st.fixed_dictionaries(
    {"model": st.sampled_from([LLAMA, "gpt2", "bert-base-uncased", "Qwen/Qwen3-30B-A3B", "google/gemma-2-2b"])},
    optional={
        "task": st.sampled_from(["train", "infer", "generate"]),
        "micro_batch": st.integers(1, 64),
        "seq_len": st.integers(1, 8192),
        "precision": st.sampled_from(["fp32", "amp-bf16", "pure-bf16", "fp16-master", "fp8"]) | st.none(),
        "optimizer": st.sampled_from(["adamw", "sgd", "adamw-8bit", "muon", "adafactor"]) | st.none(),
        "method": st.sampled_from(["full", "lora", "qlora", "freeze", "other"]),
        "quantization": st.sampled_from(["nf4", "int8"]) | st.none(),
        "sharding": st.sampled_from(["none", "ddp", "zero1", "zero2", "zero3", "fsdp"]) | st.none(),
        "num_gpus": st.integers(1, 16),
        "tp_degree": st.integers(1, 8),
        "pp_degree": st.integers(1, 4),
        "offload": st.sampled_from(["none", "optimizer", "params", "both"]) | st.none(),
        "grad_checkpointing": st.sampled_from(["none", "selective", "full"]) | st.none(),
        "attention": st.sampled_from(["eager", "sdpa", "flash"]) | st.none(),
        "compile": st.booleans() | st.none(),
        "loss_impl": st.sampled_from(["full", "chunked", "fused"]) | st.none(),
    },
)


@settings(max_examples=120, deadline=None)
@given(DOCUMENTS)
def test_the_ends_are_in_order_and_the_three_numbers_too(document: dict[str, Any]) -> None:
    result = estimate(run(**document, gpu_memory="80GiB"))
    for interval in (result.allocated, result.reserved, result.peak):
        assert interval is not None
        assert 0 <= interval.floor <= interval.low <= interval.point <= interval.high
    assert result.allocated is not None
    assert result.reserved is not None
    assert result.peak is not None
    assert result.allocated.point <= result.reserved.point < result.peak.point


def numbers(result: Estimate) -> tuple[int, int, int]:
    assert result.peak is not None
    return result.peak.floor, result.peak.low, result.peak.high


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS, st.sampled_from(["precision", "optimizer", "grad_checkpointing", "attention", "offload", "sharding"]))
def test_not_knowing_never_raises_the_floor(document: dict[str, Any], word: str) -> None:
    if document.get(word) is None:
        return
    known = numbers(estimate(run(**document)))
    unsure = numbers(estimate(run(**{**document, word: None})))
    assert unsure[0] <= known[0]


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS)
def test_a_larger_batch_never_needs_less(document: dict[str, Any]) -> None:
    batch = document.get("micro_batch", 1)
    small = estimate(run(**{**document, "micro_batch": batch})).peak
    large = estimate(run(**{**document, "micro_batch": batch * 2})).peak
    assert small is not None
    assert large is not None
    assert small.floor <= large.floor
    assert small.point <= large.point
    assert small.high <= 1.3 * large.high  # a larger batch may hide what another open word adds: effects add by squares


def test_the_floor_of_tensor_parallel_training_spreads_the_residual_stream() -> None:
    """Nobody wrote whether the sequence is parallel too: torchtitan always does it, so such a run is not blocked."""
    words = {"model": "meta-llama/Llama-3.1-70B", "task": "train", "micro_batch": 16, "seq_len": 8192, "tp_degree": 8,
             "sharding": "fsdp", "sharding_degree": 32, "num_gpus": 256, "grad_checkpointing": "full",
             "precision": "amp-bf16", "optimizer": "adamw", "method": "full"}  # fmt: skip
    run = RunConfig.from_document(words, Origin("test"))
    found = candidates.choices(run, choose_model(run).readings)
    start = candidates.typical(found, "")
    assert search.cheapest(start, found, floor_bytes).sp == 8
    megatron = candidates.choices(replace(run, sharding=UNSET), choose_model(run).readings)
    assert (megatron["sp"].probable, megatron["sp"].cheapest) == ((8, 1), (8,))


def choices_of(**words: Any) -> Choices:
    run = RunConfig.from_document({"model": "meta-llama/Llama-2-7b-hf", **words}, Origin("test"))
    return candidates.choices(run, choose_model(run).readings)


def test_what_the_host_holds_depends_on_who_moves_it() -> None:
    """``cpu`` is the optimizer's state for DeepSpeed, everything for FSDP, and the weights where nothing is trained."""
    assert choices_of(task="train", offload="cpu", sharding="zero2")["offload"].typical == "optimizer"
    assert choices_of(task="train", offload="cpu", sharding="fsdp", num_gpus=8)["offload"].cheapest == ("both",)
    assert choices_of(task="generate", offload="cpu")["offload"].typical == "params"


def test_experts_may_be_on_other_ranks_and_the_floor_takes_it() -> None:
    words = {"model": "mistralai/Mixtral-8x7B-v0.1", "task": "train", "method": "full", "num_gpus": 8}
    assert choices_of(**words, sharding="zero1")["ep"].cheapest == (8,)
    assert choices_of(**words, sharding="zero1", ep_degree=4)["ep"].typical == 4
    assert choices_of(**words, sharding="fsdp")["ep"].typical == 1
    whole = candidates.typical(choices_of(**words, sharding="zero1", ep_degree=1), "")
    spread = candidates.typical(choices_of(**words, sharding="zero1", ep_degree=8), "")
    assert spread.block_params < whole.block_params / 4
    assert weights.optimizer_state(spread).num_bytes == weights.optimizer_state(whole).num_bytes


def cache_of(model: str, context: int) -> tuple[int, int]:
    """Point and floor of the KV cache for one sequence, in bytes."""
    found = choices_of(model=model, task="generate", max_context=context, micro_batch=1, precision="pure-bf16")
    term = generation.kv_cache(candidates.typical(found, ""))
    return term.num_bytes, term.floor_bytes


def test_a_latent_cache_holds_one_vector_per_token_and_layer() -> None:
    """DeepSeek-V2 (2024), section 2.1: 512 compressed and 64 rotary dimensions for 60 layers of 128 heads."""
    assert cache_of("deepseek-ai/DeepSeek-V2", 1000) == (60 * 576 * 1000 * 2, 60 * 576 * 1000 * 2)
    found = choices_of(model="deepseek-ai/DeepSeek-V2", task="generate", max_context=1000, micro_batch=1)
    assert found["expands_latent"].probable == (False, True)


def test_layers_without_a_cache_or_with_a_window_are_not_in_the_floor() -> None:
    assert cache_of("Qwen/Qwen3-Next-80B-A3B-Instruct", 1000)[0] == 12 * 1024 * 1000 * 2
    point, floor = cache_of("google/gemma-2-9b", 8192)
    assert point == 42 * 4096 * 8192 * 2
    assert floor == 21 * 4096 * (8192 + 4096) * 2


def test_fsdp_without_synchronisation_holds_whole_gradients_of_all_that_shares_a_unit() -> None:
    sharded = {"sharding": "fsdp", "num_gpus": 4, "precision": "pure-bf16", "grad_checkpointing": True}
    full = replace(setup(**sharded), whole_gradients=True)
    assert weights.accumulating_gradients(full).num_bytes == 2 * PARAMS  # of 16 bits, on every rank
    assert weights.accumulating_gradients(full).floor_bytes == 2 * PARAMS // 4
    assert weights.gradients(full).num_bytes == 2 * PARAMS // 4  # and a quarter each once they are reduced
    lora = replace(setup(**sharded, method="lora"), whole_gradients=True)
    assert weights.accumulating_gradients(lora).num_bytes == 2 * lora.block_params  # the head's unit has no adapter
    assert weights.accumulating_gradients(replace(lora, whole_gradients=False)).num_bytes == 4 * lora.lora_params // 4


def test_a_softmax_of_old_keeps_its_input_beside_its_result() -> None:
    eager = setup(model="google-bert/bert-base-uncased", seq_len=512, attention="eager")
    scores = eager.tokens * eager.facts.heads * eager.seq_len * 4  # in fp32, under autocast too
    more = activations.layer(replace(eager, keeps_scores=True)).saved - activations.layer(eager).saved
    assert more == scores


@pytest.mark.parametrize(
    ("model", "typical", "is_even"),
    [("google-bert/bert-base-uncased", True, False), (LLAMA, True, True), ("Lightricks/LTX-Video", False, False)],
)
def test_lists_of_all_parameters_are_the_default_where_no_framework_asks_for_more(
    model: str, typical: bool, is_even: bool
) -> None:
    config = run(model=model, micro_batch=1)
    found = candidates.choices(config, choose_model(config).readings)["has_foreach_step"]
    assert (found.typical, found.is_even) == (typical, is_even)


def test_the_allocator_holds_more_the_more_of_the_peak_is_state() -> None:
    wide = setup(micro_batch=32, grad_checkpointing=False)
    narrow = setup(micro_batch=1, grad_checkpointing=True)
    assert state_share(narrow) > state_share(wide)
    assert reserve_of(narrow).point > reserve_of(wide).point > 1
    assert reserve_of(replace(narrow, task="infer")) == residual_of("reserved-over-allocated")
    assert reserve_of(replace(narrow, method="lora")) == residual_of("reserved-adapter")


def test_a_kind_of_run_without_rows_has_the_residual_of_the_wider_kind() -> None:
    assert residual_of("adapter-by-post") == residual_of("adapter")
    assert residual_of("video") == residual_of("all")


def test_whether_gradients_are_whole_is_open_only_where_fsdp_shards_them() -> None:
    def offered(**fields: Any) -> tuple[Any, ...]:
        config = run(model=LLAMA, micro_batch=1, seq_len=512, **fields)
        return candidates.choices(config, choose_model(config).readings)["whole_gradients"].probable

    fsdp = {"sharding": "fsdp", "num_gpus": 2}
    assert offered(**fsdp, method="lora") == (False, True)
    assert offered(**fsdp, grad_accum=8) == (False, True)
    config = run(model=LLAMA, micro_batch=1, seq_len=512, **fsdp, grad_accum=None)  # somebody wrote it
    assert candidates.choices(config, choose_model(config).readings)["whole_gradients"].is_even
    assert not offered(**fsdp, method="qlora")  # 4-bit storage and adapters cannot share a flat parameter
    assert not offered(sharding="zero3", num_gpus=2)
    assert not offered(sharding="fsdp", num_gpus=1)


def test_a_decoder_beside_an_encoder_reads_fewer_tokens_and_both_are_counted() -> None:
    one = setup(model="facebook/bart-large", seq_len=1024, precision="pure-bf16", attention="sdpa")
    assert (one.seq_len, one.target_len, one.facts.layers, one.facts.decoder_layers) == (1024, 128, 24, 12)
    alone = activations.layer(one).saved
    kept = activations.saved(one).kept
    longer = activations.saved(replace(one, target_len=1024)).kept
    assert 12 * alone < kept < 2 * 12 * alone < longer
    keys_and_values = 2 * one.facts.hidden * 2 * 1024  # of the encoder's result, for each decoder layer
    assert longer > 2 * 12 * alone + 12 * keys_and_values


def test_speech_is_padded_to_half_a_minute_whatever_the_text_is() -> None:
    one = setup(model="openai/whisper-small", seq_len=200)
    assert (one.seq_len, one.target_len) == (1500, 200)
    found = estimate(run(model="openai/whisper-small", micro_batch=8, gpu="T4", precision="fp16"))
    assert found.peak is not None
    assert "resemble" not in found.model.source


def test_a_dropout_inside_the_mlp_costs_its_mask() -> None:
    one = setup(model="google-t5/t5-base", seq_len=512, precision="fp32")
    assert one.facts.drops_ffn
    more = (
        activations.layer(one).saved - activations.layer(replace(one, facts=replace(one.facts, drops_ffn=False))).saved
    )
    assert more == one.tokens * one.facts.ffn * (1 + 4)  # and what it dropped from: the ReLU's result is another tensor


def test_offload_where_the_sharding_cannot_be_read_may_be_of_the_parameters_too() -> None:
    words = {"model": LLAMA, "task": "train", "offload": "optimizer"}
    floors = {
        name: estimate(run(**words, sharding=sharding)).peak for name, sharding in (("unread", None), ("fsdp", "fsdp"))
    }
    assert floors["unread"] is not None
    assert floors["fsdp"] is not None
    assert floors["unread"].floor <= floors["fsdp"].floor


def test_a_learned_bias_is_kept_per_layer_beside_fused_attention() -> None:
    one = setup(model="google-t5/t5-base", seq_len=512, attention="sdpa")
    more = activations.layer(one).saved
    less = activations.layer(replace(one, facts=replace(one.facts, biases_scores=False))).saved
    assert more - less == one.tokens * one.facts.heads * one.seq_len * 2


def test_selective_checkpointing_keeps_every_other_matmul_and_attention() -> None:
    one = setup(model="meta-llama/Llama-3.1-8B", precision="pure-bf16", grad_checkpointing="selective")
    hidden, queries, values, gate = 4096, 4096, 1024, 14336
    kept = hidden + queries + values + gate + hidden + queries  # its input, wq, wv, w1, w2 and attention
    assert activations.layer(one).matmuls == one.tokens * 2 * kept


def test_a_tied_head_may_be_loaded_apart_from_a_checkpoint_in_fp8() -> None:
    """Published ones list it beside the embedding: the floor does not count on it, the point stands between."""

    def words(model: str, precision: str) -> Interval:
        said = {"model": model, "task": "generate", "max_context": 2048, "micro_batch": 1, "precision": precision}
        peak = estimate(run(**said)).peak
        assert peak is not None
        return peak

    head = 2 * 151_936 * 2560
    tied = candidates.choices(run(model="Qwen/Qwen3-4B", task="generate", precision="fp8"),
                              choose_model(run(model="Qwen/Qwen3-4B")).readings)["unties"]  # fmt: skip
    assert (tied.typical, tied.probable, tied.is_even) == (False, (False, True), True)
    assert words("Qwen/Qwen3-4B", "fp8").high - words("Qwen/Qwen3-4B", "fp8").floor > head
    for model, precision in (("Qwen/Qwen3-4B", "pure-bf16"), ("Qwen/Qwen3-8B", "fp8")):  # not in fp8; not tied
        found = candidates.choices(run(model=model, task="generate", precision=precision),
                                   choose_model(run(model=model)).readings)["unties"]  # fmt: skip
        assert found.probable in ((), (False,))


def test_a_prompt_is_read_at_once_and_the_rest_token_by_token() -> None:
    one = setup(task="generate", precision="pure-bf16", seq_len=6144, max_context=8192)
    whole = setup(task="generate", precision="pure-bf16", seq_len=8192)
    assert (one.prompt_share, whole.prompt_share) == (0.75, 0.0)
    read = activations.layer(one)
    share = generation.forward_working_set(one).num_bytes
    assert share == int(0.75 * (read.transient + 2 * read.boundary))


def test_eager_attention_has_scores_their_softmax_and_that_cast_back_at_once() -> None:
    """Llama's code computes the softmax in fp32: 2 + 4 + 2 bytes per head and pair of tokens."""
    one = setup(task="generate", precision="pure-bf16", max_context=2048, attention="eager")
    assert activations.layer(one).transient == 2048 * (32 * 2048 * 8 + 2 * 2 * 4096)
