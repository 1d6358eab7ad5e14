"""regard evaluate: translate or caption a test set, and print BLEU, chrF, TER or CIDEr-D with their signatures."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app, say, setup_process, warn
from regard.cli.options import Debug, Device, Engine, Precision, Quiet, Run, Seed, Threads, select_device
from regard.cli.search_options import search_command, search_options
from regard.errors import LineError, UsageError

if TYPE_CHECKING:
    from regard.evaluation.length_buckets import Bucket
    from regard.evaluation.metrics import Score
    from regard.pipeline import Captioner

Reference = Annotated[
    list[str] | None, typer.Option(help="Reference translations, line by line; once per set of references.")
]
Captions = Annotated[
    Path | None, typer.Option(help="Reference captions, one or more per image, in any format that training reads.")
]
Against = Annotated[
    Path | None, typer.Option(help="Another captioner to compare with: difference in CIDEr-D and its p-value.")
]


@app.command(cls=search_command("beam", "length_penalty"))
def evaluate(
    context: typer.Context,
    run: Run,
    source: Annotated[str | None, typer.Option(help="Test sentences, one per line.")] = None,
    reference: Reference = None,
    images: Annotated[Path | None, typer.Option(help="Instead of sentences: a folder of images.")] = None,
    captions: Captions = None,
    against: Against = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip images and captions that cannot be used.")] = False,
    format: Annotated[
        Literal["text", "json"], typer.Option(help="Output: text for people, or one JSON object.")
    ] = "text",
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Add chrF by source length, with 95 % intervals.")
    ] = False,
    figure: Annotated[Path | None, typer.Option(help="Draw chrF by source length: .svg, .png or .html.")] = None,
    engine: Engine = "auto",
    precision: Precision = "float32",
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Print scores, each with the signature that says how it was computed.

    Of translations (--source, --reference) BLEU, chrF and TER; of captions (--images, --captions) BLEU-1 to BLEU-4,
    chrF, CIDEr-D and the share that equals one of the references exactly.
    """
    setup_process(threads, quiet, debug, seed)
    _check_options(context.params)
    load = {"device": select_device(device), "engine": engine, "precision": precision}
    search = search_options(context)
    if images is not None and captions is not None:
        test_set = _CaptionTestSet(images, captions, skip_bad)
        _evaluate_captions(test_set, run, against, load, search, format == "json")
    elif source is not None and reference is not None:
        report = _Report(format == "json", by_length, figure)
        _evaluate_translations(run, source, reference, load, search, report)


def _check_options(params: dict[str, Any]) -> None:
    """Raise UsageError, with all causes, unless the options name either sentences or images to score."""
    tasks = {"text": ("source", "reference"), "images": ("images", "captions")}
    by_task = {task: [name for name in names if params[name]] for task, names in tasks.items()}
    has_images = bool(by_task["images"])
    causes = []
    if has_images and by_task["text"]:
        causes.append("--source and --images: score either sentences or images; leave one out")
    elif not has_images and not by_task["text"]:
        causes.append("there is nothing to score: give --source and --reference, or --images and --captions")
    else:
        needed = tasks["images" if has_images else "text"]
        causes += [f"--{name} is missing: give --{needed[0]} and --{needed[1]}" for name in needed if not params[name]]
    belongs_to = {"against": "images", "skip_bad": "images", "by_length": "source", "figure": "source"}
    causes += [
        f"--{name.replace('_', '-')}: only with --{other}; leave it out"
        for name, other in belongs_to.items()
        if params[name] and (other == "images") != has_images
    ]
    if causes:
        raise UsageError(*causes)


@dataclass(frozen=True)
class _Report:
    """Form of the report on translations: JSON or text, with scores by length, with a figure of them."""

    json: bool
    by_length: bool
    figure: Path | None


def _evaluate_translations(
    run: Path, source: str, reference: list[str], load: dict[str, Any], search: dict[str, Any], report: _Report
) -> None:
    """Translate and score. Raises DataError if the files do not have the same number of lines."""
    from regard.bulk import unknown_script
    from regard.evaluation.length_buckets import by_length
    from regard.evaluation.metrics import MAX_TER_WORDS, scores
    from regard.pipeline import load_translator
    from regard.visualisation.saving import SUFFIXES

    if report.figure is not None and report.figure.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--figure {report.figure}: a figure is written as {', '.join(SUFFIXES)}")
    sources, references = _read_parallel(source, reference)
    translator = load_translator(run, **load)
    say(f"translating {len(sources):,} lines of {source}")
    warn(unknown_script(translator, source, sources)[1])
    try:
        outputs = [translation.text for translation in translator.translate(sources, **search)]
    except LineError as problem:
        raise problem.in_file(source) from None
    results = scores(outputs, references)
    buckets = by_length(sources, outputs, references) if report.by_length or report.figure else []
    beam = search.get("beam", translator.settings.search.beam)
    if all(score.name != "TER" for score in results):
        say(f"TER is left out: a line has more than {MAX_TER_WORDS} words, for which it takes very long")
    if report.json:
        values = {"model": str(run), "source": source, "beam": beam, "engine": translator.engine.describe()}
        values |= _as_values(results)
        if report.by_length:
            values["by_length"] = [asdict(bucket) for bucket in buckets]
        typer.echo(json.dumps(values, ensure_ascii=False))
    else:
        _print_scores(results, beam, 5)
        _print_buckets(buckets if report.by_length else [])
    if report.figure is not None and buckets:
        _draw(buckets, run, report.figure)
    elif report.figure is not None:
        say(f"{report.figure} is not drawn: no two lines have sources of similar length")


