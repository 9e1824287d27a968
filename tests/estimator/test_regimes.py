"""The words of docs/how-it-works/regimes.md: which terms each alters, and by how many bytes, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from estimator.api import Estimate, RunConfig
from estimator.estimation import estimate
from estimator.memory import activations, candidates, loss, weights
from estimator.memory.setup import Setup
from estimator.memory.timeline import timeline
from estimator.models.choose import choose_model
from estimator.report import Moment
from estimator.sourced import Origin
from estimator.units import GIB

LLAMA = "meta-llama/Llama-2-7b-hf"
P, LAYERS, H, F, V = 6_738_415_616, 32, 4096, 11008, 32000
EMBEDDINGS = 2 * V * H
BLOCKS = P - EMBEDDINGS
BATCH, SEQ = 2, 1024
TOKENS = BATCH * SEQ
BASE = {"model": LLAMA, "task": "train", "micro_batch": BATCH, "seq_len": SEQ, "precision": "pure-bf16",
        "optimizer": "adamw", "method": "full", "attention": "sdpa", "optimizer_impl": "fused"}  # fmt: skip


def setup(**fields: Any) -> Setup:
    run = RunConfig.from_document({**BASE, **fields}, Origin("test"))
    return candidates.typical(candidates.choices(run, choose_model(run).readings), "Ampere")


def moment(name: str, **fields: Any) -> dict[str, int]:
    """Bytes of every term that lives at one moment."""
    found = next(each for each in timeline(setup(**fields)) if each.name == name)
    return {term.name: term.num_bytes for term in found.terms}


def term(name: str, at: str, **fields: Any) -> int:
    return moment(at, **fields).get(name, 0)


def answer(**fields: Any) -> Estimate:
    return estimate(RunConfig.from_document({**BASE, **fields}, Origin("test")), with_suggestions=False)


# --- the step as a timeline ---------------------------------------------------------------------------------------

MOMENTS = {
    "model load": {"weights"},
    "forward end": {"weights", "optimizer state", "saved activations", "autocast weight copies", "logits"},
    "loss forward": {"logits", "fp32 copy of the logits", "log-probabilities"},
    "loss backward": {"log-probabilities", "gradient of the logits"},
    "deepest backward": {"saved activations", "layer being differentiated", "gradient buckets"},
    "backward end": {"gradients", "gradient buckets"},
    "optimizer step": {"weights", "gradients", "optimizer state", "optimizer temporaries"},
    "evaluation": {"weights", "forward working set", "logits"},
}


def test_every_moment_has_its_terms_with_bytes_a_formula_and_a_source() -> None:
    found = answer(precision="amp-bf16", optimizer_impl="foreach", sharding="ddp", num_gpus=8).to_json()["timeline"]
    terms = {each["name"]: {term["name"]: term for term in each["terms"]} for each in found}
    assert list(terms) == list(MOMENTS)
    for name, wanted in MOMENTS.items():
        assert wanted <= terms[name].keys(), name
    assert all(term["gib"] > 0 and term["formula"] and term["source"] for each in found for term in each["terms"])


def test_sharded_training_has_units_in_flight_and_their_copies() -> None:
    at = {each.name: {term.name for term in each.terms} for each in timeline(setup(sharding="fsdp", num_gpus=8))}
    assert {"gathered parameters", "gradients in flight"} <= at["deepest backward"]
    assert "gradients in flight" in at["backward end"]


def test_generation_is_load_prefill_and_decode() -> None:
    names = [each.name for each in timeline(setup(task="generate", max_context=2048))]
    assert names == ["model load", "prefill", "decode"]


@pytest.mark.parametrize("model", ["resnet50", "google/vit-base-patch16-224", "facebook/bart-large"])
def test_other_families_are_evaluated_too(model: str) -> None:
    assert "evaluation" in [each.name for each in timeline(setup(model=model, seq_len=None))]


# --- precision ----------------------------------------------------------------------------------------------------


def test_autocast_caches_copies_until_the_forward_pass_ends_and_checkpointing_drops_them() -> None:
    name, head = "autocast weight copies", V * H
    copied = 2 * (BLOCKS + head)
    assert term(name, "loss backward", precision="amp-bf16") == copied
    checkpointed = {"precision": "amp-bf16", "grad_checkpointing": "full"}
    assert term(name, "loss forward", **checkpointed) == copied  # the cache, which needs no graph
    assert term(name, "loss backward", **checkpointed) == 2 * (BLOCKS // LAYERS + head)
    assert not term(name, "forward end", precision="pure-bf16")
    assert not term(name, "forward end", precision="amp-bf16", sharding="fsdp", num_gpus=8)  # 16-bit units instead


def test_fsdp_mixed_precision_shards_fp32_and_gathers_16_bits() -> None:
    fsdp = {"precision": "amp-bf16", "sharding": "fsdp", "num_gpus": 8}
    assert term("weights", "optimizer step", **fsdp) == P * 4 // 8
    assert term("gathered parameters", "deepest backward", **fsdp) == 2 * (2 * (BLOCKS // LAYERS) + EMBEDDINGS)


def test_logits_have_a_copy_log_probabilities_and_a_gradient() -> None:
    before, after = moment("loss forward"), moment("loss backward")
    assert (before["logits"], before["fp32 copy of the logits"]) == (TOKENS * V * 2, TOKENS * V * 4)
    assert before["log-probabilities"] == after["log-probabilities"] == TOKENS * V * 4
    assert after["gradient of the logits"] == 2 * TOKENS * V * 4  # of the log-probabilities, and of the logits
    assert "fp32 copy of the logits" not in after  # log_softmax keeps its result alone
    held = loss.held_logits(replace(setup(), holds_logits=True))
    assert (after.get("logits", 0), held.num_bytes) == (0, TOKENS * V * 2)
    shifted = loss.shifted_logits(replace(setup(), shifts_logits=True))
    assert shifted.num_bytes == TOKENS * V * (4 - 2)  # in fp32, when the 16-bit ones are gone
    old = loss.held_logits(replace(setup(), holds_logits=True, shifts_logits=True))
    assert old.num_bytes == TOKENS * V * 4
    fused = moment("loss backward", loss_impl="fused")
    assert not {name for name in fused if "logit" in name or "prob" in name}
    chunked = moment("loss backward", loss_impl="chunked")
    assert chunked["log-probabilities"] == TOKENS * V * 4 // 8


def test_fp8_training_holds_fp32_and_its_matmuls_may_keep_fp8() -> None:
    assert term("weights", "optimizer step", precision="fp8") == P * 4
    one = setup(precision="fp8")
    less = activations.layer(one).saved - activations.layer(replace(one, keeps_fp8=True)).saved
    assert less == TOKENS * (5 * H + F)  # queries', keys' and values', gate's and up's input, down's: 1 byte each


# --- optimizers ---------------------------------------------------------------------------------------------------


def test_lists_cost_a_copy_of_the_parameters_a_fused_step_nothing_a_loop_the_largest() -> None:
    name = "optimizer temporaries"
    assert term(name, "optimizer step", optimizer_impl="foreach") == P * 2
    assert term(name, "optimizer step", optimizer_impl="fused") == 0
    assert term(name, "optimizer step", optimizer_impl="loop") == 2 * V * H * 2  # a root, and that divided (traced)


def test_a_spelling_of_the_optimizer_says_how_it_steps() -> None:
    said = {name: RunConfig.from_document({"optimizer": name}, Origin("test")).optimizer_impl.value
            for name in ("adamw_torch_fused", "adamw_torch", "FusedAdam")}  # fmt: skip
    assert said == {"adamw_torch_fused": "fused", "adamw_torch": "foreach", "FusedAdam": "fused"}


ONE_LAYER = 4 * H * H + 3 * H * F  # what GaLore, Adafactor and Muon treat as matrices


@pytest.mark.parametrize(
    ("optimizer", "state"),
    [
        ("sgd", 0),
        ("sgd-momentum", 2 * P),
        ("adamw", 4 * P),
        ("lion", 2 * P),
        ("adamw-8bit", 2 * P * (1 + 4 / 256)),
        ("adamw-paged", 8 * P),
        ("muon", 2 * BLOCKS + 4 * EMBEDDINGS),  # one momentum, and Adam for embedding and head
        # a number per row and per column: four square matrices, three of the feed-forward part, and the tables
        ("adafactor", 4 * (LAYERS * (4 * 2 * H + 3 * (H + F)) + 2 * (V + H))),
        ("lomo", 0),
    ],
)
def test_state_of_every_optimizer(optimizer: str, state: float) -> None:
    assert term("optimizer state", "optimizer step", optimizer=optimizer) == pytest.approx(state, rel=0.001)


def test_galore_projects_each_matrix_to_its_rank() -> None:
    rank = 128
    square, oblong = 2 * rank * H + rank * H, 2 * rank * F + rank * H
    low = LAYERS * (4 * square + 3 * oblong)
    state = term("optimizer state", "optimizer step", optimizer="galore", lora_rank=rank)
    assert state == pytest.approx(2 * low + 4 * EMBEDDINGS, rel=0.001)
    assert state < 0.2 * term("optimizer state", "optimizer step", optimizer="adamw")


def test_a_step_in_backward_holds_one_gradient() -> None:
    assert term("gradients", "backward end", optimizer_in_backward=True) == V * H * 2
    assert term("gradients", "backward end", optimizer="lomo") == V * H * 2
    assert term("gradients", "backward end") == P * 2


def test_offload_moves_state_and_parameters_to_the_host() -> None:
    assert term("optimizer state", "optimizer step", offload="optimizer") == 0
    assert term("weights", "optimizer step", offload="both") < P * 2 / 8


# --- what is trained ----------------------------------------------------------------------------------------------


def test_a_frozen_stack_saves_nothing_below_what_is_trained() -> None:
    kept = {layers: term("saved activations", "deepest backward", method="freeze", trained_layers=layers)
            for layers in (0, 1, 2)}  # fmt: skip
    final = TOKENS * H * 4  # what the head reads
    assert kept[0] == final
    whole = activations.layer(setup()).saved
    assert kept[1] - kept[0] == kept[2] - kept[1] == int(whole)
    assert term("gradients", "backward end", method="freeze", trained_layers=2) == 2 * (2 * (BLOCKS // LAYERS) + 2 * H)


def test_adapters_save_copies_of_their_inputs_and_frozen_matrices_none() -> None:
    """LoRA on queries and values keeps h per target; the frozen matrices' inputs are not kept."""
    one = setup(method="lora", lora_rank=8, lora_targets=["q_proj", "v_proj"])
    assert activations.adapter_bytes(replace(one, adapter_copy=3)) == TOKENS * 2 * H * 3
    full = activations.layer(replace(one, method="full", adapter_copy=0)).saved
    assert activations.layer(one).saved < full


