"""docs/install.md, followed to the letter: its commands in one shell, its files as written, its browser by requests.

Only the installation itself is left out (the environment of the tests stands in) and the ports are free ones.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.bot.queue.stack import free_port
from tests.bot.register.browser import Browser
from tests.support import wait_for

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"`([\w./-]+)`:\n\Z")


def steps() -> list[tuple[str, str]]:
    """("command", line) and ("name of a file", content), in the order of the page."""
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    found: list[tuple[str, str]] = []
    for block in _FENCE.finditer(text):
        kind, content = block[1], block[2]
        if kind == "console":
            lines = content.splitlines()
            assert all(line.startswith("$ ") for line in lines), lines
            found += [("command", line[2:]) for line in lines]
        else:
            name = _NAME.search(text[: block.start()])
            assert name, content
            found.append((name[1], content))
    return found


class Shell:
    """One bash, fed line by line; what it prints is kept."""

    def __init__(self, where: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc", "-m"],
            cwd=where,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said = ""
        self._number = 0
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.said += line

    def type(self, line: str) -> str:
        """Start a command; the mark that is printed after it, with its exit code."""
        self._number += 1
        mark = f"-- step {self._number}: "
        assert self._process.stdin
        self._process.stdin.write(f"{line}\necho '{mark}'$?\n")
        self._process.stdin.flush()
        return mark

    def wait(self, mark: str) -> int:
        """The exit code of the command with that mark."""
        wait_for(lambda: re.search(rf"{mark}\d+\n", self.said), 240, f"{mark}\n{self.said[-3_000:]}")
        found = re.search(rf"{mark}(\d+)\n", self.said)
        assert found
        return int(found[1])

    def folder(self) -> Path:
        """Where the shell is."""
        return Path(os.readlink(f"/proc/{self._process.pid}/cwd"))

    def close(self) -> None:
        """End it and what it started."""
        assert self._process.stdin
        self._process.stdin.write("kill $(jobs -p) 2>/dev/null; wait\n")
        self._process.stdin.close()
        try:
            self._process.wait(40)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._listener.join(10)
        if self._process.stdout and not self._listener.is_alive():
            self._process.stdout.close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PREFLIGHT_", "REDIS_", "GIT", "GH_"))
    }
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    environment = kept | {"PATH": path, "GIT_CONFIG_GLOBAL": os.devnull, "BROWSER": "true", "HOME": str(tmp_path)}
    opened = Shell(tmp_path, environment)
    yield opened
    opened.close()


def _checks(page: str) -> set[tuple[str, str]]:
    """Name and conclusion of the check runs that the page of the pull request shows."""
    text = re.sub(r"<[^>]+>", " ", page)
    return set(re.findall(r"(preflight/\w+)\s+(success|neutral|failure|in_progress|queued)", text))


def test_the_page_leads_to_a_blocked_check(shell: Shell, tmp_path: Path) -> None:
    hub, door = free_port(), free_port()
    page = f"http://127.0.0.1:{hub}/acme/trainer/pull/1"
    (tmp_path / "try").mkdir()
    seen = ""
    for kind, content in steps():
        text = content.replace("127.0.0.1:8080", f"127.0.0.1:{hub}").replace("--port 8080", f"--port {hub}")
        text = text.replace("127.0.0.1:8000", f"127.0.0.1:{door}")
        if kind != "command":
            file = shell.folder() / kind
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        elif text.startswith("cd ../.."):
            break
        elif "try/venv" not in text:
            _follow(shell, text)
        if "bot.localhub" in text:
            wait_for(lambda: _answers(f"http://127.0.0.1:{hub}/"), 60, "the local GitHub answers")
        if "pull/new" in text:
            _shows(shell, page, ("preflight/memory", "neutral"))
            seen = _page(page)
        if "Look again" in text:
            _shows(shell, page, ("preflight/memory", "failure"))
        if "/preflight estimate" in text:
            wait_for(lambda: "NVIDIA H100 80GB" in _page(page), 60, "the answer to the command")
    assert "PF201" in seen
    assert "FAIL" not in shell.said, "the doctor found nothing that keeps reviews from happening"
    assert "BEGIN RSA" not in shell.said


def _follow(shell: Shell, line: str) -> None:
    """One command of the page, with a person's part at the browser."""
    mark = shell.type(line)
    if line.startswith("preflight register"):
        wait_for(lambda: re.search(r"Open (http://\S+)", shell.said), 120, "the form's address")
        address = re.search(r"Open (http://\S+)", shell.said)
        assert address
        browser = Browser()
        browser.open(address[1])
        browser.press()
        browser.press()
    code = shell.wait(mark)
    assert code == 0, f"{line}\n{shell.said[-3_000:]}"


def _shows(shell: Shell, page: str, check: tuple[str, str]) -> None:
    wait_for(lambda: check in _checks(_page(page)), 180, f"{check}\n{_checks(_page(page))}\n{shell.said[-3_000:]}")


def _page(url: str) -> str:
    return requests.get(url, timeout=30).text


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).ok
    except requests.RequestException:
        return False
