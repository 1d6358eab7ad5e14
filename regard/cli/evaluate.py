"""regard evaluate: translate a test set, or caption one, and score it."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app, say, setup_process
from regard.cli.options import (
    Beam,
    Debug,
    Device,
    Engine,
    LengthPenalty,
    Precision,
    Quiet,
    Seed,
    Threads,
    device_named,
)
from regard.cli.script_warning import warn_of_strangers
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.evaluation.length_buckets import Bucket
    from regard.pipeline import Captioner

__all__ = ["evaluate"]


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A model or run folder.")],
    source: Annotated[str | None, typer.Option(help="Test sentences, one a line.")] = None,
    reference: Annotated[
        list[str] | None, typer.Option(help="Right translations, line by line; as often as there are sets.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Instead of sentences: a folder of pictures.")] = None,
    captions: Annotated[
        Path | None,
        typer.Option(help="Right captions of them, one or more a picture, in any form that training reads."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another captioner: how far the first is above it in CIDEr-D, and with what p.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out pictures and captions that cannot be used.")
    ] = False,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    format: Annotated[Literal["text", "json"], typer.Option(help="For people or for programs.")] = "text",
    lengths: Annotated[
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
    """Print scores, each with the signature that says how it was counted.

    Of translations (--source, --reference) BLEU, chrF and TER; of captions (--images, --captions) BLEU-1 to BLEU-4,
    chrF, CIDEr-D and how many are letter for letter one of the references.
    """
    given = dict(locals())
    setup_process(threads, quiet, debug, seed)
    pictures = _wants_pictures(given)
    load: dict[str, Any] = {"device": device_named(device), "engine": engine, "precision": precision}
    search: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty}
    if pictures:
        assert images is not None, "it was looked at"
        assert captions is not None, "it was looked at"
        _captioned(_Set(images, captions, skip_bad), run, against, load, search, format == "json")
    else:
        assert source is not None, "it was looked at"
        assert reference is not None, "it was looked at"
        _translated(run, source, reference, load, search, _Told(format == "json", lengths, figure))


@dataclass(frozen=True)
class _Told:
    """How scores of translations are told."""

    json: bool
    lengths: bool
    figure: Path | None


def _translated(
    run: Path, source: str, reference: list[str], load: dict[str, Any], search: dict[str, Any], how: _Told
) -> None:
    """Score translations. Raises DataError where the files are not line by line of each other."""
    from regard.evaluation.length_buckets import by_length
    from regard.evaluation.metrics import LONGEST_FOR_TER, scores
    from regard.pipeline import load_translator
    from regard.visualisation.saving import SUFFIXES

    if how.figure is not None and how.figure.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--figure {how.figure}: a picture is written as {', '.join(SUFFIXES)}")
    sources, references = _aligned(source, reference)
    translator = load_translator(run, **load)
    say(f"translating {len(sources):,} lines of {source}")
    warn_of_strangers(translator, source, sources)
    outputs = [translation.text for translation in translator.translate(sources, **search)]
    results = scores(outputs, references)
    buckets = by_length(sources, outputs, references) if how.lengths or how.figure else []
    width = search["beam"] or translator.settings.search.beam
    if all(score.name != "TER" for score in results):
        say(f"TER is left out: a line has more than {LONGEST_FOR_TER} words, and it would take very long")
    if how.json:
        values = {score.name: {"score": score.value, "signature": score.signature} for score in results}
        told = {"model": str(run), "source": source, "beam": width, "engine": translator.engine.describe(), **values}
        if how.lengths:
            told["by_length"] = [asdict(bucket) for bucket in buckets]
        typer.echo(json.dumps(told, ensure_ascii=False))
    else:
        for score in results:
            typer.echo(f"{score.name:5} {score.value:6.2f}   {score.signature}|beam:{width}")
        for bucket in buckets if how.lengths else ():
            words = f"{bucket.first}–{bucket.last} words"
            typer.echo(
                f"  {words:14} chrF {bucket.chrf:6.2f}   {bucket.low:6.2f} to {bucket.high:6.2f}   "
                f"{bucket.sentences:,} sentences"
            )
    if how.figure is not None and buckets:
        _draw(buckets, run, how.figure)
    elif how.figure is not None:
        say(f"{how.figure} is not drawn: no two lines have sources of like lengths")


def _aligned(source: str, reference: list[str]) -> tuple[list[str], list[list[str]]]:
    """The lines of all files, which belong together line by line. References are compared in Unicode's form NFC, as
    models write."""
    from regard.data.text import read_files

    sources, *references = (file.lines for file in read_files([source, *reference]))
    uneven = [
        f"{path} has {len(lines)} lines and {source} has {len(sources)}; give files whose lines belong together"
        for path, lines in zip(reference, references, strict=True)
        if len(lines) != len(sources)
    ]
    if uneven:
        raise DataError(*uneven)
    composed = [[unicodedata.normalize("NFC", line) for line in lines] for lines in references]
    for path, lines, before in zip(reference, composed, references, strict=True):
        if changed := sum(map(str.__ne__, lines, before)):
            say(f"{path}: {changed:,} lines are not in Unicode's form NFC; they are compared as if they were")
    return sources, composed


@dataclass(frozen=True)
class _Set:
    """A test set of captioned pictures."""

    images: Path
    captions: Path
    skip_bad: bool


def _wants_pictures(given: dict[str, Any]) -> bool:
    """Whether captions are to be scored. Raises UsageError where the options do not say, with all reasons."""
    sides = {"text": ("source", "reference"), "pictures": ("images", "captions")}
    told = {side: [name for name in names if given[name]] for side, names in sides.items()}
    pictures = bool(told["pictures"])
    causes = []
    if pictures and told["text"]:
        causes.append("--source and --images: sentences or pictures are scored; leave one out")
    elif not pictures and not told["text"]:
        causes.append("there is nothing to score: give --source and --reference, or --images and --captions")
    else:
        wanted = sides["pictures" if pictures else "text"]
        causes += [f"--{name} is missing: give --{wanted[0]} and --{wanted[1]}" for name in wanted if not given[name]]
    others = {"against": "images", "skip_bad": "images", "lengths": "source", "figure": "source"}
    causes += [
        f"--{'by-length' if name == 'lengths' else name.replace('_', '-')}: goes with --{side} only; leave it out"
        for name, side in others.items()
        if given[name] and (side == "images") != pictures
    ]
    if causes:
        raise UsageError(*causes)
    return pictures


def _captioned(
    test: _Set, run: Path, against: Path | None, load: dict[str, Any], search: dict[str, Any], json_: bool
) -> None:
    """Score the captions of one run, and compare them with those of another."""
    from regard.evaluation.bootstrap import paired_bootstrap
    from regard.evaluation.caption_metrics import caption_scores, each_cider, tokenizer_for
    from regard.pipeline import load_captioner

    captioners = [(path, load_captioner(path, **load)) for path in (run, against) if path is not None]
    cuts = [tokenizer_for(captioner.settings.tokenizer) for _, captioner in captioners]
    if len(set(cuts)) > 1:
        raise UsageError(
            f"--against: captions of {run} are compared by {cuts[0].__name__} and those of {against} by "
            f"{cuts[1].__name__}, as their vocabularies are (tokenizer.kind); evaluate each alone"
        )
    each, rows, cut = [], list[dict[str, Any]](), cuts[0]
    for path, captioner in captioners:
        outputs, references = _outputs(captioner, test, search)
        results = caption_scores(outputs, references, cut)
        each.append(each_cider(outputs, references, cut))
        width = search["beam"] or captioner.settings.search.beam
        values = {score.name: {"score": score.value, "signature": score.signature} for score in results}
        rows.append({"model": str(path), "beam": width, "engine": captioner.engine.describe(), **values})
        if json_:
            continue
        if against is not None:
            typer.echo(f"{path}")
        for score in results:
            typer.echo(f"{score.name:7} {score.value:6.2f}   {score.signature}|beam:{width}")
    told = {"images": str(test.images), "captions": str(test.captions), **rows[0]}
    if against is not None:
        found = paired_bootstrap(each[1], each[0])
        told |= {"against": rows[1], "cider_difference": asdict(found)}
        if not json_:
            typer.echo(f"CIDEr-D of {run} above {against}: {found}; paired bootstrap, {found.draws:,} draws")
    if json_:
        typer.echo(json.dumps(told, ensure_ascii=False))


def _outputs(captioner: Captioner, test: _Set, search: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """What a run says of the test pictures, and what people said."""
    from regard.data.prepare_captions import read_caption_corpus

    scenes = read_caption_corpus(test.captions, test.images, captioner.frame, test.skip_bad, say)
    say(f"captioning {len(scenes):,} pictures of {test.images}")
    return [found.text for found in captioner.caption(scenes.images, **search)], scenes.caption_set.references


def _draw(buckets: list[Bucket], run: Path, figure: Path) -> None:
    """chrF against the length of the source, with its intervals."""
    from regard.visualisation import Chart, Series, save

    points = tuple(((bucket.first + bucket.last) / 2, bucket.chrf) for bucket in buckets)
    band = tuple((bucket.low, bucket.high) for bucket in buckets)
    save(Chart("chrF by source length", "source words", (("chrF", (Series(run.name, points, band),)),)), figure)
    say(f"wrote {figure}")
