"""The judge of translated strings: does what came out keep the contract of what went in?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache

from regard.contracts.codes import code_faults
from regard.contracts.dialects import PLAIN, get_dialect, table
from regard.contracts.faults import Fault
from regard.contracts.messages import Part, Selector, read
from regard.contracts.prose import prose_faults

Pairs = list[tuple[Part, Part]]
PartFaults = Callable[[Part, Part], list[Fault]]
"""Faults that a part of a string has beside a part of its source."""


def judge(source: str, target: str, dialect: str = PLAIN) -> list[Fault]:
    """Return the faults of a translation; none if it keeps the contract of its source.

    `dialect` is a dialect of `dialects.json` or the flag of a file format, such as `c-format`. A
    source that is malformed in its dialect is judged as plain text.
    """
    return _faults(source, target, dialect, _all_faults)


def judge_code(source: str, target: str, dialect: str = PLAIN) -> list[Fault]:
    """Return the faults of the code of a translation, without those of its words."""
    return _faults(source, target, dialect, _code_faults)


def _faults(
    source: str, target: str, dialect: str, part_faults: PartFaults
) -> list[Fault]:
    wanted = _read_source(source, dialect)
    given = read(target, wanted.dialect)
    if given.problem and not wanted.problem:
        return [Fault("malformed", target, given.problem)]
    pairs = [(wanted, given)]
    faults = list[Fault]()
    while pairs:
        source_part, target_part = pairs.pop()
        faults += part_faults(source_part, target_part)
        for selectors in _selectors(source_part, target_part):
            faults += _branch_faults(*selectors, pairs, part_faults)
    return list(dict.fromkeys(faults))


@lru_cache(maxsize=256)
def _read_source(text: str, dialect: str) -> Part:
    """Return the parts of a source, with which several translations may be compared."""
    return read(text, get_dialect(dialect))


def _all_faults(source: Part, target: Part) -> list[Fault]:
    return [*code_faults(source, target), *prose_faults(source, target)]


def _code_faults(source: Part, target: Part) -> list[Fault]:
    return [*code_faults(source, target)]


def _selectors(source: Part, target: Part) -> Iterator[tuple[Selector, Selector]]:
    """Yield the selectors of equal heads; what lacks a partner is a fault of spans."""
    ours = defaultdict[str, list[Selector]](list)
    for selector in reversed(target.selectors):
        ours[selector.head].append(selector)
    for selector in source.selectors:
        if ours[selector.head]:
            yield selector, ours[selector.head].pop()


def _branch_faults(
    source: Selector, target: Selector, pairs: Pairs, part_faults: PartFaults
) -> Iterator[Fault]:
    """Yield the lost and invented branches, and add those to compare to `pairs`."""
    categories = {*table()["categories"]} - {source.default}
    wanted = dict(source.branches)
    given = dict(target.branches)
    for key in (key for key in wanted if key not in given.keys() | categories):
        yield Fault("branch", key, f"is a branch of {source.head} that is lost")
    for key, part in given.items():
        if key in wanted and key not in categories:
            pairs.append((wanted[key], part))
        elif key in categories:
            default = wanted[source.default]
            partners = (wanted.get(key, default), default)
            best = min(partners, key=lambda partner: len(part_faults(partner, part)))
            pairs.append((best, part))
        else:
            yield Fault("branch", key, f"is a branch that {source.head} does not have")
