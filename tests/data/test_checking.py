"""Suspect pairs are found by what is usual in their own corpus, and good ones are not blamed."""

from __future__ import annotations

import html
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from regard.common.errors import DataError
from regard.data.checking.check import CheckReport, check_files, check_pairs
from regard.data.checking.checked_corpus import checked
from regard.data.checking.key_index import KeyIndex
from regard.data.checking.lexicon import ROUNDS, Lexicon, Stems
from regard.data.checking.numbers import different_numbers
from regard.data.checking.pair_checker import BLOCK, aligned
from regard.data.checking.placeholders import PLACEHOLDERS, placeholders
from regard.data.checking.suspects import HARMLESS
from regard.data.checking.text_damage import (
    has_lost_letters,
    is_spreadsheet_error,
    unescaped,
    ungarbled,
)
from regard.data.corpus import Corpus, read_corpus
from regard.data.file_formats import PairFiles
from regard.data.holdout import hold_out
from regard.data.pairs import Pair
from regard.data.spans import find_spans
from regard.learn.samples import korean_english

Sides = tuple[str, str]
PAIRS = 2_000
PLANTED = 20  # pairs of each kind


@cache
def clean_pairs() -> tuple[Sides, ...]:
    sample = korean_english(sizes={"train": PAIRS})
    return tuple((pair.source, pair.target) for pair in sample.splits["train"])


def report_on(pairs: Sequence[Sides]) -> CheckReport:
    return check_pairs([Pair.read(*sides, line) for line, sides in enumerate(pairs, 1)])


def planted(
    kinds: Sequence[str], seed: int = 7
) -> tuple[list[Sides], dict[str, set[int]]]:
    """Damage some of the pairs in each way; return all pairs, and the lines of each kind."""
    rng = random.Random(seed)
    pairs = [*clean_pairs()]
    rows = iter(rng.sample(range(len(pairs)), len(pairs)))
    lines = {kind: set[int]() for kind in kinds}
    for kind, own in lines.items():
        while len(own) < PLANTED:
            row = next(rows)
            result = DAMAGES[kind](pairs[row], rng)
            if result is not None:
                pairs[row] = result
                own.add(row + 1)
    return pairs, lines


def of_another_row(pair: Sides, rng: random.Random) -> Sides | None:
    other = rng.choice(clean_pairs())
    if len(pair[0]) < 25 or len(other[1]) < 25 or other[1] == pair[1]:
        return None
    return pair[0], other[1]


OTHER_WORDS = [
    "der",
    "die",
    "das",
    "und",
    "nicht",
    "auch",
    "wenn",
    "über",
    "unter",
    "zwischen",
    "Straße",
    "Mädchen",
    "Bücher",
    "Häuser",
    "größer",
    "schöner",
    "spielten",
    "kaufte",
    "gegessen",
    "Frühstück",
    "Abendessen",
    "Krankenhaus",
    "Schwester",
    "Nachbarn",
    "morgen",
    "gestern",
    "Woche",
    "Jahr",
    "niemand",
    "jemand",
    "etwas",
    "früher",
    "später",
    "plötzlich",
    "vielleicht",
    "natürlich",
]

DAMAGES: dict[str, Callable[[Sides, random.Random], Sides | None]] = {
    "swapped": lambda pair, _: (pair[1], pair[0]),
    "garbled": lambda pair, _: (pair[0].encode().decode("latin-1"), pair[1]),
    "lost letters": lambda pair, _: (
        pair[0].encode("ascii", "replace").decode(),
        pair[1],
    ),
    "entities": lambda pair, _: (pair[0], f"{html.escape('<')}{pair[1]}"),
    "spreadsheet error": lambda pair, _: (pair[0], "#REF!"),
    "copy": lambda pair, _: (pair[1], pair[1]) if pair[1].count(" ") > 1 else None,
    "empty": lambda pair, _: (pair[0], " "),
    "no letters": lambda _, rng: (str(rng.random()), str(rng.random())),
    "boilerplate": lambda pair, _: (pair[0], "to be translated"),
    "unrelated": of_another_row,
    "other language": lambda pair, rng: (
        pair[0],
        " ".join(rng.sample(OTHER_WORDS, 7)),
    ),
    "odd length": lambda pair, _: (
        (pair[0], pair[1].split()[0]) if len(pair[1]) > 60 else None
    ),
    "numbers differ": lambda pair, rng: (
        f"{pair[0]} {rng.randrange(50, 60)}",
        f"{pair[1]} {rng.randrange(60, 70)}",
    ),
    "placeholders differ": lambda pair, _: (f"{pair[0]} %s", pair[1]),
}


