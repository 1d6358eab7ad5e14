"""Variation of training pairs: both sides change alike, by the shares that were set, and by the
seed alone.
"""

from __future__ import annotations

from collections import Counter

import pytest

from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.examples import encode_pairs, pair_variation, resampler
from regard.data.text_augmentation import AGREEING, Lexicon, PairVariation, VariationSettings
from regard.data.tokenizer import Tokenizer, TokenizerSettings

NOUNS = {"file": "Datei", "window": "Fenster", "picture": "Bild", "letter": "Brief", "word": "Wort"}
VERBS = {"Open": "Öffne", "Close": "Schließe", "Print": "Drucke", "Read": "Lies"}
PAIRS = [
    (f"{v} this {n}.", f"{VERBS[v]} dies {NOUNS[n]}!")
    for v in VERBS
    for n in NOUNS
    for _ in range(5)
]
SPANS = [
    ("Open {name} with %s.", "Mit %s öffnest du {name}."),
    ("%s of %s", "%s von %s"),
    ("See %d", "Siehe %s"),
]
LEXICON = Lexicon(PAIRS)


def varied(
    pairs: list[tuple[str, str]], seed: int = 1, copies: int = 4, **shares: float
) -> dict[int, tuple[str, str]]:
    variation = PairVariation(
        VariationSettings(**shares), LEXICON, COPY_CHARACTERS[:copies], len(pairs)
    )
    return variation.vary(
        range(len(pairs)), lambda places: [pairs[place] for place in places], seed
    )


def test_a_lexicon_links_words_that_translate_each_other() -> None:
    for noun, other in NOUNS.items():
        source = f"Close this {noun}."
        target = f"Schließe dies {other}!"
        texts = {(source[slice(*a)], target[slice(*b)]) for a, b in LEXICON.links((source, target))}
        assert {(noun, other), ("Close", "Schließe")} <= texts
    assert LEXICON.links(("file file", "Datei")) == [], "nobody knows which of the two"
    same = LEXICON.links(("Ask Regard about a", "Frage Regard über a"))
    assert [(a[0], b[0]) for a, b in same] == [(4, 6)], (
        "names are the same on both sides, but for short words"
    )


@pytest.mark.parametrize("name", VariationSettings.model_fields)
def test_a_share_of_the_pairs_is_varied_in_its_way(name: str) -> None:
    for share in (0.3, 1.0):
        changed = varied(PAIRS, **{name: share})
        assert len(changed) == len(PAIRS) if share == 1 else 0.2 < len(changed) / len(PAIRS) < 0.4
        for number, (source, target) in changed.items():
            before = PAIRS[number]
            if name == "endings":
                assert (source, target) == (before[0][:-1], before[1][:-1])
            elif name == "words":
                assert source in before[0]
                assert (NOUNS | VERBS).get(source, "dies") == target
            elif name == "typos":
                assert target == before[1]
                assert source != before[0]
                assert abs(len(source) - len(before[0])) < 2
            else:
                assert 1 <= sum(map(source.count, COPY_CHARACTERS)) <= 4
                assert copies_of(source) == copies_of(target)
                assert max(copies_of(source).values()) == 1


def copies_of(text: str) -> Counter[str]:
    return Counter(character for character in text if character in COPY_CHARACTERS)


def test_copy_tokens_stand_for_the_spans_that_both_sides_have() -> None:
    found = [varied(SPANS, seed, spans=0.0, endings=0.2).get(0) for seed in range(200)]
    changed = [pair for pair in found if pair is not None]
    assert 200 * (AGREEING + 0.05) < len(changed) < 200 * (AGREEING + 0.2)
    for source, target in changed:
        assert len(copies_of(source)) == 2
        assert copies_of(source) == copies_of(target)
        first, second = copies_of(source)
        plain = (f"Open{first} with{second}.", f"Mit{second} öffnest du{first}.")
        assert (source, target) in (plain, tuple(side[:-1] for side in plain))
    assert not all(source.endswith(".") for source, _ in changed)
    twice = next(pair for seed in range(20) if (pair := varied(SPANS, seed).get(1)))
    assert twice[0].replace("of", "von") == twice[1], "equal spans in their order"
    assert all(2 not in varied(SPANS, seed) for seed in range(20)), "sides whose spans differ stay"
    assert all(varied(SPANS, seed, copies=1) == {} for seed in range(20)), "too few copy tokens"
    assert varied(SPANS, copies=0) == {}, "a vocabulary without copy tokens"


def test_the_seed_alone_decides_whatever_came_before() -> None:
    variation = PairVariation(
        VariationSettings(spans=0.3, words=0.3), LEXICON, COPY_CHARACTERS, len(PAIRS + SPANS)
    )
    pairs = PAIRS + SPANS

    def vary(seed: int) -> dict[int, tuple[str, str]]:
        return variation.vary(
            range(len(pairs)), lambda places: [pairs[place] for place in places], seed
        )

    first = vary(1)
    assert vary(2) != first
    assert vary(1) == first


@pytest.mark.parametrize("text", ["", ".", "가나다 {a}", "👍 !", "A" * 3000])
def test_lines_of_any_kind_are_varied_or_left(text: str) -> None:
    for name in VariationSettings.model_fields:
        for source, target in varied([(text, text)], **{name: 1.0}).values():
            assert source
            assert target


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_batches_hold_varied_pairs_and_each_once_in_an_epoch(dropout: float) -> None:
    sources = [source for source, _ in PAIRS + SPANS]
    targets = [target for _, target in PAIRS + SPANS]
    tokenizer = Tokenizer.train(sources, targets, TokenizerSettings(copy_tokens=8))
    examples = encode_pairs(sources, targets, tokenizer)
    variation = pair_variation(VariationSettings(spans=0.2, endings=0.1), examples, tokenizer)
    stream = BatchStream(
        examples, BatchingSettings(), 1, resampler(examples, tokenizer, dropout, None, variation)
    )
    epochs = [list(stream.epoch(number)) for number in (0, 1, 0)]
    for plans in epochs:
        assert sorted(index for plan in plans for index in plan.indices) == [*range(len(examples))]
    first, second, again = (
        {
            index: example
            for plan in plans
            for index, example in zip(plan.indices, plan.examples, strict=True)
        }
        for plans in epochs
    )
    assert first == again
    assert first != second
    plain = [
        index
        for index, example in first.items()
        if tokenizer.source.decode(example.source_ids) == sources[index]
    ]
    assert 0.5 < len(plain) / len(examples) < 0.9
    for example in first.values():
        assert {*tokenizer.copies_of(example.source_ids)} == {*tokenizer.target.copy_tokens} & {
            *example.target
        }
    assert pair_variation(VariationSettings(), examples, tokenizer) is None
