"""Registering the app in a real browser: wide and narrow, without script, with the keyboard alone."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.localhub.server import Server
from bot.manifest import load
from bot.register.flow import Flow, github_at
from tests.browser.conftest import Browser
from tests.browser.test_bot_pages import AUDIT
from tests.support import wait_for

pytestmark = pytest.mark.browser
_FRAME = {"not one header", "not one footer"}
"""What the bot's own pages have around them; a form that lives for a minute has nothing to link to."""


def _faults(browser: Browser) -> set[str]:
    return set(browser.ask(AUDIT)) - _FRAME


@pytest.mark.parametrize("width", [1280, 390])
def test_the_keyboard_registers_an_app(browser_page: Browser, tmp_path: Path, width: int) -> None:
    kept: list[Mapping[str, Any]] = []
    with Server(tmp_path / "hub") as hub:
        manifest = load().without_merge_queues()

        def document(back: str) -> Mapping[str, Any]:
            return manifest.filled(name="ours", webhook_url="http://127.0.0.1:9/webhook", redirect_url=back)

        flow = Flow(github_at(hub.url, "acme"), document, kept.append)
        thread = threading.Thread(target=flow.run, args=(120,), daemon=True)
        thread.start()
        browser_page.window(width, script=False)
        browser_page.open(flow.url)
        assert _faults(browser_page) == set()
        browser_page.press("\ue004", "\ue007")  # Tab, Enter
        wait_for(lambda: "Create GitHub App" in browser_page.driver.title + browser_page.driver.page_source, 30)
        assert "pull_requests" in browser_page.driver.page_source
        browser_page.driver.find_element("name", "name").send_keys("\ue007")
        wait_for(lambda: "The secrets are written" in browser_page.driver.page_source, 60)
        assert _faults(browser_page) == set()
        assert browser_page.complaints() == []
        thread.join(20)
    (app,) = kept
    assert (app["slug"], app["owner"]["login"]) == ("ours", "acme")
