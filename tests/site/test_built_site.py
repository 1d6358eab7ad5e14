"""The site as readers get it: links, sizes, search, languages, the translator, accessibility."""

from __future__ import annotations

import functools
import http.server
import re
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

# The generator takes most of a minute.
pytestmark = [pytest.mark.system, pytest.mark.slow]
DOCS = Path(__file__).resolve().parents[2] / "docs"
LARGEST = 1_000_000
# Made by the program; tested in tests/js, tests/lessons.
OWN = {
    "translator.html",
    "ko/translator.html",
    "numbers.html",
    "ko/numbers.html",
    "numbers-two-heads.html",
    "ko/numbers-two-heads.html",
}
WORDS = {
    "어텐션": "ko/tutorials/inside",
    "어텐션은": "ko/glossary",
    "번역기를": "ko/tutorials/translator",
    "휴대전화": "ko/tutorials/phone",
    "층": "ko/glossary",
    "체크포인트가": "ko/coming-from",
    "softmax": "attention",
    "--no-repeat-ngram": "reference/commands",
}
"""Words of a search, some of them with particles or in compounds, and a page that is found."""
WISHES = {
    "search.html": {
        "offline": "tutorials/phone",
        "private": "server",
        "beam search": "translation",
        "confidence interval": "tutorials/compare",
        "alt text": "tutorials/captions",
        "3,000 sentences": "tutorials/translator",
        "atention": "attention",
        "BLEU of zzyzx": "comparison",
    },
    "search-ko.html": {
        "오프라인": "ko/tutorials/phone",
        "소프트맥스": "ko/attention",
        "번역 서버": "ko/tutorials/serve",
        "50분 수업": "ko/tutorials/lesson",
        "어탠션": "ko/attention",
        "개인 정보": "ko/tutorials/strings",
        "여러 PO 파일": "ko/tutorials/strings",
    },
}
"""Searches by wish, in words that the page may not have, and the page that is among the first three
results.
"""
NOT_FOUND = ["어션텐", "퉤퉤"]
TRIED = [
    "index",
    "ko/index",
    "tutorials/translator",
    "ko/tutorials/translator",
    "reference/http",
]
TRIED += ["glossary", "ko/glossary", "search-ko"]


