"""The live page in a real browser, from disk and without a network: typing, pointing, keys, the
player, two directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.browser import assert_accessible_and_narrow
from helpers.calibrated_model import calibrated
from helpers.small_models import SENTENCES
from helpers.time_limits import wait_until

from regard.interchange.runtime import export
from regard.pipeline import RuntimeTranslator
from regard.runtime.model import Constraints
from regard.runtime.module_script import module_script
from regard.visualisation.live_page import LiveModel, Trust, render_live_page
from tests.js.conftest import ALIGNMENT

pytestmark = pytest.mark.system
TRUST = Trust(12, {"gradient × input": 0.456, "word erasure": -0.2})
LINE = "you read a book"  # of several words with the random weights
FIRST = "I go home."
SECOND = "나는 집에 간다."
CARD = r"""---
license: mit
---
# A *card* <img src=x onerror=alert(1)>

Some **bold `code`**, [site](https://example.org/a), [trap](javascript:alert`1`), \*literal\*.

## <b>Data</b>

- one
- `two`

| set | lines |
|---|--:|
| a \| b | 7 |

    regard sample .

```sh
# no heading
```
"""
PROPOSED = (FIRST, "You read a book.")
DONE = "#translation[aria-busy=false] .line-of-text:not(.pending)"
Make = Callable[..., Path]


@pytest.fixture(scope="module")
def page_file(wasm: Path, make: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with two directions: the second model is recurrent."""
    attentive = make(precision="int8").read_bytes()
    facts = {"size": "1 MB"}
    first = LiveModel(
        attentive,
        ("en", "ko"),
        {**ALIGNMENT, "symmetry": None},
        PROPOSED,
        CARD,
        facts,
        TRUST,
    )
    first = replace(first, greeting="Za **Serbow**.")
    recurrent = make("recurrent", "recurrent", "int8").read_bytes()
    second = LiveModel(recurrent, ("ko", "en"), None, (SECOND,))
    path = tmp_path_factory.mktemp("page") / "translator.html"
    path.write_text(
        render_live_page([first, second], wasm.read_bytes(), module_script()),
        encoding="utf-8",
    )
    return path


@pytest.fixture
def open_live(open_page: Callable[..., Any], page_file: Path) -> Callable[..., Any]:
    """Return a function that opens the page without a network, and its attention."""

    def open_file(wait: str = f"html[data-loaded] {DONE}", **options: Any) -> Any:
        page = open_page(page_file, wait, offline=True, **options)
        page.evaluate("document.getElementById('how').open = true")
        return page

    return open_file


def put(page: Any, text: str) -> None:
    """Replace the text, and wait for its translation."""
    page.fill("#input", text)
    page.wait_for_selector("#translation[aria-busy=false]")


def expected(model: Path, sentence: str) -> str:
    return str(RuntimeTranslator(model, threads=1).translate(sentence)[0].text)


def shown(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".line-of-text").all_text_contents()]


def open_words(page: Any, number: int) -> None:
    """Pin a sentence by a click, and wait for its words."""
    page.locator(".line-of-text").nth(number).click()
    page.wait_for_selector(".word-of-text")


