"""Make tables with known dirt of clean pairs, as people have them, and measure what is found.

    python benchmarks/dirty_tables.py SOURCE TARGET [--seed 1] [--share 0.1]
    python benchmarks/dirty_tables.py PAIRS.tsv.gz

prints, for each kind of dirt, how many rows hold it and how many of these are found, and how many
good rows are blamed. Mixes and rows are drawn with the seed.
"""
# ruff: noqa: ARG001 (all kinds of dirt are made by functions of one signature)

from __future__ import annotations

import argparse
import gzip
import html
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from regard.data.checking.check import check_pairs
from regard.data.checking.suspects import Suspect
from regard.data.pairs import Pair

Row = tuple[str, str]
ENCODINGS = ("cp1252", "latin-1", "cp1250", "cp1251", "cp437")
"""Encodings in which UTF-8 is wrongly read."""
ERRORS = ("#REF!", "#N/A", "#VALUE!", "#NAME?", "#DIV/0!")
BOILERPLATE = "TODO"


def garbled(text: str, rng: random.Random) -> str | None:
    """Read the UTF-8 of a text in another encoding; None if it has only ASCII letters."""
    for encoding in rng.sample(ENCODINGS, len(ENCODINGS)):
        try:
            result = text.encode().decode(encoding)
        except UnicodeDecodeError:
            continue
        if result != text:
            return result
    return None


def swapped(pair: Row, rng: random.Random) -> Row | None:
    return (pair[1], pair[0]) if pair[0] != pair[1] else None


def mojibake(pair: Row, rng: random.Random) -> Row | None:
    sides = [garbled(text, rng) for text in pair]
    if sides[1] is not None and (sides[0] is None or rng.random() < 0.7):
        return pair[0], sides[1]
    if sides[0] is not None:
        return sides[0], pair[1]
    return None


def lost_letters(pair: Row, rng: random.Random) -> Row | None:
    target = pair[1].encode("ascii", "replace").decode()
    return (pair[0], target) if target.count("?") > pair[1].count("?") + 1 else None


def entities(pair: Row, rng: random.Random) -> Row | None:
    def escaped(text: str) -> str:
        return html.escape(text).replace("ä", "&auml;").replace("é", "&#233;")

    result = escaped(pair[0]), escaped(pair[1])
    return result if result != pair else None


def copied(pair: Row, rng: random.Random) -> Row | None:
    side = pair[rng.random() < 0.3]
    return (side, side) if len(side.split()) > 2 and pair[0] != pair[1] else None


def spreadsheet_error(pair: Row, rng: random.Random) -> Row | None:
    return pair[0], rng.choice(ERRORS)


def numbers_alone(pair: Row, rng: random.Random) -> Row | None:
    number = str(rng.randrange(10_000))
    return number, number


def other_number(pair: Row, rng: random.Random) -> Row | None:
    if not re.search(r"\d", pair[0]) or not re.search(r"\d", pair[1]):
        return None
    target = re.sub(
        r"\d+", lambda m: str(int(m[0]) + rng.randint(1, 8)), pair[1], count=1
    )
    return pair[0], target


def lost_placeholder(pair: Row, rng: random.Random) -> Row | None:
    target = re.sub(r"%(\d\$)?[sS]|\{[^{}]+\}", "", pair[1], count=1)
    return (pair[0], target) if target != pair[1] and target.strip() else None


def empty(pair: Row, rng: random.Random) -> Row | None:
    return (pair[0], "") if rng.random() < 0.7 else ("", pair[1])


def boilerplate(pair: Row, rng: random.Random) -> Row | None:
    return pair[0], BOILERPLATE


def cut(pair: Row, rng: random.Random) -> Row | None:
    words = pair[1].split()
    return (pair[0], words[0]) if len(words) > 9 else None


def glued(pair: Row, rng: random.Random, other: Row) -> Row | None:
    """Put the translation of another row into the cell too."""
    if len(other[1]) < 2 * len(pair[1]) or len(other[1]) < 60:
        return None
    return pair[0], f"{pair[1]} {other[1]}"


def variants(pair: Row, rng: random.Random, other: Row) -> Row | None:
    sign = rng.choice([" / ", "; ", " | "])
    lengths = sorted(map(len, (pair[1], other[1])))
    if sign.strip() in pair[0] or lengths[1] > 40 or lengths[1] > 1.6 * lengths[0]:
        return None
    return pair[0], f"{pair[1]}{sign}{other[1]}"


