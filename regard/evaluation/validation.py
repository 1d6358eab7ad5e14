"""Validation during training: loss, BLEU, chrF or CIDEr-D of greedy outputs, and attention
entropy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from regard.common.errors import LineWarning
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.data.corpus import Corpus
from regard.data.examples import encode_pairs
from regard.data.prepare_captions import CaptionCorpus, caption_examples
from regard.data.tokenizer import Tokenizer
from regard.evaluation.caption_metrics import tokenizer_for, validation_scores
from regard.evaluation.entropy import attention_entropy
from regard.evaluation.text_metrics import chrf_and_bleu, short_lines
from regard.model_folder import FolderSettings
from regard.models import Model, device_of
from regard.pipeline import Captioner, FolderTranslator
from regard.training.journal import ValidationScores
from regard.training.loss import Loss, Objective

GREEDY = {
    "beam": 1,
    "groups": 1,
    "mbr": False,
    "sample": False,
    "temperature": 1.0,
    "top_k": None,
    "top_p": None,
}
"""Search settings that make any search greedy."""


@dataclass(frozen=True)
class Validator:
    """The `validate` callable of the trainer, which returns values of a model for the journal.

    The loss, without label smoothing, is that of all `batches`; `score` computes the scores from
    greedy outputs and puts these into `outputs`.
    """

    batches: BatchStream
    score: Callable[[Model], ValidationScores]
    outputs: list[str] = field(default_factory=list)

    def __call__(self, model: Model) -> ValidationScores:
        with warnings.catch_warnings():
            # Early in training, every model repeats itself, so its warnings are useless.
            warnings.simplefilter("ignore", LineWarning)
            scores = self.score(model)
        batch = self.batches.epoch(0)[0].batch().to(device_of(model))
        return {
            "loss": self._loss(model),
            **scores,
            "attention": attention_entropy(model, batch),
        }

    @torch.no_grad()
    def _loss(self, model: Model) -> float:
        objective = Objective(0.0)
        device = device_of(model)
        losses: list[Loss] = [
            objective(model, plan.batch().to(device)) for plan in self.batches.epoch(0)
        ]
        cross_entropy = sum(float(loss.cross_entropy) for loss in losses)
        return cross_entropy / sum(loss.tokens for loss in losses)


def make_validator(
    data: Corpus | CaptionCorpus,
    tokenizer: Tokenizer,
    settings: FolderSettings,
    max_outputs: int,
) -> Validator:
    """Make the validator of sentence pairs (`chrf`, `bleu`) or of captioned images (`cider`, too).

    The first `max_outputs` sources are decoded.
    """
    settings = settings.with_values(search={**settings.search.model_dump(), **GREEDY})
    outputs = list[str]()
    if isinstance(data, CaptionCorpus):
        examples, _ = caption_examples(data, tokenizer, captions_per_image=5)
        images = list(data.images[:max_outputs])
        references = data.caption_set.references[:max_outputs]

        def score(model: Model) -> ValidationScores:
            captions = Captioner(model, tokenizer, settings).caption(images)
            outputs[:] = [item.text for item in captions]
            return validation_scores(
                outputs, references, tokenizer_for(settings.tokenizer)
            )
    else:
        examples = encode_pairs(data.sources, data.targets, tokenizer)
        sources = data.sources[:max_outputs]
        targets = data.targets[:max_outputs]
        bleu = bleu_tokenizer(settings.languages.target)

        def score(model: Model) -> ValidationScores:
            translations = FolderTranslator(model, tokenizer, settings).translate(
                sources
            )
            outputs[:] = [item.text for item in translations]
            scores = chrf_and_bleu(outputs, targets, bleu)
            return {**scores, "short_lines": short_lines(targets, bleu)}

    return Validator(
        BatchStream(examples, BatchingSettings(tokens=4096), seed=0), score, outputs
    )
