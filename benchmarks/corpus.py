"""Precision on public training repositories: scan checkouts, compare with the labels, write ``docs/corpus.md``.

    python -m benchmarks.corpus scan --checkouts DIR --out findings.jsonl
    python -m benchmarks.corpus refresh --checkouts DIR --findings findings.jsonl
    python -m benchmarks.corpus page [--check]

``tests/corpus/repositories.json`` names repositories and commits; a checkout lies in ``DIR/OWNER+NAME``. A finding is
known by repository, path, rule and line; the file's git hash says whether the line still means the same. Labels
(``labels.jsonl``) hold two verdicts that were given without seeing each other: ``defect`` (confirmed), ``intentional``,
``limitation`` (the analyzer is wrong) or ``unresolved``. Where they disagree the finding counts as wrong. No code is
kept: hashes, positions, verdicts and reasons in a person's words. ``refresh`` notes in the rows of two readers what
today's rules make of the finding, where that is another severity or nothing (``now``), and in ``unread.json`` how many
errors and warnings today's rules find in the same repositories that nobody has read.

Rows with a ``round`` are of repositories that nobody had looked at before: what was found on first sight, before
anything was repaired with what that round taught. They were read once, by the reader who repaired; those of the rounds
`INDEPENDENT` by two who repaired nothing and did not see each other's verdicts. ``rounds.json`` names the repositories
of each round, those without findings among them. Rows of the round `LATER` are of what the rules came to find there.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzer.api import Options, analyze
from analyzer.findings import Finding
from bot.sources.directory import Directory

HERE = Path(__file__).parent.parent
CORPUS = HERE / "tests" / "corpus"
PAGE = HERE / "docs" / "corpus.md"
UNREAD = CORPUS / "unread.json"
PEER = CORPUS / "peer.json"
"""How many errors and warnings torch-preflight 0.5 finds in the files of the first round of `INDEPENDENT`, run as it
comes."""
INDEPENDENT = (88, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99)
"""The rounds that were read by who did not repair, each with the repairs that those before it taught."""
LATER = 1000
"""The round of what later rules found in repositories that had been read: read by two who did not repair."""
_DOUBLE = frozenset({0, *INDEPENDENT, LATER})
NUM_LATEST = 4
VERDICTS = ("defect", "intentional", "limitation", "unresolved")
_GATED = ("error", "warning")


@dataclass(frozen=True, slots=True)
class Label:
    """One finding and what two readers said about it; `peer` tells a finding of torch-preflight from ours."""

    repo: str
    path: str
    blob: str
    rule: str
    line: int
    severity: str
    confidence: str
    verdicts: tuple[str, ...]
    reason: str
    tool: str = "preflight"
    round: int = 0
    """Which first reading it is of; 0 for those that were read after repairs."""
    now: str = ""
    """The severity that the finding has by now, or ``gone``; empty where it is what it was."""

    @property
    def is_right(self) -> bool:
        """Whether every reader confirmed a defect."""
        return set(self.verdicts) == {"defect"}

    @property
    def is_double(self) -> bool:
        """Whether two readers read it."""
        return len(self.verdicts) == 2

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Label:
        """A row of ``labels.jsonl``. Raises ValueError for a verdict that is none."""
        verdicts, turn = tuple(row["verdicts"]), row.get("round", 0)
        if set(verdicts) - set(VERDICTS) or len(verdicts) not in ({1, 2} if turn else {2}):
            raise ValueError(f"{row['repo']} {row['path']}:{row['line']}: verdicts are {', '.join(VERDICTS)}")
        return cls(
            repo=row["repo"], path=row["path"], blob=row["blob"], rule=row["rule"], line=row["line"],
            severity=row["severity"], confidence=row["confidence"], verdicts=verdicts, reason=row["reason"],
            tool=row.get("tool", "preflight"), round=turn, now=row.get("now", ""),
        )  # fmt: skip


def labels() -> list[Label]:
    """The committed labels."""
    text = (CORPUS / "labels.jsonl").read_text("utf-8")
    return [Label.from_json(json.loads(line)) for line in text.splitlines() if line.strip()]


def repositories() -> dict[str, str]:
    """Repository -> commit."""
    found: dict[str, str] = json.loads((CORPUS / "repositories.json").read_text("utf-8"))
    return found


def rounds() -> dict[int, list[str]]:
    """The repositories of each first reading."""
    found = json.loads((CORPUS / "rounds.json").read_text("utf-8"))
    return {int(turn): names for turn, names in found.items()}


def first_repositories() -> set[str]:
    """The repositories that two readers read, those without findings among them."""
    return set(repositories()) - {name for names in rounds().values() for name in names}


def independent() -> set[str]:
    """All that somebody read who repaired nothing."""
    return first_repositories() | {name for turn in INDEPENDENT for name in rounds()[turn]}


def git_hash(content: bytes) -> str:
    """The hash git gives a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def scan(checkouts: Path) -> Iterator[dict[str, Any]]:
    """Every finding at default levels in every checkout, as a row without verdicts."""
    for repo, commit in repositories().items():
        root = checkouts / repo.replace("/", "+", 1)
        if not root.is_dir():
            print(f"no checkout of {repo}@{commit[:10]} in {checkouts}", file=sys.stderr)
            continue
        files = Directory(root)
        targets = sorted(path for path in files.paths() if path.endswith((".py", ".ipynb")) and not _is_hidden(path))
        for finding in analyze(files, targets, Options()).findings:
            yield _row(repo, finding, files.read(finding.path) or b"")


