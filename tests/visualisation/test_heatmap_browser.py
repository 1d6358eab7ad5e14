"""The page in a real browser: mouse, touch and keys. Needs playwright and a system Chromium; skipped without them."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regard.visualisation import Alignment, save

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path, bread: Alignment) -> Iterator[Any]:
    """Opens the page of two readings; fails on any script error or request."""
    faults: list[str] = []
    second = replace(bread, weights=bread.weights[:, ::-1], caption="layer 2", links=frozenset({(2, 2)}))
    path = save([bread, second], tmp_path / "page.html")

    def go(**context: Any) -> Any:
        page = browser.new_context(**context).new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))
        page.on("request", lambda request: request.url.startswith("file:") or faults.append(request.url))
        page.goto(path.as_uri())
        return page

    yield go
    assert faults == []


def test_pointing_at_a_target_word_shows_what_it_read(opened: Any) -> None:
    page = opened()
    page.hover("#target .word:nth-child(2)")
    assert page.inner_text("#readout") == "빵을 reads bread 0.88 · eating 0.07 · I 0.02 · was 0.01 · (end) 0.02"
    assert page.inner_text("#source .word:nth-child(4)").split() == ["bread", "0.88"]
    assert page.locator(".focus rect").count() == 1


def test_pointing_at_a_cell_shows_its_weight(opened: Any) -> None:
    page = opened()
    page.hover(".cells rect:nth-child(14)")
    assert page.inner_text("#readout b >> nth=1") == "was 0.60"
    page.mouse.move(0, 0)
    assert page.locator(".focus rect").count() == 0


def test_keys_walk_keep_and_let_go(opened: Any) -> None:
    page = opened()
    page.focus("#choice")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#readout").startswith("was is read by 있었다 0.60")
    page.keyboard.press("Enter")
    assert page.get_attribute("#source .word:nth-child(2)", "aria-pressed") == "true"
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert page.inner_text("#readout").startswith("있었다 reads was 0.60")
    page.keyboard.press("Escape")
    assert page.locator(".word.chosen").count() == 0


def test_choosing_another_reading_repaints(opened: Any) -> None:
    page = opened()
    assert page.get_attribute(".cells rect:nth-child(1)", "class") == "w90"
    page.select_option("#choice", index=1)
    assert page.get_attribute(".cells rect:nth-child(1)", "class") == "w1"
    assert page.text_content(".values text:nth-child(4)") == "0.90"
    assert page.locator(".links rect").count() == 1
    assert page.inner_text("#caption") == "layer 2"


def test_a_phone_in_korean(opened: Any) -> None:
    page = opened(viewport={"width": 400, "height": 800}, locale="ko-KR", has_touch=True, color_scheme="dark")
    page.tap("#source .word:nth-child(4)")
    assert page.inner_text("#readout").startswith("bread ← 읽은 단어: 빵을 0.88")
    assert page.evaluate("document.documentElement.lang") == "ko"
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.text_content(".axes text:nth-child(1)") == "원문 →"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"


def test_all_numbers_as_a_table(opened: Any) -> None:
    page = opened()
    page.click("summary")
    assert page.locator("#table tbody tr").count() == 4
    assert page.inner_text("#table tbody tr:nth-child(2)").split() == [
        "빵을",
        "0.020",
        "0.010",
        "0.070",
        "0.880",
        "0.020",
    ]
