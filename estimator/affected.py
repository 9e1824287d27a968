"""Which launch configs a change touches, and what it does to their memory: the body of `estimator.api.affected`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from analyzer.api import Files
from analyzer.findings import Skipped
from estimator.impact import Impact, Impacts, verdict_of
from estimator.launch.base import LaunchConfig
from estimator.launches import Launch, candidates, distinct, read, resolved
from estimator.report import Estimate
from estimator.resolve.closure import closure
from estimator.resolve.versions import major_version, may_pin
from estimator.smoke import smoke_test
from estimator.sourced import Sourced, Unknown
from estimator.unread import too_large

MAX_LAUNCHES = 60  # per change; each is followed into its script twice
_MAX_MOVED = 6
Key = tuple[str, str, int]


def affected(base: Files, head: Files, changed: Collection[str], targets: Mapping[str, str] | None = None) -> Impacts:
    """Launches whose file or closure `changed` touches and whose peak or verdict moved; new ones always."""
    notes: list[Skipped] = []
    labels = dict(targets or {})
    first = sorted(path for path in changed if head.read(path) is not None)
    found: list[Impact] = []
    num_launches = 0
    for path in candidates(head, first):
        unread: list[Skipped] = []
        if num_launches >= MAX_LAUNCHES:
            notes.append(Skipped(path, f"not estimated: the change reaches more than {MAX_LAUNCHES} launches"))
            break
        try:
            touched = _touched(base, head, path, frozenset(changed), labels, unread)
            num_launches += len(touched)
            found += _compared(base, path, touched, labels)
        except Exception as error:  # noqa: BLE001  boundary: one file must not hide the others, and the note is shown
            unread.append(Skipped(path, f"launches not compared: {type(error).__name__} in Preflight (please report)"))
        if path in changed or b"#SBATCH" in (head.read(path) or b""):
            notes += unread  # an unchanged script that is no job is nobody's business in this review
    notes += too_large(head, sorted(changed))
    impacts = Impacts(found)
    impacts.notes = tuple(dict.fromkeys(notes))
    return impacts


def _compared(base: Files, path: str, touched: list[list[Launch]], labels: Mapping[str, str]) -> list[Impact]:
    if not touched:
        return []
    before = launches_by_command(base, read(base, path, labels), [])
    return [impact for readings in touched if (impact := impact_of(readings, before)) is not None]


def _touched(
    base: Files, head: Files, path: str, changed: frozenset[str], labels: Mapping[str, str], notes: list[Skipped]
) -> list[list[Launch]]:
    """The launches of one file that the change reaches, by command; each a list of its readings."""
    now = read(head, path, labels, notes)
    reached = [config for config in now if changed & closure(head, config)]
    gone = frozenset(item for item in changed if head.read(item) is None)
    if gone:  # a script that was deleted is in the closure at the base only
        names = {_script(config) for config in read(base, path, labels) if gone & closure(base, config)}
        reached += [config for config in now if config not in reached and _script(config) in names]
    if _is_repinned(base, head, changed):
        reached = list(now)
    return list(launches_by_command(head, reached, notes).values())


def _is_repinned(base: Files, head: Files, changed: frozenset[str]) -> bool:
    """Whether the change moves a library to a version with other defaults: that reaches every launch."""
    if not any(map(may_pin, changed)):
        return False
    return major_version(base, "transformers").value != major_version(head, "transformers").value


def _script(config: LaunchConfig) -> str:
    return config.command.script.text


def launches_by_command(files: Files, configs: Iterable[LaunchConfig], notes: list[Skipped]) -> dict[Key, list[Launch]]:
    """Estimated launches by file, script and the how-manieth command of that script: lines move, these do not."""
    groups: dict[Key, list[Launch]] = {}
    numbers: dict[tuple[str, str], list[int]] = {}
    for config in configs:
        lines = numbers.setdefault((config.path, _script(config)), [])
        if config.line not in lines:
            lines.append(config.line)
        launches = resolved(files, config, notes)
        notes += [Skipped(config.path, f"line {config.line}: {item.problem}") for item in launches if item.problem]
        if launches:
            key = (config.path, _script(config), lines.index(config.line))
            groups.setdefault(key, []).extend(launches)
    return {key: distinct(group) for key, group in groups.items()}


def impact_of(readings: list[Launch], before: Mapping[Key, list[Launch]]) -> Impact | None:
    """What became of one command; None where nothing moved. Without `before` every command is new."""
    before_readings = _counterpart(readings[0], before)
    old = worst(before_readings)
    new = worst(readings)
    assert new is not None
    if old is not None and _same(old.estimate, new.estimate):
        return None
    return Impact(
        path=new.config.path,
        line=new.config.line,
        command=new.command,
        base=_overall(old.estimate, before_readings) if old else None,
        head=_overall(new.estimate, readings),
        moved=_moved(old, new),
        readings=_estimates(readings),
        origins=new.run.words(),
        decided_at=_decided_at(old, new),
        smoke_test=smoke_test(new.config.path, new.config.format, new.command),
        run=new.to_entry(),
    )


def _estimates(launches: list[Launch]) -> tuple[Estimate, ...]:
    return tuple(item.estimate for item in launches if item.estimate is not None)


def _overall(shown: Estimate | None, readings: list[Launch]) -> Estimate | None:
    """The shown reading with the verdict of all of them: policy reads it, and must not block for one reading alone."""
    return replace(shown, verdict=verdict_of(_estimates(readings))) if shown is not None else None


def _counterpart(launch: Launch, before: Mapping[Key, list[Launch]]) -> list[Launch]:
    """The same command at the base: the same script if it runs there, else the only command of the file."""
    matching = [group for (_, script, _), group in before.items() if script == _script(launch.config)]
    groups = matching or (list(before.values()) if len(before) == 1 else [])
    if len(groups) <= 1:
        return groups[0] if groups else []
    same = [group for group in groups if group[0].command == launch.command]
    return (same or [min(groups, key=lambda group: abs(group[0].config.line - launch.config.line))])[0]


def worst(launches: list[Launch]) -> Launch | None:
    """The least favourable reading: the one that is shown."""
    rank = {"fits": 0, "unknown": 1, "borderline": 2, "exceeds": 3}

    def order(launch: Launch) -> tuple[int, int]:
        answer = launch.estimate
        return (rank[answer.verdict], answer.peak.high if answer.peak else 0) if answer else (1, 0)

    return max(launches, key=order) if launches else None


def _same(old: Estimate | None, new: Estimate | None) -> bool:
    if old is None or new is None:
        return old is new
    return (old.peak, old.verdict, old.targets) == (new.peak, new.verdict, new.targets)


def _moved(old: Launch | None, new: Launch) -> tuple[str, ...]:
    """What differs, with the place that says so: ``micro_batch 4 -> 8: launch/train.slurm:14 (--batch-size 8)``."""
    if old is None:
        return ()
    before, after = old.run.words(), new.run.words()
    lines = [_change(name, before[name], after[name]) for name in after if _shown(before[name]) != _shown(after[name])]
    return tuple(lines[:_MAX_MOVED])


def _change(name: str, old: Sourced[Any], new: Sourced[Any]) -> str:
    """Of widths and counts that belong together only those that differ."""
    if isinstance(old.value, Mapping) and isinstance(new.value, Mapping):
        keys = [key for key in {**old.value, **new.value} if old.value.get(key) != new.value.get(key)]
        told = ", ".join(f"{key} {old.value.get(key, 'none')} -> {new.value.get(key, 'none')}" for key in keys)
        return f"{name} {told}: {new.describe()}"
    return f"{name} {_shown(old)} -> {_shown(new)}: {new.describe()}"


def _decided_at(old: Launch | None, new: Launch) -> int:
    """The line of the launch file that says a value which moved."""
    if old is None:
        return 0
    before, after = old.run.words(), new.run.words()
    moved = [after[name].origin for name in after if _shown(before[name]) != _shown(after[name])]
    return next((origin.line for origin in moved if origin.path == new.config.path and origin.line), 0)


def _shown(sourced: Sourced[Any]) -> str:
    if isinstance(sourced.value, Unknown):
        return "unknown"
    return ", ".join(map(str, sourced.value)) if isinstance(sourced.value, tuple) else str(sourced.value)
