"""`preflight check` as a person runs it: real processes, real files."""

from __future__ import annotations

import json
import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.analyzer.shapes import SHAPES

BUGGY = """import torch
from torch import nn, optim


def train(model: nn.Module, loader, opt: optim.Optimizer):
    criterion = nn.CrossEntropyLoss()
    total = 0.0
    model.train()
    for x, y in loader:
        loss = criterion(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss
    return total
"""

SAFE = BUGGY.replace("    return total\n", "    print(total.item())\n")
"""Nobody uses the gradient of what is stored, so the fix is safe."""


def preflight(*words: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "preflight", *words]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=120)


def check(cwd: Path, *words: str) -> tuple[int, dict[str, Any]]:
    done = preflight("check", "--format", "json", *words, cwd=cwd)
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def test_a_finding_has_its_place_evidence_and_fix(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BUGGY)
    code, report = check(tmp_path, ".", "--fail-on", "warning")
    (finding,) = report["findings"]
    assert (code, report["files"], finding["rule"], finding["path"], finding["line"]) == (1, 1, "PF101", "train.py", 14)
    assert finding["evidence"]
    assert finding["fix"]["edits"][0]["text"] == ".detach()"
    assert check(tmp_path, ".", "--fail-on", "warning", "--ignore", "TG001")[0] == 0
    assert check(tmp_path, ".", "--select", "graph-retention")[1]["findings"] == report["findings"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("bad.py", b"import torch\n\ndef f(:\n", "syntax error at 3:"),
        ("huge.py", b"import torch\n" + b"x = 1\n" * 900_000, "bytes long"),
        ("latin.py", b"import torch\nx = '\xe9'\n", "not UTF-8 at line 2"),
        ("mixed.py", b"import torch\nx = 'a' b'b'\n", "Cannot concatenate string and bytes"),
        ("utf7.py", b"# coding: utf-7\nimport torch\n", "not supported"),
    ],
)
def test_a_file_that_cannot_be_analysed_is_named_and_the_others_are_reported(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / "train.py").write_text(BUGGY)
    (tmp_path / name).write_bytes(content)
    code, report = check(tmp_path, ".")
    assert [item["path"] for item in report["skipped"]] == [name]
    assert reason in report["skipped"][0]["reason"]
    assert (code, [item["path"] for item in report["findings"]]) == (0, ["train.py"])


def test_nesting_kills_nothing(tmp_path: Path) -> None:
    for number, (_, shape) in enumerate(sorted(SHAPES.items())):
        for depth in (3_000, 10_000):
            (tmp_path / f"deep_{number}_{depth}.py").write_text("import torch\n" + shape(depth))
    (tmp_path / "train.py").write_text(BUGGY)
    code, report = check(tmp_path, ".")
    assert (code, len(report["skipped"]), len(report["findings"])) == (0, 2 * len(SHAPES), 1)
    assert all("at most" in item["reason"] for item in report["skipped"])


