"""The ``push`` event: a branch was made, moved or deleted."""

from __future__ import annotations

from bot.localhub.model import Account, Json, Repository
from bot.localhub.patches import changed_files
from bot.localhub.payloads import people, repos
from bot.localhub.urls import Urls

NO_COMMIT = "0" * 40
_MAX_COMMITS = 20  # GitHub: 2,048; each costs two calls of git here


def push_event(urls: Urls, repo: Repository, branch: str, before: str | None, after: str | None, by: Account) -> Json:
    """`before` is None for a new branch, `after` for a deleted one."""
    commits = _commits(urls, repo, before, after)
    return {
        "ref": f"refs/heads/{branch}",
        "before": before or NO_COMMIT,
        "after": after or NO_COMMIT,
        "created": before is None,
        "deleted": after is None,
        "forced": bool(before and after and not repo.git.is_ancestor(before, after)),
        "base_ref": None,
        "compare": urls.web(f"/{repo.full_name}/compare/{(before or NO_COMMIT)[:12]}...{(after or NO_COMMIT)[:12]}"),
        "commits": commits,
        "head_commit": commits[-1] if commits else None,
        "repository": repos.repository(urls, repo) | {"created_at": int(repo.created_at.timestamp())},
        "pusher": {"name": by.login, "email": f"{by.login}@example.invalid"},
        "sender": people.account(urls, by),
    }


def _commits(urls: Urls, repo: Repository, before: str | None, after: str | None) -> list[Json]:
    if after is None:
        return []
    found = repo.git.rev_list(after, f"^{before}", "--max-count=200") if before else [after]
    return [_commit(urls, repo, sha) for sha in found[-_MAX_COMMITS:]]


def _commit(urls: Urls, repo: Repository, sha: str) -> Json:
    info = repo.git.commit(sha)
    changes = changed_files(repo.git, info.parents[0], sha) if info.parents else []
    by_status = {status: [one.path for one in changes if one.status == status] for status in ("added", "removed")}
    modified = [one.path for one in changes if one.status not in by_status]
    return repos.simple_commit(info) | {
        "distinct": True,
        "url": urls.web(f"/{repo.full_name}/commit/{sha}"),
        "author": {"name": info.author_name, "email": info.author_email},
        "committer": {"name": info.committer_name, "email": info.committer_email},
        "added": by_status["added"],
        "removed": by_status["removed"],
        "modified": modified,
    }
