"""Pictures go in, captions come out, with what each word looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from regard.attention.alignment import Readings, cell_edges
from regard.data.images import ImageSizeSettings, SourcePixels, load_pixels, source_pixels
from regard.data.vocabulary import EOS
from regard.engine import DecodeRequest
from regard.errors import DataError
from regard.models import Batch
from regard.pipeline.base import BasePipeline, texts_of
from regard.pipeline.translation import AlignmentChoice, last_layer
from regard.search import NO_CONSTRAINTS, Constraints, Hypothesis, SearchSettings
from regard.search.forced_decoding import ForcedDecoding, force_decode
from regard.search.search_trace import SearchStep, trace_search

__all__ = ["Caption", "Captioner", "ImageInput", "Region"]

ImageInput = str | Path | bytes | Image.Image | SourcePixels
"""A picture as it may be given: the path of a file, what is in one, a picture of Pillow's, or one brought to size."""
TOGETHER = 256  # pictures in memory as a model sees them
Region = tuple[float, float, float, float]
"""A rectangle of a picture, left, top, right, bottom, in shares of its width and height."""


@dataclass(frozen=True)
class Caption:
    """One caption.

    `score` is the log-probability over the length penalty. `readings` and `regions` are there if readings were asked
    for: `regions` says for each word where it looked most, by the read that is `chosen` for that. `nbest` holds the
    hypotheses, best first, if asked for. `repeats`: what was written again and again, and how often.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    readings: Readings | None = field(default=None, repr=False)
    nbest: tuple[Caption, ...] = ()
    repeats: tuple[str, int] | None = None
    chosen: AlignmentChoice | None = field(default=None, repr=False)

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """For each word the rectangle round the cells beside its strongest one that are at least half as strong."""
        if self.readings is None or not self.readings.layers():
            return ()
        choice, words = self.chosen or last_layer(self.readings), range(len(self.readings.target_text))
        maps = (self.readings.image_map(word, choice.layer, choice.head, choice.shifted) for word in words)
        return tuple(_region(each, self.readings.cell_centre, self.readings.cell_extent) for each in maps)

    def _repr_html_(self) -> str:
        """What a notebook shows: the text, its score, and what was looked at where that was asked for."""
        seen = "" if self.readings is None else self.readings._repr_html_()
        return f"<p>{escape(self.text)} <small>{self.score:.3f}</small></p>{seen}"


class Captioner(BasePipeline):
    """Says what is in pictures: `regard.load(folder).caption("dog.jpg")`."""

    def caption(
        self,
        images: ImageInput | Sequence[ImageInput],
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        readings: bool = False,
        constraints: Constraints | Sequence[Constraints] = NO_CONSTRAINTS,
        **search: Any,
    ) -> list[Caption]:
        """Caption a picture or many; the result has one caption a picture, in their order.

        `wishes` are words that a caption begins with, must hold, or must not: for all, or one a picture. `search` are
        other `SearchSettings`, such as sample=True. `readings` come from one more pass over the winner's own pieces.
        Raises DataError for pictures that cannot be used, all at once, and UsageError for what contradicts itself.
        """
        given = self._pictures([images] if isinstance(images, ImageInput) else list(images))
        settings = self._search(nbest, beam=beam, length_penalty=length_penalty, **search)
        self.model.eval()
        asked = self._wishes(constraints, len(given), settings, "picture")
        results = list[Caption]()
        for first in range(0, len(given), TOGETHER):
            pixels = [picture.tensor() for picture in given[first : first + TOGETHER]]
            decoded = self._decode(pixels, asked[first : first + TOGETHER], settings)
            some = [self._caption(found, nbest) for found in decoded]
            for place, (caption, found) in enumerate(zip(some, decoded, strict=True), first):
                self._warn(place, caption.repeats, found[0], asked[place], "caption")
            if readings:
                read = self._read(pixels, [found[0].ids for found in decoded])
                some = [replace(each, readings=own, chosen=self.choice) for each, own in zip(some, read, strict=True)]
            results += some
        return results

    def _decode(
        self, pixels: Sequence[torch.Tensor], wishes: Sequence[Constraints], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        jobs = [self._job(each, wish, settings) for each, wish in zip(pixels, wishes, strict=True)]
        jobs = [replace(job, task=replace(job.task, id=id)) for id, job in enumerate(jobs)]
        found = self.engine.decode(jobs, settings)
        return [self._ordered(source, some, settings) for source, some in zip(pixels, found, strict=True)]

    def read_all(self, images: Sequence[ImageInput], targets: Sequence[Sequence[int]]) -> list[Readings]:
        """What the model looks at when it is made to write these target pieces (without end of sentence)."""
        return self._read([picture.tensor() for picture in self._pictures(images)], targets)

    def trace(self, image: ImageInput, **search: Any) -> tuple[list[Hypothesis], list[SearchStep]]:
        """How a caption of a picture is found, step by step, searched by PyTorch."""
        settings, verbs = self._search(1, **search), self.model
        verbs.eval()
        (picture,) = self._pictures([image])
        job = self._job(picture.tensor(), NO_CONSTRAINTS, settings)
        unseen: Any = verbs  # an ensemble's sources and states are tuples, which a search hands on unseen
        return trace_search(unseen, unseen.encode(Batch.of([job.source], unseen.device)), job.task, settings)

    def score(self, image: ImageInput, target: str) -> float:
        """The log-probability of a given caption, end of sentence included."""
        (picture,), ids = self._pictures([image]), self.tokenizer.target.encode(target)
        return float(force_decode(self.model, [picture.tensor()], [ids], with_attention=False)[0].log_probs.sum())

    def model_view(self, image: ImageInput) -> npt.NDArray[np.uint8]:
        """A picture as the model sees it, (Y, X, 3): brought to size, its cells evenly over it."""
        (picture,) = self._pictures([image])
        pixels: npt.NDArray[np.uint8] = np.rint(picture.tensor().permute(1, 2, 0).numpy() * 255).astype(np.uint8)
        return pixels

    @property
    def frame(self) -> ImageSizeSettings:
        """What size pictures are brought to, and which files are refused."""
        return self.settings.pictures or ImageSizeSettings()

    def _pictures(self, images: Sequence[ImageInput]) -> list[SourcePixels]:
        """Opened and brought to size. Raises DataError with all that is wrong with them."""
        frame, found, causes = self.frame, list[SourcePixels](), list[str]()
        for number, image in enumerate(images, 1):
            if isinstance(image, SourcePixels):
                found.append(image)
                continue
            try:
                name = None if isinstance(image, (str, Path)) else f"picture {number}"
                found.append(source_pixels(load_pixels(image, frame, name), frame))
            except DataError as problem:
                causes += problem.causes
        if causes:
            raise DataError(*causes)
        return found

    def _job(self, pixels: torch.Tensor, wish: Constraints, settings: SearchSettings) -> DecodeRequest:
        name = hashlib.blake2b(pixels.numpy().tobytes(), digest_size=8).digest()
        return self._task(pixels, name, wish, settings)

    def _caption(self, found: list[Hypothesis], nbest: int) -> Caption:
        some = [self._text(hypothesis) for hypothesis in found[:nbest]]
        return replace(some[0], nbest=tuple(some)) if nbest > 1 else some[0]

    def _text(self, hypothesis: Hypothesis) -> Caption:
        target, ids = self.tokenizer.target, hypothesis.ids
        return Caption(target.decode(ids), tuple(target.tokens(ids)), hypothesis.score, repeats=self._repeats(ids))

    def _read(self, pixels: Sequence[torch.Tensor], targets: Sequence[Sequence[int]]) -> list[Readings]:
        found = force_decode(self.model, pixels, targets)
        sizes = [(pixel.shape[1], pixel.shape[2]) for pixel in pixels]
        return [self._readings(*each) for each in zip(targets, found, sizes, strict=True)]

    def _readings(self, target: Sequence[int], found: ForcedDecoding, size: tuple[int, int]) -> Readings:
        assert found.grid is not None, "a picture is read as a grid"
        (rows, columns), (Y, X) = found.grid, size
        encoder: Any = self.model.encoder
        cells = tuple(f"{row}·{column}" for row in range(1, rows + 1) for column in range(1, columns + 1))
        ids, vocabulary = [*target, EOS], self.tokenizer.target
        pieces = vocabulary.tokens(ids)
        words = vocabulary.word_indices(pieces)
        return Readings(
            cells,
            tuple(pieces),
            tuple(range(len(cells))),
            tuple(words),
            found.weights,
            found.roles,
            cells,
            texts_of(vocabulary, ids, words),
            found.grid,
            encoder.cell_centre,
            (rows * encoder.stride / Y, columns * encoder.stride / X),
        )


def _region(weights: npt.NDArray[np.floating], middle: float, reach: tuple[float, float]) -> Region:
    """The rectangle round the strongest cell and the cells joined to it, side by side, that are half as strong."""
    (rows, columns), strong = weights.shape, weights >= weights.max() / 2
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    todo, found = [(int(row), int(column))], {(int(row), int(column))}
    for r, c in todo:
        for near in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
            if near not in found and 0 <= near[0] < rows and 0 <= near[1] < columns and strong[near]:
                found.add(near)
                todo.append(near)
    high, wide = [r for r, _ in found], [c for _, c in found]
    down, across = cell_edges(rows, middle, reach[0]), cell_edges(columns, middle, reach[1])
    return float(across[min(wide)]), float(down[min(high)]), float(across[max(wide) + 1]), float(down[max(high) + 1])
