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
from helpers.text_table import items

# The generator takes most of a minute.
pytestmark = [pytest.mark.system, pytest.mark.slow]
LARGEST = 2_000_000
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
        "√d": "notes/003",
        "vanishing gradient": "notes/questions",
    },
    "search-ko.html": {
        "오프라인": "ko/tutorials/phone",
        "소프트맥스": "ko/attention",
        "번역 서버": "ko/tutorials/serve",
        "50분 수업": "ko/tutorials/lesson",
        "어탠션": "ko/attention",
        "개인 정보": "ko/tutorials/strings",
        "여러 PO 파일": "ko/tutorials/strings",
        "√d": "ko/notes/003",
        "−∞": "ko/attention",
        "h̃": "ko/notes/001",
        "기울기 소실": "ko/notes/questions",
        "왜 tanh": "ko/notes/questions",
    },
}
"""Searches by wish, in words that the page may not have, and the page that is among the first three
results.
"""
SECTIONS = {
    "Positional Encoding": "ko/notes/003#ko-n003-sinusoids",
    "위치 인코딩": "ko/notes/003#ko-n003-sinusoids",
    "위치 부호화": "ko/notes/003#ko-n003-sinusoids",
    "가중평균": "ko/notes/000#ko-n000-weights",
    "masked self-attention": "ko/notes/003#ko-n003-mask",
    "티처 포싱": "ko/notes/000#ko-n000-teacher-forcing",
    "양방향": "ko/notes/003#ko-n003-directions",
    "층 정규화 분산": "ko/notes/003#ko-n003-norm",
    "병렬처리": "ko/notes/002#ko-n002-parallel",
    "소프트맥스 비율": "ko/notes/001#ko-n001-vectors",
}
"""Searches, and the section of the notes that comes first."""
FIRST = """word => { const [name, , anchor] = Search._performSearch(...Search._parseQuery(word)).at(-1); return name + anchor; }"""
SEARCHES = [
    line.split("\t")
    for line in Path(__file__)
    .with_name("searches.tsv")
    .read_text(encoding="utf-8")
    .splitlines()
]
"""Searches of readers of the notes: to choose the rules by or held out, the language, the words,
and the section that answers.
"""
LEAST_FOUND = 0.8
FIRST_THREE = "word => Search._performSearch(...Search._parseQuery(word)).slice(-3).map(([name, , anchor]) => name + anchor)"
RAW_EMPHASIS = re.compile(r"(?<![\w*])\*[^\s*][^*\n]{0,80}\*(?!\*)")
NOT_FOUND = ["어션텐", "퉤퉤"]
FIND = "word => Search._performSearch(...Search._parseQuery(word)).map(result => result[0])"
TRIED = "index ko/index tutorials/translator ko/tutorials/translator lessons/recurrent ko/lessons/decoder ko/experiments/norm worksheet-decoder reference/http glossary ko/glossary search-ko attention ko/attention ko/notes ko/notes/003 notes/001 ko/notes/questions"


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
        loaded = {"stylesheet", "icon", "shortcut icon", "prefetch"}
        is_loaded = tag != "link" or values.get("rel") in loaded
        if tag in {"script", "img", "link", "iframe", "source"} and is_loaded:
            addresses = (values.get("src"), values.get("href"))
            self.resources += filter(None, addresses)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, _Page]:
    """Return all pages of the site by their path."""
    result = {}
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if name not in OWN:
            result[name] = _Page(path)

    return result


def _target(site: Path, page: str, link: str) -> tuple[Path, str]:
    """Return the file that a link leads to, and the anchor in it."""
    parts = urlsplit(link)
    path = site / page
    if parts.path:
        path = path.parent / unquote(parts.path)
    return path.resolve(), unquote(parts.fragment)


def test_no_link_and_no_anchor_is_dead_and_pages_are_small(
    site: Path, pages: dict[str, _Page]
) -> None:
    """All that a page loads is there; images are described."""
    assert len(pages) > 50

    ids = {(site / name).resolve(): page.ids for name, page in pages.items()}

    for name, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme not in {"http", "https", "mailto"}:
                path, anchor = _target(site, name, link)
                assert path.is_file(), f"{name}: {link}"
                anchors = ids.get(path, {anchor})
                assert not anchor or anchor in anchors, f"{name}: {link}"

        assert not any(urlsplit(resource).netloc for resource in page.resources), name

        files = {_target(site, name, resource)[0] for resource in page.resources}
        size = sum(file.stat().st_size for file in {*files, site / name})

        assert size < LARGEST, f"{name}: {size:,} bytes with all that it loads"
        assert all(image.get("alt") for image in page.images), name

    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", text), style


