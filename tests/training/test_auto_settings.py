"""Settings that suit a corpus: read off its size, below presets and whatever is set, and left alone
where they cannot be.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from helpers.system_marks import posix

from regard.data.corpus_settings import CorpusSettings
from regard.requests.train_request import TrainArguments
from regard.training import auto_settings
from regard.training.auto_settings import (
    SMALLEST,
    CorpusSize,
    corpus_size,
    describe,
    suitable,
)
from regard.training.compose_recipe import BUDGET_PRESETS, RecipeComposer

RECURRENT = {"model.encoder.kind": "recurrent", "model.decoder.kind": "recurrent"}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "".join(f"source {i}\ttarget {i}\n" for i in range(10)) + "\tno source\n",
        encoding="utf-8",
    )
    return path


def size_of(pairs: Path, **values: Any) -> CorpusSize | None:
    return corpus_size(
        CorpusSettings.parse({"pairs": str(pairs), **values}, "the test")
    )


def test_pairs_and_characters_are_counted_over_all_corpora(
    pairs: Path, tmp_path: Path
) -> None:
    twice = size_of(pairs, mix=[{"pairs": str(pairs)}])

    assert twice == CorpusSize(20, 2 * 10 * len("source 0target 0"))
    assert size_of(tmp_path / "missing.tsv") is None


@posix
def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    """It would block: nobody writes into it."""
    os.mkfifo(tmp_path / "pipe.tsv")
    assert size_of(tmp_path / "pipe.tsv") is None


def test_of_a_large_corpus_no_more_is_read(
    pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_settings, "MAX_COUNTED_PAIRS", 5)
    assert size_of(pairs) is None


@pytest.mark.parametrize(
    ("characters", "tokens", "every"),
    [
        (100, 1024, 100),
        (900_000, 1024, 200),
        (3_800_000, 2048, 500),
        (7_000_000, 4096, 400),
    ],
)
def test_an_epoch_has_enough_updates(characters: int, tokens: int, every: int) -> None:
    values = suitable(CorpusSize(1000, characters), SMALLEST)
    assert (values["batching"]["tokens"], values["training"]["validate_every"]) == (
        tokens,
        every,
    )


def test_a_small_corpus_has_a_shallow_model_of_the_smallest_size(pairs: Path) -> None:
    recipe = RecipeComposer(TrainArguments(pairs=pairs)).compose()

    assert (recipe.model.encoder.layers, recipe.model.decoder.layers) == (2, 2)
    assert (recipe.model.encoder.dropout, recipe.model.decoder.dropout) == (0.1, 0.1)

    few = 8 * auto_settings.SHALLOW_EPOCH_TOKENS
    quick = auto_settings.SHALLOW_SECONDS
    large = CorpusSize(100_000, 10**8)

    assert "model" in suitable(CorpusSize(10_000, few), SMALLEST)
    assert "model" not in suitable(CorpusSize(10_000, few + 8), SMALLEST)
    assert "model" not in suitable(CorpusSize(10_000, 100), "transformer-small")
    assert "model" in suitable(large, SMALLEST, quick)
    assert "model" not in suitable(large, SMALLEST, quick + 1)


def test_the_corpus_most_alike_is_named(
    monkeypatch: pytest.MonkeyPatch, pairs: Path
) -> None:
    results = {"240": 20.4, "720": 31.5}
    strings = {"text": "strings", "characters": 50_000, "chrf": results}
    sentences = {"text": "sentences", "characters": 200_000, "chrf": {"720": 11.0}}
    corpora = [{"pairs": 1000, **strings}, {"pairs": 1000, **sentences}]
    monkeypatch.setattr(auto_settings, "package_toml", lambda *_: {"corpora": corpora})
    recipe = RecipeComposer(TrainArguments(pairs=pairs)).compose()
    strings_line = "1,000 strings, came to chrF 20 after 4, 32 after 12 minutes"
    none_line = "none of the corpora that were measured"
    for size, expected in (
        (CorpusSize(2000, 150_000), strings_line),
        (CorpusSize(500, 80_000), "1,000 sentences"),
        (CorpusSize(8_000, 400_000), none_line),
    ):
        *_, line = describe(size, recipe)
        assert line.startswith(f"for comparison: {expected}")


@pytest.mark.parametrize(
    ("arguments", "tokens", "layers"),
    [
        ({}, 1024, 2),
        ({"settings": {"batching.tokens": 300, "model.encoder.layers": 3}}, 300, 3),
        ({"preset": "transformer-tiny"}, 4096, 4),
        ({"settings": RECURRENT}, 1024, 1),
    ],
)
def test_presets_and_settings_go_before(
    arguments: dict[str, Any], tokens: int, layers: int, pairs: Path
) -> None:
    composer = RecipeComposer(TrainArguments(pairs=pairs, **arguments))
    recipe = composer.compose()
    encoder = recipe.model.encoder

    assert (recipe.batching.tokens, encoder.layers) == (tokens, layers)

    lines = composer.describe_choices(recipe)
    if "preset" in arguments:
        assert lines == []
        return
    few, chosen = lines

    assert few.startswith("10 pairs are enough to try the commands")
    assert f"10 pairs with 160 characters: updates of {tokens:,} tokens, " in chosen
    assert f"{layers} layers, dropout {encoder.dropout}, " in chosen


def test_a_side_whose_lines_are_all_alike_is_said(tmp_path: Path) -> None:
    (tmp_path / "same.tsv").write_text(
        "".join(f"line {i}\tnichts\n" for i in range(300)), encoding="utf-8"
    )
    composer = RecipeComposer(TrainArguments(pairs=tmp_path / "same.tsv"))
    first, *_ = composer.describe_choices(composer.compose())

    assert first.startswith(
        "every line of the target is the same: nothing can be learnt"
    )


def test_every_size_of_a_budget_has_them(pairs: Path) -> None:
    composer = RecipeComposer(TrainArguments(pairs=pairs, budget="5m"))
    sizes = composer.sizes(composer.compose())

    assert [*sizes] == [*BUDGET_PRESETS]
    assert {recipe.batching.tokens for recipe in sizes.values()} == {1024}
    assert len({recipe.model.encoder.size for recipe in sizes.values()}) == len(
        BUDGET_PRESETS
    )
