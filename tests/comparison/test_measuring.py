"""Measures of single models: operations by target token, and the attention of examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small import SENTENCES, captioner_folder, folder

from regard.comparison import result, test_data
from regard.comparison.examples import make_examples
from regard.comparison.measuring import operations_per_token
from regard.data.batch import Example
from regard.model_folder import load_folder
from regard.pipeline import load_captioner, load_translator


def test_operations_are_those_of_each_example_by_target_token(tmp_path: Path) -> None:
    model = load_folder(folder(tmp_path / "run")).model
    examples = [Example([5, 6, 7, 3], [8, 9, 3]), Example([5, 3], [9, 8, 7, 6, 3])]
    alone = [operations_per_token(model, [example]) for example in examples]
    assert operations_per_token(model, examples) == pytest.approx((3 * alone[0] + 5 * alone[1]) / 8)
    assert min(alone) > 16 * model.decoder.output.weight.shape[0], "the projection is a part of it"
    assert operations_per_token(model, []) == 0


def test_examples_show_the_attention_of_captioners_and_translators(tmp_path: Path) -> None:
    paths = (tmp_path / "a.png", tmp_path / "b.png")
    for seed, path in enumerate(paths):
        Image.fromarray(
            np.random.default_rng(seed).integers(0, 256, (12, 20, 3), dtype=np.uint8)
        ).save(path)
    captioner = load_captioner(captioner_folder(tmp_path / "captioner"))
    data = test_data.TestData(
        result.TestSet("test", ("a.png", "b.png"), (("I go",), ("you read",)), ""), images=paths
    )
    for example, path in zip(
        make_examples([(1, 2.0), (0, 1.0)], data, [("one", captioner)], {}),
        paths[::-1],
        strict=True,
    ):
        shown = example.attention["one"]
        assert shown.grid == (3, 5)
        assert shown.target == captioner.caption([path], readings=True)[0].readings.target_text
        assert all(abs(sum(row) - 100) <= 8 for row in shown.percent)
    translator = load_translator(folder(tmp_path / "translator"))
    data = test_data.TestData(
        result.TestSet("test", tuple(SENTENCES[:2]), (("I go",), ("you read",)), "")
    )
    (example,) = make_examples([(1, 2.0)], data, [("two", translator)], {})
    assert "".join(example.attention["two"].source).replace(" ", "") == SENTENCES[1].replace(
        " ", ""
    )
