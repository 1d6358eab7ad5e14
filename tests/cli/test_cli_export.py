"""regard export: models for other toolkits, written only if they translate like the original."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from pathlib import Path

import pytest
import torch
from command import Command, files, text_of, write_lines

from regard.common.checksums import sealed
from regard.common.errors import ExportError
from regard.data.vocabulary import EOS
from regard.model_folder import load_folder
from regard.pipeline import FolderTranslator

pytest.importorskip("ctranslate2", reason="regard[fast] is not installed")

from regard.interchange import ctranslate2_export, probe_sentences
from regard.interchange.ctranslate2_model import CTranslate2


def _has_vnni() -> bool:
    """Return whether int8 products are exact: without VNNI, CTranslate2's int8 products saturate at
    16 bits.
    """
    path = Path("/proc/cpuinfo")
    return not path.exists() or "vnni" in path.read_text(encoding="utf-8")


INT8: ctranslate2_export.Precision = "int8" if _has_vnni() else "float32"
LINES = ["나는 집에 간다", "나는 빵을 먹고 있었다", "너는 책을 읽는다"]


def test_an_export_translates_like_the_run(regard: Command, transformer: Path) -> None:
    """The Python of docs/interchange.md translates by it too."""
    done = regard(f"export {transformer} first-int8 --to ctranslate2 --threads 1")
    count = probe_sentences.MAX_SENTENCES
    assert f"compared on {count} sentences of the sample" in done.err
    assert "different: 0 by greedy search, " in done.err
    assert "wrote first-int8" in done.err
    assert done.out == ""

    path = Path("first-int8")
    parity = json.loads(text_of(path / ctranslate2_export.NOTES))["parity"]
    assert parity["source"] == "the sample"
    assert parity["difference"] < 1e-4

    folder = load_folder(transformer)
    translator = FolderTranslator(folder.model, folder.tokenizer, folder.settings)
    expected = translator.translate(LINES, beam=1)
    sources = [[*folder.tokenizer.source.encode(line), EOS] for line in LINES]
    exported = CTranslate2(path, ctranslate2_export.POSITIONS, None)
    results = exported.search(sources, folder.settings.search.with_values(beam=1))
    for (best, *_), translation in zip(results, expected, strict=True):
        assert folder.tokenizer.target.decode(best.ids) == translation.text
        assert best.score == pytest.approx(translation.score, abs=1e-3)

    copied = (path / "joint.model").read_bytes()
    assert copied == (transformer / "joint.model").read_bytes()

    page = Path(__file__).parents[2] / "docs" / "interchange.md"
    (code,) = re.findall(r"```python\n(.*?)```", text_of(page), re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), {})
    words = regard(f"translate {transformer} --beam 2", stdin=LINES[0]).out.split()
    assert printed.getvalue().split()[:3] == words[:3]


def test_the_default_folder_is_in_the_run(regard: Command, run: Path) -> None:
    """Search settings of the run do not disturb the comparison."""
    config = json.loads(text_of("run/config.json"))
    config["search"] |= {"groups": 3, "no_repeat_ngram": 4, "mbr": True, "seed": 7}
    Path("run/config.json").write_text(json.dumps(sealed(config)), encoding="utf-8")
    write_lines("lines", LINES)
    command = f"export run --to ctranslate2 --precision {INT8}"
    regard(f"{command} --source lines")
    notes = Path("run/exports", f"ctranslate2-{INT8}", ctranslate2_export.NOTES)
    assert json.loads(text_of(notes))["parity"]["source"] == "lines"
    regard.fails(command, status=1, because="there is something already")


def test_an_export_that_translates_differently_is_removed(
    transformer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ctranslate2_export._spec

    def spoilt(folder: ctranslate2_export.ModelFolder) -> object:
        result = spec(folder)
        bias = result.decoder.projection.bias
        bias += torch.linspace(0, 3, len(bias))
        return result

    monkeypatch.setattr(ctranslate2_export, "_spec", spoilt)
    because = "does not translate as the model does: log-probabilities differ by"
    with pytest.raises(ExportError, match=because) as result:
        ctranslate2_export.export(transformer, tmp_path / "there")
    assert len(result.value.causes) == 3
    assert "please report it" in result.value.causes[-1]
    assert files(tmp_path) == {}


def test_a_missing_library_is_named(
    regard: Command, transformer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    command = f"export {transformer} there --to ctranslate2"
    regard.fails(command, status=1, because="pip install 'regard[fast]'")
