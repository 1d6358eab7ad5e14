"""The live page in a real browser, from disk and without a network: typing, pasting, pointing,
keys, two directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from limits import wait_until
from small import SENTENCES

from regard.explain.explanation import _steps
from regard.model_folder import load_folder
from regard.pipeline import RuntimeTranslator
from regard.runtime.model import Constraints
from regard.visualisation.explanation_data import _step
from regard.visualisation.live_page import LiveModel, Trust, render_live_page

pytestmark = pytest.mark.system
TRUST = Trust(12, {"gradient × input": 0.456, "word erasure": -0.2})
LINE = "you read a book"  # of several words with the random weights
FIRST = "I go home."
SECOND = "나는 집에 간다."
PROPOSED = (FIRST, "You read a book.")
DONE = "#translation[aria-busy=false] .line-of-text:not(.pending)"
HOVER = 120
"""Milliseconds after which the page takes a sentence for hovered."""
ALIGNMENT = {
    "layer": "decoder.layers.0.cross_attention",
    "head": 1,
    "shifted": False,
    "symmetry": None,
}


@pytest.fixture(scope="module")
def page_file(
    wasm: Path, make: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Write a page with two directions: the second model is recurrent."""
    models = [
        LiveModel(
            make(precision="int8").read_bytes(),
            ("en", "ko"),
            ALIGNMENT,
            PROPOSED,
            "# A card",
            {"size": "1 MB"},
            TRUST,
        ),
        LiveModel(
            make("recurrent", "recurrent", "int8").read_bytes(), ("ko", "en"), None, (SECOND,)
        ),
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
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("file:", "blob:")) or problems.append(request.url)
            ),
        )
        if script:
            page.add_init_script(script)
        page.goto(page_file.as_uri())
        page.wait_for_selector(wait)
        return page

    yield open_file
    assert problems == []
    for context in browser.contexts:  # pages that go on running slow down those of other tests
        context.close()


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


def is_current(span: Any) -> bool:
    return "current" in str(span.get_attribute("class")).split()


def test_it_translates_the_example_and_what_is_typed(
    open_page: Any, make: Callable[..., Path]
) -> None:
    page = open_page()
    model = make(precision="int8")
    assert page.title() == page.inner_text("#title") == "English → Korean"
    assert shown(page) == [expected(model, FIRST)]
    page.click("#input")
    page.keyboard.type("I was eating bread. You read a book", delay=5)  # the example is replaced
    page.wait_for_selector(DONE)
    assert page.input_value("#input") == "I was eating bread. You read a book"
    assert shown(page) == [
        expected(model, "I was eating bread."),
        expected(model, "You read a book"),
    ]
    assert is_current(page.locator(".line-of-text").nth(1))


@pytest.mark.parametrize(
    "codes", [("en-12", "ko-34"), ("zxx_", "xx-abcdefghi"), ("english (US)", "한국어"), ("e", "-")]
)
def test_languages_whose_codes_are_none_are_translated_all_the_same(
    browser: Any, wasm: Path, make: Callable[..., Path], tmp_path: Path, codes: tuple[str, str]
) -> None:
    path = tmp_path / "translator.html"
    problems = list[str]()
    model = LiveModel(make(precision="int8").read_bytes(), codes, ALIGNMENT, PROPOSED)
    path.write_text(render_live_page([model], wasm.read_bytes()), encoding="utf-8")
    page = browser.new_context(locale="en-GB", offline=True).new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector(f"html[data-loaded] {DONE}")
    page.click("#input")
    page.keyboard.type("I was eating bread. You read a book")
    page.locator(".line-of-text:not(.pending)").nth(1).wait_for()
    page.wait_for_selector(DONE)
    translated = make(precision="int8")
    assert shown(page) == [
        expected(translated, "I was eating bread."),
        expected(translated, "You read a book"),
    ]
    assert problems == []
    page.context.close()


def test_sentences_to_try_are_translated_by_a_click(open_page: Any) -> None:
    page = open_page()
    assert page.locator("#examples .chip").all_inner_texts() == list(PROPOSED)
    page.click("#examples .chip >> nth=1")
    page.wait_for_function(
        "text => document.querySelector('#input').value === text", arg=PROPOSED[1]
    )
    page.click("#switch")
    # Of one sentence there is nothing to choose.
    page.wait_for_selector("#examples", state="hidden")


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
    page = open_page()
    sentence = "I was eating bread"
    put(page, sentence)
    page.wait_for_selector("#attention:not([hidden])")
    (translation,) = RuntimeTranslator(make(precision="int8"), threads=1).translate(
        sentence, readings=True
    )
    readings = translation.readings
    assert readings is not None
    assert page.locator("#columns .word bdi").all_text_contents()[
        : len(readings.source_text)
    ] == list(readings.source_text)
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
    note = page.inner_text("#agreement")
    assert "not what its output depends on" in note
    assert "measured on 12 other sentences" in note
    assert "gradient × input 0.46, word erasure −0.20" in note
    page.click("#switch")
    page.wait_for_selector(DONE)
    page.wait_for_function("!document.getElementById('agreement').textContent.includes('12')")


