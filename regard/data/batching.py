"""Batches of sentence pairs, or of pictures with their captions: nearly equal lengths together, an order fixed by the
seed, a place that can be saved.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property, reduce
from itertools import islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from regard.data.images import Picture
from regard.data.pixels import pad_pictures
from regard.data.tokenizer import BOS, PAD
from regard.errors import DataError
from regard.settings import Settings
from regard.shapes import Bool, Float, Int, Tensor

__all__ = [
    "Again",
    "Batches",
    "Batching",
    "BatchingSettings",
    "Example",
    "Outline",
    "PairBatch",
    "Plan",
    "Position",
    "Stored",
    "Update",
    "collate",
    "pad",
]

Again = Callable[[Sequence[int], int], "list[Example]"]
Numbers = npt.NDArray[np.int64]

BLOCKS = 2_000_000
"""An epoch shuffles at most so many blocks of neighbouring lines; a corpus of no more lines has one line in each."""

PORTION = 10_000
"""Lines that are read, and cut into pieces anew, at once: half a second, so that nobody waits for a whole pool.

Fewer would cost more in all, since words that come often are cut a few times for each portion.
"""


class BatchingSettings(Settings):
    """How sentences are put together."""

    tokens: int = Field(4096, ge=1, description="Size of an update: pieces on its larger side, ends and padding too.")
    batches: int | Literal["auto"] = Field(
        "auto",
        description="Batches that an update is cut into, each computed by its own thread or process, or in turn; more "
        "need less memory and padding. auto: one for each processor core up to four, one on a GPU; then written down.",
    )
    pool: int = Field(100_000, ge=1, description="Sentences that are sorted by length at once.")
    subword_dropout: float = Field(
        0.0, ge=0, lt=1, description="Cut words into pieces anew in each epoch, leaving out this share of BPE's merges."
    )

    def resolved(self, workers: int) -> BatchingSettings:
        """With `batches` put in the place of auto, for so many cores or processes."""
        return self.with_values(batches=max(1, workers)) if self.batches == "auto" else self


@dataclass(frozen=True)
class Example:
    """One pair as ids: both end with EOS, neither begins with BOS. Or a picture, its first caption and `more` of them,
    which are learnt together.

    `links` are places of pieces that belong together: source, target, source, target …; None where nobody knows any.
    """

    source: list[int] | Picture
    target: list[int]
    more: tuple[list[int], ...] = ()
    links: array[int] | None = None

    @property
    def ids(self) -> list[int]:
        """The source of a pair of sentences."""
        assert isinstance(self.source, list), "sentences are wanted, not pictures"
        return self.source

    @property
    def targets(self) -> tuple[list[int], ...]:
        """All that is to be said of the source."""
        return (self.target, *self.more)


class Stored(Sequence[Example]):
    """Examples kept elsewhere than in memory, whose lengths are known without reading them."""

    def lengths(self, lines: Sequence[int]) -> tuple[Numbers, Numbers]:
        """The lengths of both sides of these examples, ends included."""
        raise NotImplementedError


@dataclass(frozen=True)
class PairBatch:
    """Sentence pairs, or pictures and their captions, as tensors: teacher forcing reads `target_in` and is to say
    `target_out`. Of N = B·K targets row b·K + k is the k-th of source b.
    """

    source: Tensor  # ids (B, S) or pixels (B, C, Y, X)
    source_keep: Bool[Tensor, "B _"] | None  # None: nothing is padded
    target_in: Int[Tensor, "N T"]  # BOS, then the target without its last piece
    target_out: Int[Tensor, "N T"]
    tokens: int  # target pieces to predict, ends included, padding not
    lines: list[int]  # which examples these are
    links: Float[Tensor, "N T S"] | None = None  # where each target piece should look; a row of nought: anywhere

    def to(self, device: torch.device | str) -> PairBatch:
        """The same batch on another device."""
        keep = None if self.source_keep is None else self.source_keep.to(device)
        links = None if self.links is None else self.links.to(device)
        sides = (self.source.to(device), self.target_in.to(device), self.target_out.to(device))
        return replace(self, source=sides[0], source_keep=keep, target_in=sides[1], target_out=sides[2], links=links)

    def split(self, parts: int) -> list[PairBatch]:
        """The same sentences in several batches, padded as they are here."""
        rows = [range(len(self.lines))[i::parts] for i in range(min(parts, len(self.lines)))]
        return [self._only(list(some)) for some in rows]

    def _only(self, rows: list[int]) -> PairBatch:
        keep = None if self.source_keep is None else self.source_keep[rows]
        K = len(self.target_out) // len(self.source)
        targets = [row * K + k for row in rows for k in range(K)]
        links = None if self.links is None else self.links[targets]
        out, lines = self.target_out[targets], [self.lines[row] for row in rows]
        tokens = int((out != PAD).sum())
        return PairBatch(self.source[rows], keep, self.target_in[targets], out, tokens, lines, links)


@dataclass(frozen=True)
class Plan:
    """A batch before it is tensors: some examples, and their numbers."""

    examples: tuple[Example, ...]
    lines: tuple[int, ...]

    @cached_property
    def tokens(self) -> int:
        """Target pieces to predict."""
        return sum(len(target) for example in self.examples for target in example.targets)

    def batch(self) -> PairBatch:
        """The tensors."""
        return collate(self.examples, self.lines)


@dataclass(frozen=True)
class Position:
    """Where training stands: the next batch to read, counted from 0 within its pool, the pools within their epoch.

    In a mixture `parts` says where each corpus stands, `batch` how many batches were drawn, and `epoch` how often
    all of every corpus has been read.
    """

    epoch: int = 0
    pool: int = 0
    batch: int = 0
    parts: Sequence[Position] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))  # JSON brings lists

    def to_json(self) -> dict[str, Any]:
        """As plain values; `dataclasses.asdict` gives the same."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Position:
        """Back from plain values, those of older runs too."""
        return cls(**{**values, "parts": [cls.from_json(part) for part in values.get("parts", ())]})


