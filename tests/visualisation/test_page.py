"""The HTML page: self-contained, safe, small, with every weight."""

import base64
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from regard.common.errors import UsageError
from regard.visualisation import Alignment, ExplanationData, Meta
from regard.visualisation.explanation_page import render_page

EVIL = "</script><b>"


def data_of(document: str) -> dict[str, Any]:
    _, _, rest = document.partition('<script type="application/json" id="data">')
    data = json.loads(rest.partition("</script>")[0])
    assert isinstance(data, dict)

    return data


def unpacked(data: dict[str, Any]) -> list[np.ndarray]:
    """Unpack the layers (H, rows, columns + 1) as the page does."""
    packed = zlib.decompress(base64.b64decode(data["weights"]))
    raw = np.frombuffer(packed, np.uint8).astype(int)
    if data["weight_steps"] > 255:  # low bytes, then high ones
        low, high = np.split(raw, 2)
        raw = low + 256 * high

    numbers = raw / data["weight_steps"]
    layers = []
    for layer in data["layers"]:
        H, R, C = layer["shape"]
        size = H * R * (C + 1)
        layers.append(numbers[:size].reshape(H, R, C + 1))
        numbers = numbers[size:]

    assert not numbers.size

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
        weights = np.dstack([expected.weights, expected.special_weights])
        np.testing.assert_allclose(layer, weights, rtol=0, atol=0.0005 + 1e-9)

    np.testing.assert_allclose(gradient[0, :, :-1], np.eye(5))
    np.testing.assert_allclose(erasure[0, :, :-1], 0.2)
    assert data["agreement"] == [["gradient × input", 0.5], ["word erasure", None]]
    assert data["steps"][5]["nodes"][0] == [0, "</s>", 0.75, -1.5, "ended", 1]


def test_each_alignment_is_a_layer(bread: Alignment) -> None:
    assert bread.special_weights is not None

    second = replace(
        bread,
        weights=bread.weights[::-1],
        special_weights=bread.special_weights[::-1],
        caption="layer 2",
        links=None,
    )
    data = data_of(render_page([bread, second]))

    assert [layer["name"] for layer in data["layers"]] == [bread.caption, "layer 2"]
    assert data["links"] == [[0, 0], [3, 1]]

    _, layer = unpacked(data)
    np.testing.assert_allclose(layer[0, :, :-1], second.weights, atol=0.0006)

    with pytest.raises(UsageError, match="at least one"):
        render_page([])

    other = replace(bread, source=("You", "were", "eating", "bread"))
    with pytest.raises(UsageError, match="alignment 1 has other words"):
        render_page([bread, other])


def test_user_text_is_escaped(explanation: Callable[..., ExplanationData]) -> None:
    plain = explanation(3, 1, 1)
    evil = replace(plain, source=(EVIL, "<!--", "{{js}}"), target=(EVIL,) * 3)
    meta = Meta(title=EVIL, source_lang='"><b>', facts={EVIL: EVIL})
    document = render_page(evil, meta)

    assert EVIL not in document

    safe = render_page(plain, Meta(facts={"a": "a"}))
    tags = re.findall("<[a-z]+", document)
    assert tags == re.findall("<[a-z]+", safe), "no tag is added"
    assert data_of(document)["source"] == list(evil.source)


def test_languages_and_direction_are_recorded(
    explanation: Callable[..., ExplanationData],
) -> None:
    hebrew = replace(explanation(4, 1, 1), source=("שלום",) * 4)
    data = data_of(render_page(hebrew, Meta(source_lang="he")))
    assert data["langs"]["source"] == ["he"] * 4
    assert data["rtl"] == {"source": True, "target": False}


@pytest.mark.parametrize(
    ("words", "heads", "largest"),
    [(1, 1, 120_000), pytest.param(200, 8, 5_000_000, marks=pytest.mark.slow)],
)
def test_pages_are_small_and_deterministic(
    explanation: Callable[..., ExplanationData], words: int, heads: int, largest: int
) -> None:
    page = render_page(explanation(words, heads, heads), Meta(facts={"model": "m"}))
    assert len(page.encode()) < largest

    if words == 1:
        assert page == render_page(explanation(1, 1, 1), Meta(facts={"model": "m"}))
