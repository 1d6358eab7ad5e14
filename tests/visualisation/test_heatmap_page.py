"""The HTML page: self-contained, safe, small, and the same picture."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.errors import UsageError
from regard.visualisation import Alignment, Meta
from regard.visualisation.page import page

EVIL = "</script><b>"


def data_of(document: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', document, re.DOTALL)
    assert found
    data = json.loads(found[1])
    assert isinstance(data, dict)
    return data


class Tags(HTMLParser):
    """Which elements a browser would see."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.seen.append(tag)


def test_a_page_asks_nothing_of_the_network(bread: Alignment) -> None:
    document = re.sub(
        r"src:url\(data:font/otf;base64,[\w+/=]+\)", "", page([bread])
    )  # its own glyphs, in the file itself
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", document) == []
    assert re.findall(r"\b(?:src|href|@import|url)\b\s*[=(]", document) == []
    assert "default-src 'none'" in document
    assert "{{" not in document


def test_a_page_holds_the_words_and_all_weights(bread: Alignment) -> None:
    second = replace(bread, weights=bread.weights[::-1], elsewhere=bread.elsewhere[::-1], caption="layer 2", links=None)  # type: ignore[index]
    data = data_of(page([bread, second]))
    assert data["source"] == list(bread.source)
    assert data["langs"] == {"source": [""] * 4, "target": ["ko"] * 4}
    first, other = data["alignments"]  # type: ignore[misc]
    assert first["weights"] == [round(1000 * w) for w in bread.weights.ravel()]
    assert first["links"] == [[0, 0], [3, 1]]
    assert other["name"] == "layer 2"
    assert other["weights"][:4] == [100, 600, 100, 0]


def test_user_text_cannot_leave_its_place() -> None:
    evil = Alignment((EVIL, "<!--", "{{js}}"), (EVIL,), np.zeros((1, 3)), title=EVIL, caption=EVIL)
    plain = Alignment(("a", "b", "c"), ("a",), np.zeros((1, 3)), title="a", caption="a")
    meta = Meta(title=EVIL, source_lang='"><b>', facts={EVIL: EVIL})
    document = page([evil], meta)
    assert EVIL not in document
    assert Tags(document).seen == Tags(page([plain], Meta(facts={"a": "a"}))).seen
    assert data_of(document)["source"] == list(evil.source)


def test_languages_and_direction_are_told(bread: Alignment) -> None:
    data = data_of(page([replace(bread, source=("שלום",) * 4)], Meta(source_lang="he")))
    assert data["langs"]["source"] == ["he"] * 4  # type: ignore[index]
    assert data["rtl"] == {"source": True, "target": False}


def test_our_own_part_is_below_a_hundred_kilobytes(random_alignment: Callable[..., Alignment]) -> None:
    assert len(page([random_alignment(1, 1)]).encode()) < 60_000


def test_one_scale_serves_all_readings(bread: Alignment) -> None:
    faint = replace(bread, weights=bread.weights / 10)
    assert data_of(page([faint, bread]))["ceiling"] == 1.0


def test_readings_of_other_words_are_refused(bread: Alignment) -> None:
    with pytest.raises(UsageError, match="at least one"):
        page([])
    with pytest.raises(UsageError, match="alignment 1 has other words"):
        page([bread, replace(bread, source=("You", "were", "eating", "bread"))])
    with pytest.raises(UsageError, match="alignment 1 differs"):
        page([bread, replace(bread, elsewhere=None)])


def test_pages_are_deterministic(bread: Alignment) -> None:
    assert page([bread], Meta(facts={"model": "m"})) == page([bread], Meta(facts={"model": "m"}))
