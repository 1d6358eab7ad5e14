"""Accuracy, confidence, size and speed of language identification: python benchmarks/language_id.py
DATA.

DATA holds multi30k, koen and ted_enfr. A model learns from the training files of each, and they are
merged; recognised are parts of validation lines, of the same corpus, of other ones, and in
languages that a model lacks.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from regard.data.language_id import LanguageId

MODELS = {
    "multi30k": ("multi30k", "en de"),
    "multi30k, four": ("multi30k", "en de fr cs"),
    "koen": ("koen", "ko en"),
    "ted_enfr": ("ted_enfr", "en fr"),
}
FILES = [f"multi30k/val.{code}" for code in ("en", "de", "fr", "cs")]
FILES += [
    "koen/val.ko",
    "koen/val.en",
    "koen/val_news.ko",
    "koen/val_news.en",
    "ted_enfr/val.en",
    "ted_enfr/val.fr",
]
BANDS = (0.0, 0.2, 0.5, 0.7, 0.9, 0.99, 1.01)


def lines_of(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def parts(path: Path, words: int, count: int = 500) -> Iterator[str]:
    """Yield so many words of the first lines, from a drawn place."""
    drawn = random.Random(words)
    for line in lines_of(path)[:count]:
        own = line.split()
        if len(own) >= words:
            start = drawn.randrange(len(own) - words + 1)
            if any(map(str.isalpha, part := " ".join(own[start : start + words]))):
                yield part


def kind_of(file: str, code: str, corpus: str, model: LanguageId) -> str:
    if code not in model.profiles:
        return "unknown language"
    if not corpus:
        return "merged"
    return (
        "own corpus"
        if file.startswith(f"{corpus}/") and "news" not in file
        else "other corpus"
    )


def main(data: Path) -> None:
    models: list[tuple[str, LanguageId]] = []
    for name, (corpus, codes) in MODELS.items():
        start = time.perf_counter()
        model = LanguageId.learn(
            {code: lines_of(data / corpus / f"train.{code}") for code in codes.split()}
        )
        learnt = time.perf_counter()
        content = model.to_json().encode()
        model.detect("Two young, White males are outside near many bushes.")
        begun = time.perf_counter()
        for _ in range(200):
            model.detect("Two young, White males are outside near many bushes.")
        milliseconds = (time.perf_counter() - begun) * 5
        print(
            f"{name}: learnt in {learnt - start:.1f} s, {len(content) / 1e3:.0f} kB, a sentence "
            f"{milliseconds:.3f} ms"
        )
        models.append((corpus, model))
    models.append(("", LanguageId.merge(model for _, model in models)))
    for kind in ("own corpus", "other corpus", "merged", "unknown language"):
        for words in (1, 2, 3, 5, 10):
            results = [
                (code == best, share, sum(part for _, part in shares))
                for corpus, model in models
                for file in FILES
                if kind_of(file, code := file[-2:], corpus, model) == kind
                for line in parts(data / file, words)
                for shares in [model.detect(line)]
                for best, share in shares[:1]
            ]
            print(
                f"{kind}, {words} words, {len(results):,} texts: {describe(kind, results)}"
            )


def describe(kind: str, results: list[tuple[bool, float, float]]) -> str:
    if kind == "unknown language":
        return ", ".join(
            f"{sum(r[2] > p for r in results) / len(results):.1%} known by > {p}"
            for p in (0.5, 0.9)
        )
    bands = []
    for low, high in pairwise(BANDS):
        inside = [(right, share) for right, share, _ in results if low <= share < high]
        if inside:
            right, mean = (
                sum(column) / len(inside) for column in zip(*inside, strict=True)
            )
            bands.append(f"{mean:.2f} → {right:.2f} ({len(inside):,})")
    return (
        f"{sum(right for right, _, _ in results) / len(results):.1%} right; confidence → right: "
        f"{', '.join(bands)}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
