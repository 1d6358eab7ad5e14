"""regard evaluate: translate or caption a test set, and print scores with their signatures."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.app import app, say, warn
from regard.cli.evaluate_captions import evaluate_captions
from regard.cli.options import select_device
from regard.cli.printed_scores import print_scores, scores_as_values
from regard.cli.search_options import search_command
from regard.common.counting import counted
from regard.common.errors import LineError, UsageError
from regard.data.bleu_tokenizer import BleuTokenizer
from regard.requests.evaluate_request import EvaluateCommand

if TYPE_CHECKING:
    from regard.evaluation.length_buckets import LengthBucket
    from regard.evaluation.significance import TestedScore
    from regard.evaluation.text_metrics import MetricScore


MAX_RUNS = 6
"""Models in one figure: as many as there are colours."""


@app.command(
    request=EvaluateCommand,
    search=search_command("beam", "length_penalty"),
    sets=("threads", "seed"),
)
def evaluate(command: EvaluateCommand) -> None:
    """Print scores, each with the signature that says how it was computed.

    Translations (--source and --reference, or --pairs) get BLEU, chrF and TER; captions (--images,
    --captions) BLEU-1 to BLEU-4, chrF, CIDEr-D and the share that equals a reference exactly. With
    --against, also the difference of that model from this one, with its 95 % interval and p;
    `regard compare` writes a report on several models.
    """
    _check_options(command)
    if command.corrections is not None:
        _evaluate_corrections(command, command.corrections)
    elif command.images is not None:
        evaluate_captions(command)
    elif command.pairs is not None:
        _evaluate_translations(command, *_read_pairs(command, command.pairs))
    else:
        test_set = _read_parallel(str(command.source), list(command.reference))
        _evaluate_translations(command, *test_set)


def _check_options(command: EvaluateCommand) -> None:
    """Raise UsageError, with all causes, unless the options name either sentences or images to
    score.
    """
    images = ("images", "captions")
    texts: tuple[str, ...] = ("source", "reference")
    for name in ("pairs", "corrections"):
        if getattr(command, name):
            texts = (name,)
    has_images, has_texts = (
        any(getattr(command, name) for name in options) for options in (images, texts)
    )
    causes = _exclusive_options(command, texts)
    if has_images and has_texts:
        causes.append(
            f"--{texts[0]} and --images: score either sentences or images; leave one out"
        )
    elif not has_images and not has_texts:
        causes.append(
            "there is nothing to score: give --source and --reference, --pairs, or --images and "
            "--captions"
        )
    else:
        required = images if has_images else texts
        causes += [
            f"--{name} is missing: give --{required[0]} and --{required[1]}"
            for name in required
            if not getattr(command, name)
        ]
    causes += _misplaced_options(command, has_images)
    if command.figure and len(command.runs) > MAX_RUNS:
        causes.append(
            f"--figure: shows at most {MAX_RUNS} models, got {len(command.runs)}; leave some out"
        )
    UsageError.raise_all(causes)


def _exclusive_options(command: EvaluateCommand, texts: tuple[str, ...]) -> list[str]:
    """Return a sentence for each file of texts beside another one that excludes it."""
    causes = list[str]()
    if len(texts) == 1:
        causes += [
            f"--{name} and --{texts[0]}: score one or the other; leave one out"
            for name in ("source", "reference", "pairs")
            if getattr(command, name) and name not in texts
        ]
    if command.columns and not (command.pairs or command.captions):
        causes.append("--columns: only with --pairs or --captions; leave it out")
    return causes


def _misplaced_options(command: EvaluateCommand, has_images: bool) -> list[str]:
    """Return a sentence for each option that is for another kind of test set."""
    needed_option = {
        "skip_bad": "images",
        "by_length": "source",
        "figure": "source",
        "bleu_tokenizer": "source",
    }
    causes = [
        f"--{name.replace('_', '-')}: only with --{needed}; leave it out"
        for name, needed in needed_option.items()
        if getattr(command, name) and (needed == "images") != has_images
    ]
    causes += [
        f"--{name.replace('_', '-')}: not with --corrections; leave it out"
        for name in ("against", "by_length", "figure")
        if command.corrections and getattr(command, name)
    ]
    return causes


@dataclass(frozen=True)
class _Translated:
    """The translations of one model with their scores.

    `tested`: scores with significance tests, if there are several models; `buckets`: scores by
    source length.
    """

    run: Path
    beam: int
    engine: str
    outputs: list[str]
    scores: list[MetricScore]
    tested: tuple[TestedScore, ...]
    buckets: list[LengthBucket]

    def as_values(self, by_length: bool) -> dict[str, Any]:
        """Return what `--format json` prints."""
        values = {
            "model": str(self.run),
            "beam": self.beam,
            "engine": self.engine,
            **scores_as_values(self.scores),
        }
        for score in self.tested:
            values[score.name] |= {
                "low": score.low,
                "high": score.high,
                "p": score.p,
                "signature": score.signature,
                "difference": score.difference and asdict(score.difference),
            }
        if by_length:
            values["by_length"] = [asdict(bucket) for bucket in self.buckets]
        return values


def _evaluate_translations(
    command: EvaluateCommand, sources: list[str], references: list[list[str]]
) -> None:
    """Translate the sources of a test set with each model, and print the scores against its
    references.
    """
    from regard.evaluation.length_buckets import by_length
    from regard.evaluation.significance import paired_tests
    from regard.evaluation.text_metrics import scores
    from regard.visualisation.saving import SUFFIXES

    source = str(command.pairs or command.source)
    runs = command.runs
    figure = command.figure
    if figure is not None and figure.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"--figure {figure}: a figure is written as {', '.join(SUFFIXES)}"
        )
    translations = [_translate(command, run, source, sources) for run in runs]

    tokenizer = _select_tokenizer(runs[0], command.bleu_tokenizer)
    outputs_by_run = [outputs for _, _, outputs in translations]
    scores_by_run = [
        scores(outputs, references, tokenizer) for outputs in outputs_by_run
    ]
    tests_by_run: list[tuple[TestedScore, ...]] = [()]
    if len(runs) > 1:
        systems = list(zip(map(str, runs), outputs_by_run, strict=True))
        tests_by_run = paired_tests(systems, references, tokenizer=tokenizer)
    models = []
    for run, (beam, engine, outputs), run_scores, tests in zip(
        runs, translations, scores_by_run, tests_by_run, strict=True
    ):
        buckets = []
        if command.by_length or figure is not None:
            buckets = by_length(sources, outputs, references)
        model = _Translated(run, beam, engine, outputs, run_scores, tests, buckets)
        models.append(model)

    _say_notes(models, references[0], tokenizer, command.by_length)
    if command.format == "json":
        _print_json(models, source, command.by_length)
    else:
        for model in models:
            _print_model(model, len(models) > 1, command.by_length)
        for model in models[1:]:
            _print_differences(model, models[0])
    if figure is not None and any(model.buckets for model in models):
        _draw(models, figure)
    elif figure is not None:
        say(f"{figure} is not drawn: no two lines have sources of similar length")


def _say_notes(
    models: list[_Translated],
    references: list[str],
    tokenizer: BleuTokenizer,
    by_length: bool,
) -> None:
    """Say which scores are missing or mean little."""
    from regard.evaluation.text_metrics import MAX_TER_WORDS, score_notes
    from regard.training.journal import FEW_LINES

    if all(score.name != "TER" for score in models[0].scores):
        say(
            f"TER is left out: a line has more than {MAX_TER_WORDS} words, for which it takes very "
            "long"
        )
    for model in models:
        prefix = f"{model.run}: " if len(models) > 1 else ""
        for note in score_notes(model.outputs, references, tokenizer):
            say(f"{prefix}{note}")
    if len(references) < FEW_LINES and (len(models) > 1 or by_length):
        lines = counted(len(references), "line is", "lines are")
        say(f"{lines} too few for intervals and p")


def _evaluate_corrections(command: EvaluateCommand, path: Path) -> None:
    """Translate the sources of a corrected table, and print the scores against its references as
    they were and as they are corrected.
    """
    from regard.data.corrections import read_corrected
    from regard.evaluation.text_metrics import scores

    pairs = read_corrected(path)
    before = [pair.reference for pair in pairs]
    after = [pair.correction or pair.reference for pair in pairs]
    corrected = sum(map(str.__ne__, before, after))
    tokenizer = _select_tokenizer(command.run, command.bleu_tokenizer)
    beam, _, outputs = _translate(
        command, command.run, str(path), [pair.source for pair in pairs]
    )
    by_reference, by_correction = (
        scores(outputs, [references], tokenizer) for references in (before, after)
    )
    if command.format == "json":
        values = {
            "model": str(command.run),
            "corrected": corrected,
            "pairs": len(pairs),
        }
        names = {"before": by_reference, "after": by_correction}
        values |= {name: scores_as_values(results) for name, results in names.items()}
        typer.echo(json.dumps(values, ensure_ascii=False))
        return
    references = counted(len(pairs), "reference was", "references were")
    typer.echo(f"{corrected:,} of {references} corrected")
    for old, new in zip(by_reference, by_correction, strict=True):
        typer.echo(
            f"{old.name:5} {old.value:6.2f} → {new.value:6.2f}   {new.signature}|beam:{beam}"
        )


def _select_tokenizer(run: Path, chosen: BleuTokenizer | None) -> BleuTokenizer:
    """Return the chosen tokenizer of BLEU, or by default that of the model's target language."""
    from regard.data.bleu_tokenizer import bleu_tokenizer
    from regard.data.language_codes import base_language
    from regard.model_folder import folder_languages

    language = folder_languages(run).target if run.is_dir() else ""
    tokenizer = bleu_tokenizer(language, chosen)
    if base_language(language) == "ja" and chosen is None and tokenizer == "char":
        say(
            "BLEU compares characters; with MeCab it compares words: pip install 'sacrebleu[ja]'"
        )
    return tokenizer