def test_it_translates_what_is_typed_in_two_directions(
    open_live: Callable[..., Any],
    make: Make,
) -> None:
    page = open_live()
    model = make(precision="int8")

    assert page.title() == page.inner_text("#title") == "English → Korean"
    assert shown(page) == [expected(model, FIRST)]

    page.wait_for_selector("#attention:not([hidden])")
    words = page.locator("#columns .word bdi").all_text_contents()

    assert words[:3] == ["I", "go", "home."]

    note = page.inner_text("#agreement")

    assert "measured on 12 other sentences" in note
    assert "gradient × input 0.46, word erasure −0.20" in note

    page.click("#open-player")
    page.wait_for_selector("#mechanism svg")
    page.click("#open-player")
    page.wait_for_selector("#player", state="hidden")

    page.click("#input")
    page.keyboard.type("I was eating bread. You read a book")  # the example is replaced
    page.wait_for_selector(DONE)

    assert page.input_value("#input") == "I was eating bread. You read a book"

    sentences = ("I was eating bread.", "You read a book")

    assert shown(page) == [expected(model, sentence) for sentence in sentences]

    put(page, "Mr. Kim reads. I go home.\n\nyou read a book")
    counts = "all => all.map(p => p.querySelectorAll('.line-of-text').length)"

    assert page.locator("#translation p").evaluate_all(counts) == [2, 0, 1]

    put(page, "")

    assert page.locator(".line-of-text").count() == 0
    assert not page.is_visible("#attention")

    assert page.locator("#examples .chip").all_inner_texts() == list(PROPOSED)

    page.click("#examples .chip >> nth=1")
    page.wait_for_function(
        "text => document.querySelector('#input').value === text", arg=PROPOSED[1]
    )
    page.wait_for_selector(DONE)
    (korean,) = shown(page)
    page.click("#switch")
    page.wait_for_selector("#examples", state="hidden")  # one sentence leaves no choice
    page.wait_for_selector(DONE)

    assert page.inner_text("#title") == "Korean → English"
    assert page.input_value("#input") == korean

    put(page, SENTENCES[0])
    recurrent = make("recurrent", "recurrent", "int8")

    assert shown(page) == [expected(recurrent, SENTENCES[0])]

    page.click("#open-player")
    page.wait_for_selector("#mechanism svg")

    assert "12" not in page.inner_text("#agreement"), "nothing was measured of it"

    stored = "[document.cookie, localStorage.length, sessionStorage.length]"

    assert page.evaluate(stored) == ["", 0, 0]


def test_it_greets_and_keeps_attention_and_alternatives_folded(
    open_page: Callable[..., Any], page_file: Path
) -> None:
    page = open_page(page_file, f"html[data-loaded] {DONE}", offline=True)
    page.wait_for_selector("#alternatives:not([hidden])")
    page.wait_for_selector("#attention:not([hidden])", state="attached")

    assert page.inner_text("#greeting") == "Za Serbow."
    assert page.locator("#greeting strong").inner_text() == "Serbow"
    assert not page.is_visible("#attention")

    page.click("summary[data-text=how]")
    page.wait_for_selector("#attention")

    assert page.locator("#canvas").bounding_box()["width"] > 100

    before = page.locator("#input").bounding_box()
    page.click("#alternatives-name")
    page.wait_for_selector("#ranked button")

    assert page.locator("#input").bounding_box() == before

    page.click("#switch")  # the other model has no greeting
    page.wait_for_selector("#greeting", state="hidden")


@pytest.mark.slow
def test_languages_whose_codes_are_none_are_translated_all_the_same(
    open_page: Callable[..., Any],
    wasm: Path,
    make: Make,
    tmp_path: Path,
) -> None:
    path = tmp_path / "translator.html"
    translated = make(precision="int8")
    model = LiveModel(translated.read_bytes(), ("english (US)", "e"), None, PROPOSED)
    path.write_text(
        render_live_page([model], wasm.read_bytes(), module_script()), encoding="utf-8"
    )
    page = open_page(path, f"html[data-loaded] {DONE}", offline=True)

    assert shown(page) == [expected(translated, FIRST)]


