"""The page of a walkthrough: its script computes what follows a changed number, in node; keys,
links, editing, phone and print are tried in a real browser.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.browser import assert_accessible_and_narrow
from helpers.small_models import folder

import regard
from regard.attention import SCORES
from regard.data.vocabulary import BOS, EOS
from regard.learn import BlockWalkthrough, walkthrough_block
from regard.learn.lessons.random_weights import small_model
from regard.visualisation.number_boxes import Term

SOURCE = "나는 집에 간다"
TARGET = "I go home"
PHONE = {
    "viewport": {"width": 400, "height": 800},
    "has_touch": True,
    "color_scheme": "dark",
}
ASSETS = Path(regard.__file__).parent / "visualisation" / "assets"
COMPUTE = """
const written = x => Number.isFinite(x) ? x : String(x);
const results = JSON.parse(require("node:fs").readFileSync(0, "utf8")).map(([program, pins]) => {
  const changes = new Map(pins.map(([term, place, number]) => [term, new Map([[place, number]])]));
  return compute(readProgram(program), changes).map(value => value && value.numbers.map(written));
});
console.log(JSON.stringify(results));
"""
Pins = list[tuple[int, int, float]]


@pytest.fixture(scope="module")
def block() -> BlockWalkthrough:
    return walkthrough_block(SOURCE, TARGET)


# --- numbers, computed in node


def computed(
    node: str, folder: Path, pages: list[tuple[BlockWalkthrough, Pins]]
) -> list[Any]:
    """Return the numbers of every term of pages in which some numbers were changed."""
    questions = []
    programs: dict[int, Any] = {}
    for block, pins in pages:
        if id(block) not in programs:
            (program,) = re.findall("data-program='([^']*)'", block.page())
            programs[id(block)] = json.loads(program)

        questions.append((programs[id(block)], pins))

    script = folder / "compute.cjs"
    code = (ASSETS / "steps_compute.js").read_text(encoding="utf-8")
    script.write_text(code + COMPUTE, "utf-8")
    done = subprocess.run(
        [node, str(script)],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    results: list[Any] = json.loads(done.stdout)

    return results


def assert_equal(
    numbers: list[Any], page: BlockWalkthrough, block: BlockWalkthrough
) -> None:
    """Compare the numbers of a page with those of a walkthrough, for every matrix; tokens may be in
    another order.
    """
    compared = zip(numbers, terms_of(block), terms_of(page), strict=True)
    for values, term, shown in compared:
        if term.kind == "tokens":
            continue
        expected = term.values.astype(np.float64)
        if term.letters.endswith(" V") and term is not shown:
            names = list(term.columns[0])
            order = [names.index(name) for name in shown.columns[0]]
            expected = expected[..., order]

        actual = [float(value) for value in values]
        name = str(term.name)
        np.testing.assert_allclose(
            actual, expected.ravel(), rtol=1e-5, atol=1e-5, err_msg=name
        )


@pytest.mark.system
def test_the_page_computes_every_kind_of_block(
    node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To embed a font takes longest, and no number needs it.
    monkeypatch.setattr("regard.visualisation.fonts.face", lambda _: "")
    run = folder(tmp_path / "run")
    blocks = [
        walkthrough_block("I go", batch=["I"], causal=True, norm="pre"),
        walkthrough_block("I go", batch=["I"], norm="post"),
        walkthrough_block("I go", score="dot", unprojected=True),
        walkthrough_block("나는", "I", model=run, layer=1),
        walkthrough_block("나는", "I", model=run, layer=2),
    ]
    for number, score in enumerate(SCORES):
        norm = ("pre", "post")[number % 2]
        batch = ["I ||| 집 에"]
        blocks.append(
            walkthrough_block("I go", "집", batch=batch, score=score, norm=norm)
        )

    results = computed(node, tmp_path, [(block, []) for block in blocks])
    for numbers, block in zip(results, blocks, strict=True):
        assert_equal(numbers, block, block)


def _layer(decoder: Any) -> Any:
    return decoder.layers[0]


CHANGES: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("embeddings", "e"): lambda decoder: decoder.embedding.weight,
    ("self.Q", "WQ"): lambda decoder: _layer(decoder).self_attention.query.weight.T,
    ("self.norm", "γ"): lambda decoder: _layer(
        decoder
    ).self_attention_residual.norm.weight[None],
    ("cross.output", "WO"): lambda decoder: (
        _layer(decoder).cross_attention.output.weight.T
    ),
    ("feedforward.hidden", "W1"): lambda decoder: (
        _layer(decoder).feedforward.widen.weight.T
    ),
    ("prediction.logits", "W"): lambda decoder: decoder.output.weight.T,
}
"""For a term of the page, the numbers of the decoder that it shows."""
READ = [BOS, EOS + 1, EOS + 2, EOS + 3]
"""The tokens that are rows of e."""
WANTED = [EOS + 1, EOS + 2, EOS + 3, EOS]


def terms_of(block: BlockWalkthrough) -> list[Term]:
    terms: list[Term] = []
    for step in block.steps:
        terms += step.terms

    return terms


"""The tokens that are columns of W."""


def term_number(block: BlockWalkthrough, key: str, name: str) -> int:
    terms = []
    for step in block.steps:
        for term in step.terms:
            terms.append((step.key, getattr(term.name, "en", term.name)))

    return terms.index((key, name))


def changed_block(
    key: str, name: str, row: int, column: int, monkeypatch: pytest.MonkeyPatch
) -> BlockWalkthrough:
    """Walk through the same block, one number of its model changed to 1.75."""

    def changed(*args: Any) -> Any:
        model = small_model(*args)
        model_row = READ[row] if name == "e" else row
        model_column = WANTED[column] if name == "W" else column
        with torch.no_grad():
            CHANGES[key, name](model.decoder)[model_row, model_column] = 1.75

        return model

    monkeypatch.setattr("regard.learn.lessons.block.small_model", changed)
    return walkthrough_block(SOURCE, TARGET)


@pytest.mark.system
def test_what_follows_a_changed_number_equals_the_walkthrough_of_it(
    node: str, tmp_path: Path, block: BlockWalkthrough, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[tuple[BlockWalkthrough, Pins]] = []
    expected = []
    for key, name in CHANGES:
        row = 0 if name == "γ" else 2
        number = term_number(block, key, name)
        place = row * terms_of(block)[number].values.shape[-1] + 1
        pages.append((block, [(number, place, 1.75)]))
        expected.append(changed_block(key, name, row, 1, monkeypatch))

    for numbers, changed in zip(computed(node, tmp_path, pages), expected, strict=True):
        assert_equal(numbers, block, changed)


# --- in a browser


@pytest.fixture
def open_block(
    open_page: Callable[..., Any], block: BlockWalkthrough, tmp_path: Path
) -> Callable[..., Any]:
    """Return a function that opens the page of a block at an anchor."""
    path = tmp_path / "block.html"

    def open_file(
        anchor: str = "",
        shown: BlockWalkthrough = block,
        language: Any = "en",
        **options: Any,
    ) -> Any:
        if not path.exists():
            path.write_text(shown.page(language), encoding="utf-8")
        return open_page(path.as_uri() + anchor, **options)

    return open_file


def shown_titles(page: Any) -> list[str]:
    titles = page.locator("section:visible h2").all_inner_texts()
    return [str(title) for title in titles]


@pytest.mark.system
def test_one_steps_with_keys_buttons_and_links(
    open_block: Callable[..., Any], block: BlockWalkthrough
) -> None:
    page = open_block()
    count = len(block.steps)
    titles = []
    for number, step in enumerate(block.steps, 1):
        titles.append(f"{number}. {step.title.en}")

    assert shown_titles(page) == titles[:1]
    assert page.is_disabled("#back")

    page.keyboard.press("ArrowRight")
    page.click("#forth")
    assert shown_titles(page) == [titles[2]]
    assert page.inner_text("#status") == f"Step 3 of {count}: {block.steps[2].title.en}"
    assert page.locator("nav a[aria-current=step]").all_inner_texts() == [titles[2]]

    page.keyboard.press("ArrowLeft")
    assert shown_titles(page) == [titles[1]]

    page.keyboard.press("End")
    assert page.is_disabled("#forth")
    assert shown_titles(page) == titles[-1:]

    page.keyboard.press("Home")
    assert shown_titles(page) == titles[:1]

    page.click("nav a[href='#step-6']")
    assert shown_titles(page) == [titles[5]]
    assert page.evaluate("document.activeElement.id") == "title-6"
    assert page.url.endswith("#step-6")

    page.keyboard.press("a")
    assert shown_titles(page) == titles
    assert page.get_attribute("#all", "aria-pressed") == "true"

    page.click("#all")
    page.emulate_media(media="print")
    assert len(shown_titles(page)) == count
    assert len(shown_titles(open_block("#step-999"))) == 1

    page = open_block(wait="main", java_script_enabled=False)
    assert len(shown_titles(page)) == count
    assert not page.is_visible("#controls")


@pytest.mark.system
def test_pointing_at_a_number_marks_its_row_and_column(
    open_block: Callable[..., Any], block: BlockWalkthrough
) -> None:
    number = [step.key for step in block.steps].index("self.Q") + 1
    page = open_block(f"#step-{number}")
    page.hover(f"#step-{number} table.result tbody tr:nth-child(2) td:nth-of-type(3)")

    assert page.locator("td.used").count() == 4 + 4 + 1

    x, weights, queries, *_ = (term.values for term in block["self.Q"].terms)
    factors = []
    for a, b in zip(x[0, 1], weights[:, 2] + 0.0, strict=True):  # no −0.0
        product = f"({a:.3f})·({b:.1f})"
        factors.append(re.sub(r"\(([^-][\d.]*)\)", r"\1", product))

    expected = " + ".join(factors) + f" ≈ {queries[0, 1, 2]:.3f}"
    assert page.inner_text("#readout") == expected.replace("-", "−")


def cell_of(page: Any, number: int, row: int, column: int) -> Any:
    rows = page.locator(f"table[data-term='{number}'] tbody tr")
    return rows.nth(row).locator("td.number").nth(column)


@pytest.mark.system
def test_numbers_are_changed_by_keyboard_and_reset(
    open_block: Callable[..., Any],
    block: BlockWalkthrough,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = term_number(block, "self.Q", "WQ")
    queries = term_number(block, "self.Q", "Q")
    number = [step.key for step in block.steps].index("self.Q") + 1
    page = open_block(f"#step-{number}")
    cells = page.locator("#steps td")
    before = cells.all_text_contents()

    assert page.is_disabled("#reset")

    cell_of(page, weights, 0, 0).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)

    assert page.url.endswith(f"#step-{number}"), "arrows move among the numbers"

    page.keyboard.type("1.75")
    page.keyboard.press("Enter")
    changed = changed_block("self.Q", "WQ", 2, 1, monkeypatch)
    column = changed["self.Q"].terms[2].values[0, :, 1]
    for row, value in enumerate(column):
        shown = cell_of(page, queries, row, 1).inner_text()
        assert shown == f"{value:.3f}".replace("-", "−")

    assert page.evaluate("document.activeElement.textContent") == "1.75"
    assert page.inner_text("#changes").startswith("1 number changed")

    last = page.locator("nav a.changed").last.inner_text()
    assert last.endswith(block.steps[-1].title.en)

    page.click("#reset")
    assert cells.all_text_contents() == before
    assert page.locator("td.changed, td.pinned, nav a.changed").count() == 0

    page.keyboard.press("a")
    cell_of(page, term_number(block, "self.mask", "mask"), 0, 3).click()
    page.keyboard.type("0")
    page.keyboard.press("Tab")
    attention = term_number(block, "self.weights", "A")
    lifted = cell_of(page, attention, 0, 3).inner_text()

    assert lifted != "0.000", "a mask can be lifted"

    cell_of(page, attention, 1, 0).click()
    page.keyboard.type("0.25")
    page.keyboard.press("Enter")
    used = cell_of(page, term_number(block, "self.context", "A"), 1, 0)

    assert used.inner_text() == "0.250", "a result can be set"


@pytest.mark.system
@pytest.mark.parametrize("language", [pytest.param("en", marks=pytest.mark.slow), "ko"])
def test_on_a_phone_it_is_accessible_and_refuses_what_is_no_number(
    open_block: Callable[..., Any], language: str, axe: str
) -> None:
    block = walkthrough_block("나는 간다", heads=1)
    number = [step.key for step in block.steps].index("self.Q") + 1
    page = open_block(f"#step-{number}", block, language, **PHONE)
    cell_of(page, term_number(block, "self.Q", "WQ"), 1, 1).tap()
    reason = {"en": "a number", "ko": "같은 수"}[language]
    for wrong in ("abc", "", "1e99", "−∞", "1,5"):
        page.fill("td input", wrong)
        page.keyboard.press("Enter")
        assert reason in page.inner_text("td input + small")
        assert page.get_attribute("td input", "aria-describedby") == "wrong"

    assert_accessible_and_narrow(page, axe, [400])

    page.keyboard.press("Escape")
    assert page.locator("td input").count() == 0
    assert page.is_disabled("#reset")

    page.tap("#all")
    assert_accessible_and_narrow(page, axe)


@pytest.mark.system
def test_wide_matrices_scroll_by_themselves(open_block: Callable[..., Any]) -> None:
    wide = walkthrough_block("I go home", size=16, heads=8)
    page = open_block("#step-2", wide, **PHONE)
    page.focus("#step-2 .scroll")
    page.keyboard.press("ArrowRight")

    assert page.url.endswith("#step-2"), "the arrow keys scroll the matrix"
    assert page.evaluate("document.documentElement.scrollWidth") == 400

    page.set_viewport_size({"width": 1280, "height": 800})
    page.click("nav a[href='#step-11']")
    boxes = page.locator("section:visible .scroll")
    hidden = boxes.evaluate_all(
        "boxes => boxes.map(box => box.scrollWidth - box.clientWidth)"
    )

    assert hidden == [0, 0, 0], "eight heads fit a screen"


@pytest.mark.system
def test_formulas_are_set_as_mathematics(
    open_block: Callable[..., Any], block: BlockWalkthrough
) -> None:
    page = open_block()
    lines = page.locator(".formula").evaluate_all(
        "all => all.map(line => [line.dataset.formula, line.textContent])"
    )
    formulas = [step.formula for step in block.steps if step.formula]

    assert [formula for formula, _ in lines] == formulas
    assert page.locator(".formula:not(:has(math))").count() == 0

    plain = str.maketrans("ᵀ²", "⊤2", "()/√^ \u2009")
    for formula, text in lines:
        assert text.translate(plain) == formula.translate(plain), "no symbol is lost"

    norms = 3  # (x − μ) / √(σ² + ε), after three sublayers
    scaled = 2  # Q·Kᵀ / √E in two attentions
    assert page.locator("mfrac msqrt").count() == norms + scaled
    assert page.locator("msup mfrac").count() == 2, "10000^(2i/D)"
