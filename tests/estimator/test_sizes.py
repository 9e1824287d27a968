"""How large what is read is, where nobody says it: the interval is for every size that the answer lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.estimation import estimate
from estimator.memory import candidates
from estimator.models.choose import choose_model
from estimator.models.pixels import find as find_pixels
from estimator.options import options_for
from estimator.report import Estimate
from estimator.runconfig import RunConfig
from estimator.sourced import Origin, Sourced, Unknown

HERE = Origin("test")
GPUS = ("T4", "RTX_4090", "A100-40GB", "A100-80GB", "H200")
SIZES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "gpt2": ("seq_len", (512, 1024)),
    "meta-llama/Llama-3.2-1B": ("seq_len", (512, 1024, 2048)),
    "bert-base-uncased": ("seq_len", (512,)),
    "google/flan-t5-base": ("seq_len", (512, 1024)),
    "openai/whisper-small": ("seq_len", (128, 448)),
    "google/vit-base-patch16-224": ("image_size", (224,)),
    "faster_rcnn_r50_fpn": ("image_size", ([800, 1333], 640, [900, 1600])),
    "stabilityai/stable-diffusion-xl-base-1.0": ("image_size", (512, 1024)),
    "facebook/wav2vec2-base": ("seq_len", (80_000, 160_000, 320_000)),
}
"""What a run of a model that says nothing is for, as an option would say it."""
WORDS = st.fixed_dictionaries({}, optional={
    "precision": st.sampled_from(["fp32", "amp-bf16", "pure-bf16"]), "optimizer": st.sampled_from(["sgd", "adamw"]),
    "task": st.sampled_from(["train", "infer"]), "grad_checkpointing": st.sampled_from(["none", "full"]),
    "micro_batch": st.sampled_from([1, 2, 8, 32]), "attention": st.sampled_from(["eager", "sdpa"]),
})  # fmt: skip
ROUNDING = 2**20


def answer(fields: dict[str, Any]) -> Estimate:
    return estimate(RunConfig.from_document(fields, HERE), with_suggestions=False)


@settings(max_examples=120, deadline=None)
@given(model=st.sampled_from(list(SIZES)), gpu=st.sampled_from(GPUS), words=WORDS)
def test_an_open_size_is_answered_for_every_size_that_is_listed(model: str, gpu: str, words: dict[str, Any]) -> None:
    fields = {"model": model, "gpu": gpu, **words}
    name, values = SIZES[model]
    if words.get("task") == "infer" and name == "seq_len":
        return  # of an inference other lengths are usual
    whole = answer(fields)
    listed = [answer({**fields, name: value}) for value in values]
    assert whole.peak is not None
    for each in listed:
        assert each.peak is not None
        assert whole.peak.floor <= each.peak.floor
        assert whole.peak.low <= each.peak.low + ROUNDING
        assert each.peak.high <= whole.peak.high + ROUNDING
    if whole.verdict == "fits":
        assert {each.verdict for each in listed} == {"fits"}


@pytest.mark.parametrize("batch", [2, 4])
def test_an_open_batch_holds_the_batches_it_is_for(batch: int) -> None:
    fields = {"model": "gpt2", "gpu": "T4"}
    whole, listed = answer(fields).peak, answer({**fields, "micro_batch": batch}).peak
    assert whole is not None
    assert listed is not None
    assert whole.low <= listed.low
    assert listed.high <= whole.high


def test_a_batch_that_may_be_one_of_several_fits_only_if_each_does() -> None:
    """Whatever their order: a script says (64, 8) as well as (8, 64)."""
    for plausible in ((4, 64), (64, 4)):
        document = {"model": "gpt2", "gpu": "T4", "seq_len": 512}
        open_batch: Sourced[int] = Sourced(Unknown("one of two", plausible), HERE)
        found = estimate(replace(RunConfig.from_document(document, HERE), micro_batch=open_batch)).peak
        largest = answer({**document, "micro_batch": max(plausible)}).peak
        smallest = answer({**document, "micro_batch": min(plausible)}).peak
        assert found is not None
        assert largest is not None
        assert smallest is not None
        assert (found.floor, found.low, found.high) == (smallest.floor, smallest.low, largest.high)


@pytest.mark.parametrize(
    ("model", "wanted"),
    [(model, {"seq_len": "--seq-len", "image_size": "--image-size"}[name]) for model, (name, _) in SIZES.items()],
)
def test_an_answer_asks_for_the_option_that_the_model_has(model: str, wanted: str) -> None:
    said = answer({"model": model, "gpu": "T4"})
    asked = options_for(said.unknowns)
    values = SIZES[model][1]
    if len(values) > 1:
        assert wanted in asked
    assert ({"--seq-len", "--image-size"} - {wanted}).isdisjoint(asked)
    assert "--frames" not in asked


def test_a_video_is_asked_for_its_frames() -> None:
    model = "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"
    assert find_pixels(model) is not None
    asked = options_for(answer({"model": model, "gpu": "T4"}).unknowns)
    assert {"--image-size", "--frames"} <= set(asked)
    assert "--seq-len" not in asked
    assert "--frames" in options_for(answer({"model": model, "gpu": "T4", "image_size": [480, 832]}).unknowns)


def test_what_an_interval_is_for_is_what_it_was_made_from() -> None:
    run = RunConfig.from_document({"model": "faster_rcnn_r50_fpn", "gpu": "T4"}, HERE)
    found = candidates.choices(run, choose_model(run).readings)
    assert found["image"].probable == ((800, 1344), (640, 640), (928, 1600))  # as a batch is padded
    assert "image size: the interval is for 640x640 to 928x1600" in estimate(run).unknowns
