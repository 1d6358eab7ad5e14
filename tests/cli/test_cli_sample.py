"""regard sample: the sample's files, a page on each of them, and nothing overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import Command, lines_of, text_of

from regard.learn.samples import Sample, korean_english
from regard.learn.samples.images import image_sample

SPLITS = ("train", "valid", "test", "recombination", "length")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Sample:
    """Let the command write few sentences: drawing all takes eight seconds."""
    sample = korean_english(sizes=dict.fromkeys(SPLITS, 20))
    monkeypatch.setattr("regard.learn.samples.writing.korean_english", lambda: sample)
    return sample


def test_all_parts_are_written_and_described(regard: Command, few: Sample) -> None:
    done = regard("sample sample")
    assert done.out == ""
    assert done.err.endswith(
        "wrote sample; sample/SAMPLE.md says what each file is for\n"
    )

    names = {f"{split}.{kind}" for split in SPLITS for kind in ("ko", "en", "align")}
    assert {*os.listdir("sample")} == {*names, "SAMPLE.md"}

    page = text_of("sample/SAMPLE.md")
    for split, pairs in few.splits.items():
        assert lines_of(f"sample/{split}.ko") == [pair.source for pair in pairs]
        assert f"| `{split}` | {len(pairs):,} |" in page
        assert f"{split}: {len(pairs):,} pairs\n" in done.err

    again = regard("sample sample --quiet")
    assert (again.out, again.err) == ("", ""), "the same files: nothing changes"


def test_what_is_there_is_not_overwritten(regard: Command) -> None:
    Path("test.ko").write_text("mine\n")
    because = "test.ko: is there already with other content, and nothing was written"
    regard.fails("sample .", because=because)
    assert os.listdir() == ["test.ko"]
    regard.fails("sample test.ko", because="is a file; give a folder")


def test_images_are_written_and_described(
    regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = image_sample(train=4, valid=2, test=3)
    monkeypatch.setattr("regard.learn.samples.writing.image_sample", lambda: few)
    done = regard("sample new/shapes --images")
    assert "train: 4 images\nvalid: 2 images\ntest: 3 images\n" in done.err
    assert len(os.listdir("new/shapes/images")) == 9
    assert "| `test` | 3 |" in text_of("new/shapes/SAMPLE.md")
    assert Path("new/shapes/test.ko.tsv").is_file()