def _translate(
    command: EvaluateCommand, run: Path, source: str, sources: list[str]
) -> tuple[int, str, list[str]]:
    """Translate with one model; return its beam width, its engine and the translations."""
    from regard.evaluation.line_warnings import caught_warnings
    from regard.pipeline import load_translator
    from regard.pipeline.bulk import unknown_script

    device = select_device(command.device)
    translator = load_translator(run, device, command.precision)
    say(
        f"translating {len(sources):,} line{'s' if len(sources) != 1 else ''} of {source}"
    )
    warn(unknown_script(translator, source, sources)[1])
    try:
        with caught_warnings() as caught:
            translations = translator.translate(sources, **command.search)
            outputs = [translation.text for translation in translations]
    except LineError as problem:
        raise problem.in_file(source) from None

    if caught.lines:  # one summary, because the scores do not depend on single lines
        lines = (
            f"{len(caught.lines):,} of {counted(len(sources), 'line')} "
            f"{'has' if len(caught.lines) == 1 else 'have'} a translation with a warning, such as "
            f"line {caught.lines[0] + 1:,}"
        )
        warn(f"{source}: {lines}; regard translate prints all")
    warn(*caught.others)
    beam = command.search.get("beam", translator.settings.search.beam)
    return beam, translator.engine.describe(), outputs


