"""Which Kubernetes objects are ours, and what the answer to the API server says."""

from __future__ import annotations

from typing import Any

import pytest

from bot.core.admission import ask_for, verdict
from bot.core.config import Config
from bot.core.gate import Check
from bot.errors import InputError

SHA = "a" * 40
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}},
}
BOTH = frozenset({"borderline", "unknown"})


def _with(**metadata: Any) -> dict[str, Any]:
    return JOB | {"metadata": {"name": "train", **metadata}}


def test_only_gpu_objects_that_nobody_else_answers_for_are_ours() -> None:
    assert ask_for(JOB) is not None
    controller = {"kind": "Job", "name": "train", "controller": True}
    pod = _with(ownerReferences=[controller]) | {"kind": "Pod"}
    assert ask_for(pod, "system:serviceaccount:kube-system:job-controller", "lab") is None
    other = _with(ownerReferences=[controller | {"kind": "ReplicaSet"}]) | {"kind": "Pod"}
    assert ask_for(other, "system:serviceaccount:kube-system:job-controller", "lab") is not None
    assert ask_for(JOB | {"kind": "Deployment"}) is None
    assert ask_for(JOB | {"spec": {}}) is None
    strange: list[Any] = [
        None,
        [],
        "x",
        {"kind": "Job", "metadata": 3},
        {"kind": ["Job"]},
        {"kind": "Job", "spec": "x"},
    ]
    assert [ask_for(item) for item in strange] == [None] * len(strange)


@pytest.mark.parametrize(
    ("username", "counts"),
    [
        ("system:kube-controller-manager", True),
        ("system:serviceaccount:kube-system:cronjob-controller", True),
        ("system:serviceaccount:kubeflow:training-operator", True),
        ("system:serviceaccount:lab:default", False),
        ("system:serviceaccount:lab", False),
        ("system:serviceaccount", False),
        ("dana", False),
        ("kube-controller-manager", False),
        ("", False),
    ],
)
def test_an_owner_counts_only_where_a_controller_wrote_it(username: str, counts: bool) -> None:
    """Everybody who may create a pod may name a sleeping job of his own as its controller."""
    pod = _with(ownerReferences=[{"kind": "Job", "name": "sleep", "controller": True}]) | {"kind": "Pod"}
    assert (ask_for(pod, username, "lab") is None) == counts


def test_annotations_name_a_commit_or_are_refused() -> None:
    asked = ask_for(_with(annotations={"preflight/repository-id": "5", "preflight/commit": SHA}))
    assert asked is not None
    assert (asked.repo_id, asked.commit, asked.name) == (5, SHA, "Job train")
    for wrong in (
        {"preflight/commit": SHA},
        {"preflight/repository-id": "5", "preflight/commit": "abc"},
        {"preflight/repository-id": "x", "preflight/commit": SHA},
    ):
        with pytest.raises(InputError):
            ask_for(_with(annotations=wrong))


def _launch(verdict: str) -> dict[str, Any]:
    peak = {"floor": 50.0, "low": 70.0, "point": 80.0, "high": 90.0}
    target = {"name": "T4", "count": 1, "usable_gib": 14.6}
    suggestion = {"change": "LoRA", "peak_gib": peak, "verdict": "fits", "trade_off": "x"}
    estimate = {"peak_gib": peak, "target": target, "targets": [target], "suggestions": [suggestion]}
    return {"verdict": verdict, "estimate": estimate, "why": ""}


def test_the_answer_has_a_reason_and_what_would_fit() -> None:
    asked = ask_for(JOB)
    assert asked is not None
    denied = verdict(asked, [_launch("fits"), _launch("exceeds")], Config(), BOTH, None)
    assert not denied["allowed"]
    for text in ("Job train cannot fit its GPU", "at least 50.0 GiB", "T4 has 14.6 GiB", "would fit: LoRA"):
        assert text in denied["message"]
    warned = verdict(asked, [_launch("borderline")], Config(), BOTH, None)
    assert warned["allowed"]
    assert all(len(text) <= 256 for text in warned["warnings"])
    assert warned["warnings"]
    assert not verdict(asked, [_launch("borderline")], Config(), frozenset(), None)["allowed"]
    assert verdict(asked, [_launch("exceeds")], Config(memory="warn"), BOTH, None)["allowed"]
    assert not verdict(asked, [_launch("fits")], Config(), BOTH, Check(state="absent"))["allowed"]
    assert verdict(asked, [_launch("exceeds")], Config(), BOTH, Check(state="overridden"))["allowed"]
    assert not verdict(asked, [], Config(), frozenset(), None)["allowed"]
