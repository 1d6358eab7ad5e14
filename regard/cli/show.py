"""regard show: what a model looked at while it translated or captioned, as a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import regard
from regard.cli.app import app, say, setup_process, warn
from regard.cli.options import Debug, Device, Quiet, Seed, Threads, select_device
from regard.cli.run_views import RUN_VIEWS, draw_run
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.explanation import Explanation
    from regard.pipeline import Caption, Captioner, Translation, Translator
    from regard.visualisation import Alignment, Heads
    from regard.visualisation.explanation_data import Attributions

__all__ = ["Look", "draw", "draw_caption", "show"]


@app.command()
def show(
    run: Annotated[Path, typer.Argument(help="A model or run folder.")],
    text: Annotated[
        str | None,
        typer.Argument(help="The line to translate, or the picture to caption; a view of the run needs none."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The picture: .html, .svg, .png or .gif.")] = Path("attention.html"),
    view: Annotated[
        Literal["heat", "heads", "player", "curve", "schedule", "positions"] | None,
        typer.Option(
            help="The chosen read; every head of its layer; how the translation was written, moving. Of a run: its "
            "learning curve, its learning rate, its positional encoding."
        ),
    ] = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Say how far attention agrees with what mattered; pages always do."),
    ] = False,
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept side by side; 1 is greedy search.")] = None,
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Translate a line and draw which source word each target word looked at; or caption a picture, and draw where.

    An .html page lets you choose among layers and heads and plays how the translation was written; .svg and .png show
    the read that aligns best; .gif (or .svg with --view player) moves.
    """
    setup_process(threads, quiet, debug, seed)
    from regard.bulk import unknown_script
    from regard.pipeline import Captioner, load
    from regard.visualisation.saving import SUFFIXES

    suffix = out.suffix.lower()
    if suffix not in (*SUFFIXES, ".gif"):
        raise UsageError(f"--out {out}: a picture is written as {', '.join(SUFFIXES)}, .gif")
    view = view or ("player" if suffix in (".gif", ".html") else "heat")
    if (suffix == ".gif" and view != "player") or (suffix == ".png" and view == "player"):
        raise UsageError(f"--view {view}: cannot be written as {suffix}; the player moves, all else stands still")
    if view in RUN_VIEWS:
        from regard.visualisation import save

        save(draw_run(run, view), out)
        say(f"wrote {out}")
        return
    if text is None or not text.strip():
        raise UsageError("there is nothing to translate: give a line of text, or the picture to caption")
    translator = load(run, select_device(device))
    if isinstance(translator, Captioner):
        typer.echo(draw_caption(translator, Path(text), out, Look(view, beam, trust)).text)
        say(f"wrote {out}")
        return
    warn(unknown_script(translator, "the text", [text])[1])
    typer.echo(draw(translator, text, out, Look(view, beam, trust)).text)
    say(f"wrote {out}")


@dataclass(frozen=True)
class Look:
    """What is to be seen, and how the translation is searched for."""

    view: str = "player"
    beam: int | None = None
    trust: bool = False


def draw(translator: Translator, text: str, out: Path, look: Look = Look()) -> Translation:
    """Translate a line, write its picture, and give the translation back; a page tells all there is to tell."""
    from regard.explanation import explain
    from regard.visualisation import Meta, save

    is_page = out.suffix.lower() == ".html"
    told = explain(translator, text, look.beam, attributions=is_page or look.trust, trace=look.view == "player")
    facts = {"decoding": translator.engine.describe(), "drawn by": f"regard {regard.__version__}"}
    if look.view == "player" or is_page:
        save(told.data, out, Meta(facts=facts))
    elif look.view == "heads":
        save(_heads(translator, told), out)
    else:
        save(_alignment(translator, told), out)
    if look.trust and told.data.attributions is not None:
        say(f"rank correlation with what mattered: {_agreement(told.data.attributions)}")
    return told.translation


def draw_caption(captioner: Captioner, image: Path, out: Path, look: Look = Look()) -> Caption:
    """Caption a picture, write what its words looked at, and give the caption back: a page, its player, or a sheet."""
    from regard.explanation import alignment_choice, explain_caption, overlay_of
    from regard.visualisation import Meta, save

    if look.view == "heads" or look.trust:
        asked = "--trust" if look.trust else "--view heads"
        raise UsageError(f"{asked}: is there for translations only; the page of a caption lets you choose among heads")
    told = explain_caption(captioner, image, look.beam, trace=look.view == "player")
    if look.view == "player" or out.suffix.lower() == ".html":
        facts = {
            "picture": image.name,
            "decoding": captioner.engine.describe(),
            "drawn by": f"regard {regard.__version__}",
        }
        save(told.data, out, Meta(facts=facts))
        return told.caption
    readings = told.caption.readings
    assert readings is not None, "readings were asked for"
    save(overlay_of(told.data, readings, alignment_choice(captioner, readings)), out)
    return told.caption


def _heads(translator: Translator, told: Explanation) -> Heads:
    """Every head of the chosen layer; what each is worth stands beside its name, where it was asked."""
    from regard.evaluation.faithfulness import agreement, signed
    from regard.explanation import alignment_choice, describe_choice
    from regard.visualisation import Alignment, Heads

    readings = told.translation.readings
    assert readings is not None, "readings were asked for"
    choice = alignment_choice(translator, readings)
    heads = range(len(readings.weights[choice.layer]))
    words = [readings.words(choice.layer, head, choice.shifted) for head in heads]
    title, mattered = (
        describe_choice(replace(choice, head=None), readings).replace("mean of heads", "all heads"),
        told.data.attributions,
    )
    worth = [""] * len(words)
    if mattered is not None:
        title += f" · rank correlation with {mattered.names[0]}"
        worth = [f" · {signed(agreement(each.weights, mattered.weights[0]))}" for each in words]
    found = [
        Alignment(
            readings.source_text,
            readings.target_text,
            each.weights,
            caption=f"head {number}{worth[number - 1]}",
            special_weights=each.special_weights,
        )
        for number, each in enumerate(words, 1)
    ]
    return Heads(tuple(found), title)


def _alignment(translator: Translator, told: Explanation) -> Alignment:
    """The chosen read as a heatmap; what it is worth stands below it, where it was asked."""
    from regard.explanation import alignment_choice, describe_choice
    from regard.visualisation import Alignment

    readings = told.translation.readings
    assert readings is not None, "readings were asked for"
    choice = alignment_choice(translator, readings)
    words, mattered = readings.words(choice.layer, choice.head, choice.shifted), told.data.attributions
    caption = describe_choice(choice, readings)
    if mattered is not None:
        caption += f" · rank correlation with what mattered: {_agreement(mattered)}"
    return Alignment(
        readings.source_text,
        readings.target_text,
        words.weights,
        caption=caption,
        special_weights=words.special_weights,
    )


def _agreement(mattered: Attributions) -> str:
    from regard.evaluation.faithfulness import signed

    pairs = zip(mattered.names, mattered.agreement, strict=True)
    return ", ".join(f"{name} {signed(value)}" for name, value in pairs)
