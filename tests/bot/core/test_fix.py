"""The safe fixes of a pull request, as commit and as patch: real git applies what the comment shows."""

from __future__ import annotations

import base64
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given as each
from hypothesis import settings
from hypothesis import strategies as st

from analyzer.findings import Report, Skipped
from bot.core import commands
from bot.core.commands import Command, CommandContext
from bot.core.commands.fix import Fixes
from bot.core.examine import Engines
from bot.core.fixing import safe_fixes
from bot.core.ledger import Ignored, Ledger
from bot.core.patch import file_patch
from bot.core.review import review
from bot.core.review_input import MemoryTree, ReviewInput
from bot.render.answers import patch_text
from bot.sources.base import ChangedFile, PullSnapshot

TRAIN = """import torch
from torch import nn


def main(model, loader, optimizer):
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    print(sum(losses))
"""
HEAD = "b" * 40


def pull(files: dict[str, str | bytes], base: dict[str, str | bytes] | None = None) -> ReviewInput:
    def tree(of: dict[str, str | bytes]) -> MemoryTree:
        return MemoryTree({path: text.encode() if isinstance(text, str) else text for path, text in of.items()})

    snapshot = PullSnapshot(
        repo_id=1,
        full_name="o/r",
        number=3,
        author="ann",
        title="t",
        is_draft=False,
        is_open=True,
        base_ref="main",
        base_sha=HEAD,
        head_sha=HEAD,
        merge_base_sha=HEAD,
        changed_files=tuple(ChangedFile(path=path, status="modified") for path in files),
    )
    return ReviewInput(snapshot=snapshot, head=tree(files), base=tree(base or {}))


def ask(given: ReviewInput) -> str | Fixes:
    found = commands.answer(Command(name="fix"), CommandContext(head_sha=HEAD, given=given))
    assert isinstance(found, (str, Fixes))
    return found


def contents(found: str | Fixes) -> dict[str, bytes]:
    assert isinstance(found, Fixes)
    return {path: base64.b64decode(text) for path, text in found.files.items()}


def git(where: Path, *args: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "core.autocrlf=false", *args]
    return subprocess.run(command, cwd=where, input=stdin, capture_output=True, env=environment, check=False)


def test_fixes_are_committed_whole_and_the_message_names_rules_only() -> None:
    hostile = "@everyone fixes #1 [skip ci].py"
    found = ask(pull({hostile: TRAIN}))
    assert b"losses.append(loss.detach())" in contents(found)[hostile]
    assert isinstance(found, Fixes)
    assert "PF101 graph-retention" in found.message
    assert not any(word in found.message for word in ("@", "#", "skip", ".py"))
    assert "@everyone" not in found.told.replace("`@everyone fixes #1 [skip ci].py:12`", "")


def test_only_what_the_pull_request_introduces_is_fixed() -> None:
    assert "introduces no finding" in str(ask(pull({"train.py": TRAIN + "\n"}, {"train.py": TRAIN})))


def test_line_ends_and_encodings_stay() -> None:
    crlf = TRAIN.replace("\n", "\r\n").encode()
    latin = b"# -*- coding: latin-1 -*-\n# \xe9\n" + TRAIN.encode()
    found = ask(pull({"crlf.py": crlf, "latin.py": latin}))
    new = contents(found)
    assert new["crlf.py"] == crlf.replace(b"append(loss)", b"append(loss.detach())")
    assert new["latin.py"] == latin.replace(b"append(loss)", b"append(loss.detach())")
    assert isinstance(found, Fixes)
    assert found.patches["latin.py"] == ""  # its bytes are not what a comment would show
    said = patch_text("w", "t", found.patches)
    assert "crlf.py" in said
    assert "diff --git" not in said  # a comment does not carry carriage returns


def test_findings_without_a_safe_fix_are_named() -> None:
    text = TRAIN.replace("        optimizer.zero_grad()\n", "").replace("losses.append(loss)", "losses.append(1)")
    found = ask(pull({"train.py": text}))
    assert "PF201" in (found if isinstance(found, str) else found.told)


def test_a_file_that_breaks_keeps_its_text() -> None:
    given = pull({"train.py": TRAIN})
    real = Engines()

    def breaks(files: object, targets: object, options: object) -> Report:
        if b"detach" in (files.read("train.py") or b""):  # type: ignore[attr-defined]
            return Report(num_files=1, skipped=(Skipped("train.py", "syntax error at 1:1"),), findings=())
        return real.analyze(files, targets, options)  # type: ignore[arg-type]

    fixed = safe_fixes(given, Engines(analyze=breaks))
    assert (fixed.after, fixed.cured) == ({}, ())


def test_what_people_ignore_here_is_not_fixed() -> None:
    ignored = Ignored(rule="PF101", reason="on purpose", who="ann", when="2026-11-30T00:00:00Z", head_sha=HEAD)
    given = replace(pull({"train.py": TRAIN}), ledger=Ledger(ignores=(ignored,)))
    assert "Nothing to fix" in str(ask(given))
    assert review(given).checks[0].actions == ()


def test_words_are_refused() -> None:
    found = commands.answer(Command(name="fix", words=("all",)), CommandContext(head_sha=HEAD, given=pull({})))
    assert "takes no words" in str(found)


@pytest.mark.parametrize("path", ["train.py", "a b/tra in.py", 'quo"te.py', "ümlaut/π.py", "tab\there.py", "-x.py"])
def test_git_applies_the_patch_of_the_comment(tmp_path: Path, path: str) -> None:
    found = ask(pull({path: TRAIN + "# ``` ````\n# no end"}))
    assert isinstance(found, Fixes)
    said = patch_text("because", found.told, found.patches)
    block = said.partition("diff\n")[2].partition("\n`````")[0] + "\n"
    place = tmp_path / path
    place.parent.mkdir(exist_ok=True)
    place.write_bytes((TRAIN + "# ``` ````\n# no end").encode())
    git(tmp_path, "init", "-q")
    done = git(tmp_path, "apply", "-", stdin=block.encode())
    assert done.returncode == 0, done.stderr
    assert place.read_bytes() == contents(found)[path]


_TEXT = st.text(st.sampled_from("ab \t\n\f\v\x1c\u2028é"), max_size=40)


@settings(max_examples=25, deadline=None)
@each(old=_TEXT, new=_TEXT)
def test_git_applies_every_patch(tmp_path_factory: pytest.TempPathFactory, old: str, new: str) -> None:
    where = tmp_path_factory.mktemp("repo")
    git(where, "init", "-q")
    (where / "f.py").write_bytes(old.encode())
    patch = file_patch("f.py", old, new)
    if old and new and old != new:  # a file that becomes empty or begins empty is no change of lines
        done = git(where, "apply", "--whitespace=nowarn", "-", stdin=patch.encode())
        assert done.returncode == 0, (done.stderr, patch)
        assert (where / "f.py").read_bytes() == new.encode()
