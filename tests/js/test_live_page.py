"""The live page in a real browser, from disk and without a network: typing, pasting, pointing, keys, two directions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small import SENTENCES

from regard.pipeline import RuntimeTranslator
from regard.visualisation.live import LiveModel, render_live_page

pytestmark = pytest.mark.system
FIRST, SECOND = "I go home.", "나는 집에 간다."
DONE = "#translation[aria-busy=false] .line-of-text:not(.pending)"
ALIGNMENT = {"layer": "decoder.layers.0.cross_attention", "head": 1, "shifted": False, "symmetry": None}


@pytest.fixture(scope="module")
def page_file(wasm: Path, make: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with two directions: the second model is recurrent."""
    models = [
        LiveModel(make(precision="int8").read_bytes(), ("en", "ko"), ALIGNMENT, FIRST, "# A card", {"size": "1 MB"}),
        LiveModel(make("recurrent", "recurrent", "int8").read_bytes(), ("ko", "en"), None, SECOND),
    ]
    path = tmp_path_factory.mktemp("page") / "translator.html"
    path.write_text(render_live_page(models, wasm.read_bytes()), encoding="utf-8")
    return path


@pytest.fixture
def open_page(browser: Any, page_file: Path) -> Iterator[Any]:
    """Open the page without a network; fail on any script error, message or request."""
    problems: list[str] = []

    def open_file(script: str = "", wait: str = f"html[data-loaded] {DONE}", **context: Any) -> Any:
        page = browser.new_context(**{"locale": "en-GB", "offline": True, **context}).new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.on("request", lambda request: request.url.startswith(("file:", "blob:")) or problems.append(request.url))
        if script:
            page.add_init_script(script)
        page.goto(page_file.as_uri())
        page.wait_for_selector(wait)
        return page

    yield open_file
    assert problems == []


def put(page: Any, text: str) -> None:
    """Replace the text, and wait for its translation."""
    latest = page.evaluate("performance.now()")
    page.fill("#input", text)
    page.wait_for_timeout(150)
    page.wait_for_selector("#translation[aria-busy=false]")
    assert page.evaluate("performance.now()") > latest


def expected(model: Path, sentence: str) -> str:
    return str(RuntimeTranslator(model, threads=1).translate(sentence)[0].text)


def shown(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".line-of-text").all_text_contents()]


def test_it_translates_the_example_and_what_is_typed(open_page: Any, make: Callable[..., Path]) -> None:
    page, model = open_page(), make(precision="int8")
    assert page.title() == page.inner_text("#title") == "English → Korean"
    assert shown(page) == [expected(model, FIRST)]
    page.click("#input")
    page.keyboard.type("I was eating bread. You read a book", delay=5)  # the example is replaced
    page.wait_for_timeout(200)
    page.wait_for_selector(DONE)
    assert page.input_value("#input") == "I was eating bread. You read a book"
    assert shown(page) == [expected(model, "I was eating bread."), expected(model, "You read a book")]
    assert page.get_attribute(".line-of-text >> nth=1", "aria-pressed") == "true"


def test_paragraphs_and_abbreviations_are_kept(open_page: Any) -> None:
    page = open_page()
    put(page, "Mr. Kim reads. I go home.\n\nyou read a book")
    counts = "all => all.map(p => p.querySelectorAll('.line-of-text').length)"
    assert page.locator("#translation p").evaluate_all(counts) == [2, 0, 1]
    put(page, "")
    assert page.locator(".line-of-text").count() == 0
    assert not page.is_visible("#attention")
    assert not page.is_visible("#alternatives")


def test_attention_is_that_of_the_native_library(open_page: Any, make: Callable[..., Path]) -> None:
    page, sentence = open_page(), "I was eating bread"
    put(page, sentence)
    page.wait_for_selector("#attention:not([hidden])")
    (translation,) = RuntimeTranslator(make(precision="int8"), threads=1).translate(sentence, readings=True)
    readings = translation.readings
    assert readings is not None
    assert page.locator("#columns .word bdi").all_text_contents()[: len(readings.source_text)] == list(
        readings.source_text
    )
    page.click("summary[data-text=numbers]")
    for role, layer, head in (("cross", 0, 1), ("encoder", 1, 0), ("decoder", 1, 1)):
        page.select_option("#role", role)
        page.select_option("#layer", index=layer)
        page.select_option("#head", index=head + 1)
        names = readings.layers(role)
        weights = readings.words(names[layer], head).weights
        rows = page.locator("#table tbody tr").all()
        for row, values in zip(rows, weights, strict=True):
            cells = [float(cell) for cell in row.locator("td").all_text_contents()]
            assert cells[: len(values)] == pytest.approx(values, abs=6e-4), role
    assert "not what its output depends on" in page.inner_text("#agreement")


