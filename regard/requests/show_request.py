"""The options of `regard show`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic.dataclasses import dataclass

from regard.common.requests import COMMAND, Option
from regard.requests.shared_fields import Device


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class ShowCommand:
    """A call of `regard show`."""

    run: Annotated[
        Path | None,
        Option(
            "A model folder or run folder; some views need none.",
            is_argument=True,
            is_local=True,
        ),
    ] = None
    text: Annotated[
        str | None,
        Option(
            "The line to translate, or the image to caption; views of a run need none.",
            is_argument=True,
        ),
    ] = None
    out: Annotated[
        Path | None, Option("File to write: .html, .svg, .png or .gif.", is_local=True)
    ] = None
    view: Annotated[
        Literal[
            "heat",
            "heads",
            "player",
            "curve",
            "schedule",
            "positions",
            "model",
            "score",
            "residual",
        ]
        | None,
        Option(
            "heat: the head chosen for alignments; heads: every head of a layer, or of one word; "
            "player: encoder and search, animated; score: the matrix W of a general score as a "
            "map; residual: what residual connections add; curve: the learning curve of a run; "
            "schedule, positions: those of a run or of given sizes; model: the architecture of a "
            "run, preset or recipe."
        ),
    ] = None
    with_: Annotated[
        tuple[Path, ...],
        Option(
            "Another run in the same figure, with --view curve; repeat it.",
            is_local=True,
            is_repeated=True,
        ),
    ] = ()
    faithfulness: Annotated[
        bool,
        Option(
            "Measure how far attention agrees with attributions; pages always do.",
        ),
    ] = False
    attention: Annotated[
        Literal["cross", "encoder", "decoder"],
        Option("With --view heads: whose attention."),
    ] = "cross"
    layer: Annotated[
        int | None,
        Option("With --view heads: the layer, from 1.", least=1, most=1024),
    ] = None
    head: Annotated[
        tuple[int, ...],
        Option(
            "With --view heads: only this head; repeat it.",
            least=1,
            most=1024,
            is_repeated=True,
        ),
    ] = ()
    word: Annotated[
        str | None,
        Option(
            "With --view heads: all heads of this word, as arcs; WORD:2 is the second of its kind."
        ),
    ] = None
    preset: Annotated[
        str | None,
        Option("With --view model: a preset; regard.presets() lists them."),
    ] = None
    config: Annotated[
        Path | None, Option("With --view model: a recipe, TOML.", is_local=True)
    ] = None
    settings: Annotated[
        tuple[str, ...],
        Option(
            "With --view model: key=value, as often as needed.",
            "--set",
            is_repeated=True,
        ),
    ] = ()
    size: Annotated[
        tuple[int, ...],
        Option(
            "Positions, schedule: size of the vectors; repeat it.",
            least=2,
            most=65536,
            is_repeated=True,
        ),
    ] = ()
    warmup: Annotated[
        tuple[int, ...],
        Option(
            "Schedule: updates of warm-up; repeat it with --size.",
            least=0,
            most=10**9,
            is_repeated=True,
        ),
    ] = ()
    schedule: Annotated[
        Literal["noam", "inverse_square_root", "constant"] | None,
        Option("Schedule: its kind; noam if left out."),
    ] = None
    peak: Annotated[
        float | None,
        Option("Schedule: its highest rate, or noam's factor.", least=1e-12, most=1e6),
    ] = None
    updates: Annotated[
        int | None, Option("Schedule: updates to draw.", least=1, most=10**9)
    ] = None
    position: Annotated[
        int | None,
        Option(
            "Positions: print and mark the vector of this position, from 0.",
            least=0,
            most=10**6,
        ),
    ] = None
    korean: Annotated[bool, Option("The figure in Korean.")] = False
    device: Device = "auto"
    search: Mapping[str, Any] = field(default_factory=dict)
