"""The few typed calls we make to GitHub, for one repository of one installation. Nobody else speaks HTTP to it.

PyGithub (behind `bot.github.retry`) does authentication, connections and GHES addresses. Every write happens inside
`publishing()`, which holds the installation's publisher lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from urllib.parse import quote

from bot.core.gate import Check
from bot.core.ledger import Ledger
from bot.core.seal import Opened, seal, unseal
from bot.errors import InputError
from bot.github.auth import AppCredentials
from bot.github.checks import Checks
from bot.github.commits import Commits
from bot.github.comparisons import Comparisons, changed_file
from bot.github.contents import Contents
from bot.github.errors import Gone, NotFound
from bot.github.gate import memory_check
from bot.github.limits import PATIENCE, Throttle
from bot.github.owner import OwnerDefaults, OwnerFile
from bot.github.people import Contributors
from bot.github.pulls import PullInfo, from_rest
from bot.github.retry import Api
from bot.github.reviews import Conversation
from bot.github.talk import Talks
from bot.github.threads import Threads
from bot.keys import LEDGER, all_derived, derived
from bot.settings import WorkerSettings
from bot.sources.base import ChangedFile
from bot.store import HOUR, Client, Keys

MAX_FILES = 3_000
"""GitHub lists no more files of a pull request."""


class Gateway:
    """One repository as its installation sees it. Made for one job; `calls` counts its requests."""

    def __init__(
        self,
        settings: WorkerSettings,
        client: Client,
        keys: Keys,
        *,
        installation_id: int,
        repo_id: int,
        full_name: str,
        patience: float = PATIENCE,
    ) -> None:
        """`patience`: seconds to wait for the turn to write, where another job publishes."""
        credentials = AppCredentials(settings, client, keys)
        self._throttle = Throttle(client, keys, installation_id, settings.pace, patience)

        def api(also: Mapping[str, str] | None = None) -> Api:
            return Api(
                lambda fresh: credentials.installation(installation_id, repo_id, fresh=fresh, also=also),
                settings.api_url,
                self._throttle,
                settings.verify,
            )

        self._api = api()
        self._writing = api({"contents": "write"})
        self._repo = f"/repos/{full_name}"
        self._owner, self._installation_id = full_name.partition("/")[0], installation_id
        self._defaults = OwnerDefaults(credentials, client, keys, settings.api_url, settings.verify)
        self.checks = Checks(self._api, self._repo)
        self.conversation = Conversation(self._api, self._repo, credentials.login)
        self.threads = Threads(self._api, self._repo, credentials.login)
        self.comparisons = Comparisons(self._api, client, keys, repo_id=repo_id, repo=self._repo)
        self.contents = Contents(self._api, client, keys, repo_id=repo_id, full_name=full_name)
        self.talks = Talks(self._api, full_name)
        self.people = Contributors(self._api, self._repo)
        self._permissions: dict[str, str] = {}
        self._repo_id, self._installation_id = repo_id, installation_id
        self._settings, self._client, self._keys = settings, client, keys

    def memory_check(self, sha: str, app_id: int) -> Check:
        """``preflight/memory`` of a commit as a submission gate reads it; the repository by its id."""
        return memory_check(self._api, str(self._repo_id), sha, app_id, self._repo_id)

    def name_and_branch(self) -> tuple[str, str]:
        """The repository's full name and its default branch, by its id."""
        found = self._api.get(f"/repositories/{self._repo_id}")
        return str(found["full_name"]), str(found["default_branch"])

    @property
    def calls(self) -> int:
        return self._api.calls + self._writing.calls + self._defaults.calls

    def commits(self) -> Commits | None:
        """Commits to the repository; None where the installation does not let us write contents."""
        writing = self.contents_writer()
        return Commits(writing, self._repo) if writing is not None else None

    def owner_file(self) -> OwnerFile | None:
        """The owner's default configuration."""
        return self._defaults.read(self._installation_id, self._owner)

    def publishing(self) -> AbstractContextManager[None]:
        """The turn of this job to write to the installation."""
        return self._throttle.publishing()

    def pull(self, number: int) -> PullInfo:
        """Raises `NotFound` where there is no such pull request."""
        return from_rest(self._api.get(f"{self._repo}/pulls/{number}"))

    def sealed(self, ledger: Ledger, number: int) -> str:
        """The hidden comment that holds the ledger of a pull request of this repository."""
        return seal(ledger, self._repo_id, number, derived(self._settings.private_key, LEDGER))

    def unsealed(self, body: str, number: int) -> Opened:
        """The ledger in our summary comment, if this app wrote it for this pull request."""
        return unseal(body, self._repo_id, number, all_derived(self._settings.private_keys, LEDGER))

    def contents_writer(self) -> Api | None:
        """An access with ``contents: write``, which resolves threads and pushes fixes; None where it is not granted.

        The refusal is remembered for an hour, or until the installation's permissions change.
        """
        refused = self._keys.token(self._installation_id, "no-contents-write")
        if self._client.exists(refused):
            return None
        try:
            self._writing.ready()
        except Gone:
            raise
        except InputError:
            self._client.set(refused, b"1", ex=HOUR)
            return None
        return self._writing

    def open_pulls_with_head(self, sha: str) -> list[int]:
        """Open pull requests whose head is `sha`, forks included (``/commits/{sha}/pulls`` leaves them out)."""
        pulls = self._api.pages(f"{self._repo}/pulls", {"state": "open", "sort": "updated", "direction": "desc"}, 1_000)
        return [int(pull["number"]) for pull in pulls if pull["head"]["sha"] == sha]

    def changes(self, pull: PullInfo) -> tuple[str, tuple[ChangedFile, ...]]:
        """The commit that base and head have in common, and the changed files, at most `MAX_FILES`.

        One request for most pull requests. Where comparison and pull request disagree in number, the latter's own list
        holds.
        """
        compared = self.comparisons.between(pull.base_sha, pull.head_sha)
        if compared.has_all(pull.num_files):
            return compared.merge_base, compared.files
        entries = self._api.pages(f"{self._repo}/pulls/{pull.number}/files", limit=MAX_FILES)
        return compared.merge_base, tuple(map(changed_file, entries))

    def permission(self, login: str) -> str:
        """``admin``, ``write``, ``read`` or ``none`` (maintain counts as write, triage as read); asked once a job."""
        if login not in self._permissions:
            path = f"{self._repo}/collaborators/{quote(login, safe='')}/permission"
            try:
                self._permissions[login] = str(self._api.get(path)["permission"])
            except NotFound:
                self._permissions[login] = "none"
        return self._permissions[login]
