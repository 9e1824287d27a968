"""The stages joined: files -> screen -> IR -> events -> drafts -> findings with positions, fixes and suppressions."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from typing import TypeVar

from analyzer import catalogue, extensions, screen, suppress, unit_tests
from analyzer.api import Files, Options
from analyzer.engine.aside import why_aside
from analyzer.engine.called import why_unreached
from analyzer.engine.missing import missing_import
from analyzer.engine.program import BUDGET, Program
from analyzer.engine.sources import Renumbered, Sources
from analyzer.engine.stopped import why_stopped
from analyzer.engine.trace import Site, Trace, start
from analyzer.engine.undefined import why_undefined
from analyzer.findings import Confidence, Evidence, Excuse, Finding, Fix, Report, Severity, Skipped, Span, Suppressed
from analyzer.fixes.edits import resolve
from analyzer.fixes.reconcile import reconcile
from analyzer.fixes.verify import verify
from analyzer.knowledge.schema import knowledge
from analyzer.notebooks.files import NotebookFiles
from analyzer.project import Project
from analyzer.quiet import is_quiet
from analyzer.rules.base import Draft, Rule
from analyzer.rules.base import Report as RuleReport
from analyzer.rules.offered import why_left_off
from analyzer.starts import starts
from analyzer.syntax.remembered import forget

T = TypeVar("T")
MAX_FIX_STEPS = 3 * BUDGET
"""For the fixes in one file, for each target that shows what they are for."""
_TOO_MANY_FIXES = "so many fixes that not all could be tried: those are not offered; every finding is reported"
_LONGEST_NOTE = 300
"""An error may quote a whole file."""
_WHOLE = "the analysis"
"""What breaks where nothing of a file is reported."""


def analyze(files: Files, targets: Sequence[str], options: Options) -> Report:
    """See `analyzer.api.analyze`."""
    tree = NotebookFiles(files)
    with quiet_collector():
        found, notes = _examined(tree, targets, options)
    return tree.placed(finish(tree, targets, options, found, (*tree.notes(targets), *notes)))


def _examined(files: Files, targets: Sequence[str], options: Options) -> tuple[list[Finding], tuple[Skipped, ...]]:
    """A function of its own, so that trees and states are gone before the garbage collector may look at them."""
    rules = [rule for rule in catalogue.rules() if wanted(rule, options)]
    run = Run(Sources(Project(files, has_all_texts=options.has_all_texts)), frozenset(targets), rules)
    run.all(targets)
    return verified(run, files, options.min_confidence), run.notes(targets)


class Run:
    """One analysis of some targets: the findings, and which entry file showed those of a path."""

    def __init__(self, sources: Sources, shown: Container[str], rules: Sequence[type[Rule]]) -> None:
        self.sources = sources
        self.shown = shown
        """The files whose findings are wanted."""
        self.rules = rules
        self.findings: dict[tuple[str, Span], Finding] = {}
        self.entries: dict[str, set[str]] = {}
        self.skipped: dict[Skipped, None] = {}

    def all(self, targets: Iterable[str]) -> None:
        for path in targets:
            nothing: list[Finding] = []
            for item in boundary(self.skipped, path, _WHOLE, partial(self._found, path), nothing):
                self.entries.setdefault(item.path, set()).add(path)
                known = self.findings.get((item.rule, item.span))
                if known is None or item.confidence.rank > known.confidence.rank:
                    self.findings[item.rule, item.span] = item

    def _found(self, path: str) -> list[Finding]:
        return list(analyze_one(self.sources, path, self.rules, self.shown, self.skipped))

    def notes(self, targets: Iterable[str]) -> tuple[Skipped, ...]:
        unread = [self.sources.skipped[path] for path in targets if path in self.sources.skipped]
        return tuple(dict.fromkeys([*unread, *self.skipped]))

    def of(self, path: str) -> list[Finding]:
        return [item for item in self.findings.values() if item.path == path]


def boundary(notes: dict[Skipped, None], path: str, what: str, action: Callable[[], T], otherwise: T) -> T:
    """The result of `action`; `otherwise`, with a note on the file, where it breaks: a bug of ours costs what it is in,
    and nothing beside it."""
    try:
        return action()
    except Renumbered:
        raise
    except Exception as error:  # noqa: BLE001  boundary per file, rule, fix and comment: see above
        problem = f"internal error in {what}: {type(error).__name__}: {error}"
        notes[Skipped(path, problem[:_LONGEST_NOTE], partial=what != _WHOLE)] = None
        return otherwise


class _Steps:
    """What may be spent on trying fixes, in steps of the engine: a file whose analysis is dear has fewer tries."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.are_spent = False

    def are_left(self) -> bool:
        self.are_spent |= self.left <= 0
        return self.left > 0


