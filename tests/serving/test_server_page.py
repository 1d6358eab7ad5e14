"""The page at / in a real browser: typing, models, alternatives, the search, history, images, keys,
and a server that goes.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake import Ask, FakeService
from helpers.browser import assert_accessible_and_narrow
from helpers.small_models import SENTENCES, captioner_folder
from helpers.time_limits import wait_until
from PIL import Image
from running_server import RunningServer, serving

from regard.pipeline import RuntimeTranslator, load_captioner
from regard.serving.keys import add_key, revoke_key
from tests.serving.test_models import image_bytes, write_file
from tests.serving.test_server import running

pytestmark = pytest.mark.system
DONE = "#translation[aria-busy=false]"
LOADED = "html[data-loaded]"
LINE = "you read a book"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write two translators of opposite directions, another one, and a captioner."""
    folder = tmp_path_factory.mktemp("models")
    kinds = {"ko-en": "transformer", "en-ko": "recurrent", "other": "transformer"}
    files = {
        name: write_file(folder / f"{name}.regard", kind)
        for name, kind in kinds.items()
    }
    return {**files, "captions": captioner_folder(folder / "captions")}


@pytest.fixture(scope="module")
def server(models: dict[str, Path]) -> Iterator[RunningServer]:
    languages = ["--languages=ko,en", "--languages=en,ko"]
    languages += ["--languages=ko,en", "--languages=en"]
    files = map(str, models.values())
    with running(*files, *languages, "--precision", "float32") as started:
        yield started


@pytest.fixture
def page(open_page: Callable[..., Any], server: RunningServer) -> Any:
    return open_page(server.address, LOADED)


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

    policy = answer.headers["content-security-policy"]
    rules = dict(part.split(" ", 1) for part in policy.split("; "))
    for name in ("default-src", "form-action", "base-uri", "frame-ancestors"):
        assert rules[name] == "'none'"

    assert rules["connect-src"] == "'self'"
    assert rules["script-src"].startswith("'sha256-")
    assert rules["style-src"].startswith("'sha256-")
    assert "unsafe" not in policy
    assert answer.text.count("<script>") == answer.text.count("<style>") == 1
    assert "{{" not in answer.text

    for field in ("input", "printed", "caption"):
        assert re.search(rf'<[^>]* id="{field}"[^>]* dir="auto"', answer.text)
    addresses = re.findall("https?://[a-z0-9.]*", answer.text)
    assert {*addresses} == {"http://www.w3.org"}


def test_browsers_keep_it_and_ask_again(
    make_ask: Callable[..., Ask], tmp_path: Path
) -> None:
    """It needs no key, and can be switched off."""
    file = tmp_path / "keys.json"
    add_key(file, "somebody")
    ask = make_ask(require_key=True, key_file=str(file))
    tag = ask("/", "GET").headers["etag"]
    again = ask("/", "GET", headers={"If-None-Match": f"W/{tag}"})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["cache-control"] == "no-cache"
    assert ask("/", "GET", headers={"If-None-Match": '"other"'}).status_code == 200
    assert ask("/", "HEAD").status_code == 200
    assert make_ask(page=False)("/", "GET").status_code == 404


