"""regard show: draw the attention of a translation or caption, or the learning curve or schedule of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import regard
from regard.cli.app import app, say, setup_process, warn
from regard.cli.options import Debug, Device, Quiet, Run, Seed, Threads, select_device
from regard.cli.run_views import RUN_VIEWS, draw_run
from regard.cli.search_options import search_command, search_options
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.explanation import Explanation
    from regard.pipeline import Captioner, Translator
    from regard.visualisation import Alignment, Heads
    from regard.visualisation.explanation_data import Attributions

View = Annotated[
    Literal["heat", "heads", "player", "curve", "schedule", "positions"] | None,
    typer.Option(
        help="heat: the head chosen for alignments; heads: every head of its layer; player: the search, animated. Of a "
        "run: its learning curve, its learning-rate schedule, its positional encoding."
    ),
]


@app.command(cls=search_command("beam"))
def show(
    context: typer.Context,
    run: Run,
    text: Annotated[
        str | None,
        typer.Argument(help="The line to translate, or the image to caption; views of a run need none."),
    ] = None,
    out: Annotated[Path, typer.Option(help="File to write: .html, .svg, .png or .gif.")] = Path("attention.html"),
    view: View = None,
    with_: Annotated[
        list[Path] | None, typer.Option("--with", help="Another run in the same figure, with --view curve; repeat it.")
    ] = None,
    faithfulness: Annotated[
        bool,
        typer.Option("--faithfulness", help="Measure how far attention agrees with attributions; pages always do."),
    ] = False,
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Translate a line, or caption an image, and draw what each output word attends to.

    An .html page lets you choose among layers and heads and replays the search; .svg and .png show the head that aligns
    best; .gif (or .svg with --view player) is animated.
    """
    setup_process(threads, quiet, debug, seed)
    from regard.pipeline import Captioner, load
    from regard.visualisation import save

    view = view or ("player" if out.suffix.lower() in (".gif", ".html") else "heat")
    _check_file(out, view)
    if with_ and view not in RUN_VIEWS:
        raise UsageError("--with: only with --view curve, which shows the learning curves of several runs")
    if view in RUN_VIEWS:
        save(draw_run([run, *(with_ or ())], view), out)
        say(f"wrote {out}")
        return
    if text is None or not text.strip():
        raise UsageError("there is nothing to translate: give a line of text, or an image to caption")
    pipeline = load(run, select_device(device))
    if view != "player" and out.suffix.lower() != ".html" and not pipeline.cross_attention():
        raise UsageError(
            f"--view {view}: this model has no attention to draw; its states are played by --view player, or --out "
            "FILE.html or .gif"
        )
    drawing = _Drawing(out, view, faithfulness, search_options(context).get("beam"))
    if isinstance(pipeline, Captioner):
        typer.echo(_draw_caption(pipeline, Path(text), drawing))
    else:
        typer.echo(_draw_translation(pipeline, text, drawing))
    say(f"wrote {out}")


def _check_file(out: Path, view: str) -> None:
    """Raise UsageError for a kind of file that cannot be written, or cannot show this view."""
    from regard.visualisation.saving import SUFFIXES

    suffix = out.suffix.lower()
    if suffix not in (*SUFFIXES, ".gif"):
        raise UsageError(f"--out {out}: a figure is written as {', '.join(SUFFIXES)}, .gif")
    if (suffix == ".gif" and view != "player") or (suffix == ".png" and view == "player"):
        raise UsageError(f"--view {view}: cannot be written as {suffix}; only the player is animated")


@dataclass(frozen=True)
class _Drawing:
    """The file to write, its view, and the beam of the search that it shows (None: the model's own)."""

    out: Path
    view: str
    faithfulness: bool
    beam: int | None

    @property
    def is_page(self) -> bool:
        return self.out.suffix.lower() == ".html"


