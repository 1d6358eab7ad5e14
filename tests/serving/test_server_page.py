"""The page at / in a real browser: typing, models, alternatives, the search, history, images, keys,
and a server that goes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fake import Ask, FakeService
from limits import wait_until
from small import SENTENCES, captioner_folder

from regard.pipeline import RuntimeTranslator, load_captioner
from regard.serving.application import create_app
from regard.serving.keys import add_key, revoke_key
from regard.serving.server_settings import ServerSettings
from tests.serving.test_models import image_bytes, write_file
from tests.serving.test_server import Running, running

pytestmark = pytest.mark.system
DONE = "#translation[aria-busy=false]"
LINE = "you read a book"
HISTORY = "localStorage['regard.history'] ?? null"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def models(folder: Path) -> dict[str, Path]:
    """Write two translators of opposite directions, another one, and a captioner."""
    kinds = {"ko-en": "transformer", "en-ko": "recurrent", "other": "transformer"}
    files = {name: write_file(folder / f"{name}.regard", kind) for name, kind in kinds.items()}
    return {**files, "captions": captioner_folder(folder / "captions")}


@pytest.fixture(scope="module")
def server(models: dict[str, Path]) -> Iterator[Running]:
    languages = [
        part for pair in ("ko,en", "en,ko", "ko,en", "en") for part in ("--languages", pair)
    ]
    with running(*map(str, models.values()), *languages, "--precision", "float32") as started:
        yield started


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open the page of a server; fail on any script error, message, and request that is not its
    server's.
    """
    problems: list[str] = []

    def open_address(address: str, wait: str = "html[data-loaded]", **context: Any) -> Any:
        page = browser.new_context(**{"locale": "en-GB", **context}).new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: is_noise(message.text) or problems.append(message.text))
        own = (f"{address}/", "data:image/", f"blob:{address}/")
        page.on(
            "request", lambda request: request.url.startswith(own) or problems.append(request.url)
        )
        page.goto(f"{address}/")
        page.wait_for_selector(wait)
        return page

    yield open_address
    assert problems == []
    for context in browser.contexts:  # pages that go on running slow down those of other tests
        context.close()


def is_noise(message: str) -> bool:
    """Return whether a message is only the browser's own note of a status or of a server that is
    away.
    """
    return message.startswith("Failed to load resource")


@pytest.fixture
def page(open_page: Callable[..., Any], server: Running) -> Any:
    return open_page(address(server))


def address(server: Running) -> str:
    return f"http://127.0.0.1:{server.port}"


@contextlib.contextmanager
def serving(service: FakeService, port: int = 0, **settings: Any) -> Iterator[int]:
    """Run the application over a fake service at a port."""
    app = create_app(service, ServerSettings(**settings))
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()  # before the server does, so that no page comes too early
        config = uvicorn.Config(app, http="h11", log_config=None, access_log=False)
        running_server = uvicorn.Server(config)
        thread = threading.Thread(target=running_server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            running_server.force_exit = running_server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def put(page: Any, text: str) -> None:
    """Replace the text, and wait for its translation."""
    page.fill("#input", text)
    page.wait_for_selector(DONE)


def shown(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".line-of-text").all_text_contents()]


def expected(model: Path, *lines: str) -> list[str]:
    return [
        translation.text or "–"
        for translation in RuntimeTranslator(model, threads=1).translate(list(lines))
    ]


def until(page: Any, script: str, arg: Any = None) -> None:
    """Wait until a script returns something; playwright's own way to wait needs `eval`, which the
    page forbids.
    """
    wait_until(lambda: page.evaluate(script, arg), script)


# --- the answer


def test_its_policy_allows_its_own_script_and_server_alone(ask: Ask) -> None:
    answer = ask("/", "GET")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["script-src"].startswith("'sha256-")
    assert policy["style-src"].startswith("'sha256-")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.text.count("<script>") == answer.text.count("<style>") == 1
    assert "{{" not in answer.text
    assert "http" not in answer.text.replace("http://www.w3.org/2000/svg", "").replace(
        '"http"', ""
    ).replace("http-equiv", "")


def test_browsers_keep_it_and_ask_again(ask: Ask) -> None:
    tag = ask("/", "GET").headers["etag"]
    again = ask("/", "GET", headers={"If-None-Match": f"W/{tag}"})
    assert (again.status_code, again.content, again.headers["cache-control"]) == (
        304,
        b"",
        "no-cache",
    )
    assert ask("/", "GET", headers={"If-None-Match": '"other"'}).status_code == 200
    assert ask("/", "HEAD").status_code == 200
    assert ask("/", "POST").status_code == 405


