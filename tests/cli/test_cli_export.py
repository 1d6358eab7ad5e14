"""regard export: models for other toolkits, written only if they translate like the original."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from command import Command, files

from regard.data.vocabulary import EOS
from regard.errors import ExportError, ModelFolderError, UsageError
from regard.model_folder import WEIGHTS, load_folder, load_tensors, save_weights
from regard.pipeline import Translator
from regard.seal import sealed

pytest.importorskip("ctranslate2", reason="regard[fast] is not installed")

from regard.engine import Engine
from regard.engine.ctranslate2 import NOTES, CTranslate2, export_folder, up_to_date
from regard.interchange import ctranslate2, probe_sentences


def _has_vnni() -> bool:
    """Return whether int8 products are exact: without VNNI, CTranslate2's int8 products saturate at 16 bits."""
    path = Path("/proc/cpuinfo")
    return not path.exists() or "vnni" in path.read_text(encoding="utf-8")


INT8: ctranslate2.Precision = "int8" if _has_vnni() else "float32"

LINES = ["나는 집에 간다", "나는 빵을 먹고 있었다", "너는 책을 읽는다"]


def test_an_export_translates_like_the_run(regard: Command, transformer: Path) -> None:
    done = regard("export", transformer, "there", "--to", "ctranslate2", "--threads", "1")
    assert f"compared on {probe_sentences.MAX_SENTENCES} sentences of the sample" in done.err
    assert "different: 0 by greedy search, " in done.err
    assert "wrote there" in done.err
    assert done.out == ""
    notes = json.loads((Path("there") / NOTES).read_text(encoding="utf-8"))
    assert notes["parity"]["source"] == "the sample"
    assert notes["parity"]["difference"] < 1e-4
    folder = load_folder(transformer)
    native = Translator(folder.model, folder.tokenizer, folder.settings).translate(LINES, beam=1)
    sources = [[*folder.tokenizer.source.encode(line), EOS] for line in LINES]
    result = CTranslate2("there", threads=1).search(sources, folder.settings.search.with_values(beam=1))
    assert [folder.tokenizer.target.decode(hypotheses[0].ids) for hypotheses in result] == [
        translation.text for translation in native
    ]
    assert [hypotheses[0].score for hypotheses in result] == pytest.approx(
        [translation.score for translation in native], abs=1e-3
    )
    assert (Path("there") / "joint.model").read_bytes() == (transformer / "joint.model").read_bytes()


def test_the_default_folder_is_in_the_run_and_follows_its_weights(regard: Command, transformer: Path) -> None:
    shutil.copytree(transformer, "run")
    before = (Path("run") / WEIGHTS).read_bytes()
    regard("export", "run", "--to", "ctranslate2", "--precision", INT8, "--source", _write_lines("lines.ko"))
    folder = Path("run/exports/ctranslate2-" + INT8)
    assert export_folder(Path("run"), INT8) == folder
    assert (Path("run") / WEIGHTS).read_bytes() == before
    assert json.loads((folder / NOTES).read_text(encoding="utf-8"))["parity"]["source"] == "lines.ko"
    assert up_to_date(folder, Path("run"))
    weights = load_tensors(Path("run") / WEIGHTS)
    save_weights(Path("run"), {name: tensor * 1.01 for name, tensor in weights.items()})
    assert not up_to_date(folder, Path("run")), "the weights have changed"
    regard.fails(
        "export", "run", "--to", "ctranslate2", "--precision", INT8, status=1, because="there is something already"
    )


@pytest.mark.parametrize("more", [{"no_repeat_ngram": 4}, {"groups": 2, "beam": 4}, {"mbr": True}, {"seed": 7}])
def test_export_does_not_depend_on_search_settings(transformer: Path, tmp_path: Path, more: dict[str, object]) -> None:
    run = Path(shutil.copytree(transformer, tmp_path / "run"))
    config = json.loads((run / "config.json").read_text())
    config["search"] |= more
    (run / "config.json").write_text(json.dumps(sealed(config)))
    assert (ctranslate2.export(run, tmp_path / "there"), (tmp_path / "there" / "model.bin").exists())[1]


@pytest.mark.parametrize("name", ["model.bin", NOTES, "config.json"])
def test_a_damaged_export_is_refused_or_passed_over_aloud(regard: Command, transformer: Path, name: str) -> None:
    shutil.copytree(transformer, "run")
    regard("export", "run", "--to", "ctranslate2", "--threads", "1")
    path = export_folder(Path("run"), "float32") / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(ModelFolderError, match=f"{name} is damaged or changed|not a complete CTranslate2 export"):
        CTranslate2(path.parent)
    arguments = ["translate", "run", _write_lines("lines"), "--threads", "1"]
    done = regard.ended(*arguments, "--engine", "ctranslate2")
    assert (done.status, done.out) == (1, "")
    assert "write it again with regard export" in done.causes[0]
    (warning,) = regard(*arguments).warnings
    assert str(path.parent) in warning


