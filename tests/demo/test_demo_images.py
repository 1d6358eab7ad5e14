"""The demonstration on images: captions are judged correctly, and the model is good and fast
enough.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from regard.attention.alignment import Readings
from regard.learn.demo.images import demo_recipe, judge
from regard.learn.samples.images import CaptionedScene, image_sample
from regard.learn.samples.images.scene import SIDE
from regard.pipeline import AlignmentChoice, Caption

GRID = (9, 9)
CHOICE = AlignmentChoice("attention", 0, False)


def _caption(text: str, attended: dict[int, tuple[int, int]]) -> Caption:
    """Return a caption with words that attend to one cell each: that in `attended`, or the
    first.
    """
    rows, columns = GRID
    words = tuple(text.split())
    cells = tuple(str(cell) for cell in range(rows * columns))
    weights = np.zeros((1, len(words) + 1, len(cells)), np.float32)
    for word in range(len(words)):
        row, column = attended.get(word, (0, 0))
        weights[0, word, row * columns + column] = 1

    readings = Readings(
        cells,
        (*words, "</s>"),
        tuple(range(len(cells))),
        (*range(len(words)), -1),
        {"attention": weights},
        {"attention": "cross"},
        cells,
        words,
        GRID,
    )
    return Caption(text, words, -1.0, readings)


def _attending_caption(scene: CaptionedScene, number: int, language: str) -> Caption:
    """Return a gold caption with nouns that attend to the centres of their objects."""
    caption = scene.captions[language][number]
    attended = {}
    for word, index in caption.nouns:
        box = scene.scene.boxes[index][0]
        row = (box.top + box.bottom) / 2 / SIDE * GRID[0]
        column = (box.left + box.right) / 2 / SIDE * GRID[1]
        attended[word] = (int(row), int(column))

    return _caption(caption.text, attended)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_gold_captions_are_true_and_attend_to_their_objects(language: str) -> None:
    scenes = image_sample(0, 0, 40, seed=2).splits["test"]
    # without objects inside others: the centre of an outer object is not in its region
    separate = [scene for scene in scenes if scene.scene.meaning.relation != "inside"]
    captions = [_attending_caption(scene, 1, language) for scene in separate]
    judgement = judge(captions, separate, language, CHOICE)

    assert judgement.share == 1

    nouns = [len(scene.captions[language][1].nouns) for scene in separate]
    assert judgement.pointing.words == sum(nouns)
    assert judgement.pointing.accuracy > 0.9, (
        "the centre of a cell may lie outside a small object"
    )
    assert judgement.pointing.chance < 0.1

    captions = [_caption(scene.captions[language][0].text, {}) for scene in scenes]
    at_first_cell = judge(captions, scenes, language, CHOICE)

    assert at_first_cell.share == 1
    assert at_first_cell.pointing.accuracy < 0.2

    cows = [_caption("three green cows", {}) for _ in scenes]
    false = judge(cows, scenes, language, CHOICE)

    assert (false.share, false.pointing.words) == (0, 0)


def test_the_recipe_is_valid(tmp_path: Path) -> None:
    recipe = demo_recipe(tmp_path, "ko", 3)
    assert recipe.data.images is not None
    assert recipe.data.images.captions == str(tmp_path / "train.ko.tsv")
    assert recipe.training.seed == 3


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_demonstration_on_images_reaches_its_scores(
    tmp_path: Path, language: str
) -> None:
    arguments = ["demo", "--images", "--out", str(tmp_path / "demo"), "--quiet"]
    if language == "ko":
        arguments.append("--korean")
    command = [sys.executable, "-m", "regard", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)

    assert process.returncode == 0, process.stdout + process.stderr

    *_, truth, pointing = process.stdout.splitlines()
    assert float(truth.removeprefix("true ").removesuffix(" %")) >= 90
    assert float(pointing.removeprefix("pointing ").removesuffix(" %")) >= 80
    assert (tmp_path / "demo" / "test-00000.html").is_file()
