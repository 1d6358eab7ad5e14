"""Demonstration on sentences: Korean → English and English → Korean translators, their scores and
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
TESTS = {
    "test": "patterns seen in training",
    "recombination": "words recombined in new ways",
}


@dataclass(frozen=True)
class Direction:
    """A translation direction: language codes, corpus, and two sentences with the translations they
    must get.
    """

    source: str
    target: str
    sample: Sample
    sentences: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"


def demo_sentences(out: Path, device: str, seed: int, output: Output) -> bool:
    """Train both directions in `out`, score them, and draw attention; return whether all sentences
    are right.
    """
    start = time.perf_counter()
    sample = korean_english()
    sample.write(out / "data", "ko", "en")
    output.message(
        f"sample: {len(sample.splits['train']):,} training pairs written to {out / 'data'}"
    )
    reversed_sentences = tuple((english, korean) for korean, english in SENTENCES)
    all_right = True
    for direction in (
        Direction("ko", "en", sample, SENTENCES),
        Direction("en", "ko", sample.reversed(), reversed_sentences),
    ):
        translator = _train(direction, out, device, seed, output)
        all_right &= _report(
            direction, translator, out / f"{direction.name}.html", output
        )
    output.result(f"done in {(time.perf_counter() - start) / 60:.1f} minutes")
    return all_right


def demo_recipe(source: str, target: str, data: Path, seed: int) -> Recipe:
    """Return the recipe of one direction: a Transformer with two layers per side, which suffices
    for a grammar.
    """
    languages = {"source": source, "target": target}
    files = {
        side: str(data / f"train.{language}") for side, language in languages.items()
    }
    files |= {
        f"valid_{side}": str(data / f"valid.{language}")
        for side, language in languages.items()
    }
    changes = {
        "data": files
        | {
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
    """Train a translator, and choose the head that aligns the validation pairs best."""

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
    """Force-decode the references; return the attention, and the gold links it should agree
    with.
    """
    readings = read_all(
        translator, [pair.source for pair in pairs], [pair.target for pair in pairs]
    )
    return readings, [frozenset(pair.links) for pair in pairs]


def _report(
    direction: Direction, translator: FolderTranslator, page: Path, output: Output
) -> bool:
    """Print scores, translations and alignments of one direction; return whether its sentences are
    right.
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
    verdicts = {
        pair: _verdict(direction, translator, choice, *pair)
        for pair in direction.sentences
    }
    for (source, _), (translation, verdict) in verdicts.items():
        output.result(f"  {source} → {translation}   {verdict}")
    save(
        explain(translator, direction.sentences[-1][0]).data,
        page,
        page_meta(translator),
    )
    output.result(f"  attention     {page}")
    return all(verdict == "right" for _, verdict in verdicts.values())


def _scores(translator: FolderTranslator, pairs: Sequence[AlignedPair]) -> str:
    outputs = [
        translation.text
        for translation in translator.translate([pair.source for pair in pairs])
    ]
    values = {
        score.name: score.value
        for score in scores(outputs, [[pair.target for pair in pairs]])
    }
    exact = sum(
        output == pair.target for output, pair in zip(outputs, pairs, strict=True)
    ) / len(pairs)
    return f"chrF {values['chrF']:5.1f}  BLEU {values['BLEU']:5.1f}  exactly right {exact:.0%}"


def _verdict(
    direction: Direction,
    translator: FolderTranslator,
    choice: AlignmentChoice,
    source: str,
    target: str,
) -> tuple[str, str]:
    """Translate a sentence; return the translation, and whether it and the words it attends to are
    right.
    """
    translation = translator.translate(source, readings=True)[0]
    assert translation.readings is not None, "readings were requested"
    if translation.text != target:
        return translation.text, f"WRONG, wanted {target}"
    links = extract_links(
        translation.readings.words(choice.layer, choice.head, choice.shifted).weights,
        None,
    )
    gold = next(
        pair.links for pair in direction.sample.splits["train"] if pair.source == source
    )
    return translation.text, "right" if set(links) <= set(
        gold
    ) else "right, but its words attend to others"
