"""A comparison of any size with made-up numbers, always the same for the same arguments."""

from __future__ import annotations

import base64
import io
import random
from dataclasses import replace

from PIL import Image

from regard.comparison.result import (
    Alignment,
    AttentionMap,
    Breakdown,
    Bucket,
    Calibration,
    Comparison,
    Cost,
    Example,
    Lead,
    Point,
    RunResult,
    RunScore,
    SeedScore,
    System,
    TestSet,
)
from regard.comparison.summary import summarise
from regard.evaluation.calibration import CalibrationBin

ENGLISH = "I was told that the grandmother 's photographs were moved because rain came"
KOREAN = (
    "저는 도서관에서 할머니의 오래된 사진을 다른 집으로 옮길 것이라는 말을 들었는데"
)
NAMES = [
    "rnn-no-attention",
    "rnn-attention",
    "transformer",
    "convolutional",
    "local-attention",
    "deep",
    "wide",
    "eighth",
    "ninth",
    "tenth",
]
SETTINGS = {
    "BLEU": "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
    "chrF": "nrefs:1|bs:1000|seed:12345|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
    "TER": "nrefs:1|bs:1000|seed:12345|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0",
}
BREAKDOWNS = (
    (
        "length",
        "chrF",
        "source words",
        ("1–5", "6–10", "11–15", "16–20", "21–30", "31–40"),
        -5,
    ),
    ("frequency", "word F1", "occurrences", ("never", "1", "2–9", "10 and more"), 7),
    (
        "seen_words",
        "word recall",
        "occurrences",
        ("seen in training", "never seen"),
        -38,
    ),
)
"""Key, score, unit, labels of the buckets, and what the score gains from bucket to bucket."""


def make_comparison(
    sentences: int = 60,
    systems: int = 3,
    seeds: int = 2,
    task: str = "translation",
    has_file: bool = False,
) -> Comparison:
    """Make a comparison; `has_file` adds a system of which only a file of outputs is known."""
    rng = random.Random(7)
    names = NAMES[:systems]
    test = (
        _captions(rng, sentences) if task == "captions" else _sentences(rng, sentences)
    )
    runs = [
        _run(rng, task, test, number, seed, seeds)
        for number in range(systems)
        for seed in range(1, seeds + 1)
    ]
    if has_file:
        against = runs[0].name if runs else ""
        scores = _scores(task, 0.6, against)
        outputs = _outputs(rng, test, 0.6)
        of_sentences = (50.0,) * sentences
        name = "online.txt"
        runs.append(
            RunResult(name, name, None, name, "", scores, outputs, of_sentences)
        )
        names.append(name)

    comparison = Comparison(
        task,
        test,
        names[0],
        tuple(
            _system(name, [run for run in runs if run.system == name]) for name in names
        ),
        tuple(runs),
        tuple(_breakdown(rng, names, *values) for values in BREAKDOWNS),
        tuple(_example(task, test, runs, index) for index in range(min(12, sentences))),
        "3 minutes of training each",
        ("Warm-up and validations are fitted to the budget.",),
        {"regard": "0.9.0", "PyTorch": "2.13.0", "Machine": "2 cores, 8 GiB, Linux"},
    )
    return summarised(comparison)


def summarised(comparison: Comparison) -> Comparison:
    """Write the summary of a comparison anew."""
    return replace(comparison, summary=summarise(comparison))


