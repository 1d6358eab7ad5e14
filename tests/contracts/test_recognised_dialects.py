"""The dialect of a file is recognised from its strings together."""

from __future__ import annotations

import pytest
from contracts.string_cases import DIALECTS, texts

from regard.contracts.recognise import recognise


@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_strings_of_a_dialect_name_it(dialect: str) -> None:
    # The plain strings mix placeholders of several kinds.
    assert recognise(texts(dialect)) == (dialect if dialect != "plain" else "c")


def test_a_few_strings_among_plain_ones_decide() -> None:
    words = ["The cat is asleep.", "Save", "It rains."]
    assert recognise(words) == "plain"
    assert recognise([*words, "{ $name } sleeps"]) == "fluent"
    assert recognise([*words, "Hello %(name)s"]) == "python-percent"
    assert recognise([]) == "plain"
