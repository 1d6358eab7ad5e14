"""Payloads in every file of exports and of Hugging Face's folders: none is executed, whoever reads
the folder.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.cached_folders import FolderCache
from helpers.payloads import ALL_FORMS, FORMS, MARKER, Payload
from helpers.system_marks import posix

pytest.importorskip(
    "resource", reason="commands run in forked processes, as on Linux and macOS"
)
pytest.importorskip("ctranslate2", reason="regard[fast] is not installed")
from fuzz import fuzzer
from fuzz.cases import Case, Judge
from fuzz.material import Material

pytestmark = [pytest.mark.system, posix]
LINES = "나는 빵을 먹고 있었다\n그는 학교에 간다\n".encode()
IMPORT = ["import", "huggingface", "marian", "out", "--threads=1"]
OUTPUTS = ["out/config.json", "out/model.safetensors"]
CODE = ("pytorch_model.bin", "modeling_marian.py", "__init__.py", "training_args.bin")
"""Names of files that other toolkits unpickle or import; nothing here reads them, unless there are
no other weights.
"""


@pytest.fixture(scope="module")
def material(cached: FolderCache) -> Material:
    return fuzzer.material(cached.in_process("fuzz", fuzzer.material))


@pytest.fixture(scope="module")
def judge(
    material: Material, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judge]:
    folder = tmp_path_factory.mktemp("hostile")
    yield Judge(material, folder)
    assert not (folder / MARKER).exists(), "a payload was executed"


def verdicts(judge: Judge, files: list[str], forms: list[str]) -> dict[str, str]:
    """Import the folder once for each file that holds the payload, in one of the forms in turn;
    return the ends by file.
    """
    results = {}
    for file, form in zip(files, itertools.cycle(forms), strict=False):

        def prepare(folder: Path, file: str = file, form: str = form) -> None:
            judge.material.copy(folder, "marian")
            (folder / file).write_bytes(FORMS[form](Payload(judge.folder / MARKER)))

        reference = f"marian:{' '.join(IMPORT)}"
        result = judge(
            Case(f"{file} {form}", IMPORT, prepare, LINES, reference, OUTPUTS)
        )
        assert not (judge.folder / MARKER).exists(), f"{file}: the payload was executed"
        results[file] = result.verdict

    return results


@pytest.mark.parametrize("forms", ALL_FORMS)
def test_no_file_of_a_marian_folder_is_executed(judge: Judge, forms: list[str]) -> None:
    results = verdicts(judge, judge.material.files("marian"), forms)
    assert set(results.values()) == {"refused"}, results
    results = verdicts(judge, [f"marian/{name}" for name in CODE], forms)
    assert set(results.values()) == {"unchanged"}, results


@pytest.mark.parametrize("forms", ALL_FORMS)
def test_weights_of_pytorch_that_are_a_payload_are_refused(
    judge: Judge, forms: list[str]
) -> None:
    for form in forms:

        def prepare(folder: Path, form: str = form) -> None:
            judge.material.copy(folder, "marian")
            (folder / "marian/model.safetensors").unlink()
            payload = FORMS[form](Payload(judge.folder / MARKER))
            (folder / "marian/pytorch_model.bin").write_bytes(payload)

        result = judge(Case(form, IMPORT, prepare))
        assert result.verdict == "refused", result.outcome.err
        sentence = "pytorch_model.bin: damaged, or not a file of tensors alone"
        assert sentence in result.outcome.err


def test_code_that_a_configuration_names_is_not_executed(judge: Judge) -> None:
    """Hugging Face imports the modules of `auto_map` if it is told to trust them."""
    classes = ("AutoConfig", "AutoModel", "AutoTokenizer")

    def prepare(folder: Path) -> None:
        judge.material.copy(folder, "marian")
        for name in ("config.json", "tokenizer_config.json"):
            path = folder / "marian" / name
            values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            values["auto_map"] = dict.fromkeys(classes, "modeling_marian.Model")
            path.write_text(json.dumps(values), encoding="utf-8")

        code = Payload(judge.folder / MARKER).source
        (folder / "marian/modeling_marian.py").write_text(code, encoding="utf-8")

    result = judge(Case("auto_map", IMPORT, prepare))
    assert result.verdict == "aloud", result.outcome.err
    assert not (judge.folder / MARKER).exists()
