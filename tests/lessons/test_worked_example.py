"""The worked path: every printed number is that of the read itself, and of a pencil."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor

from regard.attention import Attention, walkthrough
from regard.errors import UsageError


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize(("reads", "causal"), [(None, False), (None, True), ("나는 집에", False)])
def test_the_path_ends_where_the_read_does(heads: int, reads: str | None, causal: bool) -> None:
    found = walkthrough("I go home", reads, heads=heads, causal=causal, show=False)
    x, m = found.vectors[None], found.memory_vectors[None]
    close(found.output[None], found.read(x, found.read.prepare(m, m), causal))


@torch.no_grad()
def test_the_path_by_plain_loops() -> None:
    found = walkthrough("I go home", show=False)
    read, x = found.read, found.vectors
    joined = torch.zeros(3, 4)
    for head in range(2):
        part = slice(2 * head, 2 * head + 2)
        q, k, v = (x @ layer.weight.T[:, part] for layer in (read.query, read.key, read.value))
        for word in range(3):
            scores = [float(q[word] @ k[other]) / math.sqrt(2) for other in range(3)]
            shares = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
            close(found.scores[head, word], torch.tensor(scores))
            close(found.weights[head, word], torch.tensor(shares))
            joined[word, part] = sum((share * row for share, row in zip(shares, v, strict=True)), torch.zeros(2))
    close(found.joined, joined)
    close(found.output, joined @ read.output.weight.T)


def test_it_prints_each_step_with_its_shape(capsys: pytest.CaptureFixture[str]) -> None:
    found = walkthrough("I go home")
    printed = capsys.readouterr().out
    titles = re.findall(r"^(\S.*) \((\d+) × (\d+)\)$", printed, re.MULTILINE)
    shapes = {title: (int(rows), int(columns)) for title, rows, columns in titles}
    assert list(shapes) == [
        "words as vectors, x",
        *("WQ", "Q = x·WQ, cut into heads; head 1", "Q = x·WQ, cut into heads; head 2"),
        *("WK", "K = x·WK, cut into heads; head 1", "K = x·WK, cut into heads; head 2"),
        *("WV", "V = x·WV, cut into heads; head 1", "V = x·WV, cut into heads; head 2"),
        *(f"Q·Kᵀ, every query with every key; head {head}" for head in (1, 2)),
        *(f"scores, divided by √2 = 1.414; head {head}" for head in (1, 2)),
        *(f"weights, softmax of each row; head {head}" for head in (1, 2)),
        *(f"weights·V, the weighted values; head {head}" for head in (1, 2)),
        *("heads side by side, z", "WO", "output, z·WO: what each word has become"),
    ]
    assert shapes["weights, softmax of each row; head 1"] == (3, 3)
    assert shapes["V = x·WV, cut into heads; head 1"] == (3, 2)
    assert printed == f"{found}\n"
    last = [[float(number) for number in line.split()[1:]] for line in str(found).split("\n")[-3:]]
    torch.testing.assert_close(torch.tensor(last), found.output, rtol=0, atol=6e-4)


def test_it_prints_unless_told_not_to(capsys: pytest.CaptureFixture[str]) -> None:
    walkthrough("I go home", show=False)
    assert capsys.readouterr().out == ""
    walkthrough("I go home")
    assert capsys.readouterr().out.startswith("I go home: 3 queries, 3 keys and values, 2 heads of 2 numbers")


def test_a_word_is_the_same_vector_wherever_it_stands() -> None:
    plain, moved = walkthrough("I go home", show=False), walkthrough("go home I", show=False)
    close(moved.output, plain.output[[1, 2, 0]])


def test_a_trained_read_is_explained_with_its_own_vectors() -> None:
    read = Attention("cross", 6, 5, 8, 2, "additive")
    x, m = torch.randn(2, 6), torch.randn(3, 5)
    found = walkthrough(["a", "b"], ["c", "d", "e"], read=read, vectors=x, memory_vectors=m, show=False)
    close(found.output[None], read(x[None], read.prepare(m[None], m[None])))
    assert "scores, every query with every key; head 1 (2 × 3)" in str(found)
    assert "divided" not in str(found), "an additive score is not scaled"


@pytest.mark.parametrize(("score", "made"), [("cosine_fixed", "times 10.000"), ("scaled_dot", "divided by √4 = 2.000")])
def test_what_is_done_to_the_products_is_what_is_said(score: str, made: str) -> None:
    found = walkthrough("a b", read=Attention("own", 4, 4, 4, 1, score), vectors=torch.randn(2, 4), show=False)
    assert f"scores, {made} (2 × 2)" in str(found)


def test_words_of_any_width_stand_in_columns() -> None:
    lines = str(walkthrough("나는 집에 간다", "I go home", show=False)).split("\n")
    place = lines.index("weights, softmax of each row; head 1 (3 × 3)")
    header, rows = lines[place + 1], lines[place + 2 : place + 5]
    assert len(header) == len(rows[0]) + 2, "two syllables of Hangul are as wide as four letters"


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        ({"sentence": ""}, "nothing to explain"),
        ({"sentence": "I go", "size": 5}, "a size of 5 cannot be cut into 2 equal heads"),
        ({"sentence": "I go", "reads": "나는", "causal": True}, "a sentence that reads itself"),
        ({"sentence": "I go", "read": Attention("any", 4, 4, 4)}, "needs the vectors"),
        (
            {"sentence": "I", "reads": "나", "read": Attention("any", 4, 4, 4), "vectors": torch.randn(1, 4)},
            "give memory_vectors=",
        ),
        ({"sentence": "I", "memory_vectors": torch.randn(1, 4)}, "give `reads` too"),
        ({"sentence": "I go", "vectors": torch.randn(3, 4)}, r"a row for each of 2 words, got the shape \(3, 4\)"),
    ],
)
def test_what_cannot_be_explained_is_refused(arguments: dict[str, object], because: str) -> None:
    with pytest.raises(UsageError, match=because):
        walkthrough(**arguments)  # type: ignore[arg-type]
