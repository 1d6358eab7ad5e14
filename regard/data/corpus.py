"""Parallel corpora: one reading of their files filters them, and keeps the pairs in memory or notes
which lines to read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np
import numpy.typing as npt

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.corpus_facts import CorpusDigest, CorpusFacts
from regard.data.corpus_settings import EVALUATION, CorpusSettings
from regard.data.file_formats import PairFiles, PairReader, Row
from regard.data.pair_filters import Filters, PairFilter
from regard.data.pairs import CorpusReport, Pair, chunks

NO_FILTERS = Filters()
"""Drops empty pairs only."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FilePairs:
    """Pairs that stay in their files, since they exceed memory; each iteration reads them again."""

    files: PairFiles
    keep: Mask  # for each line, whether it is one of the pairs
    repairs: Mapping[int, Row] = field(default_factory=dict)  # both sides, by line

    def __len__(self) -> int:
        return int(self.keep.sum())

    def __iter__(self) -> Iterator[Pair]:
        reader = PairReader(self.files)
        rows = enumerate(reader, 1)
        for line, row in compress(rows, self.keep):
            yield Pair.read(*self.repairs.get(line, row), line)
        deque(rows, maxlen=0)  # up to the end, where the reader knows its count
        if reader.count != len(self.keep):
            names = " and ".join(self.files.names)
            raise DataError(
                f"{names}: had {counted(len(self.keep), 'line')} a moment ago and "
                f"{reader.count:,} now; do not change the files while training starts"
            )


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs, in memory or in their files, with the report on how they were read."""

    pairs: tuple[Pair, ...] | FilePairs
    report: CorpusReport
    suspects: frozenset[int] = frozenset()  # lines of pairs that are not held out

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
        return Corpus(FilePairs(files, np.concatenate(masks)), report)
    return Corpus(tuple(pairs), report)
