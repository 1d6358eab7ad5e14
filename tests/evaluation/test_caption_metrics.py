"""Caption metrics: against values worked out by hand, against another implementation, and by their
invariants.
"""

from __future__ import annotations

import math
import random
import unicodedata
from collections import Counter

import numpy as np
import pytest
from helpers.text_table import items, rows
from sacrebleu.metrics.bleu import BLEU

from regard.common.errors import DataError
from regard.data.tokenizer import TokenizerSettings
from regard.evaluation.bootstrap import paired_bootstrap
from regard.evaluation.caption_metrics import (
    caption_scores,
    cider_scores,
    score_captions,
    tokenizer_for,
    tokens,
    validation_scores,
    words,
)
from regard.evaluation.cider import cider_d

REFERENCES = [
    ["a dog runs on grass", "the dog is running over the grass"],
    ["two men talk in the street", "men talking"],
    ["a red ball lies beside a blue box", "a ball beside a box"],
]


def test_scores_of_a_test_have_intervals() -> None:
    references = [*REFERENCES, ["a cat"]]
    outputs = ["a dog runs", "two men talk", "a red ball lies beside a box", "a dog"]
    tested = score_captions(outputs, references, words, "13a")
    plain = {score.name: score for score in caption_scores(outputs, references)}
    by_name = {score.name: score for score in tested}

    assert {*by_name} == {"BLEU", "chrF", "CIDEr-D"}
    for name in ("chrF", "CIDEr-D"):
        assert by_name[name].value == pytest.approx(plain[name].value)
    cider = by_name["CIDEr-D"]
    assert cider.signature == plain["CIDEr-D"].signature
    values = cider_scores(outputs, references)
    spread = float(np.std(values)) / math.sqrt(len(values))
    assert min(values) <= cider.low < cider.value < cider.high <= max(values)
    assert cider.ci == pytest.approx(1.96 * spread, rel=0.2)


def grams(text: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]


def norm(vector: dict[tuple[str, ...], float]) -> float:
    return math.sqrt(sum(value**2 for value in vector.values()))


def cider_of_the_paper(
    outputs: list[list[str]], images: list[list[list[str]]]
) -> list[float]:
    """Compute CIDEr-D from the paper's equations with the constants of coco-caption."""

    def weights(text: list[str], n: int) -> dict[tuple[str, ...], float]:
        vector = {}
        for gram, count in Counter(grams(text, n)).items():
            images_with = [any(gram in grams(r, n) for r in own) for own in images]
            frequency = max(1, sum(images_with))
            vector[gram] = count * math.log(len(images) / frequency)

        return vector

    scores = []
    for text, own in zip(outputs, images, strict=True):
        total = 0.0
        for n in range(1, 5):
            g = weights(text, n)
            for reference in own:
                r = weights(reference, n)
                difference = len(grams(text, 2)) - len(grams(reference, 2))
                dot = 0.0
                for gram in g.keys() & r.keys():
                    dot += min(g[gram], r[gram]) * r[gram]

                lengths = norm(g) * norm(r)
                if lengths:
                    total += math.exp(-(difference**2) / 72) * dot / lengths

        scores.append(1000 * total / 4 / len(own))

    return scores


def test_cider_equals_the_equations() -> None:
    rng = random.Random(1)

    def text() -> list[str]:
        vocabulary = items("a the dog cat runs sits on grass red")
        return rng.choices(vocabulary, k=rng.randint(0, 9))

    references = [[text() for _ in range(rng.randint(1, 4))] for _ in range(12)]
    outputs = [text() for _ in range(12)]
    expected = cider_of_the_paper(outputs, references)

    assert cider_d(outputs, references) == pytest.approx(expected)


def test_cider_of_texts() -> None:
    perfect = [own[0] for own in REFERENCES]
    own_references = [[text] for text in perfect]
    assert cider_scores(perfect, own_references) == pytest.approx([1000.0] * 3)

    best, *_ = cider_scores(perfect, REFERENCES)
    loud = ["A DOG runs, on grass!", *perfect[1:]]
    assert cider_scores(loud, REFERENCES)[0] == pytest.approx(best)

    with_one_image = cider_scores(["a dog"], [["a dog"]])
    assert with_one_image == [0.0], "with one image nothing is rare"

    with pytest.raises(DataError, match="at least one reference"):
        cider_d([["a"]], [[]])


@pytest.mark.parametrize(
    ("text", "expected"),
    rows("""
        A man's T-shirt; it isn't red . | a man 's t-shirt it is n't red
        The dog 's ball (3.5 m)         | the dog 's ball 3.5 m
        빨간 공이 있다.                 | 빨간 공이 있다
        红球。                          | 红 球
        यह लड़का है।                     | यह लड़का है
        ผู้ชาย été                        | ผู้ชาย été
    """),
)
def test_words_are_told_in_any_script(text: str, expected: str) -> None:
    assert words(text) == expected.split()
    assert words(unicodedata.normalize("NFD", text)) == expected.split()