def _print_json(models: list[_Translated], source: str, by_length: bool) -> None:
    first, *others = (model.as_values(by_length) for model in models)
    values = {"model": first.pop("model"), "source": source, **first}
    if others:
        values["against"] = others
    typer.echo(json.dumps(values, ensure_ascii=False))


def _print_model(model: _Translated, is_one_of_several: bool, by_length: bool) -> None:
    """Print the scores of a model, and if it is one of several, its path and the intervals too."""
    if not is_one_of_several:
        print_scores(model.scores, model.beam, 5)
    else:
        typer.echo(f"{model.run}")
        for score in model.tested:
            interval = f"{score.low:6.2f} to {score.high:6.2f}"
            typer.echo(
                f"{score.name:5} {score.value:6.2f}   {interval}   "
                f"{score.signature}|beam:{model.beam}"
            )
    if not by_length:
        return
    for bucket in model.buckets:
        words = f"{bucket.first}–{bucket.last} words"
        interval = f"{bucket.low:6.2f} to {bucket.high:6.2f}"
        typer.echo(
            f"  {words:14} chrF {bucket.chrf:6.2f}   {interval}   "
            f"{counted(bucket.sentences, 'sentence')}"
        )


def _print_differences(model: _Translated, first: _Translated) -> None:
    """Print how the scores of a model differ from those of the first one."""
    typer.echo(f"{model.run} − {first.run}, 95 % interval of the paired resamples")
    for score in model.tested:
        assert score.difference is not None, "it is not the first model"
        value, low, high = astuple(score.difference)
        interval = f"{low:6.2f} to {high:6.2f}".replace("-", "−")
        p = "equal" if score.equal else f"p = {score.p:.4f}"
        difference = f"{value:+6.2f}".replace("-", "−")
        typer.echo(f"{score.name:5} {difference}   {interval}   {p}")


