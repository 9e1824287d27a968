"""What people do on the pages of GitHub: open, push, comment, press buttons. Each act tells the apps by webhook.

Callers hold `Hub.lock`. A refused act raises `Refusal`, as the API does.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Literal

from bot.localhub import rules, webhooks
from bot.localhub.clock import now
from bot.localhub.errors import Refusal, invalid, not_found
from bot.localhub.gitrepo import GitError
from bot.localhub.model import Account, CheckRun, CheckSuite, IssueComment, Pull, Repository, ReviewComment
from bot.localhub.payloads import comments, people, pulls, repos
from bot.localhub.payloads.pushes import push_event
from bot.localhub.service import Service
from bot.localhub.suggestions import Change, apply_changes, change_of
from bot.localhub.suites import suite_for


def push(service: Service, repo: Repository, branch: str, source: Path, ref: str, sender: Account) -> str:
    """Take `ref` of the repository at `source` as the new tip of `branch`; pull requests from it are synchronised."""
    before = repo.git.branches().get(branch)
    try:
        sha = repo.git.fetch(str(source), ref, f"refs/heads/{branch}")
    except GitError as error:
        raise invalid("Reference", "ref", str(error)) from None
    moved(service, repo, branch, before, sha, sender)
    return sha


def move_branch(service: Service, repo: Repository, branch: str, sha: str, sender: Account) -> None:
    """A branch now stands at a commit that the repository has."""
    before = repo.git.branches().get(branch)
    repo.git.set_ref(f"refs/heads/{branch}", sha)
    moved(service, repo, branch, before, sha, sender)


def moved(service: Service, repo: Repository, branch: str, before: str | None, sha: str, sender: Account) -> None:
    """Tell everybody that a branch points to another commit."""
    if before == sha:
        return
    service.dispatcher.announce("push", repo, push_event(service.hub.urls, repo, branch, before, sha, sender))
    for pull in list(service.hub.rows.issues.values()):
        if not isinstance(pull, Pull) or pull.state != "open":
            continue
        if pull.repo is repo and pull.base_ref == branch:
            pull.base_sha = sha
        if pull.head_repo is repo and pull.head_ref == branch and pull.head_sha != sha:
            _synchronize(service, pull, sha, sender)


def _synchronize(service: Service, pull: Pull, sha: str, sender: Account) -> None:
    before = pull.head_sha
    pull.past_heads.append(before)
    pull.base_sha = pull.repo.git.branches().get(pull.base_ref, pull.base_sha)
    _take_head(pull, sha)
    pull.updated_at = now()
    payload = webhooks.pull_event(service.hub, pull, "synchronize", sender, before=before, after=sha)
    service.dispatcher.announce("pull_request", pull.repo, payload)
    _request_suites(service, pull, sender)


def _take_head(pull: Pull, sha: str) -> None:
    """The base repository knows every head, a fork's too, as ``refs/pull/N/head``."""
    if pull.head_repo is not None and pull.head_repo is not pull.repo:
        pull.repo.git.fetch(
            str(pull.head_repo.git.path), f"refs/heads/{pull.head_ref}", f"refs/pull/{pull.number}/head"
        )
    pull.repo.git.set_ref(f"refs/pull/{pull.number}/head", sha)
    pull.head_sha = sha


def _request_suites(service: Service, pull: Pull, sender: Account) -> None:
    if pull.head_repo is not pull.repo:
        return  # GitHub makes suites for pushes to the repository itself
    for installation in service.hub.installations_of(pull.repo):
        suite = suite_for(service.hub, pull.repo, installation.app, pull.head_sha)
        payload = webhooks.check_suite_event(service.hub, suite, "requested", sender)
        service.dispatcher.announce("check_suite", pull.repo, payload, installation.app)


def fork(service: Service, repo: Repository, owner: Account) -> Repository:
    """A fork of a repository under a user's name; where the user has one of that name, with a number behind it."""
    names = itertools.chain([repo.name], (f"{repo.name}-{number}" for number in itertools.count(1)))
    name = next(each for each in names if not (service.hub.data_dir / owner.login / f"{each}.git").exists())
    copy = service.hub.add_repository(f"{owner.login}/{name}", repo.git.path, is_private=repo.is_private)
    copy.owner, copy.parent, copy.default_branch = owner, repo, repo.default_branch
    return copy


def open_pull(
    service: Service,
    repo: Repository,
    *,
    title: str,
    body: str,
    base: str,
    head: str,
    author: Account,
    head_repo: Repository | None = None,
    is_draft: bool = False,
) -> Pull:
    """Open a pull request from branch `head` (of `head_repo`, by default the same repository) to branch `base`."""
    source = head_repo or repo
    base_sha, head_sha = repo.git.branches().get(base), source.git.branches().get(head)
    if base_sha is None or head_sha is None:
        raise invalid("PullRequest", "base" if base_sha is None else "head", "No such branch", "invalid")
    hub = service.hub
    pull = Pull(
        id=hub.new_id(),
        number=hub.next_number(repo),
        repo=repo,
        title=title,
        body=body,
        author=author,
        created_at=now(),
        updated_at=now(),
        base_ref=base,
        base_sha=base_sha,
        head_ref=head,
        head_sha=head_sha,
        head_owner=source.owner,
        head_repo=source,
        is_draft=is_draft,
    )
    _take_head(pull, head_sha)
    if not hub.commits(pull):
        raise invalid("PullRequest", "head", f"No commits between {base} and {head}")
    hub.rows.issues[repo.id, pull.number] = pull
    service.dispatcher.announce("pull_request", repo, webhooks.pull_event(hub, pull, "opened", author))
    _request_suites(service, pull, author)
    return pull


