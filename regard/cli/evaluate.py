# ruff: noqa: ARG001 (some options are read from the context)
"""regard evaluate: translate or caption a test set, and print BLEU, chrF, TER or CIDEr-D with their
signatures.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app, say, warn
from regard.cli.options import Device, Precision, Run, select_device
from regard.cli.search_options import search_command, search_options
from regard.common.counting import counted
from regard.common.errors import LineError, LineWarning, UsageError
from regard.data.bleu_tokenizer import BleuTokenizer

if TYPE_CHECKING:
    from regard.evaluation.length_buckets import LengthBucket
    from regard.evaluation.significance import TestedScore
    from regard.evaluation.text_metrics import MetricScore
    from regard.pipeline import Captioner

Reference = Annotated[
    list[str] | None,
    typer.Option(
        help="Reference translations, line by line; once per set of references."
    ),
]
Captions = Annotated[
    Path | None,
    typer.Option(
        help="Reference captions, one or more per image, in any format that training reads."
    ),
]
Against = Annotated[
    list[Path] | None,
    typer.Option(
        help="Another model to compare with, by a paired bootstrap test; may be repeated."
    ),
]

MAX_RUNS = 6
"""Models in one figure: as many as there are colours."""


@app.command(cls=search_command("beam", "length_penalty"), sets=("threads", "seed"))
def evaluate(
    context: typer.Context,
    run: Run,
    source: Annotated[
        str | None, typer.Option(help="Test sentences, one per line.")
    ] = None,
    reference: Reference = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="Instead of both: a TSV, CSV or JSONL file, such as a run's test.tsv."
        ),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Instead of sentences: a folder of images.")
    ] = None,
    captions: Captions = None,
    against: Against = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad", help="Skip images and captions that cannot be used."
        ),
    ] = False,
    format: Annotated[
        Literal["text", "json"],
        typer.Option(help="Output: text for people, or one JSON object."),
    ] = "text",
    by_length: Annotated[
        bool,
        typer.Option(
            "--by-length", help="Add chrF by source length, with 95 % intervals."
        ),
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw chrF by source length: .svg, .png or .html."),
    ] = None,
    bleu_tokenizer: Annotated[
        BleuTokenizer | None,
        typer.Option(
            help="How BLEU splits words; by default as the target language needs it."
        ),
    ] = None,
    precision: Precision = "float32",
    device: Device = "auto",
) -> None:
    """Print scores, each with the signature that says how it was computed.

    Translations (--source and --reference, or --pairs) get BLEU, chrF and TER; captions (--images,
    --captions) BLEU-1 to BLEU-4, chrF, CIDEr-D and the share that equals a reference exactly. With
    --against, also how likely a difference as large as that between the models is by chance;
    `regard compare` writes a report on several models.
    """
    _check_options(context.params)
    load = {"device": select_device(device), "precision": precision}
    search = search_options(context)
    runs = [run, *(against or ())]
    if images is not None:
        _evaluate_captions(context.params, runs, load, search)
    else:
        texts = (
            _read_pairs(pairs)
            if pairs is not None
            else _read_parallel(str(source), reference or [])
        )
        _evaluate_translations(context.params, runs, texts, load, search)


def _check_options(params: dict[str, Any]) -> None:
    """Raise UsageError, with all causes, unless the options name either sentences or images to
    score.
    """
    tasks: dict[str, tuple[str, ...]] = {
        "text": ("source", "reference"),
        "images": ("images", "captions"),
    }
    if params["pairs"]:
        tasks["text"] = ("pairs",)
    by_task = {
        task: [name for name in names if params[name]] for task, names in tasks.items()
    }
    has_images = bool(by_task["images"])
    causes = [
        f"--{name} and --pairs: score one or the other; leave one out"
        for name in ("source", "reference")
        if params["pairs"] and params[name]
    ]
    if has_images and by_task["text"]:
        causes.append(
            f"--{tasks['text'][0]} and --images: score either sentences or images; leave one out"
        )
    elif not has_images and not by_task["text"]:
        causes.append(
            "there is nothing to score: give --source and --reference, --pairs, or --images and "
            "--captions"
        )
    else:
        needed = tasks["images" if has_images else "text"]
        causes += [
            f"--{name} is missing: give --{needed[0]} and --{needed[1]}"
            for name in needed
            if not params[name]
        ]
    belongs_to = {
        "skip_bad": "images",
        "by_length": "source",
        "figure": "source",
        "bleu_tokenizer": "source",
    }
    causes += [
        f"--{name.replace('_', '-')}: only with --{other}; leave it out"
        for name, other in belongs_to.items()
        if params[name] and (other == "images") != has_images
    ]
    runs = [params["run"], *(params["against"] or ())]
    if params["figure"] and len(runs) > MAX_RUNS:
        causes.append(
            f"--figure: shows at most {MAX_RUNS} models, got {len(runs)}; leave some out"
        )
    UsageError.raise_all(causes)


@dataclass(frozen=True)
class _Translated:
    """The translations of one model, with its scores, their significance if there are several
    models, and buckets.
    """

    run: Path
    beam: int
    engine: str
    outputs: list[str]
    scores: list[MetricScore]
    tested: tuple[TestedScore, ...]
    buckets: list[LengthBucket]

    def as_values(self, by_length: bool) -> dict[str, Any]:
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
        return values | (
            {"by_length": [asdict(bucket) for bucket in self.buckets]}
            if by_length
            else {}
        )


def _evaluate_translations(
    given: dict[str, Any],
    runs: list[Path],
    texts: tuple[list[str], list[list[str]]],
    load: dict[str, Any],
    search: dict[str, Any],
) -> None:
    """Translate the first of these texts and score it against the others, as the `given` options
    say.
    """
    from regard.data.bleu_tokenizer import bleu_tokenizer
    from regard.data.language_codes import base_language
    from regard.evaluation.length_buckets import by_length
    from regard.evaluation.significance import paired_tests
    from regard.evaluation.text_metrics import MAX_TER_WORDS, scores
    from regard.model_folder import folder_languages
    from regard.visualisation.saving import SUFFIXES

    figure, source, sources, references = (
        given["figure"],
        given["pairs"] or given["source"],
        *texts,
    )
    if figure is not None and figure.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"--figure {figure}: a figure is written as {', '.join(SUFFIXES)}"
        )
    translated = [_translate(run, source, sources, load, search) for run in runs]
    # Empty: unknown.
    language = folder_languages(runs[0]).target if runs[0].is_dir() else ""
    tokenizer = bleu_tokenizer(language, given["bleu_tokenizer"])
    if (
        base_language(language) == "ja"
        and given["bleu_tokenizer"] is None
        and tokenizer == "char"
    ):
        say(
            "BLEU compares characters; with MeCab it compares words: pip install 'sacrebleu[ja]'"
        )
    results = [scores(outputs, references, tokenizer) for _, _, outputs in translated]
    named = [
        (str(run), outputs)
        for run, (_, _, outputs) in zip(runs, translated, strict=True)
    ]
    tested = (
        paired_tests(named, references, tokenizer=tokenizer) if len(runs) > 1 else [()]
    )
    wants_buckets = given["by_length"] or figure is not None
    models = [
        _Translated(
            run,
            *row,
            scored,
            test,
            by_length(sources, row[2], references) if wants_buckets else [],
        )
        for run, row, scored, test in zip(
            runs, translated, results, tested, strict=True
        )
    ]
    if all(score.name != "TER" for score in results[0]):
        say(
            f"TER is left out: a line has more than {MAX_TER_WORDS} words, for which it takes very "
            "long"
        )
    if given["format"] == "json":
        first, *others = (model.as_values(given["by_length"]) for model in models)
        values = {"model": first.pop("model"), "source": source, **first} | (
            {"against": others} if others else {}
        )
        typer.echo(json.dumps(values, ensure_ascii=False))
    else:
        for model in models:
            _print_model(model, len(models) > 1, given["by_length"])
    if figure is not None and any(model.buckets for model in models):
        _draw(models, figure)
    elif figure is not None:
        say(f"{figure} is not drawn: no two lines have sources of similar length")


def _translate(
    run: Path,
    source: str,
    sources: list[str],
    load: dict[str, Any],
    search: dict[str, Any],
) -> tuple[int, str, list[str]]:
    """Translate with one model; return its beam, its engine and the translations."""
    from regard.pipeline import load_translator
    from regard.pipeline.bulk import unknown_script

    translator = load_translator(run, **load)
    say(
        f"translating {len(sources):,} line{'s' if len(sources) != 1 else ''} of {source}"
    )
    warn(unknown_script(translator, source, sources)[1])
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outputs = [
                translation.text
                for translation in translator.translate(sources, **search)
            ]
    except LineError as problem:
        raise problem.in_file(source) from None
    numbers = sorted(
        {
            each.message.index + 1
            for each in caught
            if isinstance(each.message, LineWarning)
        }
    )
    if numbers:  # a score says nothing of single lines
        lines = (
            f"{len(numbers):,} of {counted(len(sources), 'line')} "
            f"{'has' if len(numbers) == 1 else 'have'} a translation with a warning, such as line "
            f"{numbers[0]:,}"
        )
        warn(f"{source}: {lines}; regard translate prints all")
    warn(
        *(
            str(each.message)
            for each in caught
            if not isinstance(each.message, LineWarning)
        )
    )
    return (
        search.get("beam", translator.settings.search.beam),
        translator.engine.describe(),
        outputs,
    )


def _print_model(model: _Translated, is_one_of_several: bool, by_length: bool) -> None:
    """Print the scores of a model; of one of several with its path, intervals and p-values against
    the first.
    """
    if not is_one_of_several:
        _print_scores(model.scores, model.beam, 5)
    else:
        typer.echo(f"{model.run}")
        for score in model.tested:
            p = (
                "          "
                if score.p is None
                else "equal     "
                if score.equal
                else f"p = {score.p:.4f}"
            )
            interval = f"{score.low:6.2f} to {score.high:6.2f}"
            typer.echo(
                f"{score.name:5} {score.value:6.2f}   {interval}   {p}   "
                f"{score.signature}|beam:{model.beam}"
            )
    for bucket in model.buckets if by_length else []:
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


def _read_pairs(path: str) -> tuple[list[str], list[list[str]]]:
    """Read a file of pairs as training reads it, without those of which a side is empty."""
    from regard.data.corpus import read_corpus
    from regard.data.pair_filters import PairFiles

    corpus = read_corpus(PairFiles(pairs=path), name="test")
    say(*corpus.report.lines())
    return corpus.sources, [corpus.targets]


def _read_parallel(
    source: str, reference: list[str]
) -> tuple[list[str], list[list[str]]]:
    """Read files that correspond line by line; references are normalised to Unicode NFC, as the
    outputs are.

    Raises DataError if they do not have the same number of lines, UsageError for files that are not
    lines of text.
    """
    from regard.data.file_kinds import holds_tabs, input_kind
    from regard.data.text import nfc, read_parallel

    kinds = {path: input_kind(Path(path)) for path in (source, *reference)}
    others = {path: kind for path, kind in kinds.items() if kind != "text"}
    UsageError.raise_all(
        f"{path}: is {kind}, and lines of text are compared"
        for path, kind in others.items()
    )
    sources, *references = read_parallel([source, *reference])
    if holds_tabs(Path(source)):
        warn(
            f"{source}: most lines hold tabs; if it is a file of pairs, give it as --pairs"
        )
    composed = [[nfc(line) for line in lines] for lines in references]
    for path, lines, before in zip(reference, composed, references, strict=True):
        if changed := sum(map(str.__ne__, lines, before)):
            verb = (
                "it is compared as if it was"
                if changed == 1
                else "they are compared as if they were"
            )
            say(
                f"{path}: {counted(changed, 'line is', 'lines are')} not in Unicode's form NFC; "
                f"{verb}"
            )
    return sources, composed


def _evaluate_captions(
    given: dict[str, Any],
    runs: list[Path],
    load: dict[str, Any],
    search: dict[str, Any],
) -> None:
    """Score the captions of the first run, and compare them with those of the others."""
    from regard.evaluation.bootstrap import paired_bootstrap
    from regard.evaluation.caption_metrics import (
        caption_scores,
        cider_scores,
        tokenizer_for,
    )
    from regard.pipeline import load_captioner

    as_json = given["format"] == "json"
    captioners = [(path, load_captioner(path, **load)) for path in runs]
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
    rows = list[dict[str, Any]]()
    for path, captioner in captioners:
        outputs, references = _caption_test_set(captioner, given, search)
        results = caption_scores(outputs, references, tokenizers[0])
        ciders.append(cider_scores(outputs, references, tokenizers[0]))
        beam = search.get("beam", captioner.settings.search.beam)
        rows.append(
            {
                "model": str(path),
                "beam": beam,
                "engine": captioner.engine.describe(),
                **_as_values(results),
            }
        )
        if not as_json:
            if len(runs) > 1:
                typer.echo(f"{path}")
            _print_scores(results, beam, 7)
    for path, row, cider in zip(runs[1:], rows[1:], ciders[1:], strict=True):
        difference = paired_bootstrap(cider, ciders[0])
        row["cider_difference"] = asdict(difference)
        if not as_json:
            draws = f"paired bootstrap, {difference.draws:,} draws"
            typer.echo(f"CIDEr-D of {runs[0]} above {path}: {difference}; {draws}")
    if as_json:
        values = {
            "images": str(given["images"]),
            "captions": str(given["captions"]),
            **rows[0],
        }
        typer.echo(
            json.dumps(
                values | ({"against": rows[1:]} if rows[1:] else {}), ensure_ascii=False
            )
        )


def _caption_test_set(
    captioner: Captioner, given: dict[str, Any], search: dict[str, Any]
) -> tuple[list[str], list[list[str]]]:
    """Caption the images; return the captions, and the references of each."""
    from regard.data.prepare_captions import read_caption_corpus

    folder = given["images"]
    corpus = read_caption_corpus(
        given["captions"], folder, captioner.image_size, given["skip_bad"], say
    )
    say(
        f"captioning {len(corpus):,} image{'s' if len(corpus) != 1 else ''} in {folder}"
    )
    return [
        caption.text for caption in captioner.caption(corpus.images, **search)
    ], corpus.caption_set.references


def _draw(models: list[_Translated], figure: Path) -> None:
    """Draw chrF against source length, with 95 % intervals, all models in one figure."""
    from regard.visualisation import Chart, Panel, Series, save

    series = []
    for model in models:
        points = tuple(
            ((bucket.first + bucket.last) / 2, bucket.chrf) for bucket in model.buckets
        )
        series.append(
            Series(
                model.run.name,
                points,
                tuple((bucket.low, bucket.high) for bucket in model.buckets),
            )
        )
    save(
        Chart("chrF by source length", (Panel("chrF", "source words", tuple(series)),)),
        figure,
    )
    say(f"wrote {figure}")
