"""What a step of the search costs beside the model, and what each way of searching does to a translation.

python benchmarks/search.py [RUN --source F --reference F]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from regard import Translator, load
from regard.data.text import read_lines
from regard.evaluation.metrics import chrf_and_bleu
from regard.search import Beams, Constraints, SearchSettings, StepCandidates, Task

STEPS, PIECES = 300, 8000
WAYS: dict[str, dict[str, Any]] = {
    "beam 1": {"beam": 1},
    "beam 5": {"beam": 5},
    "beam 5, coverage penalty 0.2": {"beam": 5, "coverage_penalty": 0.2},
    "beam 5, no repeat 3": {"beam": 5, "no_repeat_ngram": 3},
    "beam 8, MBR": {"beam": 8, "mbr": True},
    "4 groups of 1, diversity 1": {"beam": 4, "groups": 4, "diversity": 1.0},
    "sample": {"sample": True},
    "sample, top-p 0.9, temperature 0.5": {"sample": True, "top_p": 0.9, "temperature": 0.5},
    "16 samples, MBR": {"beam": 16, "sample": True, "mbr": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--source")
    parser.add_argument("--reference")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| sentences | beams | µs of processor time a step |\n|---|---|---|")
    for sentences, beams in ((1, 1), (64, 1), (1, 5), (64, 5)):
        print(f"| {sentences} | {beams} | {min(front(sentences, beams) for _ in range(5)):.0f} |")
    if asked.run is not None:
        compare(load(asked.run, engine="native"), read_lines(asked.source), read_lines(asked.reference))


def seconds(work: Callable[[], object]) -> float:
    """Seconds of processor time: other programs may be running."""
    start = time.process_time()
    work()
    return time.process_time() - start


def front(sentences: int, beams: int) -> float:
    """Microseconds that a front takes for one step, no rule but the default in force, the model not counted."""
    chance, k = np.random.default_rng(0), beams + (beams > 1)

    def best(rows: int) -> StepCandidates:
        likely = -np.sort(chance.random((rows, k)).astype(np.float32), 1)
        return StepCandidates(likely, chance.integers(4, PIECES, (rows, k)), np.full(rows, -9, np.float32))

    opened = Beams.initial([Task(name, 10 * STEPS) for name in range(sentences)], SearchSettings(beam=beams))
    now, said = opened.advance(best(sentences)).beams, [best(sentences * beams) for _ in range(20)]

    def run() -> None:
        moving = now
        for step in range(STEPS):
            assert moving.k_needed == k
            moving = moving.advance(said[step % 20]).beams

    return 1e6 * seconds(run) / STEPS


def compare(translator: Translator, sources: list[str], references: list[str]) -> None:
    """Speed and scores of each way; and of a word that must, or must not, be there for each line."""
    print(f"\n{len(sources)} lines, {translator.engine.describe()}, one thread\n")
    print("| | sentences/s of processor time | BLEU | chrF |\n|---|---|---|---|")
    plain = [found.text for found in translator.translate(sources)]
    ways = {
        **WAYS,
        "beam 10, a missing word of the reference as a term": {"beam": 10, "wishes": wanted(plain, references)},
    }
    for name, asked in ways.items():
        texts: list[str] = []
        spent = seconds(
            lambda asked=asked, texts=texts: texts.extend(f.text for f in translator.translate(sources, **asked))
        )  # type: ignore[misc]
        scores = chrf_and_bleu(texts, references)
        print(f"| {name} | {len(sources) / spent:.1f} | {scores['bleu']:.1f} | {scores['chrf']:.1f} |", flush=True)
        if "wishes" in asked:
            held = sum(
                all(f" {t} " in f" {text} " for t in wish.terms)
                for wish, text in zip(asked["wishes"], texts, strict=True)
            )
            print(f"\nheld: {held} of {len(texts)}")


def wanted(texts: list[str], references: list[str]) -> list[Constraints]:
    """For each line the longest word of its reference that the translation lacks."""
    missing = [
        [word for word in reference.split() if word.isalpha() and word not in text.split()]
        for text, reference in zip(texts, references, strict=True)
    ]
    return [Constraints(terms=(max(words, key=len),)) if words else Constraints() for words in missing]


if __name__ == "__main__":
    main()
