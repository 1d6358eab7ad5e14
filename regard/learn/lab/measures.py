"""Measure trained runs: scores of translations and captions on test data.

The test data are used neither for training nor for the choice of a learning rate.
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
from regard.training.journal import ValidationScore, of_kind, read

LENGTHS = ((1, 4), (5, 8), (9, 12), (13, 16), (17, 24))
"""Ranges of the number of source words by which quality is measured."""
BY_LENGTH: Mapping[str, str] = {
    f"chrF {low}–{high}": f"{low}–{high}" for low, high in LENGTHS
}
SHORTEST, *_, LONGEST = BY_LENGTH
QUALITY: Columns = {"chrF": "chrF", "BLEU": "BLEU"}


def translate(
    folder: Path, sources: Sequence[str], targets: Sequence[str]
) -> tuple[list[str], dict[str, float]]:
    """Translate sentences greedily; return the translations, and their chrF and BLEU."""
    translations = load_translator(folder).translate(list(sources), beam=1)
    outputs = [translation.text for translation in translations]
    scores = chrf_and_bleu(outputs, targets)
    return outputs, {"chrF": scores["chrf"], "BLEU": scores["bleu"]}


def text_scores(bench: Bench, data: str = "sample") -> Measure:
    """Return a measure of test translations: chrF and BLEU.

    Unless the data are "sample", it also measures chrF by source length.
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
                row_outputs = [outputs[i] for i in rows]
                row_targets = [targets[i] for i in rows]
                scores[key] = chrf_and_bleu(row_outputs, row_targets)["chrf"]
        return scores

    return measure


def caption_measure(bench: Bench) -> Measure:
    """Return a measure of test captions: CIDEr-D, BLEU-4, and the percentage of correctly named
    shapes.
    """

    def measure(folder: Path) -> Mapping[str, float]:
        path = bench.data("image-sample")
        rows = [line.split("\t") for line in read_lines(str(path / "test.en.tsv"))]
        images = [path / "images" / file for file, _ in rows]
        references = [caption for _, caption in rows]
        captions = load_captioner(folder).caption(images, beam=1)
        outputs = [caption.text for caption in captions]

        all_scores = caption_scores(outputs, [[caption] for caption in references])
        scores = {score.name: score.value for score in all_scores}
        matches = list[bool]()
        for output, reference in zip(outputs, references, strict=True):
            matches += _shape_matches(output, reference)
        return {**scores, "right": 100 * sum(matches) / len(matches)}

    return measure


def _shape_matches(output: str, reference: str) -> list[bool]:
    """Return whether the output has the colour and shape of the reference at each place."""
    output_words = output.split()
    reference_words = reference.split()
    return [
        output_words[i : i + 2] == reference_words[i : i + 2]
        for i in range(0, len(reference_words), 2)
    ]


def length_table(sweep: Sweep, keys: Sequence[str] = tuple(BY_LENGTH)) -> Table:
    """Return a table of quality by the length of the source."""
    columns: dict[Words, str] = {BY_LENGTH[key]: key for key in keys}
    columns[LABELS["all"]] = "chrF"
    return sweep.table(LABELS["by_length"], columns)


def length_plot(sweep: Sweep, keys: Sequence[str] = tuple(BY_LENGTH)) -> Plot:
    """Return a plot of quality by the length of the source, with a line for each seed."""
    places = {key: float(place) for place, key in enumerate(keys)}
    return Plot(
        "chrF",
        LABELS["source_words"],
        sweep.lines(places),
        tuple(BY_LENGTH[key] for key in keys),
    )


def validation_plot(
    bench: Bench, sweep: Sweep, title: Words, score: ValidationScore
) -> Plot:
    """Return a plot of a validation score over updates, for the runs that were trained here."""

    def measure() -> dict[str, list[list[tuple[float, float]]]]:
        return {
            arm: [_scores_by_update(folder, score) for folder in bench.own(arm)]
            for arm in sweep.names
        }

    by_arm = bench.record(score, measure)
    curves = [
        Curve(words, tuple(points), number)
        for number, (arm, words) in enumerate(sweep.names.items())
        for points in by_arm[arm]
        if points
    ]
    return Plot(title, LABELS["updates"], tuple(curves))


def _scores_by_update(
    folder: Path, score: ValidationScore
) -> list[tuple[float, float]]:
    """Return pairs of an update and a validation score of a run."""
    return [
        (float(event["update"]), value)
        for event in of_kind(read(folder / "journal.jsonl"), "valid")
        if (value := event.get(score)) is not None
    ]


def last_loss(folder: Path) -> float:
    """Return the last validation loss of a run, in nats per token."""
    losses = [
        event.get("loss") for event in of_kind(read(folder / "journal.jsonl"), "valid")
    ]
    return float(losses[-1] or 0.0)