def test_each_kind_is_found_and_good_pairs_are_not_blamed() -> None:
    pairs, lines = planted([*DAMAGES])
    report = report_on(pairs)
    suspects = {suspect.line for suspect in report.suspects}
    blamed = {s.line for s in report.suspects if s.kind not in HARMLESS}
    good = {*range(1, PAIRS + 1)}.difference(*lines.values())

    for kind, own in lines.items():
        assert len(suspects & own) >= 0.95 * PLANTED, kind
        named = {s.line for s in report.suspects if s.kind == kind}
        # In a corpus of few words, other words are rather unrelated than of another language.
        assert named & own or kind == "other language", kind
    assert len(blamed & good) <= 0.01 * len(good)
    assert not report.shifts


@pytest.mark.parametrize(
    ("first", "offset"),
    [
        pytest.param(700, 1, marks=pytest.mark.slow),
        pytest.param(1201, -2, marks=pytest.mark.slow),
        (1700, 5),
        pytest.param(150, -3, marks=pytest.mark.slow),
    ],
)
def test_the_line_from_which_sides_are_shifted_is_named(
    first: int, offset: int
) -> None:
    sources = [source for source, _ in clean_pairs()]
    targets = [target for _, target in clean_pairs()]
    start = first - 1
    if offset > 0:
        targets[start:start] = ["something else"] * offset
    else:
        del targets[start : start - offset]
    report = report_on([*zip(sources, targets, strict=False)])

    assert [shift.offset for shift in report.shifts] == [offset]
    assert abs(report.shifts[0].first - first) <= 50
    assert report.shifts[0].last >= PAIRS - 50


@pytest.mark.parametrize("on_disk", [pytest.param(False, marks=pytest.mark.slow), True])
def test_training_gets_the_translations_of_shifted_lines(
    tmp_path: Path, on_disk: bool
) -> None:
    clean = clean_pairs()
    targets = [target for _, target in clean]
    targets[800:1101] = [*targets[802:1101], "#REF!", "#REF!"]
    sources = [source for source, _ in clean]
    pairs = [*zip(sources, targets, strict=True)]
    corpus = read_corpus(write_pairs(tmp_path / "a.tsv", pairs), on_disk=on_disk)
    right, report = checked(corpus, "suspects.tsv")

    (shift,) = report.shifts
    assert shift.offset == -2
    by_line = {pair.line: (pair.source, pair.target) for pair in right}
    trained = [line for line in range(801, 1100) if line in by_line]
    assert len(trained) > 270
    wrong = [line for line in trained if by_line[line] != clean[line - 1]]
    assert len(wrong) <= 15  # at the edges


@pytest.mark.parametrize("offset", [-5, 0, 3])
def test_rows_whose_translation_is_in_another_block_make_no_pair(offset: int) -> None:
    size = 2 * BLOCK + 30
    sample = [Pair(f"s{row}", f"t{row}", row) for row in range(size)]
    expected = [
        (f"s{row}", f"t{row + offset}")
        for first, end in ((0, BLOCK), (BLOCK, 2 * BLOCK), (2 * BLOCK, size))
        for row in range(first, end)
        if row + offset in range(first, end)
    ]
    pairs = aligned(sample, [offset] * size)
    assert [(pair.source, pair.target) for pair in pairs] == expected


def test_exchanged_blocks_are_named() -> None:
    sources = [source for source, _ in clean_pairs()]
    targets = [target for _, target in clean_pairs()]
    targets[1000:1200], targets[1200:1400] = targets[1200:1400], targets[1000:1200]
    (shift,) = report_on([*zip(sources, targets, strict=True)]).shifts

    assert shift.offset is None
    assert abs(shift.first - 1001) <= 50
    assert abs(shift.last - 1400) <= 50


