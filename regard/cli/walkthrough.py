"""regard walkthrough: compute a Transformer block and show every number, as text or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.app import app, say
from regard.cli.options import Device, Seed, select_device
from regard.common.errors import UsageError

if TYPE_CHECKING:
    from regard.common.bilingual import Language

Batch = Annotated[
    list[str] | None,
    typer.Option(
        help="Another text of the same batch, SOURCE ||| TARGET if there is a target; repeat it."
    ),
]
FeedForward = Annotated[
    int | None,
    typer.Option(
        "--ff",
        min=1,
        max=64,
        help="Hidden numbers of the feed-forward network; 6 if left out.",
    ),
]
Norm = Annotated[
    Literal["pre", "post"] | None,
    typer.Option(help="Layer norm before the sublayers, or after (default)."),
]


@app.command(sets=("threads",))
def walkthrough(
    text: Annotated[
        str, typer.Argument(help="A text, to go through an encoder block.")
    ],
    target: Annotated[
        str | None,
        typer.Argument(
            help="Its translation, to go through a decoder block; the text is then the source."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Page to write, .html, instead of printing the numbers."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A model folder or run folder: the weights of that model."),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="With --model: the layer, from 1."),
    ] = None,
    causal: Annotated[
        bool,
        typer.Option(
            "--causal", help="A text alone: no word attends to those after it."
        ),
    ] = False,
    batch: Batch = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="Attention score: scaled_dot (default), dot (not scaled), general, additive, "
            "cosine …"
        ),
    ] = None,
    unprojected: Annotated[
        bool, typer.Option("--unprojected", help="Without Q, K, V and output matrices.")
    ] = False,
    size: Annotated[
        int | None,
        typer.Option(min=2, max=32, help="Size of the vectors; 4 if left out."),
    ] = None,
    heads: Annotated[
        int | None, typer.Option(min=1, max=32, help="Attention heads; 2 if left out.")
    ] = None,
    feedforward: FeedForward = None,
    norm: Norm = None,
    korean: Annotated[bool, typer.Option("--korean", help="In Korean.")] = False,
    device: Device = "auto",
    seed: Seed = None,
) -> None:
    """Walk through a Transformer block with every number: embeddings, positions, attention, add &
    norm, feed-forward.

    `regard walkthrough "I go home"` prints an encoder block of small random weights, simple enough
    for a pencil; `regard walkthrough "나는 집에 간다" "I go home" --out block.html` writes a page
    that steps through a decoder block.
    """
    if out is not None and out.suffix.lower() != ".html":
        raise UsageError(
            f"--out {out}: a walkthrough is written as a page, .html; without --out it is printed"
        )
    from regard.common.atomic import write_text
    from regard.learn import walkthrough_block

    block = walkthrough_block(
        text,
        target,
        batch=batch or (),
        model=model,
        layer=layer,
        device="cpu" if model is None else select_device(device),
        size=size,
        heads=heads,
        feedforward=feedforward,
        norm=norm,
        score=score,
        unprojected=unprojected,
        causal=causal,
        seed=seed,
    )
    language: Language = "ko" if korean else "en"
    if out is None:
        typer.echo(block.text(language))
    else:
        write_text(out, block.page(language))
        say(f"wrote {out}")
