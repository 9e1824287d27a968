"""Write the documents that are made from the code, below docs/ of a checkout.

With --check nothing is written, and those that are stale are named.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bot.errors import InputError

HIDDEN = True


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a document is stale")


def run(args: argparse.Namespace) -> int:
    """Bring ``docs/`` of the checkout that the working directory lies in up to date."""
    from bot.documents import documents

    folder = _checkout() / "docs"
    wanted = dict(documents())
    stale = [name for name, text in wanted.items() if _text(folder / name) != text]
    gone = sorted(f"rules/{path.name}" for path in folder.glob("rules/*.md") if f"rules/{path.name}" not in wanted)
    for name in [*stale, *gone]:
        if args.check:
            print(f"docs/{name} is stale: run `make docs`")
        elif name in wanted:
            _write(folder / name, wanted[name])
        else:
            (folder / name).unlink()
    return int(args.check and bool(stale or gone))


def _checkout() -> Path:
    here = Path.cwd()
    for folder in (here, *here.parents):
        mark = folder / "pyproject.toml"
        if mark.is_file() and 'name = "preflight-bot"' in mark.read_text(encoding="utf-8", errors="replace"):
            return folder
    raise InputError("run this in a checkout of Preflight")


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote docs/{path.parent.name}/{path.name}" if path.parent.name != "docs" else f"wrote docs/{path.name}")
