"""regard sample: the sample's files, a page on each of them, and nothing overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command

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
    done = regard("sample", "sample")
    assert done.out == ""
    assert done.err.splitlines()[-1] == "wrote sample; sample/SAMPLE.md says what each file is for"
    splits = few.splits
    names = {f"{split}.{kind}" for split in splits for kind in ("ko", "en", "align")}
    assert {path.name for path in Path("sample").iterdir()} == {*names, "SAMPLE.md"}
    page = Path("sample/SAMPLE.md").read_text(encoding="utf-8")
    for split, pairs in splits.items():
        assert Path(f"sample/{split}.ko").read_text(encoding="utf-8").splitlines() == [
            p.source for p in pairs
        ]
        assert len(Path(f"sample/{split}.align").read_text().splitlines()) == len(pairs)
        assert f"| `{split}` | {len(pairs):,} |" in page
        assert f"{split}: {len(pairs):,} pairs\n" in done.err


def test_what_is_there_is_not_overwritten(regard: Command) -> None:
    Path("notes.txt").write_text("mine")
    regard("sample", ".")
    again = regard("sample", ".", "--quiet")  # the same files: nothing changes
    assert (again.out, again.err) == ("", "")
    Path("test.ko").write_text("mine\n")
    Path("train.en").unlink()
    because = "test.ko: is there already with other content, and nothing was written"
    regard.fails("sample", ".", status=2, because=because)
    assert Path("test.ko").read_text() == "mine\n"
    assert not Path("train.en").exists()
    assert not list(Path.cwd().glob("*partial*"))
    regard.fails("sample", "test.ko", status=2, because="is a file; give a folder")


def test_images_are_written_and_described(regard: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    few = image_sample(train=4, valid=2, test=3)
    monkeypatch.setattr("regard.learn.samples.writing.image_sample", lambda: few)
    done = regard("sample", "new/shapes", "--images")
    assert "train: 4 images\nvalid: 2 images\ntest: 3 images\n" in done.err
    assert len(list(Path("new/shapes/images").iterdir())) == 9
    page = Path("new/shapes/SAMPLE.md").read_text(encoding="utf-8")
    assert "| `test` | 3 |" in page
    assert (Path("new/shapes/test.ko.tsv")).is_file()
