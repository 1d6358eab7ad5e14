"""Measure the runtime beside CTranslate2, in one run on this machine: `make bench-runtime`, or the
options below.

Text in, text out, int8, two threads, targets of a given number of steps. The two take turns, each
in a process of its own, in three rounds; ratios are of the medians, above 1 where Regard is better:

- cold: seconds of `echo LINE | …` from the shell, a `tiny` model, greedy; CTranslate2 from the
  smallest Python program
- memory: peak of a process that translates single sentences with `base`
- latency: median of single sentences, greedy; CTranslate2 with the better of one and two threads
- throughput: sentences per second with a beam of 5, the smaller of `tiny` and `base`; CTranslate2
  with its better split of threads into workers
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WORK = HERE / ".work" / "runtime"
MODELS = ("tiny", "base")
SYSTEMS = ("regard", "ctranslate2")
STEPS = 15
"""Steps of every target: Multi30k's references have 14.3 tokens and an end of sentence."""
SENTENCES = {"tiny": 1000, "base": 300}
SINGLE = {"tiny": 200, "base": 60}
COLD = """
import sys, ctranslate2, sentencepiece
folder, vocabulary = sys.argv[1:]
processor = sentencepiece.SentencePieceProcessor(vocabulary)
translator = ctranslate2.Translator(folder, compute_type="int8", intra_threads=2)
line = sys.stdin.readline()
tokens = [*processor.encode(line, out_type=str), "</s>"]
(result,) = translator.translate_batch([tokens], beam_size=1)
print(processor.decode(result.hypotheses[0]))
"""

Translate = Callable[[Sequence[str], int], list[str]]


def main() -> int:
    """Make the models, measure in rounds, print the table and the ratios."""
    options = _options()
    if options.worker:
        return _work(options)
    models = {name: _make(name, options) for name in MODELS}
    measured: dict[tuple[str, str], dict[str, list[float]]] = {}
    for number in range(options.rounds):
        for model in MODELS:
            for system in SYSTEMS if number % 2 == 0 else reversed(SYSTEMS):
                run = _measure(system, model, models[model], options)
                print(f"round {number + 1} {model} {system}: " + _line(run), flush=True)
                for name, value in run.items():
                    measured.setdefault((system, model), {}).setdefault(
                        name, []
                    ).append(value)
    medians = {
        key: {name: statistics.median(values) for name, values in item.items()}
        for key, item in measured.items()
    }
    (WORK / "results.json").write_text(
        json.dumps({" ".join(key): value for key, value in measured.items()}, indent=1)
    )
    print("\nmedians")
    for (system, model), values in medians.items():
        print(f"{model:5} {system:12} {_line(values)}")
    print("greedy throughput tiny", f"{_ratio(medians, 'tiny', 'greedy_per_s'):.2f}")
    throughput = min(_ratio(medians, model, "beam_per_s") for model in MODELS)
    print(
        f"ratio cold {1 / _ratio(medians, 'tiny', 'cold_s'):.2f} memory "
        f"{1 / _ratio(medians, 'base', 'peak_mb'):.2f} tiny-latency "
        f"{1 / _ratio(medians, 'tiny', 'latency_ms'):.2f} base-latency "
        f"{1 / _ratio(medians, 'base', 'latency_ms'):.2f} throughput {throughput:.2f}"
    )
    return 0


def _ratio(
    medians: dict[tuple[str, str], dict[str, float]], model: str, name: str
) -> float:
    """Return Regard's figure over that of CTranslate2."""
    return medians["regard", model][name] / medians["ctranslate2", model][name]


def _line(values: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items())


def _make(model: str, options: argparse.Namespace) -> Path:
    """Make the folders and files of a model from a run, or of random weights; return the folder
    that holds them.
    """
    from prepare import prepare, test_files, training_files

    folder = WORK / model
    run = getattr(options, f"run_{model}")
    data = prepare(training_files(options.data), HERE / ".work" / "data")
    lines = test_files(options.data)[0]
    command = [
        sys.executable,
        str(HERE / "models.py"),
        f"--model={model}",
        f"--data={data}",
        f"--lines={lines}",
    ]
    command += [
        f"--folder={folder}",
        "--sentences=1000",
        *([f"--run={run}"] if run else []),
    ]
    subprocess.run(command, check=True, cwd=HERE, stdout=subprocess.DEVNULL)
    texts = Path(lines).read_text("utf-8").split("\n")[:1000]
    (folder / "lines.txt").write_text("\n".join(texts) + "\n", "utf-8")
    from regard.interchange.runtime import export

    export(
        folder / "regard", folder / "translator.regard", "int8", folder / "lines.txt"
    )
    return folder


