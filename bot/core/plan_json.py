"""`Plan` and `ReviewInput` as JSON: how the worker and the child process that analyses code talk to each other.

Blobs travel once each, base64 by git id. Nothing here is a secret: the child never sees a token.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from analyzer.findings import Confidence, Severity
from bot.core.config import Config, PathRule
from bot.core.config_text import Problem
from bot.core.ledger import Posted
from bot.core.ledger_json import ledger_from_json, ledger_to_json
from bot.core.plan import Annotation, CheckAction, CheckOutcome, Plan, ReviewComment
from bot.core.review_input import MemoryTree, ReviewInput, Unread
from bot.sources.base import ChangedFile, PullSnapshot, Tree


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """A JSON object with every field of the plan."""
    return asdict(plan)


def plan_from_json(document: Mapping[str, Any]) -> Plan:
    """The plan that `plan_to_json` wrote."""
    checks = tuple(
        CheckOutcome(
            **{
                **item,
                "annotations": tuple(Annotation(**note) for note in item["annotations"]),
                "actions": tuple(CheckAction(**action) for action in item["actions"]),
            }
        )
        for item in document["checks"]
    )
    comments = tuple(ReviewComment(**item) for item in document["comments"])
    posted = None if document["posted"] is None else tuple(Posted(**item) for item in document["posted"])
    rest = {key: value for key, value in document.items() if key not in {"checks", "comments", "standing", "posted"}}
    return Plan(**rest, checks=checks, comments=comments, standing=tuple(document["standing"]), posted=posted)


def snapshot_to_json(snapshot: PullSnapshot) -> dict[str, Any]:
    """A JSON object with every field of the snapshot."""
    return asdict(snapshot)


def snapshot_from_json(document: Mapping[str, Any]) -> PullSnapshot:
    """The snapshot that `snapshot_to_json` wrote."""
    files = tuple(ChangedFile(**item) for item in document["changed_files"])
    return PullSnapshot(**{**document, "changed_files": files})


def review_input_to_json(given: ReviewInput) -> dict[str, Any]:
    """A JSON object with every field; the trees as path -> blob id and, once for both, blob id -> base64.

    Every file that the trees can read is read: pass trees that hold only what the review needs.
    """
    blobs: dict[str, str] = {}
    return {
        "snapshot": snapshot_to_json(given.snapshot),
        "head": _tree_to_json(given.head, blobs),
        "base": _tree_to_json(given.base, blobs),
        "blobs": blobs,
        "config": config_to_json(given.config),
        "defaults": config_to_json(given.defaults),
        "config_problems": [asdict(problem) for problem in given.config_problems],
        "ledger": ledger_to_json(given.ledger),
        "skip": dict(given.skip),
        "generation": given.generation,
        "web_url": given.web_url,
        "unread_head": asdict(given.unread_head),
        "unread_base": asdict(given.unread_base),
    }


def review_input_from_json(document: Mapping[str, Any]) -> ReviewInput:
    """The input that `review_input_to_json` wrote, its trees held in memory."""
    blobs = {sha: base64.b64decode(text) for sha, text in document["blobs"].items()}
    return ReviewInput(
        snapshot=snapshot_from_json(document["snapshot"]),
        head=_tree_from_json(document["head"], blobs),
        base=_tree_from_json(document["base"], blobs),
        config=config_from_json(document["config"]),
        defaults=config_from_json(document["defaults"]),
        config_problems=tuple(Problem(**item) for item in document["config_problems"]),
        ledger=ledger_from_json(document["ledger"]),
        skip=dict(document["skip"]),
        generation=document["generation"],
        web_url=document["web_url"],
        unread_head=Unread(**document["unread_head"]),
        unread_base=Unread(**document["unread_base"]),
    )


def _tree_to_json(tree: Tree, blobs: dict[str, str]) -> dict[str, str | None]:
    listed: dict[str, str | None] = {}
    for path in sorted(tree.paths()):
        sha = tree.blob_sha(path)
        listed[path] = sha
        if sha is not None and sha not in blobs:
            content = tree.read(path)
            if content is not None:
                blobs[sha] = base64.b64encode(content).decode()
    return listed


def _tree_from_json(listed: Mapping[str, str | None], blobs: Mapping[str, bytes]) -> MemoryTree:
    files = {path: blobs.get(sha) if sha else None for path, sha in listed.items()}
    return MemoryTree(files, {path: sha for path, sha in listed.items() if sha})


def config_to_json(config: Config) -> dict[str, Any]:
    """A JSON object with every field of the configuration."""
    return {
        "code": config.code,
        "memory": config.memory,
        "select": sorted(config.select),
        "ignore": sorted(config.ignore),
        "severities": {code: severity.value for code, severity in config.severities.items()},
        "min_confidence": config.min_confidence.value,
        "max_inline": config.max_inline,
        "min_inline": config.min_inline.value,
        "targets": dict(config.targets),
        "default_targets": list(config.default_targets),
        "launch": list(config.launch),
        "exclude": list(config.exclude),
        "paths": [_path_rule_to_json(rule) for rule in config.paths],
        "on_failure": config.on_failure,
        "baseline": config.baseline,
    }


def config_from_json(document: Mapping[str, Any]) -> Config:
    """The configuration that `config_to_json` wrote."""
    return Config(
        **{
            **document,
            "select": frozenset(document["select"]),
            "ignore": frozenset(document["ignore"]),
            "severities": {code: Severity(value) for code, value in document["severities"].items()},
            "min_confidence": Confidence(document["min_confidence"]),
            "min_inline": Severity(document["min_inline"]),
            "default_targets": tuple(document["default_targets"]),
            "launch": tuple(document["launch"]),
            "exclude": tuple(document["exclude"]),
            "paths": tuple(map(_path_rule_from_json, document["paths"])),
        }
    )


def _path_rule_to_json(rule: PathRule) -> dict[str, Any]:
    severities = rule.severities
    return {
        "match": list(rule.match),
        "code": rule.code,
        "memory": rule.memory,
        "ignore": None if rule.ignore is None else sorted(rule.ignore),
        "severities": None if severities is None else {code: item.value for code, item in severities.items()},
    }


def _path_rule_from_json(document: Mapping[str, Any]) -> PathRule:
    ignore, severities = document["ignore"], document["severities"]
    return PathRule(
        match=tuple(document["match"]),
        code=document["code"],
        memory=document["memory"],
        ignore=None if ignore is None else frozenset(ignore),
        severities=None if severities is None else {code: Severity(value) for code, value in severities.items()},
    )
