"""Data of the search page beside Sphinx's index: the text of each page for excerpts, its frequent
terms, synonyms, and sections of the notes that answer a search best.

The texts are scripts, one for each page: a page from disk may load scripts, and may not fetch.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import glossary
from docutils import nodes
from korean_search import SearchBothLanguages
from llms import plain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OFTEN = 5
"""Times that a term occurs in a page to be frequent there."""
SYNONYMS = Path(__file__).parent / "synonyms.toml"
LANGUAGE = SearchBothLanguages({})
IN_PARTS = re.compile(r"[^\w'-]|^-")
"""Sign or space within a word of a search, of which the index has parts alone, or nothing."""
NUMBER = re.compile(r"(?<![\w.,])(?<!\w-)\d[\d,]*(?:\.\d+)*(?![.,]?\d)")
IN_SECTIONS = ("notes/", "lessons/", "tutorials/")
"""The folders whose pages a search divides into sections."""
BLOCKS = (nodes.paragraph, nodes.literal_block, nodes.term)


def _table() -> dict[str, Any]:
    return tomllib.loads(SYNONYMS.read_text(encoding="utf-8"))


def families() -> list[list[str]]:
    """Return families of words that stand for each other: those of the table, and those of the
    glossary with the words that it rejects.
    """
    table: list[list[str]] = _table()["families"]
    listed = {word for family in table for word in family}
    terms = [
        [
            term["en"].partition(" (")[0].lower(),
            term["ko"].lower(),
            *(word for word in term["not"] if word not in listed),
        ]
        for term in glossary.TERMS
    ]
    return table + [
        list(dict.fromkeys(term))
        for term in terms
        if len(term[1]) > 1 and not listed.intersection(term[:2])
    ]


def answers(headings: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """Return the words of each section of the table, with its page, anchor and heading in both
    languages. `headings`: of each page, by anchor.
    """
    entries = []
    for anchor, words in _table()["sections"].items():
        page = f"notes/{anchor[1:4]}"
        sections = {
            language: [start + page, label, headings[start + page][label]]
            for language, start, label in (
                ("en", "", anchor),
                ("ko", "ko/", f"ko-{anchor}"),
            )
        }
        entries.append({"words": words, **sections})
    return entries


def sections(doctree: nodes.document) -> list[tuple[str, str, str]]:
    """Return the anchor, the heading and the text of each section of a page, without the texts of
    those inside it.
    """
    headings: dict[str, str] = {}
    texts: dict[str, list[str]] = {}
    for block in doctree.findall(lambda node: isinstance(node, BLOCKS)):
        parent = block.parent
        while parent is not None and not isinstance(parent, (nodes.section, *BLOCKS)):
            parent = parent.parent
        if isinstance(parent, BLOCKS):
            continue  # its text is that of the block around it
        anchor = ""
        if parent is not None and isinstance(parent.parent, nodes.section):
            anchor = parent["ids"][0]
            headings[anchor] = plain(parent.next_node(nodes.title))
        texts.setdefault(anchor, []).append(plain(block))
    return [
        (anchor, headings.get(anchor, ""), " ".join(parts))
        for anchor, parts in texts.items()
    ]


def preloaded(pages: Iterable[str], korean: bool) -> list[str]:
    """Return the pages of a language whose sections a search orders, for which it needs their
    texts.
    """
    return sorted(
        page
        for page in pages
        if page.removeprefix("ko/").startswith(IN_SECTIONS)
        and page.startswith("ko/") == korean
    )


def keep(app: Any, doctree: nodes.document) -> None:
    """Keep the texts of a page when it is read, so that it need not be read again."""
    app.env.metadata[app.env.docname]["sections"] = sections(doctree)
    app.env.metadata[app.env.docname]["headings"] = {
        anchor: plain(section.next_node(nodes.title))
        for section in doctree.findall(nodes.section)
        for anchor in section["ids"]
    }
    app.env.metadata[app.env.docname]["titles"] = " · ".join(
        plain(title) for title in doctree.findall(nodes.title)
    )


def numbers_in(text: str) -> set[str]:
    """Return the numbers of a text, without commas: Sphinx's index has none."""
    return {number.replace(",", "") for number in NUMBER.findall(text)}


def frequent(text: str) -> list[str]:
    """Return the terms of the index that occur often in a text."""
    terms = (
        _stem(term)
        for term in LANGUAGE.split(text.lower())
        if LANGUAGE.word_filter(term)
    )
    return sorted(term for term, count in Counter(terms).items() if count >= OFTEN)


@cache
def _stem(term: str) -> str:
    return LANGUAGE.stem(term)


def write(app: Any, exception: Exception | None) -> None:
    """Write the texts of all pages into _static/texts, and what is known of all pages into
    search-data.js.
    """
    if exception is not None or app.builder.name != "html":
        return
    static = Path(app.outdir) / "_static"
    often = {}
    whole = {}
    numbers: dict[str, list[str]] = {}
    titles = {page: app.env.metadata[page]["titles"] for page in app.env.found_docs}
    for page in sorted(app.env.found_docs):
        path = static / "texts" / f"{page}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = app.env.metadata[page]["sections"]
        whole[page] = " ".join(text for *_, text in texts)
        often[page] = frequent(whole[page])
        # Their numbers are measurements.
        if not page.startswith(("log", "reference", "experiments", "ko/experiments")):
            for number in numbers_in(f"{titles[page]} {whole[page]}"):
                numbers.setdefault(number, []).append(page)
        path.write_text(
            f"texts[{json.dumps(page)}] = {json.dumps(texts, ensure_ascii=False)};\n",
            encoding="utf-8",
        )
    phrases = [
        word for family in families() for word in family if IN_PARTS.search(word)
    ]
    holding = {
        phrase: [
            page
            for page, text in whole.items()
            if phrase in f"{titles[page]} {text}".lower()
        ]
        for phrase in phrases
    }
    data = {
        "synonyms": families(),
        "answers": answers(
            {page: app.env.metadata[page]["headings"] for page in app.env.found_docs}
        ),
        "phrases": holding,
        "often": often,
        "numbers": numbers,
    }
    data["terms"] = sorted(
        {
            term[language].partition(" (")[0].lower()
            for term in glossary.TERMS
            for language in ("en", "ko")
        }
    )
    script = "".join(
        f"window.{name} = {json.dumps(value, ensure_ascii=False)};\n"
        for name, value in data.items()
    )
    (static / "search-data.js").write_text(script, encoding="utf-8")
