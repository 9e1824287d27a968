"""Every Redis key of the bot, its type and its expiry. rq's own keys (``rq:…``) are rq's.

What people decided and what was posted is also on GitHub: all of this may be lost without a wrong review.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

HOUR = 3_600
DAY = 86_400
CLAIM_TTL = 7 * DAY
"""GitHub's window for a redelivery is 3 days (30 in older documents)."""
PENDING_MS = 5_000
"""A claim before its job is queued. Longer than the receiver's time-out for one answer of Redis."""
GENERATION_TTL = 90 * DAY
RECORD_TTL = 7 * DAY
BLOB_TTL = 7 * DAY
BLOB_MAX_BYTES = 1 << 20
TREE_TTL = DAY
KNOWN_REPORT_TTL = 3 * DAY
KNOWN_REPORT_MAX_BYTES = 64 << 10
OWNER_TTL = 3_600
OWNER_ABSENT_TTL = 6 * 3_600
"""The owner's defaults; a push to them drops the entry, the time is for a push that we never heard of."""
HEARTBEAT_TTL = 600
REPLY_TTL = 60
WRITES_TTL = 3_700
REDELIVERY_WINDOW = 3 * DAY
"""GitHub delivers nothing again that is older."""

Client = redis.Redis
"""Always a client with ``decode_responses=False``: bytes come back."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Names. `space` separates deployments that share one server."""

    space: str = "preflight"

    def claim(self, delivery: str) -> str:
        """string, PENDING_MS until the job is queued, then CLAIM_TTL: this delivery was accepted."""
        return f"{self.space}:claim:{delivery}"

    def generation(self, repo_id: int, number: int) -> str:
        """integer, GENERATION_TTL: INCR for each review asked for; an older one is superseded."""
        return f"{self.space}:gen:{repo_id}:{number}"

    def record(self, review: str) -> str:
        """string (JSON of `bot.queue.records.Record`), RECORD_TTL: a review that is not concluded yet."""
        return f"{self.space}:review:{review}"

    def open_reviews(self) -> str:
        """zset review -> deadline (epoch seconds), no expiry: members go when their review is concluded."""
        return f"{self.space}:reviews"

    def heartbeat(self, review: str) -> str:
        """string (epoch seconds), HEARTBEAT_TTL: the job of this review is alive."""
        return f"{self.space}:beat:{review}"

    def running(self, review: str, job: str = "review_pull") -> str:
        """string (token), expiry of the lease: who does this job of a review now; two would say everything twice."""
        return f"{self.space}:running:{job}:{review}"

    def answered(self, comment_id: int, repo_id: int) -> str:
        """string, CLAIM_TTL: this slash command was answered."""
        return f"{self.space}:answered:{repo_id}:{comment_id}"

    def outcome(self, repo_id: int, question: str) -> str:
        """string (JSON: sha, text), DAY: the answer to a command once its commit is the head."""
        return f"{self.space}:outcome:{repo_id}:{question}"

    def asked(self, repo_id: int, number: int, login: str, kind: str) -> str:
        """set of delivery ids, HOUR: the commands of one person on one pull request, by `kind` (run, refused)."""
        return f"{self.space}:asked:{kind}:{repo_id}:{number}:{login.casefold()}"

    def token(self, installation_id: int, scope: str) -> str:
        """string (Fernet), until 300 s before GitHub's expiry: an installation token of one scope."""
        return f"{self.space}:token:{installation_id}:{scope}"

    def on_failure(self, repo_id: int) -> str:
        """string, GENERATION_TTL: there where the repository's configuration wants a failure of ours to block."""
        return f"{self.space}:on-failure:{repo_id}"

    def owner_defaults(self, installation_id: int) -> str:
        """string (JSON of a file, or null), OWNER_TTL or OWNER_ABSENT_TTL: the owner's default configuration."""
        return f"{self.space}:owner-defaults:{installation_id}"

    def blob(self, repo_id: int, sha: str) -> str:
        """string (the bytes), BLOB_TTL, at most BLOB_MAX_BYTES: a git blob. Per repository: no reads across them."""
        return f"{self.space}:blob:{repo_id}:{sha}"

    def known_report(self, repo_id: int, key: str, fork: str = "") -> str:
        """string (zlib), KNOWN_REPORT_TTL, at most KNOWN_REPORT_MAX_BYTES: a report on one file that may count again
        (`bot.isolate.cache`). Per repository that a head lies in: what a child that was broken into leaves here is read
        by reviews of that repository's branches alone."""
        return f"{self.space}:known:{repo_id}:{fork}:{key}"

    def tree(self, repo_id: int, sha: str) -> str:
        """string (zlib JSON), TREE_TTL: the recursive listing of a commit's tree."""
        return f"{self.space}:tree:{repo_id}:{sha}"

    def comparison(self, repo_id: int, base: str, head: str) -> str:
        """string (zlib JSON), TREE_TTL: merge base and changed files of two commits."""
        return f"{self.space}:compare:{repo_id}:{base}:{head}"

    def publisher(self, installation_id: int) -> str:
        """string (token), expiry of the lease: who writes to this installation now."""
        return f"{self.space}:publisher:{installation_id}"

    def fence(self, installation_id: int) -> str:
        """integer, GENERATION_TTL: INCR for each lease given."""
        return f"{self.space}:fence:{installation_id}"

    def writes(self, installation_id: int) -> str:
        """zset of write times, WRITES_TTL: the sliding window of the write budget."""
        return f"{self.space}:writes:{installation_id}"

    def pause(self, installation_id: int) -> str:
        """string (epoch seconds), until then: GitHub asked us to wait."""
        return f"{self.space}:pause:{installation_id}"

    def report(self, repo_id: int, number: int, sha: str) -> str:
        """string (zlib JSON), PREFLIGHT_REPORT_DAYS: the report behind a check's link, with lines of the code."""
        return f"{self.space}:report:{repo_id}:{number}:{sha}"

    def reports(self, repo_id: int, number: int) -> str:
        """zset sha -> time, PREFLIGHT_REPORT_DAYS: the reports of a pull request; the oldest go."""
        return f"{self.space}:reports:{repo_id}:{number}"

    def traits(self, repo_id: int, number: int) -> str:
        """string (JSON), 90 days: what sort of findings a pull request had, until it is closed and counted."""
        return f"{self.space}:traits:{repo_id}:{number}"

    def statistics(self, repo_id: int, month: str) -> str:
        """hash [rule, framework, pattern, metric] -> count, 400 days: what became of findings. No code in it."""
        return f"{self.space}:stats:{repo_id}:{month}"

    def counted(self, repo_id: int, number: int) -> str:
        """string (JSON), 400 days: what a pull request added to its month, to be replaced and never added twice."""
        return f"{self.space}:counted:{repo_id}:{number}"

    def counted_repositories(self) -> str:
        """hash repository id -> name, 400 days after the last count."""
        return f"{self.space}:stats-repositories"

    def what_if(self, digest: str) -> str:
        """string (JSON), one hour: the estimate of a run config that somebody changed on a page."""
        return f"{self.space}:whatif:{digest}"

    def session(self, digest: str) -> str:
        """string (Fernet), at most 8 hours: who logged in, by the hash of the cookie."""
        return f"{self.space}:session:{digest}"

    def operator_tries(self) -> str:
        """integer, 60 s: tries for the operator's token."""
        return f"{self.space}:operator-tries"

    def ready(self) -> str:
        """string, 60 s: `/readyz` wrote it."""
        return f"{self.space}:ready"

    def reply(self, name: str) -> str:
        """list of one (JSON), REPLY_TTL: a worker's answer to a question of the web process."""
        return f"{self.space}:reply:{name}"

    def gate_rate(self, token: str, minute: int) -> str:
        """integer, 120 s: INCR for each question of a gate token in one minute."""
        return f"{self.space}:gate-rate:{token}:{minute}"

    def sweeper(self) -> str:
        """string (token), expiry of the lease: which supervisor sweeps."""
        return f"{self.space}:sweeper"

    def patrol(self) -> str:
        """string (token), expiry of the lease: which supervisor looks for what never reached us."""
        return f"{self.space}:patrol"

    def metrics(self) -> str:
        """hash series -> number, no expiry: what every process counted (`bot.telemetry.meter`)."""
        return f"{self.space}:metrics"

    def budgets(self) -> str:
        """hash installation -> [remaining, limit, reset] (JSON), no expiry: what GitHub's last answer said."""
        return f"{self.space}:budgets"

    def redelivery(self, delivery: str) -> str:
        """hash (times, next), REDELIVERY_WINDOW: how often GitHub was asked to deliver this one again."""
        return f"{self.space}:redelivery:{delivery}"

    def walk(self) -> str:
        """string (GitHub's cursor), DAY: where the walk through failed deliveries goes on."""
        return f"{self.space}:walk"

    def places(self) -> str:
        """zset repository (JSON) -> time of the next look at its open pull requests; renewed with `places_listed`."""
        return f"{self.space}:places"

    def places_listed(self) -> str:
        """string, four rounds of the patrol: the repositories of all installations were listed."""
        return f"{self.space}:places-listed"

    def pulls_etag(self, repo_id: int) -> str:
        """string (ETag), DAY: GitHub's list of open pull requests when each of them had both checks."""
        return f"{self.space}:etag:{repo_id}"

    def concluded(self, repo_id: int, sha: str) -> str:
        """string, CLAIM_TTL: both check runs on this commit are concluded."""
        return f"{self.space}:concluded:{repo_id}:{sha}"

    def missing(self, repo_id: int, sha: str) -> str:
        """string (epoch seconds), DAY: since when the sweeper knows that a check run is missing on this head."""
        return f"{self.space}:missing:{repo_id}:{sha}"


def connect(url: str, *, timeout: float | None = None) -> Client:
    """A client. `timeout` in seconds bounds connecting and every answer; None is for blocking workers."""
    options: dict[str, Any] = {"socket_connect_timeout": timeout or 5}
    if timeout is not None:
        options |= {"socket_timeout": timeout, "retry": Retry(NoBackoff(), 0)}
    return redis.Redis.from_url(url, **options)
