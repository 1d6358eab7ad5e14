"""Measures of single models: operations by target token, and the attention of examples."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path

import pytest
from helpers.small_models import SENTENCES, folder

from regard.common.errors import LineWarning, repetition_note
from regard.comparison import result, test_data
from regard.comparison.examples import make_examples, most_different
from regard.comparison.measuring import operations_per_token
from regard.data.batch import Example
from regard.evaluation.line_warnings import caught_warnings
from regard.model_folder import load_folder
from regard.pipeline import load_translator


def test_operations_are_those_of_each_example_by_target_token(tmp_path: Path) -> None:
    model = load_folder(folder(tmp_path / "run")).model
    examples = [Example([5, 6, 7, 3], [8, 9, 3]), Example([5, 3], [9, 8, 7, 6, 3])]
    first, second = (operations_per_token(model, [example]) for example in examples)
    both = operations_per_token(model, examples)

    assert both == pytest.approx((3 * first + 5 * second) / 8)

    of_projection = 16 * model.decoder.output.weight.shape[0]
    assert min(first, second) > of_projection, "the projection is a part of it"
    assert operations_per_token(model, []) == 0


def test_examples_show_the_attention_of_each_sentence(tmp_path: Path) -> None:
    translator = load_translator(folder(tmp_path / "translator"))
    references = (("I go",), ("you read",))
    test = result.TestSet("test", tuple(SENTENCES[:2]), references, "")
    data = test_data.TestData(test)
    chosen = [(1, 2.0), (0, 1.0)]
    examples = make_examples(chosen, data, [("two", translator)], {})

    assert [(example.index, example.spread) for example in examples] == chosen

    for example in examples:
        source = SENTENCES[example.index]
        (translation,) = translator.translate(source, readings=True)
        shown = example.attention["two"]

        assert [word.strip() for word in shown.source] == source.split()
        assert shown.target == translation.readings.target_text

        for row in shown.percent:
            assert 0 < sum(row) <= 108, "end of sentence has the rest"


def test_warnings_are_counted_by_line_and_kind() -> None:
    long = "a sentence of 12 tokens is longer than any in training (11); it is"
    with caught_warnings() as caught:
        for line, text in ((3, long), (3, f"{long} split"), (5, long), (5, "odd")):
            warnings.warn(LineWarning(line, text), stacklevel=1)
        note = repetition_note(("so", 9))
        warnings.warn(LineWarning(7, note), stacklevel=1)
    assert caught.lines == [3, 5, 7]
    counts = {"longer than any in training": 2, "other": 1, "repetition": 1}
    assert caught.kinds == counts
    assert asdict(caught)["kinds"] == counts, "as in the cache"


def test_examples_are_those_whose_scores_differ_most() -> None:
    scores = {"a": [1.0, 5.0, 3.0, 2.0], "b": [2.0, 1.0, 3.0, 3.0]}
    assert most_different(scores) == [(1, 4.0), (0, 1.0), (3, 1.0)]
    assert most_different({"a": scores["a"]}) == [(0, 4.0), (3, 3.0), (2, 2.0)]
    assert most_different({}) == []
