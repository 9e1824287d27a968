"""Every data file of the packages is in the wheel: setuptools takes only what the patterns in pyproject.toml name."""

from __future__ import annotations

import fnmatch
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PACKAGES = ("analyzer", "bot", "estimator")
NOT_SHIPPED = frozenset({"README.md"})  # notes for whoever edits the folder; nothing reads them


def setuptools_table() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as handle:
        table: dict[str, Any] = tomllib.load(handle)["tool"]["setuptools"]
    return table


def data_files() -> list[Path]:
    """The committed files of the packages that are not Python."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *PACKAGES], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    return [Path(name) for name in listed if name and not name.endswith(".py")]


def test_every_data_file_matches_a_pattern() -> None:
    patterns = setuptools_table()["package-data"]["*"]
    left_out = [str(path) for path in data_files() if not any(fnmatch.fnmatch(path.name, one) for one in patterns)]
    assert left_out == []


def test_every_folder_with_data_is_a_package_that_is_found() -> None:
    """A pattern without a slash reaches the package's own folder only; a folder without `__init__.py` is a namespace
    package, which `packages.find` includes as long as nobody turns that off."""
    find = setuptools_table()["packages"]["find"]
    assert find.get("namespaces", True)
    folders = {path.parent for path in data_files() if path.name not in NOT_SHIPPED}
    found = [str(folder) for folder in folders if not any(str(folder).startswith(one[:-1]) for one in find["include"])]
    assert found == []
    assert all(part.isidentifier() for folder in folders for part in folder.parts)


@pytest.mark.parametrize(
    "needed",
    [
        "estimator/data/models.csv",
        "estimator/data/gpus.csv",
        "estimator/data/calibration.csv",
        "estimator/resolve/frameworks.toml",
        "analyzer/knowledge/nn.toml",
    ],
)
def test_the_tables_are_among_them(needed: str) -> None:
    assert Path(needed) in data_files()
