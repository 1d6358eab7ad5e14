"""Encoding of sentence pairs as token ids, once or with a new segmentation in each epoch (subword
regularisation).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

from regard.data.batch import Example, Resample
from regard.data.text_augmentation import (
    LEXICON_PAIRS,
    Lexicon,
    PairVariation,
    VariationSettings,
)
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import EOS
from regard.data.word_alignments import WordLinks, token_links


def encode_pairs(
    sources: Sequence[str],
    targets: Sequence[str],
    tokenizer: Tokenizer,
    links: WordLinks | None = None,
) -> list[Example]:
    """Encode sentence pairs as ids, each side with its EOS, and their word links as links between
    tokens.
    """
    examples = _with_ends(
        tokenizer.source.encode_all(sources), tokenizer.target.encode_all(targets)
    )
    return examples if links is None else _with_links(examples, links.rows, tokenizer)


def pair_variation(
    settings: VariationSettings, examples: Sequence[Example], tokenizer: Tokenizer
) -> PairVariation | None:
    """Make what varies the pairs of a corpus, with a lexicon of evenly spread ones; None if no
    share is set.
    """
    if not any(settings.model_dump().values()):
        return None
    step = max(1, len(examples) // LEXICON_PAIRS)
    sample = [examples[index] for index in range(0, len(examples), step)]
    sources = tokenizer.source.detokenised([pair.source_ids for pair in sample])
    targets = tokenizer.target.detokenised([pair.target for pair in sample])
    return PairVariation(
        settings,
        Lexicon(zip(sources, targets, strict=True)),
        tokenizer.copies,
        len(examples),
    )


def resampler(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    dropout: float,
    links: WordLinks | None = None,
    variation: PairVariation | None = None,
) -> Resample:
    """Make a function that encodes examples anew; their ids are detokenised first.

    `variation` changes some; with subword dropout, all have a newly sampled segmentation.
    """

    def read(chosen: Sequence[Example]) -> tuple[list[str], list[str]]:
        sources = tokenizer.source.detokenised([pair.source_ids for pair in chosen])
        return sources, tokenizer.target.detokenised([pair.target for pair in chosen])

    def resample(indices: Sequence[int], seed: int) -> list[Example]:
        pairs = [examples[index] for index in indices]
        varied = dict[int, tuple[str, str]]()
        if variation is not None:
            varied = variation.vary(
                indices,
                lambda places: zip(*read([pairs[n] for n in places]), strict=True),
                seed,
            )
        if dropout:
            sources, targets = read(pairs)
            for place, (source, target) in varied.items():
                sources[place], targets[place] = source, target
            sampled = _with_ends(*tokenizer.sample(sources, targets, dropout, seed))
            return (
                sampled
                if links is None
                else _with_links(sampled, [links[i] for i in indices], tokenizer)
            )
        texts = (
            [source for source, _ in varied.values()],
            [target for _, target in varied.values()],
        )
        for place, example in zip(varied, encode_pairs(*texts, tokenizer), strict=True):
            pairs[place] = example
        return pairs

    return resample


def _with_ends(
    sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> list[Example]:
    return [
        Example([*source, EOS], [*target, EOS])
        for source, target in zip(sources, targets, strict=True)
    ]


def _with_links(
    examples: Sequence[Example], links: Sequence[array[int]], tokenizer: Tokenizer
) -> list[Example]:
    sources = [example.source_ids for example in examples]
    targets = [example.target for example in examples]
    aligned = token_links(links, sources, targets, tokenizer)
    return [
        replace(example, links=row)
        for example, row in zip(examples, aligned, strict=True)
    ]
