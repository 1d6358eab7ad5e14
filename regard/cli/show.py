"""regard show: what a model looked at while it translated, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app, prepare, say
from regard.cli.options import Debug, Device, Quiet, Seed, Threads, device_named
from regard.cli.strangers import warn_of_strangers
from regard.errors import RegardError, UsageError

if TYPE_CHECKING:
    from regard.pipeline import AlignmentChoice, Translation, Translator
    from regard.visualisation import Alignment

__all__ = ["draw", "show"]


@app.command()
def show(
    run: Annotated[Path, typer.Argument(help="A model or run folder.")],
    text: Annotated[str, typer.Argument(help="The line to translate.")],
    out: Annotated[Path, typer.Option(help="The picture to write: .html, .svg or .png.")] = Path("attention.html"),
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept side by side; 1 is greedy search.")] = None,
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Translate a line and draw which source word each target word looked at.

    An .html page lets you choose among layers and heads; .svg and .png show the one that aligns best.
    """
    prepare(threads, quiet, debug, seed)
    from regard.pipeline import load
    from regard.visualisation.files import SUFFIXES

    if out.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--out {out}: a picture is written as {', '.join(SUFFIXES)}")
    if not text.strip():
        raise UsageError("there is nothing to translate: give a line of text")
    translator = load(run, device_named(device))
    warn_of_strangers(translator, "the text", [text])
    typer.echo(draw(translator, text, out, beam).text)
    say(f"wrote {out}")


def draw(translator: Translator, text: str, out: Path, beam: int | None = None) -> Translation:
    """Translate a line, write its picture, and give the translation back."""
    from regard.visualisation import save

    translation = translator.translate(text, beam=beam, readings=True)[0]
    if translation.readings is None:
        raise UsageError(
            "the line is longer than any in training and was cut; show a shorter one, or one sentence at a time"
        )
    if not translation.text:
        raise RegardError("the translation is empty, so there is nothing to draw; show another line, or train longer")
    save(_alignments(translator, text, translation), out)
    return translation


def _alignments(translator: Translator, text: str, translation: Translation) -> list[Alignment]:
    """The chosen read first, then the mean and every head of each layer."""
    from regard.pipeline import AlignmentChoice, last_layer

    readings = translation.readings
    assert readings is not None, "readings were asked for"
    layers = readings.layers("cross")
    choices = [translator.choice or last_layer(readings)]
    for layer in layers:
        heads = readings.weights[layer].shape[0]
        choices += [AlignmentChoice(layer, head, False) for head in ([None, *range(heads)] if heads > 1 else [0])]
    return [_alignment(choice, text, translation, layers, first=i == 0) for i, choice in enumerate(choices)]


def _alignment(
    choice: AlignmentChoice, text: str, translation: Translation, layers: list[str], first: bool
) -> Alignment:
    from regard.data.text import clean
    from regard.visualisation import Alignment

    assert translation.readings is not None, "readings were asked for"
    words = translation.readings.words(choice.layer, choice.head, choice.consumed)
    head = "mean of heads" if choice.head is None else f"head {choice.head + 1}"
    name = f"layer {layers.index(choice.layer) + 1}, {head}" if len(layers) > 1 or choice.head != 0 else "attention"
    read = ", read after the word" if choice.consumed else ""
    return Alignment(
        tuple(clean(text).split(" ")),
        tuple(translation.text.split(" ")),
        words.weights,
        caption=f"{'chosen: ' if first else ''}{name}{read}",
        elsewhere=words.elsewhere,
    )
