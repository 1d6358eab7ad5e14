"""Memory does not grow with the file, and worker processes share the weights."""

from __future__ import annotations

import re
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.bulk import (
    Chunk,
    ChunkResult,
    ChunkTranslator,
    InProcess,
    Lines,
    OutputFormat,
    ResumableOutput,
    Workers,
    chunks,
)
from regard.pipeline import Translation, Translator

pytestmark = pytest.mark.system


class Echo(Translator):
    """Translator that returns each line unchanged."""

    def __init__(self, weights: int = 0) -> None:
        self.weights = torch.ones(weights)
        self.engine = SimpleNamespace(prepare=lambda: None)  # type: ignore[assignment]
        self.tokenizer = SimpleNamespace(source=SimpleNamespace(unknown_share=lambda _: 0.0))  # type: ignore[assignment]

    def translate(self, texts: str | Sequence[str], *_: Any, **__: Any) -> list[Translation]:
        return [Translation(text, tuple(text.split()), 0.0) for text in texts]


def _peak_memory(folder: Path, count: int) -> int:
    """Return the peak memory of Python objects while `count` lines are translated."""
    with (folder / "in").open("w") as file:
        file.writelines(f"this is line number {number}\n" for number in range(count))
    translate_chunk = ChunkTranslator("in", OutputFormat(jsonl=True), {})
    tracemalloc.start()
    lines = Lines(str(folder / "in"))
    assert lines.checked() == count
    with ResumableOutput(folder / "out", {}).open(False) as output, InProcess(translate_chunk, Echo) as process:
        for chunk, result in process.results(chunks(lines, 200)):
            output.add(result.text, output.mark.after(chunk.end, chunk.digest, result.known, result.unknown))
        output.finish()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (folder / "out").read_bytes().count(b"\n") == count
    return peak


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    _peak_memory(tmp_path, 200)
    short, long = _peak_memory(tmp_path, 800), _peak_memory(tmp_path, 12_000)
    assert (tmp_path / "out").stat().st_size > 1_000_000
    assert long < short + 100_000


class MeasureMemory(ChunkTranslator):
    """Chunk translator that reads all weights and returns the private memory of its process in kB."""

    def __call__(self, translator: Translator, chunk: Chunk) -> ChunkResult:  # noqa: ARG002
        assert isinstance(translator, Echo)
        assert float(translator.weights.sum(dtype=torch.float64)) == translator.weights.numel()
        report = Path("/proc/self/smaps_rollup").read_text()
        return ChunkResult(f"{sum(map(int, re.findall(r'Private_.*: +([0-9]+) kB', report)))}", (), 1, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked, and measured, on Linux only")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_workers_share_the_weights() -> None:
    megabytes = 200
    with Workers(MeasureMemory("in", OutputFormat(), {}), lambda: Echo(megabytes * 250_000), 2, 1) as workers:
        private_megabytes = [int(result.text) / 1000 for _, result in workers.results(chunks(["a"] * 8, 1))]
    assert len(private_megabytes) == 8
    assert max(private_megabytes) < megabytes / 2, "private megabytes of each process"
