"""The demonstration on images: its judgement of captions is right, and its model good and fast enough."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from regard.attention.alignment import Readings
from regard.demo.images import demo_recipe, judge
from regard.pipeline import AlignmentChoice, Caption
from regard.samples.images import CaptionedScene, image_sample
from regard.samples.images.scene import SIDE

GRID = (9, 9)
READ = AlignmentChoice("read", 0, False)


def _caption(text: str, looked: dict[int, tuple[int, int]]) -> Caption:
    """A caption each of whose words attends to one cell: that in `looked`, or the first."""
    words = tuple(text.split())
    weights = np.zeros((1, len(words) + 1, GRID[0] * GRID[1]), np.float32)
    for word in range(len(words)):
        row, column = looked.get(word, (0, 0))
        weights[0, word, row * GRID[1] + column] = 1
    cells = tuple(str(cell) for cell in range(GRID[0] * GRID[1]))
    pieces = (*words, "</s>")
    read = Readings(
        cells,
        pieces,
        tuple(range(len(cells))),
        (*range(len(words)), -1),
        {"read": weights},
        {"read": "cross"},
        cells,
        words,
        GRID,
    )
    return Caption(text, words, -1.0, read)


def _looking_right(scene: CaptionedScene, number: int, language: str) -> Caption:
    """A gold caption whose nouns attend to the centres of what they name."""
    caption, looked = scene.captions[language][number], {}
    for word, thing in caption.nouns:
        box = scene.scene.boxes[thing][0]
        middle = (box.top + box.bottom) / 2, (box.left + box.right) / 2
        looked[word] = (int(middle[0] / SIDE * GRID[0]), int(middle[1] / SIDE * GRID[1]))
    return _caption(caption.text, looked)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_gold_captions_are_true_and_point_where_they_look(language: str) -> None:
    scenes = image_sample(0, 0, 40, seed=2).splits["test"]
    apart = [scene for scene in scenes if scene.scene.meaning.relation != "inside"]  # there a middle is not the frame
    judgement = judge([_looking_right(scene, 1, language) for scene in apart], apart, language, READ)
    assert judgement.share == 1
    assert judgement.pointing.words == sum(len(scene.captions[language][1].nouns) for scene in apart)
    assert judgement.pointing.accuracy > 0.9, "the middle of a cell may lie outside a small thing"
    assert judgement.pointing.chance < 0.1


def test_captions_of_other_images_are_neither_true_nor_pointing() -> None:
    scenes = image_sample(0, 0, 30, seed=2).splits["test"]
    wrong = judge([_caption("three green cows", {}) for _ in scenes], scenes, "en", READ)
    assert (wrong.share, wrong.pointing.words) == (0, 0)
    blind = judge([_caption(scene.captions["en"][0].text, {}) for scene in scenes], scenes, "en", READ)
    assert blind.share == 1
    assert blind.pointing.accuracy < 0.2


def test_the_recipe_is_valid(tmp_path: Path) -> None:
    made = demo_recipe(tmp_path, "ko", 3)
    assert made.data.images is not None
    assert made.data.images.captions == str(tmp_path / "train.ko.tsv")
    assert made.training.seed == 3


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_demonstration_on_images(tmp_path: Path, language: str) -> None:
    began = time.monotonic()
    command = [sys.executable, "-m", "regard", "demo", "--images", "--out", str(tmp_path / "demo"), "--quiet"]
    done = subprocess.run(command + ["--korean"] * (language == "ko"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, true, pointing = done.stdout.splitlines()
    assert float(true.removeprefix("true ").removesuffix(" %")) >= 90
    assert float(pointing.removeprefix("pointing ").removesuffix(" %")) >= 80
    assert (tmp_path / "demo" / "test-00000.html").is_file()
    assert time.monotonic() - began < 1200, "ten minutes on two cores, twice that on a machine that is busy"
