"""SoftDictionary: exact look-up as in a dict, look-up by any similarity, and look-up by vectors as
in attention.
"""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor

from regard.attention import SCORES, Attention, Memory, watch
from regard.common.errors import UnknownKey, UsageError
from regard.learn import SoftDictionary

ANIMALS = {"computer": 9, "dog": 2, "cat": 3}
SIMILARITIES = {"computer": 0.1, "dog": 0.9, "cat": 0.7}


def similarity(key: str, query: str) -> float:
    assert query == "puppy"

    return SIMILARITIES[key]


def close(actual: Tensor, expected: Tensor | float) -> None:
    torch.testing.assert_close(
        actual, torch.as_tensor(expected).to(actual), rtol=0, atol=1e-5
    )


# --- exact look-up


def test_soft_dictionary_behaves_as_the_dict() -> None:
    animals = SoftDictionary(ANIMALS)
    assert dict(animals) == ANIMALS
    assert list(animals) == list(ANIMALS)
    assert len(animals) == 3
    assert "dog" in animals
    assert "puppy" not in animals
    assert animals.get("puppy", 7) == 7
    assert repr(animals) == "SoftDictionary({computer: 9.00, dog: 2.00, cat: 3.00})"

    answer = animals.look_up("dog")
    assert answer.weights.tolist() == [0, 1, 0]
    assert answer.value == 2
    assert animals.look_up("dog", lambda key, query: float(key == query)).value == 2


def test_missing_key_raises_a_key_error_that_names_similar_keys() -> None:
    animals = SoftDictionary(ANIMALS)
    message = (
        "no key equals 'dgo': near it are dog; look_up(query, similarity) reads softly"
    )

    with pytest.raises(KeyError) as caught:
        animals["dgo"]

    assert str(caught.value) == message

    with pytest.raises(UnknownKey, match="near it are dog"):
        animals.look_up("dgo")

    with pytest.raises(KeyError, match="there are computer, dog, cat"):
        animals["xyz"]

    with pytest.raises(KeyError, match="no key equals 7"):
        animals[7]


def test_vectors_can_be_looked_up_exactly() -> None:
    entries = {(1.0, 0.0): (5.0, 6.0, 7.0), (0.0, 1.0): (1.0, 2.0, 3.0)}
    words = SoftDictionary(entries, names=["east", "north"])
    assert words[torch.tensor([0.0, 1.0])] == (1.0, 2.0, 3.0)
    assert words[1.0, 0.0] == (5.0, 6.0, 7.0)

    with pytest.raises(KeyError, match="near it are east, north"):
        words[torch.tensor([0.9, 0.1])]


# --- look-up by similarity


def test_weighted_mean_equals_the_worked_example() -> None:
    answer = SoftDictionary(ANIMALS).look_up("puppy", similarity)
    total = 0.1 + 0.9 + 0.7
    close(answer.value, (0.1 * 9 + 0.9 * 2 + 0.7 * 3) / total)

    assert str(answer) == (
        "puppy reads  2.824\n"
        "key       similarity  weight  value\n"
        "computer       0.100   0.059  9.000\n"
        "dog            0.900   0.529  2.000\n"
        "cat            0.700   0.412  3.000"
    )


def test_gradients_of_a_softmax_flow_to_the_similarity() -> None:
    sharpness = torch.tensor(1.0, requires_grad=True)
    answer = SoftDictionary(ANIMALS).look_up(
        "puppy", lambda key, _: SIMILARITIES[key] * sharpness, softmax=True
    )
    similarities = torch.tensor([*SIMILARITIES.values()])
    expected = (sharpness * similarities).softmax(0) @ torch.tensor([9.0, 2.0, 3.0])

    close(answer.value, expected)

    (gradient,) = torch.autograd.grad(answer.value, sharpness)
    (expected_gradient,) = torch.autograd.grad(expected, sharpness)
    close(gradient, expected_gradient)


# --- look-up by vectors: attention


@pytest.mark.parametrize("name", ["scaled_dot", "cosine_fixed"])
@pytest.mark.parametrize("shape", [(6,), (5, 6)])
def test_look_up_by_vectors_equals_attention(name: str, shape: tuple[int, ...]) -> None:
    keys = torch.randn(4, 6)
    values = torch.randn(4, 9)
    keep = torch.tensor([True, False, True, True])
    query = torch.randn(shape)
    attention = Attention(
        "any", 6, 6, 6, score_name=name, project_keys=False, project_values=False
    )
    memory = attention.prepare(keys[None], values[None], keep[None])

    assert isinstance(memory, Memory)

    with watch(attention) as readings:
        expected = attention(query.view(1, -1, 6), memory)

    answer = SoftDictionary(keys, values).look_up(query, name, keep=keep)
    assert answer.value.shape == (*shape[:-1], 9)
    assert torch.equal(answer.value.view(expected.shape), expected), "to the bit"

    weights = readings[""]
    assert torch.equal(answer.weights.view(weights.shape), weights)


def test_trained_score_is_accepted() -> None:
    keys = torch.randn(4, 6)
    values = torch.randn(4, 2)
    query = torch.randn(3)
    score = SCORES["general"](1, 6, 3)
    answer = SoftDictionary(keys, values).look_up(query, score)
    matrix = score.matrix[0]
    weights = torch.stack([query @ matrix @ key for key in keys]).softmax(0)

    close(answer.value, weights @ values)