@dataclass(frozen=True)
class Update:
    """The batches whose gradients together move the weights once, and where training stands after them."""

    plans: tuple[Plan, ...]
    after: Position

    @property
    def tokens(self) -> int:
        """Target pieces to predict in all of them."""
        return sum(plan.tokens for plan in self.plans)


def pad(sequences: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"] | None]:
    """Rows of equal length, filled up with PAD, and what may be read of them (None: everything)."""
    assert sequences, "a batch holds at least one sentence"
    lengths = np.array([len(sequence) for sequence in sequences])
    keep = np.arange(lengths.max()) < lengths[:, None]  # (B, S)
    ids = np.full(keep.shape, PAD, dtype=np.int64)
    ids[keep] = np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in sequences])
    return torch.from_numpy(ids), None if keep.all() else torch.from_numpy(keep)


def collate(examples: Sequence[Example], lines: Sequence[int] | None = None) -> PairBatch:
    """One batch of these examples; `lines` says which they are (default: 0, 1, 2 …)."""
    source, keep = _sources(examples)
    targets = [target for example in examples for target in example.targets]
    target_out, _ = pad(targets)
    target_in, _ = pad([[BOS, *target[:-1]] for target in targets])
    numbers = range(len(examples)) if lines is None else lines
    links = _spread(examples, target_out.shape[1], source.shape[1])
    return PairBatch(source, keep, target_in, target_out, sum(map(len, targets)), list(numbers), links)


def _sources(examples: Sequence[Example]) -> tuple[Tensor, Tensor | None]:
    """Ids or pixels of one size, and which of them are real."""
    if isinstance(examples[0].source, Picture):
        return pad_pictures(_pixels([e.source for e in examples if isinstance(e.source, Picture)]))
    return pad([example.ids for example in examples])


