"""Score captioners on images, for `regard evaluate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.app import say
from regard.cli.options import select_device
from regard.cli.printed_scores import print_scores, scores_as_values
from regard.common.errors import UsageError
from regard.requests.evaluate_request import EvaluateCommand

if TYPE_CHECKING:
    from regard.evaluation.caption_metrics import WordTokenizer
    from regard.pipeline import Captioner


def evaluate_captions(command: EvaluateCommand) -> None:
    """Score the captions of each run, and compare the other runs with the first one."""
    from regard.evaluation.caption_metrics import CIDER_MEANING

    captioners, tokenize = _load(command)
    ciders = list[list[float]]()
    results = list[dict[str, Any]]()
    for path, captioner in captioners:
        result, cider = _score(command, path, captioner, tokenize)
        results.append(result)
        ciders.append(cider)
    say(CIDER_MEANING)
    _compare(command, results, ciders)
    if command.format == "json":
        values = {
            "images": str(command.images),
            "captions": str(command.captions),
            **results[0],
        }
        if len(results) > 1:
            values["against"] = results[1:]
        typer.echo(json.dumps(values, ensure_ascii=False))


def _load(
    command: EvaluateCommand,
) -> tuple[list[tuple[Path, Captioner]], WordTokenizer]:
    """Load the captioners, and the tokenizer with which their captions are compared.

    Raises UsageError if they have different ones.
    """
    from regard.evaluation.caption_metrics import tokenizer_for
    from regard.pipeline import load_captioner

    device = select_device(command.device)
    captioners = [
        (path, load_captioner(path, device, command.precision)) for path in command.runs
    ]
    tokenizers = [
        tokenizer_for(captioner.settings.tokenizer) for _, captioner in captioners
    ]
    first = tokenizers[0]
    for path, tokenizer in zip(command.runs, tokenizers, strict=True):
        if tokenizer is not first:
            raise UsageError(
                f"--against: captions of {command.run} are compared by {first.__name__} and "
                f"those of {path} by {tokenizer.__name__}, as their vocabularies are "
                "(tokenizer.kind); evaluate each alone"
            )
    return captioners, first


def _score(
    command: EvaluateCommand, path: Path, captioner: Captioner, tokenize: WordTokenizer
) -> tuple[dict[str, Any], list[float]]:
    """Caption the test set with one model and print its scores; return them for JSON, with the
    CIDEr-D of each image.
    """
    from regard.evaluation.caption_metrics import (
        caption_scores,
        cider_scores,
        describe_captions,
    )

    outputs, references = _caption_test_set(captioner, command)
    scores = caption_scores(outputs, references, tokenize)
    beam = command.search.get("beam", captioner.settings.search.beam)
    if command.format != "json":
        if command.against:
            typer.echo(f"{path}")
        print_scores(scores, beam, 7)
        say(describe_captions(outputs, references, tokenize))
    values = {
        "model": str(path),
        "beam": beam,
        "engine": captioner.engine.describe(),
        **scores_as_values(scores),
    }
    return values, cider_scores(outputs, references, tokenize)


def _compare(
    command: EvaluateCommand,
    results: Sequence[dict[str, Any]],
    ciders: Sequence[Sequence[float]],
) -> None:
    """Add the difference in CIDEr-D from the first model to the results of the others, and print
    it.
    """
    from regard.evaluation.bootstrap import paired_bootstrap

    for path, result, cider in zip(
        command.against, results[1:], ciders[1:], strict=True
    ):
        difference = paired_bootstrap(ciders[0], cider)
        result["cider_difference"] = asdict(difference)
        if command.format != "json":
            draws = f"paired bootstrap, {difference.draws:,} draws"
            typer.echo(f"{path} − {command.run}, CIDEr-D: {difference}; {draws}")


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
