"""A what-if gives the numbers that the suggestion promised, and says what it changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from analyzer.errors import InputError
from estimator.api import RunConfig, estimate, what_if
from estimator.sourced import Origin

RUNS: list[dict[str, Any]] = [
    {"model": "meta-llama/Llama-2-7b-hf", "micro_batch": 8, "seq_len": 2048, "precision": "amp-bf16",
     "optimizer": "adamw", "attention": "eager", "num_gpus": 8, "sharding": "ddp", "gpu": "A100-40GB"},
    {"model": "gpt2-xl", "micro_batch": 4, "seq_len": 1024, "precision": "amp-bf16", "optimizer": "adamw", "gpu": "T4"},
    {"model": "meta-llama/Llama-2-7b-hf", "task": "generate", "micro_batch": 16, "max_context": 4096, "gpu": "A10G"},
    {"model": "gpt2-xl", "micro_batch": 8, "seq_len": 1024, "gpu": "T4", "gpu_memory": "8GiB"},
]  # fmt: skip


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['model']}-{run['gpu']}")
def test_an_edit_gives_the_peak_that_its_suggestion_promised(run: dict[str, Any]) -> None:
    config = RunConfig.from_document(run, Origin("test"))
    suggested = estimate(config).to_json()["suggestions"]
    assert len(suggested) >= 2
    for item in suggested:
        assert item["edit"]
        entry = json.loads(json.dumps(config.to_entry()))
        found = what_if(entry, json.loads(json.dumps(item["edit"]))).to_json()
        assert (item["change"], found["peak_gib"]) == (item["change"], item["peak_gib"])
        assert (item["change"], found["verdict"]) == (item["change"], item["verdict"])


def test_a_changed_input_says_what_it_overrides() -> None:
    entry = RunConfig.from_document({"model": "gpt2", "micro_batch": 4}, Origin("--bs 4", "run.sh", 7)).to_entry()
    lines = {line.name: line.origin for line in what_if(entry, {"micro_batch": 2}).inputs}
    assert lines["micro_batch"] == "what if, overrides run.sh:7 (--bs 4)"
    assert lines["model"] == "run.sh:7 (--bs 4)"


@pytest.mark.parametrize("edit", [{"micro_batch": 0}, {"gpu": "Voodoo2"}, {"precision": "fp7"}])
def test_a_value_that_no_run_can_have_is_refused(edit: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        what_if({"model": "gpt2", "micro_batch": 4, "gpu": "T4"}, edit)


@pytest.mark.parametrize(("card", "half"), [("V100", "fp16"), ("A10G", "bf16"), ("L4", "bf16")])
def test_weights_are_offered_in_the_half_precision_that_the_card_has(card: str, half: str) -> None:
    run = {"model": "mistralai/Mistral-7B-v0.1", "micro_batch": 1, "seq_len": 512, "precision": "fp32", "task": "infer"}
    found = estimate(RunConfig.from_document({**run, "gpu": card}, Origin("test"))).to_json()["suggestions"]
    (offered,) = (item for item in found if item["change"] == f"load the weights in {half}")
    assert offered["edit"] == {"precision": f"pure-{half}"}


@pytest.mark.parametrize("card", ["T4", "V100", "g4dn.xlarge"])
def test_no_training_in_bf16_is_offered_to_a_card_without_it(card: str) -> None:
    run = {"model": "gpt2-xl", "micro_batch": 8, "seq_len": 1024, "precision": "fp32", "gpu": card}
    found = estimate(RunConfig.from_document(run, Origin("test"))).to_json()["suggestions"]
    assert found
    assert "bf16" not in json.dumps(found)
