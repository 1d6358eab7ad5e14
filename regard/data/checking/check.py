"""Check the pairs of a corpus or of files."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from regard.common.counting import counted
from regard.data.checking.lexicon import Floats
from regard.data.checking.pair_checker import BLOCK, PairChecker, stays_in_block
from regard.data.checking.shifts import (
    NOWHERE,
    Shift,
    find_offsets,
    scores_at,
    shifted_pairs,
    shifts_of,
    where_translations_stand,
)
from regard.data.checking.suspects import KINDS, MAY_BE_USUAL, Suspect
from regard.data.checking.text_damage import letters_of
from regard.data.corrected_tables import write_table
from regard.data.file_formats import (
    SKIPPED,
    PairFiles,
    PairReader,
)
from regard.data.file_pairs import FilePairs
from regard.data.pair_corrections import COLUMNS
from regard.data.pair_filters import SeenPairs
from regard.data.pairs import Pair, chunks
from regard.data.text import CUT

SAMPLE = 30_000
"""Pairs from which it is learnt what is usual."""
CHECKED_AT_ONCE = 2_048
"""Pairs whose arrays fit the cache of a processor."""
IN_MEMORY = 200_000
"""Pairs that are held in memory, at most."""
ROUNDS = 2
"""Rounds in which what is usual is learnt again, if translations stand elsewhere."""
EXAMPLES = 3
"""Examples of each kind in a report."""


class Pairs(Protocol):
    """Pairs that can be read again."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Pair]: ...


Judge = Callable[[Sequence[Pair]], list[Suspect]]
"""Returns the suspects among pairs."""


