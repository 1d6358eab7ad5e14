"""The sentences or images on which systems differ most, with the attention of each."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from regard.attention.alignment import Readings
from regard.common.errors import LineWarning
from regard.comparison.result import AttentionMap, Example
from regard.comparison.test_data import TestData
from regard.pipeline import Captioner, FolderTranslator, Translation, default_choice
from regard.search import SearchOptions

EXAMPLES = 12
IMAGE_SIDE = 192
"""Longest side of the image of an example, in pixels."""


def most_different(scores: Mapping[str, Sequence[float]]) -> list[tuple[int, float]]:
    """Return the indices of the items on which systems differ most, with their spread: the largest
    minus the smallest score.

    `scores` holds the sentence scores of one run of each system. For a single system, the items
    with its lowest scores are returned. Items of equal spread keep their order; items without
    spread are left out.
    """
    table = np.array(list(scores.values()), np.float64)
    if not table.size:
        return []
    spread = table.max(0) - table.min(0) if len(table) > 1 else table.max() - table[0]
    order = np.argsort(-spread, kind="stable")[:EXAMPLES]
    return [(int(index), float(spread[index])) for index in order if spread[index] > 0]


def make_examples(
    chosen: Sequence[tuple[int, float]],
    data: TestData,
    pipelines: Iterable[tuple[str, FolderTranslator | Captioner]],
    options: SearchOptions,
) -> tuple[Example, ...]:
    """Make the examples with the attention of the named runs, which decode these items once more to
    record it.

    `pipelines` are used one after another, so that only one of them needs to be in memory. Images
    are shown as the first captioner sees them.
    """
    indices = [index for index, _ in chosen]
    maps = dict[str, list[AttentionMap | None]]()
    images = [""] * len(chosen)
    for name, pipeline in pipelines:
        if isinstance(pipeline, Captioner) and not any(images):
            views = [pipeline.model_view(data.images[index]) for index in indices]
            images = [_data_uri(view) for view in views]
        if pipeline.cross_attention() and chosen:
            maps[name] = _attention(pipeline, indices, data, options)

    examples = []
    for number, (index, spread) in enumerate(chosen):
        attention = dict[str, AttentionMap]()
        for name, run_maps in maps.items():
            attention_map = run_maps[number]
            if attention_map is not None:
                attention[name] = attention_map
        examples.append(Example(index, spread, attention, images[number]))
    return tuple(examples)


def _attention(
    pipeline: FolderTranslator | Captioner,
    indices: Sequence[int],
    data: TestData,
    options: SearchOptions,
) -> list[AttentionMap | None]:
    """Decode these items and return their attention; None for an item without attention."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LineWarning)
        if isinstance(pipeline, Captioner):
            images = [data.images[index] for index in indices]
            results = list(pipeline.caption(images, readings=True, **options))
        else:
            texts = [data.test.sources[index] for index in indices]
            results: list[Translation] = pipeline.translate(  # type: ignore[no-redef]
                texts, readings=True, **options
            )
    return [
        None if result.readings is None else _map(result.readings, pipeline)
        for result in results
    ]


def _map(readings: Readings, pipeline: FolderTranslator | Captioner) -> AttentionMap:
    choice = pipeline.choice or default_choice(readings)
    weights = readings.words(choice.layer, choice.head, choice.shifted).weights
    percent = tuple(
        tuple(int(weight) for weight in row) for row in np.rint(100 * weights)
    )
    source = () if readings.grid else readings.source_text
    return AttentionMap(source, readings.target_text, percent, readings.grid)


def _data_uri(pixels: npt.NDArray[np.uint8]) -> str:
    """Return an image as a small JPEG in a data URI."""
    image = Image.fromarray(pixels)
    file = io.BytesIO()
    image.thumbnail((IMAGE_SIDE, IMAGE_SIDE))
    image.save(file, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
