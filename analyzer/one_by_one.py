"""An analysis whose targets come one at a time: the body of `analyzer.api.analyze_each`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from analyzer import catalogue
from analyzer.api import Files, Options
from analyzer.engine.sources import Sources
from analyzer.findings import Report, Skipped
from analyzer.journal import Journal
from analyzer.notebooks.files import NotebookFiles
from analyzer.pipeline import Run, finish, quiet_collector, verified, wanted
from analyzer.project import Project


def analyze_each(
    files: Files, targets: Iterable[str], options: Options, report_on: Collection[str], journal: Journal | None = None
) -> Iterator[tuple[str, Report]]:
    """Each target with what the program that starts there shows. Files are parsed once for all."""
    shown_in = frozenset(report_on)
    with quiet_collector():
        rules = [rule for rule in catalogue.rules() if wanted(rule, options)]
        tree = NotebookFiles(files)
        sources = Sources(Project(tree, journal, has_all_texts=options.has_all_texts))
        for path in targets:
            sources.make_room()
            sources.project.journal.clear()
            sources.project.journal.reads.add(path)
            run = Run(sources, _Noted(shown_in, sources.project.journal), rules)
            run.all([path])
            report = finish(tree, (path,), options, verified(run, tree, options.min_confidence), _notes(run, path))
            notes = (*tree.notes([path]), *report.skipped)
            yield path, tree.placed(replace(report, skipped=notes))


class _Noted:
    """Paths that note who was asked for."""

    def __init__(self, paths: frozenset[str], journal: Journal) -> None:
        self._paths, self._journal = paths, journal

    def __contains__(self, path: object) -> bool:
        is_one = path in self._paths
        self._journal.answers["shown", str(path)] = is_one
        return is_one


def _notes(run: Run, path: str) -> tuple[Skipped, ...]:
    unread = [run.sources.skipped[path]] if path in run.sources.skipped else []
    return tuple(dict.fromkeys([*unread, *run.skipped]))
