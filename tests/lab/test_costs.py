"""Costs of layers: counts against hand calculations, growth against the formulas of the paper."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.text_table import rows

from regard.learn.lab import costs
from regard.learn.lab.costs import KINDS, Cost, Sizes, growth, measure

pytestmark = pytest.mark.system
SIZES = Sizes(n=256, d=32)
SIZES_OF = {
    "self-attention, additive": Sizes(n=64, d=32),  # whose memory grows with n²d
    "restricted self-attention": Sizes(n=512, d=32),  # whose blocks fill n / 4
}
KIND = {kind.name: kind for kind in KINDS}


@pytest.fixture(scope="module")
def measured() -> dict[str, Cost]:
    """Measure the costs of every kind of layer with the shortest timings."""
    with torch.random.fork_rng(devices=[]):
        costs = []
        for kind in KINDS:
            costs += measure(SIZES_OF.get(kind.name, SIZES), [kind], min_seconds=0.0)

        return {cost.name: cost for cost in costs}


def test_growth_is_the_exponent() -> None:
    assert growth([(x, 7 * x**1.5) for x in (2.0, 8.0, 10.0)]) == pytest.approx(1.5)
    assert growth([(x, 3.0) for x in (1.0, 2.0, 4.0)]) == pytest.approx(0)


@pytest.mark.parametrize(
    ("name", "attention", "projections"),
    rows("""
        self-attention               | 2 n n d   | 4 n d d
        self-attention, weights kept | 2 n n d   | 4 n d d
        self-attention, one head     | 2 n n d   | 4 n d d
        self-attention, additive     | 2 n n d   | 4 n d d
        recurrent                    | 6 n d d   | 0
        convolutional                | 2 3 n d d | 0
        restricted self-attention    | 2 n 48 d  | 4 n d d
    """),
)
def test_operations_equal_those_counted_by_hand(
    measured: dict[str, Cost], name: str, attention: str, projections: str
) -> None:
    """Restricted: blocks of 16 attend to 48 entries, for a window of 8 on each side."""
    sizes = SIZES_OF.get(name, SIZES)

    def product(factors: str) -> int:
        letters = {"n": sizes.n, "d": sizes.d}
        return math.prod(letters.get(x) or int(x) for x in factors.split())

    assert measured[name].operations == product(attention)
    assert measured[name].projections == product(projections)


@pytest.mark.parametrize("name", KIND)
def test_growth_of_counts_equals_the_paper(
    measured: dict[str, Cost], name: str
) -> None:
    cost = measured[name]
    for quantity in ("operations n", "operations d", "sequential n", "path n"):
        expected = cost.expected[quantity]
        assert cost.growth[quantity] == pytest.approx(expected, abs=0.02), quantity


def test_sequential_operations_and_path_lengths_equal_those_counted_by_hand(
    measured: dict[str, Cost],
) -> None:
    counted = {
        # projection, attention, projection; the attention is two products if weights are kept
        "self-attention": (3, 1, 3),
        "self-attention, weights kept": (4, 1, 4),
        # a product with the hidden state at each position
        "recurrent": (256, 1, 256),
        # 255 positions, one a layer
        "convolutional": (1, 255, 255),
        # 511 positions, 8 a layer
        "restricted self-attention": (3, 64, 192),
    }
    for name, expected in counted.items():
        cost = measured[name]
        assert (cost.sequential, cost.layers, cost.path) == expected, name


def test_memory_is_the_size_of_the_saved_tensors(measured: dict[str, Cost]) -> None:
    n = SIZES.n
    d = SIZES.d
    fused = measured["self-attention"]
    unfused = measured["self-attention, weights kept"]
    number_bytes = 4
    # Queries, keys, values, outputs, and the log-sum-exp of each softmax.
    saved = n * d * 4 + costs.HEADS * n
    weights = costs.HEADS * n * n * number_bytes

    assert fused.memory == saved * number_bytes
    assert weights <= unfused.memory < 1.2 * weights
    assert fused.growth["memory n"] == pytest.approx(1, abs=0.01)
    assert unfused.growth["memory n"] > 1.8


def test_time_is_measured_at_every_size(measured: dict[str, Cost]) -> None:
    for cost in measured.values():
        n = SIZES_OF.get(cost.name, SIZES).n
        for axis, middle in (("n", n), ("d", 32)):
            sizes, seconds = zip(*cost.curves[f"time {axis}"], strict=True)
            assert sizes == tuple(middle * factor for factor in (0.25, 0.5, 1, 2, 4))
            assert min(seconds) > 0


def test_threads_and_random_numbers_are_left_as_they_were() -> None:
    threads = torch.get_num_threads()
    state = torch.get_rng_state()
    measure(Sizes(64, 32), KINDS[:1], min_seconds=0.0, threads=2)

    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
