"""Streaming corpora that exceed memory: the text stays in its files, with a bit for each line that
is kept.
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
    """The pairs that a filter kept of some files; each iteration reads the files again."""

    files: PairFiles
    keep_bits: BitArray  # a bit for each line, eight in a byte
    report: CorpusReport

    def __len__(self) -> int:
        return self.report.kept

    def __iter__(self) -> Iterator[Pair]:
        reader = PairReader(self.files)
        for chunk in chunks(
            (line, source, target) for line, (source, target) in enumerate(reader, 1)
        ):
            start = (chunk[0][0] - 1) // 8
            bits = self.keep_bits[start : start + -(-len(chunk) // 8)]
            kept = compress(chunk, np.unpackbits(bits, count=len(chunk)).tolist())
            yield from (
                Pair.read(source, target, line) for line, source, target in kept
            )
        if reader.count != self.report.read:
            raise DataError(
                f"{' and '.join(self.files.names)}: had {self.report.read:,} lines a moment ago "
                f"and {reader.count:,} now; do not change the files while training starts"
            )

    def keep(self, mask: npt.NDArray[np.bool_]) -> FilteredCorpus:
        """Return the corpus with some of its pairs."""
        bits = np.unpackbits(self.keep_bits)
        bits[bits == 1] = mask
        return FilteredCorpus(
            self.files, np.packbits(bits), replace(self.report, kept=int(bits.sum()))
        )


def scan(
    files: PairFiles, filters: Filters | None = None, name: str = "train"
) -> FilteredCorpus:
    """Filter a corpus in one pass: the same pairs and the same report as `read_corpus`.

    Memory holds a few thousand pairs, a bit for each line, and eight bytes for each pair to find
    duplicates.
    """
    reader = PairReader(files)
    pair_filter = PairFilter(filters)
    masks = [
        np.packbits(np.array(pair_filter.keep_mask(chunk), dtype=np.bool_))
        for chunk in chunks(
            Pair.read(a, b, line) for line, (a, b) in enumerate(reader, 1)
        )
    ]
    report = pair_filter.report(name, reader)
    return FilteredCorpus(files, np.concatenate(masks), report)
