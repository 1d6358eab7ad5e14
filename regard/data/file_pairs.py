"""Pairs that are read from their files whenever they are wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
import numpy.typing as npt

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.file_formats import PairFiles, PairReader, Row
from regard.data.pairs import Pair

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
