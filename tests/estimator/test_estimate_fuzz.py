"""Whatever a document or a command line holds, the answer is an estimate or an `InputError`."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyzer.errors import InputError
from estimator.api import RunConfig, estimate, estimate_words
from estimator.models.local import Pass
from estimator.sourced import Origin
from estimator.vocabulary import NOTES, WORDS, options

NAMES = [name for word in WORDS for name in (word.name, *word.aliases)] + sorted(NOTES) + ["run_config", "target", "x"]
SPELLED = [str(item) for word in WORDS for item in word.schema.get("enum", ()) if item is not None]
KNOWN = [
    "gpt2",
    "bert-base-uncased",
    "google/vit-base-patch16-224",
    "meta-llama/Llama-2-7b-hf",
    "mistralai/Mixtral-8x7B-v0.1",
]
HARDWARE = ["A100", "T4", "8xH100", "p4d.24xlarge", "4090", "tpu-v4", "80GB", "0xT4", "99999x H100", "MI300X"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 2**33), st.floats(), st.text(max_size=12), st.sampled_from(SPELLED),
    st.sampled_from(KNOWN), st.sampled_from(HARDWARE), st.integers(1, 64),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), VALUES, max_size=12)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


COUNTS = st.sampled_from([0, 1, 7, 1 << 20, (1 << 53) + 1, 1 << 60]) | st.integers(-1, (1 << 60) + 1) | SCALARS
SHAPES = st.lists(st.integers(0, 4096), min_size=1, max_size=8) | st.lists(COUNTS, max_size=9) | st.text(max_size=3)
PASSES = st.fixed_dictionaries(
    {item.name: COUNTS for item in fields(Pass)}
    | {"shape": SHAPES, "kind": st.sampled_from(["image", "tokens", "volume", "<b>"]) | st.text(max_size=30)}
)
NAMES_OF_NETWORKS = st.sampled_from(["Net", "`</details>@octocat`", "a\nb", "\u202e", ""]) | st.text(max_size=210)


def networks(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    counts = dict.fromkeys(("params", "trained", "largest", "layers"), COUNTS)
    lists = {"passes": st.lists(PASSES, max_size=3), "parts": parts}
    return st.fixed_dictionaries({"name": NAMES_OF_NETWORKS, **counts}, optional={"is_partial": SCALARS, **lists})


def is_answered(run: Any) -> None:
    answer = run()
    peak = answer.to_json()["peak_gib"]
    json.dumps(answer.to_json(), allow_nan=False)
    assert peak is None or peak["floor"] <= peak["low"] <= peak["point"] <= peak["high"]


@QUICK
@given(DOCUMENTS, st.sampled_from([*KNOWN, None]))
def test_any_document_is_estimated_or_refused(document: dict[str, Any], model: str | None) -> None:
    if model is not None:
        document = {"micro_batch": 2, **document, "model": model}
    try:
        run = RunConfig.from_document(document, Origin("fuzz"))
        is_answered(lambda: estimate(run))
    except InputError:
        return
    again = RunConfig.from_document(json.loads(json.dumps(run.to_entry())), Origin("again"))
    assert {name: word.value for name, word in again.words().items() if word.is_known} == {
        name: word.value for name, word in run.words().items() if word.is_known
    }


@QUICK
@given(networks(st.lists(networks(st.just([])), max_size=3)), st.sampled_from(HARDWARE), st.integers(1, 1 << 20))
def test_any_network_of_a_document_is_estimated_or_refused(network: dict[str, Any], gpu: str, batch: int) -> None:
    try:
        run = RunConfig.from_document({"network": network, "gpu": gpu, "micro_batch": batch}, Origin("fuzz"))
        is_answered(lambda: estimate(run))
    except InputError:
        return
    again = RunConfig.from_document(json.loads(json.dumps(run.to_entry())), Origin("again"))
    assert again.network.value == run.network.value


@QUICK
@given(
    st.lists(
        st.sampled_from([*options(), *SPELLED, *KNOWN, *HARDWARE, "7B", "48GiB", "2"]) | st.text(max_size=9), max_size=9
    )
)
def test_any_words_are_estimated_or_refused(words: list[str]) -> None:
    try:
        is_answered(lambda: estimate_words(words))
    except InputError:
        return
