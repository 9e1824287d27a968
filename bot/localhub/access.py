"""Who is asking, and what that one may do: JWT and installation tokens, and the permission each operation needs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import jwt

from bot.localhub.clock import now
from bot.localhub.errors import Refusal, not_found
from bot.localhub.model import Account, App, Installation, Permissions, Repository, Token
from bot.localhub.state import Hub

TOKEN_LIFE = timedelta(hours=1)
MAX_JWT_SECONDS = 600
_CLOCK_DRIFT_SECONDS = 30
_LEVELS = {"read": 1, "write": 2, "admin": 3}
NOT_REACHABLE = "There is at least one repository that does not exist or is not accessible to the parent installation."
_NOT_DECODED = "A JSON web token could not be decoded"
_EXP_PASSED = (
    "'Expiration time' claim ('exp') must be a numeric value "
    "representing the future time at which the assertion expires"
)
_IAT_WRONG = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"

ANYBODY = ("nobody in particular",)
# Flask endpoint -> permissions of which one is enough. "app": the app's JWT; "token": any installation token.
NEEDS: dict[str, tuple[str, ...]] = {
    "registration.convert": ANYBODY,
    "app.get_app": ("app",),
    "app.list_installations": ("app",),
    "app.get_installation": ("app",),
    "app.create_token": ("app",),
    "app.repository_installation": ("app",),
    "app.get_hook_config": ("app",),
    "app.list_deliveries": ("app",),
    "app.get_delivery": ("app",),
    "app.redeliver": ("app",),
    "app.installation_repositories": ("token",),
    "app.rate_limit": ("token", "app"),
    "repos.get_repository": ("metadata:read",),
    "gitdata.create_blob": ("contents:write",),
    "gitdata.create_tree": ("contents:write",),
    "gitdata.create_commit": ("contents:write",),
    "gitdata.get_commit": ("contents:read",),
    "gitdata.get_ref": ("contents:read",),
    "gitdata.update_ref": ("contents:write",),
    "repos.collaborator_permission": ("metadata:read",),
    "repos.get_contents": ("contents:read",),
    "repos.get_blob": ("contents:read",),
    "repos.get_tree": ("contents:read",),
    "repos.get_commit": ("contents:read",),
    "repos.compare": ("contents:read",),
    "repos.tarball": ("contents:read",),
    "repos.commit_pulls": ("pull_requests:read",),
    "pulls.list_pulls": ("pull_requests:read",),
    "pulls.get_pull": ("pull_requests:read",),
    "pulls.list_files": ("pull_requests:read",),
    "pulls.list_commits": ("pull_requests:read",),
    "reviews.list_reviews": ("pull_requests:read",),
    "reviews.get_review": ("pull_requests:read",),
    "reviews.create_review": ("pull_requests:write",),
    "reviews.update_review": ("pull_requests:write",),
    "reviews.submit_review": ("pull_requests:write",),
    "reviews.delete_review": ("pull_requests:write",),
    "reviews.dismiss_review": ("pull_requests:write",),
    "reviews.list_review_comments": ("pull_requests:read",),
    "reviews.list_comments": ("pull_requests:read",),
    "reviews.create_comment": ("pull_requests:write",),
    "reviews.reply": ("pull_requests:write",),
    "reviews.get_comment": ("pull_requests:read",),
    "reviews.update_comment": ("pull_requests:write",),
    "reviews.delete_comment": ("pull_requests:write",),
    "reviews.create_reaction": ("pull_requests:write",),
    "issues.get_issue": ("issues:read", "pull_requests:read"),
    "issues.list_comments": ("issues:read", "pull_requests:read"),
    "issues.create_comment": ("issues:write", "pull_requests:write"),
    "issues.get_comment": ("issues:read", "pull_requests:read"),
    "issues.update_comment": ("issues:write", "pull_requests:write"),
    "issues.delete_comment": ("issues:write", "pull_requests:write"),
    "issues.list_reactions": ("issues:read", "pull_requests:read"),
    "issues.create_reaction": ("issues:write", "pull_requests:write"),
    "checks.create_run": ("checks:write",),
    "checks.update_run": ("checks:write",),
    "checks.get_run": ("checks:read",),
    "checks.list_annotations": ("checks:read",),
    "checks.rerequest_run": ("checks:write",),
    "checks.list_runs": ("checks:read",),
    "checks.list_suites": ("checks:read",),
    "graphql.query": ("token",),
    "user.get_user": ("user",),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: an app by its JWT, or an installation by a token of it."""

    app: App
    token: Token | None = None
    user: Account | None = None

    @property
    def account(self) -> Account:
        """The account that acts."""
        return self.user or self.app.bot

    def allows(self, needs: Iterable[str]) -> bool:
        """Whether one of the named permissions is held."""
        return any(self._holds(need) for need in needs)

    def _holds(self, need: str) -> bool:
        if self.user is not None:
            return need in {"user", "metadata:read"}
        if need == "user":
            return False
        if need in {"app", "token"}:
            return (self.token is None) == (need == "app")
        if self.token is None:
            return False
        name, _, level = need.partition(":")
        held = {"metadata": "read"} | self.token.permissions
        return _LEVELS.get(held.get(name, ""), 0) >= _LEVELS[level]

    def sees(self, repo: Repository) -> bool:
        """Whether a repository is inside the token's reach; a person's reaches what that one may read."""
        if self.user is not None:
            role = repo.roles.get(self.user.login.lower(), "none")
            return not repo.is_private or role != "none" or repo.owner is self.user
        if self.token is None:
            return False
        found = self.token.installation
        inside = found.repository_ids is None or repo.id in found.repository_ids
        chosen = self.token.repository_ids is None or repo.id in self.token.repository_ids
        return repo.owner is found.account and inside and chosen