def test_the_pointer_and_keys_choose_the_sentence(open_page: Any) -> None:
    page = open_page()
    put(page, "I go home. You read a book.")
    first, second = page.locator(".line-of-text").all()
    first.hover()
    page.wait_for_selector(".line-of-text:nth-child(1).current")
    page.locator("#columns .word bdi", has_text="home.").wait_for()
    second.click()
    page.locator("#columns .word bdi", has_text="book.").wait_for()
    first.hover()  # the second one is pinned
    page.evaluate("delay => new Promise((done) => { setTimeout(done, delay); })", HOVER)
    assert is_current(second), (
        "the timer that hovering sets would have fired: timers of a page fire in their order"
    )
    page.keyboard.press("Escape")
    page.mouse.move(0, 0)
    first.hover()
    page.wait_for_selector(".line-of-text:nth-child(1).current")
    page.mouse.move(0, 0)
    page.focus("#copy")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".line-of-text:nth-child(2).current")


def test_alternatives_replace_the_translation(open_page: Any, make: Callable[..., Path]) -> None:
    page = open_page()
    sentence = "I was eating bread"
    put(page, sentence)
    options = (
        RuntimeTranslator(make(precision="int8"), threads=1).translate(sentence, nbest=3)[0].nbest
    )
    page.wait_for_selector("#alternatives:not([hidden])")
    page.click("#alternatives-name")
    buttons = page.locator("#ranked button")
    assert buttons.locator("span:first-child").all_text_contents() == [
        option.text or "–" for option in options
    ]
    buttons.nth(1).click()
    assert shown(page) == [options[1].text]
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"


def test_another_continuation_of_a_word_replaces_the_rest_and_is_undone(
    open_page: Any, make: Callable[..., Path]
) -> None:
    page = open_page()
    model = RuntimeTranslator(make(precision="int8"), threads=1).model
    options = model.options()
    (line,) = model.translate([LINE], options)
    (best,) = line.hypotheses
    words = model.word_indices(best.ids, True)
    put(page, f"{LINE}\n{FIRST}")
    open_words(page, 0)
    buttons = page.locator(".word-of-text")
    assert " ".join(buttons.all_text_contents()) == best.text
    buttons.nth(1).click()
    listed = page.locator("#choices [role=option]")
    listed.first.wait_for()
    first = words.index(1)
    options.trace = options.beam = 1
    (greedy,) = model.translate([LINE], options, [Constraints.of_prefix(best.ids[:first])])
    likely = [c for c in greedy.steps[first].candidates if c.token != 3]
    options = model.options()
    expected = []
    for candidate in likely[:7]:
        (other,) = model.translate(
            [LINE], options, [Constraints.of_prefix([*best.ids[:first], candidate.token])]
        )
        text = best.text if candidate.token == best.ids[first] else other.hypotheses[0].text
        if text not in [known for known, _ in expected]:
            expected.append((text, exp(candidate.log_prob)))
    assert listed.count() >= 3
    shares = [
        float(text.strip("<> %")) / 100 for text in listed.locator(".share").all_text_contents()
    ]
    assert shares == pytest.approx(
        [max(0.01, share) for _, share in expected[: len(shares)]], abs=0.0051
    )
    chosen = next(
        i for i in range(listed.count()) if listed.nth(i).get_attribute("aria-selected") == "false"
    )
    listed.nth(chosen).click()
    page.wait_for_selector(".word-of-text:focus")
    assert page.locator("#choices-box").is_hidden()
    changed = shown(page)
    assert changed[0] == expected[chosen][0]
    assert page.locator("#queries .word bdi").all_text_contents() == changed[0].split(" "), (
        "it is explained too"
    )
    page.click("#undo")
    page.wait_for_selector("#undo[hidden]", state="attached")
    assert shown(page)[0] == best.text
    assert page.evaluate("document.getElementById('translation').textContent").count(best.text) == 1