def _read_pairs(
    command: EvaluateCommand, path: str
) -> tuple[list[str], list[list[str]]]:
    """Read a file of pairs as training does, which drops pairs with an empty side."""
    from regard.data.corpus import read_corpus
    from regard.data.file_formats import PairFiles
    from regard.data.languages import Languages
    from regard.model_folder import folder_languages

    run = command.run
    languages = folder_languages(run) if run.is_dir() else Languages()
    files = PairFiles(pairs=path, columns=command.columns, languages=languages)
    corpus = read_corpus(files, name="test")
    say(*corpus.report.lines())
    return corpus.sources, [corpus.targets]


def _read_parallel(
    source: str, reference: list[str]
) -> tuple[list[str], list[list[str]]]:
    """Read files that correspond line by line, and normalise the references to Unicode NFC, as
    outputs are.

    Raises DataError if the numbers of lines differ, and UsageError for files that are not lines of
    text.
    """
    from regard.data.file_formats import holds_tabs
    from regard.data.text import nfc, read_parallel
    from regard.data.text_kinds import input_kind

    kinds = {path: input_kind(Path(path)) for path in (source, *reference)}
    UsageError.raise_all(
        f"{path}: is {kind}, and lines of text are compared"
        for path, kind in kinds.items()
        if kind != "text"
    )
    sources, *references = read_parallel([source, *reference])
    if holds_tabs(Path(source)):
        warn(
            f"{source}: most lines hold tabs; if it is a file of pairs, give it as --pairs"
        )
    normalised_references = []
    for path, lines in zip(reference, references, strict=True):
        normalised = [nfc(line) for line in lines]
        normalised_references.append(normalised)
        changed = sum(map(str.__ne__, normalised, lines))
        if changed:
            consequence = "they are compared as if they were"
            if changed == 1:
                consequence = "it is compared as if it was"
            say(
                f"{path}: {counted(changed, 'line is', 'lines are')} not in Unicode's form NFC; "
                f"{consequence}"
            )
    return sources, normalised_references


def _draw(models: list[_Translated], figure: Path) -> None:
    """Draw chrF against source length with 95 % intervals, all models in one figure."""
    from regard.visualisation import Chart, Panel, Series, save

    series = []
    for model in models:
        points = tuple(
            ((bucket.first + bucket.last) / 2, bucket.chrf) for bucket in model.buckets
        )
        intervals = tuple((bucket.low, bucket.high) for bucket in model.buckets)
        series.append(Series(model.run.name, points, intervals))
    panel = Panel("chrF", "source words", tuple(series))
    save(Chart("chrF by source length", (panel,)), figure)
    say(f"wrote {figure}")