@pytest.mark.parametrize("name", ["000", "001", "002", "003", "004", "questions"])
def test_pages_of_the_notes_are_small_with_what_their_figures_load(
    site: Path, pages: dict[str, _Page], name: str
) -> None:
    page = f"ko/notes/{name}.html"
    text = (site / page).read_text(encoding="utf-8")
    figures = set(re.findall(r'data-figure="([\w-]+)"', text))
    scripts = [f"_static/figures/{figure}.ko.js.gz" for figure in figures]
    files = {_target(site, page, resource)[0] for resource in pages[page].resources}
    files |= {site / path for path in [page, "_static/hangul.woff", *scripts]}
    if "two-models" in figures:
        files |= set(site.glob("_static/figures/two-models.*.gz"))
        files |= set(site.glob("_static/translator/regard.*.gz"))
    # A wide screen loads no drawing for a narrow one.
    wide = {file for file in files if "narrow" not in file.name}
    size = sum(file.stat().st_size for file in wide)

    assert size < LARGEST, f"{size:,} bytes"


def test_every_page_says_its_language_and_leads_to_the_other(
    site: Path, pages: dict[str, _Page]
) -> None:
    for name, page in pages.items():
        language = "en"
        others = [f"ko/{name}", "ko/index.html"]
        if name.startswith("ko/"):
            language = "ko"
            others = [name.removeprefix("ko/"), "index.html"]
        elif name == "search-ko.html":
            language = "ko"
            others = ["search.html"]
        elif name == "search.html":
            others = ["search-ko.html"]

        assert page.language == language, name

        other = next(other for other in others if other in pages)
        links = {_target(site, name, link)[0] for link in page.links}

        assert (site / other).resolve() in links, name


@pytest.mark.parametrize("folder", ["", "ko/"])
def test_the_contents_of_the_notes_lead_through_them_in_order(
    site: Path, folder: str
) -> None:
    name = f"{folder}notes.html"
    order = []
    for _ in range(6):
        text = (site / name).read_text(encoding="utf-8")
        (link,) = re.findall(r'<a class="next-page" href="([^"]+)"', text)
        path, _ = _target(site, name, link)
        name = path.relative_to(site.resolve()).as_posix()
        order.append(path.stem)

    assert order == items("000 001 004 003 002 questions")


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


def test_llms_txt_lists_the_pages(site: Path, pages: dict[str, _Page]) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    links = {*re.findall(r"\]\(([^)]+)\)", text)}

    assert links <= set(pages)

    left_out = ("search.html", "search-ko.html", "index.html")
    assert {
        name for name in pages.keys() - links if not name.endswith(left_out)
    } == set()


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    """Return a context without a network, which fails if a page asks another host."""
    context = browser.new_context(offline=True, locale="ko-KR")
    requests = list[str]()
    context.on("request", lambda request: requests.append(request.url))
    yield context
    context.close()

    own = ("file:", "data:", "blob:")

    assert [url for url in requests if not url.startswith(own)] == []


def test_search_finds_words_with_particles_and_in_compounds(
    site: Path, context: Any
) -> None:
    page = context.new_page()
    page.goto(f"{(site / 'search-ko.html').as_uri()}?q=어텐션은")
    page.wait_for_selector("#search-results li a")
    first = page.locator("#search-results li a").first.get_attribute("href")

    assert first.startswith("ko/")

    summary = page.locator("#search-results p", has_text="어텐션은 소프트 사전입니다")
    assert summary.count() == 1
    assert (site / first.partition("#")[0]).is_file()
    for word, expected in WORDS.items():
        assert expected in page.evaluate(FIND, word), word
    for word in NOT_FOUND:
        assert page.evaluate(FIND, word) == [], word

    page.close()


