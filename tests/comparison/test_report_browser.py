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

    def open_page(comparison: Comparison, ready: bool = True, **context: Any) -> Any:
        path = tmp_path / "report.html"
        path.write_text(render_report(comparison), encoding="utf-8")
        page = browser.new_context(**{"locale": "en-GB", **context}).new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("file:", "data:")) or problems.append(request.url)
            ),
        )
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


def test_sentences_are_ordered_by_length_spread_and_score(open_report: Any) -> None:
    comparison = make_comparison(sentences=30)
    page = open_report(comparison)

    def check(key: str, values: list[float]) -> None:
        page.select_option("#sort", key)
        expected = sorted(range(30), key=lambda row: (values[row], row))
        assert numbers(page) == [str(row + 1) for row in expected]
        page.click("#direction")
        expected = sorted(range(30), key=lambda row: (-values[row], row))
        assert numbers(page) == [str(row + 1) for row in expected]
        page.click("#direction")

    check("length", [float(len(source.split())) for source in comparison.test.sources])
    assert page.locator("#list th[aria-sort=ascending]").inner_text() == "Words"
    scores = [[round(score, 1) for score in run.sentence_scores] for run in comparison.runs]
    check("run2", scores[2])
    check(
        "spread", [round(max(several) - min(several), 6) for several in zip(*scores, strict=True)]
    )


def test_attention_is_drawn_on_demand(open_report: Any) -> None:
    comparison = make_comparison()
    page = open_report(comparison)
    assert page.locator(".map").count() == 0
    page.locator(".attention summary").first.click()
    found = comparison.examples[0].attention["rnn-attention/1"]
    assert page.locator(".map tbody tr").count() == len(found.target)
    assert page.locator(".map thead th").all_inner_texts() == list(found.source)
    cell = page.locator(".map tbody td").first
    assert cell.inner_text() == str(found.percent[0][0])
    assert (
        cell.get_attribute("title")
        == f"{found.target[0]} → {found.source[0]}: {found.percent[0][0]} %"
    )


def test_attention_of_a_caption_lies_on_its_image(open_report: Any) -> None:
    comparison = make_comparison(task="captions")
    page = open_report(comparison)
    page.locator(".attention summary").first.click()
    found = comparison.examples[0].attention["rnn-attention/1"]
    page.locator(".words button").nth(1).click()
    assert page.locator(".words button[aria-pressed=true]").inner_text() == found.target[1]
    veils = [float(cell.get_attribute("fill-opacity")) for cell in page.locator(".over rect").all()]
    weights = found.percent[1]
    assert veils.index(min(veils)) == weights.index(max(weights))
    assert f"{found.target[1]}: {max(weights)} % on row" in page.inner_text(".attention p")


def test_the_language_changes_and_follows_the_browser(open_report: Any) -> None:
    page = open_report(make_comparison())
    page.click("#language")
    assert page.inner_text("#scores h2") == "점수"
    assert page.inner_text("#sort option:checked") == "번호"
    page.click("#language")
    assert page.inner_text("#scores h2") == "Scores"
    assert "점수" in open_report(make_comparison(), locale="ko-KR").inner_text("#scores h2")


@pytest.mark.parametrize("task", ["translation", pytest.param("captions", marks=pytest.mark.slow)])
def test_a_narrow_page_does_not_scroll_sideways(open_report: Any, task: str) -> None:
    page = open_report(
        make_comparison(task=task, has_file=True), viewport={"width": 400, "height": 800}
    )
    page.evaluate("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
    page.wait_for_selector(".attention[open] div *")
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_without_a_script_tables_figures_and_examples_are_there(open_report: Any) -> None:
    page = open_report(make_comparison(), ready=False, java_script_enabled=False)
    assert page.is_visible("#scores table")
    assert page.is_visible("figure svg")
    assert page.is_visible(".example p")
    assert page.is_visible("noscript p")
    assert page.is_hidden("#controls")
