"""Commit fixes to the head branch, or hand them out as a patch and say why."""

from __future__ import annotations

import base64

from bot.core.commands import Act
from bot.core.commands.fix import Fixes
from bot.errors import InputError
from bot.github.commits import Commits, HeadMoved
from bot.github.errors import Refused
from bot.queue.desk import Desk
from bot.render.answers import committed_text, moved_text, patch_text

_NO_PERMISSION = (
    "this installation does not grant Preflight `contents: write`, which is optional and only used by this command."
)
_FORK = (
    "the branch is in a fork, where an app of this repository cannot push (*Allow edits by maintainers* is for people)."
)


def carry_out(desk: Desk, act: Act) -> str:
    """The branch moves by one commit or not at all."""
    assert isinstance(act, Fixes)
    why = _why_not(desk)
    if why:
        return patch_text(why, act.told, act.patches)
    commits = desk.gateway.commits()
    if commits is None:
        return patch_text(_NO_PERMISSION, act.told, act.patches)
    try:
        return _commit(desk, act, commits)
    except HeadMoved:
        return moved_text(desk.pull.head_sha, desk.pull.head_ref)
    except Refused as error:  # a protected branch, a rule set, a permission that was taken away
        return patch_text(f"GitHub refused it: {error.message}", act.told, act.patches)


def _commit(desk: Desk, act: Fixes, commits: Commits) -> str:
    files = {path: base64.b64decode(text) for path, text in act.files.items()}
    message = f"{act.message}\n\nAsked for by {desk.sender} on pull request {desk.pull.number}."
    with desk.gateway.publishing():
        sha = commits.on_top(desk.pull.head_sha, files, message)
        url = f"{desk.pull.web_url}/{desk.full_name}/commit/{sha}"
        told = committed_text(sha, url, act.told)
        desk.note(sha, told)  # before the branch moves: a job that dies here is run again and finds its own commit
        commits.advance(desk.pull.head_ref, sha)
    return told


def _why_not(desk: Desk) -> str | None:
    pull = desk.pull
    if pull.head_full_name is None:
        return "the repository of the branch is gone."
    if pull.head_full_name.casefold() != pull.full_name.casefold():
        return _FORK
    if pull.head_ref == pull.default_branch:
        return f"the branch of this pull request is `{pull.head_ref}`, the default branch: nothing is pushed there."
    if not pull.is_open:
        raise InputError("the pull request is closed")
    return None
