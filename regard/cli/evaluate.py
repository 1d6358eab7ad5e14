"""regard evaluate: translate or caption a test set, and print scores with their signatures."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.app import app, say, warn
from regard.cli.options import select_device
from regard.cli.search_options import search_command
from regard.common.counting import counted
from regard.common.errors import LineError, LineWarning, UsageError
from regard.data.bleu_tokenizer import BleuTokenizer
from regard.requests.evaluate_request import EvaluateCommand

if TYPE_CHECKING:
    from regard.evaluation.length_buckets import LengthBucket
    from regard.evaluation.significance import TestedScore
    from regard.evaluation.text_metrics import MetricScore
    from regard.pipeline import Captioner


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
    --against, also how likely a difference as large as that between the models is by chance;
    `regard compare` writes a report on several models.
    """
    _check_options(command)
    if command.corrections is not None:
        _evaluate_corrections(command, command.corrections)
    elif command.images is not None:
        _evaluate_captions(command)
    elif command.pairs is not None:
        _evaluate_translations(command, *_read_pairs(command, command.pairs))
    else:
        test_set = _read_parallel(str(command.source), list(command.reference))
        _evaluate_translations(command, *test_set)


def _check_options(command: EvaluateCommand) -> None:
    """Raise UsageError, with all causes, unless the options name either sentences or images to
    score.
    """
    image_options: tuple[str, ...] = ("images", "captions")
    text_options: tuple[str, ...] = ("source", "reference")
    for name in ("pairs", "corrections"):
        if getattr(command, name):
            text_options = (name,)
    has_images = any(getattr(command, name) for name in image_options)
    has_texts = any(getattr(command, name) for name in text_options)

    causes = list[str]()
    if len(text_options) == 1:
        causes += [
            f"--{name} and --{text_options[0]}: score one or the other; leave one out"
            for name in ("source", "reference", "pairs")
            if getattr(command, name) and name not in text_options
        ]
    if command.columns and not (command.pairs or command.captions):
        causes.append("--columns: only with --pairs or --captions; leave it out")
    if has_images and has_texts:
        causes.append(
            f"--{text_options[0]} and --images: score either sentences or images; leave one out"
        )
    elif not has_images and not has_texts:
        causes.append(
            "there is nothing to score: give --source and --reference, --pairs, or --images and "
            "--captions"
        )
    else:
        required = image_options if has_images else text_options
        causes += [
            f"--{name} is missing: give --{required[0]} and --{required[1]}"
            for name in required
            if not getattr(command, name)
        ]

    needed_option = {
        "skip_bad": "images",
        "by_length": "source",
        "figure": "source",
        "bleu_tokenizer": "source",
    }
    causes += [
        f"--{name.replace('_', '-')}: only with --{needed}; leave it out"
        for name, needed in needed_option.items()
        if getattr(command, name) and (needed == "images") != has_images
    ]

    causes += [
        f"--{name.replace('_', '-')}: not with --corrections; leave it out"
        for name in ("against", "by_length", "figure")
        if command.corrections and getattr(command, name)
    ]
    runs = command.runs
    if command.figure and len(runs) > MAX_RUNS:
        causes.append(
            f"--figure: shows at most {MAX_RUNS} models, got {len(runs)}; leave some out"
        )
    UsageError.raise_all(causes)


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
            **_as_values(self.scores),
        }
        for score in self.tested:
            values[score.name] |= {
                "low": score.low,
                "high": score.high,
                "p": score.p,
                "signature": score.signature,
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
        values |= {name: _as_values(results) for name, results in names.items()}
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
    from regard.pipeline import load_translator
    from regard.pipeline.bulk import unknown_script

    device = select_device(command.device)
    translator = load_translator(run, device, command.precision)
    say(
        f"translating {len(sources):,} line{'s' if len(sources) != 1 else ''} of {source}"
    )
    warn(unknown_script(translator, source, sources)[1])
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            translations = translator.translate(sources, **command.search)
            outputs = [translation.text for translation in translations]
    except LineError as problem:
        raise problem.in_file(source) from None

    messages = [warning.message for warning in caught]
    numbers = sorted(
        {message.index + 1 for message in messages if isinstance(message, LineWarning)}
    )
    if numbers:  # one summary, because the scores do not depend on single lines
        lines = (
            f"{len(numbers):,} of {counted(len(sources), 'line')} "
            f"{'has' if len(numbers) == 1 else 'have'} a translation with a warning, such as line "
            f"{numbers[0]:,}"
        )
        warn(f"{source}: {lines}; regard translate prints all")
    for message in messages:
        if not isinstance(message, LineWarning):
            warn(str(message))
    beam = command.search.get("beam", translator.settings.search.beam)
    return beam, translator.engine.describe(), outputs


def _print_json(models: list[_Translated], source: str, by_length: bool) -> None:
    first, *others = (model.as_values(by_length) for model in models)
    values = {"model": first.pop("model"), "source": source, **first}
    if others:
        values["against"] = others
    typer.echo(json.dumps(values, ensure_ascii=False))


def _print_model(model: _Translated, is_one_of_several: bool, by_length: bool) -> None:
    """Print the scores of a model.

    For one of several models, print also its path, confidence intervals, and p-values against the
    first model.
    """
    if not is_one_of_several:
        _print_scores(model.scores, model.beam, 5)
    else:
        typer.echo(f"{model.run}")
        for score in model.tested:
            if score.p is None:
                p = " " * 10
            elif score.equal:
                p = "equal     "
            else:
                p = f"p = {score.p:.4f}"
            interval = f"{score.low:6.2f} to {score.high:6.2f}"
            typer.echo(
                f"{score.name:5} {score.value:6.2f}   {interval}   {p}   "
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


def _as_values(scores: list[MetricScore]) -> dict[str, Any]:
    return {
        score.name: {"score": score.value, "signature": score.signature}
        for score in scores
    }


def _print_scores(scores: list[MetricScore], beam: int, width: int) -> None:
    for score in scores:
        typer.echo(
            f"{score.name:{width}} {score.value:6.2f}   {score.signature}|beam:{beam}"
        )


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


def _evaluate_captions(command: EvaluateCommand) -> None:
    """Score the captions of each run, and compare the first run with the others."""
    from regard.evaluation.bootstrap import paired_bootstrap
    from regard.evaluation.caption_metrics import (
        CIDER_MEANING,
        caption_scores,
        cider_scores,
        describe_captions,
        tokenizer_for,
    )
    from regard.pipeline import load_captioner

    runs = command.runs
    as_json = command.format == "json"
    device = select_device(command.device)
    captioners = [
        (path, load_captioner(path, device, command.precision)) for path in runs
    ]
    tokenizers = [
        tokenizer_for(captioner.settings.tokenizer) for _, captioner in captioners
    ]
    for (path, _), tokenizer in zip(captioners, tokenizers, strict=True):
        if tokenizer is not tokenizers[0]:
            raise UsageError(
                f"--against: captions of {runs[0]} are compared by {tokenizers[0].__name__} and "
                f"those of {path} by {tokenizer.__name__}, as their vocabularies are "
                "(tokenizer.kind); evaluate each alone"
            )

    ciders = []
    results = list[dict[str, Any]]()
    for path, captioner in captioners:
        outputs, references = _caption_test_set(captioner, command)
        scores = caption_scores(outputs, references, tokenizers[0])
        ciders.append(cider_scores(outputs, references, tokenizers[0]))
        beam = command.search.get("beam", captioner.settings.search.beam)
        result = {
            "model": str(path),
            "beam": beam,
            "engine": captioner.engine.describe(),
            **_as_values(scores),
        }
        results.append(result)
        if not as_json:
            if len(runs) > 1:
                typer.echo(f"{path}")
            _print_scores(scores, beam, 7)
            say(describe_captions(outputs, references, tokenizers[0]))
    say(CIDER_MEANING)

    for path, result, cider in zip(runs[1:], results[1:], ciders[1:], strict=True):
        difference = paired_bootstrap(cider, ciders[0])
        result["cider_difference"] = asdict(difference)
        if not as_json:
            draws = f"paired bootstrap, {difference.draws:,} draws"
            typer.echo(f"CIDEr-D of {runs[0]} above {path}: {difference}; {draws}")

    if as_json:
        values = {
            "images": str(command.images),
            "captions": str(command.captions),
            **results[0],
        }
        if len(results) > 1:
            values["against"] = results[1:]
        typer.echo(json.dumps(values, ensure_ascii=False))


def _caption_test_set(
    captioner: Captioner, command: EvaluateCommand
) -> tuple[list[str], list[list[str]]]:
    """Caption the test images; return the captions, and the references of each image."""
    from regard.data.prepare_captions import read_caption_corpus

    folder = command.images
    assert folder is not None, "checked before"
    assert command.captions is not None, "checked before"
    corpus = read_caption_corpus(
        command.captions,
        folder,
        captioner.image_size,
        command.skip_bad,
        say,
        command.columns,
    )
    say(
        f"captioning {len(corpus):,} image{'s' if len(corpus) != 1 else ''} in {folder}"
    )
    captions = captioner.caption(corpus.images, **command.search)
    return [caption.text for caption in captions], corpus.caption_set.references


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
