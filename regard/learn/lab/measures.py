"""Measures of trained runs: scores of translations and captions, on data that neither trained nor
chose a rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.common.bilingual import Words
from regard.data.text import read_lines, read_parallel
from regard.evaluation.caption_metrics import caption_scores
from regard.evaluation.text_metrics import chrf_and_bleu
from regard.learn.lab.bench import Bench, Measure
from regard.learn.lab.findings import LABELS, Curve, Plot, Table
from regard.learn.lab.sweep import Columns, Sweep
from regard.pipeline import load_captioner, load_translator
from regard.training.journal import read

LENGTHS = ((1, 4), (5, 8), (9, 12), (13, 16), (17, 24))
"""Ranges of source words by which quality is measured."""
BY_LENGTH: Mapping[str, str] = {
    f"chrF {low}–{high}": f"{low}–{high}" for low, high in LENGTHS
}
SHORTEST, *_, LONGEST = BY_LENGTH
QUALITY: Columns = {"chrF": "chrF", "BLEU": "BLEU"}


def translate(
    folder: Path, sources: Sequence[str], targets: Sequence[str]
) -> tuple[list[str], dict[str, float]]:
    """Translate sentences greedily; return the translations, and their chrF and BLEU."""
    outputs = [
        translation.text
        for translation in load_translator(folder).translate(list(sources), beam=1)
    ]
    scores = chrf_and_bleu(outputs, targets)
    return outputs, {"chrF": scores["chrf"], "BLEU": scores["bleu"]}


def text_scores(bench: Bench, data: str = "sample") -> Measure:
    """Return a measure of the translation of test sentences: chrF and BLEU; by length too if all
    lengths are there.
    """

    def measure(folder: Path) -> Mapping[str, float]:
        path = bench.data(data)
        sources, targets = read_parallel([str(path / "test.ko"), str(path / "test.en")])
        outputs, scores = translate(folder, sources, targets)
        for key, (low, high) in zip(BY_LENGTH, LENGTHS, strict=True):
            rows = [
                i for i, line in enumerate(sources) if low <= len(line.split()) <= high
            ]
            if rows and data != "sample":
                scores[key] = chrf_and_bleu(
                    [outputs[i] for i in rows], [targets[i] for i in rows]
                )["chrf"]
        return scores

    return measure


def caption_measure(bench: Bench) -> Measure:
    """Return a measure of captions: CIDEr-D, BLEU-4, and the share of shapes that are named rightly
    in their place.
    """

    def measure(folder: Path) -> Mapping[str, float]:
        path = bench.data("image-sample")
        files, captions = zip(
            *(line.split("\t") for line in read_lines(str(path / "test.en.tsv"))),
            strict=True,
        )
        images = [path / "images" / file for file in files]
        outputs = [
            caption.text for caption in load_captioner(folder).caption(images, beam=1)
        ]
        scores = {
            score.name: score.value
            for score in caption_scores(outputs, [[caption] for caption in captions])
        }
        pairs = [
            pair
            for output, caption in zip(outputs, captions, strict=True)
            for pair in _places(output, caption)
        ]
        return {**scores, "right": 100 * sum(a == b for a, b in pairs) / len(pairs)}

    return measure


def _places(output: str, caption: str) -> list[tuple[list[str], list[str]]]:
    """Return colour and shape at each place of a caption, given and right."""
    given = output.split()
    right = caption.split()
    return [(given[i : i + 2], right[i : i + 2]) for i in range(0, len(right), 2)]


def length_table(sweep: Sweep, keys: Sequence[str] = tuple(BY_LENGTH)) -> Table:
    """Return a table of quality by the length of the source."""
    return sweep.table(
        LABELS["by_length"],
        {**{BY_LENGTH[key]: key for key in keys}, LABELS["all"]: "chrF"},
    )


def length_plot(sweep: Sweep, keys: Sequence[str] = tuple(BY_LENGTH)) -> Plot:
    """Return a plot of quality by the length of the source, with a line for each seed."""
    places = {key: float(place) for place, key in enumerate(keys)}
    return Plot(
        "chrF",
        LABELS["source_words"],
        sweep.lines(places),
        tuple(BY_LENGTH[key] for key in keys),
    )


def validation_plot(bench: Bench, sweep: Sweep, title: Words, score: str) -> Plot:
    """Return a plot of a validation score over updates, of the runs that were trained here."""
    curves = []
    for number, (arm, words) in enumerate(sweep.names.items()):
        for folder in bench.own(arm):
            events = [
                event
                for event in read(folder / "journal.jsonl")
                if event["event"] == "valid"
            ]
            points = tuple(
                (float(e["update"]), float(e[score]))
                for e in events
                if e.get(score) is not None
            )
            curves += [Curve(words, points, number)] if points else []
    return Plot(title, LABELS["updates"], tuple(curves))


def last_loss(folder: Path) -> float:
    """Return the validation loss at the end of a run, in nats a token."""
    losses = [
        event.get("loss")
        for event in read(folder / "journal.jsonl")
        if event["event"] == "valid"
    ]
    return float(losses[-1] or 0.0)
