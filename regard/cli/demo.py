"""regard demo: train, score, translate or caption, and draw, on the samples that ship with the package."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app, say, setup_process
from regard.cli.options import Debug, Device, Quiet, Seed, Threads, select_device
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.attention.alignment import Readings
    from regard.pipeline import Translator
    from regard.samples import AlignedPair, Sample
    from regard.training import Recipe

__all__ = ["demo"]

SENTENCES = (("나는 집에 간다", "I go home"), ("나는 빵을 먹고 있었다", "I was eating bread"))
TESTS = {"test": "patterns seen in training", "recombination": "words recombined in new ways"}


@dataclass(frozen=True)
class Direction:
    """One of the two translators of the demonstration."""

    source: str
    target: str
    sample: Sample
    sentences: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"


@app.command()
def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder to write, runs/demo or runs/demo-images; a demonstration cut short goes on there.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[bool, typer.Option("--images", help="Caption pictures instead of translating.")] = False,
    korean: Annotated[bool, typer.Option("--korean", help="With --images: caption them in Korean.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train Korean → English and English → Korean on the sample corpus, score both, and draw their attention.

    With --images: train a captioner on pictures of shapes, check each caption of unseen combinations fact by fact and
    whether its nouns look at what they name, and draw where they looked.
    """
    setup_process(threads, quiet, debug)
    if korean and not images:
        raise UsageError("--korean: goes with --images; without it both directions are trained anyway")
    if images:
        from regard.demo.images import demo_images

        demo_images(
            out or Path("runs/demo-images"),
            "ko" if korean else "en",
            select_device(device),
            1 if seed is None else seed,
        )
        return
    from regard.samples import korean_english

    out = out or Path("runs/demo")
    began, place = time.perf_counter(), select_device(device)
    sample = korean_english()
    sample.write(out / "data", "ko", "en")
    say(f"sample: {len(sample.splits['train']):,} training pairs written to {out / 'data'}")
    backwards = tuple((english, korean) for korean, english in SENTENCES)
    right = True
    for direction in (Direction("ko", "en", sample, SENTENCES), Direction("en", "ko", sample.reversed(), backwards)):
        right &= _show(direction, _train(direction, out, place, 1 if seed is None else seed), out)
    typer.echo(f"done in {(time.perf_counter() - began) / 60:.1f} minutes")
    if not right:
        sys.exit(1)


def recipe(direction: Direction, data: Path, seed: int) -> Recipe:
    """The recipe of the demonstration: a Transformer of two layers a side, which is enough for a grammar."""
    from regard.settings import merge
    from regard.training import Recipe
    from regard.training.recipe import preset

    files = {side: str(data / f"{split}.{language}") for side, split, language in _files(direction)}
    changes = {
        "data": files,
        "tokenizer": {"size": 1000},
        "model": {side: {"dropout": 0.1, "layers": 2} for side in ("encoder", "decoder")},
        "schedule": {"peak": 5e-3, "warmup": 400},
        "batching": {"tokens": 2048},
        "training": {"updates": 2200, "validate_every": 550, "validate_with": 200, "seed": seed, "average": 0.99},
    }
    return Recipe.parse(merge(preset("transformer-tiny"), changes), "the demonstration")


def _files(direction: Direction) -> list[tuple[str, str, str]]:
    return [
        (prefix + side, split, getattr(direction, side))
        for prefix, split in (("", "train"), ("valid_", "valid"))
        for side in ("source", "target")
    ]


def _train(direction: Direction, out: Path, device: str, seed: int) -> Translator:
    from regard.evaluation.aer import Gold, best_choice
    from regard.model_folder import save_alignment
    from regard.pipeline import load_translator
    from regard.run import RunMode, run

    folder = out / direction.name
    say("", f"training {direction.source} → {direction.target} in {folder}")
    outcome = run(recipe(direction, out / "data", seed), folder, RunMode((folder / "journal.jsonl").exists()), device)
    if outcome.stopped is not None:
        sys.exit(128 + outcome.stopped)
    readings, gold = _gold(load_translator(folder, device), direction.sample.splits["valid"])
    choice, _ = best_choice(readings, [Gold.of(links) for links in gold])
    save_alignment(folder, asdict(choice))
    return load_translator(folder, device)


def _gold(
    translator: Translator, pairs: tuple[AlignedPair, ...]
) -> tuple[list[Readings], list[frozenset[tuple[int, int]]]]:
    """What the model looks at when it writes the references, and where it should."""
    from regard.evaluation.aer import read_all

    readings = read_all(translator, [pair.source for pair in pairs], [pair.target for pair in pairs])
    return readings, [frozenset(pair.links) for pair in pairs]


def _show(direction: Direction, translator: Translator, out: Path) -> bool:
    """Print scores, translations and alignments of one direction; whether its sentences came out right."""
    from regard.cli.show import draw
    from regard.evaluation.aer import share_on_gold

    say("")
    typer.echo(f"{direction.source} → {direction.target}")
    for split, meaning in TESTS.items():
        typer.echo(f"  {split:13} {_scores(translator, direction.sample.splits[split])}   {meaning}")
    choice = translator.choice
    assert choice is not None, "the choice was just made"
    readings, gold = _gold(translator, direction.sample.splits["test"])
    share = share_on_gold(readings, gold, choice)
    head = "mean of heads" if choice.head is None else f"head {choice.head + 1}"
    layer = readings[0].layers().index(choice.layer) + 1
    typer.echo(f"  alignment     {share:.1%} of target words looked most at a gold word   layer {layer}, {head}")
    right = sum(_sentence(direction, translator, *pair) for pair in direction.sentences) == len(direction.sentences)
    page = out / f"{direction.name}.html"
    draw(translator, direction.sentences[-1][0], page)
    typer.echo(f"  attention     {page}")
    return right


def _scores(translator: Translator, pairs: tuple[AlignedPair, ...]) -> str:
    from regard.evaluation.metrics import scores

    outputs = [translation.text for translation in translator.translate([pair.source for pair in pairs])]
    found = scores(outputs, [[pair.target for pair in pairs]])
    exact = sum(output == pair.target for output, pair in zip(outputs, pairs, strict=True)) / len(pairs)
    numbers = {score.name: score.value for score in found}
    return f"chrF {numbers['chrF']:5.1f}  BLEU {numbers['BLEU']:5.1f}  exactly right {exact:.0%}"


def _sentence(direction: Direction, translator: Translator, source: str, target: str) -> bool:
    """Translate one of the two sentences; is it right, and does every word look most at a gold word?"""
    from regard.attention.alignment import extract_links

    found, choice = translator.translate(source, readings=True)[0], translator.choice
    assert choice is not None, "it was just made"
    assert found.readings is not None, "they were asked for"
    looked = extract_links(found.readings.words(choice.layer, choice.head, choice.shifted).weights, None)
    verdict = "right" if found.text == target else f"WRONG, wanted {target}"
    gold = _links(direction, source)
    if found.text == target and not set(looked) <= gold:
        verdict = "right, but its words looked elsewhere"
    typer.echo(f"  {source} → {found.text}   {verdict}")
    return verdict == "right"


def _links(direction: Direction, source: str) -> frozenset[tuple[int, int]]:
    found = [pair for pair in direction.sample.splits["train"] if pair.source == source]
    return frozenset(found[0].links)
