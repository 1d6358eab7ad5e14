"""The page in a real browser: mouse, touch and keys. Needs playwright and a system Chromium;
skipped without them.
"""

import io
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regard.visualisation import Alignment, ExplanationData, Meta, page_data, render_page, save
from regard.visualisation.colours import colour
from regard.visualisation.figure import Box, Group, Text, make_figure

pytestmark = pytest.mark.system


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Open the page of an explanation; fail on any script error or request."""
    problems: list[str] = []

    def open_url(explained: Any, url: str = "", **context: Any) -> Any:
        address = url or save(explained, tmp_path / "page.html").as_uri()
        page = browser.new_context(**{"locale": "en-GB", **context}).new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(address.rsplit("/", 1)[0]) or problems.append(request.url)
            ),
        )
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_url
    assert problems == []
    for context in browser.contexts:  # pages that go on running slow down those of other tests
        context.close()


def test_pointing_at_a_target_word_shows_its_attention_weights(
    open_page: Any, bread: Alignment
) -> None:
    page = open_page([bread])
    page.hover("#queries .word:nth-child(2)")
    assert (
        page.inner_text("#readout")
        == "빵을 attends to bread 0.88 · eating 0.07 · I 0.02 · was 0.01 · start and end 0.02"
    )
    assert page.inner_text("#columns .word:nth-child(4)").split() == ["bread", "0.88"]
    assert page.get_attribute("#columns .word:nth-child(4)", "style").startswith("background: rgb(")


def test_pointing_at_the_heatmap_and_the_arcs_shows_weights(
    open_page: Any, bread: Alignment
) -> None:
    page = open_page([bread])
    box = page.locator("#canvas").bounding_box()
    # Wherever it is scrolled to.
    page.locator("#canvas").hover(position={"x": box["width"] * 0.5, "y": box["height"] - 20})
    assert page.inner_text("#readout").startswith("있었다 attends to ")
    page.mouse.move(0, 0)
    assert page.inner_text("#readout") == ""
    assert page.inner_text("#hint").startswith("Point at a word")
    page.select_option("#view", "arcs")
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 15)
    assert page.inner_text("#readout").startswith("I is attended by 나는 0.90")
    # What attends stands at the left, as in all figures.
    page.mouse.move(box["x"] + 20, box["y"] + 15)
    assert page.inner_text("#readout").startswith("나는 attends to I 0.90")
    page.mouse.click(box["x"] + box["width"] - 20, box["y"] + 15)
    page.mouse.move(0, 0)
    assert page.get_attribute("#columns .word:nth-child(1)", "aria-pressed") == "true"


def test_keys_move_pin_and_unpin(open_page: Any, bread: Alignment) -> None:
    page = open_page([bread])
    page.focus("#columns .word")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#readout").startswith("was is attended by 있었다 0.60")
    page.keyboard.press("Enter")
    assert page.get_attribute("#columns .word:nth-child(2)", "aria-pressed") == "true"
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert page.inner_text("#readout").startswith("있었다 attends to was 0.60")
    page.keyboard.press("Escape")
    assert page.locator(".word.chosen").count() == 0


def test_layers_heads_and_roles_can_be_selected(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    explained = explanation(5, 2, 2)
    page = open_page(explained)
    assert page.input_value("#layer") == "1"

    def check(weights: Any, row: int = 0) -> None:
        page.mouse.move(0, 0)
        page.hover("#queries .word:nth-child(1)")
        word, weight = (
            str(page.inner_text("#readout")).split(" attends to ")[1].split(" · ")[0].rsplit(" ", 1)
        )
        best = int(weights[row].argmax())
        assert (word, float(weight)) == (
            explained.source[best],
            pytest.approx(weights[row, best], abs=0.0056),
        )

    check(explained.layers[1].weights[0])
    page.select_option("#head", index=2)
    check(explained.layers[1].weights[1])
    page.select_option("#head", "mean")
    check(explained.layers[1].weights.mean(0))
    page.select_option("#layer", "0")
    check(explained.layers[0].weights.mean(0))
    page.click("#more summary")
    page.select_option("#row", "shifted")
    check(explained.layers[0].weights.mean(0), row=1)  # shifted weights are those of the next token
    page.select_option("#role", "encoder")
    assert page.inner_text("#queries-name") == "Source"
    check(explained.layers[3].weights.mean(0))
    assert (page.inner_text("#layer-name"), page.inner_text("#weight-name")) == (
        "Layer",
        "attention weight",
    )
    page.select_option("#role", "attribution")
    assert (page.inner_text("#layer-name"), page.inner_text("#weight-name")) == (
        "Measure",
        "share of the attribution",
    )
    page.hover("#queries .word:nth-child(3)")
    assert page.inner_text("#layer option:checked") == "word erasure"
    assert "0.50" in page.inner_text("#agreement")
    assert "unknown" in page.inner_text("#agreement")


def test_the_player_steps_by_buttons_and_keys(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    explained = explanation(5, 2, 2)
    page = open_page(explained)
    assert (
        page.inner_text("#step-status")
        == "Step 1 of 8: encoder layer 1 of 2: each word attends to the others"
    )
    assert page.is_visible("#encoding-canvas")
    assert page.locator("#mechanism .candidate").count() == 0
    page.click("#forth")
    page.click("#forth")
    assert page.inner_text("#step-status").startswith(
        "Step 3 of 8: predicts 저는, probability 75.0 %; attends to "
    )
    assert not page.is_visible("#encoding-canvas")
    page.click("#forth")
    assert page.inner_text("#step-status").startswith("Step 4 of 8: predicts 도서관에서")
    assert page.inner_text(".token.current") == "도서관에서"
    assert page.locator("#tree text").count() == 4
    assert page.locator("#tree .wins text").count() == 2
    page.focus("#player")
    page.keyboard.press("End")
    assert "ends the sentence" in page.inner_text("#step-status")
    assert page.is_disabled("#forth")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#step-status").startswith("Step 7 of 8")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    weights = explained.shown_weights()[0]
    assert page.locator("#context-text").text_content().startswith(f"c = {weights.max():.2f} h(")
    assert page.locator("#product").text_content() == "p = 0.75 = 0.75"
    assert page.locator("#mechanism .candidate.chosen").text_content() == "저는"
    assert "저는 75.0 %" in page.get_attribute("#mechanism svg", "aria-label")
    page.click("#buttons summary")
    page.select_option("#speed", "4")
    page.click("#play")
    page.locator("#step-status", has_text="Step 8 of 8").wait_for()
    page.locator("#play", has_text="Play").wait_for()


def test_the_tree_grows_in_place(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    page = open_page(explanation(5, 2, 1))
    page.click("#forth")

    def place() -> Any:
        return page.evaluate(
            "() => { const b = document.querySelector('#tree text').getBoundingClientRect(); return [b.x, b.y]; }"
        )

    first = place()
    width = page.get_attribute("#tree svg", "width")
    page.click("#forth")
    page.click("#forth")
    assert (place(), page.get_attribute("#tree svg", "width")) == (first, width)


def test_the_end_and_a_lone_space_are_named_apart(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    explained = explanation(5, 2, 1)
    steps = [
        replace(step, candidates=(("</s>", 0.5, True), ("▁", 0.25, False)))
        for step in explained.steps
    ]
    page = open_page(replace(explained, steps=tuple(steps)))
    page.focus("#player")
    page.keyboard.press("End")
    assert page.locator("#mechanism .candidate").all_text_contents() == ["⟨end⟩", "␣"]
    page.click("#language")
    assert page.locator("#mechanism .candidate").all_text_contents() == ["⟨끝⟩", "␣"]


def test_all_layers_and_heads_are_shown_at_once_and_a_click_opens_one(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    page = open_page(explanation(5, 3, 2))
    page.select_option("#role", "encoder")
    page.select_option("#view", "all")
    assert not page.is_visible("#layer")
    assert not page.is_visible("#head")
    box = page.locator("#canvas").bounding_box()
    page.mouse.click(
        box["x"] + 26 + (box["width"] - 26) * 0.4, box["y"] + 22 + (box["height"] - 22) * 0.75
    )
    chosen = [page.input_value(f"#{name}") for name in ("view", "head")]
    assert chosen == ["heat", "1"], "the second of three heads"
    assert page.inner_text("#layer option:checked") == "2", "and of two layers the lower row"


def test_a_printed_page_is_light_in_dark_mode_too(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    page = open_page(explanation(5, 2, 1), color_scheme="dark")
    corner = """() => { const pen = document.createElement("canvas").getContext("2d");
        pen.drawImage(document.getElementById("canvas"), 0, 0);
        return [...pen.getImageData(1, 1, 1, 1).data].slice(0, 3); }"""
    assert max(page.evaluate(corner)) < 60
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    assert min(page.evaluate(corner)) > 200


@pytest.mark.slow
def test_a_printed_figure_is_light_in_dark_mode_too(
    browser: Any, bread: Alignment, tmp_path: Path
) -> None:
    page = browser.new_context(color_scheme="dark").new_page()
    page.goto(save(bread, tmp_path / "a.svg").as_uri())
    ink = "getComputedStyle(document.querySelector('.ink')).fill"
    assert page.evaluate(ink) == "rgb(236, 239, 243)"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(ink) == "rgb(26, 29, 33)"


def test_a_model_without_attention_is_played_with_its_states(
    open_page: Any, without_attention: ExplanationData
) -> None:
    page = open_page(without_attention)
    for hidden in (
        "#attention",
        "#figure",
        "#scale",
        "#numbers",
        "#agreement",
        "#encoding",
        "#step-note",
    ):
        assert not page.is_visible(hidden), hidden
    assert page.inner_text("#title") == "I go"
    assert page.inner_text("#source-line") == "나는 간다"
    status = "#step-status"
    assert page.inner_text(status) == "Step 1 of 6: the encoder reads 나는 and, from the end, ⟨end⟩"
    painted = "() => document.querySelectorAll('#mechanism .lit rect[fill]').length"
    before = page.evaluate(painted)
    page.focus("#player")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(painted) != before
    page.keyboard.press("ArrowRight")
    assert page.inner_text(status).endswith("all is read, and the decoder begins")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(status) == "Step 4 of 6: predicts I, probability 75.0 %"
    assert page.locator("#mechanism .handed").count() == 2
    assert page.locator("#mechanism .dim").count() == 0
    assert not page.is_visible("#step-attention")
    assert "one vector" not in page.inner_text("#step-note")
    assert page.locator("#tree text").count() == 2
    page.keyboard.press("End")
    assert "ends the sentence" in page.inner_text(status)
    page.click("#language")
    assert page.inner_text("#step-note").startswith("넘어가는 것: 두 방향의 마지막 상태")


def test_all_heads_of_a_word_are_shown_in_colours(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    page = open_page(explanation(5, 4, 1))
    page.select_option("#view", "heads")
    assert not page.is_visible("#heads")
    assert not page.is_visible("#scale")
    painted = "() => document.getElementById('canvas').toDataURL()"
    first = page.evaluate(painted)
    page.focus("#queries .word")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(painted) != first
    for role in ("encoder", "decoder"):
        page.select_option("#role", role)
        assert page.input_value("#view") == "heads"
    colours = page.evaluate(
        """() => { const c = document.getElementById('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, 24);
        const seen = new Set();
        for (let i = 0; i < d.data.length; i += 4) seen.add(d.data.slice(i, i + 3).join());
        return [...seen]; }"""
    )
    palette = [
        ",".join(str(int(colour(f"s{n}", "light")[k : k + 2], 16)) for k in (1, 3, 5))
        for n in range(4)
    ]
    assert set(palette) <= set(colours), "the legend shows the colour of each head"


@pytest.mark.slow
def test_the_special_column_is_not_cut_off(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    for width in (400, 1400):
        page = open_page(explanation(4, 1, 1), viewport={"width": width, "height": 900})
        ink = page.evaluate(
            """() => { const c = document.getElementById('canvas'), d = c.getContext('2d').getImageData(c.width - 3, 0, 3, c.height);
            return d.data.some((value, i) => i % 4 < 3 && value < 200); }"""
        )
        assert not ink, "no letter reaches the right edge"


@pytest.mark.slow
def test_page_fits_a_phone_in_korean(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    page = open_page(
        explanation(12, 4, 3),
        viewport={"width": 400, "height": 800},
        locale="ko-KR",
        has_touch=True,
        color_scheme="dark",
    )
    page.tap("#columns .word:nth-child(4)")
    assert page.inner_text("#readout").startswith("that ← 주목한 단어: ")
    assert page.evaluate("document.documentElement.lang") == "ko"
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert page.inner_text("#player-name") == "한 단계씩: 인코더가 읽고 디코더가 쓰기"
    page.tap("#language")
    assert page.inner_text("#player-name") == "Step by step: the encoder reads, the decoder writes"


def test_controls_are_named_for_screen_readers(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    page = open_page(explanation(5, 2, 2))
    for role, name in [
        ("toolbar", "Source: words"),
        ("button", "Previous step"),
        ("slider", "Step"),
    ]:
        assert page.get_by_role(role, name=name, exact=True).count() == 1, name
    assert page.get_by_role("img", name="Attention weights: target → source").count() == 1
    for summary in ("#more summary", "#buttons summary"):
        page.click(summary)
    for id in ("role", "layer", "head", "row", "view", "speed"):
        assert page.locator(f"label:has(#{id})").inner_text().strip()
    assert (
        page.locator("button:visible").evaluate_all(
            "all => all.filter(b => !(b.innerText || b.ariaLabel).trim()).length"
        )
        == 0
    )


def test_all_weights_are_shown_as_a_table(open_page: Any, bread: Alignment) -> None:
    page = open_page([bread])
    page.click("#numbers summary")
    page.wait_for_selector("#table tbody tr")
    assert page.locator("#table tbody tr").count() == 4
    cells = page.inner_text("#table tbody tr:nth-child(2)").split()
    assert cells == ["빵을", "0.020", "0.010", "0.070", "0.880", "0.020"]


@pytest.mark.slow
def test_two_hundred_words_are_painted_within_a_second(
    open_page: Any, explanation: Callable[..., ExplanationData]
) -> None:
    page = open_page(explanation(200, 8, 8))
    paints = []
    for _ in range(4):  # the machine may be busy: the fastest paint counts
        paints.append(
            page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        )
        if paints[-1] < 1000:
            break
        page.reload()
        page.wait_for_selector("html[data-ready]")
    assert min(paints) < 1000, "the first paint of the longest page, in milliseconds"
    page.select_option("#view", "arcs")
    page.hover("#queries .word:nth-child(3)")
    assert page.inner_text("#readout")


@pytest.fixture
def served(explanation: Callable[..., ExplanationData]) -> Iterator[str]:
    """Serve the page, and explain another sentence on request as docs/visualisation.md
    describes.
    """
    explained = explanation(4, 1, 1)
    second_explanation = replace(
        explained,
        source=("I", "was", "told", "this"),
        target=("저는", "도서관에서", "할머니의", "책을"),
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(
                "text/html; charset=utf-8",
                render_page(explained, Meta(endpoint="/explain")).encode(),
            )

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if request != {"text": "I was told this"}:
                self._send("application/json", b'{"error": "too hard"}', 422)
                return
            self._send("application/json", json.dumps(page_data(second_explanation)).encode())

        def _send(self, kind: str, body: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/page"
    server.shutdown()
    thread.join()
    server.server_close()


def test_another_sentence_is_compared_if_a_server_answers(
    open_page: Any, served: str, explanation: Callable[..., ExplanationData]
) -> None:
    assert not open_page(explanation(4, 1, 1)).is_visible("#edit")
    page = open_page(None, served)
    page.fill("#text", "I was told this")
    page.click("#edit button[type=submit]")
    page.wait_for_selector("#comparison section")
    assert [text.split() for text in page.locator("#comparison mark").all_inner_texts()] == [
        ["that"],
        ["사진을"],
        ["this"],
        ["책을"],
    ]
    assert page.inner_text("#source-line") == "I was told this"
    page.click("#comparison section:nth-child(1) button")
    assert page.inner_text("#source-line") == "I was told that"


def test_an_error_of_the_server_is_shown(browser: Any, served: str) -> None:
    page = browser.new_context(locale="en-GB").new_page()
    page.goto(served)
    page.wait_for_selector("html[data-ready]")
    page.fill("#text", "no")
    page.click("#edit button[type=submit]")
    page.locator("#status", has_text="too hard").wait_for()


def test_caption_page_highlights_the_cells_that_a_word_attends_to(
    open_page: Any, caption_explanation: Callable[..., ExplanationData]
) -> None:
    explained = caption_explanation()
    page = open_page(explained)
    assert page.inner_text("#title") == "a red square"
    assert not page.is_visible("#columns")
    assert "light" in page.inner_text("#hint")

    def colour_at(x: float, y: float, canvas: str = "#canvas") -> tuple[int, ...]:
        with Image.open(io.BytesIO(page.locator(canvas).screenshot())) as image:
            pixel: Any = image.convert("RGB").getpixel(
                (int(x * image.width), int(y * image.height))
            )
        return tuple(pixel)

    red = (216, 36, 40)
    plain = (235, 235, 235)
    assert (colour_at(0.125, 0.5), colour_at(0.9, 0.9)) == (red, plain)
    page.hover("#queries .word:nth-child(3)")
    assert page.inner_text("#readout").startswith("square attends to 2·1 0.")
    assert colour_at(0.125, 0.5) == red, "attended cells keep their colour"
    assert max(colour_at(0.9, 0.9)) < 235 / 2, "other cells are dark, and can be seen"
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.125, box["y"] + box["height"] * 0.5)
    assert page.inner_text("#readout").startswith("2·1 is attended by ")
    assert len(page.inner_text("#queries .word:nth-child(1)").split()) == 2, (
        "each word with its weight"
    )
    page.select_option("#view", "sheet")
    assert page.locator("#view option").all_inner_texts() == ["one word", "every word"]
    page.select_option("#role", "decoder")
    assert page.is_visible("#columns")
    page.select_option("#role", "cross")
    page.click("#forth")
    assert page.inner_text("#step-status").startswith("Step 2 of 4: predicts red")
    assert colour_at(0.125, 0.5, ".step-image") == red
    page.click("#language")
    assert page.inner_text("#queries-name") == "캡션"


def with_pieces(explained: ExplanationData) -> ExplanationData:
    """Divide the first of two target words into three tokens, each as likely as before."""
    first, second, end = explained.steps
    tokens = ("▁bu", "ild", "ing", "▁b", "</s>")
    steps = []
    for token, step in zip(tokens, (first, second, second, second, end), strict=True):
        nodes = tuple(
            replace(node, token=token if node.wins else node.token) for node in step.nodes
        )
        candidates = tuple(
            (token if chosen else other, p, chosen) for other, p, chosen in step.candidates
        )
        steps.append(replace(step, nodes=nodes, candidates=candidates))
    cross = explained.layers[0]
    rows = [0, 1, 1, 1, 2]
    cross = replace(
        cross, weights=cross.weights[:, rows], special_weights=cross.special_weights[:, rows]
    )
    words = {"target": ("building", "b"), "tokens": tokens, "target_words": (0, 0, 0, 1, -1)}
    return replace(explained, steps=tuple(steps), layers=(cross,), **words)  # type: ignore[arg-type]


def test_the_player_goes_by_words_and_by_pieces_on_demand(
    open_page: Any, explanation: Callable[..., ExplanationData], axe: str
) -> None:
    page = open_page(with_pieces(explanation(2, 1, 1)))
    status = "#step-status"
    assert page.inner_text(status).startswith(
        "Step 1 of 3: predicts building, probability 42.2 % (bu 75.0 % × ild 75.0 %"
    )
    assert page.locator("#output .token").all_inner_texts() == ["building", "b"]
    assert page.locator("#mechanism .candidate.chosen").text_content() == "bu-"
    assert page.locator("#mechanism #product").text_content() == "p = … × 0.75 × 0.75 = 0.42"
    page.click("#forth")
    assert page.inner_text(status).startswith("Step 2 of 3: predicts b, probability 75.0 %;")
    page.focus("#pieces")
    page.keyboard.press("Space")
    assert page.inner_text(status).startswith("Step 4 of 5: predicts b, probability 75.0 %;"), (
        "the same word"
    )
    page.click("#back")
    assert page.inner_text(status).startswith("Step 3 of 5: predicts ing, probability 75.0 %;")
    assert page.locator("#output .token").all_inner_texts() == ["bu", "ild", "ing", "b"]
    page.evaluate(axe)
    assert (
        page.evaluate("axe.run('#player').then(found => found.violations.map(one => one.id))") == []
    )
    page.uncheck("#pieces")
    assert page.inner_text(status).startswith("Step 1 of 3: predicts building")
    assert not open_page(explanation(2, 1, 1)).is_visible("#pieces"), "each word is one token"


@pytest.mark.parametrize("width", [1280, 400])
def test_the_tree_is_under_the_heatmap_where_there_is_room(
    open_page: Any, explanation: Callable[..., ExplanationData], width: int
) -> None:
    page = open_page(explanation(3, 1, 1), viewport={"width": width, "height": 900})
    assert page.locator("#search").is_hidden(), "the encoder comes first"
    page.fill("#step", "1")
    figure, player, tree = (
        page.locator(name).bounding_box() for name in ("#figure", "#player", "#search")
    )
    if width > 1000:
        assert tree["x"] == figure["x"] < player["x"]
        assert figure["y"] + figure["height"] <= tree["y"]
    else:
        assert tree["x"] == figure["x"] == player["x"]
        assert player["y"] + player["height"] <= tree["y"]


@pytest.mark.parametrize("version", [1, 2])
def test_scores_of_the_data_are_shown_and_older_data_too(
    open_page: Any, explanation: Callable[..., ExplanationData], tmp_path: Path, version: int
) -> None:
    """Version 1 of the data has no scores: the highest is then 0."""
    explained = explanation(3, 2, 1)
    sums = np.array([[1.0] * 4, [2.5, -7.25, 4.0, 0.5]])
    cross = replace(explained.layers[0], log_sums=sums if version == 2 else None)
    document = render_page(replace(explained, layers=(cross, *explained.layers[1:])))
    assert '"format":2,' in document
    path = tmp_path / "data.html"
    path.write_text(
        document if version == 2 else document.replace('"format":2,', ""), encoding="utf-8"
    )
    page = open_page(None, path.as_uri())
    page.select_option("#head", index=2)
    page.fill("#step", "2")  # the second token, after a layer of the encoder
    weights = np.append(cross.weights[1, 1], cross.special_weights[1, 1])
    expected = np.log(weights) + (-7.25 if version == 2 else -np.log(weights.max()))
    texts = page.locator("#mechanism rect.score + text").all_text_contents()
    numbers = [float(text.removeprefix("< ").replace("−", "-")) for text in texts]
    likely = weights > 0.02  # the page has weights in thousandths
    np.testing.assert_allclose(np.array(numbers)[likely], expected[likely], atol=0.1)


def test_a_figure_keeps_its_size_on_a_phone_and_has_no_violation(
    browser: Any, axe: str, tmp_path: Path
) -> None:
    """It scrolls by itself, not with the page; on paper and on a wide screen it is as wide as there
    is room.
    """
    marks = (Box(0, 0, 960, 300, "paper"), Text(10, 40, "wide", 12.0))
    save(make_figure(960, 300, [Group("a", marks)], "A figure", "It is wide."), tmp_path / "a.html")
    for width, expected in ((400, 960), (900, 868), (1280, 960)):
        context = browser.new_context(viewport={"width": width, "height": 600}, bypass_csp=True)
        page = context.new_page()
        page.goto((tmp_path / "a.html").as_uri())
        assert (
            page.evaluate("document.querySelector('svg').getBoundingClientRect().width") == expected
        )
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.evaluate(axe)
        assert (
            page.evaluate("axe.run().then(result => result.violations.map(each => each.id))") == []
        )
        context.close()
