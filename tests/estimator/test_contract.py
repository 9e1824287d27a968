"""The JSON of ``preflight estimate`` is the contract of DESIGN section 7, field by field, for every kind of answer."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from estimator.api import RunConfig, estimate
from estimator.sourced import Origin

VERDICT = {"enum": ["fits", "exceeds", "borderline", "unknown"]}
TEXT = {"type": "string", "minLength": 1}
GIB = {"type": "number", "minimum": 0}
SIGNED = {"type": "number"}
"""A row may take away: where measured runs lie below computed ones."""


def closed(**properties: Any) -> dict[str, Any]:
    """An object with exactly these fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [{"type": "null"}, schema]}


def list_of(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


TARGET = {"name": TEXT, "count": {"type": "integer", "minimum": 1}, "usable_gib": {"type": ["number", "null"]}}
INTERVAL = closed(floor=GIB, low=GIB, point=GIB, high=GIB)
CONTRACT = closed(
    version={"const": 1},
    verdict=VERDICT,
    model=closed(id={"type": ["string", "null"]}, params={"type": ["integer", "null"]}, source={"type": "string"}),
    target=or_null(closed(**TARGET)),
    targets=list_of(closed(**TARGET, verdict=VERDICT)),
    peak_gib=or_null(INTERVAL),
    allocated_gib=or_null(INTERVAL),
    reserved_gib=or_null(INTERVAL),
    moment=or_null(TEXT),
    terms=list_of(closed(name=TEXT, gib=SIGNED, floor_gib=GIB, formula=TEXT, source=TEXT)),
    timeline=list_of(
        closed(name=TEXT, gib=GIB, terms=list_of(closed(name=TEXT, gib=GIB, floor_gib=GIB, formula=TEXT, source=TEXT)))
    ),
    inputs=list_of(closed(name=TEXT, value={"not": {"type": "null"}}, origin=TEXT)),
    unknowns=list_of(TEXT),
    suggestions=list_of(
        closed(
            change=TEXT,
            peak_gib=INTERVAL,
            saves_gib={"type": "number"},
            verdict=VERDICT,
            trade_off=TEXT,
            edit={"type": "object"},
        )
    ),
    largest=list_of(
        closed(
            name=TEXT,
            value={"type": ["integer", "null"], "minimum": 1},
            is_all={"type": "boolean"},
            ends={"enum": ["model", "search", None]},
        )
    ),
    reasons=list_of(TEXT),
)

LLAMA = {"model": "meta-llama/Llama-2-7b-hf"}
RUNS: list[dict[str, Any]] = [
    {},
    {"gpu": "A100"},
    {"model": "nobody/nothing", "gpu": "H100"},
    LLAMA,
    {**LLAMA, "gpu": "A100"},
    {**LLAMA, "gpu": "H200", "method": "qlora", "micro_batch": 1, "seq_len": 512, "grad_checkpointing": "full"},
    {**LLAMA, "gpu": ["T4", "H100"], "precision": "amp-bf16", "optimizer": "adamw", "micro_batch": 4},
    {**LLAMA, "gpu": "tpu-v4"},
    {**LLAMA, "gpu": "8xH100", "sharding": "fsdp", "frobnicate": 1},
    {**LLAMA, "gpu": "p4d.24xlarge", "num_gpus": 16},
    {**LLAMA, "task": "generate", "max_context": 4096, "gpu": "A10G"},
    {"params": "7B", "gpu_memory": "48GiB", "micro_batch": None, "optimizer": "shampoo", "offload": "moon"},
    {"model": "google/vit-base-patch16-224", "micro_batch": 64, "image_size": 224, "gpu": "T4"},
    {"model": "bert-base-uncased", "micro_batch": 32, "seq_len": 512, "gpu": "T4"},
]


def answered(document: dict[str, Any]) -> dict[str, Any]:
    result = estimate(RunConfig.from_document(document, Origin("test")))
    found: dict[str, Any] = json.loads(json.dumps(result.to_json(), allow_nan=False))
    return found


@pytest.mark.parametrize("document", RUNS, ids=str)
def test_every_answer_has_the_fields_of_the_contract_and_no_others(document: dict[str, Any]) -> None:
    answer = answered(document)
    jsonschema.Draft202012Validator(CONTRACT).validate(answer)
    numbers = [answer[name] for name in ("peak_gib", "allocated_gib", "reserved_gib", "moment")]
    assert all(number is None for number in numbers) or all(number is not None for number in numbers)
    for interval in filter(None, [*numbers[:3], *(item["peak_gib"] for item in answer["suggestions"])]):
        assert interval["floor"] <= interval["low"] <= interval["point"] <= interval["high"]
    assert (answer["target"] is None) == (answer["targets"] == [])


@pytest.mark.parametrize("document", RUNS, ids=str)
def test_the_target_repeats_the_least_favourable_of_the_targets(document: dict[str, Any]) -> None:
    answer = answered(document)
    rank = {"fits": 0, "unknown": 1, "borderline": 2, "exceeds": 3}
    if answer["targets"]:
        worst = max(answer["targets"], key=lambda item: rank[item["verdict"]])
        assert answer["verdict"] == worst["verdict"]
        assert {**answer["target"], "verdict": worst["verdict"]} == worst
    if answer["peak_gib"] is None:
        assert answer["verdict"] == "unknown"
        assert answer["reasons"]
    moments = {moment["name"]: moment["gib"] for moment in answer["timeline"]}
    if moments:
        assert moments[answer["moment"]] == max(moments.values())


def test_a_vit_without_a_patch_in_its_row_has_the_patches_of_its_id() -> None:
    """Whole pixels as tokens made it exceed every card."""
    answer = answered({"model": "google/vit-base-patch16-224", "micro_batch": 64, "gpu": "T4"})
    assert answer["verdict"] == "fits"


@pytest.mark.parametrize(
    ("document", "count"),
    [
        ({"gpu": "8xH100"}, 8),
        ({"gpu": "A100-80GB:8"}, 8),
        ({"gpu": "8 x H100", "num_gpus": 4}, 4),
        ({"gpu": "p4d.24xlarge", "sharding": "fsdp"}, 8),
        ({"gpu": "H100"}, 1),
    ],
)
def test_a_name_may_say_how_many(document: dict[str, Any], count: int) -> None:
    assert answered({**LLAMA, **document})["target"]["count"] == count


def test_more_processes_than_an_instance_has_gpus_is_said() -> None:
    answer = answered({"model": "gpt2", "gpu": "p4d.24xlarge", "num_gpus": 16})
    assert "has 8 GPUs" in answer["reasons"][0]


def test_a_document_with_origins_says_them_again() -> None:
    chain = "slurm/finetune.slurm:13 (--batch-size 4), overrides finetune/train.py:12 (default 2)"
    document = {**LLAMA, "micro_batch": 4, "seq_len": None, "origins": {"micro_batch": chain},
                "unknowns": [{"field": "seq_len", "reason": "read from a file that is not there"}]}  # fmt: skip
    answer = answered(document)
    assert {line["name"]: line["origin"] for line in answer["inputs"]}["micro_batch"] == chain
    span = "so the interval is for 512 to 2,048 tokens"
    assert f"seq_len: read from a file that is not there, {span}" in answer["unknowns"]
    run = RunConfig.from_document(document, Origin("test"))
    again = RunConfig.from_document(run.to_entry(), Origin("elsewhere"))
    assert again.to_entry()["origins"]["micro_batch"] == chain
    assert again.to_entry()["unknowns"] == run.to_entry()["unknowns"]
