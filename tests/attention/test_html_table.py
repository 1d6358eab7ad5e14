"""Weights as an HTML table: every word and number is in it, words are escaped, and long sides are
cut aloud.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np

from regard.attention.html_table import MAX_WORDS, weights_table


def test_every_word_and_weight_is_a_cell() -> None:
    weights = np.array([[0.02, 0.98], [0.5, 0.5], [1.0, 0.0]])
    html = weights_table(["나는", "<b>"], ["I", "&", '"go"'], weights, "a <caption>")
    table = ElementTree.fromstring(html)

    assert [head.text for head in table.iter("th")] == ["나는", "<b>", "I", "&", '"go"']
    assert table.findtext("caption") == "a <caption>"

    cells = [cell for cell in table.iter("td") if cell.get("title")]

    assert [cell.get("title") for cell in cells[:2]] == [
        "I ← 나는 0.020",
        "I ← <b> 0.980",
    ]

    texts = [cell.text for cell in cells]

    assert texts == [None, "0.98", "0.50", "0.50", "1.00", None], (
        "small numbers are not printed"
    )

    styles = " ".join(cell.get("style", "") for cell in cells)
    alphas = re.findall(r"rgba\(86,180,233,([\d.]+)\)", styles)

    assert [*map(float, alphas)] == weights.reshape(-1).tolist()


def test_a_long_side_is_cut_and_the_caption_says_so() -> None:
    source = [f"s{n}" for n in range(MAX_WORDS + 5)]
    target = ["t"] * 3
    weights = np.full((3, len(source)), 1 / len(source))
    cut = "the first 3 of 3 rows and the first 60 of 65 columns"

    for caption, expected in (("", cut), ("head 2", f"head 2; {cut}")):
        table = ElementTree.fromstring(weights_table(source, target, weights, caption))
        assert table.findtext("caption") == expected
        assert len(list(table.iter("th"))) == MAX_WORDS + 3

    table = ElementTree.fromstring(weights_table(target, source, weights.T))

    assert len(list(table.iter("tr"))) == MAX_WORDS + 1
