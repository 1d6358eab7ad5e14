"""The page of a walkthrough in a real browser: keys, buttons, links, phone, dark, print. Needs a
system Chromium.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small import folder

from regard.attention import SCORES
from regard.data.vocabulary import BOS, EOS
from regard.learn import BlockWalkthrough, walkthrough_block
from regard.learn.lessons.random_weights import small_model

pytestmark = pytest.mark.system

SOURCE = "나는 집에 간다"
TARGET = "I go home"


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
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("file:", "data:")) or problems.append(request.url)
            ),
        )
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
    page = open_block()
    count = len(block.steps)
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


def test_pointing_at_a_number_marks_its_row_and_column(
    open_block: Any, block: BlockWalkthrough
) -> None:
    number = [step.key for step in block.steps].index("self.Q") + 1
    page = open_block(anchor=f"#step-{number}")
    page.hover(f"#step-{number} table.result tbody tr:nth-child(2) td:nth-of-type(3)")
    assert page.locator("td.used").count() == 4 + 4 + 1
    step = block["self.Q"]
    x, weights, queries = (term.values for term in step.terms[:3])
    pairs = zip(x[0, 1], weights[:, 2] + 0.0, strict=True)  # no −0.0
    parts = [f"{a:.3f}·{b:.1f}" for a, b in pairs]
    expected = " + ".join(
        "·".join(f"({n})" if n[0] == "-" else n for n in part.split("·")) for part in parts
    )
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


def test_eight_heads_side_by_side_fit_a_screen(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "heads.html"
    path.write_text(walkthrough_block("I go home", size=16, heads=8).page(), encoding="utf-8")
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(path.as_uri() + "#step-11")
    boxes = page.locator("section:visible .scroll")
    assert boxes.count() == 3
    assert boxes.evaluate_all("boxes => boxes.map(box => box.scrollWidth - box.clientWidth)") == [
        0,
        0,
        0,
    ]
    assert (
        page.locator("section:visible td").first.evaluate(
            "cell => parseFloat(getComputedStyle(cell).fontSize)"
        )
        > 12
    )


@pytest.mark.parametrize("language", [pytest.param("en", marks=pytest.mark.slow), "ko"])
def test_the_page_fits_a_phone(open_block: Any, language: str) -> None:
    page = open_block(
        language, viewport={"width": 400, "height": 800}, has_touch=True, color_scheme="dark"
    )
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert not page.is_visible("nav")
    page.tap("#all")
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.is_visible("nav")
    assert (
        page.get_by_role("button", name={"en": "First step", "ko": "처음 단계"}[language]).count()
        == 1
    )


def test_printed_and_without_scripts_all_steps_are_shown(
    open_block: Any, block: BlockWalkthrough
) -> None:
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


COMPUTE = """pins => compute(readProgram(JSON.parse(document.getElementById("steps").dataset.program)),
  new Map(pins.map(([term, place, number]) => [term, new Map([[place, number]])]))).map(value => value && value.numbers)"""
CHANGES: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("embeddings", "e"): lambda decoder: decoder.embedding.weight,
    ("self.Q", "WQ"): lambda decoder: decoder.layers[0].self_attention.query.weight.T,
    ("self.norm", "γ"): lambda decoder: decoder.layers[0].self_attention_residual.norm.weight[None],
    ("cross.K", "WK"): lambda decoder: decoder.layers[0].cross_attention.key.weight.T,
    ("cross.V", "WV"): lambda decoder: decoder.layers[0].cross_attention.value.weight.T,
    ("cross.output", "WO"): lambda decoder: decoder.layers[0].cross_attention.output.weight.T,
    ("feedforward.hidden", "W1"): lambda decoder: decoder.layers[0].feedforward.widen.weight.T,
    ("feedforward.norm", "β"): lambda decoder: decoder.layers[0].feedforward_residual.norm.bias[
        None
    ],
    ("prediction.logits", "W"): lambda decoder: decoder.output.weight.T,
}
"""For a term of the page, the numbers of the decoder that it shows."""
READ, WANTED = [BOS, EOS + 1, EOS + 2, EOS + 3], [EOS + 1, EOS + 2, EOS + 3, EOS]
"""The tokens that are rows of e, and columns of W."""


def term_number(block: BlockWalkthrough, key: str, name: str) -> int:
    terms = [
        (step.key, getattr(term.name, "en", term.name))
        for step in block.steps
        for term in step.terms
    ]
    return terms.index((key, name))


def changed_block(
    key: str, name: str, at: tuple[int, int], monkeypatch: Any, **options: Any
) -> BlockWalkthrough:
    """Walk through the same block, one number of its model changed to 1.75."""

    def changed(*args: Any) -> Any:
        model = small_model(*args)
        with torch.no_grad():
            row = READ[at[0]] if name == "e" else at[0]
            column = WANTED[at[1]] if name == "W" else at[1]
            CHANGES[key, name](model.decoder)[row, column] = 1.75
        return model

    monkeypatch.setattr("regard.learn.lessons.block.small_model", changed)
    return walkthrough_block(SOURCE, TARGET, **options)


def assert_equal(numbers: list[Any], page: BlockWalkthrough, block: BlockWalkthrough) -> None:
    """Compare the numbers of a page with those of a walkthrough, for every matrix; tokens may be in
    another order.
    """
    terms, columns = ([term for step in one.steps for term in step.terms] for one in (block, page))
    for computed, term, like in zip(numbers, terms, columns, strict=True):
        if term.kind != "tokens":
            expected = term.values.astype(np.float64)
            if term.letters.endswith(" V") and term is not like:
                expected = expected[
                    ..., [list(term.columns[0]).index(name) for name in like.columns[0]]
                ]
            np.testing.assert_allclose(
                computed, expected.ravel(), rtol=1e-5, atol=1e-5, err_msg=str(term.name)
            )


@pytest.mark.parametrize("key", CHANGES, ids=" ".join)
def test_what_follows_a_changed_number_equals_the_walkthrough_of_it(
    open_block: Any, block: BlockWalkthrough, key: tuple[str, str], monkeypatch: Any
) -> None:
    page = open_block()
    number = term_number(block, *key)
    at = (0 if key[1] in "γβ" else 2, 1)
    assert_equal(page.evaluate(COMPUTE, []), block, block)
    columns = next(
        term
        for step in block.steps
        if step.key == key[0]
        for term in step.terms
        if term.name == key[1]
    )
    place = at[0] * columns.values.shape[-1] + at[1]
    changed = changed_block(*key, at, monkeypatch)
    assert_equal(page.evaluate(COMPUTE, [[number, place, 1.75]]), block, changed)


@pytest.mark.parametrize("score", SCORES)
def test_the_page_computes_every_score(browser: Any, tmp_path: Path, score: str) -> None:
    """In one block of two heads, with a second sentence of another length beside it."""
    norm = "post" if list(SCORES).index(score) % 2 else "pre"
    block = walkthrough_block(
        "I go home", "집 에", batch=["I go ||| 집 에 가 요"], score=score, norm=norm, heads=2
    )
    assert_computed([block], browser, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_page_computes_every_kind_of_block(
    browser: Any, tmp_path: Path, score: str, norm: str
) -> None:
    blocks = [
        walkthrough_block(SOURCE, TARGET, score=score, norm=norm, heads=heads) for heads in (1, 2)
    ]
    blocks += [
        walkthrough_block("I go home", batch=["I go"], score=score, norm=norm, causal=norm == "pre")
    ]
    blocks += [
        walkthrough_block(
            "I go home", "집 에", batch=["I go ||| 집 에 가 요"], score=score, norm=norm
        )
    ]
    assert_computed(blocks, browser, tmp_path)


def test_the_page_computes_blocks_without_projections_and_those_of_a_model(
    browser: Any, tmp_path: Path
) -> None:
    blocks = [
        walkthrough_block("I go home", score="dot", unprojected=True, norm=norm)
        for norm in ("pre", "post")
    ]
    blocks += [
        walkthrough_block(SOURCE, TARGET, model=folder(tmp_path / "run"), layer=layer)
        for layer in (1, 2)
    ]
    assert_computed(blocks, browser, tmp_path)


def assert_computed(blocks: list[BlockWalkthrough], browser: Any, tmp_path: Path) -> None:
    for block in blocks:
        (tmp_path / "block.html").write_text(block.page(), encoding="utf-8")
        page = browser.new_page()
        page.goto((tmp_path / "block.html").as_uri())
        assert_equal(page.evaluate(COMPUTE, []), block, block)
        page.close()


def cell_of(page: Any, number: int, row: int, column: int) -> Any:
    return (
        page.locator(f"table[data-term='{number}'] tbody tr")
        .nth(row)
        .locator("td.number")
        .nth(column)
    )


def test_numbers_are_changed_by_keyboard_and_reset(
    open_block: Any, block: BlockWalkthrough, monkeypatch: Any
) -> None:
    weights = term_number(block, "self.Q", "WQ")
    queries = term_number(block, "self.Q", "Q")
    number = [step.key for step in block.steps].index("self.Q") + 1
    page = open_block(anchor=f"#step-{number}")
    before = page.locator("#steps td").all_text_contents()
    assert page.is_disabled("#reset")
    cell_of(page, weights, 0, 0).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.url.endswith(f"#step-{number}"), "arrows move among the numbers, not the steps"
    page.keyboard.type("1.75")
    page.keyboard.press("Enter")
    expected = changed_block("self.Q", "WQ", (2, 1), monkeypatch)["self.Q"].terms[2].values[0, :, 1]
    shown = [cell_of(page, queries, row, 1).inner_text() for row in range(4)]
    assert shown == [f"{value:.3f}".replace("-", "−") for value in expected]
    assert page.evaluate("document.activeElement.textContent") == "1.75"
    assert page.inner_text("#changes").startswith("1 number changed")
    changed = page.locator("nav a.changed").all_inner_texts()
    assert f"{len(block.steps)}. {block.steps[-1].title.en}" in changed
    assert not any(title.endswith("Keys, K") for title in changed[:3])
    page.click("#reset")
    assert page.locator("#steps td").all_text_contents() == before
    assert page.locator("td.changed, td.pinned, nav a.changed").count() == 0


def test_a_result_can_be_set_and_a_mask_lifted(open_block: Any, block: BlockWalkthrough) -> None:
    page = open_block()
    weights = term_number(block, "self.weights", "A")
    page.keyboard.press("a")
    mask = term_number(block, "self.mask", "mask")
    cell_of(page, mask, 0, 3).click()
    page.keyboard.type("0")
    page.keyboard.press("Tab")
    assert cell_of(page, weights, 0, 3).inner_text() != "0.000"
    rows = [float(cell_of(page, weights, 0, column).inner_text()) for column in range(4)]
    assert abs(sum(rows) - 1) < 0.003
    cell_of(page, weights, 1, 0).click()
    page.keyboard.type("0.25")
    page.keyboard.press("Enter")
    assert cell_of(page, term_number(block, "self.context", "A"), 1, 0).inner_text() == "0.250"


@pytest.mark.parametrize("language", [pytest.param("en", marks=pytest.mark.slow), "ko"])
def test_no_number_is_answered_beside_the_field(
    open_block: Any, block: BlockWalkthrough, language: str, axe: str
) -> None:
    number = [step.key for step in block.steps].index("self.Q") + 1
    page = open_block(
        language,
        f"#step-{number}",
        viewport={"width": 400, "height": 800},
        has_touch=True,
        color_scheme="dark",
    )
    weights = term_number(block, "self.Q", "WQ")
    cell_of(page, weights, 1, 1).tap()
    for wrong in ("abc", "", "1e99", "−∞", "1,5"):
        page.fill("td input", wrong)
        page.keyboard.press("Enter")
        assert {"en": "a number", "ko": "같은 수"}[language] in page.inner_text("td input + small")
        assert page.get_attribute("td input", "aria-describedby") == "wrong"
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.evaluate(axe)
    assert page.evaluate("axe.run().then(found => found.violations.map(one => one.id))") == []
    page.keyboard.press("Escape")
    assert page.locator("td input").count() == 0
    assert page.is_disabled("#reset")
    page.tap("#all")
    page.evaluate(axe)
    assert page.evaluate("axe.run().then(found => found.violations.map(one => one.id))") == []


def test_a_page_of_too_many_numbers_cannot_be_edited(
    browser: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("regard.visualisation.steps_page.EDITABLE", 10)
    (tmp_path / "block.html").write_text(walkthrough_block("I go home").page(), encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "block.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.locator("td.number").count() == 0
    assert not page.is_visible("#reset")
    page.close()


@pytest.mark.parametrize("score", ["scaled_dot", "additive", "cosine"])
def test_formulas_are_set_as_mathematics(browser: Any, tmp_path: Path, score: str) -> None:
    block = walkthrough_block(SOURCE, TARGET, score=score, norm="pre")
    (tmp_path / "block.html").write_text(block.page(), encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "block.html").as_uri())
    lines = page.locator(".formula").evaluate_all(
        "all => all.map(line => [line.dataset.formula, line.textContent])"
    )
    assert [line[0] for line in lines] == [step.formula for step in block.steps if step.formula]
    assert page.locator(".formula:not(:has(math))").count() == 0
    plain = str.maketrans("ᵀ²", "⊤2", "()/√^ \u2009")
    for formula, text in lines:
        assert text.translate(plain) == formula.translate(plain), (
            "no symbol is lost but those that became a form"
        )
    scaled = 2 * (score == "scaled_dot")  # Q·Kᵀ / √E in two attentions
    assert page.locator("mfrac msqrt").count() == 4 + scaled, (
        "(x − μ) / √(σ² + ε), before three sublayers and at the end"
    )
    assert page.locator("msup mfrac").count() == 2, "10000^(2i/D)"
    page.close()
