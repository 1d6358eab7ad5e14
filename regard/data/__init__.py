"""Text for models: corpora, vocabularies and batches."""

from regard.data.batching import Batches, BatchingSettings, Example, PairBatch, Plan, Position, Update, collate, pad
from regard.data.corpus import Corpus, CorpusReport, CorpusSettings, Pair, fingerprint, overlap, read_corpus, read_pairs
from regard.data.text import clean, read_lines, write_lines
from regard.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerSettings, Vocabulary

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Batches",
    "BatchingSettings",
    "Corpus",
    "CorpusReport",
    "CorpusSettings",
    "Example",
    "Pair",
    "PairBatch",
    "Plan",
    "Position",
    "Tokenizer",
    "TokenizerSettings",
    "Update",
    "Vocabulary",
    "clean",
    "collate",
    "fingerprint",
    "overlap",
    "pad",
    "read_corpus",
    "read_lines",
    "read_pairs",
    "write_lines",
]
