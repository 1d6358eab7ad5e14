"""regard export --to page: one file with all it needs, checked against the model, or refused in a
sentence.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.small_models import SENTENCES, captioner_folder, folder

from regard.common.errors import ExportError
from regard.common.reading import is_runtime_file
from regard.data.languages import Languages
from regard.explain.explanation import explain
from regard.explain.live_page_export import (
    EXAMPLES,
    MEASURED,
    choose_examples,
    export_page,
    measure_trust,
)
from regard.interchange.runtime import export
from regard.model_folder import load_folder
from regard.pipeline import RuntimeTranslator, load_translator
from regard.runtime import native
from regard.runtime.engine import pack_model
from regard.runtime.engine.runtime_file import runtime_file, share_embeddings
from regard.runtime.module_script import module_script
from regard.visualisation.live_page import LiveModel, render_live_page


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> bytes:
    """Put some bytes in the place of the library for browsers."""
    path = tmp_path / "lib" / "wasm" / "regard.wasm"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\0asm" + native.hash_of_sources().encode())
    monkeypatch.setattr(native, "FOLDER_OF_LIBRARIES", tmp_path / "lib")
    return path.read_bytes()


def files_of(page: str) -> list[bytes]:
    parts = re.findall(r'<script type="text/plain" class="file">([^<]*)</script>', page)
    return [gzip.decompress(base64.b64decode(part)) for part in parts]


def models_of(page: str) -> list[dict[str, Any]]:
    (data,) = re.findall(
        '<script type="application/json" id="data">(.*?)</script>',
        page,
        re.S,
    )
    models: list[dict[str, Any]] = json.loads(data)["models"]
    return models


def test_a_page_holds_library_models_and_cards(built: bytes, tmp_path: Path) -> None:
    run = folder(tmp_path / "run", end=0.5, languages=("ko", "en"))
    out = tmp_path / "page.html"
    (run / "README.md").write_text("# </script> A card")
    back = folder(tmp_path / "back", "recurrent", "recurrent", end=0.5)
    given = Languages(source="ko", target="fr")
    parity, _ = export_page([run, back], out, languages=given)

    assert parity.mismatches["tokenisation"] == 0

    page = out.read_text("utf-8")
    wasm, first, second = files_of(page)

    assert wasm == built

    for content in (first, second):
        (tmp_path / "model.regard").write_bytes(content)
        assert is_runtime_file(tmp_path / "model.regard")

    models = models_of(page)

    assert [model["languages"] for model in models] == [["ko", "fr"], ["fr", "ko"]]
    assert "fr → ko" in str(models[1]["facts"])
    assert models[0]["readme"] == "# </script> A card"
    assert 1 < len(set(models[0]["examples"])) == len(models[0]["examples"]) <= EXAMPLES

    trust = models[0]["trust"]

    assert 0 < trust["sentences"] <= MEASURED
    assert [*dict(trust["agreement"])] == ["gradient × input", "word erasure"]
    assert list(tmp_path.glob("*.part")) == []


def test_examples_are_of_all_lengths() -> None:
    lines = ["c c", *("x" * n for n in (5, 1, 3, 4, 2, 500)), "c c"]

    assert choose_examples(lines, 4) == ("c c", "x", "xx", "xxxx")
    assert choose_examples(lines, 1) == ("c c",)
    assert choose_examples(["x" * 500], 5) == ()
    assert choose_examples(["a", "b"], 5) == ("a", "b")


def test_trust_is_the_mean_of_what_explanations_measure(tmp_path: Path) -> None:
    path = folder(tmp_path / "run", end=0.5)
    trust = measure_trust(path, [*SENTENCES, "x" * 1000])

    assert trust is not None

    translator = load_translator(path)
    pairs = []
    for sentence in SENTENCES:
        attributions = explain(translator, sentence).data.attributions
        assert attributions is not None
        pairs.append(attributions.agreement)

    assert trust.sentences == len(pairs) == len(SENTENCES)
    assert list(trust.agreement.values()) == pytest.approx(np.nanmean(pairs, axis=0))
    assert measure_trust(path, []) is None

    other = folder(tmp_path / "other", "recurrent", "no_attention", end=0.5)

    assert measure_trust(other, SENTENCES) is None, "it has no attention to trust"


def test_a_page_requests_nothing() -> None:
    page = render_live_page([LiveModel(b"model")], b"library", module_script())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)

    assert policy
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    assert page == render_live_page(
        [LiveModel(b"model")], b"library", module_script()
    ), "the same bytes each time"

    script = page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")

    assert not re.search("https?:|localStorage|sessionStorage|indexedDB|cookie", script)


def test_the_library_for_browsers_is_needed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    run = folder(tmp_path / "run")
    monkeypatch.setattr(native, "FOLDER_OF_LIBRARIES", tmp_path)
    commands = r"`pip install -e '.\[build\]' && python tools/build_library.py wasm`"

    with pytest.raises(ExportError, match=f"in the folder of the source: {commands}"):
        export_page([run], tmp_path / "page.html")

    (tmp_path / "wasm").mkdir()
    (tmp_path / "wasm" / "regard.wasm").write_bytes(b"\0asm of older sources")
    message = f"from other sources of the library; build it again: {commands}"

    with pytest.raises(ExportError, match=message):
        export_page([run], tmp_path / "page.html")


def test_captioners_are_refused(built: bytes, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="reads images"):
        export_page([captioner_folder(tmp_path / "captioner")], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_tied_embeddings_are_read_from_the_packed_output(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", end=0.5)
    sizes = []
    scores = []
    for embeddings in ("table", "packed"):
        out = tmp_path / f"{embeddings}.regard"
        parity = export(run, out, "int8", None, embeddings)  # type: ignore[arg-type]

        assert parity.mismatches["tokenisation"] == 0

        sizes.append(out.stat().st_size)
        translations = RuntimeTranslator(out, threads=1).translate(SENTENCES, beam=1)
        scores.append([line.score for line in translations])

    table = load_folder(run).model.decoder.embedding.weight

    assert scores[0] == pytest.approx(scores[1], rel=0.05)
    assert sizes[0] - sizes[1] >= table.numel() * 4


def test_embeddings_that_are_not_tied_stay_as_they_are(tmp_path: Path) -> None:
    model = load_folder(folder(tmp_path / "run", "recurrent", "recurrent"))
    for side in (model.model.encoder, model.model.decoder):
        side.embedding.weight = torch.nn.Parameter(
            side.embedding.weight.detach().flip(0).clone()
        )  # type: ignore[union-attr]

    packed = pack_model(model.model, "int8")
    before = runtime_file(model, packed, None, {})

    assert not share_embeddings(packed)
    assert runtime_file(model, packed, None, {}) == before


def test_the_command_line_writes_a_page(
    wasm: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from regard.cli import main

    def export_by_command(*arguments: object) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as ended:
            main(["export", *map(str, arguments), "--threads=1"])
        return ended.value.code, capsys.readouterr().err

    run = folder(tmp_path / "run", end=0.5, languages=("ko", "en"))
    default = run / "exports" / "translator.html"
    named = tmp_path / "a.html"
    for arguments, out in (([], default), ([run, named], named)):
        code, message = export_by_command(run, *arguments, "--to=page")

        assert code == 0
        assert f"wrote {out}" in message

        page = out.read_text("utf-8")
        library, *models = files_of(page)

        assert models_of(page)[0]["languages"] == ["ko", "en"]
        assert library == wasm.read_bytes()
        assert len(models) == max(1, len(arguments))

    _, message = export_by_command(run, "--to=page", "--precision=float32")

    assert "a page has int8 weights" in message

    _, message = export_by_command(run, run, named, "--to=runtime")

    assert "wanted RUN [OUT], got 2 paths" in message
