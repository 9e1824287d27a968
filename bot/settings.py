"""Environment -> settings, once. Secrets are in a type that does not print; one that is missing refuses to start.

The web process needs only the webhook secret; the app's private key is read by workers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bot.errors import InputError

T = TypeVar("T")
_MIN_SECRET_LENGTH = 16
_WELL_KNOWN = frozenset({"development", "secret", "changeme", "change-me", "password", "webhook-secret"})


class Secret:
    """A value that neither prints nor pickles; `reveal` is the only way to it."""

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        return self.__value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not to be pickled")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """What the receiver needs. `webhook_secrets` is the current one and, while rotating, the previous one."""

    redis_url: str
    webhook_secrets: tuple[Secret, ...]
    app_id: int | None
    namespace: str
    metrics_token: Secret | None = None
    """Prometheus's bearer token; without one there is no ``/metrics``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast one installation is written to. GitHub: >= 1 s between writes, 80 a minute, 500 an hour."""

    seconds_between_writes: float = 1.0
    writes_per_minute: int = 80
    writes_per_hour: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTimes:
    """Seconds. Why these: `bot.queue.worker` and `bot.queue.sweep`."""

    worker_ttl: int = 45
    maintenance: int = 30
    job_monitoring: int = 5
    sweep: float = 30.0
    review_timeout: int = 600
    """A review job is stopped after this."""
    child_wall: float = 240.0
    """The child that analyses code is stopped after this."""
    heartbeat: float = 5.0
    """A running job says so this often; one silent for `orphan_after` is dead."""
    orphan_after: float = 45.0
    redelivery: float = 60.0
    """Between two looks at the deliveries that failed."""
    watch: float = 900.0
    """Between two looks at the open pull requests of one repository."""
    restart: float = 30.0
    """At most so long until a worker that keeps dying is started again."""
    nice: int = 5
    """Added to a worker's priority number: a receiver on the same machine has three times its weight."""
    stop: float = 620.0
    """After SIGTERM a worker may finish its job so long; then it is killed, and another one's sweeper repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What a worker needs."""

    redis_url: str
    namespace: str
    app_id: str
    private_key: Secret
    api_url: str
    verify: bool | str
    """TLS: True, or the path of a CA file (self-signed GHES)."""
    pace: Pace
    times: WorkerTimes
    previous_key: Secret | None = None
    """While the private key is rotated: signs where GitHub refuses the other, verifies what it signed before."""

    @property
    def private_keys(self) -> tuple[Secret, ...]:
        """The current key, and while rotating the previous one."""
        return (self.private_key, *([self.previous_key] if self.previous_key else []))

    @property
    def web_url(self) -> str:
        """Where people see what the API serves: ``https://HOST/api/v3`` and ``https://api.HOST`` are ``https://HOST``."""
        return self.api_url.removesuffix("/api/v3").replace("://api.", "://", 1)


def web_settings(environment: Mapping[str, str]) -> WebSettings:
    """Raises `InputError`, naming the variable, for one that is missing or no good."""
    secrets = [_strong("PREFLIGHT_WEBHOOK_SECRET", _required(environment, "PREFLIGHT_WEBHOOK_SECRET"))]
    if previous := _find(environment, "PREFLIGHT_WEBHOOK_SECRET_PREVIOUS"):
        secrets.append(_strong("PREFLIGHT_WEBHOOK_SECRET_PREVIOUS", previous))
    app_id = environment.get("PREFLIGHT_APP_ID", "").strip()
    token = _find(environment, "PREFLIGHT_METRICS_TOKEN")
    return WebSettings(
        redis_url=redis_url(environment),
        webhook_secrets=tuple(secrets),
        app_id=int(app_id) if app_id.isdecimal() else None,
        namespace=namespace(environment),
        metrics_token=_strong("PREFLIGHT_METRICS_TOKEN", token) if token else None,
    )


def worker_settings(environment: Mapping[str, str]) -> WorkerSettings:
    """Raises `InputError`, naming the variable, for one that is missing or no good."""
    previous = _find(environment, "PREFLIGHT_PRIVATE_KEY_PREVIOUS")
    api_url = environment.get("GITHUB_API_URL", "").strip() or "https://api.github.com"
    if not api_url.startswith(("https://", "http://")):
        raise InputError(f"GITHUB_API_URL: not an http(s) address: {api_url!r}")
    return WorkerSettings(
        redis_url=redis_url(environment),
        namespace=namespace(environment),
        app_id=_required(environment, "PREFLIGHT_APP_ID"),
        private_key=_key("PREFLIGHT_PRIVATE_KEY", _required(environment, "PREFLIGHT_PRIVATE_KEY")),
        previous_key=_key("PREFLIGHT_PRIVATE_KEY_PREVIOUS", previous) if previous else None,
        api_url=api_url.rstrip("/"),
        verify=environment.get("PREFLIGHT_CA_FILE") or True,
        pace=Pace(
            seconds_between_writes=_number(environment, "PREFLIGHT_SECONDS_BETWEEN_WRITES", float, 1.0),
            writes_per_minute=_number(environment, "PREFLIGHT_WRITES_PER_MINUTE", int, 80),
            writes_per_hour=_number(environment, "PREFLIGHT_WRITES_PER_HOUR", int, 500),
        ),
        times=_times(environment),
    )


