"""Whatever an estimate cannot say, the page has a sentence for it: no variant of a report breaks the template."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from estimator.api import RunConfig, estimate
from estimator.sourced import Origin
from tests.bot.pages.pages import Elements, Site, acting

PEAK = {"floor": 10.0, "low": 20.0, "point": 24.0, "high": 30.0}
Launch = dict[str, Any]


def estimated(launch: Launch, **run: Any) -> None:
    """The launch with the estimate of another run."""
    config = RunConfig.from_document(run, Origin("test"))
    launch["estimate"] = estimate(config).to_json()
    launch["run"] = config.to_entry()


def moved(launch: Launch) -> None:
    launch["before"] = {"peak_gib": PEAK, "verdict": "fits"}
    launch["moved"] = ["micro_batch 1 -> 4: job.slurm:4 (--batch-size 4)"]
    launch["num_readings"] = 3


def without_run(launch: Launch) -> None:
    launch["run"] = None


def without_command(launch: Launch) -> None:
    launch["command"] = []


VARIANTS: list[tuple[Callable[[Launch], None], str]] = [
    (moved, "merge base"),
    (moved, "Moved by"),
    (moved, "can mean 3 runs"),
    (estimated, "No number can be given"),
    (lambda launch: estimated(launch, model="nobody/nothing", gpu="H100"), "No number can be given"),
    (lambda launch: estimated(launch, model="gpt2"), "no known GPU"),
    (lambda launch: estimated(launch, model="gpt2", gpu="A100"), "NVIDIA A100 80GB"),
    (lambda launch: estimated(launch, model="gpt2", gpu="tpu-v4", micro_batch=1), "is not a GPU"),
    (lambda launch: estimated(launch, model="gpt2", task="generate", max_context=512, gpu="T4"), "decode"),
    (lambda launch: estimated(launch, model="google/vit-base-patch16-224", micro_batch=8, gpu="T4"), "fits"),
    (without_run, "What would help"),
    (without_command, "What if?"),
]


@pytest.mark.parametrize(("change", "said"), VARIANTS)
def test_every_kind_of_launch_has_a_page(
    site: Site, document: dict[str, Any], change: Callable[[Launch], None], said: str
) -> None:
    varied = copy.deepcopy(document)
    change(varied["launches"][0])
    answer = site.http.get(site.put(varied))
    assert answer.status_code == 200
    assert said in " ".join(Elements(answer.text).text.split())
    assert acting(answer.text) == []


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("findings", [], "No problems introduced"),
        ("launches", [], "moves the memory of no launch config"),
        ("code_failed", "KeyError", "fault of Preflight"),
        ("memory_failed", "KeyError", "fault of Preflight"),
        ("problems", ["preflight.yml:3 no such rule"], "no such rule"),
        ("skipped", [{"path": "x.py", "reason": "syntax error at 1:0"}], "syntax error"),
        ("notes", [{"path": "x.slurm", "reason": "not read"}], "not read"),
        ("possible", [{"rule": "PF101", "path": "x.py", "line": 3, "message": "may keep"}], "less certain"),
        (
            "suppressed",
            [{"rule": "PF101", "path": "x.py", "line": 3, "reason": "", "source": "noqa"}],
            "no reason given",
        ),
        ("is_cut", True, "too large to keep whole"),
        ("rules", {}, "PF101"),
        ("num_findings", 300, "more findings"),
    ],
)
def test_every_part_of_a_report_can_be_there_or_not(
    site: Site, document: dict[str, Any], part: str, value: Any, said: str
) -> None:
    answer = site.http.get(site.put({**document, part: value}))
    assert answer.status_code == 200
    assert said in " ".join(Elements(answer.text).text.split())
