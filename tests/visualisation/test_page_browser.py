"""The page of an explanation in a real browser: mouse, keys, player, captions, a server."""

import io
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from helpers.browser import assert_accessible_and_narrow
from helpers.traced_searches import ids_of, search_of
from PIL import Image

from regard.visualisation import (
    Alignment,
    ExplanationData,
    Meta,
    page_data,
    render_page,
    save,
)
from regard.visualisation.colours import colour
from regard.visualisation.figure import Box, Group, Text, make_figure
from regard.visualisation.language import LANGUAGE

pytestmark = pytest.mark.system
Explain = Callable[..., ExplanationData]


@pytest.fixture
def open_explanation(
    open_page: Callable[..., Any], tmp_path: Path
) -> Callable[..., Any]:
    """Return a function that opens the page of an explanation or of alignments."""

    def open_file(explained: Any, **options: Any) -> Any:
        return open_page(save(explained, tmp_path / "page.html"), **options)

    return open_file


def point_at(page: Any, x: float, y: float) -> None:
    """Move the mouse to a place of the canvas, in shares of its size."""
    canvas = page.locator("#canvas")
    box = canvas.bounding_box()
    canvas.hover(position={"x": box["width"] * x, "y": box["height"] * y})


def test_an_alignment_is_read_by_mouse_keys_and_table(
    open_explanation: Callable[..., Any], bread: Alignment
) -> None:
    page = open_explanation([bread])
    page.hover("#queries .word:nth-child(2)")
    attended = "bread 0.88 · eating 0.07 · I 0.02 · was 0.01 · start and end 0.02"

    assert page.inner_text("#readout") == f"빵을 attends to {attended}"

    strongest = page.locator("#columns .word:nth-child(4)")
    assert strongest.inner_text().split() == ["bread", "0.88"]
    assert strongest.get_attribute("style").startswith("background: rgb(")

    point_at(page, 0.5, 0.95)
    assert page.inner_text("#readout").startswith("있었다 attends to ")

    page.mouse.move(0, 0)
    assert page.inner_text("#readout") == ""

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

    page.select_option("#view", "arcs")
    point_at(page, 0.98, 0.05)
    assert page.inner_text("#readout").startswith("I is attended by 나는 0.90")

    point_at(page, 0.02, 0.05)
    assert page.inner_text("#readout").startswith("나는 attends to I 0.90")

    page.click("#numbers summary")
    page.wait_for_selector("#table tbody tr")
    assert page.locator("#table tbody tr").count() == 4

    cells = page.inner_text("#table tbody tr:nth-child(2)").split()
    assert cells == ["빵을", "0.020", "0.010", "0.070", "0.880", "0.020"]


def test_layers_heads_roles_and_views_can_be_selected(
    open_explanation: Callable[..., Any], explanation: Explain
) -> None:
    explained = explanation(5, 3, 2)
    page = open_explanation(explained)
    assert page.input_value("#layer") == "1"

    def check(weights: Any, row: int = 0) -> None:
        page.mouse.move(0, 0)
        page.hover("#queries .word:nth-child(1)")
        _, _, attended = page.inner_text("#readout").partition(" attends to ")
        strongest, *_ = attended.split(" · ")
        word, weight = strongest.rsplit(" ", 1)
        best = int(weights[row].argmax())

        assert word == explained.source[best]
        assert float(weight) == pytest.approx(weights[row, best], abs=0.0056)

    check(explained.layers[1].weights[0])

    page.select_option("#head", "mean")
    check(explained.layers[1].weights.mean(0))

    page.select_option("#layer", "0")
    check(explained.layers[0].weights.mean(0))

    page.click("#more summary")
    page.select_option("#row", "shifted")
    check(explained.layers[0].weights.mean(0), row=1)

    page.select_option("#role", "encoder")

    assert page.inner_text("#queries-name") == "Source"

    check(explained.layers[3].weights.mean(0))

    page.select_option("#view", "all")
    assert not page.is_visible("#layer")

    box = page.locator("#canvas").bounding_box()
    across = 26 + (box["width"] - 26) * 0.4
    down = 22 + (box["height"] - 22) * 0.75
    page.mouse.click(box["x"] + across, box["y"] + down)

    assert page.input_value("#view") == "heat"
    assert page.input_value("#head") == "1", "the second of three heads"
    assert page.inner_text("#layer option:checked") == "2", "the lower row of layers"

    page.select_option("#view", "heads")
    assert not page.is_visible("#scale")

    with Image.open(io.BytesIO(page.locator("#canvas").screenshot())) as image:
        pixels = image.convert("RGB").getcolors(1 << 20) or []

    seen = {f"#{red:02x}{green:02x}{blue:02x}" for _, (red, green, blue) in pixels}
    for head in range(3):
        assert colour(f"s{head}", "light") in seen, "the legend shows each head"

    page.select_option("#role", "attribution")
    assert page.inner_text("#layer-name") == "Measure"
    assert page.inner_text("#weight-name") == "share of the attribution"

    page.hover("#queries .word:nth-child(3)")
    assert page.inner_text("#layer option:checked") == "word erasure"
    assert "0.50" in page.inner_text("#agreement")
    assert "unknown" in page.inner_text("#agreement")


