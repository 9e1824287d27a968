"""Damaged programs: whatever a file holds, the analysis ends, reports every other file and blames no bug of ours.

``python -m benchmarks.robustness --count 10000 [FOLDER…]`` analyses that many mutants of the Python files below the
folders (else of our own cases), prints what went wrong and how much memory it took, and exits 1 if anything did.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from analyzer.api import Options, analyze
from benchmarks.part_analysis import Corpus

CASES_DIR = Path(__file__).resolve().parents[1] / "tests" / "cases"
MAX_SECONDS = 20.0
"""Of one mutant."""
WITNESS = "witness.py"
_FRAGMENTS = (
    b"*", b"**", b"(", b"[", b"{", b":=", b"lambda:", b"yield ", b"await ", b"del ", b"global x\n", b"self.",
    b"super().", b"return\n", b"break\n", b"with ", b"match x:\n    case ", b"import a.b\n",
    b"from . import *\n", b"\x00", b"\xff", b"\r", b"\t", b"\\\n", b"'''", b"f'{x", b"0x", b"9" * 40,
    b"class A(A): ", b"def f(*, a, **f): f(f)\n", b"x = x = [x, *x]\n", b"for x in x: ", b"while True: ",
    b"try: ", b"@x\n", b"# noqa\n", b"model.train()\n", b"loss.backward()\n", b"optimizer.step()\n",
)  # fmt: skip


def mutated(source: bytes, seed: int) -> bytes:
    """The file with a few things deleted, doubled, moved, swapped or put in; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 6)):
        source = chance.choice(_CHANGES)(source, chance)
    return source


def _lines(source: bytes, chance: random.Random) -> bytes:
    lines = source.splitlines(keepends=True) or [b"\n"]
    first, second = sorted((chance.randrange(len(lines)), chance.randrange(len(lines))))
    piece = lines[first : min(second, first + 8) + 1]
    kind = chance.choice(("delete", "double", "move", "indent"))
    if kind == "double":
        return b"".join([*lines[:first], *piece, *lines[first:]])
    if kind == "indent":
        return b"".join([*lines[:first], *(b"    " + line for line in piece), *lines[first + len(piece) :]])
    left = [*lines[:first], *lines[first + len(piece) :]]
    place = chance.randrange(len(left) + 1) if kind == "move" else len(left)
    return b"".join([*left[:place], *(piece if kind == "move" else []), *left[place:]])


def _bytes(source: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(source) + 1)
    return source[:at] + chance.choice(_FRAGMENTS) + source[at + chance.choice((0, 0, 1, 5)) :]


def _words(source: bytes, chance: random.Random) -> bytes:
    words = source.split(b" ")
    first, second = chance.randrange(len(words)), chance.randrange(len(words))
    words[first], words[second] = words[second], words[first]
    return b" ".join(words)


def _swapped(source: bytes, chance: random.Random) -> bytes:
    """One name instead of another, everywhere: shadowing, recursion, calls of what is none."""
    names = sorted({word for word in source.replace(b"(", b" ").replace(b".", b" ").split() if word.isalnum()})
    return source.replace(chance.choice(names), chance.choice(names)) if names else source


_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (_lines, _bytes, _words, _swapped)


def problems(source: bytes, witness: bytes, expected: int) -> list[str]:
    """What is wrong with the analysis of a damaged file beside one that is whole."""
    start = time.process_time()
    report = analyze(Corpus({"mutant.py": source, WITNESS: witness}), ["mutant.py", WITNESS], Options())
    found = [f"internal: {item.reason}" for item in report.skipped if "internal error" in item.reason]
    if sum(item.path == WITNESS for item in report.findings) != expected:
        found.append("findings of the other file are missing")
    if (seconds := time.process_time() - start) > MAX_SECONDS:
        found.append(f"took {seconds:.0f} s")
    return found


def programs(folders: Sequence[str]) -> list[bytes]:
    """The files to damage."""
    if folders:
        return [path.read_bytes() for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    texts = (path.read_text(encoding="utf-8") for path in sorted(CASES_DIR.rglob("*.md")))
    return [block.partition("```")[0].encode() for text in texts for block in text.split("```python\n")[1:]]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("folders", nargs="*")
    args = parser.parse_args()
    sources = programs(args.folders)
    witness = sources[0]
    expected = len(analyze(Corpus({WITNESS: witness}), [WITNESS], Options()).findings)
    bad = 0
    for number in range(args.seed, args.seed + args.count):
        for problem in problems(mutated(sources[number % len(sources)], number), witness, expected):
            bad += 1
            print(f"seed {number}: {problem}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{args.count} mutants of {len(sources)} files, {bad} problems, at most {peak:.0f} MiB")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
