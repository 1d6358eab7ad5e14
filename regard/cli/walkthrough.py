"""regard walkthrough: compute a Transformer block and show every number, as text or as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from regard.cli.app import app, say
from regard.common.errors import UsageError
from regard.common.requests import call_with
from regard.requests.walkthrough_request import WalkthroughCommand

if TYPE_CHECKING:
    from regard.common.bilingual import Language


@app.command(request=WalkthroughCommand, sets=("threads",))
def walkthrough(command: WalkthroughCommand) -> None:
    """Walk through a Transformer block with every number: embeddings, positions, attention, add &
    norm, feed-forward.

    `regard walkthrough "I go home"` prints an encoder block of small random weights, simple enough
    for a pencil; `regard walkthrough "나는 집에 간다" "I go home" --out block.html` writes a page
    that steps through a decoder block.
    """
    out = command.out
    if out is not None and out.suffix.lower() != ".html":
        raise UsageError(
            f"--out {out}: a walkthrough is written as a page, .html; without --out it is printed"
        )
    from regard.common.atomic import write_text
    from regard.learn import walkthrough_block

    block = call_with(walkthrough_block, command)
    language: Language = "ko" if command.korean else "en"
    if out is None:
        typer.echo(block.text(language))
    else:
        write_text(out, block.page(language))
        say(f"wrote {out}")