def test_it_can_be_switched_off_and_needs_no_key(
    make_ask: Callable[..., Ask], tmp_path: Path
) -> None:
    assert make_ask(page=False)("/", "GET").status_code == 404
    add_key(tmp_path / "keys.json", "somebody")
    ask = make_ask(require_key=True, key_file=str(tmp_path / "keys.json"))
    assert (ask("/", "GET").status_code, ask("/v1/models", "GET").status_code) == (200, 403)


def test_the_extra_serve_is_enough_for_it() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(("torch", "PIL", "fontTools", "sentencepiece", "safetensors")))  # none is installed
from fake import FakeService
from regard.serving import application, serving_process
from regard.serving.server_settings import ServerSettings
serving_process.create_app(FakeService(), ServerSettings())
application._page()
"""
    paths = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=60,
    )


# --- translation


def test_it_translates_what_is_typed(page: Any, models: dict[str, Path]) -> None:
    assert page.title() == page.inner_text("#title") == "Korean → English"
    assert f"this server, {page.evaluate('location.host')}" in page.inner_text("#private")
    sent: list[Any] = []
    page.on(
        "request",
        lambda request: "translate" in request.url and sent.append(json.loads(request.post_data)),
    )
    page.click("#input")
    page.keyboard.type("I go home. You read a book.\n\nyou", delay=3)
    page.wait_for_selector(DONE)
    assert shown(page) == expected(models["ko-en"], "I go home.", "You read a book.", "you")
    assert page.locator("#translation p").evaluate_all(
        "all => all.map(p => p.children.length)"
    ) == [2, 0, 1]
    assert len(sent) < 8, "not at every key"
    before = len(sent)
    put(page, "You read a book. I go home.")
    assert len(sent) == before, "what was translated is kept"


def test_its_attention_is_that_of_the_model(page: Any, models: dict[str, Path]) -> None:
    put(page, LINE)
    page.wait_for_selector("#attention:not([hidden])")
    readings = (
        RuntimeTranslator(models["ko-en"], threads=1).translate(LINE, readings=True)[0].readings
    )
    assert readings is not None
    page.click("summary[data-text=numbers]")
    for role, layer, head in (("cross", 0, 1), ("encoder", 1, 0), ("decoder", 1, 1)):
        page.select_option("#role", role)
        page.select_option("#layer", index=layer)
        page.select_option("#head", index=head + 1)
        weights = readings.words(readings.layers(role)[layer], head).weights
        rows = page.locator("#table tbody tr").all()
        for row, values in zip(rows, weights, strict=True):
            cells = [float(cell) for cell in row.locator("td").all_text_contents()]
            assert cells[: len(values)] == pytest.approx(values, abs=6e-4), role


def test_models_and_directions(page: Any, models: dict[str, Path]) -> None:
    labels = [
        "Korean → English · ko-en",
        "English → Korean",
        "Korean → English · other",
        "Captions in English",
    ]
    assert page.locator("#model option").all_text_contents() == labels
    put(page, SENTENCES[0])
    before = shown(page)
    page.click("#switch")
    until(page, "title => document.title === title", arg="English → Korean")
    page.wait_for_selector(DONE)
    assert page.input_value("#model") == "1"
    assert page.input_value("#input") == before[0]
    put(page, LINE)
    assert shown(page) == expected(models["en-ko"], LINE)
    with page.expect_request(lambda request: "translate" in request.url) as sent:
        page.select_option("#model", "2")
    assert sent.value.post_data_json["model"] == "other"
    page.wait_for_selector(DONE)
    assert page.title() == "Korean → English"
    assert shown(page) == expected(models["other"], LINE)
    page.click("#about summary")
    page.wait_for_selector("#readme:not([hidden])")
    assert page.inner_text("#readme") == "A card."
    assert "weights" in page.inner_text("#facts")


def test_alternatives_and_continuations(page: Any, models: dict[str, Path]) -> None:
    put(page, LINE)
    page.wait_for_selector("#alternatives:not([hidden])")
    page.click("#alternatives-name")
    nbest = RuntimeTranslator(models["ko-en"], threads=1).translate(LINE, nbest=3)[0].nbest
    buttons = page.locator("#ranked button span:first-child")
    assert buttons.all_text_contents() == [hypothesis.text or "–" for hypothesis in nbest]
    page.locator("#ranked button").nth(1).click()
    assert shown(page) == [nbest[1].text]
    assert page.locator("#queries .word bdi").all_text_contents() == nbest[1].text.split(" ")
    page.click("#undo")
    page.wait_for_selector("#undo[hidden]", state="attached")
    page.locator(".line-of-text").click()
    page.locator(".word-of-text").nth(1).click()
    options = page.locator("#choices [role=option]")
    options.first.wait_for()
    assert options.count() >= 2
    page.locator("#choices [aria-selected=false]").first.click()
    page.wait_for_selector(".word-of-text:focus")
    assert shown(page) != [nbest[0].text]
    assert page.locator("#queries .word bdi").all_text_contents() == shown(page)[0].split(" "), (
        "it is explained too"
    )


def test_the_search_is_played(page: Any, models: dict[str, Path]) -> None:
    put(page, LINE)
    page.click("#open-player")
    page.wait_for_selector("#player:not([hidden])")
    _, steps = RuntimeTranslator(models["ko-en"], threads=1).trace(LINE)
    page.fill("#step", "2")  # after two layers of the encoder
    listed = page.locator("#mechanism .candidate").all_text_contents()
    assert len(listed) == min(6, len(steps[0].candidates))
    assert page.locator("#tree g g").count() > 1
    page.click("#open-player")
    page.wait_for_selector("#player", state="hidden")


def test_unsure_words_are_underlined_and_doubtful_lines_marked(
    page: Any, models: dict[str, Path]
) -> None:
    put(page, LINE)
    (translation,) = RuntimeTranslator(models["ko-en"], threads=1).translate([LINE])
    assert page.locator(".line-of-text[data-doubt='not learnt']").count() == translation.doubtful
    assert page.locator(".line-of-text [class^=unsure-]").count() > 0
    page.uncheck("#unsure")
    assert page.locator(".line-of-text [class^=unsure-]").count() == 0


def test_an_overtaken_request_is_given_up(
    open_page: Callable[..., Any], service: FakeService
) -> None:
    with serving(service) as port:
        page = open_page(f"http://127.0.0.1:{port}")
        page.fill("#input", "slow")
        wait_until(
            lambda: any(lines == ["slow"] for _, lines, _, _ in service.calls),
            "the request arrives",
        )
        put(page, "quick")
        assert shown(page) == ["QUICK"]
        wait_until(lambda: "slow" in service.cancelled, "the work is given up")


# --- what goes wrong


def test_the_server_goes_and_comes_back(
    open_page: Callable[..., Any], service: FakeService
) -> None:
    with serving(service) as port:
        page = open_page(f"http://127.0.0.1:{port}")
        put(page, "first")
        assert shown(page) == ["FIRST"]
    page.fill("#input", "second")
    until(page, "document.getElementById('notice').textContent.includes('cannot be reached')")
    assert page.is_visible("#notice")
    service.models = {
        name: model for name, model in service.models.items() if name in ("ko-en", "en-ko")
    }
    with serving(service, port):
        until(page, "document.querySelector('.line-of-text').textContent === 'SECOND'")
        page.wait_for_selector("#notice:empty", state="attached")
        until(page, "document.querySelectorAll('#model option').length === 2")


REFUSED = {
    "usage": "The server refuses this: `beam=9`: this model cannot",
    "long": "The server refuses this: text 1, line 1 is too long; shorten it",
    "bug": "The server refuses this: an error of the server",
    "x" * 200: "This is more than the server takes at once.",
}


def test_a_sentence_that_is_refused_spoils_no_other(
    open_page: Callable[..., Any], service: FakeService
) -> None:
    with serving(service, char_limit=100) as port:
        page = open_page(f"http://127.0.0.1:{port}")
        for number, (line, sentence) in enumerate(REFUSED.items()):
            put(page, f"one {number}\n{line}\ntwo {number}")
            first, wrong, last = shown(page)
            assert (first, last) == (f"ONE {number}", f"TWO {number}")
            assert wrong.startswith(sentence)
            assert page.locator(".line-of-text.failed").count() == 1


def test_a_busy_server_is_waited_for(open_page: Callable[..., Any], service: FakeService) -> None:
    with serving(service) as port:
        page = open_page(f"http://127.0.0.1:{port}")
        for line, sentence in (("overload", "too much to do"), ("deadline", "not done in time")):
            page.fill("#input", line)
            until(
                page,
                "text => document.getElementById('notice').textContent.includes(text)",
                arg=sentence,
            )
            if line == "overload":
                assert "in 7 seconds" in page.inner_text("#notice"), "as Retry-After says"
            put(page, f"fine after {line}")
            assert shown(page) == [f"FINE AFTER {line.upper()}"]
            page.wait_for_selector("#notice:empty", state="attached")


def test_a_key_is_asked_for(
    open_page: Callable[..., Any], service: FakeService, tmp_path: Path
) -> None:
    key = add_key(tmp_path / "keys.json", "somebody")
    with serving(service, require_key=True, key_file=str(tmp_path / "keys.json")) as port:
        page = open_page(f"http://127.0.0.1:{port}", wait="#key-form:not([hidden])")
        assert page.inner_text("#notice") == "This server wants an API key."
        page.wait_for_selector("#key:focus")
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        until(
            page, "document.getElementById('notice').textContent.includes('does not know this key')"
        )
        page.fill("#key", key)
        page.click("#key-form button")
        page.wait_for_selector("html[data-loaded]")
        put(page, "hello")
        assert shown(page) == ["HELLO"]
        assert page.is_hidden("#key-form")
        assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == [
            "",
            0,
            0,
        ]
        revoke_key(tmp_path / "keys.json", "somebody")
        page.fill("#input", "again")
        page.wait_for_selector("#key-form:not([hidden])")
        assert page.input_value("#key") == ""


# --- history


def test_nothing_is_stored_until_the_history_is_on(page: Any) -> None:
    page.evaluate(
        "() => { const { record } = historyPage; historyPage.record = (entry) => { record(entry); window.recorded = true; }; }"
    )
    put(page, "I go home")
    until(page, "() => window.recorded === true")
    assert page.evaluate(HISTORY) is None
    page.click("#history summary")
    assert "off until you switch it on" in page.inner_text("#history-note")
    page.check("#history-on")
    for text in ("you read", "you read a book.", "you read a book. I go home", "너는 책을 읽는다"):
        put(page, text)
        until(
            page, "text => localStorage['regard.history'].includes(JSON.stringify(text))", arg=text
        )
    texts = page.locator(".past span:first-child").all_text_contents()
    assert texts == ["너는 책을 읽는다", "you read a book. I go home"], (
        "what is typed on takes the place of its beginning"
    )
    page.locator(".past").nth(1).click()
    page.wait_for_selector(DONE)
    assert page.input_value("#input") == "you read a book. I go home"
    page.locator(".delete").first.click()
    assert page.locator(".past").count() == 1
    page.reload()
    page.wait_for_selector("html[data-loaded]")
    page.click("#history summary")
    assert page.is_checked("#history-on")
    assert page.locator(".past").count() == 1
    page.click("#history-clear")
    assert page.locator(".past").count() == 0
    page.uncheck("#history-on")
    assert page.evaluate(HISTORY) is None


def test_a_damaged_history_is_an_empty_one(page: Any) -> None:
    for stored in ("{", "null", "[]", '{"isOn": true, "entries": [1, {"text": 2}, null]}'):
        page.evaluate("stored => { localStorage['regard.history'] = stored; }", stored)
        page.reload()
        page.wait_for_selector("html[data-loaded]")
        page.click("#history summary")
        assert page.locator(".past").count() == 0, stored


def test_the_history_has_fifty_entries(page: Any) -> None:
    entry = {"model": "ko-en", "source": "ko", "target": "en", "translation": "t"}
    entries = [{**entry, "text": f"number {number} <b>&"} for number in range(50)]
    page.evaluate(
        "kept => { localStorage['regard.history'] = kept; }",
        json.dumps({"isOn": True, "entries": entries}),
    )
    page.reload()
    page.wait_for_selector("html[data-loaded]")
    page.click("#history summary")
    assert page.locator(".past").count() == 50
    put(page, "I go home")
    until(page, "document.querySelector('.past').textContent.includes('I go home')")
    assert page.locator(".past").count() == 50
    assert page.locator(".past b").count() == 0, "texts are no markup"


# --- captions

DROP = """([selector, bytes, name, type]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], name, { type }));
  for (const kind of ["dragover", "drop"]) document.querySelector(selector).dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