def test_a_card_is_readable_and_nothing_of_it_is_markup(
    open_live: Callable[..., Any],
) -> None:
    page = open_live()
    page.click("summary[data-text=about]")
    nodes = page.locator("#readme").evaluate(
        "card => [...card.children].map(node => [node.localName, node.innerText])"
    )
    names = [name for name, _ in nodes]

    assert names == ["h3", "p", "details"]
    assert nodes[0][1] == "A *card* <img src=x onerror=alert(1)>"
    assert nodes[1][1] == "Some bold code, site, trap, *literal*."

    links = page.locator("#readme a").evaluate_all("all => all.map(link => link.href)")

    assert links == ["https://example.org/a"]

    page.click("#readme summary")

    assert page.inner_text("#readme summary") == "<b>Data</b>"
    assert page.locator("#readme li").all_inner_texts() == ["one", "two"]

    cells = page.locator("#readme :is(th, td)")

    assert cells.all_inner_texts() == ["set", "lines", "a | b", "7"]

    code = page.locator("#readme pre").all_inner_texts()

    assert code == ["regard sample .", "# no heading"]


def continuations(model: Any, best: Any, first: int) -> list[str]:
    """Return the texts that go on from a token with another one, likeliest first."""
    before = best.ids[:first]
    options = model.options()
    options.trace = options.beam = 1
    (greedy,) = model.translate([LINE], options, [Constraints.of_prefix(before)])
    likely = [item for item in greedy.steps[first].candidates if item.token != 3]
    texts = list[str]()
    for candidate in likely[:7]:
        prefix = Constraints.of_prefix([*before, candidate.token])
        (other,) = model.translate([LINE], model.options(), [prefix])
        is_chosen = candidate.token == best.ids[first]
        text = best.text if is_chosen else other.hypotheses[0].text
        if text not in texts:
            texts.append(text)

    return texts


def test_alternatives_and_continuations_replace_the_translation_and_are_undone(
    open_live: Callable[..., Any],
    make: Make,
) -> None:
    page = open_live()
    translator = RuntimeTranslator(make(precision="int8"), threads=1)
    put(page, f"{LINE}\n{FIRST}")
    page.locator(".line-of-text").first.click()
    page.wait_for_selector("#alternatives:not([hidden])")
    page.click("#alternatives-name")
    hypotheses = translator.translate(LINE, nbest=3)[0].nbest
    buttons = page.locator("#ranked button")
    texts = buttons.locator("span:first-child").all_text_contents()

    assert texts == [hypothesis.text or "–" for hypothesis in hypotheses]

    buttons.nth(1).click()

    assert shown(page)[0] == hypotheses[1].text
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"

    page.click("#undo")
    page.wait_for_selector("#undo[hidden]", state="attached")

    model = translator.model
    (line,) = model.translate([LINE], model.options())
    (best,) = line.hypotheses
    open_words(page, 0)
    words = page.locator(".word-of-text")

    assert " ".join(words.all_text_contents()) == best.text

    words.nth(1).click()
    listed = page.locator("#choices [role=option]")
    listed.first.wait_for()
    likely = continuations(model, best, model.word_indices(best.ids, True).index(1))

    assert listed.count() >= 3

    is_selected = [item.get_attribute("aria-selected") for item in listed.all()]
    chosen = is_selected.index("false")
    listed.nth(chosen).click()
    page.wait_for_selector(".word-of-text:focus")

    assert page.locator("#choices-box").is_hidden()

    text = shown(page)[0]

    assert text == likely[chosen]

    explained = page.locator("#queries .word bdi").all_text_contents()

    assert explained == text.split(" "), "it is explained too"

    page.click("#undo")
    page.wait_for_selector("#undo[hidden]", state="attached")

    assert shown(page)[0] == best.text