class _Changed:
    """The tree with one file replaced."""

    def __init__(self, files: Files, path: str, source: bytes) -> None:
        self.files, self.path, self.source = files, path, source

    def paths(self) -> Collection[str]:
        return self.files.paths()

    def read(self, path: str) -> bytes | None:
        return self.source if path == self.path else self.files.read(path)


def verified(run: Run, files: Files, least: Confidence) -> list[Finding]:
    """The findings, with only those fixes that are seen to work when the changed file is analysed again. Fixes of what
    is less sure than `least`, which nobody will see, are not tried."""
    kept: list[Finding] = []
    for path in dict.fromkeys(item.path for item in run.findings.values()):
        mine = [item if item.confidence.rank >= least.rank else replace(item, fix=None) for item in run.of(path)]
        source = run.sources.project.read(path)
        if source is not None and any(item.fix for item in mine):
            steps = _Steps(MAX_FIX_STEPS * len(run.entries[path]))

            def again(changed: bytes, path: str = path, steps: _Steps = steps) -> Sequence[str] | None:
                tree = _Changed(files, path, changed)
                sources = run.sources.with_changed(run.sources.project.with_changed(tree, path), path)
                found: set[tuple[str, Site]] = set()
                for entry in sorted(run.entries[path]):
                    drafts = drafted(sources, entry, run.rules, frozenset({path}), {}, steps)
                    found.update((draft.rule.code, draft.site) for draft in drafts)
                return None if path in sources.skipped else [code for code, _ in found]

            without = tuple(replace(item, fix=None) for item in mine)
            tried = partial(verify, source, mine, again, steps.are_left)
            mine = list(boundary(run.skipped, path, "a fix", tried, without))
            if steps.are_spent:
                run.skipped[Skipped(path, _TOO_MANY_FIXES, partial=True)] = None
        kept += mine
    return kept


def finish(
    files: Files, targets: Sequence[str], options: Options, found: Sequence[Finding], skipped: tuple[Skipped, ...]
) -> Report:
    """Filter by confidence, reconcile, suppress, sort."""
    sure = [item for item in found if item.confidence.rank >= options.min_confidence.rank]
    kept: list[Finding] = []
    hidden: list[Suppressed] = []
    broken: dict[Skipped, None] = {}
    merged = reconcile(sure)
    for path in dict.fromkeys(item.path for item in merged):
        mine = [item for item in merged if item.path == path]
        hushed = partial(suppress.apply, path, files.read(path) or b"", mine)
        all_stay: tuple[tuple[Finding, ...], tuple[Suppressed, ...]] = (tuple(mine), ())
        stay, gone = boundary(broken, path, "the comments", hushed, all_stay)
        kept += stay
        hidden += gone
    kept.sort(key=lambda item: (item.span, item.rule))
    unsure = frozenset(item.path for item in skipped)
    idle, busy = _excuses(files, targets, options, found, unsure, broken)
    return Report(
        num_files=len(targets),
        skipped=(*skipped, *broken),
        findings=tuple(kept),
        suppressed=tuple(hidden),
        idle=tuple(idle),
        busy=tuple(busy),
    )


