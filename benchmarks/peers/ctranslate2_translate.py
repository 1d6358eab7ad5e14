"""CTranslate2, with the best of its settings: compute type, workers and threads, batch size.

`--task try` finds the settings, for each compute type and over all; then they are handed in.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from peers.translating import BATCH, END, Pieces, Translate, TranslationOptions, measure, read, start, tell

TYPES = ("int8", "int8_float32", "int8_bfloat16", "float32", "bfloat16")
BATCHES = (32, 64, 128)
TRIED, REQUESTS = 2 * max(BATCHES), 15


def main() -> None:
    """Try settings, or measure with those that were found."""
    options = start("ctranslate2_translate")
    if options.task == "try":
        _try(options)
    many, one = options.setting["many"], options.setting["one"]
    measure(options, _translator(options, **many), lambda: _translator(options, **one))


def _translator(options: TranslationOptions, type: str, workers: int, threads: int, batch: int = BATCH) -> Translate:
    import ctranslate2

    translator = ctranslate2.Translator(
        str(options.folder / "ctranslate2"), compute_type=type, inter_threads=workers, intra_threads=threads
    )
    lengths = {"min_decoding_length": options.forced or 1, "max_decoding_length": options.forced or options.most - 1}

    def translate(sentences: Sequence[Pieces]) -> list[Pieces]:
        # With a length penalty of zero the search would end at its first hypothesis; so small a one ranks the same.
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
    """Tell the best settings for many sentences and for one, for each type that this machine has, and over all."""
    sources = read(options.source)[:TRIED]
    found = {type: (_best_many(options, type, sources), _best_one(options, type, sources)) for type in _types(options)}
    found["best"] = tuple(max((tried[i] for tried in found.values()), key=lambda tried: tried[0]) for i in (0, 1))
    tell({type: {"many": many[1], "one": one[1]} for type, (many, one) in found.items()} | {"other_cores": 0.0})


def _types(options: TranslationOptions) -> list[str]:
    """The types that this processor has; of those that come to the same, the first."""
    import ctranslate2

    meant: dict[str, str] = {}
    for type in TYPES:
        if type in ctranslate2.get_supported_compute_types("cpu"):
            loaded = ctranslate2.Translator(str(options.folder / "ctranslate2"), compute_type=type)
            meant.setdefault(loaded.compute_type, type)
    print("types:", meant)
    return list(meant.values())


def _best_many(options: TranslationOptions, type: str, sources: Sequence[Pieces]) -> tuple[float, dict[str, Any]]:
    """Sentences a second and the setting: first how the threads are spread, then the size of batches."""
    spreads = {(options.threads, 1), (1, options.threads)}
    tried = [_speed(options, sources, type=type, workers=w, threads=t, batch=BATCH) for w, t in sorted(spreads)]
    best = max(tried, key=lambda speed: speed[0])
    others = [_speed(options, sources, **{**best[1], "batch": batch}) for batch in BATCHES if batch != BATCH]
    return max([best, *others], key=lambda speed: speed[0])


def _speed(options: TranslationOptions, sources: Sequence[Pieces], **setting: Any) -> tuple[float, dict[str, Any]]:
    translate = _translator(options, **setting)
    translate(sources[:BATCH])
    began = time.perf_counter()
    translate(sources)
    speed = len(sources) / (time.perf_counter() - began)
    print(f"{speed:.1f} sentences/s", setting, flush=True)
    return speed, setting


def _best_one(options: TranslationOptions, type: str, sources: Sequence[Pieces]) -> tuple[float, dict[str, Any]]:
    """Single requests a second, and by how many threads."""
    return max(
        (_answers(options, sources, type=type, workers=1, threads=t) for t in sorted({1, options.threads})),
        key=lambda tried: tried[0],
    )


def _answers(options: TranslationOptions, sources: Sequence[Pieces], **setting: Any) -> tuple[float, dict[str, Any]]:
    translate, taken = _translator(options, **setting), []
    for source in sources[:REQUESTS]:
        began = time.perf_counter()
        translate([source])
        taken.append(time.perf_counter() - began)
    gc.collect()
    print(f"{median(taken) * 1000:.2f} ms a request", setting, flush=True)
    return 1 / median(taken), setting


if __name__ == "__main__":
    main()
