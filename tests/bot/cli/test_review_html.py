"""``preflight review --format html``: the report as one file that loads nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bot.demo import sample
from tests.bot.pages.pages import Elements, acting


def test_the_report_of_a_branch_is_one_file(tmp_path: Path) -> None:
    work = sample.build(tmp_path / "work")
    command = [sys.executable, "-I", "-m", "preflight", "review", "--base", "main", "--format", "html", "."]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    seen = Elements(done.stdout)
    for text in ("PF204", "criterion(torch.softmax", "slurm/finetune.slurm", "What would help"):
        assert text in seen.text
    assert [fault for fault in acting(done.stdout) if not fault.startswith("<style>")] == []
    assert list(seen.named("form")) == []
