"""Encoding of sentence pairs as token ids, once or with a new segmentation in each epoch (subword
regularisation).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
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
    source_ids = tokenizer.source.encode_all(sources)
    target_ids = tokenizer.target.encode_all(targets)
    examples = _with_eos(source_ids, target_ids)
    return examples if links is None else _with_links(examples, links.rows, tokenizer)


def pair_variation(
    settings: VariationSettings, examples: Sequence[Example], tokenizer: Tokenizer
) -> PairVariation | None:
    """Make the variation of a corpus, with a lexicon counted from evenly spread pairs; None if the
    settings vary no pairs.
    """
    if not any(settings.model_dump().values()):
        return None
    stride = max(1, len(examples) // LEXICON_PAIRS)
    sample = [examples[index] for index in range(0, len(examples), stride)]
    sources, targets = _detokenised(sample, tokenizer)
    lexicon = Lexicon(zip(sources, targets, strict=True))
    return PairVariation(settings, lexicon, tokenizer.copies, len(examples))


def resampler(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    dropout: float,
    links: WordLinks | None = None,
    variation: PairVariation | None = None,
) -> Resample:
    """Make a function that encodes examples anew; their ids are detokenised first.

    `variation` changes some of the pairs; subword dropout samples a new segmentation of all.
    """

    def resample(indices: Sequence[int], seed: int) -> list[Example]:
        pairs = [examples[index] for index in indices]

        def read(positions: Sequence[int]) -> Iterator[tuple[str, str]]:
            chosen = [pairs[position] for position in positions]
            sources, targets = _detokenised(chosen, tokenizer)
            return zip(sources, targets, strict=True)

        varied = dict[int, tuple[str, str]]()
        if variation is not None:
            varied = variation.vary(indices, read, seed)
        if not dropout:
            sources = [source for source, _ in varied.values()]
            targets = [target for _, target in varied.values()]
            encoded = encode_pairs(sources, targets, tokenizer)
            for position, example in zip(varied, encoded, strict=True):
                pairs[position] = example
            return pairs

        sources, targets = _detokenised(pairs, tokenizer)
        for position, (source, target) in varied.items():
            sources[position] = source
            targets[position] = target
        sampled = _with_eos(*tokenizer.sample(sources, targets, dropout, seed))
        if links is None:
            return sampled
        return _with_links(sampled, [links[index] for index in indices], tokenizer)

    return resample


def _detokenised(
    pairs: Sequence[Example], tokenizer: Tokenizer
) -> tuple[list[str], list[str]]:
    """Return the texts of both sides of sentence pairs."""
    sources = tokenizer.source.detokenised([pair.source_ids for pair in pairs])
    targets = tokenizer.target.detokenised([pair.target for pair in pairs])
    return sources, targets


def _with_eos(
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
    links_of_tokens = token_links(links, sources, targets, tokenizer)
    return [
        replace(example, links=row)
        for example, row in zip(examples, links_of_tokens, strict=True)
    ]
