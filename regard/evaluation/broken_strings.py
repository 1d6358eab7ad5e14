"""Translations that break a string of a program, by the judge of contracts."""

from __future__ import annotations

from collections.abc import Sequence

from regard.contracts.dialects import get_dialect
from regard.contracts.judge import judge
from regard.contracts.recognise import recognise
from regard.data.checking.suspects import Suspect
from regard.data.pairs import Pair
from regard.text.contracts import AUTO


def dialect_of(name: str, pairs: Sequence[Pair]) -> str:
    """Return the dialect of that name, or the one that the sources of pairs speak for.

    Raises UsageError for a dialect that is not known.
    """
    if name == AUTO:
        return recognise(pair.source for pair in pairs)
    return get_dialect(name).name


def broken_strings(pairs: Sequence[Pair], dialect: str) -> list[Suspect]:
    """Return the pairs whose target does not keep the contract of its source, with the faults."""
    suspects = []
    for pair in pairs:
        faults = judge(pair.source, pair.target, dialect)
        if faults:
            detail = "; ".join(f"{f.kind}: {f.what} {f.detail}" for f in faults)
            suspects.append(
                Suspect(pair.line, "broken string", pair.source, pair.target, detail)
            )
    return suspects