def delete_fork(service: Service, pull: Pull) -> None:
    """Delete the repository a pull request comes from; its head stays known to the base repository."""
    if pull.head_repo is None or pull.head_repo is pull.repo:
        raise not_found()
    del service.hub.rows.repositories[pull.head_repo.id]
    pull.head_repo = None


def delete_branch(service: Service, repo: Repository, branch: str, sender: Account) -> None:
    """Delete a branch; GitHub closes the pull requests that come from it."""
    if branch not in repo.git.branches():
        raise not_found()
    gone = repo.git.branches()[branch]
    repo.git.set_ref(f"refs/heads/{branch}", None)
    payload = push_event(service.hub.urls, repo, branch, gone, None, sender)
    service.dispatcher.announce("push", repo, payload)
    for pull in [one for one in service.hub.rows.issues.values() if isinstance(one, Pull)]:
        if pull.state == "open" and pull.head_repo is repo and pull.head_ref == branch:
            change_state(service, pull, "closed", sender)


def rename(service: Service, repo: Repository, name: str) -> None:
    """Give a repository another name."""
    service.hub.rename(repo, name)


StateAction = Literal["closed", "reopened", "converted_to_draft", "ready_for_review"]


def change_state(service: Service, pull: Pull, action: StateAction, sender: Account) -> None:
    """Close, reopen, make a draft, make ready."""
    if action in {"closed", "reopened"}:
        if (action == "closed") != (pull.state == "open"):
            raise invalid("PullRequest", "state", f"is already {pull.state}")
        pull.state = "closed" if action == "closed" else "open"
        pull.closed_at = now() if action == "closed" else None
    else:
        pull.is_draft = action == "converted_to_draft"
    pull.updated_at = now()
    service.dispatcher.announce("pull_request", pull.repo, webhooks.pull_event(service.hub, pull, action, sender))


def comment(service: Service, pull: Pull, body: str, author: Account) -> IssueComment:
    """Write into the conversation."""
    if pull.is_locked:
        raise Refusal(403, "Unable to create comment because issue is locked.")
    hub = service.hub
    made = IssueComment(
        id=hub.new_id(),
        author=author,
        body=rules.text_body(body, "IssueComment"),
        created_at=now(),
        updated_at=now(),
        issue=pull,
    )
    hub.rows.issue_comments[made.id] = made
    payload: dict[str, Any] = {
        "action": "created",
        "issue": pulls.issue(hub, pull),
        "comment": comments.issue_comment(hub, made),
        "repository": repos.repository(hub.urls, pull.repo),
        "sender": people.account(hub.urls, author),
    }
    service.dispatcher.announce("issue_comment", pull.repo, payload)
    return made


def rerun(service: Service, run: CheckRun, sender: Account) -> None:
    """Press *Re-run* on a check run: its suite goes back to queued, the run itself is not touched."""
    run.suite.is_rerequested = True
    payload = webhooks.check_run_event(service.hub, run, "rerequested", sender)
    service.dispatcher.announce("check_run", run.suite.repo, payload, run.suite.app)


def rerun_all(service: Service, suite: CheckSuite, sender: Account) -> None:
    """Press *Re-run all*."""
    suite.is_rerequested = True
    payload = webhooks.check_suite_event(service.hub, suite, "rerequested", sender)
    service.dispatcher.announce("check_suite", suite.repo, payload, suite.app)


def press(service: Service, run: CheckRun, identifier: str, sender: Account) -> None:
    """Press one of a run's own buttons."""
    if identifier not in {action["identifier"] for action in run.actions}:
        raise not_found()
    payload = webhooks.check_run_event(
        service.hub, run, "requested_action", sender, requested_action={"identifier": identifier}
    )
    service.dispatcher.announce("check_run", run.suite.repo, payload, run.suite.app)


def apply_suggestions(service: Service, pull: Pull, chosen: list[ReviewComment], sender: Account) -> str:
    """Commit the suggestions of some comments as one batch onto the head branch, and return the new head."""
    if pull.state != "open":
        raise invalid("PullRequest", "state", "Suggestions cannot be applied while the pull request is closed.")
    if pull.head_repo is None:
        raise invalid("PullRequest", "head", "Suggestions cannot be applied: the head repository was deleted.")
    changes: dict[str, list[Change]] = {}
    for item in chosen:
        change = change_of(item)
        changes.setdefault(item.path, []).append(change)
    git = pull.head_repo.git
    files = {}
    for path, wanted in changes.items():
        entry = git.entry(pull.head_sha, path)
        files[path] = apply_changes(git.blob(entry.sha) or b"" if entry else b"", wanted)
    index = service.hub.data_dir / f"index-{service.hub.new_id()}"
    date = now().strftime("%Y-%m-%dT%H:%M:%S+0000")
    sha = git.write_commit(pull.head_sha, files, "Apply suggestions from code review", sender.login, date, index)
    move_branch(service, pull.head_repo, pull.head_ref, sha, sender)
    return sha
