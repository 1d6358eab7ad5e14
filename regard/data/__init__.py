"""Text and pictures for models: corpora, captions, vocabularies and batches."""

from regard.data.batch import Example, TrainingBatch, collate, pad
from regard.data.batching import BatchingSettings, BatchPlan, BatchSource, BatchStream, Position, Update
from regard.data.corpus import (
    Corpus,
    CorpusReport,
    CorpusSettings,
    Pair,
    overlap,
    read_corpus,
    read_pairs,
    texts_sha256,
)
from regard.data.mixture import Mixture
from regard.data.prepare import PreparedData, prepare_data
from regard.data.shards import Shards, write_shards
from regard.data.text import clean, read_lines, write_lines
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "BatchPlan",
    "BatchSource",
    "BatchStream",
    "BatchingSettings",
    "Corpus",
    "CorpusReport",
    "CorpusSettings",
    "Example",
    "Mixture",
    "Pair",
    "Position",
    "PreparedData",
    "Shards",
    "Tokenizer",
    "TokenizerSettings",
    "TrainingBatch",
    "Update",
    "Vocabulary",
    "clean",
    "collate",
    "overlap",
    "pad",
    "prepare_data",
    "read_corpus",
    "read_lines",
    "read_pairs",
    "texts_sha256",
    "write_lines",
    "write_shards",
]
