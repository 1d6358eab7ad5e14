"""Pairs of tokens that training has seen: none of them is missed, nearly all others are told apart,
much text has no filter.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from helpers.small_models import folder

from regard.common.errors import ConfigurationError
from regard.data.seen_token_pairs import MOST_PAIRS, SeenTokenPairs
from regard.model_folder import FolderSettings, load_settings

LINES = [
    [random.Random(seed).randrange(4, 60) for _ in range(12)] for seed in range(60)
]


def learnt(
    training: list[list[int]], validation: list[list[int]], share: float = 0.0
) -> SeenTokenPairs:
    result = SeenTokenPairs.learn(training, validation, share)
    assert result is not None

    return result


def test_what_training_has_seen_is_never_strange() -> None:
    familiar = learnt(LINES, LINES[:20])
    assert familiar.most == 0
    assert [familiar.unseen(line) for line in LINES] == [0] * len(LINES)
    assert familiar.unseen([]) == familiar.unseen([59]) == 0


def test_nearly_all_unseen_pairs_are_told_apart() -> None:
    familiar = learnt(LINES, [])
    unseen = [[1000 + first, second] for first in range(100) for second in range(100)]

    assert sum(familiar.unseen(pair) for pair in unseen) > 0.99 * len(unseen)


@pytest.mark.parametrize(("share", "most"), [(0.0, 3), (0.03, 2), (0.5, 1)])
def test_as_many_unseen_pairs_are_allowed_as_validation_has(
    share: float, most: int
) -> None:
    validation = []
    for unseen, lines in ((0, 10), (1, 60), (2, 28), (3, 2)):
        line = [*LINES[0][:2], *range(1000, 1000 + unseen)]
        validation += [line] * lines

    familiar = learnt(LINES, validation, share)

    assert familiar.most == most

    strange = sum(familiar.unseen(line) > most for line in validation)
    assert strange <= share * len(validation)


def test_text_with_too_many_pairs_or_none_has_no_filter() -> None:
    assert SeenTokenPairs.learn([list(range(MOST_PAIRS + 2))], [], 0.03) is None
    assert SeenTokenPairs.learn([list(range(MOST_PAIRS + 1))], [], 0.03) is not None
    assert SeenTokenPairs.learn([[], [7]], [[7]], 0.03) is None


@pytest.mark.parametrize("pairs", ["", "A", "AAAA\n", "Ω===", "A" * 40_000])
def test_other_values_are_refused(tmp_path: Path, pairs: str) -> None:
    with pytest.raises(ValueError, match="pairs"):
        SeenTokenPairs(pairs, 0)

    settings = load_settings(folder(tmp_path / "run")).model_dump()

    with pytest.raises(ConfigurationError, match=r"familiar.*pairs"):
        FolderSettings.parse(
            {**settings, "familiar": {"pairs": pairs, "most": 0}}, "config.json"
        )
