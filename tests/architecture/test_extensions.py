"""Rules and tables of other packages: the example of docs/extending, installed and run, and what is wrong with some."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TRAIN = """import torch
from acme.losses import focal_loss
from torch import nn, optim


def train(model: nn.Module, loader, opt: optim.Optimizer):
    model.train()
    for x, y in loader:
        loss = focal_loss(torch.softmax(model(x), dim=1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
BROKEN = '''"""Rules that are none."""

from analyzer.extend import Rule, Severity


class Clash(Rule):
    """Takes a name."""

    code, name, severity, since = "ACME002", "graph-retention", Severity.NOTE, "1.0"

    def check(self, program, report):
        """Nothing."""


class OurCode(Clash):
    code, name = "PF999", "acme-own"


class Raises(Clash):
    code, name = "ACME003", "acme-raises"

    def check(self, program, report):
        raise RuntimeError("no luck")


NOT_A_RULE = 3
'''
POINTS = """[preflight.rules]
gone = acme_gone:Rule
clash = acme_broken:Clash
ours = acme_broken:OurCode
raises = acme_broken:Raises
number = acme_broken:NOT_A_RULE

[preflight.knowledge]
tables = acme_tables
"""


class Installed:
    """A virtual environment with Preflight as it is here, and what is added to it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        (self.site,) = (folder / "lib").glob("python3.*/site-packages")
        known = [str(ROOT), *(path for path in sys.path if Path(path).is_dir())]
        (self.site / "preflight.pth").write_text("\n".join(known))

    def pip_install(self, source: Path) -> None:
        """As a user does, without a network."""
        options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", *options, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def add(self, points: str, **files: str) -> None:
        """A distribution of single modules, as an installer leaves it."""
        info = self.site / "acme_broken-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-broken\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
        for name, text in files.items():
            (self.site / f"{name}.py").write_text(text)
        tables = self.site / "acme_tables"
        tables.mkdir()
        (tables / "__init__.py").write_text("")
        (tables / "t.toml").write_text('[[api]]\nname = "acme.f"\nretunrs = "tensor"\n')

    def preflight(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), "-I", "-m", "preflight", *words]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=200)

    def check(self, cwd: Path) -> tuple[dict[str, Any], str]:
        done = self.preflight("check", ".", "--format", "json", "--jobs", "1", cwd=cwd)
        assert done.stdout, done.stderr
        return json.loads(done.stdout), done.stderr


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path / "venv")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "setup.cfg").write_text("")
    (folder / "train.py").write_text(TRAIN)
    return folder


def test_the_example_package_adds_a_rule_and_a_table(installed: Installed, project: Path, tmp_path: Path) -> None:
    source = shutil.copytree(ROOT / "docs" / "extending", tmp_path / "extending")
    installed.pip_install(source)
    report, errors = installed.check(project)
    assert errors == ""
    found = {(item["rule"], item["name"], item["line"], item["confidence"]) for item in report["findings"]}
    assert found == {("PF204", "double-softmax", 9, "certain"), ("ACME001", "unclipped-step", 12, "certain")}
    assert "ACME001 unclipped-step\n======" in installed.preflight("explain", "unclipped-step", cwd=project).stdout
    assert installed.preflight("check", ".", "--select", "ACME", "--fail-on", "warning", cwd=project).returncode == 1
    (project / "train.py").write_text(TRAIN.replace("opt.step()", "opt.step()  # preflight: ignore[ACME001] short"))
    assert installed.check(project)[0]["suppressed"][0]["reason"] == "short"


def test_broken_extensions_are_said_once_each_and_cost_nothing_else(installed: Installed, project: Path) -> None:
    installed.add(POINTS, acme_broken=BROKEN)
    (project / "again.py").write_text(TRAIN.replace("torch.softmax(model(x), dim=1)", "model(x)"))
    (project / "pf.py").write_text(TRAIN.replace("= focal_loss", "= nn.functional.cross_entropy"))
    report, errors = installed.check(project)
    lines = errors.splitlines()
    for text in (
        "(acme_gone:Rule) is left out: ModuleNotFoundError: No module named 'acme_gone'",
        "(acme_broken:Clash) is left out: ValueError: Clash and GraphRetention are both called graph-retention",
        "(acme_broken:OurCode) is left out: ValueError: 'PF999'",
        "(acme_broken:NOT_A_RULE) is left out: TypeError: not a class derived from Rule",
        "(acme_tables) is left out: InputError: t.toml: row 'acme.f': unknown ['retunrs']",
    ):
        assert [line for line in lines if text in line] != [], errors
    assert len(lines) == 5
    assert [item["rule"] for item in report["findings"]] == ["PF204"]
    (note,) = report["skipped"]
    assert note["reason"] == "internal error in ACME003: RuntimeError: no luck (and so in 2 other files)"


def test_the_tree_under_analysis_adds_nothing(installed: Installed, project: Path) -> None:
    info = project / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[preflight.rules]\nevil = evil:Rule\n[preflight.knowledge]\ne = evil\n")
    (project / "evil.py").write_text("open('ran', 'w')\n")
    _, errors = installed.check(project)
    assert (errors, (project / "ran").exists()) == ("", False)
