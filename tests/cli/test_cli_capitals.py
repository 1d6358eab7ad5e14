"""Labels in capitals are read and written by the languages of the model, by each way into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cached import FolderCache
from command import TRANSFORMER, Command, sets
from labels import labels, write_labels

from regard.pipeline import RuntimeTranslator, load_translator
from regard.runtime import native
from regard.serving.served_translator import ServedFile
from regard.serving.service import TextRequest

SETTINGS = [setting for setting in TRANSFORMER if not setting.startswith("tokenizer.size")]
SLOW = [pytest.param(pair, marks=pytest.mark.slow) for pair in ("tr-el", "nl-az", "az-lt", "lt-nl")]


@pytest.fixture(params=["el-tr", *SLOW])
def model(
    request: pytest.FixtureRequest, cached: FolderCache, trained: Callable[..., Path]
) -> Path:
    """Train a model of the labels of two languages, and return its run folder."""
    folder = cached.in_process("labels", write_labels)
    source, target = request.param.split("-")
    files = [
        part
        for side, name in (("source", source), ("target", target))
        for part in (f"--{side}", name)
    ]
    paths = [str(folder / f"labels.{part}") if part in (source, target) else part for part in files]
    return trained(
        f"labels-{request.param}", *paths, "--languages", f"{source},{target}", *sets(SETTINGS)
    )


def test_labels_in_capitals_are_translated_as_those_in_small_letters(
    regard: Command, model: Path, request: pytest.FixtureRequest
) -> None:
    source, target = request.node.callspec.params["model"].split("-")
    rows = list(zip(labels(source), labels(target), strict=True))
    translator = load_translator(model)
    plain = [one.text for one in translator.translate([small for (small, _), _ in rows])]
    known = [row for row, text in zip(rows, plain, strict=True) if text == row[1][0]]
    assert len(known) > 0.9 * len(rows), "the model has learnt them"
    lines = [capitals for (_, capitals), _ in known]
    expected = [capitals for _, (_, capitals) in known]
    translations = translator.translate(lines)
    assert [one.text for one in translations] == expected
    assert ["".join(one.tokens).replace("▁", " ").strip() for one in translations] == expected
    assert [one.parts[0].source for one in translations] == lines
    Path("lines").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    done = regard("translate", model, "lines")
    assert (done.lines, done.warnings) == (expected, [])
    if native.why_unavailable() is not None:
        return
    regard("export", model, "labels.regard")
    assert [one.text for one in RuntimeTranslator("labels.regard").translate(lines)] == expected
    assert regard("translate", "labels.regard", "lines").lines == expected
    assert served(Path("labels.regard"), lines, ()) == expected
    regard("export", model, "nameless.regard", "--languages", ",")
    is_plain = served(Path("nameless.regard"), lines, ()) == expected
    assert is_plain == (source == "lt"), (
        "the labels of lt and nl have no letters of their own but at the start of words"
    )
    assert served(Path("nameless.regard"), lines, (source, target)) == expected


def served(path: Path, lines: list[str], languages: Sequence[str]) -> list[str]:
    """Return the translations of lines by a server."""
    served = ServedFile(RuntimeTranslator(path), 10**7, languages)
    return [text.text for text in served.translate(lines, TextRequest(), 100.0)]