@pytest.mark.parametrize(
    ("start", "word", "link", "corrected"),
    [
        ("search.html", "atention", "guides.html", "attention"),
        ("search-ko.html", "어탠션", "ko/guides.html", "어텐션"),
    ],
)
def test_the_first_three_results_hold_the_page_that_is_wished_for(
    site: Path, context: Any, start: str, word: str, link: str, corrected: str
) -> None:
    """An empty result leads to the guides, and a correction is named."""
    page = context.new_page()
    address = (site / start).as_uri()
    page.goto(f"{address}?q=bleu")
    page.wait_for_selector("#search-results li a")

    for query, wanted in WISHES[start].items():
        assert wanted in page.evaluate(FIND, query)[-3:], query

    page.goto(f"{address}?q=퉤퉤")
    page.locator(f".search-summary a[href='{link}']").wait_for()

    assert page.locator("#search-results li").count() == 0

    page.goto(f"{address}?q={word}")
    page.locator(".search-summary", has_text=corrected).wait_for()
    page.close()


def test_words_of_the_notes_lead_to_their_section(site: Path, context: Any) -> None:
    """In English words, in those that the glossary rejects, and without spaces."""
    page = context.new_page()
    page.goto(f"{(site / 'search-ko.html').as_uri()}?q=bleu")
    page.wait_for_selector("#search-results li a")
    for query, section in SECTIONS.items():
        assert page.evaluate(FIRST, query) == section, query
        assert f'id="{section.split("#")[1]}"' in (
            site / f"{section.split('#')[0]}.html"
        ).read_text(encoding="utf-8")
    page.close()


@pytest.mark.parametrize(("part", "least"), [("tune", 1), ("held out", LEAST_FOUND)])
def test_searches_lead_to_the_section_that_answers(
    site: Path, context: Any, part: str, least: float
) -> None:
    """It is among the first three results."""
    page = context.new_page()
    hits = []
    for language, start in (("ko", "search-ko.html"), ("en", "search.html")):
        page.goto(f"{(site / start).as_uri()}?q=bleu")
        page.wait_for_selector("#search-results li a")
        for own, code, query, place in SEARCHES:
            if (own, code) == (part, language):
                results = page.evaluate(FIRST_THREE, query)
                hits.append((query, any(one.startswith(place) for one in results)))
    missed = [query for query, is_hit in hits if not is_hit]
    assert len(missed) <= (1 - least) * len(hits), missed
    page.close()


def test_a_result_on_a_long_page_leads_to_its_section_and_shows_its_text(
    site: Path, context: Any
) -> None:
    """On pages that the search divides into sections, and on others, once their text is loaded."""
    page = context.new_page()
    page.goto(f"{(site / 'search-ko.html').as_uri()}?q=분산 루트 100")
    first = page.locator("#search-results li").first
    first.locator("mark", has_text="루트").wait_for()
    assert first.locator("a").get_attribute("href").endswith("#ko-n003-scale")
    assert "분산=100" in first.locator(".summary").inner_text()

    page.goto(f"{(site / 'search-ko.html').as_uri()}?q=Dice 계수")
    page.locator("#search-results a[href^='ko/training.html#']").wait_for()
    page.close()


def test_no_page_has_emphasis_as_raw_signs(site: Path) -> None:
    """A closing sign after a bracket or a comma, before a letter, is none to Markdown."""
    for path in sorted(site.glob("**/*.html")):
        if path.is_relative_to(site / "_static"):
            continue
        text = re.sub(
            r"<(pre|code|script|style)\b.*?</\1>",
            "",
            path.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )
        raw = RAW_EMPHASIS.findall(re.sub(r"<[^>]+>", "", text))
        assert raw == [], path.name


def test_a_result_shows_the_words_in_their_text(
    site: Path, context: Any, axe: str
) -> None:
    page = context.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q=offline")
    link = page.locator("a[href^='tutorials/phone.html']")
    first = page.locator("#search-results li", has=link)
    first.locator("mark", has_text="without a network").wait_for()
    summaries = page.locator("#search-results p.summary").all_text_contents()

    assert max(map(len, summaries)) < 300

    page.evaluate(axe)
    assert _violations(page) == []

    page.goto(f"{(site / 'search.html').as_uri()}?q=%3Cimg+src%3Dx%3E+offline+%22")
    page.wait_for_function(
        "document.querySelector('.search-summary').textContent !== ''"
    )

    assert page.locator("#search-results img").count() == 0

    for word in ("constructor", "__proto__", "(", "c++ \\", "😀", " ", "한" * 2000):
        assert isinstance(page.evaluate(FIND, word), list), word

    page.close()


