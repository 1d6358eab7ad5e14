"""Costs of layers: counts against hand calculations, growth against the formulas of the paper."""

from __future__ import annotations

import math

import pytest
import torch

from regard.learn.lab import costs
from regard.learn.lab.costs import KINDS, Cost, Sizes, growth, measure

pytestmark = pytest.mark.system
SIZES = Sizes(n=256, d=32)
OTHERS = {
    "self-attention, additive": Sizes(n=64, d=32),  # whose memory grows with n²d
    "restricted self-attention": Sizes(n=512, d=32),  # whose blocks fill n / 4
}
KIND = {kind.name: kind for kind in KINDS}


@pytest.fixture(scope="module")
def measured() -> dict[str, Cost]:
    """Measure the costs of every kind of layer with the shortest timings."""
    with torch.random.fork_rng(devices=[]):
        costs = measure(
            SIZES, [KIND[name] for name in KIND if name not in OTHERS], min_seconds=0.0
        )
        for name, sizes in OTHERS.items():
            costs += measure(sizes, [KIND[name]], min_seconds=0.0)
        return {cost.name: cost for cost in costs}


def test_growth_is_the_exponent() -> None:
    assert growth([(x, 7 * x**1.5) for x in (2.0, 8.0, 10.0)]) == pytest.approx(1.5)
    assert growth([(x, 3.0) for x in (1.0, 2.0, 4.0)]) == pytest.approx(0)


@pytest.mark.parametrize(("name", "attention", "projections"), [
    ("self-attention", "2 n n d", "4 n d d"),
    ("self-attention, weights kept", "2 n n d", "4 n d d"),
    ("self-attention, one head", "2 n n d", "4 n d d"),
    ("self-attention, additive", "2 n n d", "4 n d d"),
    ("recurrent", "6 n d d", ""),
    ("convolutional", "2 3 n d d", ""),
    # Blocks of 16 attend to 48 entries, for a window of 8 on each side.
    ("restricted self-attention", "2 n 48 d", "4 n d d"),
])  # fmt: skip
def test_operations_equal_those_counted_by_hand(
    measured: dict[str, Cost], name: str, attention: str, projections: str
) -> None:
    sizes = OTHERS.get(name, SIZES)
    values = {"n": sizes.n, "d": sizes.d}
    product = [
        math.prod(values.get(x) or int(x) for x in term.split()) if term else 0
        for term in (attention, projections)
    ]
    assert [measured[name].operations, measured[name].projections] == product


@pytest.mark.parametrize("name", KIND)
@pytest.mark.parametrize(
    "quantity", ["operations n", "operations d", "sequential n", "path n"]
)
def test_growth_of_counts_equals_the_paper(
    measured: dict[str, Cost], name: str, quantity: str
) -> None:
    assert measured[name].growth[quantity] == pytest.approx(
        measured[name].expected[quantity], abs=0.02
    )


def test_sequential_operations_and_path_lengths_equal_those_counted_by_hand(
    measured: dict[str, Cost],
) -> None:
    steps = {
        name: (cost.sequential, cost.layers, cost.path)
        for name, cost in measured.items()
    }
    assert steps["self-attention"] == (3, 1, 3), "projection, attention, projection"
    assert steps["self-attention, weights kept"] == (4, 1, 4), (
        "the attention is two products"
    )
    assert steps["recurrent"] == (256, 1, 256), (
        "a product with the hidden state at each position"
    )
    assert steps["convolutional"] == (1, 255, 255), "255 positions, one a layer"
    assert steps["restricted self-attention"] == (3, 64, 192), (
        "511 positions, 8 a layer"
    )


def test_memory_is_the_size_of_the_saved_tensors(measured: dict[str, Cost]) -> None:
    n = SIZES.n
    d = SIZES.d
    number_bytes = 4
    # Queries, keys, values, outputs, and the log-sum-exp of each softmax.
    fused = n * d * 4 + costs.HEADS * n

    assert measured["self-attention"].memory == fused * number_bytes

    unfused = measured["self-attention, weights kept"].memory
    assert (
        costs.HEADS * n * n * number_bytes
        <= unfused
        < 1.2 * costs.HEADS * n * n * number_bytes
    )
    assert measured["self-attention"].growth["memory n"] == pytest.approx(1, abs=0.01)
    assert measured["self-attention, weights kept"].growth["memory n"] > 1.8


def test_time_is_measured_at_every_size(measured: dict[str, Cost]) -> None:
    for cost in measured.values():
        n = OTHERS.get(cost.name, SIZES).n
        assert [x for x, _ in cost.curves["time n"]] == [n / 4, n / 2, n, 2 * n, 4 * n]
        assert [x for x, _ in cost.curves["time d"]] == [8, 16, 32, 64, 128]
        assert all(
            seconds > 0 for axis in "nd" for _, seconds in cost.curves[f"time {axis}"]
        )


def test_threads_and_random_numbers_are_left_as_they_were() -> None:
    threads = torch.get_num_threads()
    state = torch.get_rng_state()
    measure(Sizes(64, 32), KINDS[:1], min_seconds=0.0, threads=2)

    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
