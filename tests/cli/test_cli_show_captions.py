"""regard show of a captioner: figures of what each word attends to, complete or not written."""

from __future__ import annotations

import html
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from command import Command
from PIL import Image
from small import captioner_folder

from regard.explain.explanation import alignment_choice, explain_caption, overlay_of
from regard.pipeline import load_captioner


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captioner_folder(tmp_path_factory.mktemp("captioner"), "transformer")


@pytest.fixture(scope="module")
def image_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "one.png"
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (24, 40, 3), dtype=np.uint8)).save(
        path
    )
    return path


@pytest.mark.parametrize(
    "name", ["a.html", "a.svg", "a.png", pytest.param("a.gif", marks=pytest.mark.slow)]
)
def test_the_suffix_determines_the_format(
    regard: Command, captioner: Path, image_path: Path, name: str
) -> None:
    done = regard("show", captioner, image_path, "--out", name)
    assert done.out == load_captioner(captioner).caption(image_path)[0].text + "\n"
    assert done.err == f"wrote {name}\n"
    assert os.listdir() == [name]
    if name in ("a.png", "a.gif"):
        with Image.open(name) as image:
            assert min(image.size) > 50
            assert getattr(image, "n_frames", 1) > 1 or name == "a.png"
        return
    text = Path(name).read_text(encoding="utf-8")
    assert "data:image/png;base64," in text
    for word in done.lines[0].replace("\u2047", " ").split():
        assert html.escape(word, quote=False) in text
    if name == "a.svg":
        ElementTree.fromstring(text)


def test_the_player_is_animated_as_svg(regard: Command, captioner: Path, image_path: Path) -> None:
    regard("show", captioner, image_path, "--out", "a.svg", "--view", "player")
    assert "@keyframes" in Path("a.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (["--view", "heads"], "--view heads: only for translations"),
        (["--faithfulness"], "--faithfulness: only for translations"),
    ],
)
def test_views_that_captions_lack_are_refused(
    regard: Command, captioner: Path, image_path: Path, arguments: list[str], because: str
) -> None:
    regard.fails(
        "show", captioner, image_path, "--out", "a.svg", *arguments, status=2, because=because
    )


def test_a_missing_image_is_named(regard: Command, captioner: Path) -> None:
    regard.fails("show", captioner, "none.png", status=1, because="none.png: no such file")


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
    assert data.target == tuple(caption.text.split())
    assert [layer.role for layer in data.layers] == ["cross", "cross", "decoder", "decoder"]
    assert data.layers[0].weights.shape == (2, len(caption.tokens) + 1, 15)
    assert len(data.steps) == len(caption.tokens) + 1
    overlay = overlay_of(data, readings, alignment_choice(loaded, readings))
    np.testing.assert_allclose(overlay.maps[0], readings.image_map(0), atol=1e-6)


def test_a_sentence_for_a_captioner_is_refused(regard: Command, captioner: Path) -> None:
    because = (
        "나는 간다: not an image; this model captions images, and a translator translates text"
    )
    regard.fails("show", captioner, "나는 간다", "--out", "a.html", status=2, because=because)
    assert os.listdir() == []
