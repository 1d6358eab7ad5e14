"""regard show: what a model looked at while it translated, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard.cli.app import app, prepare, say
from regard.cli.options import Debug, Device, Quiet, Seed, Threads, device_named
from regard.cli.strangers import warn_of_strangers
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.pipeline import Translation, Translator
    from regard.story import Told
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


def draw(translator: Translator, text: str, out: Path, beam: int | None = None, mattered: bool = False) -> Translation:
    """Translate a line, write its picture, and give the translation back; a page tells all there is to tell."""
    from regard.story import tell
    from regard.visualisation import Meta, save

    is_page = out.suffix.lower() == ".html"
    told = tell(translator, text, beam, mattered=is_page or mattered, played=is_page)
    if is_page:
        save(
            told.story,
            out,
            Meta(facts={"decoding": translator.engine.describe(), "drawn by": f"regard {regard.__version__}"}),
        )
    else:
        save(_alignment(translator, told), out)
    return told.translation


def _alignment(translator: Translator, told: Told) -> Alignment:
    """The chosen read as a heatmap; what it is worth stands below it, where it was asked."""
    from regard.story import choice_of, name_of
    from regard.visualisation import Alignment

    readings = told.translation.readings
    assert readings is not None, "readings were asked for"
    choice = choice_of(translator, readings)
    words, mattered = readings.words(choice.layer, choice.head, choice.consumed), told.story.mattered
    caption = name_of(choice, readings)
    if mattered is not None:
        pairs = zip(mattered.names, mattered.agreement, strict=True)
        agreement = ", ".join(f"{name} {value:+.2f}" for name, value in pairs)
        caption += f" · rank correlation with what mattered: {agreement}".replace("-", "−")
    return Alignment(
        readings.source_text, readings.target_text, words.weights, caption=caption, elsewhere=words.elsewhere
    )
