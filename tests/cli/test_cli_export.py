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
    done = regard(f"export {transformer} there --to ctranslate2 --threads 1")
    assert (
        f"compared on {probe_sentences.MAX_SENTENCES} sentences of the sample"
        in done.err
    )
    assert "different: 0 by greedy search, " in done.err
    assert "wrote there" in done.err
    assert done.out == ""

    notes = json.loads(text_of(Path("there") / ctranslate2_export.NOTES))
    assert notes["parity"]["source"] == "the sample"
    assert notes["parity"]["difference"] < 1e-4

    folder = load_folder(transformer)
    translator = FolderTranslator(folder.model, folder.tokenizer, folder.settings)
    expected = translator.translate(LINES, beam=1)
    sources = [[*folder.tokenizer.source.encode(line), EOS] for line in LINES]
    exported = CTranslate2(Path("there"), ctranslate2_export.POSITIONS, None)
    results = exported.search(sources, folder.settings.search.with_values(beam=1))
    for (best, *_), translation in zip(results, expected, strict=True):
        assert folder.tokenizer.target.decode(best.ids) == translation.text
        assert best.score == pytest.approx(translation.score, abs=1e-3)

    copied = Path("there/joint.model").read_bytes()
    assert copied == (transformer / "joint.model").read_bytes()


def test_the_python_of_the_page_runs(regard: Command, transformer: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "interchange.md"
    (code,) = re.findall(r"```python\n(.*?)```", text_of(page), re.DOTALL)
    write_lines("lines", LINES)
    regard(f"export {transformer} first-int8 --to ctranslate2 --source lines")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), {})

    expected = regard(f"translate {transformer} --beam 2", stdin=LINES[0]).out
    assert printed.getvalue().split()[:3] == expected.split()[:3]


def test_the_default_folder_is_in_the_run(regard: Command, run: Path) -> None:
    """Without its data the run is compared on the sample, whatever its search settings are."""
    config = json.loads(text_of("run/config.json"))
    config["search"] |= {"groups": 3, "no_repeat_ngram": 4, "mbr": True, "seed": 7}
    Path("run/config.json").write_text(json.dumps(sealed(config)), encoding="utf-8")
    Path("run/train.toml").unlink()
    done = regard("export run there --to ctranslate2")
    assert f"{probe_sentences.MAX_SENTENCES} sentences of the sample" in done.err

    write_lines("lines", LINES)
    command = f"export run --to ctranslate2 --precision {INT8}"
    regard(f"{command} --source lines")
    notes = json.loads(
        text_of(Path("run/exports", f"ctranslate2-{INT8}", ctranslate2_export.NOTES))
    )
    assert notes["parity"]["source"] == "lines"
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


def test_what_cannot_be_exported_is_refused(
    regard: Command, transformer: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    causes = [
        f"model.{side}.kind is 'recurrent': CTranslate2"
        for side in ("encoder", "decoder")
    ]
    regard.fails(f"export {other} there --to ctranslate2", status=1, because=causes)

    write_lines("empty", ["", ""])
    for command, because in (
        ("nowhere there", "nowhere: no such folder"),
        (f"{transformer} there --source no.ko", "no.ko"),
        (f"{transformer} there --source empty", "every line is empty"),
    ):
        regard.fails(f"export {command} --to ctranslate2", status=1, because=because)

    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    because = "pip install 'regard[fast]'"
    regard.fails(
        f"export {transformer} there --to ctranslate2", status=1, because=because
    )
