"""Sampling: tokens have the right frequencies, and samples do not depend on their batch and have
the right scores.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from broad import broad
from laws.searching import recomputed
from tables import Table, random_table, source

from regard.search import Rule, SearchSettings, SuppressTokens, Task, decode
from regard.search.sampling import sample_columns, uniform

V = 9


class NeedsAllLogits(Rule):
    """Rule that changes nothing, but requires all logits."""

    needs_all_logits = True


def probabilities(
    logits: torch.Tensor, temperature: float, top_k: int | None, top_p: float | None
) -> torch.Tensor:
    """Compute the probability of each token: temperature, then top-k, then top-p."""
    log_probs = logits.double().log_softmax(-1)
    log_probs[[0, 1, 2]] = -torch.inf
    p = (log_probs / temperature).softmax(-1)
    if top_k is not None:
        p = torch.where(p >= p.sort(descending=True)[0][top_k - 1], p, 0)
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


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    broad(
        [
            (1.3, 4, 0.8),
            (1.0, None, None),
            (0.5, None, None),
            (2.0, 3, None),
            (1.0, None, 0.7),
            (1.0, 1, None),
        ]
    ),
)
def test_tokens_are_sampled_with_their_probabilities(
    temperature: float, top_k: int | None, top_p: float | None
) -> None:
    table = random_table(1, V, 3)
    count = 20_000
    settings = SearchSettings(
        beam=count, sample=True, temperature=temperature, top_k=top_k, top_p=top_p
    )
    (hypotheses,) = decode(table, source(1), [Task(0, 2)], settings)
    assert len(hypotheses) == count
    first = Counter(h.ids[0] if h.ids else 3 for h in hypotheses)
    expected = probabilities(table.logits[0, 0, 2], temperature, top_k, top_p)
    for token, probability in enumerate(expected.tolist()):
        assert first[token] / count == pytest.approx(
            probability, abs=5 * (probability * (1 - probability) / count) ** 0.5 + 1e-9
        )


@pytest.mark.parametrize("rules", [(SuppressTokens(),), (SuppressTokens(), NeedsAllLogits())])
@pytest.mark.parametrize("top_k", [None, 3])
def test_samples_do_not_depend_on_the_batch(rules: tuple[Rule, ...], top_k: int | None) -> None:
    table = random_table(6, V, 9)
    settings = SearchSettings(beam=4, sample=True, top_k=top_k, temperature=1.5)
    tasks = [Task(n, 9, sampling_key=n % 4) for n in range(6)]
    together = decode(table, source(6), tasks, settings)
    assert together == decode(table, source(6), tasks, settings, rules)
    for n in (3, 5, 0):
        assert decode(table, source(6).select(torch.tensor([n])), [tasks[n]], settings) == [
            together[n]
        ]
    assert len({h.ids for hypotheses in together for h in hypotheses}) > 12
    reseeded = decode(table, source(6), tasks, settings.with_values(seed=1))
    assert sum(one != two for one, two in zip(together, reseeded, strict=True)) >= 5


def test_samples_have_the_log_probability_of_the_model() -> None:
    table = random_table(3, V, 7)
    settings = SearchSettings(
        beam=5, sample=True, temperature=2.0, length_penalty=0.6, no_repeat_ngram=2, min_length=2
    )
    for n, hypotheses in enumerate(
        decode(table, source(3), [Task(n, 7, prefix=(5,)) for n in range(3)], settings)
    ):
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for h in hypotheses:
            assert h.ids[0] == 5
            assert len(h.ids) >= 2
            assert h.log_prob == pytest.approx(recomputed(table, n, h.ids), abs=1e-4)
            assert h.score == pytest.approx(h.log_prob / ((6 + len(h.ids)) / 6) ** 0.6)


@pytest.mark.parametrize("temperature", [1e-4, 1e-300])
def test_a_sample_of_low_temperature_is_greedy(temperature: float) -> None:
    table = random_table(5, V, 8)
    tasks = [Task(n, 8) for n in range(5)]
    cold = decode(
        table, source(5), tasks, SearchSettings(beam=1, sample=True, temperature=temperature)
    )
    greedy = decode(table, source(5), tasks, SearchSettings(beam=1))
    assert [hypotheses[0].ids for hypotheses in cold] == [
        hypotheses[0].ids for hypotheses in greedy
    ]


def test_sampling_from_nan_logits_ends() -> None:
    table = Table(torch.full((1, 3, V, V), torch.nan))
    (hypotheses,) = decode(table, source(1), [Task(0, 5)], SearchSettings(beam=3, sample=True))
    assert [h.ids for h in hypotheses] == [()] * 3


def test_random_numbers_are_uniform_and_uncorrelated() -> None:
    keys = np.arange(300, dtype=np.uint64)
    # (40, 300, 8)
    numbers = np.stack([uniform(7, keys, np.full(300, length), 8) for length in range(40)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert abs(counts / numbers.size - 0.05).max() < 0.003
    for axis in range(3):
        ahead = np.delete(numbers, 0, axis).ravel()
        behind = np.delete(numbers, -1, axis).ravel()
        assert abs(np.corrcoef(ahead, behind)[0, 1]) < 0.02


def test_tokens_of_probability_zero_are_never_sampled() -> None:
    scores = np.array([[-np.inf, -1.0, -np.inf, -2.0], [-np.inf] * 4])
    for number in (0.0, 0.3, 0.9999999999999999):
        for settings in (
            SearchSettings(sample=True),
            SearchSettings(sample=True, top_p=1.0, top_k=3),
        ):
            columns = sample_columns(scores, np.full(2, number), settings)
            assert columns[0] in (1, 3)
            assert columns[1] == 0
