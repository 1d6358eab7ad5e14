"""Demonstration on images: a captioner, scored by the facts in its captions and by the pointing
game.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.common.settings import merge
from regard.evaluation.pointing import Map, Pointing, Region, pointing_game
from regard.explain.explanation import alignment_choice, explain_caption, overlay_of
from regard.learn.demo.training import Output, page_meta, train_with_head
from regard.learn.samples.images import (
    LANGUAGES,
    SIDE,
    CaptionedScene,
    ImageSample,
    image_sample,
)
from regard.pipeline import AlignmentChoice, Caption, Captioner, load_captioner
from regard.training import Recipe
from regard.training.recipe import preset
from regard.visualisation import save

# Required on the test split: the share of true captions, and the accuracy of the pointing game.
REQUIRED_TRUE = 0.9
REQUIRED_POINTING = 0.8
EXAMPLES = 3  # number of test images to draw, and of wrong captions to print
SPLITS = {"valid": "combined as in training", "test": "combined as never in training"}


@dataclass(frozen=True)
class Judgement:
    """Truth of each caption of a split, and pointing accuracy of the nouns."""

    true: tuple[bool, ...]
    pointing: Pointing

    @property
    def share(self) -> float:
        return sum(self.true) / max(len(self.true), 1)


def demo_images(
    out: Path, language: str, device: str, seed: int, output: Output
) -> bool:
    """Train on drawings of shapes, caption unseen combinations, and draw the attention.

    The last two lines printed are the share of true captions, and the share of nouns whose
    attention points at the named object. Return whether both are large enough.
    """
    start = time.perf_counter()
    data = out / "data"
    sample = image_sample()
    sizes = ", ".join(
        f"{len(scenes):,} to {name}" for name, scenes in sample.splits.items()
    )
    # The sample is complete if the file that is written last exists.
    if not (data / "test.regions.jsonl").is_file():
        sample.write(data)
    output.message(f"sample: images {sizes}, in {data}")
    folder = out / f"images-{language}"
    output.message("")
    output.message(f"training in {folder}")
    valid = sample.splits["valid"]

    def choose(captioner: Captioner) -> AlignmentChoice:
        return _best_head(_caption(captioner, valid, data), valid, language)

    recipe = demo_recipe(data, language, seed)
    captioner = train_with_head(recipe, folder, device, output, load_captioner, choose)

    judgement = _report(captioner, sample, data, language, output)
    for scene in sample.splits["test"][:EXAMPLES]:
        _draw(captioner, data / "images" / scene.file, out, output)
    output.result(f"done in {(time.perf_counter() - start) / 60:.1f} minutes")
    output.result(f"true {100 * judgement.share:.1f} %")
    output.result(f"pointing {100 * judgement.pointing.accuracy:.1f} %")
    return (
        judgement.share >= REQUIRED_TRUE
        and judgement.pointing.accuracy >= REQUIRED_POINTING
    )


def demo_recipe(data: Path, language: str, seed: int) -> Recipe:
    """Return the recipe of a small ResNet encoder and a small Transformer decoder, from scratch.

    The receptive field of a grid cell is 39 pixels wide, little more than the largest object. With
    a larger one, a cell would also represent neighbouring objects, and attention would not point
    at the named one.
    """
    images = {
        "folder": str(data / "images"),
        "captions": str(data / f"train.{language}.tsv"),
        "valid_captions": str(data / f"valid.{language}.tsv"),
        "height": SIDE,
        "width": SIDE,
        "cell": 4,
    }
    sizes = {"size": 128, "heads": 4, "feedforward": 256, "dropout": 0.1}
    changes = {
        "data": {"images": images},
        "tokenizer": {"kind": "whitespace"},
        "model": {
            "encoder": {**sizes, "depths": (1, 2), "width": 24, "group_size": 4},
            "decoder": {**sizes, "layers": 2},
        },
        # With a small buffer, a batch mixes all kinds of images instead of one caption length.
        "batching": {"tokens": 32 * 324, "buffer_size": 256},
        "schedule": {"peak": 3e-3, "warmup": 200},
        "training": {
            "updates": 5500,
            "validate_every": 1100,
            "seed": seed,
            "ema_decay": 0.998,
        },
    }
    values = merge(preset("caption-transformer"), changes)
    return Recipe.parse(values, "the demonstration")


def _caption(
    captioner: Captioner, scenes: Sequence[CaptionedScene], data: Path
) -> list[Caption]:
    images = [data / "images" / scene.file for scene in scenes]
    return captioner.caption(images, readings=True)


def _best_head(
    captions: Sequence[Caption], scenes: Sequence[CaptionedScene], language: str
) -> AlignmentChoice:
    """Return the layer and head (or mean of heads) with the best pointing accuracy.

    If several are equal, the first is returned.
    """
    readings = captions[0].readings
    assert readings is not None, "readings were requested"
    choices = [
        AlignmentChoice(layer, head, False)
        for layer in readings.layers("cross")
        for head in (None, *range(len(readings.weights[layer])))
    ]

    def accuracy(choice: AlignmentChoice) -> float:
        return judge(captions, scenes, language, choice).pointing.accuracy

    return max(choices, key=accuracy)


def judge(
    captions: Sequence[Caption],
    scenes: Sequence[CaptionedScene],
    language: str,
    choice: AlignmentChoice,
) -> Judgement:
    """Judge whether captions state exactly the facts of their scenes, and whether their nouns point
    at the named objects.
    """
    pairs = list(zip(captions, scenes, strict=True))
    true = tuple(
        LANGUAGES[language].states_exactly(caption.text, scene.scene.meaning)
        for caption, scene in pairs
    )
    nouns = [
        noun
        for caption, scene in pairs
        for noun in _nouns(caption, scene, language, choice)
    ]
    maps = [weights for weights, _ in nouns]
    regions = [region for _, region in nouns]

    # All images have the same size, so the grid of the first caption is that of all.
    readings = captions[0].readings if captions else None
    if readings is None:
        pointing = pointing_game(maps, regions, 0.5)
    else:
        centre, extent = readings.cell_centre, readings.cell_extent
        pointing = pointing_game(maps, regions, centre, extent)
    return Judgement(true, pointing)


def _nouns(
    caption: Caption, scene: CaptionedScene, language: str, choice: AlignmentChoice
) -> Iterator[tuple[Map, Region]]:
    """Yield the attention map and the true region of each noun that names something in the
    scene.
    """
    assert caption.readings is not None, "readings were requested"
    for mention in LANGUAGES[language].mentions(caption.text):
        named = mention.entity
        for number, entity in enumerate(scene.scene.meaning.entities):
            if entity.shape == named.shape and entity.colour == named.colour:
                weights = caption.readings.image_map(
                    mention.word, choice.layer, choice.head
                )
                yield weights, scene.scene.mask(number)
                break


def _report(
    captioner: Captioner, sample: ImageSample, data: Path, language: str, output: Output
) -> Judgement:
    """Print the results on seen and on unseen combinations; return the judgement on the unseen."""
    choice = captioner.choice
    assert choice is not None, "the choice was just made"
    output.result("")
    for split, meaning in SPLITS.items():
        scenes = sample.splits[split]
        captions = _caption(captioner, scenes, data)
        judgement = judge(captions, scenes, language, choice)
        output.result(
            f"{split:5} {judgement.share:6.1%} of captions state exactly the facts   {meaning}"
        )

    # The last split is the test split.
    judged = zip(captions, scenes, judgement.true, strict=True)
    wrong = [(caption, scene) for caption, scene, is_true in judged if not is_true]
    for caption, scene in wrong[:EXAMPLES]:
        output.result(
            f"      wrong: {caption.text}   ({scene.captions[language][0].text})"
        )
    output.result(f"nouns that point at what they name: {judgement.pointing}")
    return judgement


def _draw(captioner: Captioner, image: Path, out: Path, output: Output) -> None:
    """Write the attention of a caption as a page and as a static figure."""
    caption, data = explain_caption(captioner, image)
    page = out / f"{image.stem}.html"
    assert caption.readings is not None, "readings were requested"
    save(data, page, page_meta(captioner, image=image.name))

    choice = alignment_choice(captioner, caption.readings)
    overlay = overlay_of(data, caption.readings, choice)
    save(overlay, page.with_suffix(".svg"))
    output.result(f"{page} and .svg: {caption.text}")
