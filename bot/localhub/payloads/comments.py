"""Reviews, review comments, conversation comments and reactions."""

from __future__ import annotations

from bot.localhub.clock import stamp
from bot.localhub.model import Comment, IssueComment, Json, Reaction, Review, ReviewComment
from bot.localhub.patches import moved_line
from bot.localhub.payloads import people, pulls, repos
from bot.localhub.state import Hub


def reaction(hub: Hub, found: Reaction) -> Json:
    """A ``reaction``."""
    return {
        "id": found.id,
        "node_id": f"REA_{found.id}",
        "user": people.account(hub.urls, found.author),
        "content": found.content,
        "created_at": stamp(found.created_at),
    }


def _rollup(comment: Comment, url: str) -> Json:
    rollup = pulls.no_reactions(url)
    for item in comment.reactions:
        rollup[item.content] += 1
        rollup["total_count"] += 1
    return rollup


def issue_comment(hub: Hub, found: IssueComment) -> Json:
    """An ``issue-comment``."""
    repo = found.issue.repo
    url = hub.urls.api(f"{repos.api_path(repo)}/issues/comments/{found.id}")
    return {
        "id": found.id,
        "node_id": f"IC_{found.id}",
        "url": url,
        "html_url": hub.urls.web(f"/{repo.full_name}/pull/{found.issue.number}#issuecomment-{found.id}"),
        "issue_url": hub.urls.api(f"{repos.api_path(repo)}/issues/{found.issue.number}"),
        "user": people.account(hub.urls, found.author),
        "body": found.body,
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "author_association": people.association(repo, found.author),
        "performed_via_github_app": people.app(hub.urls, found.app) if found.app else None,
        "reactions": _rollup(found, url),
    }


def review(hub: Hub, found: Review) -> Json:
    """A ``pull-request-review``."""
    pull = found.pull
    api = hub.urls.api(f"{repos.api_path(pull.repo)}/pulls/{pull.number}")
    html = hub.urls.web(f"/{pull.repo.full_name}/pull/{pull.number}#pullrequestreview-{found.id}")
    body: Json = {
        "id": found.id,
        "node_id": f"PRR_{found.id}",
        "user": people.account(hub.urls, found.author),
        "body": found.body,
        "state": found.state,
        "html_url": html,
        "pull_request_url": api,
        "author_association": people.association(pull.repo, found.author),
        "_links": {"html": {"href": html}, "pull_request": {"href": api}},
        "commit_id": found.commit_id,
    }
    if found.submitted_at is not None:
        body["submitted_at"] = stamp(found.submitted_at)
    return body


def present_line(found: ReviewComment, line: int | None) -> int | None:
    """Where a commented line is at the pull request's head; None when the comment is outdated."""
    if line is None or found.side == "LEFT":
        return line
    return moved_line(found.pull.repo.git, found.path, found.commit_id, found.pull.head_sha, line)


def review_comment(hub: Hub, found: ReviewComment) -> Json:
    """A ``pull-request-review-comment``; `line` is null once the line has changed."""
    pull = found.pull
    base = f"{repos.api_path(pull.repo)}/pulls"
    url, api = hub.urls.api(f"{base}/comments/{found.id}"), hub.urls.api(f"{base}/{pull.number}")
    html = hub.urls.web(f"/{pull.repo.full_name}/pull/{pull.number}#discussion_r{found.id}")
    line = present_line(found, found.line)
    start = present_line(found, found.start_line) if line is not None else None
    body: Json = {
        "id": found.id,
        "node_id": f"PRRC_{found.id}",
        "url": url,
        "html_url": html,
        "pull_request_url": api,
        "pull_request_review_id": found.review.id,
        "_links": {"self": {"href": url}, "html": {"href": html}, "pull_request": {"href": api}},
        "diff_hunk": found.diff_hunk,
        "path": found.path,
        "commit_id": pull.head_sha if line is not None else found.commit_id,
        "original_commit_id": found.commit_id,
        "user": people.account(hub.urls, found.author),
        "body": found.body,
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "author_association": people.association(pull.repo, found.author),
        "subject_type": found.subject_type,
        "side": found.side,
        "line": line,
        "original_line": found.line,
        "start_line": start,
        "original_start_line": found.start_line,
        "start_side": found.start_side,
        "position": found.diff_hunk.count("\n") if line is not None else None,
        "original_position": found.diff_hunk.count("\n"),
        "reactions": _rollup(found, url),
    }
    if found.in_reply_to is not None:
        body["in_reply_to_id"] = found.in_reply_to.id
    if found.subject_type == "file":
        # the description has no null for these two
        del body["original_line"], body["original_position"]
    return body
