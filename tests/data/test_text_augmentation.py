"""Variation of training pairs: both sides change alike, by the shares that were set, and by the
seed alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.examples import encode_pairs, pair_variation, resampler
from regard.data.text_augmentation import (
    AGREEING,
    Lexicon,
    PairVariation,
    VariationSettings,
)
from regard.data.tokenizer import Tokenizer, TokenizerSettings

NOUNS = {
    "file": "Datei",
    "window": "Fenster",
    "picture": "Bild",
    "letter": "Brief",
    "word": "Wort",
}
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
    settings = VariationSettings(**shares)
    variation = PairVariation(settings, LEXICON, COPY_CHARACTERS[:copies], len(pairs))

    def read(places: Sequence[int]) -> list[tuple[str, str]]:
        return [pairs[place] for place in places]

    return variation.vary(range(len(pairs)), read, seed)


def test_a_lexicon_links_words_that_translate_each_other() -> None:
    for noun, other in NOUNS.items():
        source = f"Close this {noun}."
        target = f"Schließe dies {other}!"
        texts = {
            (source[slice(*a)], target[slice(*b)])
            for a, b in LEXICON.links((source, target))
        }

        assert {(noun, other), ("Close", "Schließe")} <= texts

    assert LEXICON.links(("file file", "Datei")) == [], "nobody knows which of the two"

    same = LEXICON.links(("Ask Regard about a", "Frage Regard über a"))
    assert [(a[0], b[0]) for a, b in same] == [(4, 6)], (
        "names are the same on both sides, but for short words"
    )


@pytest.mark.parametrize("name", VariationSettings.model_fields)
def test_a_share_of_the_pairs_is_varied_in_its_way(name: str) -> None:
    some = varied(PAIRS, **{name: 0.3})
    assert 0.2 < len(some) / len(PAIRS) < 0.4

    every = varied(PAIRS, **{name: 1.0})
    assert len(every) == len(PAIRS)
    for text in ("", ".", "👍 !", "A" * 3000):
        assert all(map(all, varied([(text, text)], **{name: 1.0}).values()))
    for number, (source, target) in every.items():
        old_source, old_target = PAIRS[number]
        if name == "endings":
            assert source == old_source[:-1]
            assert target == old_target[:-1]
        elif name == "words":
            assert source in old_source
            assert (NOUNS | VERBS).get(source, "dies") == target
        elif name == "typos":
            assert target == old_target
            assert source != old_source
            assert abs(len(source) - len(old_source)) < 2
        else:
            counts = copies_of(source)
            assert counts == copies_of(target)
            assert 1 <= len(counts) <= 4
            assert max(counts.values()) == 1


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
        assert source.removesuffix(".") == f"Open{first} with{second}"
        assert target.removesuffix(".") == f"Mit{second} öffnest du{first}"

    results = [varied(SPANS, seed) for seed in range(20)]
    source, target = next(result[1] for result in results if 1 in result)

    assert source.replace("of", "von") == target, "equal spans in their order"
    assert not any(2 in result for result in results), "sides whose spans differ stay"
    assert all(varied(SPANS, seed, copies=1) == {} for seed in range(20)), (
        "too few copy tokens"
    )
    assert varied(SPANS, copies=0) == {}, "a vocabulary without copy tokens"


def test_the_seed_alone_decides() -> None:
    first = varied(PAIRS, 1, spans=0.3, words=0.3)
    assert varied(PAIRS, 2, spans=0.3, words=0.3) != first
    assert varied(PAIRS, 1, spans=0.3, words=0.3) == first


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_batches_hold_varied_pairs_and_each_once_in_an_epoch(dropout: float) -> None:
    sources, targets = (list(side) for side in zip(*PAIRS, *SPANS, strict=True))
    tokenizer = Tokenizer.train(sources, targets, TokenizerSettings(copy_tokens=8))
    examples = encode_pairs(sources, targets, tokenizer)
    variation = pair_variation(
        VariationSettings(spans=0.2, endings=0.1), examples, tokenizer
    )
    resample = resampler(examples, tokenizer, dropout, None, variation)
    stream = BatchStream(examples, BatchingSettings(), 1, resample)

    def by_line(epoch: int) -> dict[int, Example]:
        result = {}

        for plan in stream.epoch(epoch):
            for line, example in zip(plan.indices, plan.examples, strict=True):
                assert line not in result
                result[line] = example

        assert len(result) == len(examples)

        return result

    first = by_line(0)
    assert by_line(1) != first
    assert by_line(0) == first

    plain = 0

    for line, example in first.items():
        plain += tokenizer.source.decode(example.source_ids) == sources[line]
        copies = {*tokenizer.target.copy_tokens} & {*example.target}

        assert {*tokenizer.copies_of(example.source_ids)} == copies

    assert 0.5 < plain / len(examples) < 0.9
    assert pair_variation(VariationSettings(), examples, tokenizer) is None
