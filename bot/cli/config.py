"""Check a configuration, or print its schema: `preflight config check [FILE]`, `preflight config schema`.

Without FILE the first of .github/preflight.yml, .github/preflight.yaml and [tool.preflight] in pyproject.toml is read.
Nothing is asked of GitHub: organisation defaults are not looked at unless --defaults names a copy of them.

Exit code 2: there is a problem, or no configuration.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import InputError

if TYPE_CHECKING:
    from bot.core.config import Config
    from bot.core.config_text import Problem


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("action", choices=("check", "schema"))
    parser.add_argument("file", nargs="?", metavar="FILE", help="the configuration (default: looked for here)")
    parser.add_argument("--defaults", metavar="FILE", help="the owner's defaults, over which FILE is read")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Print each problem with its line, or the schema."""
    if args.action == "schema":
        from bot.core.config_schema import config_schema

        if args.file:
            raise InputError("`config schema` takes no FILE")
        print(json.dumps(config_schema(), indent=2))
        return 0
    path = _path(args.file)
    defaults, problems = _read(Path(args.defaults), None) if args.defaults else (None, ())
    config, own = _read(path, defaults)
    found = (*problems, *own, *_unknown_gpus(path, config))
    print(_json(path, config, found) if args.format == "json" else _lines(path, found))
    return 2 if found else 0


def _path(named: str | None) -> Path:
    from bot.core.config import CONFIG_PATHS

    names = (named,) if named else CONFIG_PATHS
    found = next((Path(name) for name in names if Path(name).is_file()), None)
    if found is None:
        raise InputError(f"{named}: no such file" if named else f"none of {', '.join(CONFIG_PATHS)} is here")
    return found


def _read(path: Path, defaults: Config | None) -> tuple[Config, tuple[Problem, ...]]:
    from bot.core.config import load_bytes

    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return load_bytes(raw, path.as_posix(), defaults)


def _unknown_gpus(path: Path, config: Config) -> Iterator[Problem]:
    """Targets that no table of ours knows: launch configs there would be `unknown`, which never blocks."""
    from bot.core.config import UNNAMED_TARGET
    from bot.core.config_text import Problem, Section, parse
    from estimator import hardware

    root = parse(path.read_text(encoding="utf-8", errors="replace"), path.as_posix(), [])
    root = root or Section(path.as_posix(), {}, {}, [])
    lines = {f"targets.{key}": line for key, line in root.section("targets").lines.items()}
    named = {f"targets.{key}": name for key, name in config.targets.items() if key != UNNAMED_TARGET}
    named |= {f"default_targets[{index}]": name for index, name in enumerate(config.default_targets)}
    for key, name in named.items():
        for each in filter(None, (part.strip() for part in name.split(","))):
            try:
                hardware.find(each)
            except InputError as error:
                yield Problem(
                    path.as_posix(), lines.get(key, root.lines.get(key.partition("[")[0], 0)), f"{key}: {error}"
                )


def _lines(path: Path, problems: tuple[Problem, ...]) -> str:
    return "\n".join(map(str, problems)) if problems else f"{path}: good"


def _json(path: Path, config: Config, problems: tuple[Problem, ...]) -> str:
    from dataclasses import asdict

    from bot.core.plan_json import config_to_json

    document = {
        "version": 1,
        "path": path.as_posix(),
        "valid": not problems,
        "problems": [asdict(problem) for problem in problems],
        "config": config_to_json(config),
    }
    return json.dumps(document, indent=2)
