"""Errors survive pickling, so that they can be sent between processes."""

from __future__ import annotations

import pickle

import pytest

from regard import errors
from regard.errors import MissingExtra, RegardError

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RegardError) and kind is not MissingExtra
]


@pytest.mark.parametrize(
    "error", [*(kind("one", "two") for kind in KINDS), MissingExtra("ray", "scale", "this")], ids=repr
)
def test_an_unpickled_error_is_the_same(error: RegardError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.causes, str(copy)) == (type(error), error.causes, str(error))