def test_dora_keeps_two_results_per_target_and_adds_a_magnitude_per_output() -> None:
    """Traced with peft 0.21: 2 + 2 bytes per output under autocast, 4 + 4 without, and a copy of the frozen matrix."""
    plain = setup(method="lora", lora_rank=8, lora_targets=["q_proj", "v_proj"])
    dora = setup(method="lora", lora_rank=8, lora_targets=["q_proj", "v_proj"], dora=True)
    assert dora.lora_params - plain.lora_params == LAYERS * 2 * H
    for copy, each, cast in ((0, 2 + 4, 0), (3, 2 + 2, 2), (5, 4 + 4, 4)):
        more = activations.adapter_bytes(replace(dora, adapter_copy=copy))
        more -= activations.adapter_bytes(replace(plain, adapter_copy=copy))
        assert more == TOKENS * 2 * H * each + 2 * H * H * cast


def test_a_method_spelled_dora_says_both() -> None:
    run = RunConfig.from_document({"method": "dora"}, Origin("test"))
    assert (run.method.value, run.dora.value) == ("lora", True)


# --- checkpointing and attention ----------------------------------------------------------------------------------


def test_megatron_recomputes_the_core_attention_alone() -> None:
    """Korthikanti et al. 2022, table 2: sbh(34 + 5as/h) becomes 34sbh; with a fused kernel there is little to free."""
    gpt = {"model": "openai-community/gpt2-xl", "precision": "pure-fp16", "seq_len": 1024}
    heads = 25
    eager = {**gpt, "attention": "eager"}
    freed = activations.saved(setup(**eager)).kept - activations.saved(
        setup(**eager, grad_checkpointing="core-attention")).kept  # fmt: skip
    per_score = 2 + 2 + 1  # softmax's result, dropout's result and its mask: 5 a s^2 b
    assert freed == 48 * TOKENS * heads * 1024 * per_score
    fused = activations.saved(setup(**gpt, grad_checkpointing="core-attention")).kept
    assert (
        activations.saved(setup(**gpt, grad_checkpointing="full")).kept < fused < activations.saved(setup(**gpt)).kept
    )


