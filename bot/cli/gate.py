"""Run a submit command only if the job may fit: `preflight gate --local -- sbatch train.slurm`.

Estimates what COMMAND would run, here and now; with --sha it also asks the preflight/memory check of that commit, and
every file that the launch reads must be byte-identical to it. COMMAND replaces this process, word for word, without a
shell. Policy comes from --policy or from the default branch as committed, never from the work tree.

Exit code 1 says blocked, 2 that the gate could not be asked; any other is COMMAND's own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bot.errors import InputError

if TYPE_CHECKING:
    from analyzer.api import Files
    from bot.core.config import Config
    from bot.core.gate import Check, Decision, Difference, Here
    from bot.sources.worktree import WorkTree
    from estimator.api import Estimate
    from estimator.submissions import Submissions

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--local", action="store_true", help="only the estimate here decides")
    how.add_argument("--sha", metavar="SHA", help="also the check of this commit (all 40 digits)")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="or its id (default: what origin is called)")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="a preflight.yml (default: the default branch's)")
    parser.add_argument("--allow-borderline", action="store_true", help="run what may or may not fit")
    parser.add_argument("--allow-unknown", action="store_true", help="run what cannot be estimated")
    parser.add_argument("--dry-run", action="store_true", help="say what would happen; run nothing")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the submit command")


def run(args: argparse.Namespace) -> int:
    """Replace this process with the command, or 1. Raises `InputError` where the gate cannot be asked."""
    from bot.sources.worktree import WorkTree

    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words:
        raise InputError("nothing to run: preflight gate --local -- sbatch train.slurm")
    if args.sha is not None and not _SHA.fullmatch(args.sha):
        raise InputError(f"--sha {args.sha[:60]}: give the full commit id, 40 hexadecimal digits")
    with WorkTree(Path()) as tree:
        decision, policy = _decision(tree, words, args)
    _say(decision, words, policy, args)
    if not decision.is_allowed:
        return 1
    return 0 if args.dry_run else _replace(words)


def _decision(tree: WorkTree, words: list[str], args: argparse.Namespace) -> tuple[Decision, str]:
    """May the command run, and by which policy."""
    from bot.core.gate import Allow, decide

    config, problems, policy = tree.policy(args.policy)
    if problems:
        policy += f" ({len(problems)} problems, first: {problems[0]})"
    found, why = _submissions(tree, tree.files, words, config)
    here = _here(tree, words, config, found, why)
    check, differences = _of_commit(tree, words, config, found, args) if args.sha else (None, ())
    allow = Allow(borderline=args.allow_borderline, unknown=args.allow_unknown)
    return decide(here, allow, check=check, differences=differences), policy


def _submissions(tree: WorkTree, files: Files, words: list[str], config: Config) -> tuple[Submissions | None, str]:
    """What the command would run; None with the reason where that cannot be read."""
    from bot.sources.nearby import there_is
    from estimator.api import submissions
    from estimator.submission import NoScript, Shell

    try:
        shell = Shell(cwd=tree.cwd, environment=dict(os.environ))
        return submissions(files, words, config.targets, shell), ""
    except NoScript as error:
        if files is tree.files and not Path(error.name).exists():  # a slip: what it would run cannot be unknown
            raise InputError(f"{error.name}: no such batch script{there_is(Path(error.name))}") from None
        return None, str(error)
    except InputError as error:
        return None, str(error)


def _here(tree: WorkTree, words: list[str], config: Config, found: Submissions | None, why: str) -> tuple[Here, ...]:
    from bot.core.gate import Here

    if found is None or (not found.launches and found.asks_for_gpu):
        reasons = "; ".join(note.reason for note in found.notes) if found is not None else why
        return (
            Here(path=" ".join(words)[:120], line=0, verdict="unknown", why=reasons or "starts no training we know"),
        )
    plain = {} if all(item.verdict != "exceeds" for item in found.launches) else _plain_verdicts(tree, found, config)
    return tuple(
        Here(
            path=item.path,
            line=item.line,
            verdict=item.verdict,
            mode=config.mode("memory", item.path),
            sources=item.sources,
            estimate=item.estimate.to_json() if item.estimate is not None else None,
            why=item.why,
            smoke_test=item.smoke_test,
            is_of_commit=plain.get((item.path, item.line)) == item.verdict,
        )
        for item in found.launches
    )


def _plain_verdicts(tree: WorkTree, found: Submissions, config: Config) -> dict[tuple[str, int], str]:
    """The verdicts of the launch files alone, without this command's options and environment."""
    from estimator.api import launches
    from estimator.impact import verdict_of

    paths = sorted({path for item in found.launches for path in item.sources})
    readings: dict[tuple[str, int], list[Estimate]] = {}
    for launch in launches(tree.files, paths, targets=config.targets).launches:
        mine = readings.setdefault((launch.config.path, launch.config.line), [])
        mine += [launch.estimate] if launch.estimate is not None else []
    return {place: verdict_of(estimates) for place, estimates in readings.items()}


def _of_commit(
    tree: WorkTree, words: list[str], config: Config, found: Submissions | None, args: argparse.Namespace
) -> tuple[Check, tuple[Difference, ...]]:
    """What the commit's check says, and which files of the launch are not the commit's: those that the launch reads
    here and those that it would read there (a deleted one counts)."""
    from bot.gate_client import check_of_commit, repository_of

    commit = tree.at(args.sha)
    address = tree.repository.address() if tree.repository is not None else ""
    check = check_of_commit(repository_of(args.repository, address), args.sha, os.environ)
    there, _ = _submissions(tree, commit, words, config)
    paths = {path for each in (found, there) if each is not None for path in each.files}
    return check, tuple(tree.differences(commit, paths))


def _say(decision: Decision, words: list[str], policy: str, args: argparse.Namespace) -> None:
    """On stderr, because stdout is the command's (``sbatch --parsable``); the document of a dry run on stdout."""
    from bot.render.gate_text import render, to_json

    sha = args.sha or ""
    if args.format == "json":
        text = json.dumps(to_json(decision, words, policy, sha), indent=2, ensure_ascii=False) + "\n"
    else:
        text = render(decision, words, policy, sha)
    stream = sys.stdout if args.dry_run else sys.stderr
    stream.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))
    stream.flush()


def _replace(words: list[str]) -> NoReturn:
    program = shutil.which(words[0])
    if program is None:
        raise InputError(f"{words[0]}: no such command")
    os.execv(program, words)  # noqa: S606  the argument vector as it was given: no shell sees it
