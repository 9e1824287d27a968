"""Verdicts, suggestions, words, and the contract of the JSON."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from analyzer.errors import InputError
from estimator.api import Interval, RunConfig, estimate, estimate_words
from estimator.changes import SAME_TRAINING, Change, changes
from estimator.estimation import estimate as bare
from estimator.impact import verdict_of
from estimator.inverse import below
from estimator.options import options_for
from estimator.report import Estimate, Verdict
from estimator.sourced import Origin
from estimator.unknowns import READABLE
from estimator.verdict import least_favourable, overall, verdict_for

PEAK = Interval(60, 70, 76, 84)


@pytest.mark.parametrize(
    ("usable", "verdict"),
    [(90, "fits"), (84, "fits"), (83, "borderline"), (60, "borderline"), (59, "exceeds"), (None, "unknown")],
)
def test_only_a_floor_above_the_card_exceeds(usable: int | None, verdict: Verdict) -> None:
    assert verdict_for(PEAK, usable) == verdict


@pytest.mark.parametrize(("gpu", "is_hopeless"), [("A100-40GB", True), ("H200", False)])
def test_a_card_below_all_that_is_plausible_is_said_to_be_too_small(gpu: str, is_hopeless: bool) -> None:
    found = answer(gpu, model="meta-llama/Llama-2-7b-hf", method="full", micro_batch=1, seq_len=2048)
    usable = found["targets"][0]["usable_gib"]
    assert found["verdict"] == "borderline"
    assert (found["peak_gib"]["low"] > usable) == is_hopeless
    assert any("most likely too large" in reason for reason in found["reasons"]) == is_hopeless


@pytest.mark.parametrize(
    ("words", "verdict"), [({}, "borderline"), ({"num_gpus": 2}, "borderline"), ({"num_gpus": 8}, "fits")]
)
def test_a_sharded_run_of_unknown_size_is_not_said_to_fit_by_a_usual_one(words: dict[str, int], verdict: str) -> None:
    """On one GPU it exceeds the card: only who knows that there are more may say that it fits."""
    model = {"model": "meta-llama/Llama-2-7b-hf", "micro_batch": 1, "seq_len": 1024, "precision": "amp-bf16"}
    found = answer("H100", **model, optimizer="adamw", sharding="zero3", **words)
    assert found["verdict"] == verdict
    assert any("over how many GPUs it is sharded: from 4 on" in each for each in found["reasons"]) == (not words)


def test_without_a_number_nothing_is_said() -> None:
    assert verdict_for(None, 80) == "unknown"


def test_the_least_favourable_reading_counts() -> None:
    assert overall(["fits", "borderline"]) == "borderline"
    assert overall(["exceeds", "exceeds"]) == "exceeds"
    assert overall(["fits", "exceeds"]) == "borderline"  # nobody knows which of the two cards it is
    assert overall(["unknown", "exceeds"]) == "borderline"
    assert overall(["fits", "unknown"]) == "unknown"
    assert overall([]) == "unknown"


def answer(*words: str, **base: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(estimate_words(words, base or None).to_json(), allow_nan=False))
    return document


def test_the_json_contract() -> None:
    document = answer("A100", "--model", "meta-llama/Llama-2-7b-hf", "--batch-size=4", "--seq-len", "2048")
    assert document["version"] == 1
    assert [target["usable_gib"] for target in document["targets"]] == [39.49, 79.15]
    assert document["model"] == {
        "id": "meta-llama/Llama-2-7b-hf",
        "params": 6738415616,
        "source": document["model"]["source"],
    }
    assert document["target"] == {"name": "NVIDIA A100 40GB SXM", "count": 1, "usable_gib": 39.49}
    assert document["verdict"] == document["targets"][0]["verdict"]
    for name in ("peak_gib", "allocated_gib", "reserved_gib"):
        interval = document[name]
        assert interval["floor"] <= interval["low"] <= interval["point"] <= interval["high"]
    assert document["moment"] in {moment["name"] for moment in document["timeline"]}
    assert all(term["formula"] and term["source"] for term in document["terms"])
    inputs = {item["name"]: (item["value"], item["origin"]) for item in document["inputs"]}
    assert inputs["micro_batch"] == (4, "--micro-batch 4")
    assert inputs["gpu"] == (["A100"], "A100")
    assert "precision" in document["unknowns"]


def test_words_override_the_document_and_say_so() -> None:
    document = answer("H100", "--micro-batch", "2", model="gpt2", micro_batch=16, seq_len=1024)
    origins = {item["name"]: item["origin"] for item in document["inputs"]}
    assert origins["micro_batch"] == "--micro-batch 2, overrides run config"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["A1OO"], "A100"),
        (["A100", "--micro-bacth", "2"], "--micro-batch"),
        (["A100", "--micro-batch"], "micro-batch"),
        (["A100", "--micro-batch", "-3"], "micro.batch"),
        (["--precision", "fp13"], "precision"),
    ],
)
def test_wrong_words_are_named_with_the_nearest(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=f"(?i){message}"):
        estimate_words(words)


def test_sizes_that_multiply_to_nonsense_are_refused() -> None:
    with pytest.raises(InputError, match="micro_batch"):
        answer("A100", "--model", "gpt2", "--micro-batch", str(2**20), "--seq-len", str(2**27))


@pytest.mark.parametrize("words", [["A100"], ["A100", "--model", "nobody/nothing"], ["A100", "--image-size", "224"]])
def test_an_unknown_model_gets_no_number_and_a_reason(words: list[str]) -> None:
    document = answer(*words)
    assert (document["verdict"], document["peak_gib"], document["moment"]) == ("unknown", None, None)
    assert document["reasons"]
    assert document["suggestions"] == []


def test_a_card_that_nobody_lists_counts_with_its_memory() -> None:
    document = answer("--gpu-memory", "300GiB", "--gpu", "Z9000", "--model", "gpt2")
    assert document["targets"] == [{"name": "Z9000 with 300 GiB", "count": 1, "usable_gib": 300.0, "verdict": "fits"}]


def test_a_size_alone_gives_a_wide_interval() -> None:
    words = ["A100-80GB", "--micro-batch", "1", "--seq-len", "2048", "--precision", "pure-bf16", "--optimizer", "adamw"]
    exact, guessed = answer(*words, "--model", "meta-llama/Llama-2-7b-hf"), answer(*words, "--params", "6.74B")

    def width(document: dict[str, Any]) -> float:
        return float(document["peak_gib"]["high"] - document["peak_gib"]["low"])

    assert width(guessed) > width(exact)
    assert guessed["peak_gib"]["low"] < exact["peak_gib"]["point"] < guessed["peak_gib"]["high"]


def test_a_card_that_is_not_for_torch_is_unknown() -> None:
    document = answer("tpu-v4", "--model", "gpt2")
    assert document["verdict"] == "unknown"
    assert "not a GPU" in document["reasons"][0]


# --- suggestions ----------------------------------------------------------------------------------------------

TOO_LARGE = {
    "model": "meta-llama/Llama-2-7b-hf",
    "micro_batch": 8,
    "seq_len": 2048,
    "precision": "amp-bf16",
    "optimizer": "adamw",
    "attention": "sdpa",
    "num_gpus": 8,
    "sharding": "ddp",
    "gpu": "A100-40GB",
}


def suggestions(**changes: Any) -> list[dict[str, Any]]:
    run = RunConfig.from_document({**TOO_LARGE, **changes}, Origin("test"))
    found: list[dict[str, Any]] = estimate(run).to_json()["suggestions"]
    return found


def test_every_suggestion_lowers_the_peak_and_says_its_price() -> None:
    before = answer(**TOO_LARGE)
    assert before["verdict"] == "exceeds"
    assert len(before["suggestions"]) >= 3
    for item in before["suggestions"]:
        is_larger_card = item["change"].startswith("run on")  # the same run: another driver's context, and it fits
        assert item["verdict"] == "fits" if is_larger_card else item["peak_gib"]["point"] < before["peak_gib"]["point"]
        assert item["trade_off"]


def test_something_fits_alone_or_stacked() -> None:
    assert any(item["verdict"] == "fits" for item in suggestions())


@pytest.mark.parametrize(
    ("already", "words"),
    [
        ({"grad_checkpointing": "full"}, "checkpointing"),
        ({"optimizer": "adamw-8bit"}, "8-bit"),
        ({"sharding": "fsdp"}, "FSDP"),
        ({"micro_batch": 1}, "micro-batch"),
        ({"precision": "pure-bf16"}, "bf16 master"),
        ({"offload": "optimizer"}, "host memory"),
    ],
)
def test_what_is_already_so_is_not_suggested(already: dict[str, Any], words: str) -> None:
    assert not [item["change"] for item in suggestions(**already) if words in item["change"]]


def test_a_suggestion_is_what_the_estimate_says_of_the_changed_run() -> None:
    found = {item["change"]: item["peak_gib"] for item in suggestions(optimizer="adamw-8bit", precision="pure-bf16")}
    changed = {**TOO_LARGE, "optimizer": "adamw-8bit", "precision": "pure-bf16", "grad_checkpointing": "full"}
    run = RunConfig.from_document(changed, Origin("test"))
    assert found["turn on gradient checkpointing"] == estimate(run).to_json()["peak_gib"]


def test_a_stack_that_keeps_the_training_the_same_comes_before_one_that_does_not() -> None:
    fitting = [item["change"] for item in suggestions() if item["verdict"] == "fits"]
    assert fitting
    assert "LoRA" not in fitting[0]
    assert not fitting[0].startswith("run on")


def test_the_cheapest_instance_that_fits_is_named_with_its_price() -> None:
    words = ["T4", "--model", "gpt2-xl", "--micro-batch", "4", "--seq-len", "1024", "--precision", "amp-bf16"]
    found = answer(*words, "--optimizer", "adamw", "--attention", "sdpa")["suggestions"]
    instances = [item for item in found if item["change"].startswith("run on ")]
    prices = [float(item["trade_off"].split()[2]) for item in instances]
    assert len(instances) > 1
    assert prices == sorted(prices)
    assert all(
        re.search(r"USD per hour \(.+, (\d{4}-\d{2}-\d{2}|date not stated)\)", item["trade_off"]) for item in instances
    )
    assert {item["verdict"] for item in instances} == {"fits"}
    later = found[found.index(instances[-1]) + 1 :]
    assert all(item["verdict"] != "fits" for item in later)


# Runs of which no single change of an effort is enough, of many kinds.
STACKED: list[dict[str, Any]] = [
    {},
    {"micro_batch": 1, "grad_checkpointing": "full"},
    {"model": "microsoft/phi-2", "gpu": "L4", "micro_batch": 2, "num_gpus": 4, "sharding": "fsdp"},
    {"model": "EleutherAI/pythia-1.4b", "micro_batch": 16, "seq_len": 2048, "num_gpus": 1, "sharding": "none"},
    {"model": "gpt2-xl", "gpu": "V100-16GB", "precision": "amp-fp16", "num_gpus": 1, "sharding": "none"},
    {"precision": "pure-bf16", "gpu": "A100-80GB", "num_gpus": 1, "sharding": "none", "seq_len": 2048},
]


@pytest.mark.parametrize("fields", STACKED, ids=str)
def test_no_gentler_and_no_smaller_stack_would_fit(fields: dict[str, Any]) -> None:
    """Against every combination of changes: the first that is offered has the least effort, and the fewest of it."""
    run = RunConfig.from_document({**TOO_LARGE, **fields}, Origin("test"))
    kinds = changes(run)
    efforts = {change.words: change.effort for variants in kinds for change in variants}
    able = []
    for done in itertools.product(*([None, *variants] for variants in kinds)):
        picked = [change for change in done if change is not None]
        if picked and max(change.effort for change in picked) in SAME_TRAINING:
            able.append(((max(change.effort for change in picked), len(picked)), picked))
    best = next((key for key, picked in sorted(able, key=lambda item: item[0]) if fits(run, picked)), None)
    offered = [item for item in estimate(run).suggestions if item.verdict == "fits" and "run on" not in item.change]
    words = [item.change.split("; and ") for item in offered]
    keys = [(max(efforts[word] for word in said), len(said)) for said in words]
    assert min(keys, default=None) == keys[0] if keys else True
    assert [key for key in keys if key[0] in SAME_TRAINING][:1] == ([best] if best else [])


def fits(run: RunConfig, picked: list[Change]) -> bool:
    for change in picked:
        run = change.applied_to(run)
    return bare(run, with_suggestions=False).verdict == "fits"


def test_a_convolutional_network_gets_no_adapters() -> None:
    run = {"model": "resnet50", "gpu": "T4", "micro_batch": 512, "image_size": 224, "optimizer": "sgd-momentum"}
    assert not [
        item for item in estimate(RunConfig.from_document(run, Origin("test"))).suggestions if "LoRA" in item.change
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "bert-base-uncased", "micro_batch": 4, "gpu": "T4"},
        {"model": "gpt2", "micro_batch": 4, "seq_len": 256, "gpu": "T4", "attention": "eager"},
        {"model": "resnet50", "micro_batch": 512, "image_size": 224, "seq_len": None, "gpu": "T4"},
        {"task": "generate", "max_context": 4096, "micro_batch": 4, "gpu": "A10G", "precision": "pure-bf16"},
        {"method": "qlora", "quantization": "nf4", "lora_rank": 16, "gpu": "T4", "precision": "pure-fp16"},
        {"gpu": "A100-40GB"},  # nothing helps
        {"model": "gpt2", "micro_batch": 1, "seq_len": 128, "gpu": "H200"},  # all that it can read
    ],
    ids=str,
)
def test_the_largest_that_fits_fits_and_one_more_does_not(fields: dict[str, Any]) -> None:
    document = {**TOO_LARGE, "num_gpus": 1, "sharding": "none", **fields}
    found = estimate(RunConfig.from_document(document, Origin("test"))).largest
    assert found
    for item in found:

        def verdict(count: int, name: str = item.name) -> str:
            return estimate(RunConfig.from_document({**document, name: count}, Origin("test"))).verdict

        if item.value is None:
            assert verdict(1) != "fits"
        else:
            assert verdict(item.value) == "fits"
            assert item.is_all or verdict(item.value + 1) != "fits"


@pytest.mark.parametrize(
    "shape", [lambda x: 3 * x + 7, lambda x: x * x, lambda x: 100 if x < 50 else 10 * x, lambda _: 5]
)
@pytest.mark.parametrize("capacity", [0, 6, 99, 100, 1000, 123_456])
@pytest.mark.parametrize("start", [1, 7, 5000])
def test_the_search_finds_the_last_number_that_fits(shape: Callable[[int], int], capacity: int, start: int) -> None:
    last = max((count for count in range(1, 5001) if shape(count) <= capacity), default=None)
    asked: list[int] = []

    def need(count: int) -> int:
        asked.append(count)
        return shape(count)

    assert below(need, capacity, start, 5000) == last
    assert len(asked) <= 30


def test_a_run_that_fits_gets_no_advice() -> None:
    document = answer("H200", "--model", "gpt2", "--micro-batch", "1", "--seq-len", "128")
    assert (document["verdict"], document["suggestions"]) == ("fits", [])


@pytest.mark.parametrize(
    ("words", "expected"), [({}, "borderline"), ({"micro_batch": 4}, "fits"), ({"task": "infer"}, "fits")]
)
def test_a_training_run_of_unknown_micro_batch_fits_only_if_one_that_is_not_small_does(
    words: dict[str, object], expected: str
) -> None:
    run = {
        "model": "bert-base-uncased",
        "seq_len": 512,
        "precision": "fp32",
        "attention": "eager",
        "gpu": "T4",
        **words,
    }
    result = estimate(RunConfig.from_document(run, Origin("test")))
    assert result.verdict == expected
    assert any("no micro-batch is known: up to" in reason for reason in result.reasons) == (expected == "borderline")


def test_what_is_open_has_an_option_that_would_say_it() -> None:
    run = RunConfig.from_document({"model": "gpt2", "optimizer": "shampoo", "colour": "blue"}, Origin("test"))
    unknowns = estimate(run).unknowns
    assert {
        "micro-batch: the interval is for 1 to 4 samples",
        "target GPU",
        "colour: no such field in the vocabulary",
    } <= set(unknowns)
    asked = ["--micro-batch", "--seq-len", "--precision", "--optimizer", "--optimizer-impl", "--gpu"]
    assert options_for(unknowns) == asked
    named = {word for word in READABLE if not options_for([READABLE[word]])}
    assert named == {"target_len", "classes", "whole_gradients"}, "nobody can say these on a command line"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"optimizer_impl": "fused", "precision": "pure-bf16", "optimizer": "adamw"},
        {"model": "google/vit-base-patch16-224", "seq_len": None, "image_size": 224},  # measured below computed
        {"num_gpus": 16, "sharding": "fsdp", "precision": "amp-bf16"},  # readings that lie far apart
        {"task": "generate", "max_context": 2048},
        {"method": "qlora", "companion_params": "1B"},
        {"model": "resnet50", "seq_len": None},
    ],
)
def test_the_rows_add_up_to_what_is_expected(fields: dict[str, Any]) -> None:
    found = estimate(RunConfig.from_document({**TOO_LARGE, "num_gpus": 1, **fields}, Origin("test")))
    assert found.peak is not None
    assert sum(term.num_bytes for term in found.terms) == found.peak.point
    assert {"allocator", "driver context"} <= {term.name for term in found.terms}


def test_what_stands_beside_the_model_is_in_the_formula_of_its_row() -> None:
    run = {"model": "gpt2", "micro_batch": 1, "companion_params": "1B", "method": "lora", "gpu": "T4"}
    weights = estimate(RunConfig.from_document(run, Origin("test"))).terms[0]
    assert weights.name == "weights"
    assert "1,000,000,000 in other models x 2 B" in weights.formula
    assert " in adapters x 4 B" in weights.formula


@pytest.mark.parametrize(
    ("model", "is_asked"), [("state-spaces/mamba-2.8b-hf", False), ("google/flan-t5-base", True), ("resnet50", False)]
)
def test_attention_is_asked_of_models_that_have_a_choice(model: str, is_asked: bool) -> None:
    run = RunConfig.from_document({"model": model, "micro_batch": 1, "gpu": "T4"}, Origin("test"))
    assert ("attention implementation" in estimate(run).unknowns) == is_asked


def test_a_card_is_named_where_no_micro_batch_is_known() -> None:
    run = RunConfig.from_document({"model": "bert-base-uncased", "seq_len": 512, "gpu": "RTX 2060"}, Origin("test"))
    assert any("fit on NVIDIA" in reason for reason in estimate(run).reasons)


@pytest.mark.parametrize("fields", [{}, {"micro_batch": 8}, {"model": "mistralai/Mistral-7B-v0.1"}], ids=str)
def test_few_trained_parameters_are_offered_beside_less_exact_ones(fields: dict[str, Any]) -> None:
    """A stack around 16-bit state does not hide that adapters on the same card would do, with fewer changes."""
    one_card = {"model": "meta-llama/Llama-2-7b-hf", "gpu": "A100-40GB", "micro_batch": 4, "seq_len": 2048,
                "num_gpus": 1, "sharding": "none"}  # fmt: skip
    fitting = [item for item in suggestions(**{**one_card, **fields}) if item["verdict"] == "fits"]
    on_it = [set(item["edit"]) for item in fitting if not {"gpu", "num_gpus"} & set(item["edit"])]
    assert any("method" in edit for edit in on_it), [item["change"] for item in fitting]
    assert any("method" not in edit for edit in on_it), [item["change"] for item in fitting]


@pytest.mark.parametrize("gpu", ["A100", "V100"])
def test_a_card_of_two_sizes_exceeds_only_if_both_do(gpu: str) -> None:
    """So say the check, the gate and the review; an estimate repeats the worse of the two, and says what they say."""
    seen = set()
    for batch in (1, 2, 4, 8, 16, 32, 64, 128):
        fields = {"model": "gpt2-xl", "gpu": gpu, "micro_batch": batch, "seq_len": 1024, "precision": "amp-fp16",
                  "optimizer": "adamw", "attention": "sdpa", "sharding": "none", "num_gpus": 1}  # fmt: skip
        found = estimate(RunConfig.from_document(fields, Origin("test")))
        words = [target.verdict for target in found.targets]
        assert len(words) > 1
        assert found.verdict == least_favourable(words)
        assert (verdict_of([found]) == "exceeds") == (set(words) == {"exceeds"})
        assert any("the gate say borderline" in reason for reason in found.reasons) == (
            found.verdict == "exceeds" != verdict_of([found])
        )
        seen.add(tuple(sorted(set(words))))
    assert any("exceeds" in words and len(words) > 1 for words in seen)  # the case in question is among them


@pytest.mark.parametrize(("task", "span"), [("train", "1 to 4 samples"), ("infer", "1 sample")])
def test_what_the_interval_takes_an_unknown_micro_batch_for_is_said(task: str, span: str) -> None:
    """A larger one is not in the interval, and the words for it are those of the interval itself."""

    def at(**fields: Any) -> Estimate:
        given = {"model": "gpt2", "seq_len": 1024, "gpu": "H100", "task": task, **fields}
        return estimate(RunConfig.from_document(given, Origin("test")))

    found = at()
    assert f"micro-batch: the interval is for {span}" in found.unknowns
    last = int(re.findall(r"\d+", span)[-1])
    inside, beyond = at(micro_batch=last), at(micro_batch=64 * last)
    assert found.peak is not None
    assert inside.peak is not None
    assert beyond.peak is not None
    assert inside.peak.point <= found.peak.high < beyond.peak.point
