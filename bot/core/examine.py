"""Ask the two engines about a pull request, and keep what it introduces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from analyzer import api as analyzer_api
from analyzer.api import Files, Options
from analyzer.findings import Confidence, Finding, Report, Skipped, Suppressed
from bot.core import baseline
from bot.core.config import Config
from bot.core.dependents import dependents
from bot.core.introduced import added_suppressions, introduced
from bot.core.review_input import ReviewInput, WithoutFiles
from bot.errors import InputError
from bot.sources.base import PullSnapshot, Tree
from estimator import api as estimator_api
from estimator.api import Impact

log = logging.getLogger(__name__)
_NOTHING = Report(num_files=0, skipped=(), findings=())


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines' doors; tests of the review logic pass their own."""

    analyze: Callable[[Files, Sequence[str], Options | None], Report] = analyzer_api.analyze
    affected: Callable[[Files, Files, Collection[str], Mapping[str, str] | None], tuple[Impact, ...]] = (
        estimator_api.affected
    )
    impact_finding: Callable[[Impact], Finding | None] = estimator_api.impact_finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What the analyzer says. `possible` are findings below the wanted confidence.

    `num_files` changed files were looked at, and `num_around` unchanged ones that import them; `unseen` could not be.
    """

    findings: tuple[Finding, ...] = ()
    possible: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    num_files: int = 0
    num_around: int = 0
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the estimator says: the launch configs that move, PF501 where one cannot fit, what it could not read."""

    impacts: tuple[Impact, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """An engine broke: a bug of ours. `what` names the error's type only, its text could hold anything."""

    what: str


def renames(snapshot: PullSnapshot) -> dict[str, str]:
    """Paths at the head to their paths at the merge base, where they differ."""
    moved = (file for file in snapshot.changed_files if file.status == "renamed")
    return {file.path: file.previous_path for file in moved if file.previous_path}


def examine_code(given: ReviewInput, engines: Engines) -> Code | Failed:
    """What the change introduces, compared with the merge base."""
    try:
        return _code(given, engines)
    except Exception as error:  # job boundary: one broken engine must not silence the other
        log.exception("the analyzer failed")
        return Failed(type(error).__name__)


def examine_memory(given: ReviewInput, engines: Engines) -> Memory | Failed:
    """The launch configs that the change moves."""
    try:
        return _memory(given, engines)
    except Exception as error:  # job boundary: one broken engine must not silence the other
        log.exception("the estimator failed")
        return Failed(type(error).__name__)


def _code(given: ReviewInput, engines: Engines) -> Code:
    moved = renames(given.snapshot)
    files = frozenset(given.head.paths())
    targets = [
        file.path
        for file in given.snapshot.changed_files
        if file.status not in {"removed", "unchanged"}
        and (file.path in files or given.snapshot.is_cut)  # else it is a link or a submodule
        and file.path.endswith((".py", ".ipynb"))
        and given.config.reviews(file.path)
    ]
    left_out = tuple(Skipped(path, reason) for path, reason in given.skip.items() if path in targets)
    targets = [path for path in targets if path not in given.skip]
    config = given.config
    options = Options(select=config.select, ignore=config.ignore, min_confidence=Confidence.POSSIBLE)
    head_tree = WithoutFiles(given.head, given.skip)
    around = _around(given, head_tree)
    at_head = replace(options, has_all_texts=not given.unread_head.texts)
    head = engines.analyze(head_tree, [*targets, *around], at_head) if targets or around else _NOTHING
    at_base = replace(options, has_all_texts=not given.unread_base.texts)
    base = _at_base(head, given.base, moved, at_base, engines)
    new = _unknown(introduced(head, base, head_tree.read, given.base.read, moved), given, head_tree, moved)
    new = [_with_severity(item, config) for item in new if not config.ignores(item.rule, item.path)]
    return Code(
        findings=tuple(item for item in new if item.confidence.rank >= config.min_confidence.rank),
        possible=tuple(item for item in new if item.confidence.rank < config.min_confidence.rank),
        skipped=left_out + tuple(item for item in head.skipped if item.path in targets),
        suppressed=added_suppressions(head, base, moved),
        num_files=len(targets) + len(left_out),
        num_around=len(around),
        unseen=tuple({item.path for item in head.skipped} | given.skip.keys()),
    )


def _around(given: ReviewInput, head: Tree) -> list[str]:
    """Unchanged files that import what changed: what is new in them, a changed line causes."""
    changed = {file.path for file in given.snapshot.changed_files if file.status != "unchanged"}
    changed |= {file.previous_path for file in given.snapshot.changed_files if file.previous_path}
    programs = {path for path in changed if path.endswith((".py", ".ipynb"))}
    return [path for path in dependents(head, programs) if given.config.reviews(path)] if programs else []


def _unknown(new: Sequence[Finding], given: ReviewInput, head: Files, moved: Mapping[str, str]) -> Sequence[Finding]:
    """What the baseline of the *base* branch does not know. A baseline that cannot be read knows nothing."""
    raw = given.base.read(given.config.baseline) if given.config.baseline else None
    if raw is None:
        return new
    try:
        entries = baseline.load(raw.decode("utf-8", "replace"), given.config.baseline)
    except InputError:
        return new
    matched = baseline.known(new, entries, head.read, moved)
    return [item for number, item in enumerate(new) if number not in matched]


def _at_base(head: Report, tree: Tree, moved: Mapping[str, str], options: Options, engines: Engines) -> Report:
    """The base's report on the files that have something to compare at the head."""
    places: Iterable[Finding | Suppressed] = (*head.findings, *head.suppressed)
    wanted = {moved.get(item.path, item.path) for item in places}
    targets = sorted(path for path in wanted if tree.read(path) is not None)
    return engines.analyze(tree, targets, options) if targets else _NOTHING


def _with_severity(finding: Finding, config: Config) -> Finding:
    wanted = config.severity(finding.rule, finding.path)
    return replace(finding, severity=wanted) if wanted else finding


def _memory(given: ReviewInput, engines: Engines) -> Memory:
    changed = {file.path for file in given.snapshot.changed_files if file.status != "unchanged"}
    changed |= {file.previous_path for file in given.snapshot.changed_files if file.previous_path}
    impacts = engines.affected(given.base, WithoutFiles(given.head, given.skip), changed, given.config.targets)
    kept = tuple(impact for impact in impacts if given.config.looks_at_launch(impact.path))
    findings = (engines.impact_finding(impact) for impact in kept)
    notes: tuple[Skipped, ...] = getattr(impacts, "notes", ())
    return Memory(impacts=kept, findings=tuple(item for item in findings if item is not None), notes=notes)
