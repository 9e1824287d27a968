"""The page of a pull request: readable, escaped, usable with a keyboard, and without any request to elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.localhub.server import Server
from tests.localhub.world import World, build

pytestmark = pytest.mark.browser

BODY = "**PF101** keeps the graph.\n\n<script>document.title='owned'</script>\n\n```suggestion\nline <b>3</b>\n```\n"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1100,1600",
)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or pytest.fail("chromium is not installed")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or "chromedriver"))
    driver.implicitly_wait(3)  # a page that a form leads to comes after the key that sent it
    yield driver
    driver.quit()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Server(tmp_path / "hub") as server:
        world = build(server, tmp_path)
        comment = {"path": "train.py", "line": 4, "start_line": 3, "start_side": "RIGHT", "side": "RIGHT", "body": BODY}
        review = {"commit_id": world.pull.head_sha, "event": "COMMENT", "body": "Look.", "comments": [comment]}
        assert world.call("POST", "/pulls/1/reviews", review).status_code == 200
        output = {"title": "2 findings", "summary": "Some *text*."}
        run = {"name": "preflight/code", "head_sha": world.pull.head_sha, "conclusion": "neutral", "output": output}
        assert world.call("POST", "/check-runs", run).status_code == 201
        yield world


def test_the_page_shows_the_review_and_runs_nothing_from_it(world: World, browser: Any) -> None:
    browser.get(f"{world.server.url}/acme/trainer/pull/1")
    assert browser.title == "Train faster · acme/trainer#1"
    assert browser.find_elements("css selector", "script") == []
    thread = browser.find_element("css selector", ".thread .comment")
    assert "<script>document.title='owned'</script>" in thread.text
    rows = [row.text for row in thread.find_elements("css selector", ".suggestion .row")]
    assert rows == ["-line three", "-line three and a half", "+line <b>3</b>"]
    severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert severe == []


def test_nothing_is_loaded_from_elsewhere(world: World, browser: Any) -> None:
    browser.get(f"{world.server.url}/acme/trainer/pull/1")
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in loaded if not name.startswith((world.server.url, "data:"))] == []


def test_a_keyboard_reaches_and_opens_a_check(world: World, browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(f"{world.server.url}/acme/trainer/pull/1")
    check = browser.find_element("css selector", "details.check")
    assert check.get_attribute("open") is None
    for _ in range(12):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element.tag_name == "summary":
            break
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert check.get_attribute("open") is not None
    assert "Some text." in check.text


@pytest.mark.parametrize("width", [360, 1100])
def test_the_page_fits_its_window(world: World, browser: Any, width: int) -> None:
    browser.set_window_size(width, 900)
    browser.get(f"{world.server.url}/acme/trainer/pull/1")
    overflow = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0
