"""The HTML page: self-contained, safe, small, with every weight."""

import base64
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from regard.common.errors import UsageError
from regard.visualisation import Alignment, ExplanationData, Meta
from regard.visualisation.explanation_page import render_page

EVIL = "</script><b>"


def data_of(document: str) -> dict[str, object]:
    match = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', document, re.DOTALL
    )
    assert match

    data = json.loads(match[1])
    assert isinstance(data, dict)

    return data


def unpacked(data: dict[str, object]) -> list[np.ndarray]:
    """Unpack the layers (H, rows, columns + 1) as the page does."""
    packed = zlib.decompress(base64.b64decode(str(data["weights"])))
    raw = np.frombuffer(packed, np.uint8).astype(int)
    steps = int(str(data["weight_steps"]))
    if steps > 255:  # low bytes, then high ones
        low, high = np.split(raw, 2)
        raw = low + 256 * high
    numbers = raw / steps
    layers = []
    start = 0
    for layer in data["layers"]:  # type: ignore[attr-defined]
        H, R, C = layer["shape"]
        layers.append(numbers[start : start + H * R * (C + 1)].reshape(H, R, C + 1))
        start += H * R * (C + 1)

    assert start == len(numbers)

    return layers


@pytest.mark.system
def test_page_makes_no_requests(explanation: Callable[..., ExplanationData]) -> None:
    embedded_font = r"src:url\(data:font/(?:otf|woff);base64,[\w+/=]+\)"
    document = re.sub(embedded_font, "", render_page(explanation(5, 2, 2)))
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", document) == []
    assert re.findall(r"\b(?:src|href|@import|url)\b\s*[=(]", document) == []
    assert "default-src 'none'" in document
    assert "connect-src 'none'" in document
    assert "{{" not in document

    served = render_page(explanation(1, 1, 1), Meta(endpoint="/explain"))
    assert "connect-src 'self'" in served
    assert data_of(served)["endpoint"] == "/explain"


def test_page_contains_the_words_and_all_weights(
    explanation: Callable[..., ExplanationData],
) -> None:
    explained = explanation(5, 2, 3)
    data = data_of(render_page(explained))
    assert data["source"] == list(explained.source)
    assert data["langs"] == {"source": [""] * 5, "target": ["ko"] * 5}
    assert data["shown_head"] == [2, 0, False]

    *layers, gradient, erasure = unpacked(data)
    for expected, layer in zip(explained.layers, layers, strict=True):
        np.testing.assert_allclose(
            layer[..., :-1], expected.weights, rtol=0, atol=0.0005 + 1e-9
        )
        np.testing.assert_allclose(
            layer[..., -1], expected.special_weights, rtol=0, atol=0.0005 + 1e-9
        )

    np.testing.assert_allclose(gradient[0, :, :-1], np.eye(5))
    np.testing.assert_allclose(erasure[0, :, :-1], 0.2)
    assert data["agreement"] == [["gradient × input", 0.5], ["word erasure", None]]
    assert data["steps"][5]["nodes"][0] == [0, "</s>", 0.75, -1.5, "ended", 1]  # type: ignore[index]


def test_each_alignment_is_a_layer(bread: Alignment) -> None:
    second = replace(
        bread,
        weights=bread.weights[::-1],
        special_weights=bread.special_weights[::-1],
        caption="layer 2",
        links=None,
    )  # type: ignore[index]
    data = data_of(render_page([bread, second]))
    assert [layer["name"] for layer in data["layers"]] == [bread.caption, "layer 2"]  # type: ignore[attr-defined]

    np.testing.assert_allclose(
        unpacked(data)[1][0, :, :-1], second.weights, atol=0.0006
    )
    assert data["links"] == [[0, 0], [3, 1]]

    with pytest.raises(UsageError, match="at least one"):
        render_page([])

    with pytest.raises(UsageError, match="alignment 1 has other words"):
        render_page([bread, replace(bread, source=("You", "were", "eating", "bread"))])


def test_user_text_is_escaped(explanation: Callable[..., ExplanationData]) -> None:
    plain = explanation(3, 1, 1)
    evil = replace(plain, source=(EVIL, "<!--", "{{js}}"), target=(EVIL,) * 3)
    meta = Meta(title=EVIL, source_lang='"><b>', facts={EVIL: EVIL})
    document = render_page(evil, meta)

    assert EVIL not in document

    safe = render_page(plain, Meta(facts={"a": "a"}))
    assert re.findall("<[a-z]+", document) == re.findall("<[a-z]+", safe), (
        "no tag is added"
    )
    assert data_of(document)["source"] == list(evil.source)


def test_languages_and_direction_are_recorded(
    explanation: Callable[..., ExplanationData],
) -> None:
    data = data_of(
        render_page(
            replace(explanation(4, 1, 1), source=("שלום",) * 4), Meta(source_lang="he")
        )
    )
    assert data["langs"]["source"] == ["he"] * 4  # type: ignore[index]
    assert data["rtl"] == {"source": True, "target": False}


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "heads", "largest"),
    [
        (1, 1, 120_000),
        (60, 8, 700_000),
        pytest.param(200, 8, 5_000_000, marks=pytest.mark.slow),
    ],
)
def test_pages_are_small_and_deterministic(
    explanation: Callable[..., ExplanationData], words: int, heads: int, largest: int
) -> None:
    page = render_page(explanation(words, heads, heads), Meta(facts={"model": "m"}))
    assert len(page.encode()) < largest
    if words == 1:
        assert page == render_page(explanation(1, 1, 1), Meta(facts={"model": "m"}))
