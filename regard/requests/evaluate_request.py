"""The options of `regard evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic.dataclasses import dataclass

from regard.common.requests import COMMAND, Option
from regard.data.bleu_tokenizer import BleuTokenizer
from regard.requests.shared_fields import Columns, Device, Precision, Run


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class EvaluateCommand:
    """A call of `regard evaluate`."""

    run: Run
    source: Annotated[str | None, Option("Test sentences, one per line.")] = None
    reference: Annotated[
        tuple[str, ...],
        Option(
            "Reference translations, line by line; once per set of references.",
            is_repeated=True,
        ),
    ] = ()
    pairs: Annotated[
        str | None,
        Option("Instead of both: a file of pairs, such as a run's test.tsv, or XLSX."),
    ] = None
    columns: Columns = ""
    corrections: Annotated[
        Path | None,
        Option(
            "Instead: a run's test-translations.csv in which a reader has written corrections; "
            "says how the scores change.",
            is_local=True,
        ),
    ] = None
    images: Annotated[
        Path | None, Option("Instead of sentences: a folder of images.", is_local=True)
    ] = None
    captions: Annotated[
        Path | None,
        Option(
            "Reference captions, one or more per image, in any format that training reads.",
            is_local=True,
        ),
    ] = None
    against: Annotated[
        tuple[Path, ...],
        Option(
            "Another model to compare with, by a paired bootstrap test; may be repeated.",
            is_local=True,
            is_repeated=True,
        ),
    ] = ()
    skip_bad: Annotated[
        bool,
        Option("Skip images and captions that cannot be used."),
    ] = False
    format: Annotated[
        Literal["text", "json"],
        Option("Output: text for people, or one JSON object."),
    ] = "text"
    by_length: Annotated[
        bool,
        Option("Add chrF by source length, with 95 % intervals."),
    ] = False
    figure: Annotated[
        Path | None,
        Option("Draw chrF by source length: .svg, .png or .html.", is_local=True),
    ] = None
    bleu_tokenizer: Annotated[
        BleuTokenizer | None,
        Option("How BLEU splits words; by default as the target language needs it."),
    ] = None
    precision: Precision = "float32"
    device: Device = "auto"
    search: Mapping[str, Any] = field(default_factory=dict)

    @property
    def runs(self) -> list[Path]:
        """The models to compare."""
        return [self.run, *self.against]
