"""Outputs of the default search for validation data, as many as a time allows, and what they
show.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.common.counting import counted
from regard.data.corpus import Corpus
from regard.data.prepare_captions import CaptionCorpus
from regard.evaluation.caption_report import CaptionExample, make_example
from regard.evaluation.entropy import attention_notes
from regard.evaluation.sampling import sample_within
from regard.evaluation.text_metrics import corpus_chrf
from regard.pipeline import (
    Caption,
    Captioner,
    FolderTranslator,
    Translation,
    default_choice,
)

MAX_OUTPUTS = 500
"""Maximum number of validation lines or images that get an output at the end of a run."""
FORGOTTEN = 1.0
"""Loss of chrF from which on a fine-tuned model is said to forget."""
READ = 8
"""Number of outputs whose attention is looked at."""


@dataclass(frozen=True)
class ValidationOutputs:
    """Outputs for some validation lines or images, by a search; further sentences, and examples of
    images, for the report.
    """

    lines: Sequence[int]
    texts: Sequence[str]
    search: str
    notes: Sequence[str] = ()
    examples: Sequence[CaptionExample] = ()


def translate_validation(
    translator: FolderTranslator, valid: Corpus, seconds: float
) -> tuple[ValidationOutputs, list[str], list[Translation]]:
    """Translate validation sources for so long; return them and their translations, too."""
    sources = valid.sources
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines, translations = sample_within(
            seconds, sources, translator.translate, MAX_OUTPUTS
        )
        sampled = [sources[line] for line in lines]
        read = translator.translate(sampled[:READ], readings=True)
    outputs = ValidationOutputs(
        lines,
        [translation.text for translation in translations],
        f"a beam of {translator.settings.search.beam}",
        [
            *describe_sample(
                len(lines), min(len(sources), MAX_OUTPUTS), "validation line"
            ),
            *_describe_attention(translator, read),
        ],
    )
    return outputs, sampled, translations


def caption_validation(
    captioner: Captioner, valid: CaptionCorpus, seconds: float
) -> ValidationOutputs:
    """Caption validation images for so long, and draw where some of them look."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines, captions = sample_within(
            seconds, valid.images, captioner.caption, MAX_OUTPUTS
        )
        images = [valid.images[line] for line in lines[:READ]]
        read = captioner.caption(images, readings=True)
    refs = valid.caption_set.references
    return ValidationOutputs(
        lines,
        [caption.text for caption in captions],
        f"a beam of {captioner.settings.search.beam}",
        [
            *describe_sample(
                len(lines), min(len(valid), MAX_OUTPUTS), "validation image"
            ),
            *_describe_attention(captioner, read),
        ],
        [
            make_example(caption, captioner.model_view(valid.images[line]), refs[line])
            for line, caption in zip(lines[:READ], read, strict=True)
        ],
    )


def describe_sample(count: int, of: int, noun: str) -> Iterator[str]:
    """Yield a sentence if time was too short for all lines or images."""
    if count < of:
        yield (
            f"{count:,} of {counted(of, noun)} were drawn at random, as the end of a run takes a "
            "tenth of its time"
        )


def _describe_attention(
    pipeline: FolderTranslator | Captioner, outputs: Sequence[Translation | Caption]
) -> Iterator[str]:
    """Yield sentences on attention that is the same for all words, and on links by no chosen
    head.
    """
    readings = [output.readings for output in outputs if output.readings is not None]
    if not readings or not readings[0].layers():
        return
    choice = pipeline.choice or default_choice(readings[0])
    yield from attention_notes(readings, choice)
    if pipeline.choice is None and readings[0].grid is None:
        yield (
            "links between words are those of the mean of the middle layer's heads, as no head was "
            "chosen: regard align RUN --choose does it"
        )


def compare_with_parent(
    parent: FolderTranslator, child: FolderTranslator, valid: Corpus, seconds: float
) -> Iterator[str]:
    """Yield a sentence on how the parent and the fine-tuned model translate the parent's own
    validation pairs, by greedy search for so long.
    """
    sources = valid.sources
    targets = valid.targets

    def translate(lines: list[int]) -> list[tuple[str, str]]:
        chosen = [sources[line] for line in lines]
        results = [
            model.translate(chosen, beam=1, groups=1) for model in (parent, child)
        ]
        return [
            (before.text, after.text) for before, after in zip(*results, strict=True)
        ]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines, outputs = sample_within(
            seconds, range(len(sources)), translate, MAX_OUTPUTS
        )
    references = [targets[line] for line in lines]
    before, after = (
        corpus_chrf(texts, references) for texts in zip(*outputs, strict=True)
    )
    pairs = counted(len(lines), "validation pair")
    remedy = ""
    if before - after >= FORGOTTEN:
        remedy = (
            ": it forgets; give the parent's training pairs as well, in a table [[data.mix]] of "
            "the recipe"
        )
    yield (
        f"chrF {before:.1f} before fine-tuning and {after:.1f} now on {pairs} of the parent{remedy}"
    )