def optional_secret(environment: Mapping[str, str], name: str) -> Secret | None:
    """The variable or the content of NAME_FILE, None where neither is set. Raises `InputError` for a weak one."""
    value = _find(environment, name)
    return _strong(name, value) if value else None


def positive_int(environment: Mapping[str, str], name: str, default: int) -> int:
    """Raises `InputError` for what is no number from 1 up."""
    value = _number(environment, name, int, default)
    if value < 1:
        raise InputError(f"{name}: must be at least 1")
    return value


def redis_url(environment: Mapping[str, str]) -> str:
    """``REDIS_URL``; `bot.redis_server` starts a server and sets it where there is none."""
    url = environment.get("REDIS_URL", "").strip()
    if not url:
        raise InputError("REDIS_URL is not set (redis://host:port/0 or unix:///path/of/socket)")
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise InputError("REDIS_URL: must start with redis://, rediss:// or unix://")
    return url


def _times(environment: Mapping[str, str]) -> WorkerTimes:
    default = WorkerTimes()
    return WorkerTimes(
        worker_ttl=_number(environment, "PREFLIGHT_WORKER_TTL", int, default.worker_ttl),
        maintenance=_number(environment, "PREFLIGHT_MAINTENANCE_SECONDS", int, default.maintenance),
        sweep=_number(environment, "PREFLIGHT_SWEEP_SECONDS", float, default.sweep),
        review_timeout=_number(environment, "PREFLIGHT_REVIEW_TIMEOUT", int, default.review_timeout),
        child_wall=_number(environment, "PREFLIGHT_ANALYSIS_TIMEOUT", float, default.child_wall),
        heartbeat=_number(environment, "PREFLIGHT_HEARTBEAT_SECONDS", float, default.heartbeat),
        orphan_after=_number(environment, "PREFLIGHT_ORPHAN_SECONDS", float, default.orphan_after),
        redelivery=_number(environment, "PREFLIGHT_REDELIVERY_SECONDS", float, default.redelivery),
        watch=_number(environment, "PREFLIGHT_WATCH_SECONDS", float, default.watch),
        restart=_number(environment, "PREFLIGHT_RESTART_SECONDS", float, default.restart),
        nice=_number(environment, "PREFLIGHT_WORKER_NICE", int, default.nice),
        stop=_number(environment, "PREFLIGHT_STOP_SECONDS", float, default.stop),
    )


def namespace(environment: Mapping[str, str]) -> str:
    return environment.get("PREFLIGHT_NAMESPACE", "preflight")


def _find(environment: Mapping[str, str], name: str) -> str | None:
    """The variable, or the content of the file that NAME_FILE points at."""
    if path := environment.get(f"{name}_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{name}_FILE: {type(error).__name__} reading {path}") from None
    return environment.get(name, "").strip() or None


def _required(environment: Mapping[str, str], name: str) -> str:
    value = _find(environment, name)
    if not value:
        raise InputError(f"{name} (or {name}_FILE) is not set")
    return value


def _key(name: str, value: str) -> Secret:
    key = value.replace("\\n", "\n")
    if "PRIVATE KEY-----" not in key:
        raise InputError(f"{name}: not a PEM private key (the file GitHub gave for the app)")
    return Secret(key)


def _strong(name: str, value: str) -> Secret:
    if len(value) < _MIN_SECRET_LENGTH or value.lower() in _WELL_KNOWN:
        raise InputError(f"{name}: too weak, use at least {_MIN_SECRET_LENGTH} random characters")
    return Secret(value)


def _number(environment: Mapping[str, str], name: str, kind: Callable[[str], T], default: T) -> T:
    text = environment.get(name, "").strip()
    if not text:
        return default
    try:
        value = kind(text)
    except ValueError:
        raise InputError(f"{name}: not a number: {text!r}") from None
    if not 0 <= float(text) < 1e6:
        raise InputError(f"{name}: out of range: {text!r}")
    return value
