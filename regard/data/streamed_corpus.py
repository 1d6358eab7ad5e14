"""Streamed corpora that exceed memory: the text stays in its files, and one bit a line says whether
the line is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import numpy.typing as npt

from regard.common.errors import DataError
from regard.data.pair_filters import (
    CorpusReport,
    Filters,
    Pair,
    PairFiles,
    PairFilter,
    PairReader,
    chunks,
)

BitArray = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class FilteredCorpus:
    """The pairs of some files that a filter keeps; each iteration reads the files again."""

    files: PairFiles
    keep_bits: BitArray  # one bit a line, eight in a byte
    report: CorpusReport

    def __len__(self) -> int:
        return self.report.kept

    def __iter__(self) -> Iterator[Pair]:
        reader = PairReader(self.files)
        for chunk in chunks(enumerate(reader, 1)):
            first_line = chunk[0][0]
            start = (first_line - 1) // 8
            bits = self.keep_bits[start : start + -(-len(chunk) // 8)]
            mask = np.unpackbits(bits, count=len(chunk)).tolist()
            for line, (source, target) in compress(chunk, mask):
                yield Pair.read(source, target, line)
        if reader.count != self.report.read:
            raise DataError(
                f"{' and '.join(self.files.names)}: had {self.report.read:,} lines a moment ago "
                f"and {reader.count:,} now; do not change the files while training starts"
            )

    def keep(self, mask: npt.NDArray[np.bool_]) -> FilteredCorpus:
        """Return the corpus with the pairs for which the mask is True."""
        bits = np.unpackbits(self.keep_bits)
        bits[bits == 1] = mask
        report = replace(self.report, kept=int(bits.sum()))
        return FilteredCorpus(self.files, np.packbits(bits), report)


def scan(
    files: PairFiles, filters: Filters | None = None, name: str = "train"
) -> FilteredCorpus:
    """Filter a corpus in one pass, with the same pairs and the same report as `read_corpus`.

    Memory holds a few thousand pairs, one bit a line, and eight bytes a pair to find duplicates.
    """
    reader = PairReader(files)
    pair_filter = PairFilter(filters)
    cleaned = (
        Pair.read(source, target, line)
        for line, (source, target) in enumerate(reader, 1)
    )
    masks = []
    for chunk in chunks(cleaned):
        mask = np.array(pair_filter.keep_mask(chunk), dtype=np.bool_)
        masks.append(np.packbits(mask))
    report = pair_filter.report(name, reader)
    return FilteredCorpus(files, np.concatenate(masks), report)
