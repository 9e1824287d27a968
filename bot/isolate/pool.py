"""Run an analysis in child processes; when one dies or hangs, halve its files until the guilty one is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from analyzer.api import Options, analyze
from analyzer.findings import Report, Skipped
from bot.isolate.files import DiskFiles
from bot.isolate.wire import options_to_json, report_from_json

CHUNK = 40
SECONDS_PER_FILE = 60.0
_SMALL_FILES, _SMALL_BYTES = 4, 128 * 1024


def check(
    files: DiskFiles, targets: Sequence[str], options: Options, jobs: int, seconds: float = SECONDS_PER_FILE
) -> Report:
    """The report over `targets`. A few small files are analysed here: their nesting is measured before any parse, and
    a process costs more than they do. `seconds` is the most that one file may take in a child."""
    if _is_small(files, targets):
        return analyze(files, targets, options)
    chunks = [targets[start : start + CHUNK] for start in range(0, len(targets), CHUNK)]
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        return merge(list(pool.map(lambda chunk: survive(files, chunk, options, seconds), chunks)))


def _is_small(files: DiskFiles, targets: Sequence[str]) -> bool:
    if len(targets) > _SMALL_FILES:
        return False
    return sum(len(files.read(path) or b"") for path in targets) <= _SMALL_BYTES


def survive(files: DiskFiles, targets: Sequence[str], options: Options, seconds: float) -> Report:
    """The report of one child over `targets`; where it dies, of children over fewer files each."""
    outcome = _run(files, targets, options, seconds)
    if isinstance(outcome, Report):
        return outcome
    if len(targets) == 1:
        return Report(num_files=1, skipped=(Skipped(targets[0], outcome),), findings=())
    middle = len(targets) // 2
    return merge([survive(files, part, options, seconds) for part in (targets[:middle], targets[middle:])])


def _run(files: DiskFiles, targets: Sequence[str], options: Options, seconds: float) -> Report | str:
    """A report, or in words what became of the child."""
    job = {
        "base": files.base,
        "listed": sorted(files.paths()),
        "targets": list(targets),
        "options": options_to_json(options),
    }
    command = [sys.executable, "-I", "-m", "bot.isolate.child"]
    limit = seconds + 2.0 * (len(targets) - 1)
    try:
        done = subprocess.run(
            command, input=json.dumps(job), capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return f"the analysis took more than {seconds:.0f} s"
    if done.returncode < 0:
        return f"the analysis process died ({signal.Signals(-done.returncode).name})"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"the analysis process failed: {last}"
    return report_from_json(json.loads(done.stdout))


def merge(reports: Sequence[Report]) -> Report:
    """Several reports as one. What two children say about a shared import is said once."""
    return Report(
        num_files=sum(report.num_files for report in reports),
        skipped=tuple(dict.fromkeys(item for report in reports for item in report.skipped)),
        findings=tuple(
            sorted(
                dict.fromkeys(item for report in reports for item in report.findings),
                key=lambda item: (item.span, item.rule),
            )
        ),
        suppressed=tuple(dict.fromkeys(item for report in reports for item in report.suppressed)),
    )


def default_jobs() -> int:
    """One child per core, at most eight."""
    return min(8, os.cpu_count() or 1)
