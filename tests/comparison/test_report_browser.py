"""The report in a real browser: search, order, pages, attention. Needs playwright and a system
Chromium.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample import make_comparison

from regard.comparison.report import render_report
from regard.comparison.result import Comparison

pytestmark = pytest.mark.system


@pytest.fixture
def open_report(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Open the report of a comparison; fail on any message, script error or request."""
    problems: list[str] = []

    def note_request(request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            problems.append(request.url)

    def open_page(comparison: Comparison, ready: bool = True, **context: Any) -> Any:
        path = tmp_path / "report.html"
        path.write_text(render_report(comparison), encoding="utf-8")
        page = browser.new_context(**{"locale": "en-GB", **context}).new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.on("request", note_request)
        page.goto(path.as_uri())
        if ready:
            page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    assert problems == []
    for context in browser.contexts:  # pages that go on running slow down those of other tests
        context.close()


def numbers(page: Any) -> list[str]:
    return [str(text) for text in page.locator("#list tbody th").all_inner_texts()]


def check_order(page: Any, key: str, values: list[float]) -> None:
    """Compare the first sentences in ascending and in descending order of a value."""
    page.select_option("#sort", key)
    for sign in (1, -1):
        expected = sorted(range(len(values)), key=lambda row: (sign * values[row], row))
        assert numbers(page) == [str(row + 1) for row in expected[:50]]
        page.click("#direction")


def test_sentences_are_searched_ordered_and_paged(open_report: Any) -> None:
    comparison = make_comparison(sentences=120)
    page = open_report(comparison)
    assert page.inner_text("#shown") == "1–50 of 120"
    assert numbers(page) == [str(n) for n in range(1, 51)]
    assert page.is_disabled("#back")

    page.click("#forth")
    page.click("#forth")
    assert page.inner_text("#shown") == "101–120 of 120"
    assert page.is_disabled("#forth")

    page.fill("#search", " 77.")
    page.locator("#shown", has_text="1–1 of 1").wait_for()
    assert numbers(page) == ["78"]
    assert page.locator("#list mark").all_inner_texts() == ["77."]
    assert comparison.runs[3].outputs[77] in page.inner_text("#list tbody")

    page.fill("#search", "not in any text")
    page.locator("#shown", has_text="No sentence has this text.").wait_for()
    page.fill("#search", "")
    page.locator("#shown", has_text="1–50 of 120").wait_for()
    check_order(page, "length", [len(source.split()) for source in comparison.test.sources])
    assert page.locator("#list th[aria-sort=ascending]").inner_text() == "Words"

    scores = [[round(score, 1) for score in run.sentence_scores] for run in comparison.runs]
    check_order(page, "run2", scores[2])
    spreads = [max(several) - min(several) for several in zip(*scores, strict=True)]
    check_order(page, "spread", spreads)
    page.click("#language")
    assert page.inner_text("#scores h2") == "점수"
    assert page.inner_text("#sort option:checked") == "점수 차이 폭"

    page.click("#language")
    assert page.inner_text("#scores h2") == "Scores"


def test_attention_is_drawn_on_demand_and_fits_a_narrow_page(open_report: Any) -> None:
    comparison = make_comparison(has_file=True)
    page = open_report(comparison, viewport={"width": 400, "height": 800})
    assert page.locator(".map").count() == 0

    page.locator(".attention summary").first.click()
    shown = comparison.examples[0].attention["rnn-attention/1"]
    assert page.locator(".map tbody tr").count() == len(shown.target)
    assert page.locator(".map thead th").all_inner_texts() == list(shown.source)

    cell = page.locator(".map tbody td").first
    percent = shown.percent[0][0]
    assert cell.inner_text() == str(percent)

    title = f"{shown.target[0]} → {shown.source[0]}: {percent} %"
    assert cell.get_attribute("title") == title

    page.evaluate("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_attention_of_a_caption_lies_on_its_image_in_the_language_of_the_browser(
    open_report: Any,
) -> None:
    comparison = make_comparison(task="captions")
    page = open_report(comparison, locale="ko-KR")
    assert "점수" in page.inner_text("#scores h2")

    page.locator(".attention summary").first.click()
    shown = comparison.examples[0].attention["rnn-attention/1"]
    page.locator(".words button").nth(1).click()
    assert page.locator(".words button[aria-pressed=true]").inner_text() == shown.target[1]

    veils = [float(cell.get_attribute("fill-opacity")) for cell in page.locator(".over rect").all()]
    weights = shown.percent[1]
    assert veils.index(min(veils)) == weights.index(max(weights))
    assert f"{max(weights)}" in page.inner_text(".attention p")


def test_without_a_script_tables_figures_and_examples_are_there(open_report: Any) -> None:
    page = open_report(make_comparison(), ready=False, java_script_enabled=False)
    for selector in ("#scores table", "figure svg", ".example p", "noscript p"):
        assert page.locator(selector).first.is_visible()
    assert page.is_hidden("#controls")
