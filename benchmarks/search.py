"""Cost of a search step beside the model, and speed and scores of each way of searching.

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
from regard.evaluation.text_metrics import chrf_and_bleu
from regard.search import Beams, Constraints, SearchSettings, StepCandidates, Task

STEPS = 300
VOCABULARY = 8000
WAYS: dict[str, dict[str, Any]] = {
    "beam 1": {"beam": 1},
    "beam 5": {"beam": 5},
    "beam 5, coverage penalty 0.2": {"beam": 5, "coverage_penalty": 0.2},
    "beam 5, no repeat 3": {"beam": 5, "no_repeat_ngram": 3},
    "beam 8, MBR": {"beam": 8, "mbr": True},
    "4 groups of 1, diversity 1": {"beam": 4, "groups": 4, "diversity": 1.0},
    "sample": {"sample": True},
    "sample, top-p 0.9, temperature 0.5": {
        "sample": True,
        "top_p": 0.9,
        "temperature": 0.5,
    },
    "16 samples, MBR": {"beam": 16, "sample": True, "mbr": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--source")
    parser.add_argument("--reference")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| sentences | beams | µs of processor time a step |\n|---|---|---|")
    for sentences, beams in ((1, 1), (64, 1), (1, 5), (64, 5)):
        print(
            f"| {sentences} | {beams} | {min(step_cost(sentences, beams) for _ in range(5)):.0f} |"
        )
    if options.run is not None:
        compare(
            load(options.run), read_lines(options.source), read_lines(options.reference)
        )


def seconds(work: Callable[[], object]) -> float:
    """Seconds of processor time: other programs may be running."""
    start = time.process_time()
    work()
    return time.process_time() - start


def step_cost(sentences: int, beams: int) -> float:
    """Microseconds of one step of `Beams`, with the default rules, the model not counted."""
    rng = np.random.default_rng(0)
    k = beams + (beams > 1)

    def candidates(rows: int) -> StepCandidates:
        log_probs = -np.sort(rng.random((rows, k)).astype(np.float32), 1)
        return StepCandidates(
            log_probs,
            rng.integers(4, VOCABULARY, (rows, k)),
            np.full(rows, -9, np.float32),
        )

    initial = Beams.initial(
        [Task(id, 10 * STEPS) for id in range(sentences)], SearchSettings(beam=beams)
    )
    started = initial.advance(candidates(sentences)).beams
    steps = [candidates(sentences * beams) for _ in range(20)]

    def run() -> None:
        open_beams = started
        for step in range(STEPS):
            assert open_beams.k_needed == k
            open_beams = open_beams.advance(steps[step % 20]).beams

    return 1e6 * seconds(run) / STEPS


def compare(translator: Translator, sources: list[str], references: list[str]) -> None:
    """Measure speed and scores of each way of searching, and with a required term for each line."""
    print(f"\n{len(sources)} lines, {translator.engine.describe()}, one thread\n")
    print("| | sentences/s of processor time | BLEU | chrF |\n|---|---|---|---|")
    plain = [translation.text for translation in translator.translate(sources)]
    ways = {
        **WAYS,
        "beam 10, a missing word of the reference as a term": {
            "beam": 10,
            "constraints": missing_terms(plain, references),
        },
    }
    for name, search in ways.items():
        texts: list[str] = []
        spent = seconds(
            lambda search=search, texts=texts: texts.extend(
                t.text for t in translator.translate(sources, **search)
            )
        )  # type: ignore[misc]
        scores = chrf_and_bleu(texts, references)
        print(
            f"| {name} | {len(sources) / spent:.1f} | {scores['bleu']:.1f} | {scores['chrf']:.1f} "
            "|",
            flush=True,
        )
        if "constraints" in search:
            held = sum(
                all(f" {term} " in f" {text} " for term in own.terms)
                for own, text in zip(search["constraints"], texts, strict=True)
            )
            print(f"\nheld: {held} of {len(texts)}")


def missing_terms(texts: list[str], references: list[str]) -> list[Constraints]:
    """Return for each line the longest word of its reference that the translation lacks."""
    missing = [
        [
            word
            for word in reference.split()
            if word.isalpha() and word not in text.split()
        ]
        for text, reference in zip(texts, references, strict=True)
    ]
    return [
        Constraints(terms=(max(words, key=len),)) if words else Constraints()
        for words in missing
    ]


if __name__ == "__main__":
    main()