@pytest.mark.parametrize("hidden", [0.3, math.nan])
def test_masking_equals_zeroing_and_renormalising(hidden: float) -> None:
    keys = torch.randn(5, 4)
    values = torch.randn(5, 2)
    query = torch.randn(4)
    keep = [True, False, True, True, False]
    with_all = SoftDictionary(keys, values).look_up(query)
    keys[1] = hidden
    values[4] = hidden
    answer = SoftDictionary(keys, values).look_up(query, keep=keep)
    zeroed = with_all.weights * torch.tensor(keep)

    close(answer.weights, zeroed / zeroed.sum())

    animals = SoftDictionary(ANIMALS)
    masked = animals.look_up("puppy", similarity, keep=[True, False, True])
    close(masked.weights, torch.tensor([0.1 / 0.8, 0, 0.7 / 0.8]))


def test_fully_masked_look_up_gives_zero() -> None:
    animals = SoftDictionary(ANIMALS)
    vectors = SoftDictionary(torch.randn(3, 4), torch.randn(3, 2))
    nothing = [False] * 3
    for answer in (
        vectors.look_up(torch.randn(4), keep=nothing),
        animals.look_up("puppy", similarity, keep=nothing),
        animals.look_up("puppy", lambda *_: 0.0),
    ):
        assert not answer.weights.any()
        assert not answer.value.any()


# --- tables and figures


def test_long_tables_are_abbreviated() -> None:
    dictionary = SoftDictionary(torch.randn(40, 3), torch.randn(40, 8))
    answer = dictionary.look_up(torch.randn(2, 3))
    first, second = str(answer).split("\n\n")

    assert second.startswith("query 2 reads")

    heading, _, *rows = first.split("\n")
    assert heading.startswith("query 1 reads")
    assert len(rows) == 24 + 1

    label, rest = rows[-1].rsplit(" ", 1)
    assert label.startswith("… and 16 more")

    shown = answer.weights[0].topk(24).values.sum()
    assert float(rest) == pytest.approx(1 - float(shown), abs=1e-3)


def test_figure_has_a_bar_for_each_key() -> None:
    dictionary = SoftDictionary({"a<b": 1, "강아지": 2})
    answer = dictionary.look_up("a<b", lambda key, query: 3 if key == query else 1)
    for image in (answer._repr_svg_(), answer._repr_html_()):
        root = ElementTree.fromstring(image)
        widths = []
        texts = set()
        for element in root.iter():
            if element.tag.endswith("rect") and "x" in element.attrib:
                widths.append(float(element.attrib["width"]))
            if element.tag.endswith("text"):
                texts.add(element.text)

        assert widths == [150, 50]
        assert texts == {"a<b → 1.250", "a<b", "강아지", "0.750", "0.250"}

    assert "currentColor" in answer._repr_html_(), "the text colour of the notebook"
    assert "prefers-color-scheme:dark" in answer._repr_svg_()


# --- refused input


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (({},), "at least one entry"),
        ((["a"],), "keys without values"),
        (({"a": 1}, [1]), "a dict has its own values"),
        (({"dog": "Hund"},), "values must be numbers"),
        (({(1.0, 2.0): 1, (1.0,): 2},), "keys must be numbers, or vectors of one size"),
    ],
)
def test_wrong_entries_are_refused(entries: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SoftDictionary(*entries)


def test_all_that_is_wrong_with_entries_is_said_at_once() -> None:
    with pytest.raises(UsageError) as refused:
        SoftDictionary(torch.randn(3, 4), torch.randn(2, 4), names=["a"])

    values, names = refused.value.causes
    assert "there are 3 keys and 2 values" in values
    assert "3 keys and 1 names" in names


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("puppy", {"similarity": "dot"}, "compares vectors"),
        ("dog", {"softmax": True}, "equality has no softmax"),
        (
            "puppy",
            {"similarity": lambda *_: -1.0},
            "computer -1, dog -1, cat -1: use softmax",
        ),
        ("puppy", {"similarity": lambda *_: "near"}, "one number"),
        ("puppy", {"similarity": similarity, "keep": [True]}, "each of 3 entries"),
        (torch.ones(5), {}, "a query has 5 numbers and the keys have 4"),
        (torch.ones(4), {"similarity": "additive"}, "has weights: give a trained"),
        (torch.ones(4), {"similarity": "euclid"}, "no score 'euclid'"),
        (torch.ones(2, 2, 4), {}, "one vector or a table"),
    ],
)
def test_wrong_queries_are_refused(query: Any, options: Any, message: str) -> None:
    dictionary = SoftDictionary(ANIMALS)
    if isinstance(query, Tensor):
        dictionary = SoftDictionary(torch.ones(3, 4), torch.ones(3, 2))

    with pytest.raises(UsageError, match=message):
        dictionary.look_up(query, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_and_arrays_of_any_float_type_are_accepted(dtype: torch.dtype) -> None:
    keys = torch.randn(3, 4, dtype=dtype)
    values = torch.randn(3, 2, dtype=dtype)
    query = torch.randn(4)
    expected = SoftDictionary(keys, values).look_up(query.double()).value

    assert expected.dtype == dtype

    of_arrays = SoftDictionary(keys.numpy(), values.numpy()).look_up(query.numpy())
    torch.testing.assert_close(of_arrays.value, expected)
    assert SoftDictionary(torch.tensor([1.0, 2.0]), [5, 6])[2.0] == 6
