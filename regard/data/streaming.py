"""Corpora too long for memory: the text stays in its files, and only a bit for each line says whether it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import numpy.typing as npt

from regard.data.corpus import CorpusReport, Filters, Pair, PairFiles
from regard.data.pairs import PairFilter, PairReader, chunks
from regard.data.text import clean
from regard.errors import DataError

__all__ = ["FilteredCorpus", "scan"]

BitArray = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class FilteredCorpus:
    """What a sieve left of some files. It goes over them again each time it is asked for pairs."""

    files: PairFiles
    keep_bits: BitArray  # a bit for each line, eight in a byte
    report: CorpusReport

    def __len__(self) -> int:
        return self.report.kept

    def __iter__(self) -> Iterator[Pair]:
        return (_pair(row) for row in self.rows())

    def rows(self) -> Iterator[tuple[int, str, str]]:
        """Line, source and target of each pair, not clean yet: whoever needs few of them saves the time."""
        reader = PairReader(self.files)
        for some in chunks((line, a, b) for line, (a, b) in enumerate(reader, 1)):
            begin = (some[0][0] - 1) // 8
            bits = self.keep_bits[begin : begin + -(-len(some) // 8)]
            yield from compress(some, np.unpackbits(bits, count=len(some)).tolist())
        if reader.count != self.report.read:
            raise DataError(
                f"{' and '.join(self.files.names)}: had {self.report.read:,} lines a moment ago and {reader.count:,} "
                "now; let the files be while training begins"
            )

    def select(self, places: AbstractSet[int]) -> tuple[Pair, ...]:
        """The pairs at these places, counted from 0 among those kept."""
        return tuple(_pair(row) for place, row in enumerate(self.rows()) if place in places)

    def without(self, sources: AbstractSet[str], targets: AbstractSet[str]) -> FilteredCorpus:
        """The pairs of which neither side is among these."""
        mask, kept = self.keep_bits.copy(), self.report.kept
        for pair in self:
            if pair.source in sources or pair.target in targets:
                byte, bit = divmod(pair.line - 1, 8)
                mask[byte] &= 0xFF ^ (0x80 >> bit)
                kept -= 1
        return FilteredCorpus(self.files, mask, replace(self.report, kept=kept))


def scan(files: PairFiles, filters: Filters | None = None, name: str = "train") -> FilteredCorpus:
    """Like `read_files`, the same pairs and the same report, in memory for a few thousand pairs, a bit a line, and
    eight bytes a pair to know duplicates.
    """
    reader, sieve = PairReader(files), PairFilter(filters)
    masks = [
        np.packbits(np.array(sieve.keep_mask(some), dtype=np.bool_))
        for some in chunks(Pair(clean(a), clean(b), line) for line, (a, b) in enumerate(reader, 1))
    ]
    report = sieve.report(name, reader)
    return FilteredCorpus(files, np.concatenate(masks), report)


def _pair(row: tuple[int, str, str]) -> Pair:
    line, source, target = row
    return Pair(clean(source), clean(target), line)
