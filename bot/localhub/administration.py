"""What owners do: protect a branch, accept a permission, suspend an installation, queue a pull request for merging.

Callers hold `Hub.lock`.
"""

from __future__ import annotations

from bot.localhub import people, webhooks
from bot.localhub.clock import now
from bot.localhub.errors import Refusal
from bot.localhub.model import Account, Installation, Permissions, Pull
from bot.localhub.payloads import repos
from bot.localhub.payloads.pushes import push_event
from bot.localhub.service import Service


def grant(service: Service, installation: Installation, permissions: Permissions, sender: Account) -> None:
    """Accept new permissions; tokens that are there keep their old ones, as on GitHub."""
    installation.permissions.update(permissions)
    _tell(service, installation, "new_permissions_accepted", sender)


def suspend(service: Service, installation: Installation, sender: Account, *, is_over: bool = False) -> None:
    """Suspend an installation, or end that."""
    installation.suspended_at = None if is_over else now()
    _tell(service, installation, "unsuspend" if is_over else "suspend", sender)


def _tell(service: Service, installation: Installation, action: str, sender: Account) -> None:
    payload = webhooks.installation_event(service.hub, installation, action, sender)
    service.dispatcher.tell("installation", installation, payload)


def merge(service: Service, pull: Pull, sender: Account) -> str:
    """Press *Merge*: a merge commit on the base branch, which must not have moved past the head's merge base."""
    git, hub = pull.repo.git, service.hub
    tip = git.branches()[pull.base_ref]
    if pull.state != "open" or pull.is_draft or not git.is_ancestor(tip, pull.head_sha):
        raise Refusal(405, "Pull Request is not mergeable")
    date = now().strftime("%Y-%m-%dT%H:%M:%S+0000")
    title = f"Merge pull request #{pull.number}"
    sha = git.commit_tree(git.commit(pull.head_sha).tree, [tip, pull.head_sha], title, sender.login, date)
    git.set_ref(f"refs/heads/{pull.base_ref}", sha)
    pull.merged_at, pull.merged_by = now(), sender
    people.change_state(service, pull, "closed", sender)
    pushed = push_event(hub.urls, pull.repo, pull.base_ref, tip, sha, sender)
    service.dispatcher.announce("push", pull.repo, pushed)
    return sha


def queue_for_merge(service: Service, pull: Pull, sender: Account) -> str:
    """Put a pull request into the merge queue, alone: the group's head is a merge commit on a branch of its own."""
    git = pull.repo.git
    if pull.state != "open" or pull.is_draft:
        raise Refusal(422, "Pull request is not in a mergeable state")
    date = now().strftime("%Y-%m-%dT%H:%M:%S+0000")
    title = f"Merge pull request #{pull.number}"
    sha = git.commit_tree(git.commit(pull.head_sha).tree, [pull.base_sha, pull.head_sha], title, sender.login, date)
    ref = f"refs/heads/gh-readonly-queue/{pull.base_ref}/pr-{pull.number}-{pull.base_sha}"
    git.set_ref(ref, sha)
    group = {
        "head_sha": sha,
        "head_ref": ref,
        "base_sha": pull.base_sha,
        "base_ref": f"refs/heads/{pull.base_ref}",
        "head_commit": repos.simple_commit(git.commit(sha)),
    }
    payload = webhooks.merge_group_event(service.hub, pull.repo, group, sender)
    service.dispatcher.announce("merge_group", pull.repo, payload)
    return sha
