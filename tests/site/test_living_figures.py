"""Living figures in a browser: by mouse, touch and keyboard, with bad input, printed, and without
scripts.
"""

from __future__ import annotations

import base64
import gzip
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.browser import (
    assert_accessible_and_narrow,
    assert_readable_in_the_dark,
)
from repository.pages import DOCS, ROOT

from regard.runtime import native
from regard.runtime.module_script import module_script

living = pytest.importorskip(
    "living", reason="Sphinx is not installed: pip install '.[site]'"
)
from figures import dictionary  # noqa: E402

pytestmark = pytest.mark.system
ALIVE = "figure[data-alive]"
STYLES = ("site.css", "figures.css")
SENTENCE = "One sentence about the figure."
BAD = ["NaN", "Infinity", "-inf", "1e999", "9" * 1000, "1,5", "x", "0x10", "−"]
PHONE = {
    "viewport": {"width": 400, "height": 800},
    "has_touch": True,
    "color_scheme": "dark",
}
PAGE = """<!doctype html><html lang="{language}" style="color-scheme: light dark"><head><meta charset="utf-8"><title>Figure</title>
<meta name="viewport" content="width=device-width">
<style>{style}</style></head>
<body><main><h1>Figure</h1>
{figure}<p>{sentence}</p></figcaption></figure></main>
<script src="_static/living.js"></script></body></html>"""
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what a site loads for its figures."""
    folder = tmp_path_factory.mktemp("figures")
    static = folder / "_static"
    static.mkdir()
    for name in (*STYLES, "living.js"):
        shutil.copy(ROOT / "site" / "static" / name, static)
    shutil.copy(ROOT / "site" / "static" / "NotoSansMath.woff", folder)
    builder = SimpleNamespace(name="html")
    living.write(SimpleNamespace(builder=builder, outdir=folder), None)
    write_library(static / "translator")
    return folder


def write_library(folder: Path) -> None:
    """Write the library as `live.write` does, without the model of the start page."""
    try:
        wasm = native.wasm_file().read_bytes()
    except RuntimeError as problem:
        pytest.skip(str(problem))
    folder.mkdir()
    script = f"window.regard = (() => {{ {module_script()}\nreturn {{ load }}; }})();"
    (folder / "regard.js").write_text(script, encoding="utf-8")
    packed = base64.b64encode(gzip.compress(wasm, mtime=0)).decode("ascii")
    files = f'window.regardFiles = {{"regard.wasm": "{packed}"}};'
    (folder / "files.js").write_text(files, encoding="utf-8")


@pytest.fixture
def open_figure(open_page: Open, folder: Path) -> Open:
    """Return a function that opens a page with one figure; axe cannot read styles from disk."""
    sheets = [folder / "_static" / name for name in ("living.css", *STYLES)]
    style = "\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets)

    def open_one(
        name: str,
        language: Any = "en",
        wait: str = ALIVE,
        state: str = "",
        **options: Any,
    ) -> Any:
        path = folder / f"{name}.{language}.html"
        opening = living.opening_of(name, language, "", SENTENCE, state)
        text = PAGE.format(
            language=language,
            style=style,
            figure=opening,
            sentence=SENTENCE,
        )
        path.write_text(text, encoding="utf-8")
        return open_page(path, wait=wait, **options)

    return open_one


def test_every_figure_of_the_documentation_exists() -> None:
    """In both languages, with its data."""
    for path in DOCS.glob("**/*.md"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^`{3,}\{living\} *(\S+)", text, re.MULTILINE):
            assert name in living.names(), f"{path.name}: {name}"
    for name in living.names():
        assert (living.FIGURES / "data" / f"{name}.json").is_file(), name
        drawings = living.FIGURES / "stills"
        wanted = {
            living.make_figures.still_name(name, state, language)
            for state in living.make_figures.states(name)
            for language in ("en", "ko")
        }
        written = {
            path.name.replace(".narrow", "") for path in drawings.glob(f"{name}.*")
        }
        assert written == wanted, f"python site/make_figures.py --stills {name}"


@pytest.mark.parametrize("language", ["ko", pytest.param("en", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", living.names())
def test_a_figure_is_accessible_on_a_phone_and_wide_and_printed_as_its_still(
    open_figure: Open, axe: str, name: str, language: str
) -> None:
    page = open_figure(name, language, color_scheme="light")

    assert not page.locator(".still").is_visible()
    assert page.locator(".alive").inner_text().strip()
    assert_accessible_and_narrow(page, axe)
    assert_readable_in_the_dark(page)

    page.emulate_media(media="print")

    assert page.locator(".still").is_visible()
    assert page.evaluate("document.querySelector('.still').naturalWidth") > 100
    assert not page.locator(".alive").is_visible()
    assert page.locator("figcaption").is_visible()


@pytest.mark.parametrize("language", ["en", "ko"])
def test_without_scripts_there_is_a_still_and_a_sentence(
    open_figure: Open, language: str
) -> None:
    page = open_figure("scale", language, wait="figure", java_script_enabled=False)

    assert page.locator(".still").is_visible()
    assert page.locator(".still").get_attribute("alt") == SENTENCE
    assert "JavaScript" in page.locator("noscript").inner_text()
    assert page.locator("figcaption").inner_text() == SENTENCE


def test_each_state_of_a_page_has_its_own_still() -> None:
    """A drawing that differs from that of the plain figure."""
    for name in living.names():
        states = living.make_figures.states(name)
        drawings = set()
        for state in states:
            opening = living.opening_of(name, "en", "", SENTENCE, state)
            (address,) = re.findall(r'class="still"[^>]* src="([^"]*)"', opening)
            still = living.FIGURES / "stills" / Path(address).name
            drawings.add(still.read_text(encoding="utf-8"))

        assert len(drawings) == len(states), name


def test_figures_of_one_page_keep_their_own_choices(
    open_figure: Open, folder: Path
) -> None:
    page = open_figure("scale")
    chosen = page.locator(".choice input:checked")
    assert chosen.count() == 1

    opening = living.opening_of("three-trainings", "en", "", SENTENCE)
    page.evaluate(
        """html => {
          document.querySelector("main").insertAdjacentHTML("beforeend", html);
          const script = document.createElement("script");
          script.src = "_static/living.js";
          document.body.append(script);
        }""",
        f"{opening}<p>{SENTENCE}</p></figcaption></figure>",
    )
    page.wait_for_selector("figure[data-figure=three-trainings][data-alive]")
    groups = page.locator(".choice")
    for number in range(groups.count()):
        assert groups.nth(number).locator("input:checked").count() == 1


def test_a_figure_that_cannot_be_drawn_says_so(open_figure: Open, folder: Path) -> None:
    """If its script is missing, and if it fails."""
    (folder / "_static" / "figures" / "broken.en.js").write_text(
        "livingFigures.broken = { draw() { throw new Error('no SIMD'); } };", "utf-8"
    )
    for name, reason in (("missing", "missing.en.js"), ("broken", "no SIMD")):
        page = open_figure(name, wait="figure[data-failed]")

        assert reason in page.locator(".note").last.inner_text()
        assert page.locator("figcaption").inner_text() == SENTENCE
        assert page.locator(".alive").count() == 0


# --- board


def test_a_field_of_the_board_opens_its_training(open_figure: Open) -> None:
    """By mouse, by arrow keys and by touch."""
    page = open_figure("board")
    facts = page.locator(".facts")
    page.get_by_role(
        "button", name="no norm, with warm-up, learning rate 0.008"
    ).click()
    assert "27.8" in facts.inner_text()
    assert "warm-up of 60 updates" in facts.inner_text()

    page.keyboard.press("ArrowRight")
    assert "0.016" in facts.inner_text()
    page.keyboard.press("ArrowDown")
    assert "layer norm before" in facts.inner_text()
    assert "full rate from the first update" in facts.inner_text()
    pressed = page.locator("table.board [aria-pressed=true]")
    assert pressed.count() == 1
    assert pressed.evaluate("node => node === document.activeElement")

    phone = open_figure("board", "ko", **PHONE)
    phone.locator("table.board button").first.tap()
    assert "4.5" in phone.locator(".facts").inner_text()


# --- three trainings


def test_three_trainings_follow_what_is_chosen(open_figure: Open) -> None:
    """By keyboard and by touch: another sentence, word and layer, and heads lined up."""
    page = open_figure("three-trainings")
    caption = page.locator("table.heads caption")
    status = page.locator(".alive > p[role=status]")
    assert "“build”" in caption.inner_text()

    page.locator(".choice input:checked").first.focus()
    page.keyboard.press("ArrowRight")
    assert "“she”" in caption.inner_text()
    assert page.locator("table.heads tbody tr").count() == 8

    # By hand: training 1 has three such heads, as have 2 and 3, for 8 words.
    assert f"{8 * (1 - (7 / 8) ** 3) ** 3:.2f} on average" in status.inner_text()

    before = page.locator("table.heads thead tr").last.inner_text()
    page.get_by_role("checkbox").check()
    assert "training 2: " in status.inner_text()
    assert page.locator("table.heads thead tr").last.inner_text() != before

    phone = open_figure("three-trainings", "ko", **PHONE)
    phone.get_by_label("yesterday", exact=True).tap()
    assert "‘yesterday’" in phone.locator("table.heads caption").inner_text()


# --- two models


def test_two_models_translate_what_is_typed_and_show_each_step(
    open_figure: Open,
) -> None:
    page = open_figure("two-models", reduced_motion="reduce")
    outputs = page.locator(".pair .output")
    field = page.get_by_label("Type a Korean sentence")
    field.fill("나는 빵을 먹고 있었다")
    assert outputs.all_inner_texts() == ["I was eating bread"] * 2
    # The end of the sentence, and from the end its first word.
    assert page.locator(".source .read").all_inner_texts() == ["나는"]

    slider = page.get_by_label("Step", exact=True)
    slider.focus()
    page.keyboard.press("ArrowRight")
    notes = page.locator(".pair .note")
    assert ["predicts I" in note for note in notes.all_inner_texts()] == [True, True]
    assert "attends to 나는" in notes.last.inner_text()
    assert "attends" not in notes.first.inner_text()
    assert page.locator(".mechanism .candidate.chosen").all_text_contents() == ["I"] * 2

    page.get_by_role("button", name="Step forward").click()
    assert "predicts was" in notes.last.inner_text()


def test_two_models_draw_every_word_in_its_place_at_every_step(
    open_figure: Open,
) -> None:
    """The longest sentence, opened by the page; words that a translation lacks are listed."""
    for options in ({}, {"viewport": {"width": 400, "height": 800}}):
        page = open_figure("two-models", state="example=3", **options)
        words = page.get_by_label("Type a Korean sentence").input_value().split()
        places = set()
        slider = page.get_by_label("Step", exact=True)
        for step in (0, 5, 14, 20):
            slider.fill(str(step))
            texts = page.locator(".with .mechanism text[lang=ko]")
            assert texts.all_text_contents() == words
            places.add(
                str(texts.evaluate_all("nodes => nodes.map(n => n.getAttribute('x'))"))
            )

            assert_apart(page)

        assert len(places) == 1
        missing = page.locator(".outputs .missing")
        assert "map" in missing.first.inner_text()
        assert "map" not in missing.last.inner_text()


def assert_apart(page: Any) -> None:
    """Both diagrams are on one screen of 800 pixels, or one is, and no control covers them."""
    boxes = [
        part.bounding_box() for part in page.locator(".mechanism svg:visible").all()
    ]
    assert len(boxes) == (1 if page.viewport_size["width"] == 400 else 2)
    steps = page.locator(".steps").bounding_box()
    outputs = page.locator(".outputs").bounding_box()
    assert outputs["y"] + outputs["height"] <= steps["y"]
    for box in boxes:
        assert box["y"] >= steps["y"] + steps["height"]
        assert box["y"] + box["height"] - steps["y"] <= 800
    assert len({box["y"] for box in boxes}) == 1
    assert sum(box["width"] for box in boxes) <= page.viewport_size["width"]


LOW = {"viewport": {"width": 1366, "height": 768}}


def test_controls_stay_in_sight_of_what_they_change_on_a_low_screen(
    open_figure: Open,
) -> None:
    """The slider beside the next word of two models; steps and loss beside the last numbers."""
    page = open_figure("two-models", state="example=3", **LOW)
    page.locator(".with rect.next").evaluate("node => node.scrollIntoView(false)")

    assert_in_sight(page, page.get_by_label("Step", exact=True))
    assert_in_sight(page, page.locator(".with rect.next"))

    page = open_figure("numbers-to-loss", **LOW)
    last = page.locator(".walkthrough section:visible table").last
    last.evaluate("node => node.scrollIntoView(false)")
    for part in (last, page.get_by_text("Loss: "), page.get_by_text("Mask").first):
        assert_in_sight(page, part)
    previous = page.locator(".walkthrough #controls button").first
    assert_in_sight(page, previous)


def assert_in_sight(page: Any, part: Any) -> None:
    """The whole of it is on the screen, and nothing covers its middle."""
    box = part.bounding_box()
    assert box["y"] >= -1
    assert box["y"] + box["height"] <= page.viewport_size["height"] + 1
    is_top = """node => {
      const { x, y, width, height } = node.getBoundingClientRect();
      const top = document.elementFromPoint(x + width / 2, y + height / 2);
      return (node.closest("svg") ?? node).contains(top);
    }"""
    assert part.evaluate(is_top)


def test_labels_of_many_words_stay_within_the_diagram(open_figure: Open) -> None:
    """At each step: numbers below the first bar, and the product beside the next word."""
    page = open_figure("two-models", state="example=3", **LOW)
    slider = page.get_by_label("Step", exact=True)
    for step in range(int(slider.get_attribute("max")) + 1):
        slider.fill(str(step))
        for side in ("with", "without"):
            diagram = page.locator(f".{side} .mechanism svg")
            edge = diagram.bounding_box()["x"]
            lefts = diagram.locator("text:not([transform])").evaluate_all(
                "nodes => nodes.map(node => node.getBoundingClientRect().x)"
            )
            assert min(lefts) >= edge - 0.5, (side, step)
            product = diagram.locator("#product")
            if product.count():
                box, word = product.bounding_box(), diagram.locator("rect.next")
                assert box["x"] + box["width"] <= word.bounding_box()["x"]


def test_a_wrong_word_looks_otherwise_than_an_unsure_one(open_figure: Open) -> None:
    """A word that is both has both marks, and the legend shows each alone."""
    page = open_figure("two-models", state="example=3")
    look = """node => {
      const { boxShadow, textDecorationLine, textDecorationStyle } = getComputedStyle(node);
      return [boxShadow !== "none", textDecorationLine !== "none" && textDecorationStyle];
    }"""
    legend = page.locator(".legend")
    assert legend.locator("mark").evaluate(look) == [True, False]
    assert legend.locator(".unsure").evaluate(look) == [False, "dotted"]

    words = page.locator(".outputs .output > *")
    looks = words.evaluate_all(f"nodes => nodes.map({look})")
    reference = page.locator(".reference").inner_text().split()
    for word, (is_framed, _) in zip(words.all_inner_texts(), looks, strict=True):
        assert is_framed == (word not in reference)
    assert [True, "dotted"] in looks
    assert [False, "dotted"] in looks


def test_two_models_open_where_a_page_says(open_figure: Open) -> None:
    """With the model without attention, which has read two words."""
    state = "model=without read=1"
    page = open_figure("two-models", state=state, reduced_motion="reduce")

    assert page.locator(".pair[data-shown=without]").count() == 1
    assert page.get_by_role("slider", name="Step").input_value() == "1"
    page.close()


def test_two_models_say_where_bars_of_scores_begin(open_figure: Open) -> None:
    """The number that they begin at is 6.9 below that of the highest bar."""
    page = open_figure("two-models", state="example=1")
    page.get_by_label("Step", exact=True).fill("9")
    texts = page.locator(".with .mechanism text").all_text_contents()
    (first,) = (text[len("bars from ") :] for text in texts if "bars from " in text)
    bars = page.locator(".with .mechanism rect.score")
    tallest = max(float(bar.get_attribute("height")) for bar in bars.all())
    assert tallest == pytest.approx(34)
    numbers = [text.replace("−", "-") for text in texts]
    scores = numbers[: numbers.index("softmax")]
    highest = max(float(text) for text in scores if re.fullmatch(r"-?\d+\.\d", text))
    assert highest - float(first.replace("−", "-")) == pytest.approx(6.9, abs=0.06)
    assert "6.9 below" in page.locator(".alive > .note").last.inner_text()


def test_two_models_play_and_take_an_example_by_touch(open_figure: Open) -> None:
    page = open_figure("two-models", "ko", **PHONE)
    page.locator(".chips button").last.tap()
    page.locator(".pair mark").first.wait_for()
    assert "정답: " in page.locator(".reference").inner_text()

    slider = page.get_by_label("단계", exact=True)
    slider.fill("0")
    page.get_by_role("button", name="재생").tap()
    moved = (
        "node => new Promise(done => setInterval(() => node.value > 1 && done(), 50))"
    )
    slider.evaluate(moved)
    page.get_by_role("button", name="멈춤").tap()


def test_two_models_say_what_is_unsure_and_what_is_not_korean(
    open_figure: Open,
) -> None:
    page = open_figure("two-models", reduced_motion="reduce")
    field = page.get_by_label("Type a Korean sentence")
    field.fill("선생님이 학교에서 책을 읽었다")
    page.locator(".outputs .unsure").first.wait_for()
    shown = page.locator(".outputs section").last
    unsure = shown.locator(".unsure").all_inner_texts()
    chances = {}
    for word in shown.locator(".output").inner_text().split():
        page.get_by_role("button", name="Step forward").click()
        status = page.locator("section.with > .note").inner_text()
        percent = re.search(r"probability ([\d.]+) %", status)
        assert percent, status
        chances[word] = float(percent[1])
    assert {word for word, chance in chances.items() if chance < 50} == {*unsure}

    field.fill("I go home")
    message = page.locator(".alive > p[role=status]")
    assert "not Korean" in message.inner_text()


def test_two_models_say_what_they_cannot_read(open_figure: Open) -> None:
    page = open_figure("two-models", reduced_motion="reduce")
    field = page.get_by_label("Type a Korean sentence")
    message = page.locator(".alive > p[role=status]")
    for text in ("", "   ", "xyz 123", "🙂", "나는 " * 60, "가" * 300):
        field.fill("나는 빵을 먹고 있었다")
        assert "there is no reference" in message.text_content()

        field.fill(text)
        assert message.inner_text().strip(), text
        assert "there is no reference" not in message.text_content(), text
        assert page.locator("figure.living").get_attribute("data-failed") is None


# --- dictionary


def query_of(page: Any) -> list[float]:
    fields = page.locator(".position input")
    return [float(fields.nth(axis).input_value().replace("−", "-")) for axis in (0, 1)]


def assert_answered(page: Any, rule: str, temperature: float = 1.0) -> list[float]:
    """Compare the answer that is shown with that of Python; return the query."""
    query = query_of(page)
    vector = torch.tensor(query, dtype=torch.float64)
    expected = float(dictionary.look_up(vector, rule, temperature).value)
    shown = page.locator(".answer").inner_text().rsplit("= ", 1)[-1]

    assert float(shown.replace("−", "-")) == pytest.approx(expected, abs=1e-4)

    return query


def test_the_query_moves_by_mouse_and_keyboard(open_figure: Open) -> None:
    page = open_figure("dictionary")

    assert assert_answered(page, "shares") == [1, 0]
    assert "2.8235" in page.locator(".answer").inner_text()

    handle = page.locator(".handle")
    handle.focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    assert assert_answered(page, "shares") == [0.95, 0.1]

    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y - 40, steps=4)
    page.mouse.up()
    moved = assert_answered(page, "shares")
    assert moved[0] < 0.7
    assert moved[1] > 0.3

    page.get_by_label("softmax").check()
    page.locator(".slider input[type=text]").fill("0.5")
    assert_answered(page, "softmax", 0.5)

    page.get_by_label("equality").check()
    assert "KeyError" in page.locator(".answer").inner_text()
    assert "none" in page.locator(".gradient-note").last.inner_text()

    for axis, number in zip("xy", dictionary.KEYS["dog"], strict=True):
        page.get_by_label(f"puppy {axis}").fill(f"{number:.2f}")
    assert page.locator(".answer").inner_text().endswith("= 2.0000")

    page.get_by_role("button", name="As in the note").click()
    assert query_of(page) == [1, 0]


@pytest.mark.parametrize("rule", ["shares", "softmax"])
def test_the_answer_goes_to_the_value_of_the_key_that_is_near(
    open_figure: Open, rule: str
) -> None:
    page = open_figure("dictionary", state=f"rule={rule}")
    start = page.locator(".alive").get_attribute("data-answer")
    answers = {}
    for name, key in dictionary.KEYS.items():
        for axis, number in zip("xy", key, strict=True):
            page.get_by_label(f"puppy {axis}").fill(f"{number:.2f}")
        answers[name] = float(page.locator(".alive").get_attribute("data-answer"))

    assert answers["dog"] < float(start) < answers["computer"]


def test_the_dictionary_compares_directions_too(open_figure: Open) -> None:
    """The cosines of the note's query are its similarities, too; elsewhere they may be negative."""
    page = open_figure("dictionary", state="likeness=cosine")
    similarities = page.locator("table.measures tbody td:nth-of-type(1)")

    assert similarities.all_inner_texts() == ["0.100", "0.900", "0.700"]

    page.get_by_label("puppy x").fill("-1")
    assert "negative" in page.locator(".answer").inner_text()
    page.get_by_label("softmax").check()
    assert page.locator(".answer.problem").count() == 0


