"""One headless Chromium for all tests of the bot's pages, and the pages with a GitHub behind them."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from bot.core.tally import Kind
from bot.localhub.server import Server
from bot.pages.links import ReportRef, Signer
from bot.pages.settings import PageSettings
from bot.pages.shelf import Shelf
from bot.pages.statistics import Statistics
from bot.settings import Secret, WebSettings
from bot.store import DAY, Keys, connect
from bot.web.app import create_app
from tests.bot.pages.pages import OPERATOR, SHA, document_of
from tests.localhub.world import build
from tests.support import WEBHOOK_SECRET

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True, slots=True)
class Town:
    """Addresses of the pages: `report` is good, `ended` was signed nine days ago."""

    url: str
    hub: str
    report: str
    ended: str

    def address(self, page: str) -> str:
        """Of a page by the name that tests give it."""
        return (
            self.url
            + {
                "setup": "/",
                "report": self.report,
                "what if": f"{self.report}?launch=0&change=0&micro_batch=2",
                "refused what if": f"{self.report}?launch=0&micro_batch=many",
                "statistics": f"{self.report}/stats?by=pattern",
                "no statistics": f"{self.report}/stats?months=1&by=framework",
                "ended": self.ended,
                "login first": "/stats",
                "nothing": "/nothing",
            }[page]
        )


PAGES = (
    "setup", "report", "what if", "refused what if", "statistics", "no statistics", "ended", "login first", "nothing",
)  # fmt: skip


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    client, keys = connect(redis_url), Keys("browser")
    client.flushall()
    with Server(folder / "hub") as hub:
        world = build(hub, folder)
        app = world.installation.app
        web = WebSettings(redis_url=redis_url, webhook_secrets=(Secret(WEBHOOK_SECRET),), app_id=7, namespace="browser")
        holder = make_server("127.0.0.1", 0, lambda environ, start: [], threaded=True)
        url = f"http://127.0.0.1:{holder.server_port}"
        settings = PageSettings(
            public_url=url,
            link_secrets=(Secret(WEBHOOK_SECRET),),
            client_id=app.client_id,
            client_secret=Secret(app.client_secret),
            operator_token=Secret(OPERATOR),
            api_url=hub.api_url,
        )
        holder.app = create_app(web, settings)
        threading.Thread(target=holder.serve_forever, args=(0.05,), daemon=True).start()
        repo = hub.service.hub.repository("acme", "trainer")
        repo.roles[hub.service.hub.account("rita").login] = "read"
        ref = ReportRef(repo_id=repo.id, number=1, head_sha=SHA)
        Shelf(client, keys).put(ref, document_of(), time.time())
        _count(Statistics(client, keys), repo.id)
        signer = Signer(settings.link_secrets, settings.link_days)
        yield Town(url, hub.url, f"/r/{signer.sign(ref, time.time())}", f"/r/{signer.sign(ref, time.time() - 9 * DAY)}")
        holder.shutdown()
        holder.server_close()
    client.close()


def _count(statistics: Statistics, repo_id: int) -> None:
    for number, (rule, pattern) in enumerate(
        [("PF101", "This running sum keeps a piece of the autograd graph"), ("PF206", "The seeding is partial")]
    ):
        kind = Kind(rule, "torch", pattern)
        counts = {(kind, "findings"): 12 + number, (kind, "fixed"): 9, (kind, "dismissed"): 3, (kind, "down"): number}
        statistics.count(repo_id, number, "acme/trainer", counts, time.time() - 45 * DAY)  # type: ignore[arg-type]


class Browser:
    """A page as one person has it: a window's width, a colour scheme, with or without script."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def window(self, width: int, *, scheme: str = "light", script: bool = True) -> None:
        """What follows is seen so."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not script})

    def open(self, url: str) -> None:
        """Go there, with an empty log."""
        self.driver.get_log("browser")
        self.driver.get(url)

    def ask(self, script: str, *arguments: Any) -> Any:
        """A question to the page (the debugger may ask where the page's own script may not run)."""
        return self.driver.execute_script(script, *arguments)

    def follow(self, act: Callable[[], object]) -> None:
        """Do what leads to another page, and wait until that one is there."""
        from selenium.webdriver.support.expected_conditions import staleness_of
        from selenium.webdriver.support.wait import WebDriverWait

        left = self.driver.find_element("tag name", "html")
        act()
        WebDriverWait(self.driver, 10).until(staleness_of(left))

    def press(self, *keys: str) -> None:
        """Keys, to whatever has the focus."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def complaints(self) -> list[str]:
        """What the console says: a blocked resource, a violated policy. A status that is meant is none."""
        entries = self.driver.get_log("browser")
        return [
            item["message"]
            for item in entries
            if "Failed to load resource: the server responded" not in item["message"]
        ]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or pytest.fail("chromium is not installed")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or "chromedriver"))
    driver.implicitly_wait(3)  # a page that a form leads to comes after the key that sent it
    yield Browser(driver)
    driver.quit()


@pytest.fixture
def browser_page(chromium: Browser) -> Browser:
    """With a fresh state: nobody is logged in."""
    chromium.window(1280)
    chromium.driver.delete_all_cookies()
    return chromium


def screenshot(browser: Browser, path: Path) -> None:
    """For a person who looks at a failure."""
    browser.driver.save_screenshot(str(path))