def authenticate(hub: Hub, header: str | None) -> Caller:
    """The caller behind an ``Authorization`` header; 401 when there is none."""
    if not header:
        raise Refusal(401, "Requires authentication")
    scheme, _, value = header.partition(" ")
    value = value.strip()
    if scheme.lower() not in {"bearer", "token"} or not value:
        raise Refusal(401, "Bad credentials")
    if value.count(".") == 2 and not value.startswith("ghs_"):
        return Caller(_app_of(hub, value))
    person = hub.rows.user_tokens.get(value)
    if person is not None and person.until > time.time():
        return Caller(person.app, user=person.user)
    token = hub.rows.tokens.get(value)
    if token is None or token.expires_at <= now():
        raise Refusal(401, "Bad credentials")
    if token.installation.id not in hub.rows.installations:
        raise Refusal(401, "Bad credentials")
    if token.installation.suspended_at is not None:
        raise Refusal(403, "This installation has been suspended")
    return Caller(token.installation.app, token)


def _app_of(hub: Hub, value: str) -> App:
    try:
        claims = jwt.decode(value, options={"verify_signature": False})
    except jwt.PyJWTError:
        raise Refusal(401, _NOT_DECODED) from None
    issuer = str(claims.get("iss", ""))
    if not issuer:
        raise Refusal(401, "Missing 'issuer' claim ('iss') in assertion")
    app = next((app for app in hub.rows.apps.values() if issuer in {str(app.id), app.client_id}), None)
    if app is None:
        raise Refusal(404, "Integration not found")
    checked_none = {"verify_exp": False, "verify_iat": False, "verify_iss": False, "verify_nbf": False}
    try:
        jwt.decode(value, app.public_key, algorithms=["RS256"], options=checked_none)  # type: ignore[arg-type]
    except jwt.PyJWTError:
        raise Refusal(401, _NOT_DECODED) from None
    _check_times(claims.get("iat"), claims.get("exp"))
    return app


def _check_times(issued: object, expires: object) -> None:
    if not isinstance(issued, int) or issued > time.time() + _CLOCK_DRIFT_SECONDS:
        raise Refusal(401, _IAT_WRONG)
    if not isinstance(expires, int) or expires <= time.time():
        raise Refusal(401, _EXP_PASSED)
    if expires > time.time() + MAX_JWT_SECONDS + _CLOCK_DRIFT_SECONDS:
        raise Refusal(401, "'Expiration time' claim ('exp') is too far in the future")


def check_allowed(caller: Caller, endpoint: str) -> None:
    """403 when the caller's permissions do not reach; an endpoint without an entry is a bug of the hub."""
    needs = NEEDS[endpoint]
    if caller.allows(needs):
        return
    if needs == ("app",):
        raise Refusal(401, _NOT_DECODED)
    raise Refusal(
        403, "Resource not accessible by integration", headers={"X-Accepted-GitHub-Permissions": _accepted(needs)}
    )


def _accepted(needs: tuple[str, ...]) -> str:
    return "; ".join(need.replace(":", "=") for need in needs)


def issue_token(
    hub: Hub, installation: Installation, permissions: Permissions | None, repository_ids: list[int] | None
) -> Token:
    """A new installation token; 422 when it asks for more than the installation has."""
    for name, level in (permissions or {}).items():
        if _LEVELS.get(level, 9) > _LEVELS.get(installation.permissions.get(name, ""), 0):
            raise Refusal(422, "The permissions requested are not granted to this installation.")
    if repository_ids:
        reachable = [hub.rows.repositories.get(one) for one in repository_ids]
        allowed = installation.repository_ids
        if any(
            repo is None or repo.owner is not installation.account or (allowed is not None and repo.id not in allowed)
            for repo in reachable
        ):
            raise Refusal(422, NOT_REACHABLE)
    token = Token(
        # The stateless form that GitHub moves to: longer than the old forty characters, with dots in it.
        value=f"ghs_{installation.app.id}_{secrets.token_urlsafe(40)}.{secrets.token_urlsafe(40)}",
        installation=installation,
        permissions=dict(permissions or installation.permissions),
        repository_ids=set(repository_ids) if repository_ids else None,
        expires_at=now() + TOKEN_LIFE,
    )
    hub.rows.tokens[token.value] = token
    return token


def repository_for(hub: Hub, caller: Caller, owner: str, name: str) -> Repository:
    """A repository the caller sees; 404 otherwise, as for one that does not exist."""
    repo = hub.repository(owner, name)
    if not caller.sees(repo):
        raise not_found()
    return repo
