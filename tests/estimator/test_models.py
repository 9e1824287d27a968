"""Which model a name means, and the table behind it."""

from __future__ import annotations

import pytest

from estimator.api import estimate_words
from estimator.models.known import find_model, nearest_models
from estimator.models.resembling import decoders_near, transformers_near
from estimator.tables import rows


def test_every_row_can_be_found_by_its_id() -> None:
    kinds = {"decoder", "encdec", "encoder", "vit"}
    found = [find_model(row["hf_id"]) for row in rows("models")]
    known = [facts for facts in found if facts is not None]
    assert len(known) > 250
    assert {facts.kind for facts in known} == kinds
    assert all(facts.params > facts.embedding_params > 0 for facts in known if facts.kind == "decoder")


def test_the_shape_of_dense_decoders_adds_up_to_their_size() -> None:
    """Matrices of the layers against the counted parameters: a wrong width would show here."""
    for row in rows("models"):
        facts = find_model(row["hf_id"])
        is_said = row["params_verified"] == "True" or row["note"].endswith("set by hand")
        if facts is None or facts.kind != "decoder" or facts.experts or not is_said:
            continue
        if facts.parts:  # their parts are traced in test_families.py
            continue
        counted = facts.block_params - (facts.tower.params if facts.tower else 0)
        attention = 2 * facts.hidden * (facts.q_width + facts.kv_width)
        layer = attention + (3 if facts.is_gated else 2) * facts.hidden * facts.ffn
        assert facts.layers * layer == pytest.approx(counted, rel=0.12), facts.id


def test_the_shape_of_what_was_set_by_hand_adds_up_to_its_size() -> None:
    """The same for encoders and image transformers, whose parameters were counted in their class."""
    checked = 0
    for row in rows("models"):
        facts = find_model(row["hf_id"])
        if facts is None or facts.kind not in ("encoder", "vit") or not row["note"].endswith("set by hand"):
            continue
        layer = (
            4 * facts.hidden**2 + (3 if facts.is_gated or "Modern" in row["family"] else 2) * facts.hidden * facts.ffn
        )
        assert facts.layers * layer == pytest.approx(facts.params - facts.vocab * facts.hidden, rel=0.06), facts.id
        checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("gpt2", "openai-community/gpt2"),
        ("bert-base-uncased", "google-bert/bert-base-uncased"),
        ("Qwen/Qwen2-7B-Instruct", "Qwen/Qwen2-7B"),
        ("someone/LLAMA-2-7B", "meta-llama/Llama-2-7b-hf"),
    ],
)
def test_a_model_trained_otherwise_has_the_same_shape(name: str, listed: str) -> None:
    one, other = find_model(name), find_model(listed)
    assert one is not None
    assert other is not None
    assert (one.params, one.layers, one.hidden, one.vocab) == (other.params, other.layers, other.hidden, other.vocab)


def test_a_larger_sibling_is_not_the_same_model() -> None:
    assert find_model("meta-llama/Llama-2-8b-hf") is None
    assert "meta-llama/Llama-2-7b-hf" in [
        name.replace("NousResearch", "meta-llama") for name in nearest_models("Llama-2-8b-hf")
    ]


@pytest.mark.parametrize(
    ("name", "stored_as"), [("Qwen/Qwen2.5-7B-Instruct-AWQ", "int4"), ("x/Qwen3-8B-FP8", "fp8"), ("gpt2", None)]
)
def test_the_id_says_how_a_checkpoint_is_stored(name: str, stored_as: str | None) -> None:
    facts = find_model(name)
    assert facts is not None
    assert facts.stored_as == stored_as


def test_a_quantised_checkpoint_is_not_estimated_as_a_16_bit_one() -> None:
    words = ["L4", "--mode", "generate", "--max-context", "4096", "--precision", "bf16"]
    plain = estimate_words([*words, "--model", "Qwen/Qwen2.5-32B-Instruct"])
    stored = estimate_words([*words, "--model", "Qwen/Qwen2.5-32B-Instruct-AWQ"])
    assert plain.verdict == "exceeds"
    assert stored.verdict != "exceeds"


def test_a_size_alone_means_several_public_shapes() -> None:
    shapes = decoders_near(7_000_000_000)
    assert len({(facts.layers, facts.hidden) for facts in shapes}) >= 3
    assert {facts.params for facts in shapes} == {7_000_000_000}
    assert all(facts.is_guessed for facts in shapes)


@pytest.mark.parametrize(
    ("name", "dense", "shared"),
    [
        ("deepseek-ai/DeepSeek-V2", 1, 2 * 1536),
        ("deepseek-ai/DeepSeek-V2-Lite", 1, 2 * 1408),
        ("deepseek-ai/DeepSeek-V3", 3, 2048),
        ("moonshotai/Kimi-K2-Instruct", 1, 2048),
        ("Qwen/Qwen1.5-MoE-A2.7B", 0, 5632),
        ("Qwen/Qwen3-30B-A3B", 0, 0),
        ("mistralai/Mixtral-8x7B-v0.1", 0, 0),
        ("openai/gpt-oss-20b", 0, 0),
    ],
)
def test_counts_tell_dense_layers_and_shared_experts(name: str, dense: int, shared: int) -> None:
    """As the publishers' configurations have them: first_k_dense_replace, n_shared_experts x moe_intermediate_size."""
    facts = find_model(name)
    assert facts is not None
    assert (facts.dense_layers, facts.shared_ffn) == (dense, shared)


def test_every_token_passes_the_shared_experts_too() -> None:
    facts = find_model("deepseek-ai/DeepSeek-V2-Lite")
    assert facts is not None
    assert facts.active_ffn == pytest.approx((26 * (6 + 2) * 1408 + 10944) / 27)


def test_no_decoder_has_no_parameters() -> None:
    assert decoders_near(0) == []
    assert transformers_near(0) == []


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("meta-lama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("someone/Llama-2-7b-chat", "meta-llama/Llama-2-7b-chat-hf"),
        ("meta-llama/Llama-2-7b-hf", None),
        ("meta-llama/Llama-2-7b-chat-hf", None),
        ("Llama-2-7b-hf", None),
        ("nobody/nothing-like-it", None),
    ],
)
def test_a_model_of_another_owner_is_said_to_be_taken_for_the_listed_one(name: str, listed: str | None) -> None:
    answer = estimate_words(["A100-80GB", "--method", "lora", "--micro-batch", "1", "--model", name])
    said = [reason for reason in answer.reasons if "taken for" in reason]
    assert said == ([f"{name} is not listed: taken for {listed}, of the same name"] if listed else [])