def _pixels(pictures: Sequence[Picture]) -> list[Tensor]:
    """What is seen of each, by several threads where there are cores to spare beside those that train."""
    spare = min(8, (os.cpu_count() or 1) - 4)
    if spare < 2:
        return [picture.tensor() for picture in pictures]
    with ThreadPoolExecutor(spare, "pictures") as threads:
        return list(threads.map(Picture.tensor, pictures))


def _spread(examples: Sequence[Example], T: int, S: int) -> Float[Tensor, "B T S"] | None:
    """The links as shares: each target piece that has some spreads one over them. None where no example has any."""
    if all(example.links is None for example in examples):
        return None
    shares = np.zeros((len(examples), T, S), dtype=np.float32)
    for example, share in zip(examples, shares, strict=True):
        if example.links:
            sources, targets = np.frombuffer(example.links, dtype=np.intc).reshape(-1, 2).T
            share[targets, sources] = 1
    shares /= np.maximum(shares.sum(2, keepdims=True), 1)
    return torch.from_numpy(shares)


@dataclass(frozen=True)
class Outline:
    """What an epoch looks like: its batches, the pieces of each side, and its positions, padding among them.

    For a corpus so long that only its first pool was looked at these are estimates.
    """

    batches: float
    pieces: tuple[float, float]
    positions: tuple[float, float]

    def padding(self) -> tuple[float, float]:
        """The share of padding among all source and all target positions."""
        source, target = (1 - some / all_ for some, all_ in zip(self.pieces, self.positions, strict=True))
        return source, target

    def times(self, factor: float) -> Outline:
        """So much more, or less, of the same."""
        (a, b), (c, d) = self.pieces, self.positions
        return Outline(self.batches * factor, (a * factor, b * factor), (c * factor, d * factor))

    def __add__(self, other: Outline) -> Outline:
        (a, b), (c, d) = self.pieces, self.positions
        (e, f), (g, h) = other.pieces, other.positions
        return Outline(self.batches + other.batches, (a + e, b + f), (c + g, d + h))


class Batching(ABC):
    """Gives updates without end, from any position on."""

    together: int
    """Batches in an update."""

    def updates(self, position: Position | None = None) -> Iterator[Update]:
        """Updates without end from `position` on."""
        stream = self.plans(position or Position())
        while True:
            group = list(islice(stream, self.together))
            yield Update(tuple(plan for _, plan in group), group[-1][0])

    def padding(self) -> tuple[float, float]:
        """The share of padding among all source and all target positions of epoch 0."""
        return self.outline.padding()

    @property
    @abstractmethod
    def outline(self) -> Outline:
        """What epoch 0 looks like."""

    @abstractmethod
    def plans(self, place: Position) -> Iterator[tuple[Position, Plan]]:
        """Batches without end, each with the position to go on from after it."""

    @abstractmethod
    def epoch(self, n: int) -> list[Plan]:
        """All batches of epoch n: everything once. Not for a corpus too long for memory."""


