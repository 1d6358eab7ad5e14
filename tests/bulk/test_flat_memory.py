"""Memory does not grow with the file."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from regard.pipeline import Translation, Translator
from regard.pipeline.bulk import (
    ChunkTranslator,
    Lines,
    OutputFormat,
    ResumableOutput,
    chunks,
)

pytestmark = pytest.mark.system


class Echo:
    """Translator that returns each line unchanged."""

    doubts = SimpleNamespace(is_of_unknown_script=lambda _: False)

    def begin(self, texts: Sequence[str], **_: Any) -> Any:
        return SimpleNamespace(
            run=lambda: [Translation(text, tuple(text.split()), 0.0) for text in texts]
        )


def _peak_memory(folder: Path, count: int) -> int:
    """Return the peak memory of Python objects while `count` lines are translated."""
    with (folder / "in").open("w") as file:
        file.writelines(f"this is line number {number}\n" for number in range(count))

    translate_chunk = ChunkTranslator("in", OutputFormat(jsonl=True), {})
    tracemalloc.start()
    lines = Lines(str(folder / "in"))

    assert lines.checked() == count

    with ResumableOutput(folder / "out", {}).open(False) as output:
        for chunk in chunks(lines, 200):
            result = translate_chunk(cast("Translator", Echo()), chunk)
            output.add(
                result.text,
                output.mark.after(
                    chunk.end, chunk.digest, result.known, result.unknown
                ),
            )
        output.finish()

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (folder / "out").read_bytes().count(b"\n") == count

    return peak


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    _peak_memory(tmp_path, 200)
    short = _peak_memory(tmp_path, 800)
    long = _peak_memory(tmp_path, 6_000)

    assert (tmp_path / "out").stat().st_size > 500_000
    assert long < short + 50_000
