"""The walkthrough of attention: every printed number is that of the layer itself, and of plain loops."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor

from regard.attention import Attention
from regard.common.errors import UsageError
from regard.learn import walkthrough


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize(("source", "causal"), [(None, False), (None, True), ("나는 집에", False)])
def test_output_equals_the_attention(heads: int, source: str | None, causal: bool) -> None:
    steps = walkthrough("I go home", source, heads=heads, causal=causal, show=False)
    x, m = steps.vectors[None], steps.source_vectors[None]
    close(steps.output[None], steps.attention(x, steps.attention.prepare(m, m), causal))


@torch.no_grad()
def test_steps_equal_plain_loops() -> None:
    steps = walkthrough("I go home", show=False)
    attention, x = steps.attention, steps.vectors
    joined = torch.zeros(3, 4)
    for head in range(2):
        part = slice(2 * head, 2 * head + 2)
        q, k, v = (x @ layer.weight.T[:, part] for layer in (attention.query, attention.key, attention.value))
        for word in range(3):
            scores = [float(q[word] @ k[key]) / math.sqrt(2) for key in range(3)]
            weights = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
            close(steps.scores[head, word], torch.tensor(scores))
            close(steps.weights[head, word], torch.tensor(weights))
            joined[word, part] = sum((weight * row for weight, row in zip(weights, v, strict=True)), torch.zeros(2))
    close(steps.concatenated, joined)
    close(steps.output, joined @ attention.output.weight.T)


def test_each_step_is_printed_with_its_shape(capsys: pytest.CaptureFixture[str]) -> None:
    steps = walkthrough("I go home")
    printed = capsys.readouterr().out
    titles = re.findall(r"^(\S.*) \((\d+) × (\d+)\)$", printed, re.MULTILINE)
    shapes = {title: (int(rows), int(columns)) for title, rows, columns in titles}
    assert list(shapes) == [
        "words as vectors, x",
        *("WQ", "Q = x·WQ, split into heads; head 1", "Q = x·WQ, split into heads; head 2"),
        *("WK", "K = x·WK, split into heads; head 1", "K = x·WK, split into heads; head 2"),
        *("WV", "V = x·WV, split into heads; head 1", "V = x·WV, split into heads; head 2"),
        *(f"Q·Kᵀ, every query with every key; head {head}" for head in (1, 2)),
        *(f"scores, divided by √2 = 1.414; head {head}" for head in (1, 2)),
        *(f"weights, softmax of each row; head {head}" for head in (1, 2)),
        *(f"weights·V, the weighted values; head {head}" for head in (1, 2)),
        *("concatenated heads, z", "WO", "output, z·WO: the new vector of each word"),
    ]
    assert shapes["weights, softmax of each row; head 1"] == (3, 3)
    assert shapes["V = x·WV, split into heads; head 1"] == (3, 2)
    assert printed == f"{steps}\n"
    last = [[float(number) for number in line.split()[1:]] for line in str(steps).split("\n")[-3:]]
    torch.testing.assert_close(torch.tensor(last), steps.output, rtol=0, atol=6e-4)


def test_show_false_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    walkthrough("I go home", show=False)
    assert capsys.readouterr().out == ""
    walkthrough("I go home")
    assert capsys.readouterr().out.startswith("I go home: 3 queries, 3 keys and values, 2 heads of 2 numbers")


def test_output_of_a_word_does_not_depend_on_its_position() -> None:
    original, reordered = walkthrough("I go home", show=False), walkthrough("go home I", show=False)
    close(reordered.output, original.output[[1, 2, 0]])


def test_a_trained_attention_is_explained_with_its_own_vectors() -> None:
    attention = Attention("cross", 6, 5, 8, 2, "additive")
    x, m = torch.randn(2, 6), torch.randn(3, 5)
    steps = walkthrough(["a", "b"], ["c", "d", "e"], attention=attention, vectors=x, source_vectors=m, show=False)
    close(steps.output[None], attention(x[None], attention.prepare(m[None], m[None])))
    assert "scores, every query with every key; head 1 (2 × 3)" in str(steps)
    assert "divided" not in str(steps), "an additive score is not scaled"


@pytest.mark.parametrize(
    ("score", "factor"), [("cosine_fixed", "times 10.000"), ("scaled_dot", "divided by √4 = 2.000")]
)
def test_printed_factor_is_the_ratio_of_scores_to_products(score: str, factor: str) -> None:
    steps = walkthrough("a b", attention=Attention("own", 4, 4, 4, 1, score), vectors=torch.randn(2, 4), show=False)
    assert f"scores, {factor} (2 × 2)" in str(steps)


def test_words_of_any_width_are_aligned_in_columns() -> None:
    lines = str(walkthrough("나는 집에 간다", "I go home", show=False)).split("\n")
    start = lines.index("weights, softmax of each row; head 1 (3 × 3)")
    header, rows = lines[start + 1], lines[start + 2 : start + 5]
    assert len(header) == len(rows[0]) + 2, "two syllables of Hangul are as wide as four letters"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sentence": ""}, "nothing to explain"),
        ({"sentence": "I go", "size": 5}, "a size of 5 cannot be split into 2 equal heads"),
        ({"sentence": "I go", "source": "나는", "causal": True}, "causal is for self-attention"),
        ({"sentence": "I go", "attention": Attention("any", 4, 4, 4)}, "give vectors="),
        (
            {"sentence": "I", "source": "나", "attention": Attention("any", 4, 4, 4), "vectors": torch.randn(1, 4)},
            "give source_vectors=",
        ),
        ({"sentence": "I", "source_vectors": torch.randn(1, 4)}, "words of `source`: give it too"),
        ({"sentence": "I go", "vectors": torch.randn(3, 4)}, r"a row for each of 2 words, got the shape \(3, 4\)"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        walkthrough(**arguments)  # type: ignore[arg-type]