def encoded(content: bytes) -> str:
    import base64

    return base64.b64encode(content).decode()


def test_a_dropped_image_is_captioned(page: Any, models: dict[str, Path]) -> None:
    page.evaluate(DROP, ["#input", encoded(image_bytes()), "a.png", "image/png"])
    page.wait_for_selector("#caption.done")
    (caption,) = load_captioner(models["captions"]).caption(image_bytes(), readings=True)
    assert page.inner_text("#caption") == caption.text
    assert page.title() == "Captions in English"
    page.wait_for_selector("#attention:not([hidden])")
    assert page.locator("#queries .word bdi").all_text_contents() == caption.text.split(" ")
    page.locator("#queries .word").first.focus()
    page.keyboard.press("ArrowRight")
    assert "attends to" in page.inner_text("#readout")
    page.click("#open-player")
    page.wait_for_selector("#player:not([hidden])")
    page.wait_for_selector("#step-source canvas")
    page.select_option("#model", "0")
    put(page, LINE)
    assert shown(page) == expected(models["ko-en"], LINE)
    assert page.is_hidden("#captioning")


def test_large_images_are_made_smaller_and_others_are_refused(page: Any) -> None:
    from PIL import Image

    page.select_option("#model", "3")
    file = io.BytesIO()
    Image.new("RGBA", (2000, 500), (255, 0, 0, 128)).save(file, "BMP")
    page.set_input_files(
        "#file", {"name": "a.bmp", "mimeType": "image/bmp", "buffer": file.getvalue()}
    )
    page.wait_for_selector("#caption.done")
    sent = page.locator("#preview")  # it shows what is sent
    assert sent.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [1600, 400]
    for content, name, kind in ((b"no image", "a.png", "image/png"), (b"", "a.txt", "text/plain")):
        page.evaluate(DROP, ["#drop", encoded(content), name, kind])
        page.wait_for_selector("#caption.unread")
        assert page.inner_text("#caption") == "This is no image that the browser can read."
        assert page.is_hidden("#attention")


