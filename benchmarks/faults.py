"""The real stack through bad days: what was lost, doubled, left hanging. ``python -m benchmarks.faults --help``.

Local GitHub, Redis with an append-only file, gunicorn, supervised rq workers: all real processes. Each story is one
pull request (opened, pushed to, talked to, closed, reopened, re-run); a shuffled deck of faults is dealt to the stories
in turn. The schedule follows from the seed; the moments at which processes meet do not.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.faults.cards import deck
from tests.faults.rig import Rig
from tests.faults.season import Season, Totals


def main() -> int:
    """0 when nothing was lost, doubled or left hanging."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--seed", default="2026-11-30")
    parser.add_argument("--stories", type=int, default=12, help="pull requests (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=12, help="stories on one stack, then a fresh one")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--cards", type=int, default=14, help="faults dealt to each story")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--unrest", type=float, default=20.0, help="mean seconds between kills at random moments; 0: none"
    )
    parser.add_argument("--totals", type=Path, help="file that sums up over several runs")
    parser.add_argument("--keep", type=Path, help="keep the logs of the stack in this directory")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the stack ends with us
    totals = Totals.load(args.totals) if args.totals else Totals()
    waiting = [number for number in range(10 * args.stories + len(totals.names)) if f"s{number}" not in totals.names]
    for start in range(0, args.stories, args.batch):
        numbers = waiting[start : min(start + args.batch, args.stories)]
        with tempfile.TemporaryDirectory(prefix="pf-faults-") as short:
            directory = (args.keep / f"batch-{numbers[0]}") if args.keep else Path(short)
            with Rig(directory, args.workers) as rig:
                season = Season(rig, args.seed, totals, unrest=args.unrest, file=args.totals)
                season.play(season.deal(numbers, args.cards), at_once=args.at_once)
    print(report(totals, args.seed))
    return 1 if totals.lost or totals.doubled or totals.hanging else 0


def report(totals: Totals, seed: str) -> str:
    """Markdown for ``docs/reliability.md``."""
    wrong = [("lost", totals.lost), ("doubled", totals.doubled), ("hanging", totals.hanging)]
    counts = ", ".join(f"{len(found)} {what}" for what, found in wrong)
    lines = [
        f"Seed `{seed}`: **{totals.faults} faults** took effect over **{totals.reviews} reviews** of {totals.stories}",
        f"pull requests. **{counts}.** {totals.failed} reviews ended with a check that says that they failed.",
        "",
        "| fault | times |",
        "| --- | ---: |",
    ]
    by_kind: Counter[str] = Counter()
    for name, times in totals.played.items():
        by_kind[_kind(name)] += times
    lines += [f"| {name} | {times} |" for name, times in sorted(by_kind.items())]
    unseen = sorted({str(card) for card in deck()} - totals.played.keys())
    lines += ["", f"Cards that never took effect: {len(unseen)} of {len(set(map(str, deck())))}."]
    lines += [f"* {text}" for _, found in wrong for text in found]
    return "\n".join(lines)


def _kind(name: str) -> str:
    """A card's name without its step."""
    for card in deck():
        if str(card) == name:
            return f"{card.kind}: {card.what}"
    return name


if __name__ == "__main__":
    sys.exit(main())
