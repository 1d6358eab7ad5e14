"""The demonstration on pictures: a captioner is trained, its captions are checked fact by fact, and where it looked."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.app import say

if TYPE_CHECKING:
    from regard.attention.alignment import Readings
    from regard.evaluation.pointing import Map, Pointing, Region
    from regard.pipeline import AlignmentChoice, Caption, Captioner
    from regard.samples.images import Captioned, PictureSample
    from regard.training import Recipe

__all__ = ["WANTED", "demo_images", "judged"]

TRUE, POINTING = 0.9, 0.8
WANTED = f"true captions in {TRUE:.0%} of the test, {POINTING:.0%} of nouns pointed at"
DRAWN = 3  # pictures of the test that are drawn


@dataclass(frozen=True)
class Judged:
    """How captions of pictures were found: which are true, and how well their nouns point."""

    true: tuple[bool, ...]
    pointing: Pointing

    @property
    def share(self) -> float:
        return sum(self.true) / max(len(self.true), 1)


def demo_images(out: Path, language: str, device: str, seed: int) -> None:
    """Train on pictures drawn by code, caption what training never showed together, and draw what was looked at.

    The last two lines printed are the share of true captions and of nouns that point at what they name.
    """
    from regard.samples.images import pictures

    began, data, sample = time.perf_counter(), out / "data", pictures()
    sizes = ", ".join(f"{len(some):,} to {name}" for name, some in sample.splits.items())
    if not (data / "test.regions.jsonl").is_file():  # the last that is written
        sample.write(data)
    say(f"sample: pictures {sizes}, in {data}")
    captioner = _trained(sample, data, out / f"pictures-{language}", language, (device, seed))
    tested = _tested(captioner, sample, data, language)
    _draw(captioner, sample.splits["test"][:DRAWN], data, out)
    typer.echo(f"done in {(time.perf_counter() - began) / 60:.1f} minutes")
    typer.echo(f"true {100 * tested.share:.1f} %")
    typer.echo(f"pointing {100 * tested.pointing.share:.1f} %")
    if tested.share < TRUE or tested.pointing.share < POINTING:
        sys.exit(1)


def recipe(data: Path, language: str, seed: int) -> Recipe:
    """A small residual network and a small Transformer decoder, both from nothing.

    A cell sees 39 pixels a side, little more than the largest thing: one that sees more knows of shapes beside it, and
    is looked at for them.
    """
    from regard.samples.images import SIDE
    from regard.settings import merge
    from regard.training import Recipe
    from regard.training.recipe import preset

    images = {
        "folder": str(data / "images"),
        "captions": str(data / f"train.{language}.tsv"),
        "valid_captions": str(data / f"valid.{language}.tsv"),
        "height": SIDE,
        "width": SIDE,
        "cell": 4,
    }
    sizes = {"size": 128, "heads": 4, "feedforward": 256, "dropout": 0.1}
    changes = {
        "data": {"images": images},
        "tokenizer": {"kind": "whitespace"},
        "model": {
            "encoder": {**sizes, "depths": (1, 2), "width": 24, "group": 4},
            "decoder": {**sizes, "layers": 2},
        },
        "batching": {"tokens": 32 * 324, "buffer_size": 256},  # pictures of all kinds in each batch, not of one length
        "schedule": {"peak": 3e-3, "warmup": 200},
        "training": {"updates": 5500, "validate_every": 1100, "seed": seed, "average": 0.998},
    }
    return Recipe.parse(merge(preset("caption-transformer"), changes), "the demonstration")


def _trained(sample: PictureSample, data: Path, folder: Path, language: str, where: tuple[str, int]) -> Captioner:
    """A captioner with the read chosen that points best on validation pictures."""
    from regard.model_folder import save_alignment
    from regard.pipeline import load_captioner
    from regard.run import RunMode, run

    device, seed = where
    say("", f"training in {folder}")
    outcome = run(recipe(data, language, seed), folder, RunMode((folder / "journal.jsonl").exists()), device)
    if outcome.stopped is not None:
        sys.exit(128 + outcome.stopped)
    some = sample.splits["valid"]
    choice = _best_read(_captioned(load_captioner(folder, device), some, data), some, language)
    save_alignment(folder, asdict(choice))
    return load_captioner(folder, device)


def _captioned(captioner: Captioner, some: Sequence[Captioned], data: Path) -> list[Caption]:
    return captioner.caption([data / "images" / each.file for each in some], readings=True)


def _best_read(captions: Sequence[Caption], some: Sequence[Captioned], language: str) -> AlignmentChoice:
    """The layer and head (or mean of heads) whose maps point best; of equals the first."""
    from regard.pipeline import AlignmentChoice

    readings = captions[0].readings
    assert readings is not None, "readings were asked for"
    choices = [
        AlignmentChoice(layer, head, False)
        for layer in readings.layers("cross")
        for head in (None, *range(len(readings.weights[layer])))
    ]
    return max(choices, key=lambda choice: judged(captions, some, language, choice).pointing.share)


def judged(captions: Sequence[Caption], some: Sequence[Captioned], language: str, choice: AlignmentChoice) -> Judged:
    """Which captions state exactly the facts of their scenes, and whether their nouns point at what they name."""
    from regard.evaluation.pointing import pointing_game
    from regard.samples.images import LANGUAGES

    pairs = list(zip(captions, some, strict=True))
    true = tuple(LANGUAGES[language].is_true(found.text, each.scene.meaning) for found, each in pairs)
    pointed = [pair for found, each in pairs for pair in _pointed(found, each, language, choice)]
    read = captions[0].readings if captions else None  # pictures of one size, so all alike
    where = (0.5,) if read is None else (read.cell_centre, read.cell_extent)
    return Judged(true, pointing_game([own for own, _ in pointed], [region for _, region in pointed], *where))


def _pointed(found: Caption, each: Captioned, language: str, choice: AlignmentChoice) -> Iterator[tuple[Map, Region]]:
    """For each noun of a caption that names something that is there: its map, and where that is."""
    from regard.samples.images import LANGUAGES

    assert found.readings is not None, "readings were asked for"
    for named in LANGUAGES[language].named(found.text):
        for number, thing in enumerate(each.scene.meaning.things):
            if (thing.shape, thing.colour) == (named.thing.shape, named.thing.colour):
                yield _map(found.readings, named.word, choice), each.scene.mask(number)
                break


def _map(readings: Readings, word: int, choice: AlignmentChoice) -> Map:
    return readings.image_map(word, choice.layer, choice.head)


def _tested(captioner: Captioner, sample: PictureSample, data: Path, language: str) -> Judged:
    """Print how it does on pictures as in training, and on what training never showed together."""
    choice = captioner.choice
    assert choice is not None, "the choice was just made"
    typer.echo("")
    found = {}
    for split, meaning in {"valid": "combined as in training", "test": "combined as never in training"}.items():
        some = sample.splits[split]
        captions = _captioned(captioner, some, data)
        found[split] = judged(captions, some, language, choice)
        typer.echo(f"{split:5} {found[split].share:6.1%} of captions state exactly the facts   {meaning}")
    for name, share, count in _by_combination(sample.splits["test"], found["test"].true):
        typer.echo(f"      {share:6.1%} of {count:4} where colour and shape are unseen with their {name}")
    wrong = [(c, e) for c, e, is_true in zip(captions, some, found["test"].true, strict=True) if not is_true]
    for caption, each in wrong[:DRAWN]:
        typer.echo(f"      wrong: {caption.text}   ({each.captions[language][0].text})")
    typer.echo(f"nouns that point at what they name: {found['test'].pointing}")
    return found["test"]


def _by_combination(some: Sequence[Captioned], true: Sequence[bool]) -> Iterator[tuple[str, float, int]]:
    """The share of true captions by what training did not show."""
    from regard.samples.images import UNSEEN

    kinds = [{_kind(combination) for combination in UNSEEN.intersection(each.scene.combinations())} for each in some]
    for kind in ("relation", "place", "number"):
        own = [right for found, right in zip(kinds, true, strict=True) if kind in found]
        if own:
            yield kind, sum(own) / len(own), len(own)


def _kind(combination: tuple[object, ...]) -> str:
    stands = str(combination[0])
    return "relation" if stands.startswith(("first", "second")) else "number" if stands.isdigit() else "place"


def _draw(captioner: Captioner, some: Sequence[Captioned], data: Path, out: Path) -> None:
    """A page and a sheet of some pictures of the test."""
    from regard.cli.show import Look, draw_caption

    for each in some:
        page = out / f"{Path(each.file).stem}.html"
        for path, view in ((page, "player"), (page.with_suffix(".svg"), "heat")):
            caption = draw_caption(captioner, data / "images" / each.file, path, Look(view))
        typer.echo(f"{page} and .svg: {caption.text}")
