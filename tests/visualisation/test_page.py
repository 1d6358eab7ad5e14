"""The HTML page: self-contained, safe, small, and every number in it."""

import base64
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.errors import UsageError
from regard.visualisation import Alignment, ExplanationData, Meta
from regard.visualisation.page import render_page

EVIL = "</script><b>"


def data_of(document: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', document, re.DOTALL)
    assert found
    data = json.loads(found[1])
    assert isinstance(data, dict)
    return data


def unpacked(data: dict[str, object]) -> list[np.ndarray]:
    """The blocks (H, rows, columns + 1), read as the page reads them."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(str(data["pack"]))), np.uint8).astype(int)
    steps = int(str(data["steps"]))
    numbers = (raw if steps <= 255 else raw[: len(raw) // 2] + 256 * raw[len(raw) // 2 :]) / steps
    blocks, start = [], 0
    for block in data["blocks"]:  # type: ignore[attr-defined]
        H, R, C = block["shape"]
        blocks.append(numbers[start : start + H * R * (C + 1)].reshape(H, R, C + 1))
        start += H * R * (C + 1)
    assert start == len(numbers)
    return blocks


class Tags(HTMLParser):
    """Which elements a browser would see."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.seen.append(tag)


def test_a_page_asks_nothing_of_the_network(told: Callable[..., ExplanationData]) -> None:
    document = re.sub(
        r"src:url\(data:font/(?:otf|woff);base64,[\w+/=]+\)", "", render_page(told(5, 2, 2))
    )  # its own glyphs, in the file itself
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", document) == []
    assert re.findall(r"\b(?:src|href|@import|url)\b\s*[=(]", document) == []
    assert "default-src 'none'" in document
    assert "connect-src 'none'" in document
    assert "{{" not in document


def test_only_a_page_that_is_served_may_ask_its_server(told: Callable[..., ExplanationData]) -> None:
    document = render_page(told(5, 2, 2), Meta(endpoint="/explain"))
    assert "connect-src 'self'" in document
    assert data_of(document)["endpoint"] == "/explain"


def test_a_page_holds_the_words_and_all_weights(told: Callable[..., ExplanationData]) -> None:
    story = told(5, 2, 3)
    data = data_of(render_page(story))
    assert data["source"] == list(story.source)
    assert data["langs"] == {"source": [""] * 5, "target": ["ko"] * 5}
    assert data["chosen"] == [2, 0, False]
    *blocks, gradient, omission = unpacked(data)
    for layer, block in zip(story.layers, blocks, strict=True):
        np.testing.assert_allclose(block[..., :-1], layer.weights, rtol=0, atol=0.0005 + 1e-9)
        np.testing.assert_allclose(block[..., -1], layer.special_weights, rtol=0, atol=0.0005 + 1e-9)
    np.testing.assert_allclose(gradient[0, :, :-1], np.eye(5))
    np.testing.assert_allclose(omission[0, :, :-1], 0.2)
    assert data["trust"] == {"agreement": [["gradient × input", 0.5], ["leaving words out", None]]}
    assert data["player"][5]["nodes"][0] == [0, " </s>", 0.75, -1.5, "ended", 1]  # type: ignore[index]


def test_alignments_are_layers(bread: Alignment) -> None:
    second = replace(
        bread, weights=bread.weights[::-1], special_weights=bread.special_weights[::-1], caption="layer 2", links=None
    )  # type: ignore[index]
    data = data_of(render_page([bread, second]))
    assert [block["name"] for block in data["blocks"]] == [bread.caption, "layer 2"]  # type: ignore[attr-defined]
    np.testing.assert_allclose(unpacked(data)[1][0, :, :-1], second.weights, atol=0.0006)
    assert data["links"] == [[0, 0], [3, 1]]
    with pytest.raises(UsageError, match="at least one"):
        render_page([])
    with pytest.raises(UsageError, match="alignment 1 has other words"):
        render_page([bread, replace(bread, source=("You", "were", "eating", "bread"))])


def test_user_text_cannot_leave_its_place(told: Callable[..., ExplanationData]) -> None:
    plain = told(3, 1, 1)
    evil = replace(plain, source=(EVIL, "<!--", "{{js}}"), target=(EVIL,) * 3)
    meta = Meta(title=EVIL, source_lang='"><b>', facts={EVIL: EVIL})
    document = render_page(evil, meta)
    assert EVIL not in document
    assert Tags(document).seen == Tags(render_page(plain, Meta(facts={"a": "a"}))).seen
    assert data_of(document)["source"] == list(evil.source)


def test_languages_and_direction_are_told(told: Callable[..., ExplanationData]) -> None:
    data = data_of(render_page(replace(told(4, 1, 1), source=("שלום",) * 4), Meta(source_lang="he")))
    assert data["langs"]["source"] == ["he"] * 4  # type: ignore[index]
    assert data["rtl"] == {"source": True, "target": False}


def test_our_own_part_is_below_a_hundred_kilobytes(told: Callable[..., ExplanationData]) -> None:
    assert len(render_page(told(1, 1, 1)).encode()) < 100_000


def test_two_hundred_words_of_eight_by_eight_heads_fit_in_five_megabytes(told: Callable[..., ExplanationData]) -> None:
    assert len(render_page(told(200, 8, 8)).encode()) < 5_000_000


def test_pages_are_deterministic(told: Callable[..., ExplanationData]) -> None:
    assert render_page(told(4, 2, 1), Meta(facts={"model": "m"})) == render_page(
        told(4, 2, 1), Meta(facts={"model": "m"})
    )
