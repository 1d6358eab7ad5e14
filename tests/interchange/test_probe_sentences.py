"""Sentences on which exports are compared: none of a file that only a run folder names, outside of
it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers.system_marks import posix

from regard.common.errors import DataError
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.interchange import probe_sentences
from regard.interchange.probe_sentences import real_sentences
from regard.learn.samples import korean_english

SIZES = {"train": 60, "valid": 0, "test": 0, "recombination": 0, "length": 0}
SAMPLE = [
    pair.source for pair in korean_english(sizes=SIZES, short=1.0).splits["train"]
]
MAX_SENTENCES = 64
THAI = ["ฉันกลับบ้าน", "เขาไปโรงเรียน", "เราอ่านหนังสือ"]


@pytest.fixture(autouse=True)
def all_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_sentences, "MAX_SENTENCES", MAX_SENTENCES)


def vocabulary(lines: list[str], **settings: object) -> Tokenizer:
    return Tokenizer.train(
        lines,
        lines,
        TokenizerSettings.model_validate({"byte_fallback": False, **settings}),
    )


def recipe(folder: Path, **data: object) -> Path:
    """Write a run folder whose recipe names these data files."""
    folder.mkdir()
    lines = "".join(f"{name} = {str(value)!r}\n" for name, value in data.items())
    (folder / "train.toml").write_text(f"[data]\n{lines}", encoding="utf-8")
    return folder


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_data_in_the_run_folder_is_read_first(tmp_path: Path) -> None:
    run = tmp_path / "run"
    recipe(run, valid_source=run / "valid.th", valid_target=run / "valid.th")
    write(run / "valid.th", THAI)

    assert real_sentences(run, vocabulary(SAMPLE).source) == (
        THAI,
        str(run / "valid.th"),
    )


@posix
def test_files_elsewhere_that_a_recipe_names_are_not_opened(tmp_path: Path) -> None:
    """A pipe: whoever opened it would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    secret = write(tmp_path / "secret", THAI)
    first = recipe(tmp_path / "first", valid_source=pipe, valid_target=pipe)
    second = recipe(tmp_path / "second", source=secret, target=secret)
    third = recipe(tmp_path / "third", valid_pairs=tmp_path / "third" / "link")
    (third / "link").symlink_to(pipe)
    for run in (first, second, third):
        sentences, origin = real_sentences(run, vocabulary(SAMPLE).source)
        assert (len(sentences), origin) == (MAX_SENTENCES, "the sample")


def test_a_recipe_of_another_form_names_nothing(tmp_path: Path) -> None:
    for text in (
        "data = 3\n",
        "[data]\nvalid_pairs = 7\n",
        "[data]\nsource = ['a']\ntarget = ['a']\n",
    ):
        (tmp_path / "train.toml").write_text(text, encoding="utf-8")
        assert real_sentences(tmp_path, vocabulary(SAMPLE).source)[1] == "the sample"


@pytest.mark.parametrize("kind", ["bpe", "whitespace"])
def test_a_vocabulary_of_another_script_gives_tokens_of_its_own(
    tmp_path: Path,
    kind: str,
) -> None:
    source = vocabulary(THAI, kind=kind).source
    sentences, origin = real_sentences(tmp_path, source)

    assert origin == "tokens drawn from its vocabulary"
    assert len(sentences) > MAX_SENTENCES // 2
    assert max(map(source.unknown_share, sentences)) == 0
    assert real_sentences(tmp_path, source) == (sentences, origin)


def test_the_users_own_sentences_are_read_wherever_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "lines", THAI)
    source = vocabulary(SAMPLE).source

    assert real_sentences(tmp_path / "run", source, path) == (THAI, str(path))
    with pytest.raises(DataError, match="every line is empty"):
        real_sentences(tmp_path / "run", source, write(tmp_path / "empty", [" ", ""]))