@pytest.mark.slow
def test_sentences_and_continuations_are_chosen_by_pointer_and_keys(
    open_live: Callable[..., Any],
) -> None:
    page = open_live()
    put(page, f"{FIRST}\n{LINE}")
    before = shown(page)
    page.locator(".line-of-text").nth(1).hover()
    page.wait_for_selector("p:nth-child(2) .current")
    page.locator("#columns .word bdi", has_text="book").wait_for()
    page.mouse.move(0, 0)
    page.focus("#copy")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("p:nth-child(1) .current")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("p:nth-child(2) .current")
    page.keyboard.press("Enter")
    page.wait_for_selector(".word-of-text:focus")
    page.keyboard.press("ArrowRight")
    place = "[...document.querySelectorAll('.word-of-text')].indexOf(document.activeElement)"

    assert page.evaluate(place) == 1

    page.keyboard.press("Enter")
    page.wait_for_selector("#choices [aria-selected=true]:focus")
    page.keyboard.press("Escape")
    page.wait_for_selector(".word-of-text:focus")

    assert shown(page) == before

    page.keyboard.press(" ")
    page.wait_for_selector("#choices [role=option]:focus")
    page.keyboard.press("End")
    page.wait_for_selector("#choices [aria-selected=false]:focus")
    page.keyboard.press("Enter")
    page.wait_for_selector(".word-of-text:focus")

    assert shown(page)[0] == before[0]
    assert shown(page)[1] != before[1]

    page.keyboard.press("Control+z")
    page.wait_for_function(
        "text => document.querySelectorAll('.line-of-text')[1].textContent === text",
        arg=before[1],
    )
    page.wait_for_selector(".word-of-text >> nth=0")
    page.keyboard.press("Escape")

    assert page.locator(".word-of-text").count() == 0


def test_doubtful_translations_and_unsure_words_are_marked(
    open_live: Callable[..., Any],
    make: Make,
) -> None:
    page = open_live()
    runtime = RuntimeTranslator(make(precision="int8"), threads=1)
    translations = runtime.translate(SENTENCES)
    doubtful = [translation.doubtful for translation in translations]

    assert len({*doubtful}) == 2

    put(page, "\n".join(SENTENCES))
    marks = page.locator(".line-of-text").evaluate_all(
        "all => all.map(line => line.dataset.doubt === 'doubtful' && line.title !== '')"
    )

    assert marks == doubtful
    assert page.is_visible("#unlearnt")
    assert shown(page) == [translation.text or "–" for translation in translations]

    spans = page.locator(".line-of-text span")
    names = spans.evaluate_all("all => all.map(span => span.className)")

    assert {"unsure-1", "unsure-2", "unsure-3"}.issuperset(names)
    assert names

    page.uncheck("#unsure")

    assert spans.count() == 0


def test_sentences_have_the_bar_of_their_quality(
    open_page: Callable[..., Any], wasm: Path, tmp_path: Path, axe: str
) -> None:
    file = tmp_path / "model.regard"
    export(calibrated(tmp_path / "run"), file, precision="int8")
    model = LiveModel(file.read_bytes(), ("en", "ko"))
    page_file = tmp_path / "page.html"
    script = module_script()
    page_file.write_text(render_live_page([model], wasm.read_bytes(), script), "utf-8")
    page = open_page(page_file, "html[data-loaded]", offline=True)
    put(page, "\n".join([*SENTENCES, "12"]))
    results = RuntimeTranslator(file, threads=1).translate([*SENTENCES, "12"])
    levels = [
        "low" if result.doubtful else "high" if result.quality >= 0.8 else "middle"
        for result in results
    ]
    told = page.locator(".line-of-text").evaluate_all(
        "all => all.map(line => [line.dataset.quality, line.title, line.dataset.doubt ?? ''])"
    )

    assert [level for level, _, _ in told] == levels
    assert {*levels} >= {"low", "high"}

    for result, (_, title, doubt) in zip(results, told, strict=True):
        assert f"probability of {round(100 * result.quality)} %" in title
        assert (doubt == "doubtful") == result.doubtful

    legend = page.locator("#qualities span").all_text_contents()
    assert legend == ["probably good (80 % or more)", "unsure", "doubtful"]
    assert_accessible_and_narrow(page, axe)


UNPUNCTUATED = " ".join(["you read a book 나는 집에 간다"] * 60)
TYPE = """text => {
  const input = document.getElementById("input");
  input.value = text;
  input.dispatchEvent(new Event("input"));
  return document.getElementById("attention").hidden;
}"""
"""Returns whether the figure has gone with the keystroke."""