def test_the_query_moves_by_touch(open_figure: Open) -> None:
    page = open_figure("dictionary", "ko", **PHONE)
    handle = page.locator(".handle")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    scrolled = page.evaluate("scrollY")
    touch = page.context.new_cdp_session(page)
    moves = [("touchStart", 0), *(("touchMove", step) for step in (5, 20, 40, 60))]
    for kind, step in moves:
        points = [{"x": x - step, "y": y + step}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    # Chromium passes moves on with its next frames.
    page.wait_for_function("document.querySelector('.position input').value < 0.7")
    page.get_by_label("softmax").check()
    moved = assert_answered(page, "softmax")

    assert moved[0] < 0.8
    assert moved[1] < -0.2
    assert page.evaluate("scrollY") == scrolled


@pytest.mark.parametrize("language", ["en", "ko"])
def test_bad_numbers_get_a_sentence(open_figure: Open, language: str) -> None:
    for name in ("dictionary", "scale"):
        page = open_figure(name, language)
        field = page.locator("input[type=text]:visible").first
        before = page.locator("table.measures").inner_text()
        for text in BAD:
            field.fill(text)
            wrong = page.locator(".wrong:visible")

            assert re.search("Type a number from|까지의 수", wrong.inner_text()), text
            assert page.locator("table.measures").inner_text() == before

        field.blur()
        assert re.fullmatch(r"[\d.−]+", field.input_value())
        remark = page.locator(".wrong:visible").inner_text()
        assert field.input_value() in remark
        assert BAD[-1] in remark

        field.fill("2")
        assert page.locator(".wrong:visible").count() == 0


# --- training


def test_a_model_is_trained_in_the_page(open_figure: Open) -> None:
    """Paused, looked back on, begun anew; by keyboard and by touch."""
    page = open_figure("training")
    moment, rows = page.locator(".moment"), page.locator("table.growing tbody tr")
    before = rows.first.inner_text()
    assert moment.inner_text().startswith("0 updates")

    page.get_by_role("button", name="Train").focus()
    page.keyboard.press("Enter")
    page.wait_for_function(
        "parseInt(document.querySelector('.moment').textContent) >= 20"
    )
    page.get_by_role("button", name="Pause").click()
    assert rows.first.inner_text() != before
    page.get_by_label("Updates").focus()
    page.keyboard.press("Home")
    assert rows.first.inner_text() == before
    page.get_by_label("민지는 책을 팔았다").check()
    assert rows.count() == 4

    page.get_by_role("button", name="Begin anew").click()
    page.wait_for_function("document.querySelector('input[type=range]').max === '0'")
    assert moment.inner_text().startswith("0 updates")
    assert rows.first.inner_text() != before

    phone = open_figure("training", "ko", **PHONE)
    phone.get_by_role("button", name="학습 시작").tap()
    phone.locator(".moment", has_text=re.compile("업데이트 [1-9]")).wait_for()


def test_without_a_worker_records_are_shown(open_figure: Open, folder: Path) -> None:
    script = folder / "_static" / "figures" / "training.en.js"
    text = script.read_text(encoding="utf-8")
    script.write_text(f"delete window.Worker;\n{text}", encoding="utf-8")
    try:
        page = open_figure("training")
    finally:
        script.write_text(text, encoding="utf-8")

    assert "cannot train" in page.locator(".alive > p[role=status]").inner_text()
    assert page.locator(".steps button:visible").count() == 0
    assert page.locator(".moment").inner_text().startswith("400 updates")
    page.get_by_label("Updates").focus()
    page.keyboard.press("Home")
    assert page.locator(".moment").inner_text().startswith("0 updates")


# --- scale


def test_the_dimension_moves_by_keyboard_and_the_divisor_by_mouse(
    open_figure: Open,
) -> None:
    page = open_figure("scale")
    weights = page.locator("table.measures tbody tr td:nth-of-type(2)")

    def largest() -> float:
        return max(map(float, weights.all_inner_texts()))

    assert largest() > 0.99

    page.get_by_label("√d").check()
    assert largest() < 0.7
    page.get_by_label("d", exact=True).check()
    assert largest() < 0.25

    slider = page.get_by_role("slider", name="dimension d")
    slider.focus()
    page.keyboard.press("Home")
    assert page.locator("input[type=text]").input_value() == "2"
    for doubled in ("4", "8", "16"):
        page.keyboard.press("ArrowRight")
        assert page.locator("input[type=text]").input_value() == doubled
    page.locator("input[type=text]").fill("99.6")
    page.locator("input[type=text]").blur()
    assert page.locator("input[type=text]").input_value() == "100"
    assert page.locator("input[type=range]").get_attribute("aria-valuetext") == "100"

    before = weights.all_inner_texts()
    page.get_by_role("button", name="Other random vectors").click()
    assert weights.all_inner_texts() != before


# --- numbers to the loss


def test_without_the_mask_its_step_says_what_is_seen(open_figure: Open) -> None:
    page = open_figure("numbers-to-loss", state="step=self.mask")
    step = page.locator("section:visible")
    assert "Mask" in step.locator("h2").inner_text()
    assert "no position sees the tokens after it" in step.inner_text()

    page.get_by_role("checkbox", name="Mask").uncheck()
    assert "no position sees" not in step.inner_text()
    assert "sees the tokens after it, too" in step.inner_text()


def test_the_switches_and_the_diagram_of_the_decoder(open_figure: Open) -> None:
    page = open_figure("numbers-to-loss")
    note = page.locator(".answer")
    title = page.locator("section:visible h2")

    assert note.inner_text().startswith("Loss: 2.210 a token. Computed")
    assert "Cross-entropy" in title.inner_text()

    page.get_by_role("button", name="masked self-attention").focus()
    page.keyboard.press("Enter")
    assert "Queries" in title.inner_text()
    assert (
        page.locator(".stage[aria-current=step]").text_content()
        == "masked self-attention"
    )
    page.keyboard.press("ArrowRight")
    assert "Queries" in title.inner_text(), "keys act inside of the numbers only"

    losses = {note.inner_text().split(" ")[1]}
    for name in ("Mask", "Teacher forcing", "÷ √d"):
        page.get_by_role("checkbox", name=name).uncheck()
        losses.add(note.inner_text().split(" ")[1])
    page.get_by_label("before").check()
    losses.add(note.inner_text().split(" ")[1])

    assert len(losses) == 5
    assert "Without the mask" in note.inner_text()
    assert "(at first 2.299)" in note.inner_text()
    assert page.locator(".stage.changed").count() > 5


def test_a_number_that_is_typed_changes_the_loss(open_figure: Open) -> None:
    page = open_figure("numbers-to-loss", "ko", **PHONE)
    note = page.locator(".answer")
    before = note.inner_text()
    page.locator(".side summary").tap()
    page.get_by_role("button", name="임베딩 + 위치").tap()
    page.locator("#forth").tap()
    cell = page.locator("section:visible td.number").nth(1)
    cell.tap()
    for text in ("NaN", "9" * 1000):
        page.locator("td input").fill(text)
        page.keyboard.press("Enter")
        assert "같은 수를 쓰세요" in page.locator("td small").inner_text()

    page.locator("td input").fill("-2.5")
    page.keyboard.press("Enter")
    assert "처음에는 2.210" in note.inner_text()

    page.locator("#reset").tap()
    assert note.inner_text() == before
