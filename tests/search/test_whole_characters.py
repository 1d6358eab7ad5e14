"""Characters in bytes are written whole, by every search, and scores stay those of teacher
forcing.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from laws.searching import recomputed
from tables import random_table, source, tasks_of

from regard.search import Hypothesis, SearchSettings, Task, Term, decode
from regard.search.logits_processors import begins_character

BYTES = {4 + number: bytes([0x80 + number]) for number in range(128)}
V = 4 + len(BYTES) + 3
O_UMLAUT = (4 + 0x43, 4 + 0x36)
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "wide": {"beam": 40},
    "few likeliest": {"beam": 3, "sample": True, "top_k": 5, "top_p": 0.9},
    "groups": {"beam": 4, "groups": 2},
    "no repeats": {"beam": 3, "no_repeat_ngram": 1, "min_length": 4},
}


def written(ids: tuple[int, ...]) -> bytes:
    return b"".join(BYTES.get(token, b"-") for token in ids)


def check(
    table: Any,
    tasks: list[Task],
    settings: SearchSettings,
) -> list[list[Hypothesis]]:
    """Check that the hypotheses of a search have characters of several bytes; return them."""
    results = decode(table, source(len(tasks)), tasks, settings)
    characters = ""

    for task, hypotheses in zip(tasks, results, strict=True):
        for h in hypotheses:
            characters += written(h.ids).decode()
            assert h.log_prob == pytest.approx(
                recomputed(table, task.id, h.ids), abs=1e-4
            )

    assert len(characters.replace("-", "")) > 5

    return results


@pytest.mark.parametrize("name", OPTIONS)
def test_characters_are_written_whole(name: str) -> None:
    table = random_table(6, V, max_length=12, end=5.0)
    settings = SearchSettings(**OPTIONS[name])

    tasks = [Task(n, 9 + n % 3, sampling_key=n, byte_tokens=BYTES) for n in range(6)]
    check(table, tasks, settings)

    tasks = tasks_of(6, 9)
    free = decode(table, source(6), tasks, settings)
    texts = [written(hypotheses[0].ids) for hypotheses in free]

    with pytest.raises(UnicodeDecodeError):
        b"".join(texts).decode()


@pytest.mark.parametrize("name", OPTIONS)
def test_no_target_is_blank(name: str) -> None:
    """With two tokens that are spaces alone among few, one of them is soon the likeliest."""
    table = random_table(20, 14, max_length=12, end=2.0)
    settings = SearchSettings(**OPTIONS[name])

    def has_blanks(byte_tokens: dict[int, bytes]) -> bool:
        tasks = [Task(n, 9, sampling_key=n, byte_tokens=byte_tokens) for n in range(20)]
        results = decode(table, source(20), tasks, settings)
        for hypothesis in itertools.chain(*results):
            text = " ".join(map(str, hypothesis.ids))
            if re.search("(5|6)( 5| 6|$)", text):
                return True
        return False

    assert has_blanks({})
    assert not has_blanks({5: b" ", 6: b" "})


def test_prefixes_and_terms_may_be_bytes() -> None:
    table = random_table(2, V, max_length=12, end=5.0)
    tasks = [
        Task(0, 11, prefix=(4 + 0x62, 4 + 0x02), byte_tokens=BYTES),
        Task(1, 11, terms=(Term((O_UMLAUT,)),), byte_tokens=BYTES),
    ]
    prefixed, with_term = check(table, tasks, SearchSettings(beam=6))

    assert all(written(h.ids)[:2] == b"\xe2\x82" for h in prefixed)
    assert "ö" in written(with_term[0].ids).decode()


def test_bytes_that_begin_a_character_are_those_of_some_character() -> None:
    codes = (
        *range(0x80, 0x800),
        *range(0x800, 0xD800, 64),
        *range(0xE000, 0x110000, 64),
    )
    for size in (1, 2):
        valid = {chr(code).encode()[:size] for code in codes}
        all_pairs = map(bytes, itertools.product(range(0x80, 0x100), repeat=size))
        assert {text for text in all_pairs if begins_character(text)} == valid