class _Page(HTMLParser):
    """Ids, links, resources and images of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids = set[str]()
        self.links = list[str]()
        self.resources = list[str]()
        self.images = list[dict[str, str | None]]()
        self.language = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if identifier := values.get("id"):
            self.ids.add(identifier)
        if tag == "html":
            self.language = values.get("lang") or ""
        if tag == "a" and values.get("href") is not None:
            self.links.append(str(values["href"]))
        if tag == "img":
            self.images.append(values)
        is_loaded = tag != "link" or values.get("rel") in {
            "stylesheet",
            "icon",
            "shortcut icon",
            "prefetch",
        }
        if tag in {"script", "img", "link", "iframe", "source"} and is_loaded:
            self.resources += [
                str(values[name]) for name in ("src", "href") if values.get(name)
            ]


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, _Page]:
    """Return all pages of the site by their path."""
    return {
        name: _Page(path)
        for path in sorted(site.rglob("*.html"))
        if (name := path.relative_to(site).as_posix()) not in OWN
    }


def _target(site: Path, page: str, link: str) -> tuple[Path, str]:
    """Return the file that a link leads to, and the anchor in it."""
    parts = urlsplit(link)
    return (
        (site / page).parent / unquote(parts.path)
    ).resolve() if parts.path else site / page, unquote(parts.fragment)


def test_no_link_and_no_anchor_is_dead(site: Path, pages: dict[str, _Page]) -> None:
    assert len(pages) > 50
    ids = {(site / name).resolve(): page.ids for name, page in pages.items()}
    for name, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme in {"http", "https", "mailto"}:
                continue
            path, anchor = _target(site, name, link)
            assert path.is_file(), f"{name}: {link}"
            assert not anchor or anchor in ids.get(path.resolve(), {anchor}), (
                f"{name}: {link}"
            )


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[str, _Page]) -> None:
    for name, page in pages.items():
        for resource in page.resources:
            assert not urlsplit(resource).netloc, f"{name}: {resource}"
            assert _target(site, name, resource)[0].is_file(), f"{name}: {resource}"
    for style in site.rglob("*.css"):
        assert not re.search(
            r"(?:url\(|@import)\s*[\"']?(?:https?:)?//",
            style.read_text(encoding="utf-8"),
        ), style


def test_every_image_is_described(pages: dict[str, _Page]) -> None:
    for name, page in pages.items():
        assert all(image.get("alt") for image in page.images), name


@pytest.mark.parametrize("name", sorted(name for name in OWN if "numbers" in name))
def test_the_page_of_numbers_is_there_in_both_languages(site: Path, name: str) -> None:
    text = (site / name).read_text(encoding="utf-8")
    assert f'<html lang="{"ko" if name.startswith("ko/") else "en"}"' in text
    assert len(text.encode()) < LARGEST

    (link,) = re.findall(r'<main>\s*<p><a href="([^"]+)">', text)
    assert link == "tutorials/lesson.html"
    assert ((site / name).parent / link).is_file()


@pytest.mark.parametrize(
    "name", ["index.html", "install.html", "ko/index.html", "ko/install.html"]
)
def test_the_source_is_offered_if_git_can_pack_it(site: Path, name: str) -> None:
    archive = pytest.importorskip(
        "source_archive", reason="Sphinx is not installed: pip install '.[site]'"
    )
    asks = (
        "이 사이트를 준 사람에게서"
        if name.startswith("ko/")
        else "from whoever gave you this site"
    )
    text = (site / name).read_text(encoding="utf-8")

    assert (asks in text) == (archive.commit() == "")

    links = re.findall(r'<a href="([^"]+)" download>', text)
    assert len(links) == bool(archive.commit())

    for link in links:
        with tarfile.open((site / name).parent / link) as packed:
            assert "regard/pyproject.toml" in packed.getnames()


def test_pages_are_small(site: Path, pages: dict[str, _Page]) -> None:
    for name, page in pages.items():
        files = {_target(site, name, resource)[0] for resource in page.resources} | {
            site / name
        }
        size = sum(file.stat().st_size for file in files)
        assert size < LARGEST, f"{name}: {size:,} bytes with all that it loads"


def test_every_page_says_its_language_and_leads_to_the_other(
    site: Path, pages: dict[str, _Page]
) -> None:
    for name, page in pages.items():
        is_korean = name.startswith("ko/") or name == "search-ko.html"
        assert page.language == ("ko" if is_korean else "en"), name
        counterpart = name.removeprefix("ko/") if is_korean else f"ko/{name}"
        counterpart = {
            "search.html": "search-ko.html",
            "search-ko.html": "search.html",
        }.get(name, counterpart)
        wanted = (
            counterpart
            if counterpart in pages
            else "index.html"
            if is_korean
            else "ko/index.html"
        )
        assert site / wanted in {_target(site, name, link)[0] for link in page.links}, (
            name
        )


def test_llms_txt_lists_the_pages(site: Path, pages: dict[str, _Page]) -> None:
    links = re.findall(
        r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8")
    )
    assert set(links) <= set(pages)

    listed = {
        name
        for name in pages
        if not name.endswith(("search.html", "search-ko.html", "index.html"))
    }
    assert listed <= set(links), listed - set(links)


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    """Return a context without a network, which fails if a page asks another host."""
    context = browser.new_context(offline=True, locale="ko-KR")
    requests = list[str]()
    context.on(
        "request",
        lambda request: (
            request.url.startswith(("file:", "data:", "blob:"))
            or requests.append(request.url)
        ),
    )
    yield context
    context.close()

    assert requests == []


def test_search_finds_words_with_particles_and_in_compounds(
    site: Path, context: Any
) -> None:
    page = context.new_page()
    page.goto(f"{(site / 'search-ko.html').as_uri()}?q=어텐션은")
    page.wait_for_selector("#search-results li a")
    first = page.locator("#search-results li a").first.get_attribute("href")

    assert first.startswith("ko/")
    assert (
        page.locator(
            "#search-results li p", has_text="어텐션은 부드러운 사전입니다"
        ).count()
        == 1
    )
    assert (site / first.partition("#")[0]).is_file()

    find = "word => Search._performSearch(...Search._parseQuery(word)).map(result => result[0])"
    for word, expected in WORDS.items():
        assert expected in page.evaluate(find, word), word

    for word in NOT_FOUND:
        assert page.evaluate(find, word) == [], word

    page.close()


@pytest.mark.parametrize("start", WISHES)
def test_the_first_three_results_hold_the_page_that_is_wished_for(
    site: Path, context: Any, start: str
) -> None:
    page = context.new_page()
    page.goto(f"{(site / start).as_uri()}?q=bleu")
    page.wait_for_selector("#search-results li a")
    find = "word => Search._performSearch(...Search._parseQuery(word)).map(result => result[0]).reverse().slice(0, 3)"
    results = {query: page.evaluate(find, query) for query in WISHES[start]}

    assert {
        query: pages
        for query, pages in results.items()
        if WISHES[start][query] not in pages
    } == {}

    page.close()


def test_a_result_shows_the_words_in_their_text(
    site: Path, context: Any, axe: str
) -> None:
    page = context.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q=offline")
    first = page.locator(
        "#search-results li", has=page.locator("a[href^='tutorials/phone.html']")
    )
    first.locator("mark", has_text="without a network").wait_for()

    assert (
        page.locator("#search-results li.kind-text p.summary").count()
        <= page.locator("#search-results li").count()
    )
    assert all(
        len(text) < 300
        for text in page.locator("#search-results p.summary").all_text_contents()
    )

    page.evaluate(axe)
    violations = page.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)"
    )
    assert [(v["id"], v["nodes"][0]["html"]) for v in violations] == []

    page.goto(f"{(site / 'search.html').as_uri()}?q=%3Cimg+src%3Dx%3E+offline+%22")
    page.wait_for_function(
        "document.querySelector('.search-summary').textContent !== ''"
    )
    assert page.locator("#search-results img").count() == 0

    find = "word => Search._performSearch(...Search._parseQuery(word)).length"
    for word in (
        "constructor",
        "__proto__",
        "(",
        "c++ \\",
        "\U0001f600",
        " ",
        "한" * 2000,
    ):
        assert page.evaluate(find, word) >= 0, word

    page.close()


def test_an_empty_result_leads_to_the_guides_and_a_correction_is_named(
    site: Path, context: Any
) -> None:
    page = context.new_page()
    for start, word, link, corrected in (
        ("search.html", "atention", "guides.html", "attention"),
        ("search-ko.html", "어탠션", "ko/guides.html", "어텐션"),
    ):
        page.goto(f"{(site / start).as_uri()}?q=퉤퉤")
        page.locator(f".search-summary a[href='{link}']").wait_for()
        assert page.locator("#search-results li").count() == 0
        page.goto(f"{(site / start).as_uri()}?q={word}")
        page.locator(".search-summary", has_text=corrected).wait_for()
    page.close()


def test_a_word_has_one_family_of_synonyms() -> None:
    families = pytest.importorskip(
        "search_data", reason="Sphinx is not installed: pip install '.[site]'"
    ).families()
    words = [word for family in families for word in family]
    assert all(word == word.lower().strip() and word for word in words)
    assert [word for word, count in Counter(words).items() if count > 1] == []


def _check_the_translator(page: Any) -> None:
    page.wait_for_selector("#try[data-loaded]")
    assert page.locator("[data-part=output]").text_content() == "I was eating bread"

    page.fill("#try-input", "나는 집에 간다")
    page.locator("[data-part=output]", has_text="I go home").wait_for()
    label = page.locator("[data-part=target] button").nth(2).get_attribute("aria-label")

    assert re.fullmatch(r"home: 집에 \d+ %", label)
    assert page.locator("[data-part=lines] path").count() >= 3

    page.fill("#try-input", "")
    page.locator("[data-part=figure]").wait_for(state="hidden")
    asks = (
        "한국어 문장을"
        if page.evaluate("document.documentElement.lang") == "ko"
        else "Type a Korean sentence"
    )
    page.locator("[data-part=message]", has_text=asks).wait_for()
    page.fill("#try-input", "나는 집에 간다")
    page.locator("[data-part=message]").wait_for(state="hidden")
    for unlike in ("너를 사랑해", "asdf"):  # of which the model is sure
        page.fill("#try-input", unlike)
        message = page.locator(
            "[data-part=message]", has_text=re.compile("not learnt|배우지 않은")
        )
        message.wait_for()
        page.fill("#try-input", "나는 집에 간다")
        page.locator("[data-part=message]").wait_for(state="hidden")


@pytest.mark.parametrize("name", ["index.html", "ko/index.html"])
def test_the_start_page_translates_from_disk(
    site: Path, context: Any, name: str
) -> None:
    page = context.new_page()
    page.goto((site / name).as_uri())
    _check_the_translator(page)
    page.close()


def test_the_start_page_of_a_server_loads_the_model_as_a_file(
    site: Path, browser: Any
) -> None:
    handler = functools.partial(_Silent, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        names = list[str]()
        page.on("request", lambda request: names.append(request.url.rpartition("/")[2]))
        page.goto(f"http://127.0.0.1:{server.server_port}/ko/")
        _check_the_translator(page)
        page.close()
        server.shutdown()

    assert {"model.regard", "regard.wasm"} <= set(names)
    assert "files.js" not in names


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *values: object) -> None:
        """Print nothing."""


@pytest.mark.parametrize("name", TRIED)
def test_pages_are_accessible(site: Path, context: Any, axe: str, name: str) -> None:
    page = context.new_page()
    page.goto((site / f"{name}.html").as_uri())
    page.evaluate(axe)
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.evaluate(
                "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
            )
            violations = page.evaluate(
                "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)"
            )
            assert [(v["id"], v["nodes"][0]["html"]) for v in violations] == [], (
                f"{width} {scheme}"
            )
        assert page.evaluate("document.documentElement.scrollWidth") <= width

    page.close()
