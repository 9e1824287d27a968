"""Measure Preflight and write ``docs/benchmarks.md``: every ``part_*.py`` beside this file adds a section."""

from __future__ import annotations

import datetime
import importlib.util
import platform
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
_LIBRARIES = ("libcst", "PyGithub", "Flask", "gunicorn", "rq", "redis")


def machine() -> str:
    """What the numbers below depend on."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = f"{len(names)} x {names[0]}" if names else model
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in _LIBRARIES)
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return f"Measured {today} on {model}, {platform.system()}, Python {platform.python_version()}; {versions}."


def section(path: Path) -> str:
    """The Markdown of one part."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.run()).strip()


def merged(known: list[str], new: list[str]) -> list[str]:
    """The sections of the page with those that were measured now in place of their older versions."""
    titles = {text.partition("\n")[0]: text for text in new}
    kept = [titles.pop(text.partition("\n")[0], text) for text in known]
    return [*kept, *titles.values()]


def main() -> None:
    """Run the parts (or those named on the command line) and write the page."""
    sys.path.insert(0, str(HERE.parent))
    wanted = sys.argv[1:]
    parts = [path for path in sorted(HERE.glob("part_*.py")) if not wanted or path.stem.removeprefix("part_") in wanted]
    sections = [section(path) for path in parts]
    head = machine()
    if wanted and PAGE.exists():  # the other sections were measured when the page says
        top, *known = PAGE.read_text(encoding="utf-8").strip().split("\n\n## ")
        sections = merged([f"## {old}" for old in known], [f"{new}\n\n{head}" for new in sections])
        head = top.rpartition("\n\n")[2]
    text = "\n\n".join(["# Benchmarks", "Written by `make bench`; do not edit.", head, *sections])
    PAGE.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
