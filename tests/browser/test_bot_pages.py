"""Every page of the bot in a real browser: two widths, two colour schemes, without script, with the keyboard alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.bot.pages.pages import OPERATOR
from tests.browser.conftest import PAGES, Browser, Town

pytestmark = pytest.mark.browser
AUDIT = (Path(__file__).parent / "audit.js").read_text(encoding="utf-8")
_OPEN_ALL = "document.querySelectorAll('details').forEach(node => node.open = true)"
_FOCUSABLE = """
const reached = 'a[href], button, input:not([type=hidden], [hidden]), select, summary, [tabindex="0"]';
return [...document.querySelectorAll(reached)]
  .filter(node => node.checkVisibility() && !node.closest('details:not([open]) > :not(summary)'))
  .map(node => node.outerHTML.slice(0, 90))"""
_FOCUSED = """
const node = document.activeElement;
if (node === document.body) return null;
const box = node.getBoundingClientRect(), style = getComputedStyle(node);
return { html: node.outerHTML.slice(0, 90), ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
         inside: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth }"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read(town: Town, browser_page: Browser, page: str, scheme: str, width: int) -> None:
    """Headings, labels, names, contrast, no sideways scrolling; with everything folded and with everything open."""
    browser_page.window(width, scheme=scheme)
    browser_page.open(town.address(page))
    folded = browser_page.ask(AUDIT)
    browser_page.ask(_OPEN_ALL)
    assert folded + browser_page.ask(AUDIT) == []
    assert browser_page.complaints() == []
    loaded = browser_page.ask("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in loaded if not name.startswith((town.url, "data:"))] == []
    assert browser_page.ask("return document.querySelectorAll('script, [style]').length") == 0


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", PAGES)
def test_a_keyboard_reaches_everything_in_order_and_shows_where_it_is(
    town: Town, browser_page: Browser, page: str, width: int
) -> None:
    from selenium.webdriver.common.keys import Keys

    browser_page.window(width, script=False)
    browser_page.open(town.address(page))
    wanted = browser_page.ask(_FOCUSABLE)
    found: list[dict[str, Any]] = []
    for _ in range(len(wanted) + 3):
        browser_page.press(Keys.TAB)
        focused = browser_page.ask(_FOCUSED)
        if focused is None:
            break
        found.append(focused)
    assert [item["html"] for item in found][: len(wanted)] == wanted
    assert [item for item in found[: len(wanted)] if not item["ring"] or not item["inside"]] == []
    assert "Skip to content" in wanted[0]


@pytest.mark.parametrize("width", [1280, 390])
def test_a_what_if_is_asked_with_the_keyboard_and_without_script(town: Town, browser_page: Browser, width: int) -> None:
    from selenium.webdriver.common.keys import Keys

    browser_page.window(width, script=False)
    browser_page.open(town.address("report"))
    form = browser_page.driver.find_element("id", "what-if-0")
    _tab_to(browser_page, form.find_elements("css selector", "input[type=checkbox]")[0])
    browser_page.press(Keys.SPACE)
    _tab_to(browser_page, form.find_element("name", "micro_batch"))
    browser_page.press("1", Keys.ENTER)
    outcome = browser_page.driver.find_element("css selector", "#what-if-0 .outcome")
    assert "fits" in outcome.text
    assert "micro_batch 1" in outcome.text
    checked = browser_page.driver.find_elements("css selector", "#what-if-0 input:checked")
    assert [item.get_attribute("value") for item in checked] == ["0"]
    assert browser_page.ask("return document.querySelector('#what-if-0').getBoundingClientRect().top < innerHeight")
    browser_page.follow(browser_page.driver.find_element("link text", "Back to the pull request's own values").click)
    assert browser_page.driver.find_elements("css selector", ".outcome") == []


def test_evidence_and_tables_open_with_the_keyboard(town: Town, browser_page: Browser) -> None:
    from selenium.webdriver.common.keys import Keys

    browser_page.window(390, script=False)
    browser_page.open(town.address("report"))
    for words in ("The same as a table", "Where the memory goes", "Inputs and where"):
        [summary] = [one for one in browser_page.driver.find_elements("tag name", "summary") if words in one.text]
        _tab_to(browser_page, summary)
        browser_page.press(Keys.ENTER)
        table = summary.find_element("xpath", "..//table")
        assert table.is_displayed()
        assert "weights" in table.text or "model" in table.text


def test_code_of_the_pull_request_is_text(town: Town, browser_page: Browser) -> None:
    browser_page.open(town.address("report"))
    body = browser_page.driver.find_element("tag name", "body").text
    assert "<script>alert(1)</script>" in body
    assert browser_page.ask("return document.images.length") == 0


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_link_that_ended_is_renewed_by_logging_in(town: Town, browser_page: Browser, script: bool) -> None:
    from selenium.webdriver.common.keys import Keys

    browser_page.window(390, script=script)
    browser_page.open(town.address("ended"))
    assert "This link has ended" in browser_page.driver.find_element("tag name", "h1").text
    _tab_to(browser_page, browser_page.driver.find_element("link text", "Log in with GitHub"))
    browser_page.follow(lambda: browser_page.press(Keys.ENTER))
    assert browser_page.driver.current_url.startswith(town.hub)
    button = browser_page.driver.find_element("css selector", "button[value=rita]")
    _tab_to(browser_page, button)
    browser_page.follow(lambda: browser_page.press(Keys.ENTER))
    assert browser_page.driver.current_url.startswith(f"{town.url}/r/")
    assert browser_page.driver.current_url != town.address("ended")
    assert "losses.append(loss)" in browser_page.driver.find_element("tag name", "main").text
    browser_page.follow(browser_page.driver.find_element("css selector", ".who button").click)
    assert browser_page.driver.find_elements("css selector", ".who") == []


def test_statistics_are_asked_by_name_after_a_login(town: Town, browser_page: Browser) -> None:
    browser_page.window(390, script=False)
    browser_page.open(town.address("login first"))
    browser_page.follow(browser_page.driver.find_element("link text", "Log in with GitHub").click)
    browser_page.follow(browser_page.driver.find_element("css selector", "button[value=rita]").click)
    repo = browser_page.driver.find_element("name", "repo")
    browser_page.follow(lambda: repo.send_keys("acme/trainer\n"))
    assert "PF101" in browser_page.driver.find_element("css selector", ".stats").text
    assert browser_page.ask(AUDIT) == []
    browser_page.open(f"{town.url}/stats?repo=acme/secret")
    assert "cannot read it" in browser_page.driver.find_element("css selector", "[role=alert]").text


def test_the_operators_details_need_the_token(town: Town, browser_page: Browser) -> None:
    for width in (1280, 390):
        browser_page.window(width, script=False)
        browser_page.open(town.address("setup"))
        browser_page.driver.find_element("name", "token").send_keys("wrong\n")
        assert "not the operator token" in browser_page.driver.find_element("css selector", "[role=alert]").text
        browser_page.driver.find_element("name", "token").send_keys(OPERATOR + "\n")
        assert browser_page.driver.find_element("xpath", "//main[contains(., 'Queues')]")
        assert browser_page.ask(AUDIT) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<h1>a</h1><h3>b</h3>", "heading after h1"),
        ("<h1>a</h1><h1>b</h1>", "not one h1"),
        ("<h1>a</h1><p style='color:#999;background:#fff'>pale</p>", "contrast 2.8"),
        ("<h1>a</h1><input>", "no label"),
        ("<h1>a</h1><a href='#'></a>", "no name"),
        ("<h1 id='x'>a</h1><p id='x'>b</p>", "id twice: x"),
        ("<h1>a</h1><p style='width:2000px'>wide</p>", "wider than the window"),
        (
            "<h1>a</h1><div style='overflow:auto;width:50px'><p style='width:99px'>x</p></div>",
            "a keyboard cannot scroll",
        ),
        ("<h1>a</h1><svg width='9' height='9'></svg>", "no text for"),
        ("<h1>a</h1><table><tr><th>x</th></tr></table>", "no scope"),
        ("<h1>a</h1><p aria-labelledby='gone'>x</p>", "label that is not there"),
    ],
)
def test_the_audit_sees_faults(browser_page: Browser, body: str, fault: str) -> None:
    page = f"<!doctype html><html lang=en><title>t</title><body><header></header><main>{body}</main><footer></footer>"
    browser_page.open(f"data:text/html,{quote(page)}")
    assert [found for found in browser_page.ask(AUDIT) if found.startswith(fault)]


def _tab_to(browser: Browser, element: Any) -> None:
    """Press Tab until the element has the focus."""
    from selenium.webdriver.common.keys import Keys

    for _ in range(200):
        if browser.driver.switch_to.active_element == element:
            return
        browser.press(Keys.TAB)
    pytest.fail("a keyboard does not get there")
