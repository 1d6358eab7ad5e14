"""Measures of single models: operations by target token, and the attention of examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small import SENTENCES, captioner_folder, folder

from regard.comparison import result, test_data
from regard.comparison.examples import make_examples, most_different
from regard.comparison.measuring import operations_per_token
from regard.data.batch import Example
from regard.model_folder import load_folder
from regard.pipeline import load_captioner, load_translator

REFERENCES = (("I go",), ("you read",))


def test_operations_are_those_of_each_example_by_target_token(tmp_path: Path) -> None:
    model = load_folder(folder(tmp_path / "run")).model
    examples = [Example([5, 6, 7, 3], [8, 9, 3]), Example([5, 3], [9, 8, 7, 6, 3])]
    first, second = (operations_per_token(model, [example]) for example in examples)
    assert operations_per_token(model, examples) == pytest.approx((3 * first + 5 * second) / 8)
    of_projection = 16 * model.decoder.output.weight.shape[0]
    assert min(first, second) > of_projection, "the projection is a part of it"
    assert operations_per_token(model, []) == 0


def test_examples_show_the_attention_of_captioners(tmp_path: Path) -> None:
    paths = (tmp_path / "a.png", tmp_path / "b.png")
    for seed, path in enumerate(paths):
        pixels = np.random.default_rng(seed).integers(0, 256, (12, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    captioner = load_captioner(captioner_folder(tmp_path / "captioner"))
    test = result.TestSet("test", ("a.png", "b.png"), REFERENCES, "")
    data = test_data.TestData(test, images=paths)
    examples = make_examples([(1, 2.0), (0, 1.0)], data, [("one", captioner)], {})
    for example, path in zip(examples, reversed(paths), strict=True):
        shown = example.attention["one"]
        assert shown.grid == (3, 5)
        assert shown.target == captioner.caption([path], readings=True)[0].readings.target_text
        for row in shown.percent:
            assert sum(row) == pytest.approx(100, abs=8)


def test_examples_show_the_attention_of_translators(tmp_path: Path) -> None:
    translator = load_translator(folder(tmp_path / "translator"))
    test = result.TestSet("test", tuple(SENTENCES[:2]), REFERENCES, "")
    data = test_data.TestData(test)
    (example,) = make_examples([(1, 2.0)], data, [("two", translator)], {})
    shown = example.attention["two"].source
    assert [word.strip() for word in shown] == SENTENCES[1].split()


def test_examples_are_those_whose_scores_differ_most() -> None:
    scores = {"a": [1.0, 5.0, 3.0, 2.0], "b": [2.0, 1.0, 3.0, 3.0]}
    assert most_different(scores) == [(1, 4.0), (0, 1.0), (3, 1.0)]
    assert most_different({"a": scores["a"]}) == [(0, 4.0), (3, 3.0), (2, 2.0)]
    assert most_different({}) == []