def test_what_is_typed_after_a_text_without_punctuation_is_translated_alone(
    open_live: Callable[..., Any],
    make: Make,
) -> None:
    page = open_live()
    page.wait_for_selector("#attention:not([hidden])")

    assert page.evaluate(TYPE, UNPUNCTUATED)
    assert page.evaluate(TYPE, LINE)

    page.wait_for_selector("#attention:not([hidden])")

    assert shown(page) == [expected(make(precision="int8"), LINE)]

    put(page, UNPUNCTUATED)
    page.wait_for_selector("#notes:not(:empty)")

    assert len(shown(page)) == 1
    assert "translated in parts" in page.inner_text("#notes")
    assert not page.is_visible("#attention"), "of parts there is no figure"


WATCH = """text => {
  window.beats = 0;  // so often did the page look whether there is something else to do
  window.counts = [];  // of sentences that are translated
  (function beat() { beats += 1; setTimeout(beat); })();
  const find = (id) => document.getElementById(id), parts = { childList: true, characterData: true, subtree: true };
  const write = (value) => { find("input").value = value; find("input").dispatchEvent(new Event("input")); };
  new MutationObserver(() => { window.began ??= beats; })
    .observe(find("translation"), { attributes: true, attributeFilter: ["aria-busy"] });
  new MutationObserver(() => {
    if (!find("progress").textContent) return;
    window.shown ??= beats;
    if (counts.push(parseInt(find("progress").textContent)) === 5) write("I go home.");
  }).observe(find("progress"), parts);
  write(text);
}"""


@pytest.mark.slow
def test_a_long_text_never_blocks_the_page(open_live: Callable[..., Any]) -> None:
    """It looks at the keyboard between two parts of a text, and leaves that once there is a newer
    one.
    """
    page = open_live()
    lines = [
        f"I go home {number}.\nyou read a book {number}." for number in range(1800)
    ]
    page.evaluate(WATCH, "\n".join(lines))
    # It began with a short one.
    wait_until(lambda: page.evaluate("counts.length >= 5"), "the long text is begun")
    page.wait_for_selector(DONE + ":only-child")
    page.wait_for_selector("#translation[aria-busy=false]")

    assert page.evaluate("shown - began") >= 3, "the lines are laid out in parts"

    counts = page.evaluate("counts")

    assert counts[0] == 0
    assert max(counts) < 3000, "the older text is left when a newer one comes"


@pytest.mark.slow
def test_an_old_browser_is_told_in_a_sentence(open_live: Callable[..., Any]) -> None:
    page = open_live("#unsupported:not([hidden])", script="delete window.WebAssembly")
    assert page.inner_text("#unsupported").startswith(
        "This browser cannot run the translator"
    )
    assert not page.is_visible("#live")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"locale": "ko-KR", "color_scheme": "dark", "has_touch": True},
    ],
    ids=["light", "dark"],
)
def test_it_is_accessible_fits_a_phone_and_prints(
    open_live: Callable[..., Any],
    axe: str,
    options: dict[str, Any],
) -> None:
    page = open_live(**options)
    page.wait_for_selector("#attention:not([hidden])")

    assert page.inner_text("#title") == (
        "영어 → 한국어" if options else "English → Korean"
    )

    page.click("#alternatives-name")
    page.click("summary[data-text=about]")
    page.click("#open-player")
    page.wait_for_selector("#player:not([hidden])")
    open_words(page, 0)
    page.locator(".word-of-text").first.click()
    page.wait_for_selector("#choices [role=option]:focus")
    assert_accessible_and_narrow(page, axe)
    small = page.locator("button:visible, select:visible").evaluate_all(
        "all => all.filter(b => b.getBoundingClientRect().height < 40).map(b => b.outerHTML)"
    )

    assert small == [], "a finger finds each"

    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")

    assert page.inner_text("#printed") == FIRST
    assert not page.is_visible("#input")
