"""List the launch configs of a tree: what each runs, on what, with the origin of every value.

PATH is a launch file or a directory (default: the working directory); --command reads a command as one would type it.
What partitions, pools and labels are is read from the configuration of the working directory; --target says otherwise.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.cli._width import columns
from bot.errors import InputError

if TYPE_CHECKING:
    from analyzer.api import Files
    from estimator.launches import Found, Launch


_WIDTH = 200


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="launch files or directories")
    parser.add_argument("--command", metavar="COMMAND", help='such as "sbatch --nodes 4 train.slurm"')
    parser.add_argument(
        "--target", action="append", default=[], metavar="LABEL=GPU",
        help="what a partition, constraint or GPU type of this site is, such as gpu-large=A100-80GB",
    )  # fmt: skip
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Print the launches. Raises `InputError` for a path that is not there or a command that is none."""
    from bot.cli._project import project_targets
    from bot.sources.directory import Directory
    from estimator.api import launches

    files = Directory(Path())
    paths = None if not args.paths else list(_expanded(files, args.paths))
    targets = {**project_targets(files, "launches"), **_targets(args.target)}
    named = frozenset(_name(path) for path in args.paths if not Path(path).is_dir())
    found = launches(files, paths, args.command, targets, named)
    print(json.dumps(found.to_json(), indent=2, ensure_ascii=False) if args.format == "json" else _text(found))
    return 0


def _targets(pairs: list[str]) -> dict[str, str]:
    targets: dict[str, str] = {}
    for pair in pairs:
        label, has_value, gpu = pair.partition("=")
        if not has_value or not label or not gpu:
            raise InputError(f"--target {pair!r}: write LABEL=GPU")
        targets[label] = gpu
    return targets


def _expanded(files: Files, paths: list[str]) -> Iterator[str]:
    """The files that the paths mean, as the tree names them."""
    from bot.sources.nearby import there_is
    from estimator.launches import candidates

    root = Path().resolve()
    for path in paths:
        place = Path(path).resolve()
        if not place.exists():
            raise InputError(f"{path}: no such file or directory{there_is(place)}")
        if not place.is_relative_to(root):
            raise InputError(f"{path}: is outside the working directory, and so are the files it names")
        name = _name(path)
        if place.is_dir():
            yield from candidates(files, folder="" if name == "." else f"{name}/")
        else:
            yield name


def _name(path: str) -> str:
    return Path(path).resolve().relative_to(Path().resolve()).as_posix()


def _text(found: Found) -> str:
    blocks = [_block(launch) for launch in found.launches] or ["no launch configs found"]
    blocks += [f"not read: {item.path}: {item.reason}" for item in found.skipped]
    return "\n".join(map(_line, "\n\n".join(blocks).split("\n")))


def _line(text: str) -> str:
    """Words come from files: one line of the terminal, without escape sequences or invisible characters."""
    from bot.render.markdown import visible

    shown = visible(text).replace("\t", " ")
    return shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 1]}…"


def _wrapped(row: str) -> list[str]:
    """On a terminal what is too long goes on below, under the value."""
    width = columns(_WIDTH)
    if len(row) <= width:
        return [row]
    return textwrap.wrap(row, width, subsequent_indent=" " * 21, break_on_hyphens=False, replace_whitespace=False)


def _block(launch: Launch) -> str:
    from bot.render.estimate_text import said

    document: dict[str, Any] = launch.to_json()
    lines = [f"{document['path']}:{document['line']}  [{document['format']}]  {' '.join(document['command'])}"]
    values = {**document["target"], **document["run_config"]}
    origins = document["origins"]
    for name, value in values.items():
        if value is not None and name != "num_gpus":
            row = f"  {name:<18} {said(name, value, origins.get(name, '')):<28} {origins.get(name, '')}".rstrip()
            lines += _wrapped(row)
    reasons: dict[str, list[str]] = {}
    for item in document["unknowns"]:
        reasons.setdefault(item["reason"], []).append(item["field"])
    for reason, fields in reasons.items():
        lines += _wrapped(f"  unknown: {', '.join(fields)}: {reason}")
    estimate = document["estimate"]
    if estimate and estimate["peak_gib"]:
        peak = estimate["peak_gib"]
        lines.append(f"  peak               {peak['low']:.1f} to {peak['high']:.1f} GiB: {estimate['verdict']}")
    return "\n".join(lines)
