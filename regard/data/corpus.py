"""Parallel corpora: one reading of their files filters them, and keeps the pairs in memory or notes
which lines to read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from regard.common.errors import DataError
from regard.data.corpus_facts import CorpusDigest, CorpusFacts
from regard.data.corpus_settings import EVALUATION, CorpusSettings
from regard.data.file_formats import PairFiles, PairReader, Row
from regard.data.file_pairs import FilePairs, Mask
from regard.data.pair_filters import Filters, PairFilter
from regard.data.pairs import CorpusReport, Pair, chunks

NO_FILTERS = Filters()
"""Drops empty pairs only."""


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs, in memory or in their files, with the report on how they were read."""

    pairs: tuple[Pair, ...] | FilePairs
    report: CorpusReport
    suspects: frozenset[int] = frozenset()  # lines of pairs that are not held out
    reviewed: frozenset[int] = frozenset()  # lines of pairs that somebody has corrected

    @property
    def sources(self) -> list[str]:
        """The source sentences in order."""
        return [pair.source for pair in self.pairs]

    @property
    def targets(self) -> list[str]:
        """The translations in order."""
        return [pair.target for pair in self.pairs]

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    def facts(self) -> CorpusFacts:
        """Return the facts for the model card."""
        digest = CorpusDigest()
        digest.update(self.pairs)
        return digest.facts()

    def keep(self, mask: Mask) -> Corpus:
        """Return the corpus with the pairs for which the mask is True."""
        report = replace(self.report, kept=int(mask.sum()))
        if not isinstance(self.pairs, FilePairs):
            pairs = tuple(compress(self.pairs, mask))
            return replace(self, pairs=pairs, report=report)
        keep = self.pairs.keep.copy()
        keep[keep] = mask
        return replace(self, pairs=replace(self.pairs, keep=keep), report=report)

    def repaired(self, repairs: Mapping[int, Row]) -> Corpus:
        """Return the corpus with other sides of the pairs in some lines."""
        if isinstance(self.pairs, FilePairs):
            return replace(self, pairs=replace(self.pairs, repairs=repairs))
        pairs = tuple(
            Pair.read(*repairs[pair.line], pair.line) if pair.line in repairs else pair
            for pair in self.pairs
        )
        return replace(self, pairs=pairs)


def read_corpora(
    settings: CorpusSettings,
    files: Mapping[str, PairFiles] | None = None,
    on_disk: bool = False,
) -> dict[str, Corpus]:
    """Read all corpora of the settings, or those of `files`; if `on_disk`, training pairs stay in
    their files.

    Raises DataError with all causes at once.
    """
    files = settings.pair_files if files is None else files
    corpora: dict[str, Corpus] = {}
    causes: list[str] = []
    for name, pair_files in files.items():
        stays = on_disk and name not in EVALUATION
        filters = settings.filters_of(name)
        try:
            corpora[name] = read_corpus(pair_files, filters, name, stays)
        except DataError as problem:
            causes += problem.causes
    DataError.raise_all(causes)
    return corpora


def read_corpus(
    files: PairFiles,
    filters: Filters = NO_FILTERS,
    name: str = "train",
    on_disk: bool = False,
) -> Corpus:
    """Read sentence pairs in one pass.

    If `on_disk`, memory holds a few thousand pairs, a byte a line, and eight bytes a pair to find
    duplicates.
    """
    reader = PairReader(files)
    pair_filter = PairFilter(filters)
    cleaned = (
        Pair.read(source, target, line)
        for line, (source, target) in enumerate(reader, 1)
    )
    pairs = list[Pair]()
    masks = list[Mask]()
    for chunk in chunks(cleaned):
        keep = pair_filter.keep_mask(chunk)
        if on_disk:
            masks.append(np.array(keep, np.bool_))
        else:
            pairs += compress(chunk, keep)
    report = pair_filter.report(name, reader)
    if on_disk:
        pairs_on_disk = FilePairs(files, np.concatenate(masks))
        return Corpus(pairs_on_disk, report, reviewed=frozenset(reader.corrected))
    return Corpus(tuple(pairs), report, reviewed=frozenset(reader.corrected))
