"""`analyzer.api.analyze` with reports of earlier runs, in this process: for a child that was given a store."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.api import Files, Journal, Options, analyze_each
from analyzer.findings import Report
from bot.core.reports import is_whole, merged
from bot.isolate.cache import ReportCache, Store
from bot.isolate.snapshot import Snapshot


def analyze(files: Files, targets: Sequence[str], options: Options | None, store: Store) -> Report:
    """The same findings; what is known of a target is not asked again."""
    tree, wanted = Snapshot(files, targets), options or Options()
    cache = ReportCache(store, wanted, tree)
    done = {target: report for target in targets if (report := cache.get(target))}
    journal = Journal()
    for target, report in analyze_each(tree, [each for each in targets if each not in done], wanted, targets, journal):
        done[target] = report
        made = tree.made_from(journal) if is_whole(report) else None
        if made is not None:
            cache.put(target, made, report.to_json())
    return merged(done[target] for target in dict.fromkeys(targets))