@dataclass(frozen=True)
class CheckReport:
    """The suspects of a corpus, and the lines whose sides do not belong together."""

    pairs: int
    suspects: tuple[Suspect, ...] = ()  # by line
    shifts: tuple[Shift, ...] = ()
    notes: tuple[str, ...] = ()  # on what is usual, and on how the pairs were read
    by_line: dict[int, list[Suspect]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_line: dict[int, list[Suspect]] = {}
        for suspect in self.suspects:
            by_line.setdefault(suspect.line, []).append(suspect)
        object.__setattr__(self, "by_line", by_line)

    @property
    def shifted(self) -> int:
        """Number of lines whose sides do not belong together."""
        return sum(shift.last - shift.first + 1 for shift in self.shifts)

    def of_kinds(self, kinds: Sequence[str]) -> CheckReport:
        """Return the report with suspects of some kinds alone."""
        suspects = tuple(suspect for suspect in self.suspects if suspect.kind in kinds)
        shifts = self.shifts if "shifted" in kinds else ()
        return replace(self, suspects=suspects, shifts=shifts)

    def lines(self, examples: int = EXAMPLES) -> list[str]:
        """Return the report as lines of text: each kind with its count and so many examples."""
        lines = [f"{counted(self.pairs, 'pair')}: {len(self.by_line):,} suspect"]
        lines += [*self.notes, *(shift.describe() for shift in self.shifts)]
        for kind, (_, meaning) in KINDS.items():
            own = [suspect for suspect in self.suspects if suspect.kind == kind]
            if not own:
                continue
            actions = Counter(suspect.action for suspect in own)
            done = ", ".join(
                f"{counted(count, 'pair')} {action}"
                for action, count in actions.most_common()
            )
            lines.append(f"{kind}: {done} ({meaning})")
            lines += [f"  {suspect.describe()}" for suspect in own[:examples]]
        return lines

    def is_dropped(self, line: int, keeps_lines: bool = False) -> bool:
        """Return whether training leaves out the pair in this line.

        `keeps_lines`: a pair that would be repaired is left out too, since its word links would be
        wrong.
        """
        actions = {suspect.action for suspect in self.by_line.get(line, ())}
        return "dropped" in actions or (keeps_lines and "repaired" in actions)

    @property
    def repairs(self) -> dict[int, tuple[str, str]]:
        """Both sides of each pair that is repaired, by line."""
        return {
            suspect.line: suspect.proposal
            for suspect in self.suspects
            if suspect.action == "repaired" and suspect.proposal is not None
        }

    def write(self, path: Path) -> Path | None:
        """Write the suspects as a table, a row for each line, for whoever wrote the corpus: TSV, or
        CSV by the name. Another table of that name is kept, and its new name returned. The mark at
        the beginning tells spreadsheets that it is UTF-8.
        """
        text = io.StringIO(newline="")
        delimiter = "," if path.suffix.lower() == ".csv" else "\t"
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        writer.writerow(COLUMNS)
        for line, suspects in self.by_line.items():
            first = suspects[0]
            kinds = "; ".join(suspect.kind for suspect in suspects)
            details = "; ".join(filter(None, (suspect.detail for suspect in suspects)))
            proposals = (suspect.proposal for suspect in suspects if suspect.proposal)
            writer.writerow(
                (
                    line,
                    kinds,
                    first.source,
                    first.target,
                    details,
                    *next(proposals, ("", "")),
                )
            )
        return write_table(path, text.getvalue().encode("utf-8-sig"))


def check_files(files: PairFiles, further: Sequence[Judge] = ()) -> CheckReport:
    """Check the pairs of files, which are read several times; further judges see all in memory.

    Raises DataError, with all causes, for files that cannot be read.
    """
    rows = PairReader(files)
    keep = [row != SKIPPED and CUT not in row for row in rows]
    pairs: Sequence[Pair] | Pairs = FilePairs(files, np.array(keep, np.bool_))
    if further or len(pairs) <= IN_MEMORY:
        pairs = tuple(pairs)
    reviewed = frozenset(rows.corrected)
    report = check_pairs(pairs, reviewed)
    suspects = list(report.suspects)
    for judge in further:
        suspects += judge([pair for pair in pairs if pair.line not in reviewed])
    return replace(
        report, suspects=_in_order(suspects), notes=report.notes + rows.notes
    )


def _in_order(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    """Return suspects by line, and the gravest of each line first."""
    order = {kind: number for number, kind in enumerate(KINDS)}
    return tuple(
        sorted(suspects, key=lambda suspect: (suspect.line, order[suspect.kind]))
    )


def check_pairs(pairs: Pairs, reviewed: frozenset[int] = frozenset()) -> CheckReport:
    """Check the pairs of a corpus, but for those in `reviewed` lines, in a few passes over them.

    Memory holds a sample of the pairs, the suspects, and some twenty bytes for each pair.
    """
    stride = 1 + len(pairs) // SAMPLE
    rows = np.arange(len(pairs))
    is_sampled = rows // BLOCK % stride == 0
    sample = [pair for pair, sampled in zip(pairs, is_sampled, strict=True) if sampled]
    checker = PairChecker.learn(sample)
    if checker is None:
        return CheckReport(len(pairs))

    learnt_offsets = np.full(len(pairs), checker.offsets[0])
    suspects, scores = _check(pairs, checker, is_sampled & (learnt_offsets == 0))
    scores_by_offset = {0: scores}
    places = where_translations_stand(scores_by_offset, checker)
    offsets = find_offsets(pairs, places, checker)
    # Learn again, of the pairs as they belong together.
    for _ in range(ROUNDS if offsets else 0):
        own = np.where(stays_in_block(learnt_offsets), learnt_offsets, NOWHERE)
        scores_by_offset = {
            offset: scores_at(pairs, offset, checker, is_sampled & (own == offset))
            for offset in (0, *offsets)
        }
        places = where_translations_stand(scores_by_offset, checker)
        learnt_offsets = np.array(places)
        learnt = learnt_offsets[is_sampled].tolist()
        checker = PairChecker.learn(sample, learnt) or checker
    if offsets:
        suspects, _ = _check(pairs, checker, is_sampled & (learnt_offsets == 0))
    shifts = shifts_of(pairs, places) if any(places) else []
    if shifts:
        shifted = [*shifted_pairs(pairs, places, scores_by_offset, checker)]
        lines = {suspect.line for suspect in shifted}
        suspects = [s for s in suspects if s.line not in lines] + shifted
    suspects = [suspect for suspect in suspects if suspect.line not in reviewed]
    suspects, notes = _without_usual(suspects, len(pairs))
    return CheckReport(len(pairs), _in_order(suspects), tuple(shifts), notes)


def _without_usual(
    suspects: Sequence[Suspect], pairs: int
) -> tuple[list[Suspect], tuple[str, ...]]:
    """Return the suspects but for those of kinds that are usual among the pairs, and sentences on
    these.
    """
    counts = Counter(suspect.kind for suspect in suspects)
    usual = [
        kind for kind, share in MAY_BE_USUAL.items() if counts[kind] > share * pairs
    ]
    notes = [
        f"{kind}: {counted(counts[kind], 'pair')}, so many that it is usual here and no dirt"
        for kind in usual
    ]
    return [s for s in suspects if s.kind not in usual], tuple(notes)


def _check(
    pairs: Pairs,
    checker: PairChecker,
    is_learnt: npt.NDArray[np.bool_],
) -> tuple[list[Suspect], Floats]:
    """Return the suspects, and the score of each pair."""
    suspects = list[Suspect]()
    scores = [np.zeros(0)]
    exact = SeenPairs()
    near = SeenPairs()
    row = 0
    for chunk in chunks(pairs, CHECKED_AT_ONCE):
        learnt = is_learnt[row : row + len(chunk)]
        new, own_scores = checker.check(chunk, learnt)
        suspects += new + _near_duplicates(chunk, exact, near)
        scores.append(own_scores)
        row += len(chunk)
    return suspects, np.concatenate(scores)


def _near_duplicates(
    pairs: Sequence[Pair], exact: SeenPairs, near: SeenPairs
) -> list[Suspect]:
    """Return the pairs that have the letters of an earlier one, but not its other characters."""
    letters = [
        Pair(letters_of(pair.source), letters_of(pair.target), pair.line)
        for pair in pairs
    ]
    is_new = exact.first_seen(pairs)
    has_new_letters = near.first_seen(letters)
    return [
        Suspect(pair.line, "near-duplicate", pair.source, pair.target)
        for pair, own, plain, new_letters in zip(
            pairs, is_new, letters, has_new_letters, strict=True
        )
        if own and not new_letters and plain.source and plain.target
    ]
