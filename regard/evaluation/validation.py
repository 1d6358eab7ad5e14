"""Validation during training: loss, BLEU, chrF or CIDEr-D of greedy outputs, and attention entropy on held-out data."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import torch

from regard.common.errors import LineWarning
from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.data.corpus import Corpus
from regard.data.examples import encode_pairs
from regard.data.prepare_captions import CaptionCorpus, caption_examples
from regard.data.tokenizer import Tokenizer
from regard.evaluation.caption_metrics import tokenizer_for, validation_scores
from regard.evaluation.entropy import attention_entropy
from regard.evaluation.metrics import chrf_and_bleu
from regard.model_folder import FolderSettings
from regard.models import Model, device_of
from regard.pipeline import Captioner, Translator
from regard.training.loss import Loss, Objective

GREEDY = {"beam": 1, "groups": 1, "mbr": False, "sample": False, "temperature": 1.0, "top_k": None, "top_p": None}
"""Search settings that make any search greedy."""


class _Validator(ABC):
    """The `validate` callable of the trainer: called with a model, it returns values for the journal.

    These are `loss` (nats per token, without label smoothing), scores of the outputs of greedy search, and under
    `attention` the entropy of each attention layer in nats.
    """

    def __init__(self, examples: list[Example], tokenizer: Tokenizer, settings: FolderSettings) -> None:
        self.batches = BatchStream(examples, BatchingSettings(tokens=4096), seed=0)
        self.tokenizer = tokenizer
        self.settings = settings.with_values(search={**settings.search.model_dump(), **GREEDY})

    def __call__(self, model: Model) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LineWarning)  # early in training every model repeats itself
            scores = self._scores(model)
        batch = self.batches.epoch(0)[0].batch().to(device_of(model))
        return {"loss": self._loss(model), **scores, "attention": attention_entropy(model, batch)}

    @abstractmethod
    def _scores(self, model: Model) -> dict[str, float]:
        """Return the scores of the model's outputs."""

    @torch.no_grad()
    def _loss(self, model: Model) -> float:
        objective, device = Objective(model, 0.0), device_of(model)
        losses: list[Loss] = [objective(plan.batch().to(device)) for plan in self.batches.epoch(0)]
        return sum(float(loss.cross_entropy) for loss in losses) / sum(loss.tokens for loss in losses)


class TranslationValidator(_Validator):
    """Validates a translator: loss on all pairs, `chrf` and `bleu` on the first `max_outputs`."""

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer, settings: FolderSettings, max_outputs: int) -> None:
        super().__init__(encode_pairs(corpus.sources, corpus.targets, tokenizer), tokenizer, settings)
        self.sources, self.targets = corpus.sources[:max_outputs], corpus.targets[:max_outputs]

    def _scores(self, model: Model) -> dict[str, float]:
        translations = Translator(model, self.tokenizer, self.settings).translate(self.sources)
        tokenizer = bleu_tokenizer(self.settings.languages.target)
        return chrf_and_bleu([translation.text for translation in translations], self.targets, tokenizer)


class CaptionValidator(_Validator):
    """Validates a captioner: loss on all captions, `chrf`, `bleu` and `cider` on the first `max_outputs` images."""

    def __init__(self, corpus: CaptionCorpus, tokenizer: Tokenizer, settings: FolderSettings, max_outputs: int) -> None:
        examples, _ = caption_examples(corpus, tokenizer, captions_per_image=5)
        super().__init__(examples, tokenizer, settings)
        self.images, self.references = corpus.images[:max_outputs], corpus.caption_set.references[:max_outputs]

    def _scores(self, model: Model) -> dict[str, float]:
        captions = Captioner(model, self.tokenizer, self.settings).caption(list(self.images))
        tokenize = tokenizer_for(self.settings.tokenizer)
        return validation_scores([caption.text for caption in captions], self.references, tokenize)


def make_validator(
    data: Corpus | CaptionCorpus, tokenizer: Tokenizer, settings: FolderSettings, max_outputs: int
) -> TranslationValidator | CaptionValidator:
    """Make the trainer's `validate` callable for sentence pairs or captioned images; `max_outputs` are decoded."""
    if isinstance(data, CaptionCorpus):
        return CaptionValidator(data, tokenizer, settings, max_outputs)
    return TranslationValidator(data, tokenizer, settings, max_outputs)
