"""The languages of a model: from recipe and file names into folder, card and exports, and what
recognises them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.image_folders import folder as write_album
from helpers.small_models import SENTENCES, folder

import regard
from regard.cli import main
from regard.common.checksums import fingerprints
from regard.common.errors import ModelFolderError, RegardError
from regard.data.language_id import LanguageId
from regard.data.languages import Languages
from regard.interchange.runtime import export
from regard.model_folder import (
    CONFIG,
    LANGUAGES,
    check_folder,
    folder_languages,
    load_language_id,
    model_fingerprint,
    save_language_id,
    seal_folder,
)
from regard.pipeline import RuntimeTranslator
from regard.training.recipe import read_run_recipe

pytestmark = pytest.mark.system  # trains models

SETTINGS: dict[str, Any] = {
    "model.encoder.layers": 1,
    "model.decoder.layers": 1,
    "training.updates": 2,
    "training.validate_every": 2,
    "training.validate_with": 2,
}
KOREAN = [line for line in SENTENCES if not line.isascii()]
ENGLISH = [line for line in SENTENCES if line.isascii()]


def _write(path: Path, lines: list[str], times: int = 15) -> Path:
    path.write_text(
        "".join(f"{line} {n}\n" for n in range(times) for line in lines),
        encoding="utf-8",
    )
    return path


def test_the_example_of_the_training_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[1] / "docs" / "training.md"
    blocks = re.findall(
        r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
    (code,) = (block for block in blocks if "folder_languages" in block)
    for name, pair in (("python", ("ko", "en")), ("de-en", ("de", "en"))):
        run = folder(tmp_path / "runs" / name, languages=pair)
        save_language_id(
            run, LanguageId.learn({pair[0]: KOREAN * 20, pair[1]: ENGLISH * 20})
        )
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), names)

    assert capsys.readouterr().out.startswith("('ko', 'en')\n[('ko', 0.")
    assert sorted(names["together"].profiles) == ["de", "en", "ko"]


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Path]:
    return {
        "source": _write(tmp_path / "train.ko", KOREAN),
        "target": _write(tmp_path / "train.en", ENGLISH),
    }


def _train(out: Path, **arguments: Any) -> regard.Run:
    settings = {**SETTINGS, **arguments.pop("settings", {})}
    return regard.train(out=out, settings=settings, threads=1, **arguments)


def test_a_run_knows_the_languages_of_its_files(
    data: dict[str, Path], tmp_path: Path
) -> None:
    messages: list[str] = []
    run = _train(
        tmp_path / "run",
        **data,
        report=lambda _, values: messages.append(str(values.get("text"))),
    ).folder

    assert folder_languages(run).pair == ("ko", "en")
    assert any(message.startswith("languages: ko → en") for message in messages)

    recipe = read_run_recipe(run / "train.toml")["data"]
    assert (recipe["source_language"], recipe["target_language"]) == ("ko", "en")
    assert "- Languages: ko → en." in (run / "README.md").read_text("utf-8")

    language_id = load_language_id(run)
    assert language_id is not None
    assert sorted(language_id.profiles) == ["en", "ko"]
    assert language_id.detect("나는 집에 간다")[0][0] == "ko"
    assert language_id.detect("I go home")[0][0] == "en"

    problems = check_folder(run)
    assert LANGUAGES in problems
    assert not any(problems.values())
    assert LANGUAGES not in fingerprints(run), "it changes no translation"


def test_given_languages_hold_and_stay(data: dict[str, Path], tmp_path: Path) -> None:
    messages: list[str] = []

    def listen(_: str, values: Any) -> None:
        messages.append(str(values.get("text")))

    run = _train(
        tmp_path / "run", **data, languages="kor_Hang,en-GB", report=listen
    ).folder

    assert folder_languages(run).pair == ("ko", "en-GB")
    assert "language kor_Hang: kept as ko (Korean)" in messages

    before = (run / LANGUAGES).read_bytes()
    messages.clear()
    longer = {"training.updates": 3}
    regard.train(out=run, resume=True, settings=longer, threads=1, report=listen)

    assert not any("_language was" in message for message in messages)

    regard.train(out=run, resume=True, languages="de,en-GB", threads=1, report=listen)
    kept = "data.source_language was 'ko' and is 'de' now: 'ko' holds"

    assert any(kept in message for message in messages)
    assert (run / LANGUAGES).read_bytes() == before
    assert folder_languages(run).pair == ("ko", "en-GB")

    child = _train(tmp_path / "child", parent=run, pairs=_pairs(tmp_path)).folder
    assert folder_languages(child).pair == ("ko", "en-GB"), "for want of better names"


def _pairs(folder: Path) -> Path:
    path = folder / "pairs.tsv"
    rows = [
        f"{a} {n}\t{b} {n}"
        for n in range(15)
        for a, b in zip(KOREAN, ENGLISH, strict=True)
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_unknown_languages_are_not_learnt(tmp_path: Path) -> None:
    messages: list[str] = []
    run = _train(
        tmp_path / "run",
        pairs=_pairs(tmp_path),
        report=lambda _, values: messages.append(str(values.get("text"))),
    ).folder

    assert any(
        text.startswith("languages unknown (? → ?): name them") for text in messages
    )
    assert folder_languages(run) == Languages()
    assert "- Languages: unknown → unknown." in (run / "README.md").read_text("utf-8")
    assert load_language_id(run) is None

    export(run, tmp_path / "model.regard")
    translator = RuntimeTranslator(tmp_path / "model.regard")

    assert (translator.languages, translator.language_id) == (Languages(), None)


def test_captions_have_one_language(tmp_path: Path) -> None:
    album = write_album(tmp_path / "album")
    captioner = {
        "model.encoder": {"kind": "resnet", "depths": [1, 1], "width": 4, "size": 16},
        "model.decoder": {"kind": "recurrent", "size": 16, "embedding": 16},
        "data.images.height": 16,
        "data.images.width": 16,
    }
    settings = {
        key: value for key, value in SETTINGS.items() if not key.endswith(".layers")
    }
    run = regard.train(
        out=tmp_path / "run",
        images=album / "images",
        captions=album / "captions.tsv",
        valid_captions=album / "valid.tsv",
        languages="en",
        settings={**settings, **captioner},
        threads=1,
    )

    assert folder_languages(run.folder).pair == ("", "en")
    assert "- Language of the captions: en." in (run.folder / "README.md").read_text(
        "utf-8"
    )
    assert [*(load_language_id(run.folder) or LanguageId({})).profiles] == ["en"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"languages": "ko"}, "`languages=`: wanted codes of source and target"),
        ({"languages": "ko,Elvish"}, "wanted a language code .* got 'Elvish'"),
        ({"languages": "ko,jp"}, "jp is not a code of ISO 639; did you mean ja"),
        (
            {"settings": {"data.target_language": "E"}},
            "target_language: wanted a language code",
        ),
    ],
)
def test_other_codes_are_refused(
    data: dict[str, Path], tmp_path: Path, arguments: Any, message: str
) -> None:
    with pytest.raises(RegardError, match=message):
        _train(tmp_path / "run", **data, **arguments)
    assert not (tmp_path / "run").exists()


# --- folders


@pytest.fixture
def known(tmp_path: Path) -> Path:
    run = folder(tmp_path / "known", end=0.5, languages=("ko", "en"))
    save_language_id(run, LanguageId.learn({"ko": KOREAN * 20, "en": ENGLISH * 20}))
    return run


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes().replace(b"nats", b"nots")),
        lambda path: path.write_bytes(b" " * 9_000_000),
        lambda path: path.write_text(LanguageId({}).to_json("another model")),
    ],
)
def test_a_damaged_file_is_reported_and_ignored(known: Path, damage: Any) -> None:
    damage(known / LANGUAGES)
    with pytest.warns(
        UserWarning, match=r"languages.json: damaged \(.*\) and not used"
    ):
        assert load_language_id(known) is None
    assert [name for name, problem in check_folder(known).items() if problem] == [
        LANGUAGES
    ]
    assert regard.load(known).translate("I go home")


def test_a_link_that_leads_out_is_refused(known: Path, tmp_path: Path) -> None:
    (known / LANGUAGES).rename(tmp_path / "elsewhere.json")
    (known / LANGUAGES).symlink_to(tmp_path / "elsewhere.json")
    for use in (load_language_id, check_folder, regard.load):
        with pytest.raises(ModelFolderError, match="a link that leads out of"):
            use(known)


def test_languages_are_no_part_of_what_a_model_computes(known: Path) -> None:
    before = model_fingerprint(known)
    values = json.loads((known / CONFIG).read_text("utf-8"))
    (known / CONFIG).write_text(
        json.dumps({**values, "languages": {"source": "ko", "target": "fr"}})
    )
    seal_folder(known)

    assert folder_languages(known).pair == ("ko", "fr")
    assert model_fingerprint(known) == before


# --- exports


def test_a_runtime_file_carries_them(known: Path, tmp_path: Path) -> None:
    export(known, tmp_path / "model.regard")
    translator = RuntimeTranslator(tmp_path / "model.regard")

    assert translator.languages.pair == ("ko", "en")
    assert translator.model.card["languages"] == ["ko", "en"]
    assert translator.language_id == load_language_id(known)
    assert translator.model.card["language_codes"] == []
    assert translator.translate("I go home")


def test_damage_in_a_runtime_file_is_reported(
    known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LanguageId, "to_json", lambda *_: "{}")
    export(known, tmp_path / "model.regard")
    translator = RuntimeTranslator(tmp_path / "model.regard")
    with pytest.warns(UserWarning, match="its languages are damaged"):
        assert translator.language_id is None


def test_the_command_line_gives_them(
    known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.regard"

    def run(*arguments: str) -> object:
        with pytest.raises(SystemExit) as ended:
            main(["export", str(known), *arguments])
        return ended.value.code

    assert run(str(out), "--languages", "ja,fr", "--threads", "1") == 0

    translator = RuntimeTranslator(out)
    assert translator.languages.pair == ("ja", "fr")
    assert translator.language_id is not None
    assert sorted(translator.language_id.profiles) == ["fr", "ja"]

    other = str(tmp_path / "other")
    for message, *arguments in (
        ("wanted codes of source and target, such as ko,en; got 'ja'", "ja"),
        ("wanted a language code", "ja,x"),
        (
            "only a runtime file and a page hold languages",
            "ja,fr",
            "--to",
            "huggingface",
        ),
    ):
        assert run(other, "--languages", *arguments) == 2
        assert message in capsys.readouterr().err

    assert not Path(other).exists()
