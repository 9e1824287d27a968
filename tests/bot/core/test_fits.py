"""``fits`` and the paths of ``estimate``: what the tables say of a pull request's launch configs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from bot.core import commands
from bot.core.commands import Command, CommandContext
from bot.core.config import Config
from bot.workshop.run_configs import run_configs
from estimator import api, hardware
from estimator.sourced import Origin, Sourced
from tests.bot.core.test_memory_check import HEAD, given, tree


def ask(name: str, *words: str, gpu: str = "a100") -> str:
    read = run_configs(tree(gpu), given(gpu, Config()), words)
    configs = {path: {**run, "seq_len": 512} for path, run in read.items()}  # at any usual length no card is sure to do
    said = commands.answer(Command(name=name, words=words), CommandContext(head_sha=HEAD, run_configs=configs))
    assert isinstance(said, str)
    return said


SMALL = {"model": "gpt2", "micro_batch": 8, "seq_len": 512, "optimizer": "adamw", "precision": "amp-bf16"}


def run(**changes: object) -> api.RunConfig:
    return api.RunConfig.from_document({**SMALL, **changes}, Origin("here"))


def test_offers_fit_are_the_cheapest_and_their_micro_batch_is_the_largest() -> None:
    found = api.offers(run())
    assert len(found.offers) == 8
    prices = [offer.usd_hour for offer in found.offers]
    assert prices == sorted(prices)
    for offer in found.offers[:2]:
        there = replace(run(), gpu=Sourced((offer.instance,), Origin("test")))
        assert api.estimate(there).verdict == "fits"
        most = offer.largest_micro_batch
        assert most is not None
        verdicts = [
            api.estimate(replace(there, micro_batch=Sourced(size, Origin("test")))).verdict for size in (most, most + 1)
        ]
        assert verdicts[0] == "fits"
        assert verdicts[1] != "fits"


def test_what_the_solver_offers_is_offered_here_too() -> None:
    large = run(model="meta-llama/Llama-2-7b-hf", micro_batch=8, precision="fp32", gpu="A100")
    suggested = [one.change for one in api.estimate(large).suggestions if one.change.startswith("run on")]
    offered = [offer.instance for offer in api.offers(large).offers]
    assert suggested
    assert all(any(instance in change for instance in offered) for change in suggested)


def test_every_node_and_every_gpu_of_a_node_is_paid_for() -> None:
    one, four = api.offers(run(num_gpus=4)), api.offers(run(num_gpus=4, nodes=3))
    assert all(offer.gpus >= 4 for offer in one.offers)
    assert [round(3 * offer.usd_hour, 6) for offer in one.offers] == [round(offer.usd_hour, 6) for offer in four.offers]


def test_search_narrows_and_prices_have_a_place() -> None:
    found = api.offers(run(), ["aws"]).offers
    assert found
    assert {offer.provider for offer in found} == {"aws"}
    assert all(offer.region and offer.priced for offer in found)
    dated = {card.instance: card.priced for card in hardware.all_instances() if card.provider == "aws"}
    assert all(dated[offer.instance] == offer.priced for offer in found)


def test_what_fits_nothing_says_so_and_what_would_help() -> None:
    said = ask("fits", "t4", gpu="t4")
    assert re.search(r"None of the \d+ known instances that match `t4` fits", said)
    assert "It cannot fit its own target" in said
    said = ask("fits", "train.py")
    assert "No known instance matches `train.py`, and no launch config is called so." in said


def test_fits_is_a_table_with_price_region_and_date() -> None:
    said = ask("fits", "run.slurm", "oci")
    assert "largest micro-batch" in said
    assert "**`run.slurm`**" in said
    assert re.search(r"\| \d+\.\d\d \| [^|]+, (\d{4}-\d\d-\d\d|date not stated) \|", said)


@pytest.mark.parametrize("words", [("--gpu", "A100"), tuple("abcdefg")])
def test_words_that_are_no_search_are_answered(words: tuple[str, ...]) -> None:
    assert "/preflight help fits" in ask("fits", *words)


def test_nothing_to_fit_is_answered() -> None:
    said = commands.answer(Command(name="fits"), CommandContext(head_sha=HEAD))
    assert "no launch config" in str(said)


@pytest.mark.parametrize("path", ["finetune.py", "./finetune.py"])
def test_estimate_takes_a_training_script_that_no_launch_config_starts(path: str) -> None:
    said = ask("estimate", path, "A100", "p4d.24xlarge", "--seq-len", "512")
    assert "From `finetune.py`" in said
    assert "finetune.py:3" in said
    for target in ("40GB", "80GB", "p4d.24xlarge"):
        assert target in said


def test_strangers_names_are_harmless_in_the_table() -> None:
    context = CommandContext(head_sha=HEAD, run_configs={"@all|x <b>.sh": SMALL})
    said = str(commands.answer(Command(name="fits"), context))
    assert "`@all|x <b>.sh`" in said
    assert "@all" not in said.replace("`@all|x <b>.sh`", "")
