"""What training looks at now and then: the loss on held-out pairs, and the scores of real translations of them."""

from __future__ import annotations

from typing import Any

import torch

from regard.checkpoint import FolderSettings
from regard.data.batching import Batches, BatchingSettings
from regard.data.corpus import Corpus
from regard.data.examples import examples, resampled
from regard.data.tokenizer import Tokenizer
from regard.evaluation.entropy import attention_entropy
from regard.evaluation.metrics import chrf_and_bleu
from regard.models import Model, device_of
from regard.pipeline import Translator
from regard.training.loss import Loss, Objective

__all__ = ["Validation", "examples", "resampled"]


class Validation:
    """Called with a model, gives `loss` (nats a piece, not smoothed), `chrf` and `bleu` (greedy search), and under
    `attention` the entropy of each layer that reads, in nats.
    """

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer, settings: FolderSettings, most: int) -> None:
        self.sources, self.targets = corpus.sources[:most], corpus.targets[:most]
        pairs = examples(corpus.sources, corpus.targets, tokenizer)
        self.batches = Batches(pairs, BatchingSettings(tokens=4096), seed=0)
        self.tokenizer = tokenizer
        self.settings = settings.with_values(search={**settings.search.model_dump(), "beam": 1})

    def __call__(self, model: Model) -> dict[str, Any]:
        outputs = [t.text for t in Translator(model, self.tokenizer, self.settings).translate(self.sources)]
        some = self.batches.epoch(0)[0].batch().to(device_of(model))
        scores = {"loss": self._loss(model), **chrf_and_bleu(outputs, self.targets)}
        return {**scores, "attention": attention_entropy(model, some)}

    @torch.no_grad()
    def _loss(self, model: Model) -> float:
        objective, device = Objective(model, 0.0), device_of(model)
        losses: list[Loss] = [objective(plan.batch().to(device)) for plan in self.batches.epoch(0)]
        return sum(float(loss.entropy) for loss in losses) / sum(loss.tokens for loss in losses)
