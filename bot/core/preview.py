"""What a pull request that changes the configuration would change: shown before the merge, never acting before it.

The same review is made once more with the configuration that would hold after the merge; what differs is the preview.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from analyzer.api import Files
from analyzer.findings import Finding
from bot.core.config import CONFIG_PATHS, Config, PathRule, find
from bot.core.plan import CheckOutcome
from bot.core.review_input import ReviewInput
from estimator import api as estimator_api
from estimator.launches import candidates

_NAMES = {
    "code": "mode.code",
    "memory": "mode.memory",
    "select": "rules.select",
    "ignore": "rules.ignore",
    "severities": "rules.severity",
    "max_inline": "comments.max_inline",
}
_MAX_LAUNCH_FILES = 20
_WORST_FIRST = ("exceeds", "borderline", "unknown", "fits")


@dataclass(frozen=True, slots=True)
class Change:
    """Something by its name, as it is and as it would be (empty: not at all)."""

    name: str
    now: str
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The effect of a changed configuration, part by part; each is empty where nothing differs."""

    paths: tuple[str, ...]
    settings: tuple[Change, ...] = ()
    checks: tuple[Change, ...] = ()
    findings: tuple[Change, ...] = ()
    launches: tuple[Change, ...] = ()

    @property
    def has_effect(self) -> bool:
        """Whether this pull request, or a launch config of the repository, would be judged differently."""
        return bool(self.checks or self.findings or self.launches)


Look = tuple[Sequence[Finding], Sequence[CheckOutcome]]
"""What a review with one configuration found, and its checks."""


def merged_config(given: ReviewInput) -> Config | None:
    """The configuration that holds after the merge; None where the pull request leaves it as it is."""
    changed = {file.path for file in given.snapshot.changed_files if file.path in CONFIG_PATHS}
    changed |= {file.previous_path for file in given.snapshot.changed_files if file.previous_path in CONFIG_PATHS}
    if not changed:
        return None

    def read(path: str) -> bytes | None:
        return given.head.read(path) if path in changed else given.base.read(path)

    config, _ = find(read, given.defaults)
    return config if config != given.config else None


def preview(given: ReviewInput, then: Config, before: Look, after: Look) -> Preview:
    """The difference of two looks at one pull request."""
    paths = tuple(sorted(file.path for file in given.snapshot.changed_files if file.path in CONFIG_PATHS))
    return Preview(
        paths=paths or CONFIG_PATHS[:1],
        settings=tuple(_settings(given.config, then)),
        checks=tuple(_changed(_conclusions(before[1]), _conclusions(after[1]))),
        findings=tuple(_changed(_places(before[0]), _places(after[0]))),
        launches=tuple(_launches(given.head, given.config, then)),
    )


def _changed(now: Mapping[str, str], then: Mapping[str, str]) -> Iterable[Change]:
    names = dict.fromkeys([*now, *then])
    return (Change(name, now.get(name, ""), then.get(name, "")) for name in names if now.get(name) != then.get(name))


def _conclusions(checks: Sequence[CheckOutcome]) -> dict[str, str]:
    return {check.name: check.conclusion for check in checks}


def _places(findings: Sequence[Finding]) -> dict[str, str]:
    return {f"{item.rule} {item.path}:{item.line}": item.severity.value for item in findings}


def _settings(now: Config, then: Config) -> Iterable[Change]:
    """Setting by setting; maps and lists of exceptions entry by entry."""
    for item in fields(Config):
        old, new = getattr(now, item.name), getattr(then, item.name)
        name = _NAMES.get(item.name, item.name)
        if old == new:
            continue
        if isinstance(old, Mapping):
            shown = (
                {f"{name}.{key or '(none named)'}": _text(value) for key, value in one.items()} for one in (old, new)
            )
            yield from _changed(*shown)
        elif item.name == "paths":
            yield from (Change("paths", _rule_text(rule), "") for rule in old if rule not in new)
            yield from (Change("paths", "", _rule_text(rule)) for rule in new if rule not in old)
        else:
            yield Change(name, _text(old), _text(new))


def _text(value: object) -> str:
    if isinstance(value, (frozenset, tuple)):
        return ", ".join(sorted(map(str, value)))
    return str(getattr(value, "value", value))


def _rule_text(rule: PathRule) -> str:
    parts = [", ".join(rule.match)]
    parts += [f"code: {rule.code}"] if rule.code else []
    parts += [f"memory: {rule.memory}"] if rule.memory else []
    parts += [f"ignore: {_text(rule.ignore) or 'nothing'}"] if rule.ignore is not None else []
    severities = rule.severities or {}
    parts += [f"{code}: {severity.value}" for code, severity in severities.items()]
    return "; ".join(parts)


def _launches(head: Files, now: Config, then: Config) -> Iterable[Change]:
    """The launch configs of the repository, not only those the pull request touches: targets are about all of them."""
    if (now.targets, now.launch, now.exclude) == (then.targets, then.launch, then.exclude):
        return ()
    paths = [path for path in candidates(head) if not fnmatch.fnmatch(path, ".github/preflight.y*ml")]
    chosen = paths[:_MAX_LAUNCH_FILES]
    return _changed(_verdicts(head, chosen, now), _verdicts(head, chosen, then))


def _verdicts(head: Files, paths: Sequence[str], config: Config) -> dict[str, str]:
    looked_at = [path for path in paths if config.looks_at_launch(path)]
    found: dict[str, str] = {}
    rank: Callable[[str], int] = _WORST_FIRST.index
    for launch in estimator_api.launches(head, looked_at, targets=config.targets).launches:
        name = f"{launch.config.path}:{launch.config.line}"
        verdict = launch.estimate.verdict if launch.estimate else "unknown"
        found[name] = min(found.get(name, verdict), verdict, key=rank)
    return found
