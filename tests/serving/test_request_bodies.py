"""JSON of the largest size: read without memory that grows with what is unknown."""

from __future__ import annotations

import tracemalloc

from regard.serving.libretranslate import TranslateParameters
from regard.serving.request_bodies import parse_json_object


def test_unknown_names_are_passed_over_without_a_trace() -> None:
    names = [f'"name{number}": [{{"a": 1}}], ' for number in range(50_000)]
    body = f'{{{"".join(names)}"q": "a", "q": ["b"], "api_key": 5}}'.encode()
    tracemalloc.start()
    values = parse_json_object(body, TranslateParameters, 1_000)
    _, memory = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert values == {"q": ["b"], "api_key": 5}, "the last of two values counts"
    assert memory < 100_000