@pytest.mark.slow
def test_the_extra_serve_is_enough_for_it() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(("torch", "PIL", "fontTools", "sentencepiece", "safetensors")))  # none is installed
from fake import FakeService
from regard.serving import application, serving_process
from regard.requests.server_settings import ServerSettings
serving_process.create_app(FakeService(), ServerSettings())
application._page()
"""
    paths = os.pathsep.join(
        (str(Path(__file__).parent), os.environ.get("PYTHONPATH", ""))
    )
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=60,
    )


# --- translation


def test_it_translates_what_is_typed_and_explains_it(
    page: Any, models: dict[str, Path]
) -> None:
    assert page.title() == page.inner_text("#title") == "Korean → English"

    host = page.evaluate("location.host")
    assert f"this server, {host}" in page.inner_text("#private")

    sent: list[Any] = []
    page.on(
        "request", lambda request: "translate" in request.url and sent.append(request)
    )
    page.click("#input")
    page.keyboard.type("I go home. You read a book.\n\nyou", delay=3)
    page.wait_for_selector(DONE)
    sentences = ["I go home.", "You read a book.", "you"]

    assert shown(page) == expected(models["ko-en"], *sentences)

    counts = "all => all.map(p => p.children.length)"
    assert page.locator("#translation p").evaluate_all(counts) == [2, 0, 1]
    assert len(sent) < 8, "not at every key"

    before = len(sent)
    put(page, "You read a book. I go home.")
    assert len(sent) == before, "what was translated is kept"

    put(page, LINE)
    # The text before has "book." in this place.
    page.locator("#columns .word bdi", has_text=re.compile("^book$")).wait_for()
    translator = RuntimeTranslator(models["ko-en"], threads=1)
    (translation,) = translator.translate(LINE, readings=True)
    readings = translation.readings

    assert readings is not None

    page.click("summary[data-text=numbers]")
    for role, layer, head in (("cross", 0, 1), ("encoder", 1, 0)):
        page.select_option("#role", role)
        page.select_option("#layer", index=layer)
        page.select_option("#head", index=head + 1)
        weights = readings.words(readings.layers(role)[layer], head).weights
        rows = page.locator("#table tbody tr").all()
        for row, values in zip(rows, weights, strict=True):
            cells = [float(cell) for cell in row.locator("td").all_text_contents()]
            assert cells[: len(values)] == pytest.approx(values, abs=6e-4), role
    doubtful = page.locator(".line-of-text[data-doubt='doubtful']")

    assert doubtful.count() == translation.doubtful
    assert page.locator(".line-of-text [class^=unsure-]").count() > 0

    page.click("#open-player")
    page.wait_for_selector("#player:not([hidden])")
    _, steps = translator.trace(LINE)
    page.fill("#step", "2")  # after two layers of the encoder
    candidates = min(6, len(steps[0].candidates))

    assert page.locator("#mechanism .candidate").count() == candidates


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
    assert shown(page) == expected(models["other"], LINE)

    page.click("#about summary")
    page.wait_for_selector("#readme:not([hidden])")
    assert page.inner_text("#readme") == "A card."
    assert "weights" in page.inner_text("#facts")


def test_languages_that_browsers_do_not_know_have_names(page: Any) -> None:
    names = [
        page.evaluate("code => livePage.languageName(code, '')", code)
        for code in ("hsb", "ko", "")
    ]
    assert names == ["Upper Sorbian", "Korean", ""]


def test_alternatives_and_continuations(page: Any, models: dict[str, Path]) -> None:
    put(page, LINE)
    page.wait_for_selector("#alternatives:not([hidden])")
    page.click("#alternatives-name")
    nbest = (
        RuntimeTranslator(models["ko-en"], threads=1).translate(LINE, nbest=3)[0].nbest
    )
    buttons = page.locator("#ranked button span:first-child")

    assert buttons.all_text_contents() == [
        hypothesis.text or "–" for hypothesis in nbest
    ]

    page.locator("#ranked button").nth(1).click()
    assert shown(page) == [nbest[1].text]

    page.click("#undo")
    page.wait_for_selector("#undo[hidden]", state="attached")
    page.locator(".line-of-text").click()
    page.locator(".word-of-text").nth(1).click()
    page.locator("#choices [aria-selected=false]").first.click()
    page.wait_for_selector(".word-of-text:focus")
    (text,) = shown(page)

    assert text != nbest[0].text
    assert page.locator("#queries .word bdi").all_text_contents() == text.split(" ")


# --- what goes wrong


@pytest.mark.slow
def test_the_server_goes_and_comes_back(
    open_page: Callable[..., Any], service: FakeService
) -> None:
    """With fewer models, of which none is for images."""
    with serving(service) as address:
        page = open_page(address, LOADED)
        put(page, "first")
        assert shown(page) == ["FIRST"]
    page.fill("#input", "second")
    page.locator("#notice", has_text="cannot be reached").wait_for()
    service.models = {"ko-en": service.models["ko-en"]}
    with serving(service, int(address.rpartition(":")[2])):
        page.locator(".line-of-text", has_text="SECOND").wait_for()
        page.wait_for_selector("#notice:empty", state="attached")
        page.wait_for_selector("#choice", state="hidden")
        send(page, "drop", image_bytes())
        notice = "This server has no model for captions of images."

        assert page.inner_text("#notice") == notice


REFUSED = {
    "usage": "The server refuses this: `beam=9`: this model cannot",
    "long": "The server refuses this: text 1, line 1 is too long; shorten it",
    "bug": "The server refuses this: an error of the server",
    "x" * 200: "This is more than the server takes at once.",
}


@pytest.mark.slow
def test_what_is_overtaken_refused_or_too_much_spoils_no_other_sentence(
    open_page: Callable[..., Any], serve: Callable[..., str], service: FakeService
) -> None:
    page = open_page(serve(char_limit=100), LOADED)
    page.fill("#input", "slow")
    wait_until(lambda: service.calls, "the request arrives")
    put(page, "quick")

    assert shown(page) == ["QUICK"]

    wait_until(lambda: service.cancelled, "the work is given up")

    for line, sentence in REFUSED.items():
        put(page, f"one\n{line}\ntwo {line[0]}")
        first, wrong, last = shown(page)
        assert (first, last) == ("ONE", f"TWO {line[0].upper()}")
        assert wrong.startswith(sentence)
        assert page.locator(".line-of-text.failed").count() == 1

    for line, sentence in (
        ("overload", "too much to do. The page tries again in 7 seconds"),
        ("deadline", "not done in time"),
    ):
        page.fill("#input", line)
        page.locator("#notice", has_text=sentence).wait_for()
        put(page, f"fine after {line}")
        assert shown(page) == [f"FINE AFTER {line.upper()}"]
        page.wait_for_selector("#notice:empty", state="attached")


def test_a_key_is_asked_for(
    open_page: Callable[..., Any], serve: Callable[..., str], tmp_path: Path
) -> None:
    file = tmp_path / "keys.json"
    key = add_key(file, "somebody")
    address = serve(require_key=True, key_file=str(file))
    page = open_page(address, "#key-form:not([hidden])")

    assert page.inner_text("#notice") == "This server wants an API key."

    page.wait_for_selector("#key:focus")
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    page.locator("#notice", has_text="does not know this key").wait_for()
    page.fill("#key", key)
    page.click("#key-form button")
    page.wait_for_selector(LOADED)
    put(page, "hello")

    assert shown(page) == ["HELLO"]
    assert page.is_hidden("#key-form")

    stored = "[document.cookie, localStorage.length, sessionStorage.length]"
    assert page.evaluate(stored) == ["", 0, 0]

    revoke_key(file, "somebody")
    page.fill("#input", "again")
    page.wait_for_selector("#key-form:not([hidden])")
    assert page.input_value("#key") == ""


# --- history


def past_of(page: Any, stored: str) -> Any:
    """Load the page again with a stored history, and open it; return its entries."""
    page.evaluate("kept => { localStorage['regard.history'] = kept; }", stored)
    page.reload()
    page.wait_for_selector(LOADED)
    page.click("#history summary")
    return page.locator(".past")


@pytest.mark.slow
def test_the_history_is_kept_once_it_is_on(page: Any) -> None:
    """What is stored may also be damaged, hostile, or as much as is kept."""
    put(page, "I go home")
    page.wait_for_selector("#attention:not([hidden])")
    kept = "localStorage['regard.history'] ?? null"
    assert page.evaluate(kept) is None, "nothing is stored before it is asked for"

    page.click("#history summary")
    page.check("#history-on")
    whole = "you read a book. I go home"
    for text in ("you read", "you read a book.", whole, "너는 책을 읽는다"):
        put(page, text)
        page.locator(".past", has_text=text).wait_for()
    texts = page.locator(".past span:first-child").all_text_contents()

    assert texts == ["너는 책을 읽는다", whole], "typed on, it is one entry"

    page.locator(".past").nth(1).click()
    page.wait_for_selector(DONE)
    assert page.input_value("#input") == whole

    page.locator(".delete").first.click()
    page.reload()
    page.wait_for_selector(LOADED)
    page.click("#history summary")

    assert page.is_checked("#history-on")
    assert page.locator(".past").count() == 1

    page.click("#history-clear")
    page.uncheck("#history-on")
    assert page.evaluate(kept) is None

    damaged = '{"isOn": true, "entries": [1, {"text": 2}, null]}'
    assert past_of(page, "{").count() == past_of(page, damaged).count() == 0

    entry = {"model": "ko-en", "source": "ko", "target": "en", "translation": "t"}
    entries = [{**entry, "text": f"number {number} <b>&"} for number in range(50)]
    past = past_of(page, json.dumps({"isOn": True, "entries": entries}))
    assert past.count() == 50

    put(page, "I go home")
    past.filter(has_text="I go home").wait_for()
    assert past.count() == 50
    assert past.locator("b").count() == 0, "texts are no markup"


# --- captions

SEND = """([selector, kind, bytes]) => {
  const content = Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([content], "a.png", { type: "image/png" }));
  const options = { dataTransfer: data, clipboardData: data, bubbles: true, cancelable: true };
  const make = kind === "paste" ? ClipboardEvent : DragEvent;
  document.querySelector(selector).dispatchEvent(new make(kind, options));
}"""


def send(page: Any, kind: str, content: bytes, selector: str = "#input") -> None:
    """Drop a file on the text, or paste it."""
    page.evaluate(SEND, [selector, kind, base64.b64encode(content).decode()])


@pytest.mark.slow
def test_an_image_is_captioned(page: Any, models: dict[str, Path]) -> None:
    image = image_bytes()
    send(page, "drop", image)
    page.wait_for_selector("#caption.done")
    captioner = load_captioner(models["captions"])
    (caption,) = captioner.caption(image, readings=True)

    assert page.inner_text("#caption") == caption.text
    assert page.title() == "Captions in English"

    page.wait_for_selector("#attention:not([hidden])")
    words = page.locator("#queries .word bdi").all_text_contents()
    assert words == caption.text.split(" ")

    page.click("#open-player")
    page.wait_for_selector("#step-source canvas")

    file = io.BytesIO()
    Image.new("RGBA", (2000, 500), (255, 0, 0, 128)).save(file, "BMP")
    large = {"name": "a.bmp", "mimeType": "image/bmp", "buffer": file.getvalue()}
    page.set_input_files("#file", large)
    sizes = "image => [image.naturalWidth, image.naturalHeight].join()"
    until(page, f"({sizes})(document.querySelector('#preview')) === '1600,400'")
    page.wait_for_selector("#caption.done")
    send(page, "drop", b"no image", "#drop")
    page.wait_for_selector("#caption.unread")

    assert page.inner_text("#caption") == "This is no image that the browser can read."

    page.select_option("#model", "0")
    put(page, LINE)
    assert shown(page) == expected(models["ko-en"], LINE)
    assert page.is_hidden("#captioning")

    send(page, "paste", image)
    page.wait_for_selector("#caption.done")


# --- its looks


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"color_scheme": "dark", "locale": "ko-KR"},
    ],
    ids=["light", "dark"],
)
def test_it_is_accessible_and_fits_a_phone(
    open_page: Callable[..., Any],
    server: RunningServer,
    axe: str,
    options: dict[str, Any],
) -> None:
    page = open_page(server.address, LOADED, **options)
    title = "한국어 → 영어" if options else "Korean → English"
    assert page.inner_text("#title") == title

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
    assert_accessible_and_narrow(page, axe)
    small = page.locator("button:visible, select:visible").evaluate_all(
        "all => all.filter(b => b.getBoundingClientRect().height < 40).map(b => b.outerHTML)"
    )

    assert small == [], "a finger finds each"

    page.select_option("#model", "3")
    image = {"name": "a.png", "mimeType": "image/png", "buffer": image_bytes()}
    page.set_input_files("#file", image)
    page.wait_for_selector("#attention:not([hidden])")
    page.click("#captions-name")
    assert_accessible_and_narrow(page, axe)