def test_a_clean_corpus_is_not_blamed() -> None:
    report = report_on(clean_pairs())
    blamed = Counter(s.kind for s in report.suspects if s.kind not in HARMLESS)

    assert blamed.total() <= 0.01 * PAIRS, blamed
    assert not report.shifts


@pytest.mark.parametrize(
    "count", [20, 60, 100, 150, pytest.param(250, marks=pytest.mark.slow)]
)
def test_few_pairs_are_not_blamed_by_chance(count: int) -> None:
    pairs = clean_pairs()
    for start in range(0, PAIRS - count, PAIRS // 5):
        report = report_on(pairs[start : start + count])
        suspects = [s for s in report.suspects if s.kind not in HARMLESS]
        assert not report.shifts
        assert len(suspects) <= 0.02 * count


def letters(rng: random.Random) -> str:
    return " ".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 12)))


TASKS: dict[str, Callable[[str, random.Random], str]] = {
    "copy": lambda text, _: text,
    "reverse": lambda text, _: text[::-1],
    "sort": lambda text, _: " ".join(sorted(text.split())),
    "classify": lambda text, _: "early" if text < "m" else "late",
    "correct": lambda text, rng: text.replace("a", "e") if rng.random() < 0.5 else text,
}


@pytest.mark.parametrize("task", TASKS)
def test_what_is_usual_in_a_task_is_no_dirt(task: str) -> None:
    rng = random.Random(4)
    sources = [letters(rng) for _ in range(1000)]
    report = report_on([(source, TASKS[task](source, rng)) for source in sources])
    assert report.suspects == ()
    assert report.shifts == ()
    assert bool(report.notes) == (task in ("classify", "correct"))


def test_keys_are_no_translations_some_lines_away() -> None:
    pairs = [(f"ui.menu.{n:05}", target) for n, (_, target) in enumerate(clean_pairs())]
    assert all(shift.offset is None for shift in report_on(pairs).shifts)
    words = [(f"{n} {n}", target) for n, (_, target) in enumerate(clean_pairs())]
    assert not any(s.proposal for s in report_on(words).suspects)


def test_few_pairs_are_not_judged() -> None:
    assert report_on([("나", "I"), ("너", "you")] * 5).suspects == ()
    assert report_on([]).suspects == ()


def expectation_maximisation(
    pairs: Sequence[tuple[list[str], list[str]]], null: float = 0.1
) -> dict[tuple[str, str], float]:
    """Return expected counts of IBM model 1, in the plainest Python."""
    all_targets = [word for _, targets in pairs for word in targets]
    background = {
        word: count / len(all_targets) for word, count in Counter(all_targets).items()
    }
    counts = Counter[tuple[str, str]]()
    for sources, targets in pairs:
        for source in sources:
            for target in targets:
                counts[source, target] = 1
    for _ in range(ROUNDS):
        totals = Counter[str]()
        for (source, _), count in counts.items():
            totals[source] += count
        chance = {key: count / totals[key[0]] for key, count in counts.items()}
        counts = Counter()
        for sources, targets in pairs:
            for target in targets:
                norm = null * background[target]
                norm += sum(chance[source, target] for source in sources)
                for source in sources:
                    counts[source, target] += chance[source, target] / norm
    return counts


def learn(texts: Sequence[Sides]) -> tuple[Lexicon, tuple[Stems, Stems], list[str]]:
    """Return the lexicon of texts, the stems of both sides, and the names of its pairs."""
    tables = dict[str, int](), dict[str, int]()
    sides = (
        Stems([source for source, _ in texts], tables[0]),
        Stems([target for _, target in texts], tables[1]),
    )
    sizes = len(tables[0]), len(tables[1])
    lexicon = Lexicon.learn(*sides, np.arange(len(texts)), sizes)
    sources, targets = ([*table] for table in tables)
    pairs = [
        f"{sources[key // sizes[1]]} {targets[key % sizes[1]]}"
        for key in lexicon.index.keys.tolist()
    ]
    return lexicon, sides, pairs