def test_tokens_of_writing_stand_between_spaces() -> None:
    assert tokens(r"\frac { A }  { b }") == ["\\frac", "{", "A", "}", "{", "b", "}"]
    assert tokenizer_for(TokenizerSettings()) is words
    assert tokenizer_for(TokenizerSettings(kind="whitespace")) is tokens


def test_scores_and_their_signatures() -> None:
    outputs = ["a dog runs on grass", "two men", "a box beside a ball"]
    scores = caption_scores(outputs, REFERENCES)
    values = {score.name: score.value for score in scores}
    signatures = {score.name: score.signature for score in scores}

    assert list(values) == items("BLEU-1 BLEU-2 BLEU-3 BLEU-4 chrF CIDEr-D exact")

    streams = [[own[k] for own in REFERENCES] for k in (0, 1)]
    four = BLEU(tokenize="none", smooth_method="none").corpus_score(outputs, streams)
    cider = np.mean(cider_scores(outputs, REFERENCES))

    assert values["BLEU-4"] == pytest.approx(four.score)
    assert values["CIDEr-D"] == pytest.approx(cider)

    # By hand: of 12 words 12 are in a reference; the lengths nearest to 5, 2 and 5 are 5, 2 and 5.
    assert values["BLEU-1"] == pytest.approx(100)
    assert values["exact"] == pytest.approx(100 / 3)

    of_bleu = "nrefs:2|images:3|smooth:none|tok:words|regard:"
    of_cider = "nrefs:2|images:3|n:4|sigma:6|idf:references|tok:words|"
    assert signatures["BLEU-2"].startswith(of_bleu)
    assert signatures["CIDEr-D"].startswith(of_cider)

    first, second, third = REFERENCES
    uneven, *_ = caption_scores(outputs, [first, second[:1], third])
    assert uneven.signature.startswith("nrefs:var|")

    expected = {"chrf": values["chrF"], "bleu": four.score, "cider": cider}
    assert validation_scores(outputs, REFERENCES) == pytest.approx(expected)


def test_images_may_have_different_numbers_of_references() -> None:
    """A repeated reference changes nothing: missing references are missing, not empty."""
    outputs = ["two dogs", "a man"]
    first = ["two brown dogs run on the grass"]
    second = ["a man", "a tall man in a hat"]
    uneven = [first, second]
    even = [first * 2, second]
    expected = {score.name: score.value for score in caption_scores(outputs, even)}
    for score in caption_scores(outputs, uneven):
        if score.name != "CIDEr-D":
            assert score.value == pytest.approx(expected[score.name])

    validation = validation_scores(outputs, uneven)
    assert validation["bleu"] == validation_scores(outputs, even)["bleu"]


def test_a_reference_without_a_word() -> None:
    scores = caption_scores(["a dog", "!"], [["a dog"], ["…"]])
    assert scores[0].value == pytest.approx(100 * math.exp(1 - 3 / 2))


def test_scores_of_formulas() -> None:
    outputs = [r"x ^ { 2 }", "a + b"]
    references = [[r"x ^ { 2 }"], ["a - b"]]
    scores = caption_scores(outputs, references, tokens)
    values = {score.name: score.value for score in scores}

    assert values["exact"] == 50
    assert values["BLEU-1"] == pytest.approx(100 * 7 / 8)


def test_a_paired_bootstrap_finds_a_true_difference() -> None:
    rng = np.random.default_rng(0)
    images = rng.normal(50, 20, 400)
    first = images + rng.normal(0, 5, 400)
    second = images + 2 + rng.normal(0, 5, 400)
    result = paired_bootstrap(first.tolist(), second.tolist(), draws=2000)

    assert result.difference == pytest.approx(np.mean(second - first))
    assert result.p < 0.01

    # The interval is that of the normal distribution: 1.96 standard errors.
    half = 1.96 * np.std(second - first) / 20
    assert result.high - result.difference == pytest.approx(half, rel=0.1)
    assert result.difference - result.low == pytest.approx(half, rel=0.1)

    swapped = paired_bootstrap(second.tolist(), first.tolist(), draws=2000)
    assert swapped.p == result.p
    assert (swapped.low, swapped.high) == pytest.approx((-result.high, -result.low))


def test_a_paired_bootstrap_finds_no_difference_between_equals() -> None:
    same = paired_bootstrap([1.0, 2.0], [1.0, 2.0], draws=99)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)
    assert str(same) == "+0.00 (95 % interval +0.00 to +0.00), p = 1.0000"
    assert str(paired_bootstrap([1.0, 2.0], [0.5, 1.0], draws=99)).endswith("p < 0.02")
    with pytest.raises(DataError, match="wanted scores of the same items"):
        paired_bootstrap([1.0], [1.0, 2.0])
