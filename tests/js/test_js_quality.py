"""The quality of translations is the same in a folder, a runtime file and JavaScript."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.calibrated_model import calibrated
from helpers.small_models import SENTENCES
from js.test_module import run

import regard
from regard.common.errors import ModelFolderError
from regard.interchange.runtime import export
from regard.text.quality import DOUBTFUL


def test_folder_file_and_node_tell_the_same(
    tmp_path: Path, node: str, wasm: Path
) -> None:
    model = calibrated(tmp_path / "run")
    file = tmp_path / "model.regard"
    export(model, file, precision="float32")
    lines = [*SENTENCES, "나는 {a} 집에 간다", "12"]
    in_folder = regard.load(model).translate(lines)
    in_file = regard.load(file).translate(lines)
    by_folder = [result.quality for result in in_folder]
    by_file = [result.quality for result in in_file]
    answers = run(node, wasm, file, lines=lines, options={})["answers"]
    assert by_folder[-1] == 1.0
    assert by_file == pytest.approx(by_folder, abs=1e-4)
    assert [answer["quality"] for answer in answers] == pytest.approx(by_file, abs=1e-4)
    doubtful = [
        any(part.quality < DOUBTFUL for part in result.parts) for result in in_file
    ]
    assert len({*doubtful}) == 2
    assert [answer["doubtful"] for answer in answers] == doubtful
    for results in (in_folder, in_file):
        assert [result.doubtful for result in results] == doubtful
    other = regard.load(file).translate(lines[0], length_penalty=0.5)
    assert other[0].quality is None, "scores of another search cannot be compared"


def test_a_damaged_calibration_of_a_file_is_named(tmp_path: Path) -> None:
    model = calibrated(tmp_path / "run")
    file = tmp_path / "model.regard"
    export(model, file, precision="float32")
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"pairs": 300', b'"pairs": -30'))
    with pytest.raises(ModelFolderError):
        regard.load(file)
