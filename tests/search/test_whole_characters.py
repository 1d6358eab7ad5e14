"""Characters in bytes are written whole, by every search, and scores stay those of teacher
forcing.
"""

from __future__ import annotations

import codecs
import itertools
import re
from typing import Any

import pytest
from laws.searching import recomputed
from tables import random_table, source

from regard.data.vocabulary import EOS
from regard.search import SearchSettings, Task, Term, decode
from regard.search.logits_processors import begins_character
from regard.search.search_trace import SearchRecorder

BYTES = {4 + number: bytes([0x80 + number]) for number in range(128)}
V = 4 + len(BYTES) + 3
O_UMLAUT = (4 + 0x43, 4 + 0x36)
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4},
    "wide": {"beam": 40},
    "sample": {"beam": 4, "sample": True},
    "few likeliest": {"beam": 3, "sample": True, "top_k": 5, "top_p": 0.9},
    "groups": {"beam": 4, "groups": 2},
    "no repeats": {"beam": 3, "no_repeat_ngram": 1, "min_length": 4},
}


def written(ids: tuple[int, ...]) -> bytes:
    return b"".join(BYTES.get(token, b"-") for token in ids)


def check(table: Any, tasks: list[Task], settings: SearchSettings) -> int:
    """Check the hypotheses of a search; return how many characters of several bytes they have."""
    count = 0
    for task, hypotheses in zip(
        tasks, decode(table, source(len(tasks)), tasks, settings), strict=True
    ):
        for h in hypotheses:
            count += sum(character != "-" for character in written(h.ids).decode())
            assert h.log_prob == pytest.approx(recomputed(table, task.id, h.ids), abs=1e-4)
    return count


@pytest.mark.parametrize("name", OPTIONS)
def test_characters_are_written_whole(name: str) -> None:
    table = random_table(6, V, max_length=12, end=5.0)
    settings = SearchSettings(**OPTIONS[name])
    tasks = [Task(n, 9 + n % 3, sampling_key=n, byte_tokens=BYTES) for n in range(6)]
    assert check(table, tasks, settings) > 5
    free = decode(table, source(6), [Task(n, 9) for n in range(6)], settings)
    with pytest.raises(UnicodeDecodeError):
        b"".join(written(hypotheses[0].ids) for hypotheses in free).decode()


@pytest.mark.parametrize("name", OPTIONS)
def test_no_target_is_blank(name: str) -> None:
    """With two tokens that are spaces alone among few, one of them is soon the likeliest."""
    table = random_table(20, 14, max_length=12, end=2.0)
    settings = SearchSettings(**OPTIONS[name])
    searched = (
        decode(
            table,
            source(20),
            [Task(n, 9, sampling_key=n, byte_tokens=bytes_) for n in range(20)],
            settings,
        )
        for bytes_ in ({}, {5: b" ", 6: b" "})
    )
    free, ruled = (
        [" ".join(map(str, h.ids)) for hypotheses in found for h in hypotheses]
        for found in searched
    )
    assert any(re.search("(5|6)( 5| 6|$)", ids) for ids in free)
    assert not any(re.search("(5|6)( 5| 6|$)", ids) for ids in ruled)


def test_prefixes_and_terms_may_be_bytes() -> None:
    table = random_table(4, V, max_length=12, end=5.0)
    settings = SearchSettings(beam=6)
    tasks = [
        Task(0, 11, prefix=(4 + 0x62, 4 + 0x02)),
        Task(1, 11, terms=(Term((O_UMLAUT,)),)),
        Task(2, 11),
        Task(3, 11),
    ]
    tasks = [Task(t.id, t.max_steps, t.prefix, t.terms, byte_tokens=BYTES) for t in tasks]
    check(table, tasks, settings)
    first, second, *_ = decode(table, source(4), tasks, settings)
    assert all(written(h.ids)[:2] == b"\xe2\x82" for h in first)
    assert "ö" in written(second[0].ids).decode("utf-8", "ignore")
    for task in tasks:  # alone as among others
        table_of_one = random_table(4, V, max_length=12, end=5.0)
        table_of_one.logits.copy_(table.logits[task.id : task.id + 1].expand(4, -1, -1, -1))
        alone = decode(table_of_one, source(1), [task], settings)
        assert [h.ids for h in alone[0]] == [
            h.ids for h in decode(table, source(4), tasks, settings)[task.id]
        ]


def test_a_trace_shows_the_bytes_that_may_follow() -> None:
    table = random_table(1, V, max_length=12)
    recorder = SearchRecorder(table)
    decode(
        table, source(1), [Task(0, 11, byte_tokens=BYTES)], SearchSettings(beam=3), on_step=recorder
    )
    for step in recorder.steps:
        for candidate in step.candidates:
            if candidate.token != EOS:
                codecs.utf_8_decode(
                    written((*step.prefixes[candidate.beam], candidate.token)), "strict", False
                )


def test_bytes_that_begin_a_character_are_those_of_some_character() -> None:
    codes = (*range(0x80, 0x800), *range(0x800, 0xD800, 64), *range(0xE000, 0x110000, 64))
    for size in (1, 2):
        valid = {chr(code).encode()[:size] for code in codes}
        drawn = (bytes(pair) for pair in itertools.product(range(0x80, 0x100), repeat=size))
        assert {text for text in drawn if begins_character(text)} == valid
