"""Check suites: one per app and commit, made with the first run or the push."""

from __future__ import annotations

from bot.localhub.clock import now
from bot.localhub.model import App, CheckSuite, Repository
from bot.localhub.state import Hub


def suite_for(hub: Hub, repo: Repository, app: App, head_sha: str) -> CheckSuite:
    """The suite of an app on a commit; `head_branch` is null for the head of a fork."""
    for found in hub.rows.suites.values():
        if found.repo is repo and found.app is app and found.head_sha == head_sha:
            return found
    branches = [name for name, sha in repo.git.branches().items() if sha == head_sha]
    suite = CheckSuite(
        id=hub.new_id(),
        repo=repo,
        app=app,
        head_sha=head_sha,
        head_branch=branches[0] if branches else None,
        created_at=now(),
        updated_at=now(),
    )
    hub.rows.suites[suite.id] = suite
    return suite
