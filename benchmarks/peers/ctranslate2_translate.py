"""CTranslate2, with the best of its settings: compute type, workers and threads, batch size.

`--task try` finds the settings, for each compute type and over all; a measurement gets them as
`--setting`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from peers.translating import (
    BATCH,
    END,
    Tokens,
    Translate,
    TranslationOptions,
    measure,
    read,
    report,
    start,
)

TYPES = ("int8", "int8_float32", "int8_bfloat16", "float32", "bfloat16")
BATCHES = (32, 64, 128)
TRIAL_SENTENCES = 2 * max(BATCHES)
TRIAL_REQUESTS = 15


def main() -> None:
    """Try settings, or measure with the best."""
    options = start("ctranslate2_translate")
    if options.task == "try":
        _try(options)
    many = options.setting["many"]
    one = options.setting["one"]
    measure(options, _translator(options, **many), lambda: _translator(options, **one))


def _translator(
    options: TranslationOptions,
    type: str,
    workers: int,
    threads: int,
    batch: int = BATCH,
) -> Translate:
    import ctranslate2

    translator = ctranslate2.Translator(
        str(options.folder / "ctranslate2"),
        compute_type=type,
        inter_threads=workers,
        intra_threads=threads,
    )
    lengths = {
        "min_decoding_length": options.forced or 1,
        "max_decoding_length": options.forced or options.max_length - 1,
    }

    def translate(sentences: Sequence[Tokens]) -> list[Tokens]:
        # With a length penalty of 0 the search would end at its first hypothesis; one of 1e-6 gives
        # the same ranking.
        results = translator.translate_batch(
            [[*sentence, END] for sentence in sentences],
            beam_size=options.beam,
            max_batch_size=batch,
            length_penalty=1e-6,
            **lengths,
        )
        return [result.hypotheses[0] for result in results]

    return translate


def _try(options: TranslationOptions) -> None:
    """Report the best settings for many sentences and for one, for each type of this machine, and
    over all.
    """
    sources = read(options.source)[:TRIAL_SENTENCES]
    best = {
        type: (_best_many(options, type, sources), _best_one(options, type, sources))
        for type in _types(options)
    }
    best["best"] = tuple(
        max((trials[i] for trials in best.values()), key=lambda trial: trial[0])
        for i in (0, 1)
    )
    report(
        {type: {"many": many[1], "one": one[1]} for type, (many, one) in best.items()}
        | {"other_cores": 0.0}
    )


def _types(options: TranslationOptions) -> list[str]:
    """Return the types that this processor supports; the first of those that resolve to the
    same.
    """
    import ctranslate2

    resolved: dict[str, str] = {}
    for type in TYPES:
        if type in ctranslate2.get_supported_compute_types("cpu"):
            loaded = ctranslate2.Translator(
                str(options.folder / "ctranslate2"), compute_type=type
            )
            resolved.setdefault(loaded.compute_type, type)
    print("types:", resolved)
    return list(resolved.values())


def _best_many(
    options: TranslationOptions, type: str, sources: Sequence[Tokens]
) -> tuple[float, dict[str, Any]]:
    """Return sentences per second and the best setting: first workers and threads, then the batch
    size.
    """
    splits = {(options.threads, 1), (1, options.threads)}
    trials = [
        _speed(options, sources, type=type, workers=w, threads=t, batch=BATCH)
        for w, t in sorted(splits)
    ]
    best = max(trials, key=lambda speed: speed[0])
    others = [
        _speed(options, sources, **{**best[1], "batch": batch})
        for batch in BATCHES
        if batch != BATCH
    ]
    return max([best, *others], key=lambda speed: speed[0])


def _speed(
    options: TranslationOptions, sources: Sequence[Tokens], **setting: Any
) -> tuple[float, dict[str, Any]]:
    translate = _translator(options, **setting)
    translate(sources[:BATCH])
    began = time.perf_counter()
    translate(sources)
    speed = len(sources) / (time.perf_counter() - began)
    print(f"{speed:.1f} sentences/s", setting, flush=True)
    return speed, setting


def _best_one(
    options: TranslationOptions, type: str, sources: Sequence[Tokens]
) -> tuple[float, dict[str, Any]]:
    """Return single requests per second and the best number of threads."""
    return max(
        (
            _request_rate(options, sources, type=type, workers=1, threads=t)
            for t in sorted({1, options.threads})
        ),
        key=lambda trial: trial[0],
    )


def _request_rate(
    options: TranslationOptions, sources: Sequence[Tokens], **setting: Any
) -> tuple[float, dict[str, Any]]:
    translate = _translator(options, **setting)
    latencies = []
    for source in sources[:TRIAL_REQUESTS]:
        began = time.perf_counter()
        translate([source])
        latencies.append(time.perf_counter() - began)
    gc.collect()
    print(f"{median(latencies) * 1000:.2f} ms per request", setting, flush=True)
    return 1 / median(latencies), setting


if __name__ == "__main__":
    main()
