"""The page of a walkthrough in a real browser: keys, buttons, links, phone, dark, print. Needs a system Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.learn import BlockWalkthrough, walkthrough_block

pytestmark = pytest.mark.system

SOURCE, TARGET = "나는 집에 간다", "I go home"


@pytest.fixture(scope="module")
def block() -> BlockWalkthrough:
    return walkthrough_block(SOURCE, TARGET)


@pytest.fixture
def open_block(browser: Any, block: BlockWalkthrough, tmp_path: Path) -> Iterator[Any]:
    """Open the page of the block; fail on any message, script error or request."""
    problems: list[str] = []

    def open_page(language: Any = "en", anchor: str = "", **context: Any) -> Any:
        path = tmp_path / "block.html"
        path.write_text(block.page(language), encoding="utf-8")
        page = browser.new_context(**context).new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or problems.append(request.url))
        page.goto(path.as_uri() + anchor)
        if context.get("java_script_enabled", True):
            page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    assert problems == []
    for context in browser.contexts:  # pages that go on running slow down those of other tests
        context.close()


def shown(page: Any) -> list[str]:
    titles = page.locator("section:visible h2").all_inner_texts()
    return [str(title) for title in titles]


def test_one_steps_with_keys_and_buttons(open_block: Any, block: BlockWalkthrough) -> None:
    page, count = open_block(), len(block.steps)
    titles = [f"{number}. {step.title.en}" for number, step in enumerate(block.steps, 1)]
    assert shown(page) == titles[:1]
    assert page.is_disabled("#back")
    page.keyboard.press("ArrowRight")
    page.click("#forth")
    assert shown(page) == [titles[2]]
    assert page.inner_text("#status") == f"Step 3 of {count}: {block.steps[2].title.en}"
    assert page.locator("nav a[aria-current=step]").all_inner_texts() == [titles[2]]
    page.keyboard.press("ArrowLeft")
    assert shown(page) == [titles[1]]
    page.keyboard.press("End")
    assert shown(page) == titles[-1:]
    assert page.is_disabled("#forth")
    page.keyboard.press("ArrowRight")
    assert shown(page) == titles[-1:]
    page.keyboard.press("Home")
    assert shown(page) == titles[:1]
    page.keyboard.press("a")
    assert shown(page) == titles
    assert page.get_attribute("#all", "aria-pressed") == "true"
    page.click("#all")
    assert shown(page) == titles[:1]


def test_a_link_leads_to_a_step_and_its_heading(open_block: Any, block: BlockWalkthrough) -> None:
    page = open_block()
    page.click("nav a[href='#step-6']")
    assert shown(page) == [f"6. {block.steps[5].title.en}"]
    assert page.evaluate("document.activeElement.id") == "title-6"
    assert page.url.endswith("#step-6")
    assert shown(open_block(anchor="#step-9")) == [f"9. {block.steps[8].title.en}"]
    assert len(shown(open_block(anchor="#step-999"))) == 1


def test_pointing_at_a_number_marks_its_row_and_column(open_block: Any, block: BlockWalkthrough) -> None:
    number = [step.key for step in block.steps].index("self.Q") + 1
    page = open_block(anchor=f"#step-{number}")
    page.hover(f"#step-{number} table.result tbody tr:nth-child(2) td:nth-of-type(3)")
    assert page.locator("td.used").count() == 4 + 4 + 1
    step = block["self.Q"]
    x, weights, queries = (term.values for term in step.terms[:3])
    pairs = zip(x[0, 1], weights[:, 2] + 0.0, strict=True)  # no −0.0
    parts = [f"{a:.3f}·{b:.1f}" for a, b in pairs]
    expected = " + ".join("·".join(f"({n})" if n[0] == "-" else n for n in part.split("·")) for part in parts)
    assert page.inner_text("#readout") == f"{expected} ≈ {queries[0, 1, 2]:.3f}".replace("-", "−")
    page.keyboard.press("ArrowRight")
    assert page.locator(f"#step-{number} td.used").count() == 0


def test_a_wide_matrix_keeps_the_arrow_keys_for_scrolling(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "wide.html"
    path.write_text(walkthrough_block("I go home", size=16).page(), encoding="utf-8")
    page = browser.new_context(viewport={"width": 400, "height": 800}).new_page()
    page.goto(path.as_uri() + "#step-2")
    page.focus("#step-2 .scroll")
    page.keyboard.press("ArrowRight")
    assert page.url.endswith("#step-2")
    assert page.evaluate("document.documentElement.scrollWidth") == 400


@pytest.mark.parametrize("language", [pytest.param("en", marks=pytest.mark.slow), "ko"])
def test_the_page_fits_a_phone(open_block: Any, language: str) -> None:
    page = open_block(language, viewport={"width": 400, "height": 800}, has_touch=True, color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert not page.is_visible("nav")
    page.tap("#all")
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.is_visible("nav")
    assert page.get_by_role("button", name={"en": "First step", "ko": "처음 단계"}[language]).count() == 1


def test_printed_and_without_scripts_all_steps_are_shown(open_block: Any, block: BlockWalkthrough) -> None:
    page = open_block()
    page.emulate_media(media="print")
    assert len(shown(page)) == len(block.steps)
    assert not page.is_visible("#controls")
    page = open_block(java_script_enabled=False)
    assert len(shown(page)) == len(block.steps)
    assert not page.is_visible("#controls")


def test_regions_and_tables_are_named(open_block: Any, block: BlockWalkthrough) -> None:
    page = open_block()
    assert page.get_by_role("navigation", name="Steps").count() == 1
    assert page.get_by_role("status").count() == 1
    page.keyboard.press("a")
    assert page.get_by_role("region").count() >= len(block.steps)
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator("section table").count() == page.get_by_role("table").count()