def test_grouped_keys_save_no_activations_where_they_are_written_out() -> None:
    grouped = setup(model="meta-llama/Llama-3.1-8B")
    written_out = activations.layer(replace(grouped, repeats_keys=True)).saved
    as_given = activations.layer(replace(grouped, repeats_keys=False)).saved
    assert written_out - as_given == TOKENS * 2 * 2 * (4096 - 1024)


# --- parallelism --------------------------------------------------------------------------------------------------


def test_bucket_views_save_the_second_copy_of_the_gradients() -> None:
    ddp = {"sharding": "ddp", "num_gpus": 8}
    assert term("gradient buckets", "backward end", **ddp) == P * 2
    assert term("gradient buckets", "backward end", **ddp, bucket_view=True) == 0


@pytest.mark.parametrize(
    ("words", "layer_tokens"),
    [({"cp_degree": 2}, 0.5), ({"tp_degree": 2, "sp_degree": 2}, 0.5), ({"tp_degree": 4, "sp_degree": 4}, 0.25)],
)
def test_tokens_and_widths_are_divided(words: dict[str, int], layer_tokens: float) -> None:
    whole = activations.layer(setup()).saved
    part = activations.layer(setup(num_gpus=8, **words)).saved
    assert part == pytest.approx(whole * layer_tokens, rel=0.02)


