"""The options of `regard translate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic.dataclasses import dataclass

from regard.common.requests import COMMAND, Option
from regard.requests.shared_fields import (
    Alignments,
    DecodingPrecision,
    Device,
    Forbid,
    Format,
    Keep,
    NBest,
    Prefix,
    Seed,
    ThreadCount,
    TranslatorFile,
    With,
    with_seed,
)

InputKind = Literal[
    "auto",
    "text",
    "jsonl",
    "html",
    "xml",
    "markdown",
    "table",
    "srt",
    "vtt",
    "po",
    "xliff",
    "android",
    "resx",
    "ts",
    "json",
    "properties",
    "strings",
    "yaml",
    "fluent",
    "docx",
    "odt",
]
"""Kinds of input: lines, and the formats of documents."""


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class TranslateCommand:
    """A call of `regard translate`."""

    run: TranslatorFile
    file: Annotated[
        str, Option("Lines to translate; - is standard input.", is_argument=True)
    ] = "-"
    nbest: NBest = 1
    format: Format = "text"
    alignments: Alignments = False
    prefix: Prefix = ""
    term: Annotated[
        tuple[str, ...],
        Option("A word that must appear; may be repeated.", is_repeated=True),
    ] = ()
    forbid: Forbid = ()
    keep: Keep = ()
    no_keep: Annotated[
        bool,
        Option(
            "Give placeholders and addresses to the model, as a line with a prefix or terms does.",
        ),
    ] = False
    dialect: Annotated[
        str,
        Option(
            "Dialect of strings of programs: c, python-brace, icu, html …, or auto, as each line "
            "is; a string that would break stays as it was.",
        ),
    ] = "auto"
    particles: Annotated[
        Literal["both", "as-is"],
        Option(
            "Korean particles after placeholders: both forms, as in {name}을(를), or as the model "
            "writes them."
        ),
    ] = "both"
    strict: Annotated[
        bool,
        Option(
            "End with status 1 if a string would break, is too long, or is in another language "
            "than the model reads."
        ),
    ] = False
    max_characters: Annotated[
        int | None,
        Option(
            "Most characters of a translation: the best of the beam that is short enough.",
            least=1,
        ),
    ] = None
    refuse_below: Annotated[
        float | None,
        Option(
            "Leave a line as it is, marked, if the probability that its translation is good is "
            "lower: 0 to 1.",
        ),
    ] = None
    report: Annotated[
        bool,
        Option(
            "Say at the end how many lines can be used as they are, and which cannot."
        ),
    ] = False
    with_: With = ()
    input: Annotated[
        InputKind,
        Option(
            "Plain lines; one JSON object per line: text, prefix, terms, forbid; a document of "
            "some format; auto: as FILE is."
        ),
    ] = "auto"
    retranslate: Annotated[
        bool,
        Option("Translate what has a translation in a document again."),
    ] = False
    attributes: Annotated[
        bool,
        Option("Translate alt, title and the like of HTML, too."),
    ] = False
    stream: Annotated[
        bool,
        Option("Print words as they are decoded; greedy, or with --sample."),
    ] = False
    output: Annotated[
        Path | None, Option("File to write instead of standard output.", is_local=True)
    ] = None
    resume: Annotated[
        bool,
        Option("Continue an --output that was interrupted."),
    ] = False
    chunk: Annotated[
        int,
        Option(
            "Lines that are translated, and written to disk, together.",
            least=1,
            most=1_000_000,
        ),
    ] = 2000
    workers: Annotated[
        int | None,
        Option(
            "Chunks that a --cluster translates at a time.",
            least=1,
            most=1024,
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Option(
            "Translate on a Ray cluster: its HOST:PORT, or local: one on this machine."
        ),
    ] = None
    column: Annotated[
        str | None,
        Option("FILE is a table, or a folder of tables: translate this column."),
    ] = None
    precision: Annotated[
        DecodingPrecision | None,
        Option(
            "Precision of the weights in decoding, float32 if left out; int8 is the fastest for "
            "text on a CPU."
        ),
    ] = None
    device: Device = "auto"
    threads: ThreadCount = None
    seed: Seed = None
    search: Mapping[str, Any] = field(default_factory=dict)

    @property
    def runs(self) -> list[Path]:
        """The model folders, or the runtime file."""
        return [self.run, *self.with_]

    @property
    def decoding_precision(self) -> DecodingPrecision:
        """The precision of the weights of a model folder."""
        return self.precision or "float32"

    @property
    def settings(self) -> dict[str, Any]:
        """The search options that are set, and the seed."""
        return with_seed(self.search, self.seed)
