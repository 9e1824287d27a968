"""Statistics know what sort of finding it was, and not a word of the code."""

from __future__ import annotations

import pytest

from bot.core.traits import framework, pattern


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch\n", "torch"),
        ("import torch, transformers\nfrom transformers import Trainer\n", "transformers"),
        ("    import lightning.pytorch as pl\nimport transformers\n", "lightning"),
        ("from accelerate import Accelerator\nfrom transformers import AutoModel\n", "accelerate"),
        ("# import lightning\n", "torch"),
        ("", "torch"),
    ],
)
def test_the_framework_that_owns_the_loop_names_the_file(source: str, name: str) -> None:
    assert framework(source) == name


@pytest.mark.parametrize(
    ("message", "shape"),
    [
        ("`losses` keeps the graph of every iteration: memory grows", "… keeps the graph of every iteration"),
        ("This loss `a` and `b` are secret_name here", "This loss … and … are … here"),
        ("The customerChurn value of 17 GiB is Model_V2", "The … value of …  is …".replace("  ", " ")),
        ("", ""),
    ],
)
def test_a_pattern_holds_words_of_ours_only(message: str, shape: str) -> None:
    assert pattern(message).replace("… …", "…") == shape.replace("… …", "…")


def test_the_messages_of_a_real_review_leak_no_name_into_their_patterns() -> None:
    from tests.bot.pages.pages import TRAIN, document_of

    secret = "projectnightingale"
    renamed = {"train.py": TRAIN.replace("losses", secret).replace("model", f"{secret}model")}
    found = document_of(renamed)["findings"]
    assert any(secret in item["message"] for item in found) or found
    assert [item["pattern"] for item in found if secret in item["pattern"]] == []
    assert all(item["pattern"] for item in found)
