"""A Kubernetes object under admission: what of it is ours, and what the estimates mean for it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.core.config import Config
from bot.core.gate import Allow, Check, Here, decide
from bot.core.manifests import asks_for_gpu
from bot.errors import InputError

KINDS = frozenset({"Pod", "Job", "CronJob", "PyTorchJob", "TrainJob", "MPIJob", "RayJob", "JobSet"})
"""What the estimator reads (`estimator.launch.kubernetes`)."""
REPOSITORY, COMMIT = "preflight/repository-id", "preflight/commit"
MANIFEST = "preflight-submitted-manifest.json"
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_WARNING = 250  # the API server cuts longer ones
_MAX_WARNINGS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An object to judge. `repo_id` and `commit` are 0 and empty where it names none."""

    name: str
    manifest: str
    repo_id: int
    commit: str


def is_controller(username: str, namespace: str) -> bool:
    """Whether one of Kubernetes' own controllers asks, or an operator, which lives in a namespace of its own.

    Anybody who may create a pod may also write an owner into it.
    """
    account = username.removeprefix("system:serviceaccount:")
    own = account == username or account.partition(":")[0] == namespace
    return username == "system:kube-controller-manager" or not own


def ask_for(document: Any, username: str = "", namespace: str = "") -> Asked | None:
    """The object as something to judge; None where it is none of ours: another kind, no GPU, made by a controller
    whose own object was judged. `username` is who asks the API server, in `namespace`. Raises `InputError` for
    annotations that name no commit."""
    if not isinstance(document, Mapping) or str(document.get("kind")) not in KINDS:
        return None
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    owners = metadata.get("ownerReferences")
    owned = [owner for owner in owners if isinstance(owner, Mapping)] if isinstance(owners, list) else []
    is_owned = any(owner.get("controller") is True and str(owner.get("kind")) in KINDS for owner in owned)
    if is_owned and is_controller(username, namespace):
        return None
    text = json.dumps(document, indent=1)
    if not asks_for_gpu(text):
        return None
    annotations = metadata.get("annotations")
    annotations = annotations if isinstance(annotations, Mapping) else {}
    repo_id, commit = str(annotations.get(REPOSITORY, "")), str(annotations.get(COMMIT, ""))
    if bool(repo_id) != bool(commit):
        raise InputError(f"{REPOSITORY} and {COMMIT} belong together")
    if commit and (not _SHA.fullmatch(commit) or not re.fullmatch(r"\d{1,18}", repo_id)):
        raise InputError(f"{COMMIT} is a full commit id and {REPOSITORY} a number")
    name = str(metadata.get("name") or metadata.get("generateName") or "")[:120]
    kind = str(document["kind"])
    return Asked(name=f"{kind} {name}", manifest=text, repo_id=int(repo_id or 0), commit=commit)


def verdict(
    asked: Asked, launches: Sequence[Mapping[str, Any]], config: Config, allow: frozenset[str], check: Check | None
) -> dict[str, Any]:
    """``{allowed, message, warnings}`` from the estimates (as `bot.workshop.child.admit` writes them)."""
    here = [
        Here(
            path=asked.name,
            line=0,
            verdict=item["verdict"],
            mode=config.memory,
            estimate=item["estimate"],
            why=item["why"],
        )
        for item in launches
    ] or [Here(path=asked.name, line=0, verdict="unknown", mode=config.memory, why="no training command that we know")]
    decision = decide(here, Allow(borderline="borderline" in allow, unknown="unknown" in allow), check=check)
    lines = [line for item in here for line in _told(item)]
    lifted = [f"{item.path} is {item.verdict}" for item in here if item.verdict in allow and item.mode == "block"]
    warnings = [*decision.notes, *lifted, *(lines if decision.notes or lifted else [])]
    return {
        "allowed": decision.is_allowed,
        "message": "; ".join([*decision.blockers, *lines])[:4_000] if decision.blockers else "",
        "warnings": [f"preflight: {text}"[:_MAX_WARNING] for text in dict.fromkeys(warnings)][:_MAX_WARNINGS],
    }


def _told(item: Here) -> list[str]:
    """What it needs, and the first change that fits."""
    estimate = item.estimate or {}
    peak, target = estimate.get("peak_gib"), estimate.get("target") or {}
    if not peak:
        return [item.why] if item.why else []
    needs = f"needs at least {peak['floor']:.1f} GiB per GPU, expected {peak['low']:.1f} to {peak['high']:.1f} GiB"
    if target.get("usable_gib") is not None:
        needs += f"; {target['name']} has {target['usable_gib']:.1f} GiB"
    fitting = [change for change in estimate.get("suggestions") or () if change["verdict"] == "fits"]
    told = [needs]
    if fitting and item.verdict in {"exceeds", "borderline"}:
        told.append(f"would fit: {fitting[0]['change']}")
    return told