def test_the_lexicon_is_that_of_the_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.checking.lexicon.LEARNT_AT_ONCE", 2)
    texts = [("a b", "x y"), ("a", "x"), ("b c", "y z"), ("c", "z x"), ("a c d", "x")]
    lexicon, _, pairs = learn(texts)
    forth = expectation_maximisation([(s.split(), t.split()) for s, t in texts])
    back = expectation_maximisation([(t.split(), s.split()) for s, t in texts])

    counts = lexicon.counts[:-1].T
    assert dict(zip(pairs, counts[0], strict=True)) == pytest.approx(
        {f"{source} {target}": count for (source, target), count in forth.items()}
    )
    assert dict(zip(pairs, counts[1], strict=True)) == pytest.approx(
        {f"{source} {target}": count for (target, source), count in back.items()}
    )


def test_a_pair_teaches_nothing_about_itself() -> None:
    """Words that occur in one pair alone do not speak for it."""
    lexicon, sides, _ = learn(
        [("a b", "x y"), ("a b", "x y"), ("e f", "v w"), ("a e", "x v")]
    )
    rows = np.arange(4)
    with_itself, _ = lexicon.scores(*sides, rows, is_learnt=False)
    alone, _ = lexicon.scores(*sides, rows, is_learnt=True)

    assert (alone < with_itself).all()
    assert alone[0] > alone[2]


def test_keys_are_looked_up_as_in_a_dictionary() -> None:
    rng = np.random.default_rng(3)
    for size in (0, 1, 3, 2_000):
        keys = np.unique(rng.integers(0, 4 * size + 1, size)) << 20
        wanted = rng.integers(0, 4 * size + 1, 3 * size) << 20
        places = {key: place for place, key in enumerate(keys.tolist())}
        expected = [places.get(key, -1) for key in wanted.tolist()]
        assert KeyIndex(keys).places(wanted).tolist() == expected


def test_damage_of_texts_is_repaired() -> None:
    for encoding in ("cp1252", "cp1250", "cp437", "latin-1"):
        assert ungarbled("über".encode().decode(encoding)) == "über"
    for text in ("über", "나는", "Рёбра", "plain", "100 °C – Ångström"):
        assert ungarbled(text) == text

    assert unescaped("Caf&eacute; &amp; bar &#228;") == "Café & bar ä"
    assert unescaped("AT&T; R&D") == "AT&T; R&D"
    assert has_lost_letters("?? ???", "나는 간다")
    assert has_lost_letters("w?ska", "wąska")
    assert not has_lost_letters("Was? Ja!", "뭐? 네!")
    assert not has_lost_letters("a.com/?q=1", "a.com")
    assert is_spreadsheet_error(" #N/A ")
    assert not is_spreadsheet_error("#1 in the charts")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("1,000 dogs", "1.000 Hunde"),
        ("1,234,567 of 20", "1 234 567 von 20"),
        ("at 3 pm", "um 15 Uhr"),
        ("the 1990s", "les années 90"),
        ("1, 200 and 300", "1, 200 und 300"),
        ("two of 5", "2 von 5"),
        ("0.125", "0,125"),
    ],
)
def test_numbers_are_equal_in_any_notation(source: str, target: str) -> None:
    lost, invented = different_numbers(source, target)
    assert not lost or not invented


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("1,000 dogs", "1.005 Hunde"),
        ("C8 and C8", "C10 und C8"),
        ("2.00 euros", "9 Euro"),
        ("200, 300", "200, 301"),
    ],
)
def test_other_numbers_are_lost_and_invented(source: str, target: str) -> None:
    assert all(different_numbers(source, target))