def _sentences(rng: random.Random, count: int) -> TestSet:
    sources = []
    references = []
    for number in range(count):
        size = rng.randint(3, 38)
        source = rng.choices(ENGLISH.split(), k=size)
        reference = rng.choices(KOREAN.split(), k=max(2, size * 2 // 3))
        sources.append(f"{' '.join(source)} {number}.")
        references.append((f"{' '.join(reference)}.",))

    note = "it was held out of the training data"
    return TestSet("news.en–ko", tuple(sources), tuple(references), "1" * 64, note)


def _captions(rng: random.Random, count: int) -> TestSet:
    names = tuple(f"{number:04}.png" for number in range(count))
    colours = rng.choices(("red", "blue", "green"), k=count)
    references = tuple((f"a {one} square on white", f"{one} square") for one in colours)
    return TestSet("shapes", names, references, "0" * 64)


def _run(
    rng: random.Random, task: str, test: TestSet, number: int, seed: int, seeds: int
) -> RunResult:
    quality = 0.35 + 0.09 * number + 0.01 * seed
    system = NAMES[number]
    of_seed = "" if seeds == 1 else f"/{seed}"
    against = f"{NAMES[0]}{of_seed}" if number else ""
    outputs = _outputs(rng, test, quality)
    is_stopped = (number, seed) == (2, 2)
    has_alignment = number and task == "translation"

    return RunResult(
        f"{system}{of_seed}",
        system,
        seed,
        f"runs/{system}-{seed}",
        "not ended: stopped at update 1,200 of 4,000" if is_stopped else "",
        _scores(task, quality, against),
        outputs,
        tuple(rng.uniform(0, 100 if task == "translation" else 6) for _ in outputs),
        tuple(
            _point(task, quality, number, update) for update in range(250, 4001, 250)
        ),
        _cost(number),
        _calibration(quality),
        Alignment(0.42, 0.61, 0.55, "layer 2, head 1, one step later")
        if has_alignment
        else None,
        tested_update=3750 + seed,
        warned={"repetition": number} if number else {},
    )


def _outputs(rng: random.Random, test: TestSet, quality: float) -> tuple[str, ...]:
    """Replace words of the first references; fewer, the higher the quality."""
    outputs = []
    for references in test.references:
        words = references[0].split()
        drawn = []
        for word in words:
            drawn.append(word if rng.random() < quality + 0.3 else rng.choice(words))

        outputs.append(" ".join(drawn))

    return tuple(outputs)


def _scores(task: str, quality: float, against: str) -> tuple[RunScore, ...]:
    lead = Lead(4.05, 3.1, 5.2, 0.001, "paired bootstrap") if against else None
    if task == "captions":
        cider = 5 * quality
        chrf = 90 * quality
        return (
            RunScore("chrF", chrf, chrf, chrf, SETTINGS["chrF"]),
            RunScore(
                "CIDEr-D",
                cider,
                cider - 0.3,
                cider + 0.3,
                "nrefs:2|images:60|n:4",
                lead=lead,
                against=against,
            ),
            RunScore(
                "exact",
                40 * quality,
                40 * quality,
                40 * quality,
                "nrefs:2|images:60|n:4",
            ),
        )

    values = {"BLEU": 45 * quality, "chrF": 95 * quality, "TER": 110 * (1 - quality)}
    return tuple(
        RunScore(
            name,
            value,
            value - 1.13,
            value + 1.17,
            SETTINGS[name],
            value + 0.02,
            1.15,
            lead,
            against,
        )
        for name, value in values.items()
    )


def _point(task: str, quality: float, number: int, update: int) -> Point:
    scores = {
        "loss": 6 - quality - update / 1000,
        "cider" if task == "captions" else "chrf": quality,
    }

    return Point(
        update, update * 600, update * 0.045, scores, quality if number else None
    )


def _cost(number: int) -> Cost:
    return Cost(
        weights=4_200_000 + 900_000 * number,
        operations=5.1e6,
        updates=4000,
        training_tokens=2_400_000,
        training_seconds=181.2,
        tokens_per_second=2100.5 - 190 * number,
        latency=0.0213 + 0.002 * number,
        memory=412.0,
        decoding="native, float32, 1 thread",
        speeds=tuple(2100.5 - 190 * number + round_ for round_ in (-60.0, 0.0, 50.0)),
        latencies=tuple(0.0213 + 0.002 * number + one for one in (-0.0005, 0, 0.0005)),
    )


def _calibration(quality: float) -> Calibration:
    bins = [
        CalibrationBin(n / 10, n / 10 + 0.1, 100 + n, n / 10 + 0.05, quality * n / 10)
        for n in range(10)
    ]

    return Calibration(tuple(bins), 0.12 - 0.1 * quality)


def _system(name: str, runs: list[RunResult]) -> System:
    means = []
    for number, score in enumerate(runs[0].scores):
        values = [run.scores[number].value for run in runs]
        mean = sum(values) / len(values)
        lead = runs[0].scores[number].lead
        if len(runs) > 1 and name != NAMES[0]:
            lead = Lead(number + 1.25, number - 2.5, number + 5.0, 0.0625, "Welch")
        ends = mean - 1.21, mean + 1.24
        means.append(SeedScore(score.name, mean, *ends, len(values), lead))

    return System(name, tuple(run.name for run in runs), tuple(means))


def _breakdown(  # noqa: PLR0913 - the fields of a Breakdown
    rng: random.Random,
    names: list[str],
    key: str,
    score: str,
    unit: str,
    labels: tuple[str, ...],
    gain: float,
) -> Breakdown:
    """Make buckets; systems after the first lead by less and less of the gain."""
    systems = dict[str, tuple[Bucket, ...]]()
    for number, name in enumerate(names):
        buckets = []
        for place, label in enumerate(labels):
            value = 52 + 3 * number + gain * place * (1 - 0.3 * number) + rng.random()
            bucket = Bucket(
                label, place, place, 40 + 7 * place, value, value - 2.1, value + 2.3
            )
            if number:
                lead = value - systems[names[0]][place].value
                bucket = replace(bucket, lead=(lead, lead - 1.4, lead + 1.5))

            buckets.append(bucket)

        systems[name] = tuple(buckets)

    return Breakdown(key, score, unit, systems)


def _example(task: str, test: TestSet, runs: list[RunResult], index: int) -> Example:
    attention = {
        run.name: _attention(task, test.sources[index], run.outputs[index])
        for run in runs
        if run.calibration and run.system != NAMES[0]
    }

    return Example(
        index, 61.5 - index, attention, _image() if task == "captions" else ""
    )


def _attention(task: str, source: str, output: str) -> AttentionMap:
    target = tuple(output.split())
    grid = (3, 4) if task == "captions" else None
    words = () if grid else tuple(source.split())
    columns = len(words) or 12
    rows = []
    for number in range(len(target)):
        row = [50 // columns] * columns
        row[number % columns] += 50
        rows.append(tuple(row))

    return AttentionMap(words, target, tuple(rows), grid)


def _image() -> str:
    file = io.BytesIO()
    Image.new("RGB", (160, 120), "red").save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def with_gains(
    comparison: Comparison,
    system: str,
    gains: list[tuple[float, float]],
    lead: Lead | None,
) -> Comparison:
    """Give each run of a system a gain in BLEU over the baseline's run of the same seed, with its
    p-value, and the system the test of its difference.
    """
    systems = {one.name: one for one in comparison.systems}
    runs = {run.name: run for run in comparison.runs}
    values = []
    for place, (gain, p) in enumerate(gains):
        base = runs[systems[comparison.baseline].runs[place]]
        run = runs[systems[system].runs[place]]
        bleu, *others = run.scores
        values.append(base.scores[0].value + gain)
        of_run = Lead(gain, gain - 1, gain + 1, p, "paired bootstrap")
        bleu = replace(bleu, value=values[-1], lead=of_run, against=base.name)
        runs[run.name] = replace(run, scores=(bleu, *others))

    first, *others_of_system = systems[system].scores
    first = replace(first, mean=sum(values) / len(values), lead=lead)
    systems[system] = replace(systems[system], scores=(first, *others_of_system))
    changed = replace(
        comparison, systems=tuple(systems.values()), runs=tuple(runs.values())
    )
    return summarised(changed)
