"""A program that stops at an import of its own package."""

from __future__ import annotations

import pytest

from analyzer.api import analyze
from analyzer.findings import Finding, Severity
from tests.analyzer.test_project import Texts

_TRAINS = b"""
import torch
from torch import nn
from torch.utils.data import DataLoader


def main(loader: DataLoader):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x).softmax(-1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def _found(imports: str, more: dict[str, bytes] | None = None, *, with_package: bool = True) -> Finding:
    package = {"pkg/__init__.py": b"", "pkg/models/__init__.py": b""} if with_package else {}
    files = {"pkg/train.py": imports.encode() + _TRAINS, **package, **(more or {})}
    return next(item for item in analyze(Texts(files), ["pkg/train.py"]).findings if item.rule == "PF204")


@pytest.mark.parametrize(
    "imports",
    ["from .lost import helper", "from pkg.lost import helper", "from .models.lost import a", "from .models import a"],
)
def test_findings_of_a_program_that_cannot_start_are_notes_that_say_so(imports: str) -> None:
    """The package of the import is in the tree, the module is not."""
    finding = _found(imports)
    assert finding.severity is Severity.NOTE
    assert "leads nowhere" in finding.evidence[-1].note


@pytest.mark.parametrize(
    ("imports", "more"),
    [
        ("from .here import helper", {"pkg/here.py": b"helper = 1"}),
        ("from . import here", {"pkg/here.py": b""}),
        ("from .models import Net", {"pkg/models/__init__.py": b"from .net import *", "pkg/models/net.py": b""}),
        ("from .models import Net", {"pkg/models/__init__.py": b"Net = None"}),
        ("from .models import Net", {"pkg/models/__init__.py": b"def __getattr__(name): ..."}),
        ("from ._C import nms", {}),
        ("from .model_pb2 import Message", {}),
        ("from .lost import helper", {"setup.py": b"setup(ext_modules=[])"}),
        ("from elsewhere.lost import helper", {}),
        ("from torch.lost import helper", {}),
        ("try:\n    from .lost import helper\nexcept ImportError:\n    helper = None", {}),
        ("import typing\nif typing.TYPE_CHECKING:\n    from .lost import helper", {}),
    ],
)
def test_what_may_be_there_all_the_same_says_nothing(imports: str, more: dict[str, bytes]) -> None:
    """Built and generated modules, guarded imports, libraries and names of files that are there."""
    assert _found(imports, more).severity is Severity.ERROR


def test_the_package_of_a_file_runs_first() -> None:
    """A file that imports by dots runs as a part of its package alone."""
    more = {"pkg/__init__.py": b"from . import here, lost", "pkg/here.py": b""}
    assert _found("from . import here", more).severity is Severity.NOTE
    assert _found("import os", more).severity is Severity.ERROR


def test_extensions_are_built_below_who_builds_them() -> None:
    """One that is built in another folder is no module of this one."""
    assert _found("from .lost import a", {"csrc/setup.py": b"setup(ext_modules=[])"}).severity is Severity.NOTE


def test_a_file_without_its_package_says_nothing() -> None:
    """Alone, or in a folder without an ``__init__``, what it imports is only not here."""
    assert _found("from .lost import helper", with_package=False).severity is Severity.ERROR
    assert _found("from .lost import helper", {"other.py": b""}, with_package=False).severity is Severity.ERROR
