"""regard show of a captioner: what the words of a caption looked at, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from command import Command
from PIL import Image
from small import captioner_folder

from regard.explanation import alignment_choice, explain_caption, overlay_of
from regard.pipeline import load_captioner


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captioner_folder(tmp_path_factory.mktemp("captioner"), "transformer")


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "one.png"
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (24, 40, 3), dtype=np.uint8)).save(path)
    return path


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.png", "a.gif"])
def test_the_suffix_says_what_is_written(regard: Command, captioner: Path, picture: Path, name: str) -> None:
    done = regard("show", captioner, picture, "--out", name)
    assert done.out == load_captioner(captioner).caption(picture)[0].text + "\n"
    assert done.err == f"wrote {name}\n"
    assert os.listdir() == [name]
    if name in ("a.png", "a.gif"):
        with Image.open(name) as image:
            assert min(image.size) > 50
            assert getattr(image, "n_frames", 1) > 1 or name == "a.png"
        return
    text = Path(name).read_text(encoding="utf-8")
    assert "data:image/png;base64," in text
    for word in done.lines[0].split():
        assert word.strip("\u2047") in text
    if name == "a.svg":
        ElementTree.fromstring(text)


def test_the_player_moves_as_svg(regard: Command, captioner: Path, picture: Path) -> None:
    regard("show", captioner, picture, "--out", "a.svg", "--view", "player")
    assert "@keyframes" in Path("a.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--view", "heads"], "--view heads: only for translations"),
        (["--faithfulness"], "--faithfulness: only for translations"),
    ],
)
def test_what_captions_do_not_have_is_said(
    regard: Command, captioner: Path, picture: Path, arguments: list[str], said: str
) -> None:
    regard.fails("show", captioner, picture, "--out", "a.svg", *arguments, status=2, because=said)


def test_a_picture_that_is_not_there_is_named(regard: Command, captioner: Path) -> None:
    regard.fails("show", captioner, "none.png", status=1, because="none.png: no such file")


def test_a_told_caption_holds_every_read_and_every_step(captioner: Path, picture: Path) -> None:
    loaded = load_captioner(captioner)
    told = explain_caption(loaded, picture, beam=2)
    story, readings = told.data, told.caption.readings
    assert readings is not None
    assert story.image is not None
    assert story.image.grid == (3, 5)
    np.testing.assert_array_equal(story.image.pixels, loaded.model_view(picture))
    assert story.target == tuple(told.caption.text.split())
    assert [layer.role for layer in story.layers] == ["cross", "cross", "decoder", "decoder"]
    assert story.layers[0].weights.shape == (2, len(told.caption.tokens) + 1, 15)
    assert len(story.steps) == len(told.caption.tokens) + 1
    sheet = overlay_of(story, readings, alignment_choice(loaded, readings))
    np.testing.assert_allclose(sheet.maps[0], readings.image_map(0), atol=1e-6)
