"""Data for training: parallel corpora and captioned images, tokenizers, and batches.

Data pass through this package in this order (`prepare.prepare_data` does it all): files (`text`, `caption_files`) are
read as pairs and filtered (`pairs`, `corpus`; `streaming` if they exceed memory; `holdout` for validation); a
`tokenizer` (`vocabulary`, `subword_sampling`) encodes them as `examples` in memory or in `shards`; `bucketing` puts
examples of similar length into batches; `batching` and `mixture` give the stream of updates; `batch` makes tensors.
Images go through `images`, `image_cache` and `augmentation`; `provenance` compares the data of a resumed run.
"""

from regard.data.batch import Example, TrainingBatch, collate, pad
from regard.data.batching import BatchingSettings, BatchPlan, BatchSource, BatchStream, Position, Update
from regard.data.corpus import Corpus, CorpusReport, CorpusSettings, Pair
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
    "pad",
    "prepare_data",
    "read_lines",
    "write_lines",
    "write_shards",
]
