"""Translations that break a string of a program, by the judge of contracts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from regard.common.counting import counted
from regard.contracts.dialects import PLAIN, get_dialect, table
from regard.contracts.judge import judge
from regard.contracts.recognise import recognise
from regard.data.checking.suspects import Suspect
from regard.data.pairs import Pair
from regard.text.contracts import AUTO

_BY_FLAG = "by flag"
_GIVEN = "as given"
_RECOGNISED = "recognised from all together"


def flagged_dialect(flags: Sequence[str]) -> str | None:
    """Return the dialect that the flags of an entry name, plain if they only deny one, such as
    no-c-format; None if they do neither.
    """
    known = table()["flags"]
    dialects = [known[flag] for flag in flags if flag in known]
    denied = [flag for flag in flags if flag.removeprefix("no-") in known]
    return next(iter(dialects), PLAIN if denied else None)


class StringJudge:
    """Judge of the strings of a file by the dialect of each; `notes` then say by which.

    - `name`: a dialect for all strings; `auto` for that of an entry's flags, else the one that all
      strings without flags speak for together; none for entries with flags alone.
    - `flags`: the flags of entries by line.
    """

    def __init__(self, name: str | None, flags: Mapping[int, Sequence[str]]) -> None:
        self.name = name
        self.flags = flags
        self.notes: tuple[str, ...] = ()

    def __call__(self, pairs: Sequence[Pair]) -> list[Suspect]:
        """Return the pairs whose target does not keep the contract of its source."""
        # An empty target is not translated yet, which breaks no program.
        pairs = [pair for pair in pairs if pair.target]
        dialects = self._dialects(pairs)
        counts = Counter(dialects.values())
        self.notes = tuple(
            f"{counted(count, 'string')} judged as {dialect} ({reason})"
            for (dialect, reason), count in counts.items()
        )
        return [
            suspect
            for pair in pairs
            if pair.line in dialects
            for suspect in _broken(pair, dialects[pair.line][0])
        ]

    def _dialects(self, pairs: Sequence[Pair]) -> dict[int, tuple[str, str]]:
        """Return the dialect of each line, with how it is known."""
        if self.name not in (None, AUTO):
            given = get_dialect(str(self.name)).name
            return {pair.line: (given, _GIVEN) for pair in pairs}
        dialects = dict[int, tuple[str, str]]()
        others = list[Pair]()
        for pair in pairs:
            flagged = flagged_dialect(self.flags.get(pair.line, ()))
            if flagged is None:
                others.append(pair)
            else:
                dialects[pair.line] = flagged, _BY_FLAG
        if self.name is None:
            return dialects
        recognised = recognise(pair.source for pair in others)
        return dialects | {pair.line: (recognised, _RECOGNISED) for pair in others}


def _broken(pair: Pair, dialect: str) -> Iterator[Suspect]:
    """Yield a pair as a suspect if its target has faults."""
    faults = judge(pair.source, pair.target, dialect)
    if faults:
        detail = "; ".join(f"{f.kind}: {f.what} {f.detail}" for f in faults)
        yield Suspect(pair.line, "broken string", pair.source, pair.target, detail)
