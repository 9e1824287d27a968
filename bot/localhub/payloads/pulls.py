"""Pull requests and issues."""

from __future__ import annotations

from bot.localhub.clock import stamp, stamp_or_none
from bot.localhub.model import Account, Issue, Json, Pull, Repository
from bot.localhub.payloads import people, repos
from bot.localhub.state import Hub


def _side(hub: Hub, owner: Account, ref: str, sha: str, repo: Repository | None) -> Json:
    return {
        "label": f"{owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": people.account(hub.urls, owner),
        "repo": repos.repository(hub.urls, repo) if repo else None,
    }


def _links(hub: Hub, pull: Pull) -> Json:
    base = hub.urls.api(repos.api_path(pull.repo))
    one, issue = f"{base}/pulls/{pull.number}", f"{base}/issues/{pull.number}"
    addresses = {
        "self": one,
        "html": hub.urls.web(f"/{pull.repo.full_name}/pull/{pull.number}"),
        "issue": issue,
        "comments": f"{issue}/comments",
        "review_comments": f"{one}/comments",
        "review_comment": f"{base}/pulls/comments{{/number}}",
        "commits": f"{one}/commits",
        "statuses": f"{base}/statuses/{pull.head_sha}",
    }
    return {name: {"href": address} for name, address in addresses.items()}


def simple(hub: Hub, pull: Pull) -> Json:
    """A ``pull-request-simple``."""
    links = _links(hub, pull)
    html = links["html"]["href"]
    return {
        "url": links["self"]["href"],
        "id": pull.id,
        "node_id": f"PR_{pull.id}",
        "html_url": html,
        "diff_url": f"{html}.diff",
        "patch_url": f"{html}.patch",
        "issue_url": links["issue"]["href"],
        **{
            f"{name}_url": links[name]["href"]
            for name in ("commits", "review_comments", "review_comment", "comments", "statuses")
        },
        "number": pull.number,
        "state": pull.state,
        "locked": pull.is_locked,
        "active_lock_reason": None,
        "title": pull.title,
        "user": people.account(hub.urls, pull.author),
        "body": pull.body or None,
        "labels": [],
        "milestone": None,
        "created_at": stamp(pull.created_at),
        "updated_at": stamp(pull.updated_at),
        "closed_at": stamp_or_none(pull.closed_at),
        "merged_at": stamp_or_none(pull.merged_at),
        "merge_commit_sha": None,
        "assignee": None,
        "assignees": [],
        "requested_reviewers": [],
        "requested_teams": [],
        "head": _side(hub, pull.head_owner, pull.head_ref, pull.head_sha, pull.head_repo),
        "base": _side(hub, pull.repo.owner, pull.base_ref, pull.base_sha, pull.repo),
        "_links": links,
        "author_association": people.association(pull.repo, pull.author),
        "auto_merge": None,
        "draft": pull.is_draft,
    }


def full(hub: Hub, pull: Pull) -> Json:
    """A ``pull-request``."""
    files = hub.files(pull)
    is_open = pull.state == "open"
    return simple(hub, pull) | {
        "merged": pull.merged_at is not None,
        "merged_by": people.account(hub.urls, pull.merged_by) if pull.merged_by else None,
        "mergeable": True if is_open else None,
        "rebaseable": True if is_open else None,
        "mergeable_state": ("draft" if pull.is_draft else "clean") if is_open else "unknown",
        "comments": len(hub.conversation_of(pull)),
        "review_comments": len(hub.comments_of(pull)),
        "maintainer_can_modify": False,
        "commits": len(hub.commits(pull)),
        "additions": sum(item.additions for item in files),
        "deletions": sum(item.deletions for item in files),
        "changed_files": len(files),
    }


def minimal(hub: Hub, pull: Pull) -> Json:
    """A ``pull-request-minimal``, as check runs list them."""

    def side(ref: str, sha: str, repo: Repository) -> Json:
        place = {"id": repo.id, "name": repo.name, "url": hub.urls.api(repos.api_path(repo))}
        return {"ref": ref, "sha": sha, "repo": place}

    return {
        "id": pull.id,
        "number": pull.number,
        "url": hub.urls.api(f"{repos.api_path(pull.repo)}/pulls/{pull.number}"),
        "head": side(pull.head_ref, pull.head_sha, pull.repo),
        "base": side(pull.base_ref, pull.base_sha, pull.repo),
    }


def issue(hub: Hub, found: Issue) -> Json:
    """An ``issue``; one that is a pull request says so."""
    base = hub.urls.api(f"{repos.api_path(found.repo)}/issues/{found.number}")
    kind = "pull" if isinstance(found, Pull) else "issues"
    html = hub.urls.web(f"/{found.repo.full_name}/{kind}/{found.number}")
    body: Json = {
        "id": found.id,
        "node_id": f"I_{found.id}",
        "number": found.number,
        "url": base,
        "repository_url": hub.urls.api(repos.api_path(found.repo)),
        "labels_url": f"{base}/labels{{/name}}",
        "comments_url": f"{base}/comments",
        "events_url": f"{base}/events",
        "timeline_url": f"{base}/timeline",
        "html_url": html,
        "title": found.title,
        "body": found.body or None,
        "user": people.account(hub.urls, found.author),
        "labels": [],
        "state": found.state,
        "state_reason": None,
        "locked": found.is_locked,
        "active_lock_reason": None,
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "comments": len(hub.conversation_of(found)),
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "closed_at": stamp_or_none(found.closed_at),
        "author_association": people.association(found.repo, found.author),
        "performed_via_github_app": None,
        "reactions": no_reactions(base),
    }
    if isinstance(found, Pull):
        pull = {"url": hub.urls.api(f"{repos.api_path(found.repo)}/pulls/{found.number}"), "html_url": html}
        pull |= {"diff_url": f"{html}.diff", "patch_url": f"{html}.patch"}
        body["pull_request"] = pull | {"merged_at": stamp_or_none(found.merged_at)}
        body["draft"] = found.is_draft
    return body


REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


def no_reactions(owner_url: str) -> Json:
    """An empty ``reaction-rollup``."""
    return {"url": f"{owner_url}/reactions", "total_count": 0, **dict.fromkeys(REACTIONS, 0)}
