"""Sampling: tokens have the right frequencies, and samples do not depend on how they are drawn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from helpers.broad_cases import broad
from tables import random_table, source, tasks_of

from regard.search import Rule, SearchSettings, SuppressTokens, Task, decode
from regard.search.sampling import sample_columns, uniform

V = 9


class NeedsAllLogits(Rule):
    """Rule that changes nothing, but requires all logits."""

    needs_all_logits = True


def probabilities(
    logits: torch.Tensor,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
) -> torch.Tensor:
    """Compute the probability of each token: temperature, then top-k, then top-p."""
    log_probs = logits.double().log_softmax(-1)
    log_probs[[0, 1, 2]] = -torch.inf
    p = (log_probs / temperature).softmax(-1)
    if top_k is not None:
        least = p.sort(descending=True)[0][top_k - 1]
        p = torch.where(p >= least, p, 0)
        p = p / p.sum()

    if top_p is not None:
        nucleus = torch.zeros_like(p)
        total = 0.0
        for token in p.argsort(descending=True).tolist():
            if total < top_p:
                nucleus[token] = p[token]
            total += float(p[token])
        p = nucleus / nucleus.sum()

    return p


@pytest.mark.system
@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    broad([(1.3, 4, 0.8), (0.5, None, None), (2.0, 3, None), (1.0, None, 0.7)]),
)
def test_tokens_are_sampled_with_their_probabilities(
    temperature: float,
    top_k: int | None,
    top_p: float | None,
) -> None:
    table = random_table(1, V, 3)
    count = 20_000
    settings = SearchSettings(
        beam=count,
        sample=True,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
    )
    (hypotheses,) = decode(table, source(1), [Task(0, 2)], settings)

    assert len(hypotheses) == count

    first = Counter(h.ids[0] if h.ids else 3 for h in hypotheses)
    expected = probabilities(table.logits[0, 0, 2], temperature, top_k, top_p)

    for token, probability in enumerate(expected.tolist()):
        deviation = (probability * (1 - probability) / count) ** 0.5
        assert first[token] / count == pytest.approx(
            probability, abs=5 * deviation + 1e-9
        )


@pytest.mark.parametrize("top_k", [None, 3])
def test_samples_depend_on_the_seed_and_not_on_the_way_of_the_logits(
    top_k: int | None,
) -> None:
    table = random_table(6, V, 9)
    settings = SearchSettings(
        beam=4,
        sample=True,
        top_k=top_k,
        temperature=1.5,
    )
    tasks = [Task(n, 9, sampling_key=n % 4) for n in range(6)]
    samples = decode(table, source(6), tasks, settings)
    rules = (SuppressTokens(), NeedsAllLogits())

    assert samples == decode(table, source(6), tasks, settings, rules)
    assert len({h.ids for hypotheses in samples for h in hypotheses}) > 12

    reseeded = decode(table, source(6), tasks, settings.with_values(seed=1))

    assert sum(one != two for one, two in zip(samples, reseeded, strict=True)) >= 5


def test_a_sample_of_low_temperature_is_greedy() -> None:
    table = random_table(5, V, 8)
    tasks = tasks_of(5, 8)
    cold = SearchSettings(
        beam=1,
        sample=True,
        temperature=1e-300,
    )
    sampled = decode(table, source(5), tasks, cold)
    greedy = decode(table, source(5), tasks, SearchSettings(beam=1))

    assert [one[0].ids for one in sampled] == [one[0].ids for one in greedy]


def test_random_numbers_are_uniform_and_uncorrelated() -> None:
    keys = np.arange(300, dtype=np.uint64)
    draws = [uniform(7, keys, np.full(300, length), 8) for length in range(40)]
    numbers = np.stack(draws)  # (40, 300, 8)

    assert numbers.min() >= 0
    assert numbers.max() < 1

    counts = np.histogram(numbers, 20, (0, 1))[0]

    assert abs(counts / numbers.size - 0.05).max() < 0.003

    for axis in range(3):
        ahead = np.delete(numbers, 0, axis).ravel()
        behind = np.delete(numbers, -1, axis).ravel()
        assert abs(np.corrcoef(ahead, behind)[0, 1]) < 0.02


@pytest.mark.parametrize("number", [0.0, 0.9999999999999999])
def test_tokens_of_probability_zero_are_never_sampled(number: float) -> None:
    scores = np.array([[-np.inf, -1.0, -np.inf, -2.0], [-np.inf] * 4])
    settings = SearchSettings(
        sample=True,
        top_p=1.0,
        top_k=3,
    )
    columns = sample_columns(scores, np.full(2, number), settings)

    assert columns[0] in (1, 3)
    assert columns[1] == 0