class Batches(Batching):
    """Every example once per epoch, in batches whose sentences are nearly equally long.

    Epoch n is decided by the examples, the settings, the seed and n alone: its sentences are shuffled and cut into
    pools; each pool is sorted, cut where the budget is full, and its batches are shuffled. Only one pool is at hand.
    Of more than `BLOCKS` sentences, blocks of neighbours are shuffled, and the sentences of each pool among themselves.
    """

    def __init__(
        self, examples: Sequence[Example], settings: BatchingSettings, seed: int, again: Again | None = None
    ) -> None:
        """`again` gives the examples of some lines anew, by a seed, where they are not the same in each epoch."""
        if not examples:
            raise DataError("there is no sentence pair to make batches of; give at least one")
        self.examples, self.settings, self.seed, self.again = examples, settings, seed, again
        self.together = 1 if settings.batches == "auto" else settings.batches
        self.budget = -(-settings.tokens // self.together)
        self._block = -(-len(examples) // BLOCKS)
        self._blocks = -(-len(examples) // self._block)
        self._pools = -(-self._blocks // self._blocks_of_a_pool)

    def epoch(self, n: int) -> list[Plan]:
        """All batches of epoch n, in the order they come."""
        return [plan for pool in range(self._pools) for plan in _Pool(self, n, pool).plans()]

    @cached_property
    def outline(self) -> Outline:
        """What epoch 0 looks like; from its first pool alone where blocks are shuffled, or sentences cut anew."""
        if self._block == 1 and self.again is None:
            return reduce(Outline.__add__, (self._outlined(pool)[1] for pool in range(self._pools)))
        lines, outline = self._outlined(0)
        return outline.times(len(self.examples) / lines)

    def plans(self, place: Position) -> Iterator[tuple[Position, Plan]]:
        """Batches without end, each with the position to go on from after it."""
        if place.pool >= self._pools:  # there was more to train on when the place was noted
            place = Position(place.epoch + 1)
        pool = _Pool(self, place.epoch, place.pool)
        while True:
            plans = pool.plans()
            last = place.pool + 1 == self._pools
            following = Position(place.epoch + 1) if last else Position(place.epoch, place.pool + 1)
            pool = _Pool(self, following.epoch, following.pool)
            for number in range(place.batch, len(plans)):
                pool.read((number + 1 - place.batch) / (len(plans) - place.batch))
                after = Position(place.epoch, place.pool, number + 1) if number + 1 < len(plans) else following
                yield after, plans[number]
            place = following

    def lines(self, epoch: int, pool: int) -> tuple[list[int], np.random.Generator]:
        """Which lines are in a pool, and where its further chances come from."""
        order = np.random.Generator(np.random.PCG64([self.seed, epoch])).permutation(self._blocks)
        chance = np.random.Generator(np.random.PCG64([self.seed, epoch, pool]))
        blocks = order[pool * self._blocks_of_a_pool : (pool + 1) * self._blocks_of_a_pool]
        if self._block == 1:
            return blocks.tolist(), chance
        lines = (blocks[:, None] * self._block + np.arange(self._block)).reshape(-1)
        return chance.permutation(lines[lines < len(self.examples)]).tolist(), chance

    def portions(self, lines: list[int], chance: np.random.Generator) -> Iterator[list[Example]]:
        """The examples of these lines, a few at a time."""
        for begin in range(0, len(lines), PORTION):
            some = lines[begin : begin + PORTION]
            if self.again is None:
                yield [self.examples[line] for line in some]
            else:
                yield self.again(some, int(chance.integers(2**31)))

    @property
    def _blocks_of_a_pool(self) -> int:
        return -(-self.settings.pool // self._block)

    def _outlined(self, pool: int) -> tuple[int, Outline]:
        """How many lines are in a pool of epoch 0, and its outline."""
        lines, chance = self.lines(0, pool)
        if self.again is None and isinstance(self.examples, Stored):
            sizes = self.examples.lengths(lines)
        else:
            examples = [example for some in self.portions(lines, chance) for example in some]
            if isinstance(examples[0].source, Picture):
                return len(lines), _outline_of_pictures(_extents(examples), examples, self.budget)
            sizes = _lengths(examples)
        return len(lines), _outline(sizes, list(_cut(*sizes, self.budget)))


class _Pool:
    """The batches of one pool, made ready little by little while another is trained on."""

    def __init__(self, batches: Batches, epoch: int, pool: int) -> None:
        self._lines, self._chance = batches.lines(epoch, pool)
        self._budget = batches.budget
        self._portions = batches.portions(self._lines, self._chance)
        self._examples: list[Example] = []

    def read(self, share: float) -> None:
        """See that this share of the examples, from 0 to 1, is there."""
        while len(self._examples) < share * len(self._lines):
            self._examples += next(self._portions)

    def plans(self) -> list[Plan]:
        """The batches, in the order they come."""
        self.read(1.0)
        plans = [
            Plan(tuple(self._examples[i] for i in batch), tuple(self._lines[i] for i in batch))
            for batch in _together(self._examples, self._budget)
        ]
        return [plans[place] for place in self._chance.permutation(len(plans))]


def _together(examples: Sequence[Example], budget: int) -> Iterator[list[int]]:
    """Which examples make a batch."""
    if isinstance(examples[0].source, Picture):
        return _cut_pictures(_extents(examples), budget)
    return _cut(*_lengths(examples), budget)


def _lengths(examples: Sequence[Example]) -> tuple[Numbers, Numbers]:
    source = np.array([len(example.source) for example in examples], dtype=np.int64)
    return source, np.array([len(example.target) for example in examples], dtype=np.int64)


def _extents(examples: Sequence[Example]) -> Numbers:
    """Of pictures: columns and rows of cells, pieces of the longest caption, captions: (examples, 4)."""
    grids = [example.source.grid for example in examples if isinstance(example.source, Picture)]
    longest = [max(map(len, example.targets)) for example in examples]
    each = zip(grids, longest, examples, strict=True)
    return np.array([(columns, rows, T, 1 + len(e.more)) for (rows, columns), T, e in each], dtype=np.int64)


def _cut_pictures(extents: Numbers, budget: int) -> Iterator[list[int]]:
    """Pictures of like sizes, with as many captions each, of like lengths, while the larger padded side fits."""
    batch: list[int] = []
    largest = np.zeros(3, dtype=np.int64)
    columns, rows, longest, counts = extents.T
    for index in np.lexsort((longest, columns, _about(rows, 1.5), _about(longest, 1.4), counts)).tolist():
        *own, count = extents[index].tolist()
        grown = np.maximum(largest, own)
        size = int(max(grown[0] * grown[1], count * grown[2]))
        if batch and (size * (len(batch) + 1) > budget or count != counts[batch[-1]]):
            yield batch
            batch, grown = [], np.array(own)
        largest = grown
        batch.append(index)
    yield batch


def _about(sizes: Numbers, factor: float) -> Numbers:
    """The same number for sizes within about this factor of each other."""
    classes: Numbers = (np.log(sizes) / np.log(factor)).astype(np.int64)
    return classes


def _outline_of_pictures(extents: Numbers, examples: Sequence[Example], budget: int) -> Outline:
    batches = list(_cut_pictures(extents, budget))
    largest = [(extents[batch].max(0), len(batch)) for batch in batches]
    pieces = sum(len(target) for example in examples for target in example.targets)
    cells = float((extents[:, 0] * extents[:, 1]).sum())
    positions = [(float(n * X * Y), float(n * K * T)) for (X, Y, T, K), n in largest]
    source, target = (sum(side) for side in zip(*positions, strict=True))
    return Outline(float(len(batches)), (cells, float(pieces)), (source, target))


def _outline(sizes: tuple[Numbers, Numbers], batches: list[list[int]]) -> Outline:
    source, target = (sum(float(side[batch].max()) * len(batch) for batch in batches) for side in sizes)
    return Outline(float(len(batches)), (float(sizes[0].sum()), float(sizes[1].sum())), (source, target))


def _cut(sources: Numbers, targets: Numbers, budget: int) -> Iterator[list[int]]:
    """Sentences of like lengths, while the larger padded side fits; one longer than the budget stands alone."""
    batch: list[int] = []
    longest = 0
    larger = np.maximum(sources, targets).tolist()
    for index in _sorted(sources, targets):
        longest = max(longest, larger[index])
        if batch and longest * (len(batch) + 1) > budget:
            yield batch
            batch, longest = [], larger[index]
        batch.append(index)
    yield batch


def _sorted(sources: Numbers, targets: Numbers) -> list[int]:
    """By target length, then by source length, up and down in turn, so that neighbours stay near.

    A pair whose source is unusually long (nine in ten exceed their target by less) stands with longer targets. At
    2,048 pieces, on Multi30k (en-de), 0.7 % of target positions are padding and 3.3 % of source positions.
    """
    surplus = sources - targets
    size = np.maximum(targets, sources - int(np.quantile(surplus, 0.9)))
    order: list[int] = np.lexsort((np.where(size % 2 == 0, surplus, -surplus), size)).tolist()
    return order