def test_an_empty_file_and_a_folder_without_python(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_bytes(b"")
    assert check(tmp_path, "empty.py") == (
        0,
        {"version": 1, "files": 1, "skipped": [], "findings": [], "suppressed": []},
    )
    (tmp_path / "docs").mkdir()
    done = preflight("check", "docs", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "no Python files or notebooks there: nothing to check\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.py",), "missing.py: no such file or directory"),
        ((".", "--select", "PF1O1"), "no rule 'PF1O1'"),
        ((".", "--unsafe"), "--unsafe goes with"),
    ],
)
def test_wrong_input_exits_2(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = preflight("check", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_what_is_left_out_of_a_folder_is_read_when_named(tmp_path: Path) -> None:
    for folder in (".git", "node_modules", ".venv", "env2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(BUGGY)
    (tmp_path / "env2" / "pyvenv.cfg").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert check(tmp_path, ".")[1]["files"] == 0
    assert len(check(tmp_path, "node_modules/train.py")[1]["findings"]) == 1


def test_fix_keeps_mode_and_line_ends_and_is_done_after_one_run(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"\xef\xbb\xbf" + BUGGY.replace("\n", "\r\n").encode())
    path.chmod(0o751)
    assert preflight("check", ".", "--diff", "--unsafe", cwd=tmp_path).stdout.count("\n+") == 2
    before = path.read_bytes()
    code, report = check(tmp_path, ".", "--fix", "--unsafe", "--fail-on", "note")
    after = path.read_bytes()
    assert (code, report["findings"]) == (0, [])
    assert after == before.replace(b"total += loss", b"total += loss.detach()")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o751
    check(tmp_path, ".", "--fix", "--unsafe")
    assert path.read_bytes() == after
    assert sorted(item.name for item in tmp_path.iterdir()) == ["train.py"]


def test_a_file_that_is_named_by_a_link_as_well_is_fixed_once(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(BUGGY)
    (tmp_path / "link.py").symlink_to("train.py")
    done = preflight("check", "train.py", "link.py", "--fix", "--unsafe", cwd=tmp_path)
    assert "not fixed" not in done.stderr
    assert done.returncode == 0
    assert path.read_text() == BUGGY.replace("total += loss", "total += loss.detach()")


def test_a_diff_writes_nothing_and_can_be_applied(tmp_path: Path) -> None:
    path = tmp_path / "src" / "train.py"
    path.parent.mkdir()
    path.write_bytes(BUGGY.rstrip("\n").replace("return total", "return total  # \f \N{SNOWMAN}").encode())
    before = path.read_bytes()
    done = preflight("check", "src", "--diff", "--unsafe", cwd=tmp_path)
    assert path.read_bytes() == before
    git = ["git", "-c", "core.autocrlf=false", "apply", "-p1"]
    subprocess.run(git, input=done.stdout, text=True, cwd=tmp_path, check=True)
    applied = path.read_bytes()
    assert applied == before.replace(b"total += loss", b"total += loss.detach()")
    path.write_bytes(before)
    preflight("check", "src", "--fix", "--unsafe", cwd=tmp_path)
    assert path.read_bytes() == applied


def test_only_safe_fixes_are_applied_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SAFE.replace("        opt.zero_grad()\n", ""))
    assert {item["rule"] for item in check(tmp_path, ".", "--fix")[1]["findings"]} == {"PF201"}
    assert "zero_grad" not in path.read_text()
    assert "total += loss.detach()" in path.read_text()
    assert check(tmp_path, ".", "--fix", "--unsafe")[1]["findings"] == []
    once = path.read_bytes()
    assert b"zero_grad" in once
    check(tmp_path, ".", "--fix", "--unsafe")
    assert path.read_bytes() == once


def test_a_fix_through_a_link_changes_the_file_behind_it(tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "train.py"
    real.write_text(SAFE)
    link.symlink_to(real)
    assert check(tmp_path, "train.py", "--fix")[1]["findings"] == []
    assert link.is_symlink()
    assert "loss.detach()" in real.read_text()


def test_declared_encodings_are_read_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + SAFE.encode())
    _, report = check(tmp_path, ".", "--fix")
    assert (report["skipped"], report["findings"]) == ([], [])
    assert path.read_bytes() == b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + SAFE.encode().replace(
        b"+= loss", b"+= loss.detach()"
    )


def test_a_defect_that_only_the_caller_shows_is_found_whoever_analyses_it(tmp_path: Path) -> None:
    (tmp_path / "keeping.py").write_text("kept = []\n\n\ndef keep(item):\n    kept.append(item)\n")
    head = "import torch\nfrom torch import nn\nfrom keeping import keep\n\n\n"
    body = "def collect(model: nn.Module, loader: torch.utils.data.DataLoader):\n    for x in loader:\n"
    (tmp_path / "collect.py").write_text(f"{head}{body}        keep(model(x))\n")
    found = [check(tmp_path, ".", "--jobs", jobs)[1]["findings"] for jobs in ("1", "2")]
    assert found[0] == found[1]
    assert {(item["rule"], item["path"]) for item in found[0]} == {("PF101", "keeping.py")}
    assert {step["path"] for step in found[0][0]["evidence"]} == {"keeping.py", "collect.py"}


def test_paths_are_relative_to_where_one_stands(tmp_path: Path) -> None:
    for folder in ("project/src", "project/other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "project" / "setup.cfg").write_text("")
    (tmp_path / "project" / "src" / "train.py").write_text(BUGGY)
    for cwd, word, shown in (
        ("project", "src", "src/train.py"),
        ("project/src", ".", "train.py"),
        ("project/other", "../src/train.py", "../src/train.py"),
        ("project/other", str(tmp_path / "project"), "../src/train.py"),
    ):
        (finding,) = check(tmp_path / cwd, word)[1]["findings"]
        assert {finding["path"], finding["fix"]["edits"][0]["path"]} == {shown}
        assert {step["path"] for step in finding["evidence"]} == {shown}


def test_the_configuration_of_the_project_holds_where_no_option_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BUGGY)
    (tmp_path / "pyproject.toml").write_text('[tool.preflight.rules]\nignore = ["PF101"]\n')
    assert check(tmp_path, ".")[1]["findings"] == []
    (tmp_path / "pyproject.toml").write_text('[tool.preflight.rules]\nselect = ["graph-retentoin", "TG001"]\n')
    done = preflight("check", ".", cwd=tmp_path)
    assert "rules.select: no rule 'graph-retentoin'" in done.stderr
    assert "PF101" in done.stdout
    (tmp_path / "pyproject.toml").write_text('[tool.preflight.rules.severity]\nPF101 = "error"\n')
    code, report = check(tmp_path, ".")
    assert (code, [item["severity"] for item in report["findings"]]) == (1, ["error"])


def test_a_missing_path_takes_nothing_from_the_others(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BUGGY)
    code, report = check(tmp_path, "missing.py", "train.py")
    assert (code, [item["path"] for item in report["findings"]]) == (2, ["train.py"])
    assert report["skipped"] == [{"path": "missing.py", "reason": "no such file or directory"}]


def test_names_of_files_need_not_be_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"tr\xffin.py")).write_text(BUGGY)
    for form in ("terminal", "json", "github", "sarif"):
        done = preflight("check", ".", "--format", form, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    (finding,) = check(tmp_path, ".")[1]["findings"]
    assert os.fsencode(finding["path"]) == b"tr\xffin.py"


def test_colour_is_for_terminals(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BUGGY)
    words = [sys.executable, "-I", "-m", "preflight", "check", "."]
    for extra, expected in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
        ours, theirs = pty.openpty()
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | extra
        with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=theirs) as process:
            os.close(theirs)
            text = b""
            while chunk := _read(ours):
                text += chunk
            os.close(ours)
        assert process.returncode == 0
        assert (b"\x1b[" in text) is expected
        assert b"PF101" in text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how Linux says that the other end is closed
        return b""


def test_a_baseline_hides_what_is_old_through_shifts_and_names_what_is_over(tmp_path: Path) -> None:
    path, mark = tmp_path / "train.py", "baseline.json"
    (tmp_path / "pyproject.toml").write_text("")
    path.write_text(BUGGY)
    assert check(tmp_path, ".", "--baseline", mark, "--write-baseline")[1]["findings"] == []
    second = BUGGY.replace("def train", "def again")
    path.write_text("# shifted\n\n" + BUGGY.replace("total += loss", "total  +=  loss") + second)
    _, report = check(tmp_path, ".", "--baseline", mark)
    assert [item["line"] for item in report["findings"]] == [31]
    assert [(item["line"], item["source"]) for item in report["suppressed"]] == [(16, "baseline")]
    (tmp_path / "sub").mkdir()
    (tmp_path / "pyproject.toml").write_text(f'[tool.preflight]\nbaseline = "{mark}"\n')
    assert len(check(tmp_path / "sub", "../train.py")[1]["findings"]) == 1
    said = preflight("check", ".", "--baseline", mark, cwd=tmp_path).stdout
    assert said.endswith("  suppressed 1 PF101 (baseline)\n"), "there is no place for a reason in a baseline"
    path.write_text(BUGGY.replace("+= loss", "+= loss.item()"))
    done = preflight("check", ".", "--baseline", mark, cwd=tmp_path)
    assert "train.py: PF101 of the baseline is gone: " in done.stderr
    preflight("check", ".", "--baseline", mark, "--write-baseline", cwd=tmp_path)
    assert json.loads((tmp_path / mark).read_text()) == {"version": 1, "findings": []}
    (tmp_path / mark).write_text("[1]")
    assert preflight("check", ".", "--baseline", mark, cwd=tmp_path).returncode == 2


def test_suppressions_are_counted_with_their_reasons_and_idle_ones_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        BUGGY.replace("total += loss", "total += loss  # preflight: ignore[TG001] short run").replace(
            "model.train()", "model.train()  # preflight: ignore[PF201]"
        )
    )
    done = preflight("check", ".", "--jobs", "1", cwd=tmp_path)
    assert "train.py:8: note: this comment ignores PF201 but hides nothing here: take it away" in done.stdout
    assert "no findings in 1 file; 1 suppressed\n  suppressed 1 PF101 (comment): short run" in done.stdout
    _, report = check(tmp_path, ".")
    assert report["unused_suppressions"] == [{"path": "train.py", "line": 8, "rule": "PF201"}]
    assert "used_suppressions" not in report
    assert "unused_suppressions" not in check(tmp_path, ".", "--ignore", "PF201")[1]
    (tmp_path / "train.py").write_text("import torch\nx = 1  # preflight: ignore[graph-retenton] why not\n")
    said = preflight("check", ".", cwd=tmp_path).stdout
    assert (
        "train.py:2: note: this comment hides nothing: no rule 'graph-retenton': did you mean graph-retention?" in said
    )


