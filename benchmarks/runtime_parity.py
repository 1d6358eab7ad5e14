"""Compare runtime files with the runs they come from, on real sentences: tokens, scores, attention,
levels.

    python benchmarks/runtime_parity.py RUN... --lines val.en [--sentences 1000] [--levels
    avx2,avx512vnni]

For each run, precision and beam it prints how many sentences have the same tokens as those of
`Translator`, by the model itself in float32 (PyTorch) and by the native engine in int8; of float32
files also the largest difference of the winners' attention. With `--levels`, the same file is
translated at these levels too, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

BEAMS = (1, 5)


def main() -> None:
    """Compare each run in each precision."""
    options = _options()
    if options.file:
        print(json.dumps(_translated(options)))
        return
    warnings.simplefilter("ignore")
    lines = options.lines.read_text("utf-8").split("\n")[: options.sentences]
    for run in options.runs:
        for precision in ("float32", "int8"):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "model.regard"
                _compare(run, precision, file, lines, options)


def _compare(
    run: Path, precision: Any, file: Path, lines: list[str], options: argparse.Namespace
) -> None:
    from regard.interchange.runtime import export
    from regard.pipeline import RuntimeTranslator, load_translator

    export(run, file, precision, options.lines)
    runtime = RuntimeTranslator(file)
    translator = load_translator(run, precision=precision)
    if precision == "float32":
        translator.engine.reason = "compared with PyTorch"  # decode by the model itself
    for beam in BEAMS:
        readings = precision == "float32" and beam == 1
        expected = translator.translate(lines, beam=beam, readings=readings)
        actual = runtime.translate(lines, beam=beam, readings=readings)
        pairs = list(zip(actual, expected, strict=True))
        same = [(a, b) for a, b in pairs if a.tokens == b.tokens]
        score = max(abs(a.score - b.score) for a, b in same)
        others = [
            abs(a.score - translator_score(translator, line, a))
            for line, (a, b) in zip(lines, pairs, strict=True)
            if a.tokens != b.tokens
        ]
        text = (
            f"{run.name} {precision} beam {beam}: {len(same)} of {len(lines)} equal, scores within "
            f"{score:.1e}"
        )
        if others:
            text += f"; of the others, score and forced score within {max(others):.1e}"
        if readings:
            text += f"; attention within {max(_attention(a, b) for a, b in same):.1e}"
        print(text, flush=True)
        for level in options.levels:
            _at_level(level, file, beam, actual, options)


def translator_score(translator: Any, line: str, result: Any) -> float:
    """Return the score of a runtime's output by forced decoding of the model, over the length
    penalty.
    """
    from regard.search import LengthPenalty

    ids = translator.tokenizer.target.ids(result.tokens)
    return translator.score(line, ids) / LengthPenalty(
        translator.settings.search.length_penalty
    )(len(ids) + 1)


def _attention(actual: Any, expected: Any) -> float:
    weights = expected.readings.weights
    return max(
        (
            float(np.abs(actual.readings.weights[name] - weights[name]).max())
            for name in weights
        ),
        default=0.0,
    )


def _at_level(
    level: str, file: Path, beam: int, actual: list[Any], options: argparse.Namespace
) -> None:
    """Translate the same file in a process at another level, and count the sentences that are
    equal.
    """
    command = [
        sys.executable,
        __file__,
        "--file",
        str(file),
        "--lines",
        str(options.lines),
        "--beam",
        str(beam),
    ]
    environ = os.environ | {"REGARD_LEVEL": level}
    done = subprocess.run(
        [*command, "--sentences", str(options.sentences)],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )
    texts, scores, name = json.loads(done.stdout)
    same = sum(text == result.text for text, result in zip(texts, actual, strict=True))
    close = max(
        (
            abs(s - r.score)
            for s, t, r in zip(scores, texts, actual, strict=True)
            if t == r.text
        ),
        default=0.0,
    )
    print(
        f"  at level {name}: {same} of {len(texts)} equal, their scores within {close:.1e}",
        flush=True,
    )


def _translated(options: argparse.Namespace) -> tuple[list[str], list[float], str]:
    from regard.pipeline import RuntimeTranslator
    from regard.runtime.native import level

    lines = options.lines.read_text("utf-8").split("\n")[: options.sentences]
    results = RuntimeTranslator(options.file).translate(lines, beam=options.beam)
    return (
        [result.text for result in results],
        [result.score for result in results],
        level(),
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compare runtime files with their runs."
    )
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--levels", type=lambda text: text.split(","), default=[])
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--beam", type=int, default=1, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