def misaligned(pair: Row, rng: random.Random, other: Row) -> Row | None:
    if min(len(pair[0]), len(other[1])) < 25:
        return None
    return pair[0], other[1]


ALONE: dict[str, Callable[[Row, random.Random], Row | None]] = {
    "swapped": swapped,
    "garbled": mojibake,
    "lost letters": lost_letters,
    "entities": entities,
    "copy": copied,
    "spreadsheet error": spreadsheet_error,
    "numbers alone": numbers_alone,
    "other number": other_number,
    "lost placeholder": lost_placeholder,
    "empty": empty,
    "boilerplate": boilerplate,
    "odd length": cut,
}
WITH_OTHER: dict[str, Callable[[Row, random.Random, Row], Row | None]] = {
    "glued": glued,
    "several variants": variants,
    "misaligned": misaligned,
}


def dirty(
    pairs: Sequence[Row], foreign: Sequence[str], share: float, seed: int
) -> tuple[list[Row], list[str]]:
    """Return the pairs with dirt in a share of them, and the kind of dirt of each row."""
    rng = random.Random(seed)
    rows = list(pairs)
    kinds = [""] * len(rows)
    names = [*ALONE, *WITH_OTHER, "duplicate", *(["wrong language"] if foreign else [])]
    weights = {name: rng.uniform(0.5, 2) for name in names}
    total = sum(weights.values())
    free = list(range(len(rows)))
    rng.shuffle(free)
    for name in names:
        wanted = round(len(rows) * share * weights[name] / total)
        taken = 0
        for row in list(free):
            if taken == wanted:
                break
            pair = pairs[row]
            other = pairs[rng.randrange(len(pairs))]
            if name in ALONE:
                result = ALONE[name](pair, rng)
            elif name in WITH_OTHER:
                result = WITH_OTHER[name](pair, rng, other)
            elif name == "duplicate":
                result = other
            else:
                line = rng.choice(foreign)
                result = (pair[0], line) if len(line) > 25 else None
            if result is not None:
                rows[row] = result
                kinds[row] = name
                free.remove(row)
                taken += 1
    return rows, kinds


def read_pairs(paths: Sequence[Path]) -> list[Row]:
    if len(paths) == 2:
        sides = [path.read_text("utf-8").splitlines() for path in paths]
        return list(zip(*sides, strict=True))
    opened = gzip.open if paths[0].suffix == ".gz" else open
    with opened(paths[0], "rt", encoding="utf-8") as file:
        return [tuple(line.rstrip("\n").split("\t")[:2]) for line in file]  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--foreign", type=Path, help="lines of another language")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.12)
    parser.add_argument("--shown", type=int, default=0, help="examples of each mistake")
    args = parser.parse_args()
    pairs = read_pairs(args.files)
    foreign = args.foreign.read_text("utf-8").splitlines() if args.foreign else []
    rows, kinds = dirty(pairs, foreign, args.share, args.seed)

    start = time.process_time()
    checked = check_pairs([Pair.read(*row, line) for line, row in enumerate(rows, 1)])
    seconds = time.process_time() - start
    for shift in checked.shifts:
        print(shift.describe())
    report(rows, kinds, checked.suspects, args.shown)
    print(f"{len(rows):,} rows in {seconds:.1f} s of processor time")


def report(
    rows: Sequence[Row], kinds: Sequence[str], suspects: Sequence[Suspect], shown: int
) -> None:
    by_row = defaultdict[int, set[str]](set)
    for suspect in suspects:
        if suspect.kind != "near-duplicate":
            by_row[suspect.line - 1].add(suspect.kind)
    counts = Counter(kinds)
    for kind in sorted(counts):
        of_kind = [row for row, name in enumerate(kinds) if name == kind]
        blamed = [row for row in of_kind if by_row[row]]
        named = Counter(name for row in of_kind for name in by_row[row])
        share = len(blamed) / len(of_kind)
        print(
            f"{kind or 'good':20} {len(of_kind):6} {share:7.1%}  {dict(named.most_common(6))}"
        )
        wrong = blamed if not kind else [row for row in of_kind if not by_row[row]]
        for row in random.Random(1).sample(wrong, min(shown, len(wrong))):
            print(
                "      ", sorted(by_row[row]), rows[row][0][:70], "⇥", rows[row][1][:70]
            )


if __name__ == "__main__":
    sys.exit(main())
