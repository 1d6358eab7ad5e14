"""regard show: draw the attention of a translation or caption, and figures of runs and models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.app import app, say, warn
from regard.cli.model_views import draw_map, draw_model
from regard.cli.options import select_device
from regard.cli.plain_views import USED, draw_positions, draw_schedules
from regard.cli.request_options import given_flags
from regard.cli.run_views import RUN_VIEWS, draw_run
from regard.cli.search_options import search_command
from regard.common.errors import UsageError
from regard.common.version import __version__
from regard.data.spans import KEPT, find_spans
from regard.explain.head_views import HeadOptions, draw_heads
from regard.requests.show_request import ShowCommand

if TYPE_CHECKING:
    from regard.explain.explanation import Explanation
    from regard.pipeline import Caption, Captioner, FolderTranslator, Translation
    from regard.visualisation import Alignment, Chart, Figure
    from regard.visualisation.explanation_data import Attributions

RUNLESS = ("positions", "schedule", "model")
"""Views that can be drawn without a run."""
OF_HEADS = ("attention", "layer", "head", "word")
"""Options of the view `heads`."""
OF_MODEL = ("preset", "config", "settings")
"""Options of the view `model`."""
OF_SIZES = ("size", "warmup", "schedule", "peak", "updates", "position")
"""Options of the views that are drawn for given sizes."""
INNER = ("score", "residual")
"""Views of the states inside a model during the translation of a line."""
UNATTENDED = (*RUN_VIEWS, "model")
"""Views without attention, which need no translation."""


@app.command(
    request=ShowCommand, search=search_command("beam"), sets=("threads", "seed")
)
def show(command: ShowCommand) -> None:
    """Translate a line, or caption an image, and draw what each output word attends to; or draw a
    model.

    An .html page lets you choose among layers and heads and replays the search; .svg and .png show
    the head that aligns best; .gif (or .svg with --view player) is animated.
    """
    from regard.visualisation.language import figures_in

    with figures_in("ko" if command.korean else "en"):
        out = command.out
        view = command.view
        if view is None:
            is_animated = out is None or out.suffix.lower() in (".gif", ".html")
            view = "player" if is_animated else "heat"
        if out is None:
            is_static = view in (*UNATTENDED, *INNER)
            out = Path(f"{view}.svg" if is_static else "attention.html")
        _check_file(out, view)
        _check_options(command, view)
        if view in UNATTENDED:
            _draw_unattended(command, view, out)
        else:
            _draw_output(command, view, out)
    say(f"wrote {out}")


def _check_options(command: ShowCommand, view: str) -> None:
    """Raise UsageError, with all causes, if options belong to another view, or if the run is
    missing.
    """
    causes = []
    run = command.run
    if run is None and view not in RUNLESS:
        causes.append(
            f"--view {view}: needs a run; without one there are --view {', '.join(RUNLESS)}"
        )
    if view != "curve" and given_flags(command, ["with_"]):
        causes.append(
            "--with: only with --view curve, which shows the learning curves of several runs"
        )
    if view != "heads":
        causes += [
            f"{name}: only with --view heads" for name in given_flags(command, OF_HEADS)
        ]
    model_flags = given_flags(command, OF_MODEL)
    if view != "model":
        causes += [f"{flag}: only with --view model" for flag in model_flags]
    elif run is not None:
        causes += [
            f"{flag}: a run has its architecture already; leave {flag} or the run out"
            for flag in model_flags
        ]

    usable = USED.get(view, set()) if run is None else set()
    for flag in given_flags(command, OF_SIZES):
        if flag not in usable:
            views = [f"--view {name}" for name, flags in USED.items() if flag in flags]
            causes.append(f"{flag}: only with {' and '.join(views)}, without a run")
    UsageError.raise_all(causes)


def _draw_unattended(command: ShowCommand, view: str, out: Path) -> None:
    """Draw a view without attention: of runs, of a model, or of given sizes."""
    from regard.visualisation import save

    lines = list[str]()
    drawable: Chart | Figure
    if view == "model":
        drawable = draw_model(
            command.run, command.preset, command.config, command.settings
        )
    elif command.run is not None:
        drawable = draw_run([command.run, *command.with_], view)
    elif view == "positions":
        drawable, lines = draw_positions(command)
    else:
        drawable = draw_schedules(command)
    save(drawable, out)
    for line in lines:
        typer.echo(line)


def _draw_output(command: ShowCommand, view: str, out: Path) -> None:
    """Translate or caption, draw, and print the output."""
    from regard.pipeline import Captioner, load

    assert command.run is not None, "checked with the options"
    text = command.text
    if text is None or not text.strip():
        raise UsageError(
            "there is nothing to translate: give a line of text, or an image to caption"
        )
    pipeline = load(command.run, select_device(command.device))
    is_player = view == "player" or _is_page(out)
    if not is_player and not pipeline.cross_attention():
        raise UsageError(
            f"--view {view}: this model has no attention to draw; its states are played by "
            "--view player, or --out FILE.html or .gif"
        )
    is_captioner = isinstance(pipeline, Captioner)
    _check_input(is_captioner, text)
    if not is_captioner:
        _warn_of_spans(text)
    heads = HeadOptions(command.attention, command.layer, command.head, command.word)
    drawing = _Drawing(
        out, view, command.faithfulness, command.search.get("beam"), heads
    )
    typer.echo(_draw(pipeline, text, drawing))


def _warn_of_spans(text: str) -> None:
    """Warn if a text has placeholders, addresses and the like, which `regard translate` copies."""
    spans = [span for span in find_spans(text) if span.kind in KEPT]
    if spans:
        names = ", ".join(repr(text[span.start : span.end]) for span in spans[:3])
        warn(
            f"{names}: given to the model as any word, so that all it reads can be seen; regard "
            "translate keeps it"
        )


def _check_input(is_captioner: bool, text: str) -> None:
    """Raise UsageError if the input is a sentence for a captioner, or an image for a translator."""
    from regard.data.caption_formats import SUFFIXES

    is_image = text.lower().endswith(SUFFIXES)
    if is_captioner and not is_image and not Path(text).exists():
        raise UsageError(
            f"{text}: not an image; this model captions images, and a translator translates text"
        )
    if not is_captioner and is_image and Path(text).is_file():
        raise UsageError(
            f"{text}: an image; this model translates text, and a captioner captions images"
        )


def _check_file(out: Path, view: str) -> None:
    """Raise UsageError for a file format that is not supported, or that cannot show the view."""
    from regard.visualisation.saving import SUFFIXES

    suffix = out.suffix.lower()
    if suffix not in (*SUFFIXES, ".gif"):
        raise UsageError(
            f"--out {out}: a figure is written as {', '.join(SUFFIXES)}, .gif"
        )
    is_animated = view == "player"
    if (suffix == ".gif" and not is_animated) or (suffix == ".png" and is_animated):
        raise UsageError(
            f"--view {view}: cannot be written as {suffix}; only the player is animated"
        )


@dataclass(frozen=True)
class _Drawing:
    """A drawing to make: its file, its view and its options.

    `beam`: beam width of the search, or None for that of the model's settings.
    """

    out: Path
    view: str
    faithfulness: bool
    beam: int | None
    heads: HeadOptions

    @property
    def is_page(self) -> bool:
        return _is_page(self.out)


def _is_page(out: Path) -> bool:
    return out.suffix.lower() == ".html"


def _draw(pipeline: FolderTranslator | Captioner, text: str, drawing: _Drawing) -> str:
    """Translate a line or caption an image, write the drawing, and return the output text."""
    from regard.explain.explanation import (
        alignment_choice,
        explain,
        explain_caption,
        overlay_of,
    )
    from regard.explain.residuals import draw_residuals
    from regard.pipeline import Captioner
    from regard.pipeline.bulk import unknown_script
    from regard.visualisation import Meta, save
    from regard.visualisation.language import words

    facts = {
        words("decoding"): pipeline.engine.describe(),
        words("drawn by"): f"regard {__version__}",
    }
    output: Translation | Caption
    if isinstance(pipeline, Captioner):
        if drawing.view in ("heads", *INNER) or drawing.faithfulness:
            option = f"--view {drawing.view}"
            if drawing.faithfulness:
                option = "--faithfulness"
            raise UsageError(
                f"{option}: only for translations; the page of a caption lets you choose among "
                "heads"
            )
        output, data = explain_caption(pipeline, Path(text), drawing.beam)
        facts = {words("image"): Path(text).name, **facts}
    else:
        warn(unknown_script(pipeline, "the text", [text])[1])
        needs_attributions = drawing.is_page or drawing.faithfulness
        explanation = explain(
            pipeline, text, drawing.beam, attributions=needs_attributions
        )
        data = explanation.data
        output = explanation.translation
        if output.quality is not None:
            facts = {words("quality"): f"{output.quality:.2f}", **facts}
    assert output.readings is not None, "readings were requested"

    if drawing.view in INNER and not isinstance(pipeline, Captioner):
        draw = draw_map if drawing.view == "score" else draw_residuals
        save(draw(pipeline, text, explanation), drawing.out)
    elif drawing.view == "player" or (
        drawing.is_page and drawing.heads == HeadOptions()
    ):
        save(data, drawing.out, Meta(facts=facts))
    elif isinstance(pipeline, Captioner):
        choice = alignment_choice(pipeline, output.readings)
        save(overlay_of(data, output.readings, choice), drawing.out)
    elif drawing.view == "heads":
        save(draw_heads(pipeline, explanation, drawing.heads), drawing.out)
    else:
        save(_alignment(pipeline, explanation), drawing.out)
    if drawing.faithfulness and data.attributions is not None:
        say(_agreement(data.attributions))
    return output.text


def _alignment(translator: FolderTranslator, explanation: Explanation) -> Alignment:
    """Return the heatmap of the head that is chosen for alignments.

    If attributions were computed, the caption has its correlation with them.
    """
    from regard.explain.explanation import alignment_choice, describe_choice
    from regard.visualisation import Alignment

    readings = explanation.translation.readings
    attributions = explanation.data.attributions
    assert readings is not None, "readings were requested"
    choice = alignment_choice(translator, readings)
    words = readings.words(choice.layer, choice.head, choice.shifted)
    caption = describe_choice(choice, readings)
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
    from regard.visualisation.language import words

    pairs = zip(attributions.names, attributions.agreement, strict=True)
    values = ", ".join(
        f"{words(name)} {format_correlation(value)}" for name, value in pairs
    )
    return words("rank correlation with attributions: {values}", values=values)