def _violations(page: Any) -> list[tuple[str, str]]:
    """Return the rules of axe that a page breaks, each with a place."""
    found = page.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)"
    )
    return [(rule["id"], rule["nodes"][0]["html"]) for rule in found]


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

    asks = re.compile("한국어 문장을|Type a Korean sentence")
    warns = re.compile("do not trust|믿을 수 없습니다")
    page.fill("#try-input", "나는 친구와 집에 간다")
    page.locator("[data-part=message]", has_text=": 친구와").wait_for()
    assert page.locator("[data-part=source] .unread").all_text_contents() == ["친구와"]

    # The model is sure of the two translations of which the page warns.
    for text, message in (("", asks), ("너를 사랑해", warns), ("asdf", warns)):
        page.fill("#try-input", text)
        page.locator("[data-part=message]", has_text=message).wait_for()
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

    assert {"model.regard.gz", "regard.wasm.gz", "regard.js.gz"} <= set(names)
    assert "files.js" not in names


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *values: object) -> None:
        """Print nothing."""


@pytest.mark.parametrize(
    "name", items("worksheet worksheet-recurrent worksheet-decoder")
)
def test_a_worksheet_is_one_sheet_of_paper(site: Path, context: Any, name: str) -> None:
    page = context.new_page()
    for folder in ("", "ko"):
        page.goto((site / folder / f"{name}.html").as_uri())
        pdf = page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1, f"{folder}/{name}"

    page.close()


LONGEST = 15_000
"""Pixels that a page of the notes may be high on a phone, until its sections are opened."""


@pytest.mark.parametrize("name", ["000", "001", "002", "003", "004"])
def test_sections_of_the_notes_fold_on_a_phone(
    site: Path, browser: Any, name: str
) -> None:
    """A heading opens its section, by keyboard too, and so does a link to it."""
    page = browser.new_page(viewport={"width": 400, "height": 900})
    address = (site / "ko" / "notes" / f"{name}.html").as_uri()
    page.goto(address)
    headings = page.locator(".folds button")

    assert page.evaluate("document.documentElement.scrollHeight") < LONGEST
    assert headings.count() > 8
    assert page.locator(".folds [aria-expanded=true]").count() == 1
    assert page.locator("article p", has_text=re.compile("^다음:")).is_visible()

    headings.nth(2).focus()
    page.keyboard.press("Enter")
    assert headings.nth(2).get_attribute("aria-expanded") == "true"
    assert page.locator("blockquote:visible").count() > 1

    page.get_by_role("button", name="모두 펼치기").click()
    assert page.locator(".folds [aria-expanded=false]").count() == 0
    last = page.locator("article section > section").nth(-2).get_attribute("id")
    page.goto("about:blank")
    page.goto(f"{address}#{last}")
    assert page.locator(f"#{last} p:visible").count() > 0

    wide = browser.new_page(viewport={"width": 1280, "height": 900})
    wide.goto(address)
    assert wide.locator(".folds").count() == 0
    assert wide.locator("blockquote").last.is_visible()
    page.close()
    wide.close()


@pytest.mark.parametrize("width", [1280, 400])
def test_a_link_to_a_folded_figure_unfolds_it(
    site: Path, browser: Any, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    for place in ("000.html#ko-n000-boxes", "003.html#ko-n003-board"):
        name, anchor = place.split("#")
        page.goto((site / "ko" / "notes" / name).as_uri())
        fold = page.locator("details", has=page.locator(f"#{anchor}"))
        assert fold.get_attribute("open") is None
        page.evaluate("anchor => { location.hash = anchor; }", anchor)
        page.locator(f"details[open] #{anchor}").wait_for(state="attached")
        fold.locator("img:visible, svg:visible").first.wait_for()
    page.close()


@pytest.mark.parametrize("name", items(TRIED))
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

            assert _violations(page) == [], f"{width} {scheme}"

        assert page.evaluate("document.documentElement.scrollWidth") <= width

    page.close()
