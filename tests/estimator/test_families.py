"""Model families whose layers are no plain attention and feed-forward: what they keep, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from estimator.api import RunConfig, estimate
from estimator.memory import activations, candidates, generation, recurrent
from estimator.memory.setup import Setup
from estimator.models.choose import choose_model
from estimator.models.known import find_model
from estimator.sourced import Origin

SEQ, BATCH = 512, 2


def run(model: str, **fields: Any) -> RunConfig:
    words = {"task": "train", "micro_batch": BATCH, "seq_len": SEQ, "precision": "pure-bf16", "optimizer": "adamw",
             "method": "full", "attention": "sdpa", **fields}  # fmt: skip
    return RunConfig.from_document({"model": model, **words}, Origin("test"))


def setup(model: str, **fields: Any) -> Setup:
    found = run(model, **fields)
    return candidates.typical(candidates.choices(found, choose_model(found).readings), "")


def kept(model: str, *parts: str, **fields: Any) -> float:
    """Bytes per token of a layer, or of one made of some of its parts."""
    one = replace(setup(model, **fields), repeats_keys=True)  # as the CPU that traced does
    if parts:
        one = replace(one, facts=replace(one.facts, parts=tuple((name, 1) for name in parts), layers=1))
    return activations.layer(one).saved / one.tokens


def test_mamba_keeps_its_projection_its_states_and_what_it_gives() -> None:
    """mamba-2.8b: h 2560, inner 5120, state 16, rank 160; MambaInnerFn with checkpoint_lvl 1."""
    scan = 2 * (2 * 5120 + 5120 + 160 + 4 * 16) + 8 * 16 * 5120 / SEQ  # a chunk of 2,048 positions holds all 512
    norm = 2560 * (4 + 2 + 2)  # in fp32, normalised, and once more for the projection
    assert kept("state-spaces/mamba-2.8b-hf") == scan + norm


def test_mamba_2_keeps_its_projection_and_what_it_scanned() -> None:
    """mamba2-2.7b: inner 5120, one group of 128 states, 80 heads."""
    assert kept("state-spaces/mamba2-2.7b") == 2 * (2 * 5120 + 2 * 128 + 80 + 5120) + 4 + 2560 * 8


@pytest.mark.parametrize(
    ("model", "parts", "traced"),
    [
        ("state-spaces/mamba-2.8b-hf", (), 52_932),
        ("tiiuae/falcon-mamba-7b", (), 84_612),
        ("state-spaces/mamba2-2.7b", (), 51_880),
        ("ai21labs/Jamba-v0.1", ("recurrence", "mlp"), 299_796),
        ("ai21labs/Jamba-v0.1", ("recurrence", "moe"), 447_384),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", ("recurrence", "moe"), 292_060),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", ("attention", "moe"), 267_940),
        ("Qwen/Qwen3.5-27B", ("recurrence", "mlp"), 408_593),
        ("Qwen/Qwen3.5-27B", ("attention", "mlp"), 386_306),
        ("ibm-ai-platform/Bamba-9B-v1", ("recurrence", "mlp"), 230_668),
        ("tiiuae/Falcon-H1-7B-Base", (), 186_472),
        ("nvidia/Nemotron-H-8B-Base-8K", ("recurrence",), 94_516),
        ("nvidia/Nemotron-H-8B-Base-8K", ("mlp",), 126_996),
        ("nvidia/Nemotron-H-8B-Base-8K", ("attention",), 74_900),
    ],
)
def test_a_layer_of_each_hybrid_keeps_what_was_traced(model: str, parts: tuple[str, ...], traced: int) -> None:
    """Traced in transformers 5.24 with `estimator/calibration/kernels.py`, per token of two rows of 512 in bf16."""
    assert kept(model, *parts) == pytest.approx(traced, rel=0.04)


@pytest.mark.parametrize(
    ("model", "precision", "length", "traced"),
    [
        ("microsoft/deberta-v3-base", "fp32", 512, 170_898),
        ("microsoft/deberta-v3-base", "fp32", 256, 149_011),
        ("microsoft/deberta-v3-base", "amp-bf16", 512, 110_974),
        ("microsoft/deberta-v3-base", "amp-bf16", 256, 92_140),
    ],
)
def test_relative_positions_keep_their_scores(model: str, precision: str, length: int, traced: int) -> None:
    assert kept(model, precision=precision, seq_len=length) == pytest.approx(traced, rel=0.06)


@pytest.mark.parametrize(
    ("model", "precision", "traced"),
    [
        ("google/vit-base-patch16-224", "fp32", 49_221),
        ("google/vit-base-patch16-224", "amp-bf16", 30_738),
        ("facebook/dinov2-base", "fp32", 55_365),
        ("facebook/dinov2-base", "amp-bf16", 33_816),
        ("facebook/dinov3-vitb16-pretrain-lvd1689m", "fp32", 58_434),
        ("facebook/dinov3-vitb16-pretrain-lvd1689m", "amp-bf16", 35_343),
    ],
)
def test_image_encoders_keep_what_was_traced(model: str, precision: str, traced: int) -> None:
    assert kept(model, precision=precision, image_size=224, seq_len=None) == pytest.approx(traced, rel=0.06)


def test_attention_layers_alone_have_a_cache_and_the_others_a_state() -> None:
    one = setup("ai21labs/Jamba-v0.1", task="generate", max_context=4096, micro_batch=1)
    assert generation.kv_cache(one).num_bytes == 4 * 2 * 8 * 128 * 4096 * 2
    assert generation.recurrent_state(one).num_bytes == 28 * 8192 * 16 * 2
    pure = setup("state-spaces/mamba-2.8b-hf", task="generate", max_context=4096, micro_batch=1)
    assert generation.kv_cache(pure).num_bytes == 0


def test_a_hybrid_has_an_interval_of_its_kind() -> None:
    found = estimate(run("nvidia/Nemotron-H-8B-Base-8K")).peak
    assert found is not None
    assert found.high / found.low < 2
    assert not find_model("nvidia/Nemotron-H-8B-Base-8K").is_guessed  # type: ignore[union-attr]


def test_latent_attention_keeps_the_product_its_keys_and_values_come_from() -> None:
    one = setup("deepseek-ai/DeepSeek-V2")
    queries, values = 128 * 192, 128 * 128
    streams = 2 * (2 * queries + 128 * (128 + 128) + values) + (1536 + 576) * (4 + 2 + 2)
    assert activations._latent_streams(one) == streams


def test_an_image_encoder_in_front_is_counted_where_it_is_trained() -> None:
    """LLaVA 1.5: 24 layers of 1,024 over (336/14)^2 + 1 patches."""
    one = setup("llava-hf/llava-1.5-7b-hf")
    assert one.trains_tower
    tower = one.facts.tower
    assert tower is not None
    assert (tower.layers, tower.hidden, (tower.image // tower.patch) ** 2 + 1) == (24, 1024, 577)
    per_token = 1024 * (2 * (2 + 2) + 4 * 2) + 16 * 4 + 2 * 2 * 4096  # norms and results, attention, feed-forward
    assert activations.tower_bytes(one) == 24 * BATCH * 577 * per_token
    assert activations.tower_bytes(setup("llava-hf/llava-1.5-7b-hf", method="lora")) == 0


@pytest.mark.parametrize(
    "model",
    [
        "gpt2", "meta-llama/Llama-3.1-8B", "google/gemma-2-9b", "Qwen/Qwen2.5-7B", "mistralai/Mixtral-8x7B-v0.1",
        "deepseek-ai/DeepSeek-V3", "state-spaces/mamba-130m-hf", "ai21labs/Jamba-v0.1", "bert-base-uncased",
        "roberta-base", "microsoft/deberta-v3-base", "distilbert-base-uncased", "google/vit-base-patch16-224",
        "openai/clip-vit-base-patch32", "facebook/dinov2-base", "facebook/dino-vitb16", "t5-small",
        "facebook/bart-base",
        "openai/whisper-small", "resnet50", "convnext_tiny", "efficientnet_b0", "yolov5s", "maskrcnn_resnet50_fpn",
        "runwayml/stable-diffusion-v1-5", "stabilityai/stable-diffusion-xl-base-1.0", "black-forest-labs/FLUX.1-dev",
        "llava-hf/llava-1.5-7b-hf", "Qwen/Qwen2-VL-7B-Instruct", "google/paligemma-3b-pt-224",
    ],
)  # fmt: skip
def test_every_family_of_the_issue_gets_a_number(model: str) -> None:
    found = estimate(RunConfig.from_document({"model": model, "micro_batch": 2}, Origin("test")))
    assert found.peak is not None, found.reasons


def test_a_state_is_as_large_as_its_channels_and_what_each_holds() -> None:
    facts = find_model("Qwen/Qwen3.5-27B")
    assert facts is not None
    assert recurrent.state_bytes(facts, 2) == 48 * 128 * 128 * 4  # heads, values and keys of each, in fp32