def _excuses(
    files: Files,
    targets: Collection[str],
    options: Options,
    found: Sequence[Finding],
    unsure: frozenset[str],
    broken: dict[Skipped, None],
) -> tuple[list[Excuse], list[Excuse]]:
    """Idle and busy excuses. What is only partly analysed has no idle ones; nor has a file that is no target."""
    all_ran = not options.select and not options.ignore
    rules = None if all_ran else [rule for rule in catalogue.rules() if wanted(rule, options)]
    idle: list[Excuse] = []
    busy: list[Excuse] = []
    for path in dict.fromkeys([*targets, *(item.path for item in found)]):
        mine = [item for item in found if item.path == path]
        excuses = partial(suppress.excuses, path, files.read(path) or b"", mine, rules)
        none: tuple[list[Excuse], list[Excuse]] = ([], [])
        unused, used = boundary(broken, path, "the comments", excuses, none)
        idle += unused if path in targets and path not in unsure else ()
        busy += used
    return idle, busy


def analyze_one(
    sources: Sources, path: str, rules: Sequence[type[Rule]], shown: Container[str], skipped: dict[Skipped, None]
) -> Iterator[Finding]:
    """The findings that the program starting at one file shows, in any target."""
    source = sources.project.read(path)
    if source is not None and not screen.may_matter(source):
        sources.unit_if_cheap(path, source)
        return
    if source is not None and not _is_extended() and is_quiet(source, sources.unit(path)):
        return
    yield from seen_again(lambda: list(located(_drafts(sources, path, rules, shown, skipped), sources, skipped)))


def _starts(sources: Sources, path: str) -> frozenset[int] | None:
    """The functions of a file that its program starts at; None: all of them."""
    source, unit = sources.project.read(path), sources.unit(path)
    return None if source is None or unit is None or _is_extended() else starts(source, unit)


@lru_cache(maxsize=1)
def _is_extended() -> bool:
    """Whether rules or tables of other packages may want what ours do not."""
    return extensions.is_any()


def drafted(
    sources: Sources,
    path: str,
    rules: Sequence[type[Rule]],
    shown: Container[str],
    skipped: dict[Skipped, None],
    steps: _Steps,
) -> list[Draft]:
    """The findings of `analyze_one` before their places are looked up."""
    return seen_again(lambda: _drafts(sources, path, rules, shown, skipped, steps))


def seen_again(look: Callable[[], T]) -> T:
    """`look`, again where the files turn out to be numbered otherwise: each file can be so once."""
    while True:
        try:
            return look()
        except Renumbered:
            continue


def _drafts(
    sources: Sources,
    path: str,
    rules: Sequence[type[Rule]],
    shown: Container[str],
    skipped: dict[Skipped, None],
    steps: _Steps | None = None,
) -> list[Draft]:
    program = Program(sources.project, knowledge(), sources)
    try:
        program.run_target(path, _starts(sources, path))
        drafts = _asked(program, path, rules, shown, skipped)
        return drafts if steps is not None else _weighed(program, drafts, skipped)
    finally:
        if steps is not None:
            steps.left -= BUDGET - program.budget_left
        program.forget()


def _asked(
    program: Program, path: str, rules: Sequence[type[Rule]], shown: Container[str], skipped: dict[Skipped, None]
) -> list[Draft]:
    """What the rules say of a program that has been run."""
    skipped.update(dict.fromkeys(program.skipped))
    drafts: list[Draft] = []
    for rule in rules:
        report = RuleReport(rule)
        asked = partial(_check, rule, program, report)
        if boundary(skipped, path, rule.code, asked, otherwise=False):
            drafts += [draft for draft in report.drafts.values() if draft.site.path in shown]
    return [draft for draft in drafts if not unit_tests.is_inside(program, draft.site)]


