"""Encoding of sentence pairs as token ids, once or with a new segmentation in each epoch (subword regularisation)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

from regard.data.batch import Example, Resample
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import EOS
from regard.data.word_alignments import WordLinks, token_links


def encode_pairs(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Tokenizer, links: WordLinks | None = None
) -> list[Example]:
    """Encode sentence pairs as ids, each side with its EOS, and their word links as links between tokens."""
    examples = _with_ends(tokenizer.source.encode_all(sources), tokenizer.target.encode_all(targets))
    return examples if links is None else _with_links(examples, links.rows, tokenizer)


def resampler(
    examples: Sequence[Example], tokenizer: Tokenizer, dropout: float, links: WordLinks | None = None
) -> Resample:
    """Make a function that encodes examples with a newly sampled segmentation; their ids are detokenised first."""

    def resample(indices: Sequence[int], seed: int) -> list[Example]:
        pairs = [examples[index] for index in indices]
        sources = tokenizer.source.detokenised([pair.source_ids for pair in pairs])
        targets = tokenizer.target.detokenised([pair.target for pair in pairs])
        sampled = _with_ends(*tokenizer.sample(sources, targets, dropout, seed))
        return sampled if links is None else _with_links(sampled, [links[i] for i in indices], tokenizer)

    return resample


def _with_ends(sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[Example]:
    return [Example([*source, EOS], [*target, EOS]) for source, target in zip(sources, targets, strict=True)]


def _with_links(examples: Sequence[Example], links: Sequence[array[int]], tokenizer: Tokenizer) -> list[Example]:
    sources, targets = [example.source_ids for example in examples], [example.target for example in examples]
    aligned = token_links(links, sources, targets, tokenizer)
    return [replace(example, links=row) for example, row in zip(examples, aligned, strict=True)]
