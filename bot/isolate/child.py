"""The child: one job on standard input, one report on standard output. Started by `bot.isolate.pool` only."""

from __future__ import annotations

import json
import sys

from analyzer.api import analyze
from bot.isolate.files import DiskFiles
from bot.isolate.wire import options_from_json


def main() -> None:
    """Analyse the targets of one job."""
    job = json.load(sys.stdin)
    report = analyze(DiskFiles(job["base"], job["listed"]), job["targets"], options_from_json(job["options"]))
    json.dump(report.to_json(), sys.stdout)


if __name__ == "__main__":
    main()