def test_an_image_is_pasted(page: Any) -> None:
    page.evaluate(
        """bytes => {
          const clipboardData = new DataTransfer();
          clipboardData.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], "a.png", { type: "image/png" }));
          document.getElementById("input").dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        encoded(image_bytes()),
    )
    page.wait_for_selector("#caption.done")


def test_a_server_without_captioner_says_so(
    open_page: Callable[..., Any], service: FakeService
) -> None:
    service.models = {"ko-en": service.models["ko-en"]}
    with serving(service) as port:
        page = open_page(f"http://127.0.0.1:{port}")
        assert page.is_hidden("#choice"), "there is nothing to choose"
        page.evaluate(DROP, ["#input", encoded(image_bytes()), "a.png", "image/png"])
        assert page.inner_text("#notice") == "This server has no model for captions of images."


# --- its looks


@pytest.mark.slow
def test_it_fits_a_phone_in_korean_and_dark(open_page: Callable[..., Any], server: Running) -> None:
    context = {"viewport": {"width": 400, "height": 800}, "locale": "ko-KR", "color_scheme": "dark"}
    page = open_page(address(server), **context)
    assert page.inner_text("#title") == "한국어 → 영어"
    put(page, SENTENCES[0])
    page.wait_for_selector("#attention:not([hidden])")
    page.click("#history summary")
    page.check("#history-on")
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    sizes = page.locator("button:visible, select:visible").evaluate_all(
        "all => all.filter(b => b.getBoundingClientRect().height < 40).map(b => b.outerHTML)"
    )
    assert sizes == []
    page.select_option("#model", "3")
    assert page.inner_text("#title") == "영어 캡션"
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.click("#language")
    assert page.inner_text("#title") == "Captions in English"


@pytest.mark.parametrize(
    "context",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"color_scheme": "dark", "viewport": {"width": 400, "height": 800}, "locale": "ko-KR"},
    ],
)
def test_axe_finds_nothing(
    open_page: Callable[..., Any], server: Running, axe: str, context: dict[str, Any]
) -> None:

    def violations(page: Any) -> Any:
        page.evaluate(axe)
        return page.evaluate(
            "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
        )

    page = open_page(address(server), **context)
    page.click("#history summary")
    page.check("#history-on")
    put(page, "you read a book")
    page.wait_for_selector("#attention:not([hidden])")
    page.click("#alternatives-name")
    page.click("#about summary")
    page.wait_for_selector("#readme:not([hidden])")
    page.click("#open-player")
    page.wait_for_selector("#player:not([hidden])")
    page.wait_for_selector(".past")
    page.evaluate("document.getElementById('key-form').hidden = false")
    assert violations(page) == []
    page.select_option("#model", "3")
    page.set_input_files(
        "#file", {"name": "a.png", "mimeType": "image/png", "buffer": image_bytes()}
    )
    page.wait_for_selector("#attention:not([hidden])")
    page.click("#captions-name")
    assert violations(page) == []
