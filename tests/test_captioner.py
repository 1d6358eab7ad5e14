"""Captioner: image inputs, n-best, ensembles, regions; readings equal teacher forcing the
output.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.small_models import FRAME, captioner_folder, folder
from PIL import Image

import regard
from regard.attention import watch
from regard.attention.alignment import Readings
from regard.common.checksums import sealed
from regard.common.errors import DataError, UsageError
from regard.data.images import load_pixels, source_pixels
from regard.data.vocabulary import BOS
from regard.model_folder import CONFIG, save_alignment
from regard.models import Batch
from regard.pipeline import (
    Caption,
    Captioner,
    Translator,
    load,
    load_captioner,
    load_translator,
)
from regard.runtime.engine import Engine
from regard.search import Constraints
from regard.search.forced_decoding import force_decode


def noise(seed: int, size: tuple[int, int] = (30, 50)) -> Image.Image:
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    )


def loaded(files: list[Path]) -> list[torch.Tensor]:
    return [source_pixels(load_pixels(path, FRAME), FRAME).tensor() for path in files]


def ids_of(captioner: Captioner, caption: Caption) -> list[int]:
    return captioner.tokenizer.target.ids(caption.tokens)


@pytest.fixture(scope="module", params=["recurrent", "transformer"])
def captioner(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Captioner:
    return load_captioner(
        captioner_folder(tmp_path_factory.mktemp("captioner"), request.param)
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    images = tmp_path_factory.mktemp("images")
    for number in range(5):
        noise(number).save(images / f"{number}.png")
    return sorted(images.iterdir())


def test_captions_keep_the_order_and_do_not_depend_on_the_batch(
    captioner: Captioner, files: list[Path]
) -> None:
    together = captioner.caption(files)
    alone = [captioner.caption(path)[0].text for path in files]

    assert [caption.text for caption in together] == alone
    assert len({caption.text for caption in together}) > 1
    assert all(
        caption.readings is None and caption.regions == () for caption in together
    )


def test_every_kind_of_image_input_is_accepted(
    captioner: Captioner, files: list[Path]
) -> None:
    file = files[0]
    pixels = source_pixels(load_pixels(file, FRAME), FRAME)
    array = np.asarray(Image.open(file))
    tensor = torch.from_numpy(array.copy()).permute(2, 0, 1)
    inputs = [
        file,
        str(file),
        file.read_bytes(),
        Image.open(file),
        array,
        tensor,
        pixels,
    ]

    assert len({caption.text for caption in captioner.caption(inputs)}) == 1
    assert captioner.model_view(file).shape == (12, 20, 3)

    np.testing.assert_array_equal(captioner.model_view(file), pixels.pixels)
    for image in (array, tensor):
        assert captioner.caption(image)[0].text == captioner.caption(file)[0].text
        assert captioner.trace(image)[0].text == captioner.trace(file)[0].text
        assert captioner.score(image, "I go") == captioner.score(file, "I go")
        np.testing.assert_array_equal(captioner.model_view(image), pixels.pixels)


def test_readings_equal_teacher_forcing_the_output_alone(
    captioner: Captioner, files: list[Path]
) -> None:
    captions = captioner.caption(files, beam=3, readings=True)
    for image, caption in zip(loaded(files), captions, strict=True):
        ids = ids_of(captioner, caption)
        with torch.inference_mode(), watch(captioner.model) as watched:
            captioner.model(Batch(image[None]), torch.tensor([[BOS, *ids]]))
        readings = caption.readings
        assert readings is not None
        assert readings.grid == (3, 5)
        assert readings.source[6] == "2·2"
        count = len(caption.text.split())
        for layer in readings.layers("cross"):
            expected = watched[layer][0].numpy()
            np.testing.assert_allclose(readings.weights[layer], expected, atol=1e-5)
            maps = np.stack([readings.image_map(word, layer) for word in range(count)])
            words = readings.words(layer).weights
            np.testing.assert_allclose(maps.reshape(count, -1), words, atol=1e-6)
            np.testing.assert_allclose(maps.sum((1, 2)), 1, atol=1e-5)
        assert len(caption.regions) == count


def test_scores_equal_teacher_forcing(captioner: Captioner, files: list[Path]) -> None:
    (best,) = captioner.caption(files[0], beam=2, nbest=2)
    scores = [hypothesis.score for hypothesis in best.nbest]

    assert scores == sorted(scores, reverse=True)
    assert best.text == best.nbest[0].text

    captions = captioner.caption(files, length_penalty=0.0)
    ids = [ids_of(captioner, caption) for caption in captions]
    forced = force_decode(captioner.model, loaded(files), ids)
    expected = [float(one.log_probs.sum()) for one in forced]
    np.testing.assert_allclose(
        [caption.score for caption in captions], expected, atol=1e-3
    )

    assert captioner.score(files[0], "I go home") < 0


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_lower_precisions_score_much_as_the_model_does(
    tmp_path: Path, files: list[Path], precision: Any
) -> None:
    captioner = load_captioner(captioner_folder(tmp_path / "run"), precision=precision)
    captions = captioner.caption(files, length_penalty=0.0)
    ids = [ids_of(captioner, caption) for caption in captions]
    forced = force_decode(captioner.model, loaded(files), ids)
    expected = [float(one.log_probs.sum()) for one in forced]
    assert [caption.score for caption in captions] == pytest.approx(expected, rel=0.03)


def test_a_trace_is_that_of_the_captions_own_search(
    captioner: Captioner, files: list[Path]
) -> None:
    caption, steps = captioner.trace(files[0], beam=2)
    assert len(steps) > len(caption.tokens)

    # By the C library, which may round the last bits otherwise.
    (plain,) = captioner.caption(files[0], beam=2)
    assert (caption.text, caption.tokens) == (plain.text, plain.tokens)
    assert caption.score == pytest.approx(plain.score, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 4, "nbest": 3, "length_penalty": 0.6},
        {"constraints": Constraints(prefix="I go")},
    ],
)
def test_captions_are_those_of_the_search_over_pytorch(
    captioner: Captioner,
    files: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
) -> None:
    captions = captioner.caption(files, **options)
    assert captioner.engine.describe().startswith("C library")

    monkeypatch.setattr(captioner, "engine", Engine(captioner.model, choice="pytorch"))
    for caption, expected in zip(
        captions, captioner.caption(files, **options), strict=True
    ):
        assert "constraints" not in options or caption.text.startswith("I go")
        hypotheses = [
            (caption, expected),
            *zip(caption.nbest, expected.nbest, strict=True),
        ]
        for one, other in hypotheses:
            assert one.tokens == other.tokens
            assert one.score == pytest.approx(other.score, abs=1e-4)

    with pytest.raises(UsageError, match="got 2 for 1 image; give one for each image"):
        captioner.caption(files[0], constraints=[Constraints(), Constraints()])


def test_unusable_images_are_refused_with_all_causes(
    captioner: Captioner, tmp_path: Path
) -> None:
    text = tmp_path / "text.jpg"
    empty = tmp_path / "empty.png"
    text.write_text("not a picture", encoding="utf-8")
    empty.write_bytes(b"")

    with pytest.raises(DataError) as refused:
        captioner.caption([text, noise(0), empty, tmp_path / "none.png", b"no picture"])
    assert len(refused.value.causes) == 4
    assert "image 5" in refused.value.causes[-1]


def test_the_folder_decides_between_translator_and_captioner(tmp_path: Path) -> None:
    captioner_folder(tmp_path / "captions")
    folder(tmp_path / "text")

    assert isinstance(regard.load(tmp_path / "captions"), Captioner)
    assert isinstance(load(tmp_path / "text"), Translator)
    assert "images" not in json.loads(
        (tmp_path / "text" / CONFIG).read_text(encoding="utf-8")
    )
    with pytest.raises(UsageError, match="reads images, not text; caption with it"):
        load_translator(tmp_path / "captions")
    with pytest.raises(UsageError, match="reads text, not images; translate with it"):
        load_captioner(tmp_path / "text")
    with pytest.raises(UsageError, match="an ensemble reads one of them"):
        load([tmp_path / "captions", tmp_path / "text"])


def test_an_ensemble_of_captioners_averages_probabilities(
    tmp_path: Path, files: list[Path]
) -> None:
    one = captioner_folder(tmp_path / "one")
    two = shutil.copytree(one, tmp_path / "two")
    (alone,) = load_captioner(one).caption(files[0], beam=1)
    (caption,) = load([one, two]).caption(files[0], beam=1, readings=True)
    assert caption.text == alone.text
    assert caption.readings.grid == (3, 5)

    config = json.loads((two / CONFIG).read_text())
    config["images"]["height"] += 8
    (two / CONFIG).write_text(json.dumps(sealed(config)))
    with pytest.raises(UsageError, match="two: resizes images differently from"):
        load([one, two])


def test_a_region_bounds_the_connected_strong_cells() -> None:
    weights = np.zeros((1, 2, 12), np.float32)
    # 1·2 and 1·3 side by side; 3·4 is as strong, but not joined.
    weights[0, 0, [1, 2, 6, 11]] = (0.4, 0.3, 0.05, 0.25)
    weights[0, 1, 0] = 1
    cells = tuple(str(n) for n in range(12))
    places = tuple(range(12))
    roles = {"read": "cross"}
    tokens = ("▁a", "</s>")
    readings = Readings(
        cells, tokens, places, (0, -1), {"read": weights}, roles, cells, ("a",), (3, 4)
    )
    (region,) = Caption("a", ("▁a",), -1.0, readings).regions

    assert region == pytest.approx((0.25, 0.0, 0.75, 1 / 3))
    with pytest.raises(UsageError, match="of a sentence"):
        Readings(cells, ("▁a",), places, (0,), {}, {}).image_map(0)


def test_the_chosen_head_gives_the_regions(tmp_path: Path, files: list[Path]) -> None:
    path = captioner_folder(tmp_path / "run", "transformer")
    (before,) = load_captioner(path).caption(files[0], readings=True)
    assert before.readings is not None

    layer = before.readings.layers()[0]
    save_alignment(
        path, {"layer": layer, "head": 1, "shifted": False, "symmetry": None}
    )
    (caption,) = load_captioner(path).caption(files[0], readings=True)

    assert caption.chosen is not None
    assert caption.readings is not None
    assert (caption.chosen.layer, caption.chosen.head) == (layer, 1)
    strongest = int(caption.readings.image_map(0, layer, 1).argmax())
    row, column = divmod(strongest, 5)
    left, top, right, bottom = caption.regions[0]
    assert left <= (column + 0.5) / 5 <= right
    assert top <= (row + 0.5) / 3 <= bottom
