"""Summary of a run's shards: what a resumed run needs of the training text without reading it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from regard.common.atomic import write_text
from regard.common.errors import DataError
from regard.common.reading import file_bytes, parse_json, reason_of
from regard.data.corpus_facts import CorpusFacts
from regard.data.shards import REMEDY

SUMMARY = "summary.json"  # in the folder of shards

TextSample = tuple[list[str], list[str]]
"""Source lines and target lines of training pairs, taken evenly from the whole text.

With images there are only target lines, the captions.
"""


@dataclass(frozen=True)
class ShardSummary:
    """Content of the summary in a folder of shards."""

    cache_key: dict[str, Any]
    report: list[str]
    facts: dict[str, CorpusFacts]
    held_out: dict[str, list[tuple[str, str, int]]]
    """Source, target and line number of the pairs of each corpus that was held out."""
    evaluation_hashes: dict[str, str]
    """Hashes of the evaluation files that `overlap_lines` is about."""
    overlap_lines: list[str]
    """Report lines on what valid and test share with train."""
    sample: TextSample
    """Sample of the text, from which a run that was killed too early learns when it is resumed."""

    @classmethod
    def read(cls, folder: Path) -> ShardSummary:
        """Read the summary in a folder of shards. Raises DataError if it is missing or damaged."""
        try:
            values = parse_json(file_bytes(folder / SUMMARY))
            return TypeAdapter(ShardSummary).validate_python(values)
        except FileNotFoundError:
            raise DataError(f"{folder}: there are no complete shards{REMEDY}") from None
        except (OSError, ValueError) as problem:
            raise DataError(
                f"{folder / SUMMARY}: damaged ({reason_of(problem)}){REMEDY}"
            ) from None

    def write(self, folder: Path) -> None:
        """Write the summary; it comes last, because shards without a summary are not reused."""
        write_text(folder / SUMMARY, json.dumps(asdict(self), indent=1))
