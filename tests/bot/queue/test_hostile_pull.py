"""A pull request that means harm: the worker survives, the other files are reported, the checks are concluded."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from tests.bot.queue.stack import LAUNCH, TRAIN, Stack
from tests.localhub.world import git
from tests.support import wait_for

_CANARY = "preflight-was-here"
_EVIL = f"import os\nopen(os.path.expanduser('~/{_CANARY}'), 'w')\nopen('/tmp/{_CANARY}', 'w')\n"
_NASTY_NAMES = (
    "a\nb.py",
    "tab\there.py",
    "\x1b[31mred.py",
    "bidi\u202etxt.py",
    "[link](http:x).py",
    "@dana `code` <b>.py",
    "-rf.py",
    "..py",
    "dir with space/..../x.py",
    "<!-- preflight:summary -->.py",
    "<!-- preflight:fingerprint=0123456789abcdef -->.py",
    "|pipe|.py",
    "line\u2028sep.py",
)


def _files() -> dict[str, bytes | str | None]:
    """What a head may hold; every Python file but the broken ones has the sample's bug."""
    files: dict[str, bytes | str | None] = {
        "brackets3000.py": "x = " + "[" * 3_000 + "]" * 3_000 + "\n",
        "brackets10000.py": "x = " + "[" * 10_000 + "]" * 10_000 + "\n",
        "chain.py": "if a: pass\n" + "elif a: pass\n" * 6_000,
        "dots.py": "x = a" + ".b" * 20_000 + "\n",
        "calls.py": "x = " + "f(" * 5_000 + ")" * 5_000 + "\n",
        "unclosed.py": "x = " + "(" * 100_000 + "\n",
        "large.py": b"# " + b"x" * (5 * 1024 * 1024) + b"\n",
        "latin.py": "# -*- coding: latin-1 -*-\ns = 'h\u00e9'\n".encode("latin-1"),
        "binary.py": bytes(range(256)) * 40,
        "nul.py": b"x = 1\x00\n",
        "utf16.py": "x = 1\n".encode("utf-16"),
        "empty.py": "",
        "sitecustomize.py": _EVIL,
        "usercustomize.py": _EVIL,
        "yaml.py": _EVIL,
        "bot/__init__.py": _EVIL,
        "analyzer/__init__.py": _EVIL,
        "estimator/__init__.py": _EVIL,
        "setup.py": _EVIL,
        "conftest.py": _EVIL,
        ".github/preflight.yml": "version: 1\nignore: [PF101, PF102, PF2]\ncode: {mode: off}\n",
        "train.py": TRAIN,
        "train.slurm": LAUNCH,
        "deep.yaml": "a: " + "[" * 50_000 + "\n",
        "bomb.yaml": "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n",
        "deep.json": "[" * 100_000,
        "bomb.sh": "#!/bin/bash\n" + "$(" * 5_000 + "\n",
    }
    files |= dict.fromkeys(_NASTY_NAMES, TRAIN)
    return files | {f"many/f{number}.py": f"x = {number}\n" for number in range(20)}


def _push(stack: Stack) -> None:
    git(stack.work, "checkout", "-q", "-B", "hostile", "main")
    for name, content in _files().items():
        path = stack.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content or b"")
    (stack.work / "link.py").symlink_to("/etc/passwd")
    (stack.work / "loop.py").symlink_to("loop.py")
    git(stack.work, "add", "-A")
    head = git(stack.work, "rev-parse", "main").strip()
    git(stack.work, "update-index", "--add", "--cacheinfo", f"160000,{head},sub.py")
    git(stack.work, "commit", "-q", "-m", "harm")
    body = {"branch": "hostile", "source": str(stack.work), "ref": "HEAD", "user": "dana"}
    stack.control("POST", f"/repos/{stack.repo}/push", body)


def test_a_hostile_pull_request(stack: Stack) -> None:
    _push(stack)
    stack.serve()
    worker = stack.work_on()
    number = stack.open_pull("hostile")
    runs = {run["name"]: run for run in stack.concluded(number)}
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 20, "nothing is open")
    assert worker.poll() is None
    shown = stack.show(number)
    said = _said(shown)
    assert not runs["preflight/code"]["external_id"].endswith(":failed"), said
    assert not runs["preflight/memory"]["external_id"].endswith(":failed"), said
    commented = {comment["path"] for comment in shown["review_comments"]}
    noted = {note["path"] for run in shown["check_runs"] for note in run["annotations"]}
    for path in ("train.py", "-rf.py", "a\nb.py", "bidi\u202etxt.py"):
        assert path in commented | noted or path in said, path
    for path in ("large.py", "brackets10000.py", "nul.py"):
        assert path in said, f"{path} is not said to be left out"
    _says_nothing_dangerous(shown)
    _ran_nothing(stack)


def _said(shown: dict[str, Any]) -> str:
    outputs = [run["output"] for run in shown["check_runs"]]
    return json.dumps([outputs, [one["body"] for one in shown["reviews"] + shown["conversation"]]], ensure_ascii=False)


def _says_nothing_dangerous(shown: dict[str, Any]) -> None:
    texts = [one["body"] for part in ("reviews", "review_comments", "conversation") for one in shown[part]]
    texts += [run["output"][key] or "" for run in shown["check_runs"] for key in ("title", "summary", "text")]
    for text in texts:
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert not any(href.startswith("http:x") for href in _links(text))
        assert "@dana" not in _plain_words(text)


def _plain_words(markdown: str) -> str:
    """The text that GitHub would look through for mentions: not what stands in code."""
    inline = [token for token in MarkdownIt("commonmark").parse(markdown) if token.type == "inline"]
    return " ".join(child.content for token in inline for child in token.children or [] if child.type == "text")


def _links(markdown: str) -> list[str]:
    inline = [token for token in MarkdownIt("commonmark").parse(markdown) if token.type == "inline"]
    opened = (child for token in inline for child in token.children or [] if child.type == "link_open")
    return [str(token.attrGet("href")) for token in opened]


def _ran_nothing(stack: Stack) -> None:
    for place in (Path.home() / _CANARY, Path("/tmp") / _CANARY, stack.work / _CANARY):
        assert not place.exists()


def test_an_analysis_that_never_ends_is_said(stack: Stack) -> None:
    """The child is ended by its time-out; both checks are concluded, and the worker lives on."""
    stack.serve()
    worker = stack.work_on(PREFLIGHT_ANALYSIS_TIMEOUT="0.05")
    runs = stack.concluded(stack.open_pull())
    assert {run["conclusion"] for run in runs} == {"neutral"}
    assert all("took longer than" in run["output"]["summary"] for run in runs)
    assert worker.poll() is None
    left = subprocess.run(["ps", "-eo", "ppid=,args="], capture_output=True, text=True, check=True).stdout
    assert f"{os.getpid()} bot.workshop.child" not in left
