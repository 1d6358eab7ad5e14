"""Facts of trainings: what the pages state of small models, with its value in each of three
trainings, and which of these it is true of.

No fact is about a head by its number, since the number is where training happened to begin.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import trainings
from figures import three_trainings

import regard
from regard.evaluation.aer import read_all
from regard.pipeline import FolderTranslator

SENTENCE = "나는 빵을 먹고 있었다"
TRANSLATION = "I was eating bread"
A_LITTLE = 0.1
"""Least weight that counts as "a little"."""
ALIGNED = {"I": "나는", "was": "있었다", "bread": "빵을"}
"""Words of the translation, and the source word that note 000 says has most of their weight."""
PAIRS = {
    "build": ("didn't", "build", "house", "yesterday"),
    "she": ("When", "Minji", "cries,"),
    "eat": ("I", "eat", "tonight"),
}
"""Words of the sentences of `three-trainings`, and words that a head may attend to most."""


LONG = 10
"""Words of a source sentence from which on it is long for the two models beside each other."""
PLACES = ("first", "between", "last")
"""Places of source words: the first, those between, the last."""


def make() -> dict[str, Any]:
    """Return the facts by name."""
    sentences = three_trainings.make()["sentences"]
    return {**of_heads(sentences), **_of_translations(), **_of_places()}


def fact(
    values: Sequence[float], holds: Sequence[bool], digits: int = 2, unit: str = ""
) -> dict[str, Any]:
    """Return the values of a statement in all trainings, and which trainings it is true of."""
    return {
        "values": [round(float(value), digits) for value in values],
        "holds": [bool(one) for one in holds],
        "digits": digits,
        "unit": unit,
    }


def of_heads(sentences: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return facts WORD-reads-WORD of sentences of `three-trainings`: some head of the second layer
    of the encoder attends clearly to the word, and the largest weight of such heads; and
    WORD-misses-WORD: none does, and the largest weight of a head. A fact that holds in several
    trainings has the probability that chance would make it hold in as many.
    """
    facts = {}
    for sentence in sentences:
        words = sentence["words"]
        word = words[sentence["word"]]
        rows = [
            [head[sentence["word"]] for head in layers[three_trainings.LAYER]]
            for layers in sentence["weights"]
        ]
        places = [[three_trainings.clear_place(row) for row in heads] for heads in rows]
        for other in PAIRS[word]:
            place = words.index(other)
            holds = [place in own for own in places]
            values = [
                max(
                    weights[place]
                    for weights, clear in zip(heads, own, strict=True)
                    if clear == place or place not in own
                )
                for heads, own in zip(rows, places, strict=True)
            ]
            chance = three_trainings.chance(places, sum(holds), len(words) + 1)
            plain = other.strip(",").replace("'", "")
            misses = [not one for one in holds]
            facts[f"{word}-reads-{plain}"] = {
                **fact(values, holds),
                "chance": round(chance, 4),
            }
            facts[f"{word}-misses-{plain}"] = fact(values, misses)
    return facts


def _of_translations() -> dict[str, Any]:
    """Return facts of how the words of the notes' sentence are aligned, of a Transformer (the mean
    of the heads of its last layer) and, their names with bahdanau- before, of an RNN.
    """
    facts = _of_alignment("first")
    recurrent = _of_alignment("bahdanau")
    return facts | {f"bahdanau-{name}": one for name, one in recurrent.items()}


def _of_alignment(recipe: str) -> dict[str, Any]:
    rows = [_weights(translator) for translator in _translators(recipe)]
    facts = {}
    for word, other in ALIGNED.items():
        values = [weights[word][other] for weights in rows]
        holds = [
            max(weights[word], key=weights[word].__getitem__) == other
            for weights in rows
        ]
        facts[f"{word.lower()}-aligned"] = fact(values, holds)
    for name, word, other in (("eating", "was", "먹고"), ("subject", "was", "나는")):
        values = [weights[word][other] for weights in rows]
        facts[f"was-little-{name}"] = fact(values, [w >= A_LITTLE for w in values])
        facts[f"was-hardly-{name}"] = fact(values, [w < A_LITTLE for w in values])
    return facts


def _of_places() -> dict[str, Any]:
    """Return facts of long test sentences, in percent: how many of the source words of a place have
    a counterpart that a model without attention leaves out.
    """
    rows = [
        _lost_by_place(translator) for translator in _translators("without-attention")
    ]
    holds = [row["first"] < min(row["between"], row["last"]) for row in rows]
    return {
        f"{place}-lost": fact([row[place] for row in rows], holds, 0, "%")
        for place in PLACES
    }


def _lost_by_place(translator: FolderTranslator) -> dict[str, float]:
    lost: dict[str, list[bool]] = {place: [] for place in PLACES}
    pairs = _long_pairs()
    outputs = translator.translate([" ".join(source) for source, _, _ in pairs], beam=1)
    for (source, target, links), output in zip(pairs, outputs, strict=True):
        missing = missing_places(target, output.text.split())
        for number in range(len(source)):
            linked = {other for own, other in links if own == number}
            if linked:
                is_end = number == len(source) - 1
                place = "first" if number == 0 else "last" if is_end else "between"
                lost[place].append(bool(linked & missing))
    return {place: 100 * sum(flags) / len(flags) for place, flags in lost.items()}


def missing_places(target: Sequence[str], output: Sequence[str]) -> set[int]:
    """Return the places of the words of a reference that an output lacks, each word as often as it
    lacks it.
    """
    left = Counter(output)
    missing = set()
    for place, word in enumerate(target):
        if left[word]:
            left[word] -= 1
        else:
            missing.add(place)
    return missing


def _long_pairs() -> list[tuple[list[str], list[str], list[tuple[int, int]]]]:
    """Return the long test sentences that are no longer than those of the training: source words,
    words of the reference, and the pairs of words that belong together.
    """
    folder = trainings.sample()
    columns = [
        (folder / f"test.{kind}").read_text(encoding="utf-8").splitlines()
        for kind in ("ko", "en", "align")
    ]
    longest = trainings.RECIPES["without-attention"][1]["data.max_length"]
    return [
        (
            source.split(),
            target.split(),
            [
                (int(own), int(other))
                for own, other in re.findall(r"(\d+)-(\d+)", links)
            ],
        )
        for source, target, links in zip(*columns, strict=True)
        if LONG <= len(source.split()) < longest
    ]


def _weights(translator: FolderTranslator) -> dict[str, dict[str, float]]:
    """Return the weight of each source word for each word of the translation, which is forced."""
    (readings,) = read_all(translator, [SENTENCE], [TRANSLATION])
    matrix = readings.words(readings.layers("cross")[-1]).weights
    sources = SENTENCE.split()
    return {
        word: dict(zip(sources, map(float, row), strict=True))
        for word, row in zip(TRANSLATION.split(), matrix, strict=True)
    }


def _translators(recipe: str) -> list[FolderTranslator]:
    return [regard.load(trainings.trained(recipe, seed)) for seed in trainings.SEEDS]