def test_a_seed_changes_nothing_without_sampling(regard: Command, transformer: Path) -> None:
    shutil.copytree(transformer, "run")
    regard("export", "run", "--to", "ctranslate2", "--threads", "1")
    arguments = ["translate", "run", _write_lines("lines"), "--engine", "ctranslate2", "--threads", "1"]
    assert regard(*arguments, "--seed", 7).out == regard(*arguments).out


def test_an_export_is_not_used_on_another_device(
    transformer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.pipeline import load

    run = Path(shutil.copytree(transformer, tmp_path / "run"))
    _export(run, "float32")
    model = load(run).model
    assert Engine(model, "auto", folder=run)._ct2 is not None
    monkeypatch.setattr(type(model), "device", torch.device("cuda"))
    assert Engine(model, "auto", folder=run)._ct2 is None


def test_without_its_data_a_run_is_compared_on_the_sample(regard: Command, transformer: Path) -> None:
    shutil.copytree(transformer, "run")
    (Path("run") / "train.toml").unlink()
    assert (
        f"{probe_sentences.MAX_SENTENCES} sentences of the sample"
        in regard("export", "run", "there", "--to", "ctranslate2").err
    )


def test_an_export_that_translates_differently_is_removed(
    transformer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ctranslate2._spec

    def spoilt(folder: ctranslate2.ModelFolder) -> object:
        result = spec(folder)
        result.decoder.projection.bias += torch.linspace(0, 3, len(result.decoder.projection.bias))
        return result

    monkeypatch.setattr(ctranslate2, "_spec", spoilt)
    with pytest.raises(
        ExportError, match="does not translate as the model does: log-probabilities differ by"
    ) as result:
        ctranslate2.export(transformer, tmp_path / "there")
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
    regard.fails("export", transformer, "there", "--source", "empty.ko", status=1, because="every line is empty")


def test_without_the_extra_the_install_command_is_printed(
    regard: Command, transformer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    regard.fails("export", transformer, "there", "--to", "ctranslate2", status=1, because="pip install 'regard[fast]'")


def _export(run: Path, precision: ctranslate2.Precision) -> None:
    """Export a model folder to its default export folder."""
    ctranslate2.export(run, export_folder(run, precision), precision)


def _write_lines(name: str) -> str:
    Path(name).write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return name


def test_the_ctranslate2_engine_translates_like_the_native_one(
    regard: Command, transformer: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(transformer, run)
    lines = tmp_path / "lines"
    lines.write_text("\n".join(LINES), encoding="utf-8")
    arguments = ("translate", run, lines, "--engine", "ctranslate2", "--threads", "1")
    regard.fails(*arguments, status=2, because=f"regard export {run} --to ctranslate2 --precision float32")
    regard("export", run, "--to", "ctranslate2", "--threads", "1")
    native = regard(
        "translate", run, lines, "--engine", "native", "--threads", "1", "--alignments", "--format", "jsonl"
    )
    result = regard(*arguments, "--alignments", "--format", "jsonl")
    for native_row, exported_row in zip(map(json.loads, native.lines), map(json.loads, result.lines), strict=True):
        assert native_row.pop("score") == pytest.approx(exported_row.pop("score"), abs=1e-4)
        for part, exported_part in zip(native_row["parts"], exported_row["parts"], strict=True):
            assert part.pop("score") == pytest.approx(exported_part.pop("score"), abs=1e-4)
        assert native_row == exported_row
    regard.fails(*arguments, "--sample", status=2, because="search.sample")
    regard.fails(*arguments, "--forbid", "house", status=2, because="forbidden words")
    report = regard(
        "evaluate", run, "--source", lines, "--reference", lines, "--engine", "ctranslate2", "--format", "json"
    )
    assert json.loads(report.out)["engine"] == "CTranslate2, float32"


def test_auto_uses_the_export_if_it_is_faster(
    transformer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.engine import engine
    from regard.pipeline import load

    run = tmp_path / "run"
    shutil.copytree(transformer, run)
    _export(run, "float32")
    lines = LINES * engine.CT2_BATCH
    expected = [translation.text for translation in load(run, engine="native").translate(lines)]
    called: list[bool] = []
    original = engine._decode_by_ct2
    monkeypatch.setattr(engine, "_decode_by_ct2", lambda *arguments: called.append(True) or original(*arguments))
    for faster in (False, True):
        monkeypatch.setattr(engine, "cached", lambda *_, faster=faster: faster)
        called.clear()
        assert [translation.text for translation in load(run).translate(lines)] == expected
        assert bool(called) == faster
    monkeypatch.setattr(engine, "why_not_packed", lambda _: "this is a test")
    assert load(run).engine.describe() == "CTranslate2, float32"
    if INT8 != "int8":
        pytest.skip("without VNNI the int8 products of CTranslate2 differ too much, and the export is refused")
    _export(run, "int8")
    small = load(run, precision="int8")
    assert small.translate(LINES[0])[0].text
    with pytest.raises(UsageError, match="precision int8 needs the native kernels, and this is a test"):
        small.translate(LINES[0], no_repeat_ngram=4)  # CTranslate2 cannot, and the model itself computes in float32
