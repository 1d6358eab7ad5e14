"""The report in a real browser: search, order, pages, attention. Needs playwright and a system
Chromium.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    comparison = make_comparison(sentences=120)
    page = open_report(comparison)
    assert page.inner_text("#shown") == "1–50 of 120"
    assert numbers(page) == [str(number) for number in range(1, 51)]
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

    comparison = make_comparison(sentences=30)
    page = open_report(comparison)

    def check(key: str, values: list[float]) -> None:
        page.select_option("#sort", key)
        rising = sorted(range(30), key=lambda row: (values[row], row))
        assert numbers(page) == [str(row + 1) for row in rising]

        page.click("#direction")
        falling = sorted(range(30), key=lambda row: (-values[row], row))
        assert numbers(page) == [str(row + 1) for row in falling]

        page.click("#direction")

    check("length", [float(len(source.split())) for source in comparison.test.sources])
    assert page.locator("#list th[aria-sort=ascending]").inner_text() == "Words"

    scores = [
        [round(score, 1) for score in run.sentence_scores] for run in comparison.runs
    ]
    check("run2", scores[2])
    spreads = [max(several) - min(several) for several in zip(*scores, strict=True)]
    check("spread", [round(spread, 6) for spread in spreads])
    page.click("#language")

    assert page.inner_text("#scores h2") == "점수"
    assert page.locator("#sort option").first.text_content() == "번호"


def test_attention_is_drawn_on_demand(open_report: Callable[..., Any]) -> None:
    comparison = make_comparison()
    page = open_report(comparison)
    assert page.locator(".map").count() == 0

    page.locator(".attention summary").first.click()
    attention = comparison.examples[0].attention["rnn-attention/1"]
    assert page.locator(".map tbody tr").count() == len(attention.target)
    assert page.locator(".map thead th").all_inner_texts() == list(attention.source)

    cell = page.locator(".map tbody td").first
    percent = attention.percent[0][0]
    assert cell.inner_text() == str(percent)

    title = f"{attention.target[0]} → {attention.source[0]}: {percent} %"
    assert cell.get_attribute("title") == title

    comparison = make_comparison(task="captions")
    page = open_report(comparison)
    page.locator(".attention summary").first.click()
    attention = comparison.examples[0].attention["rnn-attention/1"]
    page.locator(".words button").nth(1).click()

    assert (
        page.locator(".words button[aria-pressed=true]").inner_text()
        == attention.target[1]
    )

    veils = [
        float(cell.get_attribute("fill-opacity"))
        for cell in page.locator(".over rect").all()
    ]
    weights = attention.percent[1]
    assert veils.index(min(veils)) == weights.index(max(weights)), (
        "it lies on the image"
    )
    assert f"{attention.target[1]}: {max(weights)} % on row" in page.inner_text(
        ".attention p"
    )


@pytest.mark.parametrize(
    "task", ["translation", pytest.param("captions", marks=pytest.mark.slow)]
)
def test_it_is_accessible_and_fits_a_phone(
    open_report: Callable[..., Any], axe: str, task: str
) -> None:
    comparison = make_comparison(task=task, has_file=True)
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
    page = open_report(make_comparison(), wait="main", java_script_enabled=False)
    for part in ("#scores table", "figure svg", ".example p", "noscript p"):
        assert page.locator(part).first.is_visible(), part
    assert page.is_hidden("#controls")
