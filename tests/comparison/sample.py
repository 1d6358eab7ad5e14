"""A made-up comparison of any size, always the same for the same arguments: for the report and its
tests.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import random
from dataclasses import replace

from PIL import Image, ImageDraw

from regard.comparison.result import (
    Alignment,
    AttentionMap,
    Breakdown,
    Bucket,
    Calibration,
    Comparison,
    Cost,
    Example,
    Point,
    RunResult,
    RunScore,
    SeedScore,
    System,
    TestSet,
)
from regard.evaluation.calibration import CalibrationBin

ENGLISH = [
    "I",
    "was",
    "told",
    "that",
    "the",
    "grandmother",
    "'s",
    "photographs",
    "of",
    "an",
    "old",
    "library",
    "were",
    "moved",
    "to",
    "another",
    "house",
    "last",
    "year",
    "because",
    "rain",
    "came",
    "through",
    "its",
    "roof",
    "every",
    "night",
    "and",
    "nobody",
    "knew",
    "whom",
    "to",
    "ask",
    "about",
    "it",
]
KOREAN = [
    "저는",
    "도서관에서",
    "할머니의",
    "오래된",
    "사진을",
    "다른",
    "집으로",
    "옮길",
    "것이라는",
    "말을",
    "들었는데",
    "지난해",
    "밤마다",
    "지붕으로",
    "비가",
    "들어왔고",
    "아무도",
    "누구에게",
    "물어야",
    "할지",
    "몰랐다고",
    "한다",
]
COLOURS = ("red", "blue", "green", "orange", "purple")
FORMS = ("square", "circle", "triangle")
NAMES = (
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
)
SETTINGS = {
    "BLEU": "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
    "chrF": "nrefs:1|bs:1000|seed:12345|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
    "TER": "nrefs:1|bs:1000|seed:12345|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0",
}
LENGTHS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, 40))
FREQUENCIES = (
    ("never", 0, 0),
    ("1", 1, 1),
    ("2", 2, 2),
    ("3", 3, 3),
    ("4", 4, 4),
    ("5–9", 5, 9),
    ("10–99", 10, 99),
    ("100–999", 100, 999),
    ("1,000 and more", 1000, None),
)


def make_comparison(
    sentences: int = 60,
    systems: int = 3,
    seeds: int = 2,
    task: str = "translation",
    has_file: bool = False,
    p: float = 0.001,
) -> Comparison:
    """Make a comparison; `has_file`: with another system of which only a file of outputs is
    known.
    """
    rng = random.Random(7)
    names = NAMES[:systems]
    test = _captions(rng, sentences) if task == "captions" else _sentences(rng, sentences)
    runs = [
        _run(rng, task, test, name, number, seed, seeds, p)
        for number, name in enumerate(names)
        for seed in range(1, seeds + 1)
    ]
    if has_file:
        runs.append(_file(rng, task, test, systems, seeds, p))
        names = (*names, "online.txt")
    return Comparison(
        task,
        test,
        names[0],
        tuple(_system(name, [run for run in runs if run.system == name]) for name in names),
        tuple(runs),
        _breakdowns(rng, task, test, names),
        _examples(rng, task, test, runs),
        "3 minutes of training each",
        ("Warm-up and validations are fitted to the budget, and no run was stopped early.",),
        {
            "regard": "0.9.0",
            "PyTorch": "2.13.0",
            "Machine": "2 cores, 8 GiB, Linux",
            "Beam": "5, length penalty 1",
        },
    )


def _sentences(rng: random.Random, count: int) -> TestSet:
    sources = []
    references = []
    for number in range(count):
        size = rng.randint(3, 38)
        sources.append(" ".join(rng.choices(ENGLISH, k=size)) + f" {number}.")
        references.append((" ".join(rng.choices(KOREAN, k=max(2, size * 2 // 3))) + ".",))
    digest = hashlib.sha256(str(sources).encode()).hexdigest()
    return TestSet(
        "news.en–ko",
        tuple(sources),
        tuple(references),
        digest,
        "it was held out of the training data",
    )


def _captions(rng: random.Random, count: int) -> TestSet:
    names = tuple(f"{n:04}.png" for n in range(count))
    texts = [f"a {rng.choice(COLOURS)} {rng.choice(FORMS)} on a white ground" for _ in names]
    return TestSet(
        "shapes", names, tuple((text, text.replace("a white", "white")) for text in texts), "0" * 64
    )


def _run(
    rng: random.Random,
    task: str,
    test: TestSet,
    name: str,
    number: int,
    seed: int,
    seeds: int,
    p: float,
) -> RunResult:
    quality = 0.35 + 0.09 * number + 0.01 * seed
    outputs = tuple(_worsened(rng, references[0], quality) for references in test.references)
    against = "" if number == 0 else NAMES[0] if seeds == 1 else f"{NAMES[0]}/{seed}"
    return RunResult(
        name if seeds == 1 else f"{name}/{seed}",
        name,
        seed,
        f"runs/{name}-{seed}",
        "" if (number, seed) != (2, 2) else "not ended: stopped at update 1,200 of 4,000",
        _scores(task, quality, against, p),
        outputs,
        tuple(rng.uniform(0, 100 if task == "translation" else 6) for _ in outputs),
        tuple(_points(task, quality, number)),
        Cost(4_200_000 + 900_000 * number, 5.1e6 + 1.2e6 * number, 4000, 2_400_000, 181.2, 2100.5 - 190 * number, 0.0213 + 0.004 * number, 412.0 + 20 * number, "native, float32, 1 thread"),
        _calibration(quality),
        Alignment(0.42 - 0.05 * number, 0.61, 0.55, "layer 2, head 1, one step later") if number and task == "translation" else None,
    )  # fmt: skip


def _file(
    rng: random.Random, task: str, test: TestSet, systems: int, seeds: int, p: float
) -> RunResult:
    outputs = tuple(_worsened(rng, references[0], 0.6) for references in test.references)
    against = NAMES[0] if seeds == 1 else f"{NAMES[0]}/1"
    scores = _scores(task, 0.6, against if systems else "", p)
    return RunResult(
        "online.txt",
        "online.txt",
        None,
        "online.txt",
        "",
        scores,
        outputs,
        tuple(50.0 for _ in outputs),
    )


def _worsened(rng: random.Random, text: str, quality: float) -> str:
    words = text.split()
    return " ".join(word if rng.random() < quality + 0.3 else rng.choice(words) for word in words)


def _scores(task: str, quality: float, against: str, p: float) -> tuple[RunScore, ...]:
    if task == "captions":
        values = {f"BLEU-{n}": 100 * quality / n for n in range(1, 5)} | {
            "chrF": 90 * quality,
            "CIDEr-D": 5 * quality,
            "exact": 40 * quality,
        }
        return tuple(
            RunScore(name, value, value - 0.3, value + 0.3, "nrefs:2|images:60|n:4|sigma:6", p=p if against else None, against=against)
            if name == "CIDEr-D"
            else RunScore(name, value, value, value, SETTINGS["chrF"] if name == "chrF" else "nrefs:2|images:60|smooth:none")
            for name, value in values.items()
        )  # fmt: skip
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
            p if against else None,
            against,
        )
        for name, value in values.items()
    )


def _points(task: str, quality: float, number: int) -> list[Point]:
    name = "chrf" if task == "translation" else "cider"
    return [
        Point(
            update,
            update * 600,
            update * 0.045,
            {
                "loss": 6 * math.exp(-update / 1500) + 2 - quality,
                name: 90 * quality * (1 - math.exp(-update / 1200)),
            },
            None if number == 0 else 2.4 - 1.2 * quality * (1 - math.exp(-update / 900)),
        )
        for update in range(250, 4001, 250)
    ]


def _calibration(quality: float) -> Calibration:
    bins = tuple(
        CalibrationBin(
            n / 10, (n + 1) / 10, 100 + 37 * n, n / 10 + 0.05, (n / 10 + 0.05) ** (2 - quality)
        )
        for n in range(10)
    )
    return Calibration(bins, 0.12 - 0.1 * quality)


def _system(name: str, runs: list[RunResult]) -> System:
    means = []
    for score in runs[0].scores:
        values = [run.score(score.name).value for run in runs]  # type: ignore[union-attr]
        mean = sum(values) / len(values)
        means.append(SeedScore(score.name, mean, mean - 1.21, mean + 1.24, len(values)))
    return System(name, tuple(run.name for run in runs), tuple(means))


def _breakdowns(
    rng: random.Random, task: str, test: TestSet, names: tuple[str, ...]
) -> tuple[Breakdown, ...]:
    def buckets(
        ranges: list[tuple[str, int, int | None]], start: float, slope: float
    ) -> dict[str, tuple[Bucket, ...]]:
        plain = {
            name: tuple(
                Bucket(label, first, last, 40 + 7 * n, value := start + 3 * k + slope * n * (1 - 0.3 * k) + rng.random(), value - 2.1, value + 2.3)
                for n, (label, first, last) in enumerate(ranges)
            )
            for k, name in enumerate(names)
        }  # fmt: skip
        return {name: tuple(map(lead, own, plain[names[0]])) for name, own in plain.items()}

    def lead(own: Bucket, base: Bucket) -> Bucket:
        gap = own.value - base.value
        return own if own is base else replace(own, lead=(gap, gap - 1.4, gap + 1.5))

    unit, score = (
        ("source words", "chrF") if task == "translation" else ("reference words", "CIDEr-D")
    )
    lengths: list[tuple[str, int, int | None]] = [
        (f"{first}–{last}", first, last) for first, last in LENGTHS
    ]
    by_length = Breakdown("length", score, unit, buckets(lengths, 52, -5.0))
    if task == "captions":
        return (by_length,)
    occurrences = "occurrences in the training data"
    return (
        by_length,
        Breakdown("seen_sources", "chrF", "source sentences", buckets([("every word seen in training", 0, 0), ("some word never seen", 1, None)], 48, -9)),
        Breakdown("frequency", "word F1", occurrences, buckets(list(FREQUENCIES), 12, 7)),
        Breakdown("seen_words", "word recall", occurrences, buckets([("seen in training", 1, None), ("never seen", 0, 0)], 55, -38)),
    )  # fmt: skip


def _examples(
    rng: random.Random, task: str, test: TestSet, runs: list[RunResult]
) -> tuple[Example, ...]:
    examples = []
    for index in range(min(12, len(test.sources))):
        attention = {
            run.name: _map(rng, task, test.sources[index], run.outputs[index])
            for run in runs
            if run.calibration and run.system != NAMES[0]
        }
        examples.append(
            Example(index, 61.5 - index, attention, _image(rng) if task == "captions" else "")
        )
    return tuple(examples)


def _map(rng: random.Random, task: str, source: str, output: str) -> AttentionMap:
    target = tuple(output.split())
    grid = (3, 4) if task == "captions" else None
    words = () if grid else tuple(source.split())
    columns = 12 if grid else len(words)
    rows = []
    for n in range(len(target)):
        centre = n * columns / max(1, len(target))
        weights = [math.exp(-abs(s - centre) + rng.random()) for s in range(columns)]
        rows.append(tuple(round(100 * weight / sum(weights)) for weight in weights))
    return AttentionMap(words, target, tuple(rows), grid)


def _image(rng: random.Random) -> str:
    image = Image.new("RGB", (160, 120), "white")
    x = rng.randint(0, 110)
    y = rng.randint(0, 70)
    ImageDraw.Draw(image).rectangle((x, y, x + 40, y + 40), fill=rng.choice(COLOURS))
    file = io.BytesIO()
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