def test_a_comment_that_hides_what_only_a_caller_shows_is_not_idle(tmp_path: Path) -> None:
    keep = "kept = []\n\n\ndef keep(item):\n    kept.append(item)  # preflight: ignore[PF101] few\n"
    (tmp_path / "keeping.py").write_text(keep)
    head = "import torch\nfrom torch import nn\nfrom keeping import keep\n\n\n"
    body = "def collect(model: nn.Module, loader: torch.utils.data.DataLoader):\n    for x in loader:\n"
    (tmp_path / "collect.py").write_text(f"{head}{body}        keep(model(x))\n")
    _, report = check(tmp_path, ".", "--jobs", "1")
    assert ("unused_suppressions" in report, len(report["suppressed"])) == (False, 1)


def test_what_is_named_and_no_python_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.slurm").write_text("#!/bin/bash\npython train.py\n")
    (tmp_path / "train").write_text(f"#!/usr/bin/env python3\n{BUGGY}")
    _, report = check(tmp_path, "train.slurm", "train")
    assert [item["path"] for item in report["skipped"]] == ["train.slurm"]
    assert "neither Python nor a notebook" in report["skipped"][0]["reason"]
    assert [item["path"] for item in report["findings"]] == ["train"]
    done = preflight("check", ".", "--select", "PF501", cwd=tmp_path)
    assert (done.returncode, "preflight estimate" in done.stderr) == (2, True)