def test_continuations_work_by_keyboard(open_page: Any) -> None:
    page = open_page()
    put(page, f"{FIRST}\n{LINE}")
    before = shown(page)
    page.focus("#copy")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("p:nth-child(2) .current")
    page.keyboard.press("Enter")
    page.wait_for_selector(".word-of-text:focus")
    page.keyboard.press("ArrowRight")
    assert (
        page.evaluate(
            "[...document.querySelectorAll('.word-of-text')].indexOf(document.activeElement)"
        )
        == 1
    )
    assert page.locator(".word-of-text[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices [role=option]:focus")
    assert page.get_attribute("#choices [role=option]:focus", "aria-selected") == "true"
    page.keyboard.press("Escape")
    page.wait_for_selector(".word-of-text:focus")
    assert shown(page) == before
    page.keyboard.press(" ")
    page.wait_for_selector("#choices [role=option]:focus")
    page.keyboard.press("End")
    assert page.get_attribute("#choices [role=option]:focus", "aria-selected") == "false"
    page.keyboard.press("Enter")
    page.wait_for_selector(".word-of-text:focus")
    assert shown(page)[0] == before[0]
    assert shown(page)[1] != before[1]
    page.keyboard.press("Control+z")
    page.wait_for_function(
        "text => document.querySelectorAll('.line-of-text')[1].textContent === text", arg=before[1]
    )
    page.wait_for_selector(".word-of-text >> nth=0")
    page.keyboard.press("Escape")
    assert page.locator(".word-of-text").count() == 0
    page.fill("#input", FIRST)
    page.wait_for_selector(DONE)


def test_doubtful_translations_are_marked(open_page: Any, make: Callable[..., Path]) -> None:
    page = open_page()
    runtime = RuntimeTranslator(make(precision="int8"), threads=1)
    translations = runtime.translate(SENTENCES)
    doubtful = [translation.doubtful for translation in translations]
    assert len({*doubtful}) == 2
    put(page, "\n".join(SENTENCES))
    mark = page.locator(".line-of-text").evaluate_all(
        "all => all.map(line => [line.dataset.doubt ?? '', line.title !== ''])"
    )
    assert mark == [["not learnt" if is_doubtful else "", is_doubtful] for is_doubtful in doubtful]
    assert page.is_visible("#unlearnt")
    assert shown(page) == [translation.text or "–" for translation in translations], (
        "the mark is not part of the text"
    )


def test_unsure_words_are_underlined(open_page: Any, make: Callable[..., Path]) -> None:
    page = open_page()
    model = RuntimeTranslator(make(precision="int8"), threads=1).model
    put(page, LINE)
    (line,) = model.translate([LINE], model.options())
    (best,) = line.hypotheses
    shares = [0.0] * len(best.text.split(" "))
    for word, log_prob in zip(model.word_indices(best.ids, True), best.log_probs, strict=True):
        shares[word] += log_prob
    levels = [sum(exp(share) < limit for limit in (0.7, 0.4, 0.2)) for share in shares]
    assert any(levels)
    marked = [f"unsure-{level}" for level in levels if level]
    assert (
        page.locator(".line-of-text span").evaluate_all("all => all.map(span => span.className)")
        == marked
    )
    page.uncheck("#unsure")
    assert page.locator(".line-of-text span").count() == 0
    assert shown(page) == [best.text]


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_the_player_shows_the_search(open_page: Any, make: Callable[..., Path], rank: int) -> None:
    page = open_page()
    runtime = RuntimeTranslator(make(precision="int8"), threads=1)
    put(page, LINE)
    assert page.locator("#player").is_hidden()
    page.click("#open-player")
    page.wait_for_selector("#player:not([hidden])")
    page.click("#alternatives-name")
    page.click(f"#ranked button >> nth={rank}")
    if page.is_visible("#pieces"):  # some word has several
        page.check("#pieces")
    vocabulary = load_folder(make(precision="int8").with_suffix("")).tokenizer.target
    _, steps = runtime.trace(LINE)
    tokens = [*runtime.translate(LINE, nbest=3)[0].nbest[rank].tokens, "</s>"]
    for number, step in enumerate(map(_step, _steps(vocabulary, tokens, steps))):
        page.fill("#step", str(number + 2))  # after two layers of the encoder
        names = [token.strip() or "␣" for token, _, _ in step["candidates"]]
        assert page.locator("#mechanism .candidate").all_text_contents() == [
            n.replace("</s>", "⟨end⟩") for n in names
        ]
        kinds = [f"{fate}{' wins' if wins else ''}" for *_, fate, wins in step["nodes"]]
        drawn = page.locator("#tree g g").evaluate_all(
            "all => all.map(group => group.getAttribute('class'))"
        )
        assert [kind.replace(" current", "") for kind in drawn[-len(kinds) :]] == kinds
    page.click("#open-player")
    page.wait_for_selector("#player", state="hidden")