def _as_values(scores: list[Score]) -> dict[str, Any]:
    return {score.name: {"score": score.value, "signature": score.signature} for score in scores}


def _print_scores(scores: list[Score], beam: int, width: int) -> None:
    for score in scores:
        typer.echo(f"{score.name:{width}} {score.value:6.2f}   {score.signature}|beam:{beam}")


def _print_buckets(buckets: list[Bucket]) -> None:
    for bucket in buckets:
        words = f"{bucket.first}–{bucket.last} words"
        interval = f"{bucket.low:6.2f} to {bucket.high:6.2f}"
        typer.echo(f"  {words:14} chrF {bucket.chrf:6.2f}   {interval}   {bucket.sentences:,} sentences")


def _read_parallel(source: str, reference: list[str]) -> tuple[list[str], list[list[str]]]:
    """Read files that correspond line by line; references are normalised to Unicode NFC, as the outputs are."""
    from regard.data.text import nfc, read_parallel

    sources, *references = read_parallel([source, *reference])
    composed = [[nfc(line) for line in lines] for lines in references]
    for path, lines, before in zip(reference, composed, references, strict=True):
        if changed := sum(map(str.__ne__, lines, before)):
            say(f"{path}: {changed:,} lines are not in Unicode's form NFC; they are compared as if they were")
    return sources, composed


@dataclass(frozen=True)
class _CaptionTestSet:
    """Images with reference captions."""

    images: Path
    captions: Path
    skip_bad: bool


def _evaluate_captions(
    test_set: _CaptionTestSet,
    run: Path,
    against: Path | None,
    load: dict[str, Any],
    search: dict[str, Any],
    as_json: bool,
) -> None:
    """Score the captions of one run, and compare them with those of another if one is given."""
    from regard.evaluation.bootstrap import paired_bootstrap
    from regard.evaluation.caption_metrics import caption_scores, cider_scores, tokenizer_for
    from regard.pipeline import load_captioner

    captioners = [(path, load_captioner(path, **load)) for path in (run, against) if path is not None]
    tokenizers = [tokenizer_for(captioner.settings.tokenizer) for _, captioner in captioners]
    if len(set(tokenizers)) > 1:
        raise UsageError(
            f"--against: captions of {run} are compared by {tokenizers[0].__name__} and those of {against} by "
            f"{tokenizers[1].__name__}, as their vocabularies are (tokenizer.kind); evaluate each alone"
        )
    ciders, rows, tokenizer = [], list[dict[str, Any]](), tokenizers[0]
    for path, captioner in captioners:
        outputs, references = _caption_test_set(captioner, test_set, search)
        results = caption_scores(outputs, references, tokenizer)
        ciders.append(cider_scores(outputs, references, tokenizer))
        beam = search.get("beam", captioner.settings.search.beam)
        rows.append({"model": str(path), "beam": beam, "engine": captioner.engine.describe(), **_as_values(results)})
        if not as_json:
            if against is not None:
                typer.echo(f"{path}")
            _print_scores(results, beam, 7)
    values = {"images": str(test_set.images), "captions": str(test_set.captions), **rows[0]}
    if against is not None:
        difference = paired_bootstrap(ciders[1], ciders[0])
        values |= {"against": rows[1], "cider_difference": asdict(difference)}
        if not as_json:
            draws = f"paired bootstrap, {difference.draws:,} draws"
            typer.echo(f"CIDEr-D of {run} above {against}: {difference}; {draws}")
    if as_json:
        typer.echo(json.dumps(values, ensure_ascii=False))


def _caption_test_set(
    captioner: Captioner, test_set: _CaptionTestSet, search: dict[str, Any]
) -> tuple[list[str], list[list[str]]]:
    """Caption the images; return the captions, and the references of each."""
    from regard.data.prepare_captions import read_caption_corpus

    corpus = read_caption_corpus(test_set.captions, test_set.images, captioner.image_size, test_set.skip_bad, say)
    say(f"captioning {len(corpus):,} images in {test_set.images}")
    return [caption.text for caption in captioner.caption(corpus.images, **search)], corpus.caption_set.references


def _draw(buckets: list[Bucket], run: Path, figure: Path) -> None:
    """Draw chrF against source length, with 95 % intervals."""
    from regard.visualisation import Chart, Panel, Series, save

    points = tuple(((bucket.first + bucket.last) / 2, bucket.chrf) for bucket in buckets)
    band = tuple((bucket.low, bucket.high) for bucket in buckets)
    panel = Panel("chrF", "source words", (Series(run.name, points, band),))
    save(Chart("chrF by source length", (panel,)), figure)
    say(f"wrote {figure}")
