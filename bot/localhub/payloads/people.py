"""Accounts, apps and installations."""

from __future__ import annotations

from bot.localhub.clock import stamp, stamp_or_none
from bot.localhub.model import Account, App, Installation, Json, Repository
from bot.localhub.urls import Urls

READ_ONLY = {"triage": "read", "read": "read", "none": "none"}
ROLE_LEVELS = {"admin": "admin", "maintain": "write", "write": "write"} | READ_ONLY


def account(urls: Urls, person: Account) -> Json:
    """A ``simple-user``."""
    base = urls.api(f"/users/{person.login}")
    return {
        "login": person.login,
        "id": person.id,
        "node_id": f"U_{person.id}",
        "avatar_url": urls.web(f"/avatars/{person.id}"),
        "gravatar_id": "",
        "url": base,
        "html_url": urls.web(f"/{person.login}"),
        "followers_url": f"{base}/followers",
        "following_url": f"{base}/following{{/other_user}}",
        "gists_url": f"{base}/gists{{/gist_id}}",
        "starred_url": f"{base}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{base}/subscriptions",
        "organizations_url": f"{base}/orgs",
        "repos_url": f"{base}/repos",
        "events_url": f"{base}/events{{/privacy}}",
        "received_events_url": f"{base}/received_events",
        "type": person.type,
        "site_admin": False,
    }


def app(urls: Urls, found: App) -> Json:
    """An ``integration``."""
    return {
        "id": found.id,
        "slug": found.slug,
        "client_id": found.client_id,
        "node_id": f"A_{found.id}",
        "owner": account(urls, found.owner),
        "name": found.slug,
        "description": "",
        "external_url": urls.web(f"/apps/{found.slug}"),
        "html_url": urls.web(f"/apps/{found.slug}"),
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.created_at),
        "permissions": dict(found.permissions),
        "events": list(found.events),
    }


def installation(urls: Urls, found: Installation) -> Json:
    """An ``installation``."""
    return {
        "id": found.id,
        "account": account(urls, found.account),
        "access_tokens_url": urls.api(f"/app/installations/{found.id}/access_tokens"),
        "repositories_url": urls.api("/installation/repositories"),
        "html_url": urls.web(f"/organizations/{found.account.login}/settings/installations/{found.id}"),
        "app_id": found.app.id,
        "app_slug": found.app.slug,
        "client_id": found.app.client_id,
        "target_id": found.account.id,
        "target_type": found.account.type,
        "permissions": dict(found.permissions),
        "events": list(found.app.events),
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.created_at),
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "repository_selection": "all" if found.repository_ids is None else "selected",
        "suspended_by": None,
        "suspended_at": stamp_or_none(found.suspended_at),
    }


def role_in(repo: Repository, person: Account) -> str:
    """The role an account has: the owner's is admin, a public repository is read by everybody."""
    if person is repo.owner:
        return "admin"
    return repo.roles.get(person.login.lower(), "none" if repo.is_private else "read")


def collaborator(urls: Urls, repo: Repository, person: Account) -> Json:
    """A ``repository-collaborator-permission``."""
    role = role_in(repo, person)
    level = ROLE_LEVELS[role]
    rights = {
        "pull": level != "none",
        "triage": role not in {"read", "none"},
        "push": level in {"write", "admin"},
        "maintain": role in {"maintain", "admin"},
        "admin": role == "admin",
    }
    user = account(urls, person) | {"permissions": rights, "role_name": role, "email": None, "name": None}
    return {"permission": level, "role_name": role, "user": user}


def association(repo: Repository, person: Account) -> str:
    """``author_association``: a relation, not a permission."""
    if person is repo.owner:
        return "OWNER"
    return "COLLABORATOR" if person.login.lower() in repo.roles else "NONE"
