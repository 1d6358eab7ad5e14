"""Regard's captioner: trained by its own Trainer, decoded by the engine that `regard caption` uses."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from scenes import BATCH, CAPTIONS, STEPS, VOCABULARY, Options, Watch, random_scenes, start, tell

ENDLESS = 10**9


def main() -> None:
    """Measure one task at one precision."""
    options = start("regard_captions")
    train(options) if options.task == "train" else caption(options)


def recipe(options: Options) -> Any:
    """The preset, with what is set for a run without validation."""
    from regard.settings import merge
    from regard.training import Recipe, preset

    training = {"optimizer": "adam", "updates": ENDLESS, "validate_every": ENDLESS, "log_every": 1}
    precision = options.precision if options.task == "train" else "float32"
    training |= {"precision": precision, "doubly_stochastic": 0.0}
    values = {"data": {"images": {"folder": "unread", "captions": "unread"}}, "training": training}
    values["batching"] = {"tokens": BATCH * CAPTIONS * 16}
    return Recipe.parse(merge(preset("caption-rnn"), values), "the benchmark").resolved("cpu")


def train(options: Options) -> None:
    """Train until the watch has seen enough."""
    from regard.data.batch import Example
    from regard.data.batching import BatchStream
    from regard.data.images import ImageSizeSettings, source_pixels
    from regard.models import build, count_parameters
    from regard.training import Trainer

    chosen, (pixels, captions) = recipe(options), random_scenes(options.pictures)
    pictures = [source_pixels(some, ImageSizeSettings(height=0, width=0)) for some in pixels]
    examples = [Example(picture, own[0], tuple(own[1:])) for picture, own in zip(pictures, captions, strict=True)]
    model = build(chosen.model, 0, VOCABULARY, False)
    batches, watch, told = BatchStream(examples, chosen.batching, 1), Watch(options, count_parameters(model)), 0
    each = sum(len(caption) for own in captions for caption in own) / len(captions)  # pieces of a picture's captions

    def say(event: str, values: dict[str, Any]) -> None:
        nonlocal told
        if event == "train":
            pieces, told = values["tokens"] - told, values["tokens"]
            watch.add(pieces / each, pieces)
            watch.boundary()

    watch.boundary()
    with tempfile.TemporaryDirectory() as folder:
        Trainer(model, batches, chosen, Path(folder), lambda _: {"chrf": 0.0}, say).run()


def caption(options: Options) -> None:
    """Write captions of as many pieces of every picture, all pictures handed over at once, and one after another."""
    import torch
    from regard.data.vocabulary import BOS, EOS, PAD, UNK
    from regard.engine import DecodeRequest, Engine
    from regard.models import build
    from regard.search import SearchSettings, SuppressTokens, Task

    from machine import clock

    model = build(recipe(options).model, 0, VOCABULARY, False).eval()
    engine = Engine(model, "native", options.precision)  # type: ignore[arg-type]
    print(engine.describe())
    pixels = torch.from_numpy(random_scenes(options.pictures)[0])
    settings = SearchSettings(beam=options.beam, length_penalty=0.0)
    rules = (SuppressTokens((PAD, UNK, BOS, EOS)),)

    def jobs(some: Any) -> list[DecodeRequest]:
        seen = some.movedim(3, 1).float() / 255
        return [DecodeRequest(picture, Task(name, STEPS)) for name, picture in enumerate(seen)]

    engine.decode(jobs(pixels), settings, rules)
    before, passes, alone = clock(), list[float](), list[float]()
    while sum(passes) < options.seconds / 2:
        began = time.perf_counter()
        engine.decode(jobs(pixels), settings, rules)
        passes.append(time.perf_counter() - began)
    while sum(alone) < options.seconds / 2:
        began = time.perf_counter()
        engine.decode(jobs(pixels[len(alone) % len(pixels)][None]), settings, rules)
        alone.append(time.perf_counter() - began)
    speed = len(pixels) / median(passes)
    tell(speed, speed * STEPS, before, passes=len(passes), p50_ms=round(1000 * median(alone), 2))


if __name__ == "__main__":
    sys.exit(main())
