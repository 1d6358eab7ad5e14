"""Caption images, with the attention map and the image region of each word."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import Unpack

from regard.attention.alignment import Readings, cell_edges, cell_names
from regard.attention.alignment_choice import AlignmentChoice
from regard.common.arguments import FLAG, problems_of_types
from regard.common.errors import DataError, LineWarning, UsageError, repetition_note
from regard.data.images import (
    ImageSizeSettings,
    ImageSource,
    SourcePixels,
    as_image,
    as_images,
    load_pixels,
    source_pixels,
)
from regard.data.vocabulary import EOS
from regard.pipeline.base import BasePipeline, read_side
from regard.runtime.engine import DecodeRequest
from regard.search import (
    NO_CONSTRAINTS,
    Constraints,
    Hypothesis,
    SearchOptions,
    SearchSettings,
)
from regard.search.forced_decoding import ForcedDecoding, force_decode
from regard.search.search_steps import SearchStep
from regard.text.constraints import missing_terms
from regard.text.translation import as_text, last_layer, result_html

ImageInput = (
    ImageSource | bytearray | npt.NDArray[np.uint8] | torch.Tensor | SourcePixels
)
"""An image: path or content of a file, a Pillow image, pixels as an array or tensor (uint8, in the
layouts of `as_image`), or pixels that are already resized.
"""
IMAGES_AT_ONCE = 256
"""Maximum number of images whose pixels are in memory as tensors at the same time."""
Region = tuple[float, float, float, float]
"""A rectangle of an image: left, top, right, bottom, as fractions of its width and height."""


@dataclass(frozen=True)
class Caption:
    """The caption of one image.

    - `tokens`: its subword units, as text; `ids`: their token ids.
    - `score`: log-probability over the length penalty.
    - `readings`: attention weights over the image's cells, on request.
    - `chosen`: the attention head that determines `regions`; None is the mean of the last layer.
    - `nbest`: the hypotheses, best first, if more than one was asked for.
    - `repetition`: a text that the caption keeps repeating, and how often, which indicates failure.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    readings: Readings | None = None
    nbest: tuple[Caption, ...] = ()
    repetition: tuple[str, int] | None = None
    chosen: AlignmentChoice | None = None
    ids: tuple[int, ...] = ()

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The region of each word: its most attended cell, and connected cells with at least half
        its weight.
        """
        if self.readings is None or not self.readings.layers():
            return ()
        readings = self.readings
        choice = self.chosen or last_layer(readings)
        regions = list[Region]()
        for word in range(len(readings.target_text)):
            weights = readings.image_map(
                word, choice.layer, choice.head, choice.shifted
            )
            regions.append(_region(weights, readings.cell_centre, readings.cell_extent))
        return tuple(regions)

    def __repr__(self) -> str:
        return f"Caption({self.text!r}, score={self.score:.3f})"

    def _repr_html_(self) -> str:
        return result_html(self.text, self.score, self.readings)


class Captioner(BasePipeline):
    """Captions images: `regard.load(folder).caption("dog.jpg")`."""

    def caption(
        self,
        images: ImageInput | Sequence[ImageInput],
        *,
        nbest: int = 1,
        readings: bool = False,
        constraints: Constraints | Sequence[Constraints] = NO_CONSTRAINTS,
        **search: Unpack[SearchOptions],
    ) -> list[Caption]:
        """Caption an image or several: one caption for each image, in order.

        `constraints` hold for all images, or there is one for each. `search` overrides the model
        folder's search settings. `readings` are obtained by teacher forcing the output of the
        search. Raises DataError, with all causes, for images that cannot be used, and UsageError
        for options that contradict each other or the model.
        """
        UsageError.raise_all(problems_of_types(FLAG, {"readings": readings}))
        loaded = self._load_images(as_images(images))
        settings = self._search_settings(nbest, search)
        self.engine.evaluate()
        per_image = self._per_source(constraints, len(loaded), settings, "image")
        results = list[Caption]()
        for first in range(0, len(loaded), IMAGES_AT_ONCE):
            batch = loaded[first : first + IMAGES_AT_ONCE]
            pixels = [image.tensor() for image in batch]
            requests = [
                self._image_request(index, image, per_image[first + index], settings)
                for index, image in enumerate(pixels)
            ]
            hypotheses = self._decode(requests, settings)
            captions = self._captions(pixels, hypotheses, nbest, readings)
            for index, caption in enumerate(captions, first):
                best = hypotheses[index - first][0]
                self._warn(index, caption.repetition, best, per_image[index])
            results += captions
        return results

    def trace(
        self, image: ImageInput, **search: Unpack[SearchOptions]
    ) -> tuple[Caption, list[SearchStep]]:
        """Caption an image with its readings, and record every step of the search."""
        settings = self._search_settings(1, search)
        self.engine.evaluate()
        pixels = self._load_images([image])[0].tensor()
        request = self._image_request(0, pixels, NO_CONSTRAINTS, settings)
        candidates, steps = self.engine.trace(request, settings)
        hypotheses = self._rerank(pixels, candidates, settings)
        (caption,) = self._captions([pixels], [hypotheses], 1, True)
        self._warn(0, caption.repetition, hypotheses[0], NO_CONSTRAINTS)
        return caption, steps

    def _warn(
        self,
        index: int,
        repetition: tuple[str, int] | None,
        best: Hypothesis,
        constraints: Constraints,
    ) -> None:
        """Warn if caption number `index` repeats itself or lacks a required term."""
        notes = list(missing_terms(best.complete, constraints, "caption"))
        if repetition is not None:
            notes.insert(0, repetition_note(repetition, "caption"))
        for note in notes:
            warnings.warn(LineWarning(index, note), stacklevel=3)

    def score(self, image: ImageInput, target: str) -> float:
        """Return the log-probability of a given caption, including the end of sentence."""
        (loaded,) = self._load_images([image])
        ids = self.tokenizer.target.encode(as_text(target, "target"))
        most = self.settings.search.max_whole
        if len(ids) > most:
            raise UsageError(
                f"`target=`: has {len(ids):,} tokens, and a caption is scored up to {most:,}; "
                "shorten it"
            )
        pixels = loaded.tensor()
        (forced,) = force_decode(self._model, [pixels], [ids], with_attention=False)
        return float(forced.log_probs.sum())

    def model_view(self, image: ImageInput) -> npt.NDArray[np.uint8]:
        """Return an image as the model sees it, resized to a multiple of its cells: pixels (Y, X,
        3).
        """
        (loaded,) = self._load_images([image])
        pixels = loaded.tensor().permute(1, 2, 0).numpy()  # (Y, X, 3)
        view: npt.NDArray[np.uint8] = np.rint(pixels * 255).astype(np.uint8)
        return view

    @property
    def image_size(self) -> ImageSizeSettings:
        """Settings of the size that images are resized to, and of the files that are refused."""
        return self.settings.images or ImageSizeSettings()

    def _load_images(self, images: Sequence[ImageInput]) -> list[SourcePixels]:
        """Decode and resize images. Raises DataError with all causes."""
        if not images:
            raise DataError(
                "there is no image to caption: got an empty list; give one, or several"
            )
        loaded = list[SourcePixels]()
        causes = list[str]()
        for number, image in enumerate(images, 1):
            if isinstance(image, SourcePixels):
                loaded.append(image)
                continue
            try:
                source = as_image(image, f"image {number}")
                is_path = isinstance(source, (str, os.PathLike))
                name = None if is_path else f"image {number}"
                pixels = load_pixels(source, self.image_size, name)
                loaded.append(source_pixels(pixels, self.image_size))
            except DataError as problem:
                causes += problem.causes
        DataError.raise_all(causes)
        return loaded

    def _image_request(
        self,
        index: int,
        pixels: torch.Tensor,
        constraints: Constraints,
        settings: SearchSettings,
    ) -> DecodeRequest:
        content = pixels.numpy().tobytes()
        digest = hashlib.blake2b(content, digest_size=8).digest()
        key = int.from_bytes(digest, "little")
        return self._request(index, pixels, key, constraints, settings)

    def _captions(
        self,
        pixels: Sequence[torch.Tensor],
        hypotheses: Sequence[list[Hypothesis]],
        nbest: int,
        readings: bool,
    ) -> list[Caption]:
        """Return the caption of each image from its hypotheses, best first."""
        captions = [self._caption(ranked, nbest) for ranked in hypotheses]
        if not readings:
            return captions
        targets = [ranked[0].ids for ranked in hypotheses]
        forced = force_decode(self._model, pixels, targets)
        with_readings = list[Caption]()
        for index, caption in enumerate(captions):
            _, Y, X = pixels[index].shape
            image_readings = self._readings(targets[index], forced[index], (Y, X))
            with_readings.append(
                replace(caption, readings=image_readings, chosen=self.choice)
            )
        return with_readings

    def _caption(self, hypotheses: list[Hypothesis], nbest: int) -> Caption:
        target = self.tokenizer.target
        captions = [
            Caption(
                target.decode(hypothesis.ids),
                tuple(target.tokens(hypothesis.ids)),
                hypothesis.score,
                repetition=self._repetition(hypothesis.ids),
                ids=tuple(hypothesis.ids),
            )
            for hypothesis in hypotheses[:nbest]
        ]
        return replace(captions[0], nbest=tuple(captions)) if nbest > 1 else captions[0]

    def _readings(
        self, target: Sequence[int], forced: ForcedDecoding, size: tuple[int, int]
    ) -> Readings:
        assert forced.grid is not None, "an image is encoded as a grid of cells"
        rows, columns = forced.grid
        Y, X = size
        encoder: Any = self._model.encoder
        cells = cell_names(rows, columns)
        tokens, words, texts = read_side(self.tokenizer.target, [*target, EOS])
        extent = (rows * encoder.stride / Y, columns * encoder.stride / X)
        return Readings(
            cells,
            tokens,
            tuple(range(len(cells))),
            words,
            forced.weights,
            forced.roles,
            cells,
            texts,
            forced.grid,
            encoder.cell_centre,
            extent,
            forced.scores,
        )


def _region(
    weights: npt.NDArray[np.floating], centre: float, extent: tuple[float, float]
) -> Region:
    """Return the bounding box of the strongest cell and connected cells that are at least half as
    strong.
    """
    rows, columns = weights.shape
    is_strong = weights >= weights.max() / 2
    strongest = np.unravel_index(int(weights.argmax()), weights.shape)
    region = [(int(strongest[0]), int(strongest[1]))]
    # It is a breadth-first search: the list grows while it is walked.
    for row, column in region:
        neighbours = (
            (row - 1, column),
            (row + 1, column),
            (row, column - 1),
            (row, column + 1),
        )
        for cell in neighbours:
            is_inside = 0 <= cell[0] < rows and 0 <= cell[1] < columns
            if is_inside and cell not in region and is_strong[cell]:
                region.append(cell)

    ys = [row for row, _ in region]
    xs = [column for _, column in region]
    down = cell_edges(rows, centre, extent[0])
    across = cell_edges(columns, centre, extent[1])
    return (
        float(across[min(xs)]),
        float(down[min(ys)]),
        float(across[max(xs) + 1]),
        float(down[max(ys) + 1]),
    )