def _measure(
    system: str, model: str, folder: Path, options: argparse.Namespace
) -> dict[str, float]:
    """Measure one system on one model, in processes of its own."""
    command = [
        sys.executable,
        __file__,
        "--worker",
        system,
        "--model",
        model,
        "--folder",
        str(folder),
    ]
    environ = os.environ | {"OMP_NUM_THREADS": str(options.threads)}
    done = subprocess.run(
        [*command, "--threads", str(options.threads)],
        check=True,
        capture_output=True,
        env=environ,
    )
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    line = (folder / "lines.txt").read_text("utf-8").split("\n")[0]
    shell = [
        sys.executable,
        "-c",
        COLD,
        str(folder / "ctranslate2"),
        str(folder / "regard" / "joint.model"),
    ]
    if system == "regard":
        shell = [
            str(Path(sys.executable).with_name("regard")),
            "translate",
            str(folder / "translator.regard"),
            "--beam=1",
        ]
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(
            shell, input=line.encode() + b"\n", check=True, capture_output=True
        )
        times.append(time.perf_counter() - began)
    return {"cold_s": statistics.median(times), **values}


# --- workers


def _work(options: argparse.Namespace) -> int:
    """Measure latency, peak memory and throughput in this process."""
    lines = (options.folder / "lines.txt").read_text("utf-8").split("\n")
    lines = [line for line in lines if line][: SENTENCES[options.model]]
    single = lines[: SINGLE[options.model]]
    make = _regard if options.worker == "regard" else _ctranslate2
    splits = (
        [(1, options.threads)]
        if options.worker == "regard"
        else [(1, 1), (1, options.threads)]
    )
    latency = min(_latency(make(options, *split), single) for split in splits)
    values = {"latency_ms": 1000 * latency, "peak_mb": _peak()}
    splits = (
        [(1, options.threads)]
        if options.worker == "regard"
        else [(options.threads, 1), (1, options.threads)]
    )
    translators = [make(options, *split) for split in splits]
    for name, beam in (("greedy_per_s", 1), ("beam_per_s", 5)):
        values[name] = max(_speed(translate, lines, beam) for translate in translators)
    print(json.dumps(values))
    return 0


def _peak() -> float:
    """Return the peak memory of this process in MB; of what started it, which getrusage counts too,
    nothing.
    """
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().split("\n")
        if line.startswith("VmHWM")
    )
    return int(line.split()[1]) * 1024 / 1e6


def _latency(translate: Translate, lines: Sequence[str]) -> float:
    translate(lines[:5], 1)
    times = []
    for line in lines:
        began = time.perf_counter()
        translate([line], 1)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _speed(translate: Translate, lines: Sequence[str], beam: int) -> float:
    translate(lines[:32], beam)
    began = time.perf_counter()
    translate(lines, beam)
    return len(lines) / (time.perf_counter() - began)


def _regard(options: argparse.Namespace, _: int, threads: int) -> Translate:
    import regard

    translator = regard.load(options.folder / "translator.regard")
    translator.threads = threads

    def translate(lines: Sequence[str], beam: int) -> list[str]:
        results = translator.translate(
            lines,
            beam=beam,
            min_length=STEPS - 1,
            max_length=STEPS - 1,
            length_penalty=0.0,
        )
        return [result.text for result in results]

    return translate


def _ctranslate2(options: argparse.Namespace, workers: int, threads: int) -> Translate:
    import ctranslate2
    import sentencepiece

    processor: Any = sentencepiece.SentencePieceProcessor(
        model_file=str(options.folder / "regard" / "joint.model")
    )
    translator = ctranslate2.Translator(
        str(options.folder / "ctranslate2"),
        compute_type="int8",
        inter_threads=workers,
        intra_threads=threads,
    )

    def translate(lines: Sequence[str], beam: int) -> list[str]:
        tokens = [[*row, "</s>"] for row in processor.encode(list(lines), out_type=str)]
        results = translator.translate_batch(
            tokens,
            beam_size=beam,
            max_batch_size=64,
            length_penalty=1e-6,
            min_decoding_length=STEPS,
            max_decoding_length=STEPS,
        )
        return [processor.decode(result.hypotheses[0]) for result in results]

    return translate


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure the runtime beside CTranslate2."
    )
    parser.add_argument("--data", help="the folder that holds multi30k/")
    parser.add_argument(
        "--run-tiny",
        type=Path,
        help="a trained model; without one the weights are random",
    )
    parser.add_argument("--run-base", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--worker", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--model", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