def _draw_translation(translator: Translator, text: str, drawing: _Drawing) -> str:
    """Translate a line and write its figure; return the translation."""
    from regard.bulk import unknown_script
    from regard.explanation import explain
    from regard.visualisation import Meta, save

    warn(unknown_script(translator, "the text", [text])[1])
    attributions = drawing.is_page or drawing.faithfulness
    explanation = explain(translator, text, drawing.beam, attributions=attributions)
    facts = {"decoding": translator.engine.describe(), "drawn by": f"regard {regard.__version__}"}
    if drawing.view == "player" or drawing.is_page:
        save(explanation.data, drawing.out, Meta(facts=facts))
    elif drawing.view == "heads":
        save(_heads(translator, explanation), drawing.out)
    else:
        save(_alignment(translator, explanation), drawing.out)
    if drawing.faithfulness and explanation.data.attributions is not None:
        say(_agreement(explanation.data.attributions))
    return explanation.translation.text


def _draw_caption(captioner: Captioner, image: Path, drawing: _Drawing) -> str:
    """Caption an image and write its figure: a page, its player, or a sheet of overlays; return the caption."""
    from regard.explanation import alignment_choice, explain_caption, overlay_of
    from regard.visualisation import Meta, save

    if drawing.view == "heads" or drawing.faithfulness:
        option = "--faithfulness" if drawing.faithfulness else "--view heads"
        raise UsageError(f"{option}: only for translations; the page of a caption lets you choose among heads")
    explanation = explain_caption(captioner, image, drawing.beam)
    caption = explanation.caption
    if drawing.view == "player" or drawing.is_page:
        facts = {"image": image.name, "decoding": captioner.engine.describe()}
        facts["drawn by"] = f"regard {regard.__version__}"
        save(explanation.data, drawing.out, Meta(facts=facts))
    else:
        assert caption.readings is not None, "readings were requested"
        choice = alignment_choice(captioner, caption.readings)
        save(overlay_of(explanation.data, caption.readings, choice), drawing.out)
    return caption.text


def _heads(translator: Translator, explanation: Explanation) -> Heads:
    """Return every head of the chosen layer; if measured, its agreement with attributions stands beside its name."""
    from regard.evaluation.faithfulness import agreement, format_correlation
    from regard.explanation import alignment_choice, describe_choice
    from regard.visualisation import Alignment, Heads

    readings, attributions = explanation.translation.readings, explanation.data.attributions
    assert readings is not None, "readings were requested"
    choice = alignment_choice(translator, readings)
    heads = range(len(readings.weights[choice.layer]))
    words = [readings.words(choice.layer, head, choice.shifted) for head in heads]
    title = describe_choice(replace(choice, head=None), readings).replace("mean of heads", "all heads")
    notes = [""] * len(words)
    if attributions is not None:
        title += f" · rank correlation with {attributions.names[0]}"
        notes = [f" · {format_correlation(agreement(head.weights, attributions.weights[0]))}" for head in words]
    alignments = [
        Alignment(
            readings.source_text,
            readings.target_text,
            head.weights,
            caption=f"head {number}{notes[number - 1]}",
            special_weights=head.special_weights,
        )
        for number, head in enumerate(words, 1)
    ]
    return Heads(tuple(alignments), title)


def _alignment(translator: Translator, explanation: Explanation) -> Alignment:
    """Return the chosen head as a heatmap; if measured, its agreement with attributions stands below it."""
    from regard.explanation import alignment_choice, describe_choice
    from regard.visualisation import Alignment

    readings, attributions = explanation.translation.readings, explanation.data.attributions
    assert readings is not None, "readings were requested"
    choice = alignment_choice(translator, readings)
    words, caption = readings.words(choice.layer, choice.head, choice.shifted), describe_choice(choice, readings)
    if attributions is not None:
        caption += f" · {_agreement(attributions)}"
    return Alignment(
        readings.source_text,
        readings.target_text,
        words.weights,
        caption=caption,
        special_weights=words.special_weights,
    )


def _agreement(attributions: Attributions) -> str:
    from regard.evaluation.faithfulness import format_correlation

    pairs = zip(attributions.names, attributions.agreement, strict=True)
    correlations = (f"{name} {format_correlation(value)}" for name, value in pairs)
    return f"rank correlation with attributions: {', '.join(correlations)}"