def _weighed(program: Program, drafts: list[Draft], skipped: dict[Skipped, None]) -> list[Draft]:
    """What is true of its text, and harms nobody as the tree is run, is a note that says why."""
    if all(draft.severity is Severity.NOTE for draft in drafts):
        return drafts
    lost = missing_import(program)
    if lost is not None:
        stops = start(lost, "this import leads nowhere in the tree: the file does not run as it is")
        return [_as_note(draft, stops) for draft in drafts]
    weighed = []
    for draft in drafts:
        asked = partial(_why_harmless, program, draft)
        why = boundary(skipped, program.target, "the question of who runs this", asked, otherwise=None)
        weighed.append(draft if why is None else _as_note(draft, why))
    return weighed


def _why_harmless(program: Program, draft: Draft) -> Trace | None:
    """Why what a finding says is of no consequence as the tree is used. The cheap questions come first; evidence that
    leads through what nothing reaches is of a run that does not happen."""
    if draft.severity is Severity.NOTE:
        return None
    why = why_aside(draft.site) or why_undefined(program, draft.site)
    sites = dict.fromkeys([draft.site, *(step.site for step in draft.evidence)])
    why = why or why_stopped(program, [draft.site]) or why_left_off(program, draft.site)
    return why or next((found for site in sites if (found := why_unreached(program, site))), None)


def _as_note(draft: Draft, why: Trace) -> Draft:
    if draft.severity is Severity.NOTE:
        return draft
    return replace(draft, severity=Severity.NOTE, evidence=(*draft.evidence, why))


def _check(rule: type[Rule], program: Program, report: RuleReport) -> bool:
    rule().check(program, report)
    return True


def located(drafts: Sequence[Draft], sources: Sources, skipped: dict[Skipped, None]) -> Iterator[Finding]:
    """Drafts with their positions. A fix that cannot be made is noted, and costs only itself."""
    sites = {draft.site for draft in drafts} | {step.site for draft in drafts for step in draft.evidence}
    places: dict[tuple[str, int], Span] = {}
    for path in sorted({site.path for site in sites if sources.units.get(site.path) is not None}):
        found = sources.spans(path, {site.at for site in sites if site.path == path})
        places.update({(path, number): span for number, span in found.items()})
    for draft in drafts:
        path, what = draft.site.path, f"a fix of {draft.rule.code}"
        fix = boundary(skipped, path, what, partial(fix_of, draft, sources), None)
        yield finding(draft, places, fix)


def fix_of(draft: Draft, sources: Sources) -> Fix | None:
    """The fix of a draft with its positions."""
    if draft.fix is None:
        return None
    path = draft.site.path
    edits = resolve(
        draft.fix.edits,
        lambda: sources.tree(path),
        lambda numbers: sources.spans(path, numbers),
        lambda number: sources.is_loose(path, number),
        lambda: sources.lines(path),
    )
    return Fix(draft.fix.title, draft.fix.applicability, edits)


def finding(draft: Draft, places: dict[tuple[str, int], Span], fix: Fix | None) -> Finding:
    """One draft as a finding."""
    evidence = tuple(
        Evidence(span.path, span.start.line, span.start.column, step.note)
        for step in draft.evidence
        if (span := places.get((step.site.path, step.site.at)))
    )
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


def wanted(rule: type[Rule], options: Options) -> bool:
    """Whether the options ask for a rule, by code or alias."""
    names = {rule.code, rule.alias or rule.code}
    return (not options.select or bool(names & options.select)) and not names & options.ignore


@contextmanager
def quiet_collector() -> Iterator[None]:
    """No garbage collection and a deeper recursion limit while trees are built. What is remembered of them goes before
    it starts again: it would look at each node once more."""
    enabled, limit = gc.isenabled(), sys.getrecursionlimit()
    gc.disable()
    sys.setrecursionlimit(max(limit, 4000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        forget()
        if enabled:
            gc.enable()
