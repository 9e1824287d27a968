"""How long ``preflight estimate`` takes, as a whole process and in one that is already running."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

_COMMAND = [
    *(sys.executable, "-I", "-m", "preflight", "estimate", "--model", "meta-llama/Llama-2-7b-hf", "--gpu", "A100"),
    *("--micro-batch", "1", "--seq-len", "2048", "--format", "json"),
]
_REPEATS = 7


def whole_process_seconds() -> list[float]:
    """One command line, start to end, several times."""
    found = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        subprocess.run(_COMMAND, check=True, stdout=subprocess.DEVNULL)
        found.append(time.perf_counter() - start)
    return found


def warm_seconds() -> list[float]:
    """The same estimate, with its suggestions, inside a running worker."""
    from estimator.api import estimate_words

    words = ["A100", "--model", "meta-llama/Llama-2-7b-hf", "--micro-batch", "1", "--seq-len", "2048"]
    found = []
    for _ in range(_REPEATS + 1):
        start = time.perf_counter()
        estimate_words(words)
        found.append(time.perf_counter() - start)
    return found[1:]


def run() -> str:
    """The section of ``docs/benchmarks.md``."""
    whole, warm = whole_process_seconds(), warm_seconds()
    cold = f"{statistics.median(whole):.2f} s | {max(whole):.2f} s | 0.5 s"
    hot = f"{statistics.median(warm) * 1000:.0f} ms | {max(warm) * 1000:.0f} ms | "
    lines = [
        "## Estimate",
        "",
        "| what | median | slowest | target |",
        "| --- | ---: | ---: | ---: |",
        f"| `preflight estimate --model … --gpu A100`, whole process | {cold} |",
        f"| the same in a running process | {hot} |",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(run())
