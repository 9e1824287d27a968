"""What a run config accepts, refuses and remembers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from analyzer.errors import InputError
from estimator.runconfig import RunConfig
from estimator.schema import run_config_schema
from estimator.sourced import Origin, Sourced, Unknown
from estimator.vocabulary import WORDS

HERE = Origin("here")
SCHEMA = Path(__file__).parent.parent.parent / "docs" / "run-config.schema.json"


def read(**fields: Any) -> RunConfig:
    return RunConfig.from_document(fields, HERE)


def test_the_published_schema_is_the_vocabulary() -> None:
    """Regenerate with ``python -m estimator.schema > docs/run-config.schema.json``."""
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == run_config_schema()
    jsonschema.Draft202012Validator.check_schema(run_config_schema())


def test_every_word_is_a_field_and_every_spelling_means_one_word() -> None:
    assert {word.name for word in WORDS} - {"params_b"} == set(RunConfig().words())
    names = [name for word in WORDS for name in (word.name, *word.aliases)]
    options = [option for word in WORDS for option in word.options]
    assert sorted(names) == sorted(set(names))
    assert sorted(options) == sorted(set(options))


def test_measured_rows_round_trip_and_fit_the_schema(measured_rows: list[dict[str, Any]]) -> None:
    validator = jsonschema.Draft202012Validator(run_config_schema())
    for row in measured_rows:
        document = RunConfig.from_document(row, HERE).to_document()
        again = RunConfig.from_document(document, HERE).to_document()
        assert again == document, row["id"]
        assert validator.is_valid(document), row["id"]


@pytest.mark.parametrize(
    ("field", "value", "canonical"),
    [
        ("precision", "bf16", "pure-bf16"),
        ("precision", "AMP_BF16", "amp-bf16"),
        ("dtype", "float32", "fp32"),
        ("optimizer", "adamw_bnb_8bit", "adamw-8bit"),
        ("optim", "paged_adamw_8bit", "adamw-8bit-paged"),
        ("grad_checkpointing", "true", "full"),
        ("gradient_checkpointing", True, "full"),
        ("grad_checkpointing", False, "none"),
        ("sharding", "ZeRO-3", "zero3"),
        ("offload", "optimizer-paged", "optimizer"),
        ("task", "finetune", "train"),
        ("attn_implementation", "flash_attention_2", "flash"),
        ("loss_impl", "cut-cross-entropy", "fused"),
        ("per_device_train_batch_size", "8", 8),
        ("micro_batch", 4.0, 4),
        ("params", "7B", 7_000_000_000),
        ("params_b", 1.5, 1_500_000_000),
        ("gpu_mem_gib", 24, 24.0),
        ("gpu_memory", "24576MiB", 24.0),
        ("image_size", "224x196", [224, 196]),
        ("gpu", "A100", ["A100"]),
    ],
)
def test_spellings(field: str, value: Any, canonical: Any) -> None:
    assert list(read(**{field: value}).to_document().values()) == [canonical]


def test_a_quantised_precision_is_a_quantisation() -> None:
    run = read(precision="nf4-dq")
    assert run.quantization.value == "nf4"
    assert not run.precision.is_known


@pytest.mark.parametrize("size", [[49, 512, 768], "49x512x768"])
def test_three_sides_are_the_frames_and_the_sides_of_a_video(size: Any) -> None:
    run = read(image_size=size)
    assert (run.frames.value, run.image_size.value) == (49, (512, 768))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("micro_batch", -1),
        ("micro_batch", 0),
        ("micro_batch", 2.5),
        ("micro_batch", True),
        ("micro_batch", "many"),
        ("micro_batch", 10**12),
        ("micro_batch", float("nan")),
        ("seq_len", 10**30),
        ("params", "7 bananas"),
        ("params", -7),
        ("params", float("inf")),
        ("params", 10**40),
        ("gpu_memory", "48 parsecs"),
        ("gpu_memory", 0),
        ("gpu_memory", float("nan")),
        ("gpu_memory", True),
        ("precision", "fp12"),
        ("precision", 16),
        ("image_size", [1, 2, 3, 4]),
        ("image_size", 0),
        ("model", ""),
        ("model", "x" * 500),
        ("model", "evil\x1b[2J"),
        ("gpu", [""]),
        ("gpu", {"name": "A100"}),
        ("arch", {"layers": -3}),
        ("arch", {"flavour": 3}),
        ("compile", "perhaps"),
    ],
)
def test_absurd_values_are_refused_by_name(field: str, value: Any) -> None:
    if value == "":
        assert not read(**{field: value}).model.is_known
        return
    with pytest.raises(InputError, match=field):
        read(**{field: value})


def test_what_is_not_understood_is_named() -> None:
    run = read(model="gpt2", warp_factor=9, offload="moon", method="boft")
    assert dict(run.not_understood).keys() == {"warp_factor", "method"}
    assert isinstance(run.offload.value, Unknown)
    assert "moon" in run.offload.value.reason
    assert isinstance(run.offload.value, Unknown)
    assert run.method.value == "other"


def test_null_is_not_absent() -> None:
    run = read(offload=None)
    assert run.to_document() == {"offload": None}
    assert RunConfig().to_document() == {}


def test_the_stronger_value_remembers_what_it_overrides() -> None:
    weak = RunConfig.from_document({"micro_batch": 4, "seq_len": 128}, Origin("default 4", "train.py", 12))
    strong = RunConfig.from_document({"micro_batch": 8}, Origin("--batch-size 8", "launch.sh", 7))
    run = weak.overridden_by(strong)
    assert run.micro_batch.value == 8
    assert run.micro_batch.describe() == "launch.sh:7 (--batch-size 8), overrides train.py:12 (default 4)"
    assert run.seq_len.value == 128


def test_an_entry_of_launches_is_a_run_config() -> None:
    entry = {
        "path": "train.slurm",
        "target": {"gpu": "H100", "gpus_per_node": 8, "nodes": 4},
        "run_config": {"model": "gpt2", "micro_batch": 2},
        "origins": {"micro_batch": "train.slurm:9 (--batch-size 2)"},
        "unknowns": [],
    }
    run = RunConfig.from_document(entry, HERE)
    assert run.gpu.value == ("H100",)
    assert run.nodes.value == 4
    assert run.micro_batch == Sourced(2, Origin("train.slurm:9 (--batch-size 2)"))


@pytest.mark.parametrize(
    ("field", "value", "word", "expected"),
    [
        ("precision", "float8", "precision", "fp8"), ("precision", "mixed-bf16", "precision", "amp-bf16"),
        ("precision", "int8-gptq", "quantization", "int8"), ("precision", "4bit", "quantization", "nf4"),
        ("precision", "int4-weight-only", "quantization", "int4"), ("sharding", "hsdp", "sharding", "fsdp"),
        ("attention", "math", "attention", "eager"), ("grad_checkpointing", "sac", "grad_checkpointing", "selective"),
    ],
)  # fmt: skip
def test_what_people_call_it_elsewhere_is_understood(field: str, value: str, word: str, expected: str) -> None:
    assert getattr(read(**{field: value}), word).value == expected
