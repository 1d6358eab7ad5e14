"""Regard's captioner: trained by its own Trainer, decoded by the engine of `regard caption`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from scenes import (
    BATCH,
    CAPTIONS,
    STEPS,
    VOCABULARY,
    Options,
    Recorder,
    random_captioned_images,
    report,
    start,
)

ENDLESS = 10**9


def main() -> None:
    """Measure one task at one precision."""
    options = start("regard_captions")
    train(options) if options.task == "train" else caption(options)


def recipe(options: Options) -> Any:
    """Return the recipe: the preset with the settings of a run without validation."""
    from regard.common.settings import merge
    from regard.training import Recipe, preset

    training = {
        "optimizer": "adam",
        "updates": ENDLESS,
        "validate_every": ENDLESS,
        "log_every": 1,
    }
    precision = options.precision if options.task == "train" else "float32"
    training |= {"precision": precision, "doubly_stochastic": 0.0}
    values = {
        "data": {"images": {"folder": "unread", "captions": "unread"}},
        "training": training,
    }
    values["batching"] = {"tokens": BATCH * CAPTIONS * 16}
    return Recipe.parse(merge(preset("caption-rnn"), values), "the benchmark").resolved(
        "cpu"
    )


def train(options: Options) -> None:
    """Train until the recorder ends the process."""
    from regard.data.batch import Example
    from regard.data.batch_stream import BatchStream
    from regard.data.images import ImageSizeSettings, source_pixels
    from regard.models import build, count_parameters
    from regard.training import Trainer

    chosen, (pixels, captions) = (
        recipe(options),
        random_captioned_images(options.images),
    )
    images = [
        source_pixels(image, ImageSizeSettings(height=0, width=0)) for image in pixels
    ]
    examples = [
        Example(image, texts[0], tuple(texts[1:]))
        for image, texts in zip(images, captions, strict=True)
    ]
    model = build(chosen.model, 0, VOCABULARY, False)
    batches, recorder, total = (
        BatchStream(examples, chosen.batching, 1),
        Recorder(options, count_parameters(model)),
        0,
    )
    tokens_per_image = sum(
        len(caption) for texts in captions for caption in texts
    ) / len(captions)

    def on_event(event: str, values: dict[str, Any]) -> None:
        nonlocal total
        if event == "train":
            tokens, total = values["tokens"] - total, values["tokens"]
            recorder.add(tokens / tokens_per_image, tokens)
            recorder.boundary()

    recorder.boundary()
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            model, batches, chosen, Path(folder), lambda _: {"chrf": 0.0}, on_event
        ).run()


def caption(options: Options) -> None:
    """Decode STEPS tokens of every image: all images in one call, and one after another."""
    import torch
    from regard.data.vocabulary import BOS, EOS, PAD, UNK
    from regard.models import build
    from regard.runtime.engine import DecodeRequest, Engine
    from regard.search import SearchSettings, SuppressTokens, Task

    from machine import clock

    model = build(recipe(options).model, 0, VOCABULARY, False).eval()
    engine = Engine(model, options.precision)  # type: ignore[arg-type]
    print(engine.describe())
    pixels = torch.from_numpy(random_captioned_images(options.images)[0])
    settings = SearchSettings(beam=options.beam, length_penalty=0.0)
    rules = (SuppressTokens((PAD, UNK, BOS, EOS)),)

    def requests(batch: Any) -> list[DecodeRequest]:
        images = batch.movedim(3, 1).float() / 255
        return [
            DecodeRequest(image, Task(name, STEPS)) for name, image in enumerate(images)
        ]

    engine.decode(requests(pixels), settings, rules)
    before = clock()
    passes = list[float]()
    alone = list[float]()
    while sum(passes) < options.seconds / 2:
        began = time.perf_counter()
        engine.decode(requests(pixels), settings, rules)
        passes.append(time.perf_counter() - began)
    while sum(alone) < options.seconds / 2:
        began = time.perf_counter()
        engine.decode(requests(pixels[len(alone) % len(pixels)][None]), settings, rules)
        alone.append(time.perf_counter() - began)
    speed = len(pixels) / median(passes)
    report(
        speed,
        speed * STEPS,
        before,
        passes=len(passes),
        p50_ms=round(1000 * median(alone), 2),
    )


if __name__ == "__main__":
    sys.exit(main())