def test_one_run_writes_several_formats(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BUGGY)
    words = ("--format", "github", "--save", "sarif=a.sarif", "--save", "markdown=a.md", "--save", "json=a.json")
    done = preflight("check", ".", *words, cwd=tmp_path)
    assert done.stdout.startswith("::warning file=train.py")
    assert json.loads((tmp_path / "a.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "PF101"
    assert json.loads((tmp_path / "a.json").read_text())["findings"][0]["rule"] == "PF101"
    text = (tmp_path / "a.md").read_text()
    assert text.startswith("### Preflight: 1 warning in 1 file\n")
    assert "| `train.py:14` | PF101 warning | " in text
    assert preflight("check", ".", "--save", "xml=a", cwd=tmp_path).returncode == 2


def test_fix_says_how_many_unsafe_fixes_it_left(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SAFE.replace("        opt.zero_grad()\n", ""))
    done = preflight("check", ".", "--fix", cwd=tmp_path)
    assert done.stderr == "fixed 1 in 1 file; 1 unsafe fix left (--diff --unsafe shows them)\n"
    done = preflight("check", ".", "--diff", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "1 unsafe fix not shown (--unsafe shows them)\n")


def test_report_makes_an_example_for_an_issue(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BUGGY.replace("    total = 0.0\n", '    total = 0.0\n    print("secret")\n'))
    done = preflight("report", "train.py:15", cwd=tmp_path)
    assert done.stdout.startswith("## PF101 graph-retention: wrong finding\n")
    assert ("secret" in done.stdout, "total += loss\n" in done.stdout) == (False, True)
    example = done.stdout.split("```python\n")[1].split("```")[0]
    (tmp_path / "example.py").write_text(example)
    assert [item["rule"] for item in check(tmp_path, "example.py")[1]["findings"]] == ["PF101"]
    wrong = preflight("report", "train.py:3", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "preflight report: no finding at line 3; there are some at 15 (PF101)\n",
    )


WORK = """def run(model, data):
    total = 0
    for x in data:
        total += model(x).sum()
    print(total)
"""


def test_report_finds_what_only_a_file_that_imports_this_one_shows(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "between.py").write_text("from work import run\n")
    (tmp_path / "main.py").write_text(
        "import torch\nfrom between import run\nmodel = torch.nn.Linear(2, 2)\n"
        "run(model, torch.utils.data.DataLoader([1, 2]))\n"
    )
    (found,) = check(tmp_path, ".", "--select", "PF101")[1]["findings"]
    assert (found["path"], found["line"]) == ("work.py", 4)
    done = preflight("report", "work.py:4", "--rule", "PF101", cwd=tmp_path)
    assert done.stderr == ""
    assert f"{found['severity']}, {found['confidence']}; " in done.stdout
    names = re.findall(r"^`([^`]+)`$", done.stdout, re.MULTILINE)
    examples = re.findall(r"```python\n(.*?)```", done.stdout, re.DOTALL)
    assert set(names) == {"work.py", "between.py", "main.py"}
    small = tmp_path / "small"
    small.mkdir()
    for name, text in zip(names, examples, strict=True):
        (small / name).write_text(text)
    (again,) = check(small, ".", "--select", "PF101")[1]["findings"]
    assert [again[key] for key in ("path", "severity", "confidence")] == [
        found[key] for key in ("path", "severity", "confidence")
    ]


def test_other_formats(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BUGGY)
    sarif = json.loads(preflight("check", ".", "--format", "sarif", cwd=tmp_path).stdout)
    (result,) = sarif["runs"][0]["results"]
    assert (result["ruleId"], result["locations"][0]["physicalLocation"]["region"]["startLine"]) == ("PF101", 14)
    github = preflight("check", ".", "--format", "github", cwd=tmp_path).stdout
    assert github.startswith("::warning file=train.py,line=14,")


def test_a_notebook_is_checked_shown_by_its_cells_and_fixed(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": text.splitlines(keepends=True)} for text in ("!nvidia-smi", SAFE)]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": cells}, indent=1))
    (tmp_path / "broken.ipynb").write_text("{")
    done = preflight("check", ".", cwd=tmp_path)
    assert "train.ipynb:cell 2:14:9: note PF101 graph-retention" in done.stdout
    assert "   14 |         total += loss\n      |         ^^^^" in done.stdout
    assert "broken.ipynb: skipped: no notebook: broken JSON at 1:2" in done.stdout
    _, report = check(tmp_path, "train.ipynb")
    (finding,) = report["findings"]
    line = path.read_text().split("\n")[finding["line"] - 1]
    assert line[finding["column"] : finding["end_column"]] == "total += loss"
    assert (finding["cell"], finding["cell_line"], finding["evidence"][0]["cell"]) == (2, 14, 2)
    before = path.read_text()
    assert check(tmp_path, "train.ipynb", "--fix")[1]["findings"] == []
    assert path.read_text() == before.replace("+= loss", "+= loss.detach()")


def test_rules_and_explain(tmp_path: Path) -> None:
    rules = json.loads(preflight("rules", "--format", "json", cwd=tmp_path).stdout)["rules"]
    assert {"PF101", "PF102", "PF201", "PF204"} <= {rule["code"] for rule in rules}
    pages = {preflight("explain", word, cwd=tmp_path).stdout for word in ("PF101", "tg001", "graph-retention")}
    assert len(pages) == 1
    assert pages.pop().startswith("PF101 graph-retention\n")
    assert preflight("explain", "nothing-like-it", cwd=tmp_path).returncode == 2
