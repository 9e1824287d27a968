"""The one place that holds everything. Routes and people act on it while they hold `Hub.lock`."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bot.localhub.clock import now
from bot.localhub.errors import not_found
from bot.localhub.gitrepo import GitRepo
from bot.localhub.model import (
    Account,
    App,
    CheckRun,
    CheckSuite,
    Delivery,
    Installation,
    Issue,
    IssueComment,
    Permissions,
    Pull,
    Repository,
    Review,
    ReviewComment,
    Token,
    UserToken,
)
from bot.localhub.patches import FileChange, changed_files
from bot.localhub.urls import Urls

_MAX_CACHED_DIFFS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSpec:
    """How to register an app: what the manifest flow would have asked for. `public_key` is PEM."""

    slug: str
    public_key: str
    webhook_url: str
    webhook_secret: str
    permissions: Permissions
    events: tuple[str, ...]
    client_secret: str = ""


@dataclass(slots=True)
class Tables:
    """Rows by id."""

    accounts: dict[str, Account] = field(default_factory=dict)
    apps: dict[int, App] = field(default_factory=dict)
    installations: dict[int, Installation] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    user_tokens: dict[str, UserToken] = field(default_factory=dict)
    repositories: dict[int, Repository] = field(default_factory=dict)
    issues: dict[tuple[int, int], Issue] = field(default_factory=dict)
    issue_comments: dict[int, IssueComment] = field(default_factory=dict)
    reviews: dict[int, Review] = field(default_factory=dict)
    review_comments: dict[int, ReviewComment] = field(default_factory=dict)
    suites: dict[int, CheckSuite] = field(default_factory=dict)
    runs: dict[int, CheckRun] = field(default_factory=dict)
    deliveries: dict[int, Delivery] = field(default_factory=dict)


class Hub:
    """The state of one local GitHub. `data_dir` is where its git repositories live."""

    def __init__(self, data_dir: Path, root_url: str) -> None:
        self.data_dir = data_dir
        self.urls = Urls(root_url)
        self.lock = threading.RLock()
        self.rows = Tables()
        self._ids = itertools.count(1001)
        self._old_names: dict[str, int] = {}
        self._diffs: OrderedDict[tuple[Path, str, str], list[FileChange]] = OrderedDict()

    def new_id(self) -> int:
        """An id nothing else has; later ones are larger."""
        return next(self._ids)

    # --- making things -----------------------------------------------------------------------------------------

    def account(self, login: str, kind: Literal["User", "Organization", "Bot"] = "User") -> Account:
        """The account of that name, made when it is new."""
        found = self.rows.accounts.get(login.lower())
        if found is None:
            found = Account(id=self.new_id(), login=login, type=kind)
            self.rows.accounts[login.lower()] = found
        return found

    def register_app(self, spec: AppSpec, owner: str) -> App:
        """Register an app and its bot user."""
        app = App(
            id=self.new_id(),
            slug=spec.slug,
            owner=self.account(owner, "Organization"),
            bot=self.account(f"{spec.slug}[bot]", "Bot"),
            public_key=spec.public_key,
            webhook_url=spec.webhook_url,
            webhook_secret=spec.webhook_secret,
            permissions=dict(spec.permissions),
            events=spec.events,
            created_at=now(),
            client_secret=spec.client_secret or secrets.token_hex(20),
        )
        self.rows.apps[app.id] = app
        return app

    def install(self, app: App, account: Account, repository_ids: Iterable[int] | None = None) -> Installation:
        """Install an app on an account: on all its repositories, or on some."""
        installation = Installation(
            id=self.new_id(),
            app=app,
            account=account,
            permissions=dict(app.permissions),
            created_at=now(),
            repository_ids=None if repository_ids is None else set(repository_ids),
        )
        self.rows.installations[installation.id] = installation
        return installation

    def add_repository(self, full_name: str, source: Path, *, is_private: bool = True) -> Repository:
        """A repository that begins as a bare copy of `source`, which is only read."""
        owner, _, name = full_name.partition("/")
        path = self.data_dir / owner / f"{name}.git"
        path.parent.mkdir(parents=True, exist_ok=True)
        git = GitRepo.clone(str(source), path)
        branches = git.branches()
        default = "main" if "main" in branches else next(iter(branches), "main")
        repo = Repository(
            id=self.new_id(),
            owner=self.account(owner, "Organization"),
            name=name,
            git=git,
            is_private=is_private,
            default_branch=default,
            created_at=now(),
        )
        self.rows.repositories[repo.id] = repo
        return repo

    def rename(self, repo: Repository, name: str) -> None:
        """Another name; the old one goes on redirecting until somebody takes it."""
        self._old_names[repo.full_name.lower()] = repo.id
        repo.name = name

    # --- finding things ----------------------------------------------------------------------------------------

    def repository(self, owner: str, name: str) -> Repository:
        """By name, whatever the case of its letters; 404 when there is none."""
        wanted = f"{owner}/{name}".lower()
        for repo in self.rows.repositories.values():
            if repo.full_name.lower() == wanted:
                return repo
        raise not_found()

    def renamed(self, full_name: str) -> Repository | None:
        """The repository that had this name, unless another has it now."""
        repo_id = self._old_names.get(full_name.lower())
        if repo_id is None or any(
            repo.full_name.lower() == full_name.lower() for repo in self.rows.repositories.values()
        ):
            return None
        return self.rows.repositories.get(repo_id)

    def moved(self, path: str) -> str | None:
        """Where the API path of a repository's old name is now."""
        parts = path.split("/", 4)
        if len(parts) < 4 or parts[1] != "repos":
            return None
        repo = self.renamed(f"{parts[2]}/{parts[3]}")
        return None if repo is None else "/".join([f"/repositories/{repo.id}", *parts[4:]])

    def issue(self, repo: Repository, number: int) -> Issue:
        """An issue or a pull request by its number."""
        try:
            return self.rows.issues[repo.id, number]
        except KeyError:
            raise not_found() from None

    def pull(self, repo: Repository, number: int) -> Pull:
        """A pull request by its number."""
        found = self.issue(repo, number)
        if not isinstance(found, Pull):
            raise not_found()
        return found

    def pulls(self, repo: Repository) -> list[Pull]:
        """All pull requests of a repository, oldest first."""
        found = [issue for issue in self.rows.issues.values() if issue.repo is repo]
        return sorted((pull for pull in found if isinstance(pull, Pull)), key=lambda pull: pull.number)

    def next_number(self, repo: Repository) -> int:
        """Issues and pull requests share one count."""
        return max((number for repo_id, number in self.rows.issues if repo_id == repo.id), default=0) + 1

    def installations_of(self, repo: Repository) -> list[Installation]:
        """The installations that see a repository."""
        return [
            found
            for found in self.rows.installations.values()
            if found.account is repo.owner and (found.repository_ids is None or repo.id in found.repository_ids)
        ]

    def comments_of(self, pull: Pull) -> list[ReviewComment]:
        """The submitted review comments of a pull request, oldest first."""
        found = self.rows.review_comments.values()
        return [item for item in found if item.pull is pull and item.review.state != "PENDING"]

    def conversation_of(self, issue: Issue) -> list[IssueComment]:
        """The conversation of an issue or pull request, oldest first."""
        return [item for item in self.rows.issue_comments.values() if item.issue is issue]

    def reviews_of(self, pull: Pull) -> list[Review]:
        """All reviews of a pull request, oldest first; pending ones too."""
        return [item for item in self.rows.reviews.values() if item.pull is pull]

    def runs_on(self, repo: Repository, head_sha: str) -> list[CheckRun]:
        """All check runs on a commit, oldest first."""
        return [run for run in self.rows.runs.values() if run.suite.repo is repo and run.suite.head_sha == head_sha]

    # --- what git says of a pull request -----------------------------------------------------------------------

    def merge_base(self, pull: Pull, head_sha: str | None = None) -> str:
        """The commit a pull request is compared with."""
        return pull.repo.git.merge_base(pull.base_sha, head_sha or pull.head_sha) or pull.base_sha

    def files(self, pull: Pull, head_sha: str | None = None) -> list[FileChange]:
        """The changed files of a pull request, at its head or at an older one of its commits."""
        head = head_sha or pull.head_sha
        return self.diff(pull.repo.git, self.merge_base(pull, head), head)

    def diff(self, git: GitRepo, old: str, new: str) -> list[FileChange]:
        """The changed files between two commits, from a small cache (commits never change)."""
        key = (git.path, old, new)
        if key not in self._diffs:
            self._diffs[key] = changed_files(git, old, new)
            if len(self._diffs) > _MAX_CACHED_DIFFS:
                self._diffs.popitem(last=False)
        return self._diffs[key]

    def commits(self, pull: Pull) -> list[str]:
        """The commits a pull request adds, oldest first."""
        return pull.repo.git.rev_list(pull.head_sha, f"^{pull.base_sha}")
