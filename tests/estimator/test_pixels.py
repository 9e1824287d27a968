"""Diffusion networks: found by id, counted by latent positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from estimator import changes
from estimator.api import Estimate, RunConfig
from estimator.estimation import estimate
from estimator.memory import activations, candidates
from estimator.models import pixels
from estimator.models.choose import choose_model
from estimator.sourced import Origin
from estimator.tables import rows

VIDEO = {"model": "Lightricks/LTX-Video", "task": "train", "precision": "pure-bf16", "micro_batch": 1,
         "image_size": [49, 512, 768], "optimizer": "adamw", "grad_checkpointing": "true"}  # fmt: skip


def peak(**words: Any) -> Estimate:
    return estimate(RunConfig.from_document({**VIDEO, **words}, Origin("test")), with_suggestions=False)


def point(**words: Any) -> int:
    allocated = peak(**words).allocated
    assert allocated is not None
    return allocated.point


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Lightricks/LTX-Video", "LTX-Video"), ("THUDM/CogVideoX-5b", "CogVideoX-5b"),
        ("THUDM/CogVideoX-2b", "CogVideoX-2b"), ("hunyuanvideo-community/HunyuanVideo", "HunyuanVideo"),
        ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "Wan 2.1 1.3B"), ("Wan-AI/Wan2.1-T2V-14B", "Wan 2.1 14B"),
        ("black-forest-labs/FLUX.1-dev", "FLUX.1"), ("stabilityai/stable-diffusion-xl-base-1.0", "SDXL"),
        ("CompVis/stable-diffusion-v1-4", "Stable Diffusion 1"), ("amused/amused-512", "aMUSEd 512"),
        ("black-forest-labs/FLUX.2-klein-base-4B", "FLUX.2 klein 4B"), ("black-forest-labs/FLUX.2-dev", "FLUX.2 dev"),
        ("black-forest-labs/FLUX.2-klein-9B", "FLUX.2 klein 9B"),
        ("stabilityai/stable-diffusion-3-medium", "Stable Diffusion 3 medium"),
        ("stabilityai/stable-diffusion-3.5-large", "Stable Diffusion 3.5 large"),
        ("stabilityai/stable-diffusion-3.5-medium", "Stable Diffusion 3.5 medium"),
        ("stabilityai/stable-diffusion-2-1", "Stable Diffusion 2"),
        ("PixArt-alpha/PixArt-XL-2-1024-MS", "PixArt-alpha"),
        ("PixArt-alpha/PixArt-Sigma-XL-2-1024-MS", "PixArt-Sigma"), ("DiT-XL/2", "DiT-XL/2"), ("SiT-B/4", "DiT-B/4"),
        ("facebook/DiT-XL-2-256", "DiT-XL/2 of diffusers"), ("models/DiT-S/8", "DiT-S/8"),
    ],
)  # fmt: skip
def test_an_id_names_a_network(name: str, found: str) -> None:
    net = pixels.find(name)
    assert net is not None
    assert net.name == found


@pytest.mark.parametrize(
    "name",
    ["black-forest-labs/FLUX.3-dev", "meta-llama/Llama-2-7b-hf", "gpt2", "wan", "microsoft/dit-base", "edit-xl/2"],
)
def test_other_ids_name_none(name: str) -> None:
    assert pixels.find(name) is None


def test_a_video_of_49_frames_has_7_latent_ones() -> None:
    net = pixels.find("Lightricks/LTX-Video")
    assert net is not None
    assert net.positions(512, 768, 49) == 7 * 16 * 24


def test_every_count_is_there_and_checkpointing_keeps_less() -> None:
    for row in rows("pixels"):
        net = pixels.find(row["name"].lower().replace(" ", "-")) or pixels._net(row)
        assert 0 < net.held < net.frozen.kept <= net.trained.kept <= net.mixed.kept, net.name
        assert net.trained.block < net.trained.kept, net.name


def test_more_frames_and_no_checkpointing_cost_memory() -> None:
    assert point(image_size=[97, 512, 768]) > point()
    assert point(grad_checkpointing="false") > point()
    assert point(method="lora", lora_rank=8) < point()


def test_unknown_frames_and_precision_are_said_and_widen() -> None:
    known, open_ = peak().peak, peak(image_size=None, precision=None)
    assert known is not None
    assert open_.peak is not None
    assert {"image size", "frames of a video", "precision"} <= {text.partition(": ")[0] for text in open_.unknowns}
    assert open_.peak.high / open_.peak.low > known.high / known.low


def test_a_materialised_attention_map_costs_its_square() -> None:
    words = {"model": "CompVis/stable-diffusion-v1-4", "image_size": 512, "grad_checkpointing": "false"}
    assert point(**words, attention="eager") - point(**words, attention="sdpa") > 2**30


def test_the_words_of_the_prompt_are_positions_where_they_pass_through_the_blocks() -> None:
    flux, wan = pixels.find("black-forest-labs/FLUX.1-dev"), pixels.find("Wan-AI/Wan2.1-T2V-14B")
    assert flux is not None
    assert wan is not None
    assert flux.positions(512, 512, 1) == 32 * 32 + 512
    assert wan.positions(480, 832, 81) == 30 * 52 * 21
    assert flux.trained.kept * (64 * 64 + 512) == pytest.approx(10_263_192 * 64 * 64)  # as it was traced


def test_adapters_under_autocast_keep_wide_norms() -> None:
    """Traced: group and layer norms of a frozen 16-bit network are computed, and kept, in fp32 under autocast."""
    traced = [row for row in rows("pixels") if row["kept_frozen_mixed"]]
    assert len(traced) > 10
    assert all(float(row["kept_frozen_mixed"]) > float(row["kept_frozen"]) for row in traced)
    adapters = {"model": "runwayml/stable-diffusion-v1-5", "method": "lora", "precision": "pure-fp16",
                "image_size": 512, "grad_checkpointing": "none", "attention": "sdpa"}  # fmt: skip
    run = RunConfig.from_document({**VIDEO, **adapters}, Origin("test"))
    one = candidates.typical(candidates.choices(run, choose_model(run).readings), "")
    kept = {is_mixed: activations.saved(replace(one, autocasts=is_mixed)).kept for is_mixed in (False, True)}
    assert kept == {False: 4096 * 195271, True: 4096 * 279012}


def test_what_is_fp32_in_any_case_does_not_double() -> None:
    words = {"model": "amused/amused-256", "precision": "fp32", "image_size": 256, "grad_checkpointing": "none"}
    run = RunConfig.from_document({**VIDEO, **words}, Origin("test"))
    one = candidates.typical(candidates.choices(run, choose_model(run).readings), "")
    assert activations.saved(one).kept == 256 * 3270104 < 256 * 2 * 1903336


def test_a_pipeline_makes_the_picture_at_its_size() -> None:
    """Three maps of 256 channels (traced: 402.7 MB above the weights at 512 x 512 in fp16)."""
    words = {"model": "runwayml/stable-diffusion-v1-5", "task": "infer", "precision": "pure-fp16", "image_size": 512}
    found = peak(**words, method=None, optimizer=None, grad_checkpointing=None)
    assert found.moment == "picture"
    (made,) = [term.num_bytes for term in found.terms if term.name == "picture being decoded"]
    assert made == 512 * 512 * 3 * 256 * 2


ADAPTERS = [  # rank 1; what peft puts on diffusers' own classes, with the matrices of each level, text and picture
    ("stabilityai/stable-diffusion-xl-base-1.0", None, 1_451_520),
    ("stabilityai/stable-diffusion-xl-base-1.0", ["to_q"], 332_800),
    ("stabilityai/stable-diffusion-xl-base-1.0", ["to_q", "to_k", "to_v", "to_out.0"], 1_451_520),
    ("stabilityai/stable-diffusion-xl-base-1.0", ["attn2.to_k", "attn2.to_v"], 2 * (10 * 2688 + 60 * 3328)),
    ("stabilityai/stable-diffusion-xl-base-1.0", ["ff.net.0.proj"], 748_800),
    ("stabilityai/stable-diffusion-xl-base-1.0", ["all-linear"], 2_706_176),
    ("runwayml/stable-diffusion-v1-5", None, 199_296),
    ("runwayml/stable-diffusion-v1-5", ["q_proj", "v_proj"], 199_296),  # none of its names: what scripts adapt
    ("runwayml/stable-diffusion-v1-5", ["conv_in"], 4 * 9 + 320),
    ("black-forest-labs/FLUX.1-dev", ["attn.to_q", "attn.to_out.0"], (57 + 19) * 2 * 3072),
    ("black-forest-labs/FLUX.1-dev", [f"single_transformer_blocks.{at}.attn.to_q" for at in (0, 7)], 2 * 2 * 3072),
    ("black-forest-labs/FLUX.1-dev", [f"single_transformer_blocks.{at}.attn.to_q" for at in range(50)], 38 * 2 * 3072),
    ("Wan-AI/Wan2.1-T2V-14B", None, 3_276_800),
    ("black-forest-labs/FLUX.2-dev", None, 8 * 8 * 2 * 6144 + 48 * (6144 + 55296 + 24576 + 6144)),  # fused
]  # fmt: skip


@pytest.mark.parametrize(("model", "targets", "each"), ADAPTERS)
@pytest.mark.parametrize("rank", [4, 16])
def test_adapters_are_those_of_the_layers_that_are_named(
    model: str, targets: list[str] | None, each: int, rank: int
) -> None:
    run = RunConfig.from_document(
        {"model": model, "method": "lora", "lora_rank": rank, "task": "train"}
        | ({} if targets is None else {"lora_targets": targets}),
        Origin("test"),
    )
    setup = candidates.typical(candidates.choices(run, choose_model(run).readings), "")
    assert setup.trainable_params == rank * each


def test_magnitudes_are_outputs() -> None:
    words = {"model": "runwayml/stable-diffusion-v1-5", "method": "lora", "lora_rank": 4, "lora_targets": ["conv_in"]}
    run = RunConfig.from_document({**words, "dora": True, "task": "train"}, Origin("test"))
    setup = candidates.typical(candidates.choices(run, choose_model(run).readings), "")
    assert setup.trainable_params == 4 * (4 * 9 + 320) + 320


def test_every_network_has_its_layers() -> None:
    """Weights of the listed layers are most of a network's, and no more than all."""
    for row in rows("pixels"):
        net = pixels._net(row)
        layers = pixels._layers()[net.name.partition("/")[0]]
        is_papers = "by the paper's layers" in net.source  # its conditioning is one matrix less a block
        held = sum(each.inputs * each.outputs * each.count for each in layers)
        assert 0.95 * net.params < held < net.params * (1.16 if is_papers else 1), net.name
        assert net.adapted("attention"), net.name


def test_names_of_its_layers_are_known_and_others_are_said() -> None:
    words = {"model": "stabilityai/stable-diffusion-xl-base-1.0", "method": "lora", "lora_rank": 4, "image_size": 512}
    assert "no module name" not in "".join(peak(**words, lora_targets=["conv_shortcut"]).reasons)
    assert "'banana' is no module name" in "".join(peak(**words, lora_targets=["banana"]).reasons)


def test_the_adapters_that_are_suggested_are_on_modules_it_has() -> None:
    run = RunConfig.from_document(
        {"model": "stabilityai/stable-diffusion-xl-base-1.0", "task": "train"}, Origin("test")
    )
    edits = [change.edit for group in changes.changes(run) for change in group if "lora_targets" in change.edit]
    net = pixels.find("sdxl")
    assert net is not None
    assert edits
    assert all(net.adapted(",".join(edit["lora_targets"])) for edit in edits)
