"""JSON and forms of the largest size: read, or refused, without work and memory that grow with what
is unknown.
"""

from __future__ import annotations

import tracemalloc

import pytest

from regard.serving.http_errors import HttpError
from regard.serving.libretranslate import TranslateParameters
from regard.serving.requests import parse_json_object

MOST = 1_000
LARGE = 1 << 20


def read(body: bytes) -> tuple[dict[str, object], int]:
    """Return the values, and the most memory that reading them took."""
    tracemalloc.start()
    try:
        values = parse_json_object(body, TranslateParameters, MOST)
        return values, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_unknown_names_are_passed_over_without_a_trace() -> None:
    names = b"".join(
        b'"name%d": [{"a": 1}], ' % number for number in range(LARGE // 20)
    )
    values, memory = read(b"{" + names + b'"q": "a"}')
    assert values == {"q": "a"}
    assert memory < 100_000


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"q": [' + b"[]," * LARGE + b"1]}", r"`q\[0\]`: wanted a text"),
        (b'{"x": ' + b"[" * LARGE, "nested too deeply"),
        (b'{"q": [' + b"1," * LARGE + b"1]}", "`q` has more than 1,000 values"),
    ],
)
def test_what_is_too_much_is_not_made(body: bytes, sentence: str) -> None:
    with pytest.raises(HttpError, match=sentence):
        read(body)


def test_the_last_of_two_values_counts() -> None:
    assert read(b'{"q": "a", "q": ["b"], "api_key": 5}')[0] == {
        "q": ["b"],
        "api_key": 5,
    }
