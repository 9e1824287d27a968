"""The check's headline says what there is of every card that the launch may mean."""

from __future__ import annotations

from typing import Any

import pytest

from bot.render.markdown import Links
from bot.render.memory import headline, memory_table
from estimator.api import Impact, RunConfig, estimate
from estimator.sourced import Origin

RUN = {"model": "gpt2-xl", "micro_batch": 8, "seq_len": 1024, "precision": "amp-fp16", "optimizer": "adamw"}
LINKS = Links(web_url="", full_name="", sha="", has_page=False)


def impact(**fields: Any) -> Impact:
    found = estimate(RunConfig.from_document({**RUN, **fields}, Origin("test")))
    return Impact(path="a.slurm", line=3, command=("python", "a.py"), base=None, head=found)


@pytest.mark.parametrize(
    ("gpu", "has", "short"),
    [
        (["A100-40GB"], "of 39.5 GiB", "/ 39.5 GiB"),
        (["A100"], "of 39.5 GiB (NVIDIA A100 40GB SXM) or 79.2 GiB (NVIDIA A100 80GB SXM)", "/ 39.5 or 79.2 GiB"),
        (["A100-40GB", "A100-40GB"], "of 39.5 GiB", "/ 39.5 GiB"),
        (["T4", "A100-40GB", "A100-80GB", "H200"], "(4 sizes of card)", "/ 14.6 to 1"),
    ],
    ids=str,
)
def test_every_size_is_named(gpu: list[str], has: str, short: str) -> None:
    given = impact(gpu=gpu)
    assert given.head is not None
    assert has in headline(given, given.head.to_json())
    assert short in memory_table([given], LINKS)


def test_without_a_card_there_is_no_size() -> None:
    given = impact()
    assert given.head is not None
    assert headline(given, given.head.to_json()).endswith("no known GPU")
    assert "/ ?" in memory_table([given], LINKS)


def test_a_launch_above_its_card_in_all_likelihood_says_so() -> None:
    words = {"model": "meta-llama/Llama-2-7b-hf", "micro_batch": 1, "seq_len": 2048, "gpu": ["A100-40GB"]}
    found = estimate(RunConfig.from_document(words, Origin("test")))
    given = Impact(path="a.slurm", line=3, command=("python", "a.py"), base=None, head=found)
    assert given.verdict == "borderline"
    assert "borderline: most likely too large" in memory_table([given], LINKS)
    assert "run a smoke test" in memory_table([impact(gpu=["A100-40GB"], micro_batch=4)], LINKS)