def test_the_player_steps_by_buttons_and_keys(
    open_explanation: Callable[..., Any], explanation: Explain
) -> None:
    explained = explanation(5, 2, 2)
    page = open_explanation(explained)
    status = "#step-status"
    first = "Step 1 of 8: encoder layer 1 of 2: each word attends to the others"

    assert page.inner_text(status) == first
    assert page.is_visible("#encoding-canvas")

    page.click("#forth")
    page.click("#forth")
    predicted = "Step 3 of 8: predicts 저는, probability 75.0 %; attends to "

    assert page.inner_text(status).startswith(predicted)
    assert not page.is_visible("#encoding-canvas")

    highest = explained.shown_weights()[0].max()
    context = page.locator("#context-text").text_content()
    assert context.startswith(f"c = {highest:.2f} h(")
    assert page.locator("#product").text_content() == "p = 0.750"
    assert page.locator("#mechanism .candidate.chosen").text_content() == "저는"

    page.click("#forth")
    assert page.inner_text(status).startswith("Step 4 of 8: predicts 도서관에서")
    assert page.inner_text(".token.current") == "도서관에서"
    assert page.locator("#tree text").count() == 4
    assert page.locator("#tree .wins text").count() == 2

    width = page.get_attribute("#tree svg", "width")
    page.focus("#player")
    page.keyboard.press("End")

    assert "ends the sentence" in page.inner_text(status)
    assert page.is_disabled("#forth")
    assert page.get_attribute("#tree svg", "width") == width, "it grows in its place"

    page.keyboard.press("ArrowLeft")
    assert page.inner_text(status).startswith("Step 7 of 8")

    page.keyboard.press("Home")
    page.click("#buttons summary")
    page.select_option("#speed", "4")
    page.click("#play")
    page.locator(status, has_text="Step 8 of 8").wait_for()
    page.locator("#play", has_text="Play").wait_for()


def with_pieces(explained: ExplanationData) -> ExplanationData:
    """Divide the first of two target words into three tokens, each as likely as before."""
    tokens = ("▁bu", "ild", "ing", "▁b", "</s>")
    cross = explained.attention[0]
    cross = replace(cross, weights=cross.weights[:, [0, 1, 1, 1, 2]])

    return replace(
        explained,
        target=("building", "b"),
        target_words=(0, 0, 0, 1, -1),
        tokens=tokens,
        attention=(cross,),
        ids=ids_of(tokens),
        search=search_of(tokens),
    )


def test_the_player_goes_by_words_and_by_pieces_on_demand(
    open_explanation: Callable[..., Any], explanation: Explain
) -> None:
    page = open_explanation(with_pieces(explanation(2, 1, 1)))
    status = "#step-status"
    written = page.locator("#output .token")
    product = page.locator("#mechanism #product")
    likely = "Step 1 of 3: predicts building, probability 42.2 % (bu 75.0 % × ild"

    assert page.inner_text(status).startswith(likely)
    assert written.all_inner_texts() == ["building", "b"]
    assert product.text_content() == "p = … × 0.750 × 0.750 = 0.422"

    page.click("#forth")
    page.focus("#pieces")
    page.keyboard.press("Space")

    assert page.inner_text(status).startswith("Step 4 of 5: predicts b, ")

    page.click("#back")
    assert page.inner_text(status).startswith("Step 3 of 5: predicts ing, ")
    assert written.all_inner_texts() == ["bu", "ild", "ing", "b"]

    page.uncheck("#pieces")
    assert page.inner_text(status).startswith("Step 1 of 3: predicts building")


def test_a_model_without_attention_is_played_with_its_states(
    open_explanation: Callable[..., Any], without_attention: ExplanationData
) -> None:
    """A file that was written in Korean is shown in Korean, and in English on demand."""
    token = LANGUAGE.set("ko")
    page = open_explanation(without_attention)
    LANGUAGE.reset(token)

    assert page.get_attribute("html", "lang") == "ko"

    page.click("#language")
    for hidden in ("#attention", "#figure", "#scale", "#numbers", "#encoding"):
        assert not page.is_visible(hidden), hidden

    assert page.inner_text("#source-line") == "나는 간다"

    status = "#step-status"
    first = "Step 1 of 6: the encoder reads 나는 and, from the end, ⟨end⟩"
    assert page.inner_text(status) == first

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
    assert not page.is_visible("#step-attention")

    page.click("#language")
    note = "넘어가는 것: 두 방향의 마지막 상태"
    assert page.inner_text("#step-note").startswith(note)


