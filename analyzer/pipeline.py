"""The stages joined: files -> screen -> IR -> events -> drafts -> findings with positions, fixes and suppressions."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import analyzer.rules
from analyzer.api import Files, Options
from analyzer.engine.program import Program, Sources
from analyzer.findings import Evidence, Finding, Fix, Report, Skipped, Span, Suppressed, surest
from analyzer.fixes.edits import resolve
from analyzer.knowledge.schema import knowledge
from analyzer.nesting import too_deep
from analyzer.positions import spans
from analyzer.project import Project
from analyzer.rules.base import Draft, Rule
from analyzer.rules.base import Report as RuleReport
from analyzer.syntax.problems import syntax_problem


def analyze(files: Files, targets: Sequence[str], options: Options) -> Report:
    """See `analyzer.api.analyze`."""
    with quiet_collector():
        sources, rules = Sources(Project(files)), wanted_rules(options)
        skipped: dict[Skipped, None] = {}
        shown = [item for path in targets for item in analyze_one(sources, path, rules, frozenset(targets), skipped)]
        for path in targets:
            if path in sources.skipped:
                skipped.setdefault(sources.skipped[path])
        return finish(files, len(targets), options, surest(shown), tuple(skipped))


def analyze_each(
    files: Files, targets: Iterable[str], options: Options, report_on: Collection[str]
) -> Iterator[tuple[str, Report]]:
    """See `analyzer.api.analyze_each`."""
    with quiet_collector():
        sources, rules, wanted_paths = Sources(Project(files)), wanted_rules(options), frozenset(report_on)
        for path in targets:
            skipped: dict[Skipped, None] = {}
            shown = surest(analyze_one(sources, path, rules, wanted_paths, skipped))
            if path in sources.skipped:
                skipped.setdefault(sources.skipped[path])
            yield path, finish(files, 1, options, shown, tuple(skipped))


def wanted_rules(options: Options) -> list[type[Rule]]:
    """The rules that the options ask for."""
    return [rule for rule in catalogue() if wanted(rule, options)]


def finish(
    files: Files, num_files: int, options: Options, found: Iterable[Finding], skipped: tuple[Skipped, ...]
) -> Report:
    """Suppress, reconcile, filter by confidence, sort."""
    suppress, reconcile = optional("analyzer.suppress", "apply"), optional("analyzer.fixes.reconcile", "reconcile")
    kept = [item for item in found if item.confidence.rank >= options.min_confidence.rank]
    hidden: list[Suppressed] = []
    if reconcile is not None:
        kept = list(reconcile(tuple(kept)))
    if suppress is not None:
        rest: list[Finding] = []
        for path in sorted({item.path for item in kept}):
            mine = tuple(item for item in kept if item.path == path)
            stay, gone = suppress(path, files.read(path) or b"", mine)
            rest += stay
            hidden += gone
        kept = rest
    kept.sort(key=lambda item: (item.span, item.rule))
    return Report(num_files=num_files, skipped=skipped, findings=tuple(kept), suppressed=tuple(hidden))


def optional(module: str, name: str) -> Any | None:
    """A stage that another room provides."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None


def analyze_one(
    sources: Sources, path: str, rules: Sequence[type[Rule]], targets: frozenset[str], skipped: dict[Skipped, None]
) -> Iterator[Finding]:
    """The findings that the program starting at one file shows, in any target."""
    source = sources.project.read(path)
    may_matter = optional("analyzer.screen", "may_matter")
    if source is not None and may_matter is not None and not may_matter(source):
        reason = too_deep(source) or syntax_problem(source)  # it cannot matter, but its owner wants to know
        if reason:
            skipped[Skipped(path, reason)] = None
        return
    program = Program(sources.project, knowledge(), sources)
    program.run_target(path)
    skipped.update(dict.fromkeys(program.skipped))
    for rule in rules:
        report = RuleReport(rule)
        try:
            rule().check(program, report)
        except Exception as error:  # noqa: BLE001  boundary per rule: a broken rule must not hide the others
            skipped[Skipped(path, f"internal error in {rule.code}: {type(error).__name__}: {error}")] = None
            continue
        drafts = [draft for draft in report.drafts.values() if draft.site.path in targets]
        yield from located(drafts, sources)


def located(drafts: Sequence[Draft], sources: Sources) -> Iterator[Finding]:
    """Drafts with their positions."""
    sites = {draft.site for draft in drafts} | {step.site for draft in drafts for step in draft.evidence}
    places: dict[tuple[str, int], Span] = {}
    for path in {site.path for site in sites} & sources.trees.keys():
        module, nodes = sources.trees[path]
        numbers = [site.at for site in sites if site.path == path]
        found = spans(module, path, {nodes[number] for number in numbers})
        places.update({(path, number): found[nodes[number]] for number in numbers if nodes[number] in found})
    for draft in drafts:
        yield finding(draft, places, sources)


def finding(draft: Draft, places: dict[tuple[str, int], Span], sources: Sources) -> Finding:
    """One draft as a finding."""
    evidence = tuple(
        Evidence(span.path, span.start.line, span.start.column, step.note)
        for step in draft.evidence
        if (span := places.get((step.site.path, step.site.at)))
    )
    fix = None
    if draft.fix is not None:
        module, nodes = sources.trees[draft.site.path]
        edits = resolve(draft.fix.edits, module, draft.site.path, lambda number: nodes[number])
        fix = Fix(draft.fix.title, draft.fix.applicability, edits)
    return Finding(
        rule=draft.rule.code,
        name=draft.rule.name,
        span=places[draft.site.path, draft.site.at],
        severity=draft.severity,
        confidence=draft.confidence,
        message=draft.message,
        evidence=evidence,
        fix=fix,
    )


def catalogue() -> tuple[type[Rule], ...]:
    """Every rule, built in and third-party."""
    collect = optional("analyzer.catalogue", "rules")
    if collect is not None:
        return tuple(collect())
    for module in pkgutil.iter_modules(analyzer.rules.__path__):
        importlib.import_module(f"analyzer.rules.{module.name}")
    return tuple(sorted(Rule.__subclasses__(), key=lambda rule: rule.code))


def wanted(rule: type[Rule], options: Options) -> bool:
    """Whether the options ask for a rule, by code or alias."""
    names = {rule.code, rule.alias or rule.code}
    return (not options.select or bool(names & options.select)) and not names & options.ignore


@contextmanager
def quiet_collector() -> Iterator[None]:
    """No garbage collection and a deeper recursion limit while trees are built."""
    enabled, limit = gc.isenabled(), sys.getrecursionlimit()
    gc.disable()
    sys.setrecursionlimit(max(limit, 4000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if enabled:
            gc.enable()
