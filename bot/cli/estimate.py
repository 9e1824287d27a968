"""Estimate the peak GPU memory of a run, and say whether it fits.

FILE is a training script or a launch config, COMMAND a launch command as one would type it; options override what they
say. Without either the options are the run.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.errors import InputError

if TYPE_CHECKING:
    from analyzer.api import Files
    from estimator.api import Estimate, RunConfig


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command; those of the run come from the vocabulary."""
    from estimator.options import add_options

    parser.add_argument("words", nargs="*", metavar="FILE | -- COMMAND", help="script, launch config or launch command")
    parser.add_argument("--run-config", metavar="FILE.json", help="the same inputs as one JSON document")
    parser.add_argument(
        "--exact", action="store_true",
        help="FILE is package.module:factory: import it, run two steps without data (needs torch)",
    )  # fmt: skip
    parser.add_argument("--format", choices=("terminal", "json", "markdown"), default="terminal")
    parser.add_argument("--fail-on", choices=("exceeds", "borderline"), help="exit 1 for this verdict or a worse one")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the estimate (of the least favourable reading of FILE); 1 only where ``--fail-on`` asks for it."""
    from estimator.api import RunConfig, estimate
    from estimator.options import run_from

    if args.exact:
        return _finish(_exact(args), args)
    runs = [run_from(vars(args), base) for base in _bases(args, run_from(vars(args)))]
    if all(run == RunConfig() for run in runs):
        raise InputError("nothing to estimate: give --model or --params, a script or launch file, or -- COMMAND")
    return _finish(_shown([estimate(run) for run in runs]), args)


def _shown(readings: list[Estimate]) -> Estimate:
    """The least favourable reading, which it says; and where the check and the gate say less of all of them, that."""
    from estimator.impact import verdict_of

    order = {"fits": 0, "unknown": 1, "borderline": 2, "exceeds": 3}
    worst = max(readings, key=lambda item: (order[item.verdict], item.peak.high if item.peak else 0))
    if len({(item.verdict, item.peak) for item in readings}) == 1:
        return worst
    reason = f"the file can mean {len(readings)} runs, of which this is the least favourable"
    if (whole := verdict_of(readings)) != worst.verdict:
        reason += f": the check and the gate say {whole} of all"
    return replace(worst, reasons=(reason, *worst.reasons))


def _exact(args: argparse.Namespace) -> Estimate:
    from estimator.api import RunConfig
    from estimator.exact.answer import estimate_exactly
    from estimator.options import run_from

    if len(args.words) != 1 or args.run_config:
        raise InputError("--exact takes one package.module:factory and options")
    return estimate_exactly(args.words[0], run_from(vars(args), RunConfig()))


def _finish(result: Estimate, args: argparse.Namespace) -> int:
    print(_rendered(result, args.format))
    failing = {None: (), "exceeds": ("exceeds",), "borderline": ("exceeds", "borderline")}[args.fail_on]
    return 1 if result.verdict in failing else 0


def _rendered(result: Estimate, style: str) -> str:
    if style == "json":
        return json.dumps(result.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
    if style == "markdown":
        from bot.render.estimate_markdown import render

        return render(result)
    from bot.cli._width import columns
    from bot.render.estimate_text import WIDTH
    from bot.render.estimate_text import render as render_text
    from estimator.options import options_for

    width = columns(WIDTH)
    said = render_text(result, width)
    if not (named := ", ".join(options_for(result.unknowns))):
        return said
    hint = textwrap.fill(f"options that would say it: {named}", width, subsequent_indent="  ", break_on_hyphens=False)
    return f"{said}\n{hint}"


def _bases(args: argparse.Namespace, said: RunConfig) -> list[RunConfig]:
    """What FILE or the document says: one run config per reading. `said` are the options."""
    from estimator.api import RunConfig

    if args.words and args.run_config:
        raise InputError("give one of FILE, --run-config and -- COMMAND")
    if args.run_config:
        return [_document(args.run_config)]
    if args.words:
        _refuse_options(args.words)
        return _from_file(args.words[0], said) if len(args.words) == 1 else _of_command(args.words, said)
    return [RunConfig()]


def _refuse_options(words: list[str]) -> None:
    """GPUs and models are options here; a comment of a pull request may begin with them. A command begins with a
    program: scripts and launch files alone are several files."""
    from estimator.options import meant

    if len(words) > 1 and all(Path(word).is_file() for word in words) and not os.access(words[0], os.X_OK):
        raise InputError(f"{words[0]} and {words[1]}: one file at a time; a command begins with its program")
    if any(word.startswith("-") for word in words):
        return  # a launch command
    options = [meant(word) for word in words if not Path(word).exists()]
    if options and all(options) and len(options) == len(words):
        raise InputError(f"{' '.join(words)}: no such file; write {' '.join(options)}")


def _document(path: str) -> RunConfig:
    from estimator.api import RunConfig
    from estimator.sourced import Origin

    document = _json(path)
    if not isinstance(document, dict):
        raise InputError(f"{path}: a run config is one JSON object")
    launches = document.get("launches")
    if isinstance(launches, list):
        if len(launches) != 1 or not isinstance(launches[0], dict):
            raise InputError(f"{path}: holds {len(launches)} launches; give one entry of them")
        document = launches[0]
    return RunConfig.from_document(document, Origin("", path))


def _json(path: str) -> Any:
    try:
        return json.loads(_read(path), parse_constant=_no_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON document: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is given twice")
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number a run can have")


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        from bot.sources.nearby import there_is

        raise InputError(f"{path}: no such file{there_is(Path(path))}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _from_file(path: str, said: RunConfig) -> list[RunConfig]:
    """The readings of a script or launch file; imports and config files are followed inside the working directory."""
    from bot.sources.directory import Directory

    _read(path)
    place, root = Path(path).resolve(), Path().resolve()
    root = root if place.is_relative_to(root) else place.parent
    files, name = Directory(root), place.relative_to(root).as_posix()
    return _of_script(files, name, said) if place.suffix == ".py" else _of_launch(files, name, said)


def _of_script(files: Files, name: str, said: RunConfig) -> list[RunConfig]:
    from estimator.resolve.precedence import unreadable
    from estimator.resolve.script import run_configs

    found = list(run_configs(files, name, (), said))
    if not found and (reason := unreadable(files, name)):
        raise InputError(reason)
    if not found:
        raise InputError(f"{name}: no training run is recognised in it; give --model and the other options")
    return found


def _of_launch(files: Files, name: str, said: RunConfig) -> list[RunConfig]:
    from bot.cli._project import project_targets
    from estimator.api import launches

    found = launches(files, [name], targets=project_targets(files, "estimate"), said=said)
    if not found.launches:
        reasons = "; ".join(item.reason for item in found.skipped) or "no launch is recognised in it"
        raise InputError(f"{name}: {reasons}")
    return [launch.run for launch in found.launches]


def _of_command(words: list[str], said: RunConfig) -> list[RunConfig]:
    """A launch command as one would type it."""
    from bot.cli._project import project_targets
    from bot.sources.directory import Directory
    from estimator.api import launches

    files = Directory(Path())
    found = launches(files, command=shlex.join(words), targets=project_targets(files, "estimate"), said=said)
    if not found.launches:
        reasons = "; ".join(item.reason for item in found.skipped) or "it starts no training run"
        raise InputError(f"{shlex.join(words)[:80]}: {reasons}")
    return [launch.run for launch in found.launches]