def test_the_player_shows_the_states_and_scores_of_a_recurrent_model(
    open_page: Any, make: Callable[..., Path]
) -> None:
    page = open_page()
    runtime = RuntimeTranslator(make("recurrent", "recurrent", "int8"), threads=1)
    page.click("#switch")
    put(page, SECOND)
    page.click("#open-player")
    page.wait_for_selector("#mechanism svg")
    options = runtime.model.options()
    options.attention = options.states = 1
    (line,) = runtime.model.translate([SECOND], options)
    states = line.hypotheses[0].states
    readings = runtime.trace(SECOND)[0].readings
    assert states is not None
    assert states.encoder is not None
    assert readings is not None
    tokens, directions, _ = states.encoder.shape
    words = [*range(len(readings.source_text)), -1]
    painted = "() => document.querySelectorAll('#mechanism .lit rect.frame').length"
    for step in range(tokens):
        page.fill("#step", str(step))
        places = {
            word: [t for t, own in enumerate(readings.source_words) if own == word]
            for word in words
        }
        read = [
            (places[w][-1] <= step) + (directions == 2 and places[w][0] >= tokens - 1 - step)
            for w in words
        ]
        assert page.evaluate(painted) == sum(read), (
            "each direction has the states of what it has read"
        )
    page.fill("#step", str(tokens))
    assert page.evaluate(painted) == directions * len(words) + 2, (
        "the state that asks, and the next one"
    )
    (scores,) = readings.scores[readings.layers("cross")[0]][:, 0][None]
    sums = [
        np.logaddexp.reduce(scores[0][np.asarray(readings.source_words) == word]) for word in words
    ]
    texts = page.locator("#mechanism rect.score + text").all_text_contents()
    shown_scores = [float(text.removeprefix("< ").replace("−", "-")) for text in texts]
    assert shown_scores == pytest.approx(sums, abs=0.06)


def test_two_directions(open_page: Any, make: Callable[..., Path]) -> None:
    page = open_page()
    (korean,) = shown(page)
    page.click("#switch")
    page.wait_for_selector(DONE)
    assert page.inner_text("#title") == "Korean → English"
    assert page.input_value("#input") == korean
    put(page, SENTENCES[0])
    assert shown(page) == [expected(make("recurrent", "recurrent", "int8"), SENTENCES[0])]


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


def test_a_long_text_never_blocks_the_page(open_page: Any) -> None:
    """It looks at the keyboard between two parts of a text, and leaves that once there is a newer
    one.
    """
    page = open_page()
    text = "\n".join(
        f"{sentence} {number}."
        for number in range(1800)
        for sentence in ("I go home", "you read a book")
    )
    assert len(text) > 60_000
    page.evaluate(WATCH, text)
    # It began with a short one.
    wait_until(lambda: page.evaluate("counts.length >= 5"), "the long text is begun")
    page.wait_for_selector(DONE + ":only-child")
    page.wait_for_selector("#translation[aria-busy=false]")
    assert shown(page) == shown(page)[:1]
    assert page.evaluate("shown - began") >= 3, (
        "the lines are laid out in parts, between which the page goes on"
    )
    counts = page.evaluate("counts")
    assert counts[0] == 0
    assert max(counts) < 3000, "the older text is left when a newer one comes"


@pytest.mark.slow
def test_it_fits_a_phone_in_korean_and_dark(open_page: Any) -> None:
    page = open_page(
        viewport={"width": 400, "height": 800}, locale="ko-KR", color_scheme="dark", has_touch=True
    )
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


@pytest.mark.slow
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
    assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == [
        "",
        0,
        0,
    ]
    assert page.evaluate("indexedDB.databases().then(all => all.length)") == 0


@pytest.mark.parametrize(
    "context",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"color_scheme": "dark", "viewport": {"width": 400, "height": 800}, "locale": "ko-KR"},
    ],
)
def test_axe_finds_nothing(open_page: Any, axe: str, context: dict[str, Any]) -> None:
    page = open_page(**context)
    page.wait_for_selector("#attention:not([hidden])")
    page.click("#alternatives-name")
    page.click("summary[data-text=about]")
    page.click("#open-player")
    page.wait_for_selector("#player:not([hidden])")
    open_words(page, 0)
    page.locator(".word-of-text").first.click()
    page.wait_for_selector("#choices [role=option]:focus")
    page.evaluate(axe)
    violations = page.evaluate(
        "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
    )
    assert violations == []
