"""The things a hub holds. Mutable on purpose: `state.Hub` owns them all, behind one lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from bot.localhub.gitrepo import GitRepo

Json = dict[str, Any]
Permissions = dict[str, str]


@dataclass(slots=True, kw_only=True, eq=False)
class Account:
    """A user, an organisation or an app's bot user."""

    id: int
    login: str
    type: Literal["User", "Organization", "Bot"] = "User"


@dataclass(slots=True, kw_only=True, eq=False)
class App:
    """A registered GitHub App. `public_key` is PEM; the hub never sees the private one."""

    id: int
    slug: str
    owner: Account
    bot: Account
    public_key: str
    webhook_url: str
    webhook_secret: str
    permissions: Permissions
    events: tuple[str, ...]
    created_at: datetime
    client_secret: str = ""

    @property
    def client_id(self) -> str:
        """For its JWT, and for people who log in through it."""
        return f"Iv1.local{self.id}"


@dataclass(slots=True, kw_only=True, eq=False)
class Installation:
    """An app on an account. `repository_ids` None means all repositories of the account."""

    id: int
    app: App
    account: Account
    permissions: Permissions
    created_at: datetime
    repository_ids: set[int] | None = None
    suspended_at: datetime | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Token:
    """An installation token, narrowed to permissions and maybe to repositories."""

    value: str
    installation: Installation
    permissions: Permissions
    repository_ids: set[int] | None
    expires_at: datetime


@dataclass(slots=True, kw_only=True, eq=False)
class UserToken:
    """A token of a person who logged in through an app: it sees what both of them see. `until` in epoch seconds."""

    value: str
    app: App
    user: Account
    until: float


@dataclass(slots=True, kw_only=True, eq=False)
class Repository:
    """A repository; `roles` says who may do what (admin, maintain, write, triage, read)."""

    id: int
    owner: Account
    name: str
    git: GitRepo
    is_private: bool
    default_branch: str
    created_at: datetime
    roles: dict[str, str] = field(default_factory=dict)
    parent: Repository | None = None
    protected: set[str] = field(default_factory=set)
    """Branches that change through pull requests alone."""

    @property
    def full_name(self) -> str:
        """``owner/name``."""
        return f"{self.owner.login}/{self.name}"


@dataclass(slots=True, kw_only=True, eq=False)
class Issue:
    """A conversation with a number: a plain issue, or the part of a pull request that is one."""

    id: int
    number: int
    repo: Repository
    title: str
    body: str
    author: Account
    created_at: datetime
    updated_at: datetime
    state: Literal["open", "closed"] = "open"
    closed_at: datetime | None = None
    is_locked: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Pull(Issue):
    """A pull request. `head_repo` None: the fork was deleted. `base_sha` is the tip of the base as of the last push."""

    base_ref: str
    base_sha: str
    head_ref: str
    head_sha: str
    head_owner: Account
    head_repo: Repository | None
    is_draft: bool = False
    merged_at: datetime | None = None
    merged_by: Account | None = None
    past_heads: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class Comment:
    """What conversation and review comments share."""

    id: int
    author: Account
    body: str
    created_at: datetime
    updated_at: datetime
    app: App | None = None
    reactions: list[Reaction] = field(default_factory=list)
    minimized_reason: str | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class IssueComment(Comment):
    """A comment in the conversation of an issue or pull request."""

    issue: Issue


@dataclass(slots=True, kw_only=True, eq=False)
class ReviewComment(Comment):
    """A comment on lines (or on a whole file: `line` None) of the diff between merge base and `commit_id`."""

    pull: Pull
    review: Review
    path: str
    commit_id: str
    line: int | None
    side: str
    start_line: int | None
    start_side: str | None
    diff_hunk: str
    subject_type: str = "line"
    in_reply_to: ReviewComment | None = None
    is_resolved: bool = False  # of the thread; kept on its first comment
    resolved_by: Account | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Review:
    """A review; PENDING ones are seen by their author alone."""

    id: int
    pull: Pull
    author: Account
    app: App | None
    body: str
    state: str
    commit_id: str
    submitted_at: datetime | None
    comments: list[ReviewComment] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class Reaction:
    """A reaction of one account to one comment."""

    id: int
    author: Account
    content: str
    created_at: datetime


@dataclass(slots=True, kw_only=True, eq=False)
class CheckSuite:
    """All check runs of one app on one commit of one repository."""

    id: int
    repo: Repository
    app: App
    head_sha: str
    head_branch: str | None
    created_at: datetime
    updated_at: datetime
    is_rerequested: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class CheckRun:
    """One check run. Annotations are only ever appended."""

    id: int
    suite: CheckSuite
    name: str
    external_id: str
    details_url: str
    status: str
    conclusion: str | None
    started_at: str | None
    completed_at: str | None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[Json] = field(default_factory=list)
    actions: list[Json] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """One attempt to deliver a webhook. A redelivery has another id and the same guid."""

    id: int
    guid: str
    app: App
    event: str
    action: str | None
    installation_id: int | None
    repository_id: int | None
    payload: Json
    delivered_at: datetime
    is_redelivery: bool = False
    status: str = "pending"
    status_code: int = 0
    duration: float = 0.0
    request_headers: Json = field(default_factory=dict)
    response_headers: Json = field(default_factory=dict)
    response_body: str = ""
