"""regard show of a captioner: figures of what each word attends to, complete or not written."""

from __future__ import annotations

import html
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from command import Command, text_of
from helpers.image_folders import noise
from helpers.small_models import captioner_folder
from PIL import Image

from regard.explain.explanation import alignment_choice, explain_caption, overlay_of
from regard.pipeline import load_captioner


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captioner_folder(tmp_path_factory.mktemp("captioner"), "transformer")


@pytest.fixture(scope="module")
def image_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "one.png"
    noise((24, 40)).save(path)
    return path


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.png"])
def test_the_suffix_determines_the_format(
    regard: Command, captioner: Path, image_path: Path, name: str
) -> None:
    show = f"show {captioner} {image_path} --out {name}"
    done = regard(show)
    assert done.out == load_captioner(captioner).caption(image_path)[0].text + "\n"
    assert done.err == f"wrote {name}\n"
    assert os.listdir() == [name]

    if name == "a.png":
        with Image.open(name) as image:
            assert min(image.size) > 50
        return
    text = text_of(name)
    assert "data:image/png;base64," in text

    for word in done.out.replace("\u2047", " ").split():
        assert html.escape(word, quote=False) in text

    if name == "a.svg":
        ElementTree.fromstring(text)
        regard(f"{show} --view player")
        assert "@keyframes" in text_of("a.svg")


def test_the_explanation_of_a_caption_has_every_layer_and_step(
    captioner: Path, image_path: Path
) -> None:
    loaded = load_captioner(captioner)
    caption, data = explain_caption(loaded, image_path, beam=2)
    readings = caption.readings
    assert readings is not None
    assert data.image is not None
    assert data.image.grid == (3, 5)

    np.testing.assert_array_equal(data.image.pixels, loaded.model_view(image_path))
    roles = [layer.role for layer in data.layers]
    assert roles == ["cross", "cross", "decoder", "decoder"]

    steps = len(caption.tokens) + 1
    assert data.layers[0].weights.shape == (2, steps, 15)
    assert len(data.steps) == steps

    overlay = overlay_of(data, readings, alignment_choice(loaded, readings))
    np.testing.assert_allclose(overlay.maps[0], readings.image_map(0), atol=1e-6)
