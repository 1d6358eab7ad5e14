"""Demonstration on sentences: translators from Korean to English and back, their scores and
alignments.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.attention.alignment import Link, Readings, extract_links
from regard.common.settings import merge
from regard.evaluation.aer import Gold, argmax_accuracy, best_choice, read_all
from regard.evaluation.text_metrics import scores
from regard.explain.explanation import explain
from regard.learn.demo.training import Output, page_meta, train_with_head
from regard.learn.samples import AlignedPair, Sample, korean_english
from regard.pipeline import AlignmentChoice, FolderTranslator, load_translator
from regard.training import Recipe
from regard.training.recipe import preset
from regard.visualisation import save

SENTENCES = (
    ("나는 집에 간다", "I go home"),
    ("나는 빵을 먹고 있었다", "I was eating bread"),
)
RIGHT = "right"
"""The verdict on a sentence that is translated and aligned correctly."""
TESTS = {
    "test": "patterns seen in training",
    "recombination": "words recombined in new ways",
}


@dataclass(frozen=True)
class Direction:
    """A translation direction with its corpus."""

    source: str  # language code
    target: str  # language code
    sample: Sample
    sentences: tuple[tuple[str, str], ...]  # sentences with their required translations

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"


def demo_sentences(out: Path, device: str, seed: int, output: Output) -> bool:
    """Train both directions in `out`, score them, and draw their attention.

    Return whether both directions translate and align all of SENTENCES correctly.
    """
    start = time.perf_counter()
    sample = korean_english()
    sample.write(out / "data", "ko", "en")
    output.message(
        f"sample: {len(sample.splits['train']):,} training pairs written to {out / 'data'}"
    )
    reversed_sentences = tuple((english, korean) for korean, english in SENTENCES)
    directions = (
        Direction("ko", "en", sample, SENTENCES),
        Direction("en", "ko", sample.reversed(), reversed_sentences),
    )
    all_right = True
    for direction in directions:
        translator = _train(direction, out, device, seed, output)
        page = out / f"{direction.name}.html"
        if not _report(direction, translator, page, output):
            all_right = False
    output.result(f"done in {(time.perf_counter() - start) / 60:.1f} minutes")
    return all_right


def demo_recipe(source: str, target: str, data: Path, seed: int) -> Recipe:
    """Return the recipe of one direction: a Transformer with two layers in encoder and decoder."""
    changes = {
        "data": {
            "source": str(data / f"train.{source}"),
            "target": str(data / f"train.{target}"),
            "valid_source": str(data / f"valid.{source}"),
            "valid_target": str(data / f"valid.{target}"),
            "licence": "Apache-2.0",
            "origin": "sentences drawn from a grammar (regard sample)",
        },
        "tokenizer": {"size": 1000},
        "model": {
            side: {"dropout": 0.1, "layers": 2} for side in ("encoder", "decoder")
        },
        "schedule": {"peak": 5e-3, "warmup": 400},
        "batching": {"tokens": 2048},
        "training": {
            "updates": 2200,
            "validate_every": 550,
            "validate_with": 200,
            "seed": seed,
            "ema_decay": 0.99,
        },
    }
    return Recipe.parse(merge(preset("transformer-tiny"), changes), "the demonstration")


def _train(
    direction: Direction, out: Path, device: str, seed: int, output: Output
) -> FolderTranslator:
    """Train a translator, and choose its head with the best alignments of the validation pairs."""

    def choose(translator: FolderTranslator) -> AlignmentChoice:
        readings, gold = _read(translator, direction.sample.splits["valid"])
        return best_choice(readings, [Gold.of(links) for links in gold])[0]

    folder = out / direction.name
    output.message("")
    output.message(f"training {direction.source} → {direction.target} in {folder}")
    recipe = demo_recipe(direction.source, direction.target, out / "data", seed)
    return train_with_head(recipe, folder, device, output, load_translator, choose)


def _read(
    translator: FolderTranslator, pairs: Sequence[AlignedPair]
) -> tuple[list[Readings], list[frozenset[Link]]]:
    """Force-decode the references; return their attention, and the gold alignment links."""
    sources = [pair.source for pair in pairs]
    targets = [pair.target for pair in pairs]
    readings = read_all(translator, sources, targets)
    return readings, [frozenset(pair.links) for pair in pairs]


def _report(
    direction: Direction, translator: FolderTranslator, page: Path, output: Output
) -> bool:
    """Print scores, translations and alignments of one direction.

    Return whether its sentences are translated and aligned correctly.
    """
    output.message("")
    output.result(f"{direction.source} → {direction.target}")
    for split, meaning in TESTS.items():
        output.result(
            f"  {split:13} {_scores(translator, direction.sample.splits[split])}   {meaning}"
        )

    choice = translator.choice
    assert choice is not None, "the choice was just made"
    readings, gold = _read(translator, direction.sample.splits["test"])
    share = argmax_accuracy(readings, gold, choice)
    head = "mean of heads" if choice.head is None else f"head {choice.head + 1}"
    layer = readings[0].layers().index(choice.layer) + 1
    output.result(
        f"  alignment     {share:.1%} of target words attend most to a gold word   layer {layer}, "
        f"{head}"
    )

    all_right = True
    for source, target in direction.sentences:
        translation, verdict = _verdict(direction, translator, choice, source, target)
        output.result(f"  {source} → {translation}   {verdict}")
        if verdict != RIGHT:
            all_right = False

    last_sentence, _ = direction.sentences[-1]
    save(explain(translator, last_sentence).data, page, page_meta(translator))
    output.result(f"  attention     {page}")
    return all_right


def _scores(translator: FolderTranslator, pairs: Sequence[AlignedPair]) -> str:
    """Translate the sources of the pairs; return the scores as a line of text."""
    targets = [pair.target for pair in pairs]
    translations = translator.translate([pair.source for pair in pairs])
    outputs = [translation.text for translation in translations]
    values = {score.name: score.value for score in scores(outputs, [targets])}
    matches = [text == target for text, target in zip(outputs, targets, strict=True)]
    exact = sum(matches) / len(pairs)
    return f"chrF {values['chrF']:5.1f}  BLEU {values['BLEU']:5.1f}  exactly right {exact:.0%}"


def _verdict(
    direction: Direction,
    translator: FolderTranslator,
    choice: AlignmentChoice,
    source: str,
    target: str,
) -> tuple[str, str]:
    """Translate a sentence; return the translation, and a verdict on it and on its alignment."""
    translation = translator.translate(source, readings=True)[0]
    assert translation.readings is not None, "readings were requested"
    if translation.text != target:
        return translation.text, f"WRONG, wanted {target}"

    words = translation.readings.words(choice.layer, choice.head, choice.shifted)
    links = extract_links(words.weights, None)
    train = direction.sample.splits["train"]
    gold = next(pair.links for pair in train if pair.source == source)
    if set(links) <= set(gold):
        return translation.text, RIGHT
    return translation.text, "right, but its words attend to others"
