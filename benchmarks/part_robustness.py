"""Damaged files and whole trees: that every file is answered for, and with how much memory.

``PREFLIGHT_MUTANTS`` says how many damaged files (``python -m benchmarks.robustness mutants`` runs ten thousand).
"""

from __future__ import annotations

import os
import resource

from analyzer.api import Options, analyze
from benchmarks.part_analysis import Corpus
from benchmarks.robustness import WITNESS, mutated, problems, programs

NUM_MUTANTS = 200
"""Keeps the benchmark below a minute."""


def run() -> str:
    """Markdown."""
    count = int(os.environ.get("PREFLIGHT_MUTANTS", NUM_MUTANTS))
    sources = programs([])
    witness = sources[0]
    expected = len(analyze(Corpus({WITNESS: witness}), [WITNESS], Options()).findings)
    found = [
        problem
        for seed in range(count)
        for problem in problems(mutated(sources[seed % len(sources)], seed), witness, expected)
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"""## Robustness

{count} damaged programs of our own cases, each analysed beside one that is whole: {len(found)} problems (a crash, a
bug of ours that shows, more than 20 s, or findings of the whole file that are missing); at most {peak:.0f} MiB.
Ten thousand through the command, whole trees and fixes: [robustness](robustness.md).
"""