def _is_hidden(path: str) -> bool:
    """Whether a file lies in a hidden folder (copies of a notebook server), which the command leaves out too."""
    return any(part.startswith(".") for part in path.split("/")[:-1])


def _row(repo: str, finding: Finding, content: bytes) -> dict[str, Any]:
    return {
        "repo": repo, "path": finding.path, "blob": git_hash(content), "rule": finding.rule, "line": finding.line,
        "severity": finding.severity.value, "confidence": finding.confidence.value,
    }  # fmt: skip


def refreshed(row: dict[str, Any], found: dict[tuple[str, str, str, int], str], scanned: set[str]) -> dict[str, Any]:
    """A row of ``labels.jsonl`` with what a scan says of it by now; what those who repair read stays."""
    is_kept = row.get("round", 0) not in _DOUBLE
    if is_kept or row.get("tool", "preflight") != "preflight" or row["repo"] not in scanned:
        return row
    now = found.get((row["repo"], row["path"], row["rule"], row["line"]), "gone")
    kept = {name: value for name, value in row.items() if name != "now"}
    return kept if now == row["severity"] else {**kept, "now": now}


def refresh(findings: Path, checkouts: Path) -> None:
    """Note in the labels what the findings of a scan say of them."""
    rows = [json.loads(line) for line in findings.read_text("utf-8").splitlines() if line.strip()]
    found = {(row["repo"], row["path"], row["rule"], row["line"]): str(row["severity"]) for row in rows}
    scanned = {repo for repo in repositories() if (checkouts / repo.replace("/", "+", 1)).is_dir()}
    lines = []
    for line in filter(str.strip, (CORPUS / "labels.jsonl").read_text("utf-8").splitlines()):
        row = json.loads(line)
        by_now = refreshed(row, found, scanned)
        lines.append(line if by_now == row else json.dumps(by_now, sort_keys=True))
    (CORPUS / "labels.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    known = {(item.repo, item.path, item.rule, item.line) for item in labels() if item.round in _DOUBLE}
    there = independent() & scanned
    unread = [place for place, severity in found.items() if severity in _GATED and place[0] in there]
    count = {"repositories": len(there), "findings": len([place for place in unread if place not in known])}
    UNREAD.write_text(json.dumps(count, sort_keys=True) + "\n", encoding="utf-8")


def precision(items: Iterable[Label]) -> tuple[int, int]:
    """Findings that both readers confirmed, of all."""
    known = list(items)
    return sum(item.is_right for item in known), len(known)


def page(known: Sequence[Label]) -> str:
    """The whole page."""
    ours = [item for item in known if item.tool == "preflight" and item.round in _DOUBLE]
    gated = [item for item in ours if item.severity in _GATED]
    fresh, base = [item for item in gated if item.round in INDEPENDENT], [item for item in gated if not item.round]
    late = [item for item in gated if item.round == LATER]
    unread = json.loads(UNREAD.read_text("utf-8"))
    latest = {turn: [item for item in fresh if item.round == turn] for turn in INDEPENDENT[-1 : -NUM_LATEST - 1 : -1]}
    lines = [
        "# Findings on public repositories",
        "",
        "Written by `python -m benchmarks.corpus page`; do not edit. Every error and warning at default levels in",
        f"{len(independent())} public training repositories, read against the source by readers (language-model",
        "agents) who had repaired nothing when they read. `tests/corpus/labels.jsonl` has every verdict with its",
        "reason.",
        "",
        f"Two parts, and they say different things. The {len(first_repositories())} *first* repositories, with a",
        "sample of the notes, were read by two readers who did not see each other's verdict, while the rules were",
        "made. Right is what both confirmed; everything else, disagreement among it, is wrong. Before the repairs,",
        "they confirmed 130 of 182 there, and 20 of 33 on 14 repositories read later.",
        f"The {sum(len(rounds()[turn]) for turn in INDEPENDENT)} *fresh* repositories were chosen by their kind, in",
        f"{len(INDEPENDENT)} rounds (see *First sight*), and read by two readers when nobody had seen them. Then the",
        "rules were repaired with what was said there, so what is left by now flatters them: it says what was learnt.",
        "A round's first sight is what a repository that we have not seen may expect: it was read before anything was",
        "repaired with it. Those from 94 on came after likely findings of eight rules had become notes",
        "([decision 9](decisions/0009-notes-where-likely.md)), each with the repairs that those before it had taught.",
        "",
        "| errors and warnings | findings | confirmed | share |",
        "| --- | ---: | ---: | ---: |",
        *(_line(f"**fresh round {turn}, on first sight, two readers**", items) for turn, items in latest.items()),
        _line("all fresh rounds, on first sight, two readers", fresh),
        _line("fresh repositories, errors and warnings by now", _by_severity(fresh, *_GATED)),
        _line("first repositories, when they were read, two readers", base),
        _line("first repositories, errors and warnings by now", _by_severity(base, *_GATED)),
        _line("found by later rules in repositories that had been read, two readers", late),
        _line("**all, errors and warnings by now**", _by_severity(gated, *_GATED)),
        _line("all, notes by now", _by_severity(gated, "note")),
        _line("all, gone by now", _by_severity(gated, "gone")),
        _line("notes (a sample), two readers", [item for item in ours if item.severity == "note"]),
    ]
    peer = [item for item in known if item.tool != "preflight"]
    if peer:
        whole = sum(json.loads(PEER.read_text("utf-8")).values())
        sample = f"a random sample of its {whole} on round {INDEPENDENT[0]}, two readers"
        lines.append(_line(f"torch-preflight 0.5, {sample}", peer))
    more = f"{unread['findings']} errors and warnings in {unread['repositories']} of these repositories"
    lines += ["", f"Today's rules find {more} that nobody has read."]
    double = [item for item in ours if item.is_double]
    agreed = sum(item.verdicts[0] == item.verdicts[1] for item in double)
    lines += ["", f"Two readers gave the same verdict to {agreed} of {len(double)} findings.", "", "## By rule", ""]
    lines += [
        "| rule | severity | findings | confirmed | share | fresh, on first sight | all, by now |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    by_rule: dict[tuple[str, str], list[Label]] = collections.defaultdict(list)
    for item in ours:
        by_rule[item.rule, item.severity].append(item)
    for (rule, severity), items in sorted(by_rule.items()):
        right, whole = precision(items)
        parts = ([item for item in items if item.round in INDEPENDENT], _by_severity(items, severity))
        shares = " | ".join("{} of {}".format(*precision(part)) if part else "" for part in parts)
        lines.append(f"| {rule} | {severity} | {whole} | {right} | {right / whole:.0%} | {shares} |")
    lines += _fresh(known)
    lines += ["", "## What was wrong", ""]
    wrong = [item for item in gated if not item.is_right]
    lines += [
        f"* {item.rule} {item.repo} `{item.path}:{item.line}`{_by_now(item)}: {item.reason}" for item in wrong
    ] or ["Nothing."]
    return "\n".join(lines) + "\n"


def _fresh(known: Sequence[Label]) -> list[str]:
    """What a first reading of unseen repositories said, round by round."""
    lines = [
        "", "## First sight", "",
        "Errors and warnings on repositories that nobody had looked at, read against the source by one reader, before",
        "anything was repaired with what the round taught; each round ran with the repairs of those before it. This,",
        "and not the table above, is what a repository that we have not seen may expect. Findings of one repository",
        "are often of one kind, right or wrong: the share without the repository that has most of them stands beside.",
        "Rounds 51 to 79 were read for the rules from PF211 on alone, those from 80 to 87 for the rules before it, the",
        f"later ones for all rules, rounds {', '.join(map(str, INDEPENDENT))} by two who had repaired nothing when",
        "they read; of round 92 at most four findings of one rule in one repository, drawn at random.",
        "",
        "| round | repositories | findings | confirmed | share | without the largest | all right, of those with any |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for turn, names in sorted(rounds().items()):
        items = [item for item in known if item.round == turn and item.tool == "preflight"]
        right, whole = precision(items)
        wrong = {item.repo for item in items if not item.is_right}
        seen = collections.Counter(item.repo for item in items)
        largest = seen.most_common(1)[0][0]
        some, most = precision(item for item in items if item.repo != largest)
        clean = f"{len(seen.keys() - wrong)} of {len(seen)}"
        rest = f"{some} of {most}, {some / most:.0%}"
        lines.append(f"| {turn} | {len(names)} | {whole} | {right} | {right / whole:.0%} | {rest} | {clean} |")
    return lines


def _by_severity(items: Iterable[Label], *severities: str) -> list[Label]:
    """Those that have one of these severities by now."""
    return [item for item in items if (item.now or item.severity) in severities]


def _by_now(item: Label) -> str:
    return {"": "", "gone": " (gone by now)"}.get(item.now, f" (a {item.now} by now)")


def _line(name: str, items: Sequence[Label]) -> str:
    right, whole = precision(items)
    return f"| {name} | {whole} | {right} | {right / whole:.0%} |" if whole else f"| {name} | 0 | 0 | |"


def main(argv: Sequence[str] | None = None) -> int:
    """Scan, or write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    scanning = commands.add_parser("scan")
    scanning.add_argument("--checkouts", type=Path, required=True)
    scanning.add_argument("--out", type=Path, required=True)
    noting = commands.add_parser("refresh")
    noting.add_argument("--checkouts", type=Path, required=True)
    noting.add_argument("--findings", type=Path, required=True)
    writing = commands.add_parser("page")
    writing.add_argument("--check", action="store_true")
    args = parser.parse_args(argv)
    if args.command == "scan":
        rows = [json.dumps(row, sort_keys=True) for row in scan(args.checkouts)]
        args.out.write_text("\n".join(rows) + "\n", encoding="utf-8")
        return 0
    if args.command == "refresh":
        refresh(args.findings, args.checkouts)
        return 0
    text = page(labels())
    if args.check:
        is_fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print("fresh" if is_fresh else "stale: run python -m benchmarks.corpus page", file=sys.stderr)
        return 0 if is_fresh else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
