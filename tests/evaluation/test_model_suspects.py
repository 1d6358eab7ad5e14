"""Suspect pairs by a model: the formula of dual cross-entropy, and coverage by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from helpers.small_models import folder

from regard.attention.alignment import Readings
from regard.data.pairs import Pair
from regard.evaluation.model_suspects import improbable_pairs, uncovered_pairs
from regard.pipeline import FolderTranslator, load_translator


class NumberTranslator:
    """Finds a target the less probable, the further its number is from that of its source."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def mean_log_probs(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> np.ndarray:
        pairs = zip(sources, targets, strict=True)
        distances = [abs(int(a) - int(b)) for a, b in pairs]
        return -self.slope * np.log1p(np.array(distances))


def numbers(slope: float) -> FolderTranslator:
    return cast(Any, NumberTranslator(slope))


def test_improbable_pairs_are_those_like_random_ones() -> None:
    pairs = [Pair(f"{n}", f"{n}", n) for n in range(1000)]
    pairs[500] = Pair("500", "9", 500)
    pairs[600] = Pair("600", "601", 600)
    for backward in (None, numbers(1.5)):
        suspects = improbable_pairs(pairs, numbers(1), backward)
        assert [(suspect.line, suspect.kind) for suspect in suspects] == [
            (500, "improbable")
        ]


def test_directions_that_disagree_make_a_pair_improbable() -> None:
    """(H₁ + H₂)/2 + |H₁ − H₂| of 1 and 1 is 1, of 0.5 and 2.5 it is 3.5."""
    pairs = [Pair(f"{n}", f"{n}", n) for n in range(1000)]

    class Fixed(NumberTranslator):
        def mean_log_probs(
            self, sources: Sequence[str], targets: Sequence[str]
        ) -> np.ndarray:
            pairs = [*zip(sources, targets, strict=True)]
            of_equals = {("7", "7"): -1.0, ("8", "8"): -self.slope}
            return np.array(
                [of_equals.get((a, b), -0.1) if a == b else -3.0 for a, b in pairs]
            )

    forward, backward = cast(Any, Fixed(0.5)), cast(Any, Fixed(2.5))
    suspects = improbable_pairs(pairs, forward, backward)
    assert [suspect.line for suspect in suspects] == [8]


def test_few_pairs_are_not_judged() -> None:
    pairs = [Pair(f"{n}", f"{n + 1}", n) for n in range(80)]
    assert improbable_pairs(pairs, numbers(1)) == []


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_means_are_of_the_scores_of_each_pair(tmp_path: Path, kind: str) -> None:
    model = load_translator(folder(tmp_path, kind, kind), "cpu")
    sources = ["나는 집에 간다", "너는", "나는 빵을"]
    targets = ["I go", "you read a book", "home home home"]
    means = model.mean_log_probs(sources, targets)
    for source, target, mean in zip(sources, targets, means, strict=True):
        tokens = len(model.tokenizer.target.encode(target)) + 1
        assert mean == pytest.approx(model.score(source, target) / tokens, abs=1e-5)
    longest = model.settings.search.max_whole
    assert math.isnan(model.mean_log_probs(["나는 " * 2 * longest], ["I"])[0])


def test_words_that_get_no_attention_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one pair in forty, half of the source gets no attention at all."""
    words = ("one", "two", "three", "four")
    pairs = [Pair(" ".join(words), "eins zwei drei vier", n) for n in range(40)]
    pairs.append(Pair("one two", "eins", 40))

    def readings(
        _: object, sources: Sequence[str], targets: Sequence[str]
    ) -> list[Readings]:
        assert len(sources) == len(targets) == 40
        every = [np.full((1, 4, 4), 0.25) for _ in sources]
        every[23] = np.tile([0.0, 0.5, 0.0, 0.5], (1, 4, 1))
        return [
            Readings(
                words,
                words,
                (0, 1, 2, 3),
                (0, 1, 2, 3),
                {"cross": weights},
                {"cross": "cross"},
                words,
                words,
            )
            for weights in every
        ]

    monkeypatch.setattr("regard.evaluation.model_suspects.read_all", readings)
    model = numbers(1)
    monkeypatch.setattr(
        model, "mean_log_probs", lambda sources, _: np.zeros(len(sources))
    )
    monkeypatch.setattr(model, "choice", None, raising=False)
    (suspect,) = uncovered_pairs(pairs, model)
    assert (suspect.line, suspect.kind) == (23, "uncovered")
    assert suspect.detail.split(", ")[:2] == ["one", "three"]
