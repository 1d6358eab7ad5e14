"""As many items as a time allows, by a clock that goes on with the work."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from regard.evaluation import sampling
from regard.evaluation.sampling import sample_within


@pytest.mark.parametrize(
    ("seconds", "most", "least_count", "largest_count"),
    [
        (1000.0, None, 500, 500),
        (1000.0, 80, 80, 80),
        (0.0, None, 20, 20),
        (100.0, None, 90, 100),
    ],
)
def test_a_time_is_kept_and_the_sample_is_drawn_from_all(
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    most: int | None,
    least_count: int,
    largest_count: int,
) -> None:
    """A second an item."""
    now = [5.0]
    monkeypatch.setattr(sampling, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def work(items: list[int]) -> list[str]:
        now[0] += len(items)
        return [str(item) for item in items]

    items = [3 * n for n in range(500)]
    numbers, results = sample_within(seconds, items, work, most)
    assert least_count <= len(numbers) <= largest_count
    assert results == [str(3 * number) for number in numbers]
    assert numbers == sorted({*numbers})
    assert now[0] - 5 <= max(seconds, 20)
    if len(numbers) < 500:
        assert numbers[-1] > 400, "not the first ones"


def test_nothing_is_drawn_of_nothing() -> None:
    assert sample_within(1.0, [], lambda _: ["never"]) == ([], [])
