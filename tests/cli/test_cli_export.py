"""regard export: models for other toolkits, written only if they translate like the original."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from broad import broad
from command import Command, files

from regard.common.checksums import sealed
from regard.common.errors import ExportError
from regard.data.vocabulary import EOS
from regard.model_folder import WEIGHTS, load_folder
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
    done = regard("export", transformer, "there", "--to", "ctranslate2", "--threads", "1")
    assert f"compared on {probe_sentences.MAX_SENTENCES} sentences of the sample" in done.err
    assert "different: 0 by greedy search, " in done.err
    assert "wrote there" in done.err
    assert done.out == ""
    notes = json.loads((Path("there") / ctranslate2_export.NOTES).read_text(encoding="utf-8"))
    assert notes["parity"]["source"] == "the sample"
    assert notes["parity"]["difference"] < 1e-4
    folder = load_folder(transformer)
    native = FolderTranslator(folder.model, folder.tokenizer, folder.settings).translate(
        LINES, beam=1
    )
    sources = [[*folder.tokenizer.source.encode(line), EOS] for line in LINES]
    result = CTranslate2(Path("there"), ctranslate2_export.POSITIONS, None).search(
        sources, folder.settings.search.with_values(beam=1)
    )
    assert [folder.tokenizer.target.decode(hypotheses[0].ids) for hypotheses in result] == [
        translation.text for translation in native
    ]
    assert [hypotheses[0].score for hypotheses in result] == pytest.approx(
        [translation.score for translation in native], abs=1e-3
    )
    assert (Path("there") / "joint.model").read_bytes() == (
        transformer / "joint.model"
    ).read_bytes()


def test_the_python_of_the_page_runs(regard: Command, transformer: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "interchange.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    regard(
        "export",
        transformer,
        "first-int8",
        "--to",
        "ctranslate2",
        "--source",
        _write_lines("lines.ko"),
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), {})
    expected = regard(
        "translate", transformer, "--beam", "2", stdin="나는 집에 간다\n".encode()
    ).out
    assert printed.getvalue().split()[:3] == expected.split()[:3]


def test_the_default_folder_is_in_the_run(regard: Command, transformer: Path) -> None:
    shutil.copytree(transformer, "run")
    before = (Path("run") / WEIGHTS).read_bytes()
    regard(
        "export",
        "run",
        "--to",
        "ctranslate2",
        "--precision",
        INT8,
        "--source",
        _write_lines("lines.ko"),
    )
    folder = Path("run/exports/ctranslate2-" + INT8)
    assert (Path("run") / WEIGHTS).read_bytes() == before
    assert (
        json.loads((folder / ctranslate2_export.NOTES).read_text(encoding="utf-8"))["parity"][
            "source"
        ]
        == "lines.ko"
    )
    regard.fails(
        "export",
        "run",
        "--to",
        "ctranslate2",
        "--precision",
        INT8,
        status=1,
        because="there is something already",
    )


@pytest.mark.parametrize(
    "more", broad([{"groups": 2, "beam": 4}, {"no_repeat_ngram": 4}, {"mbr": True}, {"seed": 7}])
)
def test_export_does_not_depend_on_search_settings(
    transformer: Path, tmp_path: Path, more: dict[str, object]
) -> None:
    run = Path(shutil.copytree(transformer, tmp_path / "run"))
    config = json.loads((run / "config.json").read_text())
    config["search"] |= more
    (run / "config.json").write_text(json.dumps(sealed(config)))
    assert (
        ctranslate2_export.export(run, tmp_path / "there"),
        (tmp_path / "there" / "model.bin").exists(),
    )[1]


def test_without_its_data_a_run_is_compared_on_the_sample(
    regard: Command, transformer: Path
) -> None:
    shutil.copytree(transformer, "run")
    (Path("run") / "train.toml").unlink()
    assert (
        f"{probe_sentences.MAX_SENTENCES} sentences of the sample"
        in regard("export", "run", "there", "--to", "ctranslate2").err
    )


def test_an_export_that_translates_differently_is_removed(
    transformer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ctranslate2_export._spec

    def spoilt(folder: ctranslate2_export.ModelFolder) -> object:
        result = spec(folder)
        result.decoder.projection.bias += torch.linspace(0, 3, len(result.decoder.projection.bias))
        return result

    monkeypatch.setattr(ctranslate2_export, "_spec", spoilt)
    with pytest.raises(
        ExportError, match="does not translate as the model does: log-probabilities differ by"
    ) as result:
        ctranslate2_export.export(transformer, tmp_path / "there")
    assert len(result.value.causes) == 3
    assert "please report it" in result.value.causes[-1]
    assert files(tmp_path) == {}


def test_unsupported_models_are_refused_with_all_reasons(regard: Command, recurrent: Path) -> None:
    because = [
        "model.encoder.kind is 'recurrent': CTranslate2 supports",
        "model.decoder.kind is 'recurrent': CTranslate2",
    ]
    regard.fails("export", recurrent, "there", "--to", "ctranslate2", status=1, because=because)


def test_missing_and_empty_files_are_named(regard: Command, transformer: Path) -> None:
    regard.fails("export", "nowhere", "there", status=1, because="nowhere: no such folder")
    regard.fails("export", transformer, "there", "--source", "no.ko", status=1, because="no.ko")
    Path("empty.ko").write_text("\n\n")
    regard.fails(
        "export",
        transformer,
        "there",
        "--source",
        "empty.ko",
        status=1,
        because="every line is empty",
    )


def test_without_the_extra_the_install_command_is_printed(
    regard: Command, transformer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    regard.fails(
        "export",
        transformer,
        "there",
        "--to",
        "ctranslate2",
        status=1,
        because="pip install 'regard[fast]'",
    )


def _write_lines(name: str) -> str:
    Path(name).write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return name