def test_several_variants_are_found_by_unusual_signs() -> None:
    pairs = [*clean_pairs()]
    rows = [row for row, (_, target) in enumerate(pairs) if 25 < len(target) < 40]
    masks = ["{} / {}", "{} | {}", "{}; {}", "1. {} 2. {}", "{}|{}"]
    cells = {}
    for row, other, mask in zip(rows, reversed(rows), masks, strict=False):
        source, target = pairs[row]
        cells[row + 1] = source, target
        pairs[row] = source, mask.format(target, clean_pairs()[other][1])
    variants = {
        suspect.line: suspect.proposal
        for suspect in report_on(pairs).suspects
        if suspect.kind == "several variants"
    }
    assert {line: variants.get(line) for line in cells} == cells


def test_a_sign_that_is_usual_in_a_corpus_says_less() -> None:
    pairs = []
    for source, target in clean_pairs():
        words = target.split()
        middle = len(words) // 2
        pairs.append(
            (source, f"{' '.join(words[:middle])} / {' '.join(words[middle:])}")
        )
    kinds = Counter(suspect.kind for suspect in report_on(pairs).suspects)
    assert kinds["several variants"] <= 0.01 * PAIRS


def test_placeholders_have_a_sign_of_them() -> None:
    """What has none of the signs is not searched for placeholders."""
    rng = random.Random(5)
    for _ in range(20_000):
        text = "".join(rng.choices("aZ9 .:/%{}$#<>@_[]{1}&'1", k=12))
        spans = [s for s in find_spans(text) if s.kind in PLACEHOLDERS]
        assert len(placeholders(text)) == len(spans), text


def write_pairs(path: Path, pairs: Sequence[Sides]) -> PairFiles:
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    path.write_text("".join(lines), encoding="utf-8")
    return PairFiles(pairs=path)


@pytest.mark.parametrize("on_disk", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_training_gets_pairs_that_are_put_right(tmp_path: Path, on_disk: bool) -> None:
    pairs, lines = planted(["swapped"])
    swapped = lines["swapped"]
    wrong = pairs.index(next(p for p in pairs if len(p[0]) > 30)) + 1
    pairs[wrong - 1] = (pairs[wrong - 1][0], "#REF!")
    corpus = read_corpus(write_pairs(tmp_path / "a.tsv", pairs), on_disk=on_disk)
    right, _ = checked(corpus, "suspects.tsv")
    by_line = {pair.line: (pair.source, pair.target) for pair in right}

    repaired = {line for line in swapped if by_line[line] == clean_pairs()[line - 1]}
    assert len(repaired) >= 0.95 * len(swapped)
    assert wrong not in by_line
    assert len(right) == len(by_line)
    assert any(note.startswith("swapped: ") for note in right.report.notes)

    links, _ = checked(corpus, "suspects.tsv", has_links=True)
    assert not repaired & {pair.line for pair in links}

    _, held_out = hold_out({"train": right}, seed=1, count=400)
    assert not right.suspects & {pair.line for pair in held_out}


def test_a_corpus_of_which_most_is_shifted_is_refused(tmp_path: Path) -> None:
    sources = [source for source, _ in clean_pairs()]
    targets = [target for _, target in clean_pairs()]
    pairs = [*zip(sources[:500], targets[:500], strict=True)]
    pairs += zip(sources[500:], targets[503:], strict=False)
    corpus = read_corpus(write_pairs(tmp_path / "a.tsv", pairs))
    with pytest.raises(DataError, match="translations stand 3 lines above"):
        checked(corpus, "suspects.tsv")


def test_files_are_checked_as_their_pairs_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = planted(["unrelated"])[0][:800]
    files = write_pairs(tmp_path / "a.tsv", pairs)
    in_memory = check_files(files)
    monkeypatch.setattr("regard.data.checking.check.IN_MEMORY", 10)
    monkeypatch.setattr("regard.data.checking.check.CHECKED_AT_ONCE", 256)

    assert check_files(files) == in_memory == report_on(pairs)


def test_a_corpus_keeps_its_suspects_when_pairs_are_held_out() -> None:
    corpus = Corpus((Pair("a", "b", 1), Pair("c", "d", 2)), report=_report())
    kept = replace(corpus, suspects=frozenset({2})).keep(np.array([False, True]))
    assert kept.suspects == {2}


def _report() -> object:
    from regard.data.pairs import CorpusReport

    return CorpusReport("train", ("a",), 2, 2)