@pytest.mark.parametrize(
    "scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)]
)
def test_the_page_is_accessible_fits_a_phone_and_prints_light(
    open_explanation: Callable[..., Any], explanation: Explain, axe: str, scheme: str
) -> None:
    page = open_explanation(explanation(6, 2, 2), locale="ko-KR", color_scheme=scheme)
    assert page.get_attribute("html", "lang") == "ko"

    for summary in ("#more summary", "#buttons summary", "#numbers summary"):
        page.click(summary)

    page.fill("#step", "4")
    assert_accessible_and_narrow(page, axe)

    player = page.locator("#player").bounding_box()
    search = page.locator("#search").bounding_box()
    assert search["y"] >= player["y"] + player["height"]

    page.set_viewport_size({"width": 1280, "height": 900})
    player = page.locator("#player").bounding_box()
    search = page.locator("#search").bounding_box()

    assert search["x"] < player["x"]

    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    corner = """() => { const pen = document.createElement("canvas").getContext("2d");
        pen.drawImage(document.getElementById("canvas"), 0, 0);
        return [...pen.getImageData(1, 1, 1, 1).data].slice(0, 3); }"""

    assert min(page.evaluate(corner)) > 200


@pytest.fixture
def served(explanation: Explain) -> Iterator[str]:
    """Serve the page, and explain another sentence on request as docs/visualisation.md
    describes.
    """
    explained = explanation(4, 1, 1)
    source = ("I", "was", "told", "this")
    target = ("저는", "도서관에서", "할머니의", "책을")
    other = page_data(replace(explained, source=source, target=target))
    answers = {
        b"": render_page(explained, Meta(endpoint="/explain")),
        b'{"text":"I was told this"}': json.dumps(other),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"] or 0)
            request = self.rfile.read(length)
            self.send_response(200 if request in answers else 422)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            answer = answers.get(request, '{"error": "too hard"}')
            self.wfile.write(answer.encode())

        def do_GET(self) -> None:
            self.do_POST()

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
    open_page: Callable[..., Any], served: str
) -> None:
    page = open_page(served)
    submit = "#edit button[type=submit]"
    page.fill("#text", "I was told this")
    page.click(submit)
    page.wait_for_selector("#comparison section")
    marked = page.locator("#comparison mark").all_inner_texts()

    assert [text.split()[0] for text in marked] == ["that", "사진을", "this", "책을"]
    assert page.inner_text("#source-line") == "I was told this"

    page.click("#comparison section:nth-child(1) button")
    assert page.inner_text("#source-line") == "I was told that"

    page.fill("#text", "no")
    page.click(submit)
    page.locator("#status", has_text="too hard").wait_for()


def test_caption_page_highlights_the_cells_that_a_word_attends_to(
    open_explanation: Callable[..., Any], caption_explanation: Explain
) -> None:
    page = open_explanation(caption_explanation())
    assert page.inner_text("#title") == "a red square"
    assert not page.is_visible("#columns")

    def colour_at(x: float, y: float, canvas: str = "#canvas") -> Any:
        with Image.open(io.BytesIO(page.locator(canvas).screenshot())) as image:
            place = (int(x * image.width), int(y * image.height))
            return image.convert("RGB").getpixel(place)

    red = (216, 36, 40)
    assert colour_at(0.125, 0.5) == red
    assert colour_at(0.9, 0.9) == (235, 235, 235)

    page.hover("#queries .word:nth-child(3)")
    assert page.inner_text("#readout").startswith("square attends to 2·1 0.")
    assert colour_at(0.125, 0.5) == red, "attended cells keep their colour"
    assert max(colour_at(0.9, 0.9)) < 235 / 2, "other cells are dark"

    point_at(page, 0.125, 0.5)
    assert page.inner_text("#readout").startswith("2·1 is attended by ")

    page.select_option("#view", "sheet")
    assert page.locator("#view option").all_inner_texts() == ["one word", "every word"]

    page.click("#forth")
    assert page.inner_text("#step-status").startswith("Step 2 of 4: predicts red")
    assert colour_at(0.125, 0.5, ".step-image") == red


def test_a_figure_keeps_its_size_on_a_phone(
    open_page: Callable[..., Any], axe: str, tmp_path: Path
) -> None:
    """It scrolls by itself, not with the page; on a wide screen it is as wide as there is room."""
    marks = (Box(0, 0, 960, 300, "paper"), Text(10, 40, "wide", 12.0))
    figure = make_figure(960, 300, [Group("a", marks)], "A figure", "It is wide.")
    page = open_page(save(figure, tmp_path / "a.html"), wait="svg", bypass_csp=True)
    for width, expected in ((400, 960), (900, 868), (1280, 960)):
        assert_accessible_and_narrow(page, axe, [width])
        assert page.locator("svg").bounding_box()["width"] == expected
