"""Errors arrive whole in another process."""

from __future__ import annotations

import pickle

import pytest

from regard import errors
from regard.errors import MissingExtra, RegardError

KINDS = [
    kind
    for kind in (getattr(errors, name) for name in errors.__all__)
    if issubclass(kind, RegardError) and kind is not MissingExtra
]


@pytest.mark.parametrize(
    "error", [*(kind("one", "two") for kind in KINDS), MissingExtra("ray", "scale", "this")], ids=repr
)
def test_an_error_is_sent_and_is_the_same(error: RegardError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.causes, str(again)) == (type(error), error.causes, str(error))
