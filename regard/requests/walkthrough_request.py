"""The request of `regard.learn.walkthrough_block` and of `regard walkthrough`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic.dataclasses import dataclass

from regard.common.arguments import TEXT, FlagField, PathField, TextField, WholeField
from regard.common.requests import COMMAND, REQUEST, Option
from regard.requests.shared_fields import Device, Seed


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class SmallSettings:
    """Settings of a block with random weights.

    The defaults are size 4, 2 heads, feed-forward size 6, post-norm, and scaled dot product.
    `unprojected` leaves out the Q, K, V and output matrices; it requires one head, and its default
    is pre-norm.
    """

    causal: Annotated[
        FlagField, Option("A text alone: no word attends to those after it.")
    ] = False
    score: Annotated[
        TextField | None,
        Option(
            "Attention score: scaled_dot (default), dot (not scaled), general, additive, cosine …"
        ),
    ] = None
    unprojected: Annotated[
        FlagField, Option("Without Q, K, V and output matrices.")
    ] = False
    size: Annotated[
        WholeField | None,
        Option("Size of the vectors; 4 if left out.", least=2, most=32),
    ] = None
    heads: Annotated[
        WholeField | None, Option("Attention heads; 2 if left out.", least=1, most=32)
    ] = None
    feedforward: Annotated[
        WholeField | None,
        Option(
            "Hidden numbers of the feed-forward network; 6 if left out.",
            "--ff",
            least=1,
            most=64,
        ),
    ] = None
    norm: Annotated[
        Annotated[Literal["pre", "post"], TEXT] | None,
        Option("Layer norm before the sublayers, or after (default)."),
    ] = None
    seed: Seed = None

    def set_values(self) -> dict[str, Any]:
        """Return the settings that are not left out."""
        values = {
            field.name: getattr(self, field.name) for field in fields(SmallSettings)
        }
        return {
            name: value
            for name, value in values.items()
            if value is not None and value is not False
        }


@dataclass(frozen=True, config=REQUEST, kw_only=True)
class WalkthroughRequest(SmallSettings):
    """The walk through a Transformer block: its sentences, and its weights."""

    text: Annotated[
        TextField, Option("A text, to go through an encoder block.", is_argument=True)
    ] = field(kw_only=False)
    target: Annotated[
        TextField | None,
        Option(
            "Its translation, to go through a decoder block; the text is then the source.",
            is_argument=True,
        ),
    ] = field(default=None, kw_only=False)
    batch: Annotated[
        Sequence[str],
        Option(
            "Another text of the same batch, SOURCE ||| TARGET if there is a target; repeat it.",
            is_repeated=True,
        ),
    ] = ()
    model: Annotated[
        Any | PathField | None,
        Option(
            "A model folder or run folder: the weights of that model.", is_local=True
        ),
    ] = None
    layer: Annotated[
        WholeField | None,
        Option("With --model: the layer, from 1.", least=1, most=1024),
    ] = None
    device: Device = "auto"


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class WalkthroughCommand(WalkthroughRequest):
    """A call of `regard walkthrough`: the walk, and where and in which language it is written."""

    out: Annotated[
        Path | None,
        Option("Page to write, .html, instead of printing the numbers.", is_local=True),
    ] = None
    korean: Annotated[FlagField, Option("In Korean.")] = False
