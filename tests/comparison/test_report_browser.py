"""The report in a real browser: search, order, pages, attention. Needs playwright and a system
Chromium.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.browser import assert_accessible_and_narrow
from sample import make_comparison

from regard.comparison.report import render_report
from regard.comparison.result import Comparison

pytestmark = pytest.mark.system


@pytest.fixture
def open_report(open_page: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Return a function that opens the report of a comparison."""

    def open_file(comparison: Comparison, **options: Any) -> Any:
        path = tmp_path / "report.html"
        path.write_text(render_report(comparison), encoding="utf-8")
        return open_page(path, **options)

    return open_file


def numbers(page: Any) -> list[str]:
    return [str(text) for text in page.locator("#list tbody th").all_inner_texts()]


def test_sentences_are_searched_ordered_and_paged(
    open_report: Callable[..., Any],
) -> None:
    comparison = make_comparison(sentences=60, systems=2)
    page = open_report(comparison)
    assert page.inner_text("#shown") == "1–50 of 60"
    assert numbers(page) == [str(number) for number in range(1, 51)]
    assert page.is_disabled("#back")

    page.click("#forth")
    assert page.inner_text("#shown") == "51–60 of 60"
    assert page.is_disabled("#forth")

    page.fill("#search", " 57.")
    page.locator("#shown", has_text="1–1 of 1").wait_for()
    assert numbers(page) == ["58"]
    assert page.locator("#list mark").all_inner_texts() == ["57."]
    assert comparison.runs[3].outputs[57] in page.inner_text("#list tbody")

    page.fill("#search", "not in any text")
    page.locator("#shown", has_text="No sentence has this text.").wait_for()
    page.fill("#search", "")
    page.locator("#shown", has_text="1–50 of 60").wait_for()

    def check(key: str, values: list[float]) -> None:
        page.select_option("#sort", key)
        rising = sorted(range(60), key=lambda row: (values[row], row))
        assert numbers(page) == [str(row + 1) for row in rising[:50]]

        page.click("#direction")
        falling = sorted(range(60), key=lambda row: (-values[row], row))
        assert numbers(page) == [str(row + 1) for row in falling[:50]]

        page.click("#direction")

    check("length", [len(source.split()) for source in comparison.test.sources])
    assert page.locator("#list th[aria-sort=ascending]").inner_text() == "Words"

    scores = []
    for run in comparison.runs:
        scores.append([round(score, 1) for score in run.sentence_scores])

    check("run2", scores[2])
    check("spread", np.ptp(scores, axis=0).round(1).tolist())

    page.click("#language")

    assert page.inner_text("#scores h2") == "점수"
    assert page.locator("#sort option").first.text_content() == "번호"


def test_attention_is_drawn_on_demand(open_report: Callable[..., Any]) -> None:
    comparison = make_comparison(sentences=2, systems=2)
    page = open_report(comparison)
    assert page.locator(".map").count() == 0

    page.locator(".attention summary").first.click()
    page.locator(".map").wait_for()  # a browser says only later that it has opened
    attention = comparison.examples[0].attention["rnn-attention/1"]
    assert page.locator(".map tbody tr").count() == len(attention.target)
    assert page.locator(".map thead th").all_inner_texts() == list(attention.source)

    cell = page.locator(".map tbody td").first
    percent = attention.percent[0][0]
    assert cell.inner_text() == str(percent)

    title = f"{attention.target[0]} → {attention.source[0]}: {percent} %"
    assert cell.get_attribute("title") == title

    comparison = make_comparison(sentences=2, systems=2, task="captions")
    page = open_report(comparison)
    page.locator(".attention summary").first.click()
    attention = comparison.examples[0].attention["rnn-attention/1"]
    page.locator(".words button").nth(1).click()

    word = attention.target[1]
    assert page.locator(".words button[aria-pressed=true]").inner_text() == word

    veils = []
    for rectangle in page.locator(".over rect").all():
        veils.append(float(rectangle.get_attribute("fill-opacity")))

    weights = attention.percent[1]
    assert np.argmin(veils) == np.argmax(weights), "it lies on the image"

    sentence = f"{word}: {max(weights)} % on row"
    assert sentence in page.inner_text(".attention p")


@pytest.mark.parametrize(
    "task", ["translation", pytest.param("captions", marks=pytest.mark.slow)]
)
def test_it_is_accessible_and_fits_a_phone(
    open_report: Callable[..., Any], axe: str, task: str
) -> None:
    comparison = make_comparison(sentences=2, systems=2, task=task, has_file=True)
    page = open_report(comparison, locale="ko-KR")
    assert page.inner_text("#scores h2") == "점수"

    for part in page.locator("details:not(.attention)").all():
        part.evaluate("node => { node.open = true; }")

    page.locator(".attention summary").first.click()
    page.wait_for_selector(".attention[open] div *")
    assert_accessible_and_narrow(page, axe)


def test_without_a_script_tables_figures_and_examples_are_there(
    open_report: Callable[..., Any],
) -> None:
    comparison = make_comparison(sentences=2)
    page = open_report(comparison, wait="main", java_script_enabled=False)
    for part in ("#scores table", "figure svg", ".example p", "noscript p"):
        assert page.locator(part).first.is_visible(), part

    assert page.is_hidden("#controls")
