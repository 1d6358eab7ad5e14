"""Errors survive pickling, so that they can be sent between processes, and name lines and counts."""

from __future__ import annotations

import pickle

import pytest

from regard.common import errors
from regard.common.counting import counted
from regard.common.errors import LineError, MissingExtra, RegardError

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, RegardError)
    and kind not in (LineError, MissingExtra)
]


@pytest.mark.parametrize(
    "error",
    [
        *(kind("one", "two") for kind in KINDS),
        LineError((0, "one"), (2, "two")),
        MissingExtra("ray", "scale", "this"),
    ],
    ids=repr,
)
def test_an_unpickled_error_is_the_same(error: RegardError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.causes, str(copy)) == (
        type(error),
        error.causes,
        str(error),
    )


def test_the_lines_of_an_error_are_named_in_their_file() -> None:
    error = LineError((0, "has one"), *((n, "has two") for n in range(2, 40)))
    assert error.causes[:2] == ("line 1 has one", "line 3 has two")
    assert error.in_file("text.ko", 11).causes[:2] == (
        "text.ko: line 11 has one",
        "text.ko: line 13 has two",
    )
    assert len(error.in_file("text.ko").causes) == 20


def test_counts_stand_in_the_singular_or_the_plural() -> None:
    assert counted(0, "line") == "0 lines"
    assert counted(12_345, "line") == "12,345 lines"
    assert counted(1, "entry", "entries") == "1 entry"
    assert counted(3, "entry", "entries") == "3 entries"
