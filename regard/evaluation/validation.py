"""What training looks at now and then: the loss on held-out pairs, and the scores of real outputs for them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import torch

from regard.data.batch import Example
from regard.data.batching import BatchingSettings, BatchStream
from regard.data.corpus import Corpus
from regard.data.examples import corpus_resampler, encode_pairs
from regard.data.prepare_captions import CaptionCorpus, caption_examples
from regard.data.tokenizer import Tokenizer
from regard.errors import LineWarning
from regard.evaluation.caption_metrics import tokenizer_for, validation_scores
from regard.evaluation.entropy import attention_entropy
from regard.evaluation.metrics import chrf_and_bleu
from regard.model_folder import FolderSettings
from regard.models import Model, device_of
from regard.pipeline import Captioner, Translator
from regard.training.loss import Loss, Objective

__all__ = ["CaptionValidation", "Validation", "corpus_resampler", "encode_pairs", "validation"]


GREEDY = {"beam": 1, "groups": 1, "mbr": False, "sample": False, "temperature": 1.0, "top_k": None, "top_p": None}
"""What makes any search greedy."""


class _Validation(ABC):
    """Called with a model, gives `loss` (nats a piece, not smoothed), scores of what greedy search finds, and under
    `attention` the entropy of each layer that reads, in nats.
    """

    def __init__(self, held_out: list[Example], tokenizer: Tokenizer, settings: FolderSettings) -> None:
        self.batches = BatchStream(held_out, BatchingSettings(tokens=4096), seed=0)
        self.tokenizer = tokenizer
        self.settings = settings.with_values(search={**settings.search.model_dump(), **GREEDY})

    def __call__(self, model: Model) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LineWarning)  # every model says things again and again before it has learnt
            scores = self._scores(model)
        some = self.batches.epoch(0)[0].batch().to(device_of(model))
        return {"loss": self._loss(model), **scores, "attention": attention_entropy(model, some)}

    @abstractmethod
    def _scores(self, model: Model) -> dict[str, float]:
        """Of what the model writes."""

    @torch.no_grad()
    def _loss(self, model: Model) -> float:
        objective, device = Objective(model, 0.0), device_of(model)
        losses: list[Loss] = [objective(plan.batch().to(device)) for plan in self.batches.epoch(0)]
        return sum(float(loss.cross_entropy) for loss in losses) / sum(loss.tokens for loss in losses)


class Validation(_Validation):
    """Of translations: `chrf` and `bleu`."""

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer, settings: FolderSettings, most: int) -> None:
        """At most so many pairs are translated."""
        super().__init__(encode_pairs(corpus.sources, corpus.targets, tokenizer), tokenizer, settings)
        self.sources, self.targets = corpus.sources[:most], corpus.targets[:most]

    def _scores(self, model: Model) -> dict[str, float]:
        translated = Translator(model, self.tokenizer, self.settings).translate(self.sources)
        return chrf_and_bleu([found.text for found in translated], self.targets)


class CaptionValidation(_Validation):
    """Of captions, against all that people gave: `chrf`, `bleu` and `cider`."""

    def __init__(self, scenes: CaptionCorpus, tokenizer: Tokenizer, settings: FolderSettings, most: int) -> None:
        """At most so many pictures are captioned."""
        held_out, _, _ = caption_examples(scenes, tokenizer, captions_per_image=5)
        super().__init__(held_out, tokenizer, settings)
        self.pictures, self.references = scenes.images[:most], scenes.caption_set.references[:most]

    def _scores(self, model: Model) -> dict[str, float]:
        captioned = Captioner(model, self.tokenizer, self.settings).caption(list(self.pictures))
        return validation_scores(
            [found.text for found in captioned], self.references, tokenizer_for(self.settings.tokenizer)
        )


def validation(
    data: Corpus | CaptionCorpus, tokenizer: Tokenizer, settings: FolderSettings, most: int
) -> Validation | CaptionValidation:
    """What training is watched by; at most so many outputs are made at each look."""
    if isinstance(data, CaptionCorpus):
        return CaptionValidation(data, tokenizer, settings, most)
    return Validation(data, tokenizer, settings, most)