# --- beside the model ---------------------------------------------------------------------------------------------


def test_an_average_is_one_more_copy() -> None:
    assert term("moving average", "optimizer step", ema=True) == P * 2
    assert term("moving average", "optimizer step", ema=True, sharding="fsdp", num_gpus=8) == P * 2 // 8


@pytest.mark.parametrize(
    ("objective", "reference", "answers"),
    [("sft", 0, 1), ("dpo", 1, 2), ("orpo", 0, 2), ("kto", 1, 1), ("reward", 0, 2), ("ppo", 1, 1)],
)
def test_preference_losses_read_two_answers_and_some_a_reference(objective: str, reference: int, answers: int) -> None:
    at = moment("forward end", objective=objective)
    assert at.get("reference model", 0) == reference * P * 2
    assert at["saved activations"] == answers * term("saved activations", "forward end")


def test_log_probabilities_are_taken_sequence_by_sequence() -> None:
    """trl selective_log_softmax: 16-bit logits, what log_softmax keeps of each sequence, and a gradient."""
    seen = 2 * TOKENS * V  # two answers
    at = moment("loss backward", objective="dpo")
    one_sequence = seen * 2 // 4  # of two pairs, and its gradient
    assert (at["log-probabilities"], at["gradient of the logits"]) == (2 * seen, 2 * seen + 2 * one_sequence)
    assert "fp32 copy of the logits" not in at
    mixed = moment("loss backward", objective="dpo", precision="amp-bf16")
    assert (mixed["log-probabilities"], mixed["gradient of the logits"]) == (4 * seen, 2 * one_sequence)
    assert moment("reference forward", objective="dpo")["reference logits"] == seen * (2 + 2 // 4)


def test_a_reward_model_has_a_head_of_one_number() -> None:
    at = moment("loss backward", objective="reward")
    assert not {name for name in at if "logit" in name or "prob" in name}
    assert at["weights"] == (P - V * H) * 2


def test_a_critic_keeps_what_the_policy_keeps() -> None:
    at = moment("deepest backward", objective="ppo")
    assert at["critic's saved activations"] == at["saved activations"]


def test_adapters_are_their_own_reference() -> None:
    assert not term("reference model", "forward end", objective="dpo", method="lora")


def test_a_critic_is_trained_and_a_reward_model_is_not() -> None:
    at = moment("optimizer step", objective="ppo")
    assert (at["critic"], at["reward model"]) == (P * (2 + 2 + 4), P * 2)


def test_online_training_generates_between_its_steps() -> None:
    at = moment("rollout", objective="grpo")
    assert at["KV cache"] == LAYERS * 2 * H * TOKENS * 2


def test_frozen_companions_are_16_bit_weights() -> None:
    more = term("weights", "forward end", companion_params="1B") - term("weights", "forward end")
    assert more == 2 * 1_000_000_000


def test_an_engine_takes_its_share_of_the_card() -> None:
    alone, shared = answer(gpu="A100-80GB"), answer(gpu="A100-80GB", engine_share=0.3)
    assert alone.target is not None
    assert shared.target is not None
    assert alone.target.usable_bytes is not None
    assert shared.target.usable_bytes == int(alone.target.usable_bytes * 0.7)
    assert any("30%" in reason for reason in shared.reasons)


def test_samples_that_are_not_packed_may_be_short_and_the_floor_knows() -> None:
    packed, padded = (answer(packing=packing, micro_batch=8, seq_len=2048) for packing in (True, False))
    assert packed.peak is not None
    assert padded.peak is not None
    assert padded.peak.floor < packed.peak.floor
    assert padded.peak.point == packed.peak.point


def test_each_word_is_an_option() -> None:
    from estimator.options import parse_words

    words = ["--ema", "--objective", "dpo", "--optimizer-impl", "fused", "--bucket-view", "--dora", "--packing",
             "--engine-share", "0.4", "--companion-params", "7B", "--trained-layers", "2"]  # fmt: skip
    run = parse_words(words)
    assert (run.ema.value, run.objective.value, run.engine_share.value) == (True, "dpo", 0.4)
    assert (run.companion_params.value, run.trained_layers.value) == (7_000_000_000, 2)


def test_the_largest_moment_is_the_peak_whatever_is_beside() -> None:
    found: tuple[Moment, ...] = timeline(setup(objective="dpo", ema=True))
    assert max(each.num_bytes for each in found) > 5 * GIB
    assert "reference forward" in [each.name for each in found]


def test_largest_parameter_is_the_embedding_or_a_feed_forward_matrix() -> None:
    assert weights.largest_param(setup()) == V * H


def test_the_rank_of_galore_is_no_adapter() -> None:
    typed, said = (answer(optimizer="galore", lora_rank=128, method=method) for method in (None, "full"))
    assert typed.peak is not None
    assert said.peak is not None
    assert (typed.peak.low, typed.peak.point) == (said.peak.low, said.peak.point)
    assert not any("adapters are described" in reason for reason in said.reasons)


def test_magnitudes_of_adapters_contradict_full_training() -> None:
    assert any("adapters are described" in reason for reason in answer(dora=True, method="full").reasons)


def test_lion_steps_tensor_by_tensor() -> None:
    """torch.optim has none; lion-pytorch, bitsandbytes and llm-foundry update one parameter after the other."""
    assert term("optimizer temporaries", "optimizer step", optimizer="lion", optimizer_impl=None) == V * H * 2