def test_the_pointer_and_keys_choose_the_sentence(open_page: Any) -> None:
    page = open_page()
    put(page, "I go home. You read a book.")
    first, second = page.locator(".line-of-text").all()
    first.hover()
    page.wait_for_selector(".line-of-text:nth-child(1)[aria-pressed=true]")
    page.locator("#columns .word bdi", has_text="home.").wait_for()
    second.click()
    page.locator("#columns .word bdi", has_text="book.").wait_for()
    first.hover()  # the second one is pinned
    page.wait_for_timeout(250)
    assert second.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Escape")
    page.mouse.move(0, 0)
    first.hover()
    page.wait_for_selector(".line-of-text:nth-child(1)[aria-pressed=true]")
    page.mouse.move(0, 0)
    page.focus("#copy")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".line-of-text:nth-child(2)[aria-pressed=true]")


def test_alternatives_replace_the_translation(open_page: Any, make: Callable[..., Path]) -> None:
    page, sentence = open_page(), "I was eating bread"
    put(page, sentence)
    options = RuntimeTranslator(make(precision="int8"), threads=1).translate(sentence, nbest=3)[0].nbest
    page.wait_for_selector("#alternatives:not([hidden])")
    page.click("#alternatives-name")
    buttons = page.locator("#ranked button")
    assert buttons.locator("span:first-child").all_text_contents() == [option.text or "–" for option in options]
    buttons.nth(1).click()
    assert shown(page) == [options[1].text]
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"


def test_two_directions(open_page: Any, make: Callable[..., Path]) -> None:
    page = open_page()
    (korean,) = shown(page)
    page.click("#switch")
    page.wait_for_selector(DONE)
    assert page.inner_text("#title") == "Korean → English"
    assert page.input_value("#input") == korean
    put(page, SENTENCES[0])
    assert shown(page) == [expected(make("recurrent", "recurrent", "int8"), SENTENCES[0])]


def test_a_long_text_never_blocks_the_page(open_page: Any) -> None:
    page = open_page()
    text = "\n".join(f"{sentence} {number}." for number in range(1800) for sentence in ("I go home", "you read a book"))
    assert len(text) > 60_000
    page.evaluate(
        """text => { const input = document.getElementById("input"); let last = performance.now(); window.longest = 0;
        (function beat() { const now = performance.now(); longest = Math.max(longest, now - last); last = now; setTimeout(beat, 10); })();
        input.value = text; input.dispatchEvent(new Event("input")); }""",
        text,
    )
    page.locator("#progress", has_text="of 3600 sentences translated").wait_for()
    assert page.evaluate("longest") < 5000, "milliseconds without a look at the keyboard; all sentences take far longer"
    start = time.monotonic()
    put(page, "I go home.")  # the newest text comes first
    assert time.monotonic() - start < 5
    assert len(shown(page)) == 1


def test_it_fits_a_phone_in_korean_and_dark(open_page: Any) -> None:
    page = open_page(viewport={"width": 400, "height": 800}, locale="ko-KR", color_scheme="dark", has_touch=True)
    assert page.inner_text("#title") == "영어 → 한국어"
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    page.tap(".line-of-text")
    page.wait_for_selector("#attention:not([hidden])")
    page.tap("#language")
    assert page.inner_text("#title") == "English → Korean"
    assert page.evaluate("document.documentElement.lang") == "en"
    sizes = page.locator("button:visible, select:visible").evaluate_all(
        "all => all.filter(b => b.getBoundingClientRect().height < 40).map(b => b.outerHTML)"
    )
    assert sizes == []


def test_it_prints_the_text_and_its_translation(open_page: Any) -> None:
    page = open_page(color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.inner_text("#printed") == FIRST
    assert page.is_visible("#translation")
    assert not page.is_visible("#input")


@pytest.mark.parametrize(
    "script",
    [
        "delete window.DecompressionStream",
        "delete window.WebAssembly",
        "WebAssembly.validate = () => false",
        "delete window.Worker",
    ],
)
def test_an_old_browser_is_told_in_a_sentence(open_page: Any, script: str) -> None:
    page = open_page(script, wait="#unsupported:not([hidden])")
    assert page.inner_text("#unsupported").startswith("This browser cannot run the translator")
    assert not page.is_visible("#live")


def test_nothing_is_stored(open_page: Any) -> None:
    page = open_page()
    put(page, "you read a book")
    assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == ["", 0, 0]
    assert page.evaluate("indexedDB.databases().then(all => all.length)") == 0


def test_axe_finds_nothing(open_page: Any) -> None:
    axe = Path(os.environ.get("AXE", "node_modules/axe-core/axe.min.js"))
    if not axe.is_file():
        pytest.skip("axe-core is not installed: npm install axe-core, and AXE=PATH/axe.min.js")
    for context in ({}, {"color_scheme": "dark", "viewport": {"width": 400, "height": 800}, "locale": "ko-KR"}):
        page = open_page(**context)
        page.wait_for_selector("#attention:not([hidden])")
        page.click("#alternatives-name")
        page.click("summary[data-text=about]")
        page.evaluate(axe.read_text(encoding="utf-8"))
        violations = page.evaluate("axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))")
        assert violations == []
