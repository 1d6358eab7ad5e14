"""The HTML page: self-contained, safe, small, with every weight."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.packed_weights import unpacked_weights

from regard.common.errors import UsageError
from regard.visualisation import Alignment, ExplanationData, Meta
from regard.visualisation.explanation_page import render_page
from regard.visualisation.template import compact

ROOT = Path(__file__).parents[2]
EVIL = "</script><b>"


def data_of(document: str) -> dict[str, Any]:
    _, _, rest = document.partition('<script type="application/json" id="data">')
    data = json.loads(rest.partition("</script>")[0])
    assert isinstance(data, dict)

    return data


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
    translation = data["translation"]
    assert translation["sourceWords"]["texts"] == list(explained.source)
    assert data["alignment"] == {"layer": "cross 3", "head": 0, "shifted": False}

    *layers, gradient, erasure = map(unpacked_weights, translation["attention"])
    for expected, layer in zip(explained.attention, layers, strict=True):
        np.testing.assert_allclose(layer, expected.weights, rtol=0, atol=1e-5)

    np.testing.assert_allclose(gradient[0], np.eye(5))
    np.testing.assert_allclose(erasure[0], 0.2, atol=1e-5)
    assert data["agreement"] == [["gradient × input", 0.5], ["word erasure", None]]
    assert translation["steps"][5]["candidates"][0]["fate"] == "ended"


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

    translation = data["translation"]
    attention = translation["attention"]
    assert [layer["title"] for layer in attention] == [bread.caption, "layer 2"]
    assert translation["alignments"] == [[0, 0], [3, 1]]

    layer = unpacked_weights(attention[1])
    np.testing.assert_allclose(layer[0, :, :-1], second.weights, atol=1e-5)

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
    source = data_of(document)["translation"]["sourceWords"]["texts"]
    assert source == list(evil.source)


def test_languages_are_recorded(
    explanation: Callable[..., ExplanationData],
) -> None:
    data = data_of(render_page(explanation(4, 1, 1), Meta(source_lang="he")))
    assert data["languages"] == ["he", ""]


def test_no_comment_is_left_in_scripts_whose_lines_are_joined() -> None:
    for path in (ROOT / "regard").glob("*/assets/*.js"):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"(?m)(?:^|\s)//", compact(source)), path.name
        odd = [line for line in source.splitlines() if line.count("`") % 2]
        assert odd == [], f"{path.name}: a text over several lines"


@pytest.mark.parametrize(
    ("words", "heads", "largest"),
    [(1, 1, 129_000), pytest.param(200, 8, 5_000_000, marks=pytest.mark.slow)],
)
def test_pages_are_small_and_deterministic(
    explanation: Callable[..., ExplanationData], words: int, heads: int, largest: int
) -> None:
    page = render_page(explanation(words, heads, heads), Meta(facts={"model": "m"}))
    assert len(page.encode()) < largest

    if words == 1:
        assert page == render_page(explanation(1, 1, 1), Meta(facts={"model": "m"}))
