"""Sentence pairs as ids, once or cut into pieces anew in each epoch."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

from regard.data.batch import Example, Resample
from regard.data.corpus import Corpus
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import EOS
from regard.data.word_alignments import WordLinks, token_links

__all__ = ["corpus_resampler", "encode_pairs", "stored_resampler"]


def encode_pairs(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Tokenizer, links: WordLinks | None = None
) -> list[Example]:
    """Sentence pairs as ids, each side with its end of sentence; and the links of their words, taken to the pieces."""
    found = _paired(tokenizer.source.encode_all(sources), tokenizer.target.encode_all(targets))
    return found if links is None else _linked(found, links.rows, tokenizer)


def corpus_resampler(corpus: Corpus, tokenizer: Tokenizer, dropout: float, links: WordLinks | None = None) -> Resample:
    """Gives lines of a corpus as ids, cut into pieces anew each time."""
    sources, targets = corpus.sources, corpus.targets

    def again(lines: Sequence[int], seed: int) -> list[Example]:
        left, right = [sources[line] for line in lines], [targets[line] for line in lines]
        found = _paired(*tokenizer.sample(left, right, dropout, seed))
        return found if links is None else _linked(found, [links[line] for line in lines], tokenizer)

    return again


def stored_resampler(kept: Sequence[Example], tokenizer: Tokenizer, dropout: float) -> Resample:
    """The same where only the ids of the pairs are at hand: they are put together to text first."""

    def again(lines: Sequence[int], seed: int) -> list[Example]:
        pairs = [kept[line] for line in lines]
        left = tokenizer.source.detokenised([pair.source_ids for pair in pairs])
        right = tokenizer.target.detokenised([pair.target for pair in pairs])
        return _paired(*tokenizer.sample(left, right, dropout, seed))

    return again


def _paired(sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[Example]:
    return [Example([*source, EOS], [*target, EOS]) for source, target in zip(sources, targets, strict=True)]


def _linked(pairs: Sequence[Example], links: Sequence[array[int]], tokenizer: Tokenizer) -> list[Example]:
    sources, targets = [pair.source_ids for pair in pairs], [pair.target for pair in pairs]
    pieces = token_links(links, sources, targets, tokenizer)
    return [replace(pair, links=own) for pair, own in zip(pairs, pieces, strict=True)]
