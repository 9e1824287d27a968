"""May a Kubernetes object be created: estimated as it was submitted, with the code of its commit where it names one."""

from __future__ import annotations

from typing import Any

from bot.core.admission import ask_for, verdict
from bot.core.config import Config, load
from bot.core.gate import Check
from bot.core.plan_json import review_input_to_json
from bot.core.review_input import MemoryTree, ReviewInput
from bot.errors import InputError
from bot.queue.room import Room
from bot.sources.base import PullSnapshot
from bot.workshop.parent import Limits, admit_in_child

SECONDS = 12.0
"""Of the analysis. The API server waits at most 30 s, 10 s by default; the web process answers 503 before that."""


def judge(room: Room, question: dict[str, Any]) -> dict[str, Any]:
    """``{installation_id, repositories, object, username, namespace, policy, allow, require_commit}`` ->
    ``{allowed, message, warnings}``.

    Raises `InputError` for annotations that are none, and what GitHub raises.
    """
    wanted = ask_for(question["object"], str(question.get("username", "")), str(question.get("namespace", "")))
    if wanted is None:
        return {"allowed": True, "message": "", "warnings": []}
    config = _policy(question["policy"])
    tree, check = MemoryTree({}), None
    if wanted.commit:
        if question["repositories"] and wanted.repo_id not in question["repositories"]:
            raise InputError(f"the token is not for the repository {wanted.repo_id}")
        tree, check, own = _of_commit(room, int(question["installation_id"]), wanted.repo_id, wanted.commit)
        config = config or own
    elif question["require_commit"]:
        message = "this cluster wants the annotations preflight/repository-id and preflight/commit on GPU jobs"
        return {"allowed": False, "message": message, "warnings": []}
    given = review_input_to_json(_input(wanted.repo_id, wanted.commit, tree, config or Config()))
    launches = admit_in_child(wanted.manifest, given, Limits(wall_seconds=SECONDS, seconds_per_file=SECONDS))
    return verdict(wanted, launches, config or Config(), frozenset(question["allow"]), check)


def _policy(text: str | None) -> Config | None:
    return load(text, "policy.yml")[0] if text is not None else None


def _of_commit(room: Room, installation_id: int, repo_id: int, commit: str) -> tuple[MemoryTree, Check, Config]:
    """Its files, its check, and the policy of the default branch."""
    from bot.sources.github import read_files_of

    if not room.settings.app_id.isdecimal():
        raise InputError("PREFLIGHT_APP_ID of the workers is not the app's numeric id")
    full_name, branch = room.gateway(installation_id, repo_id, "").name_and_branch()
    gateway = room.gateway(installation_id, repo_id, full_name)
    check = gateway.memory_check(commit, int(room.settings.app_id))
    if check.state == "absent":
        return MemoryTree({}), check, Config()
    tree, config = read_files_of(gateway, commit, branch)
    return tree, check, config


def _input(repo_id: int, commit: str, tree: MemoryTree, config: Config) -> ReviewInput:
    snapshot = PullSnapshot(
        repo_id=repo_id,
        full_name="",
        number=0,
        author="",
        title="",
        is_draft=False,
        is_open=True,
        base_ref="",
        base_sha=commit,
        head_sha=commit,
        merge_base_sha=commit,
        changed_files=(),
    )
    return ReviewInput(snapshot=snapshot, head=tree, base=MemoryTree({}), config=config)
