"""Every caption format gives the same captions; all problems are reported at once with their
lines.
"""

from __future__ import annotations

import json
import shutil
import unicodedata
from pathlib import Path
from typing import Literal

import pytest
from albums import noise

from regard.common.errors import DataError
from regard.data.caption_files import (
    CaptionSet,
    Problems,
    hold_out_images,
    mentions_side,
    read_captions,
)

ROWS = [("b.png", "A red  ball ."), ("a.png", "빨간 공"), ("b.png", "one ball"), ("in/c.png", "c")]
CAPTIONS_BY_IMAGE = [
    ("b.png", ("A red ball .", "one ball")),
    ("a.png", ("빨간 공",)),
    ("in/c.png", ("c",)),
]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    (folder / "in").mkdir(parents=True)
    for name in ("a.png", "b.png", "in/c.png"):
        noise().save(folder / name)
    return folder


def _coco() -> str:
    names = list(dict.fromkeys(name for name, _ in ROWS))
    images = [{"id": 10 + i, "file_name": name, "width": 3} for i, name in enumerate(names)]
    annotations = [
        {"id": i, "image_id": 10 + names.index(name), "caption": text}
        for i, (name, text) in enumerate(ROWS)
    ]
    return json.dumps({"info": {}, "images": images, "annotations": annotations}, indent=1)


def _karpathy(**more: str) -> str:
    images = [
        {
            "filename": name.rpartition("/")[2],
            "sentences": [{"raw": text, "tokens": []} for text in texts],
            **more,
        }
        | ({"filepath": "in"} if "/" in name else {})
        for name, texts in CAPTIONS_BY_IMAGE
    ]
    return json.dumps({"dataset": "flickr8k", "images": images})


KINDS = {
    "file, tab, caption": "".join(f"{name}\t{text}\n" for name, text in ROWS),
    "with a header": "image\tcaption\n" + "".join(f"{name}\t{text}\r\n" for name, text in ROWS),
    "Flickr tokens": "".join(f"{name}#{i}\t{text}\n" for i, (name, text) in enumerate(ROWS)),
    "COCO JSON": _coco(),
    "JSON lines": "\n".join(
        json.dumps({"image": name, "caption": text, "id": 3}) for name, text in ROWS
    ),
    "other JSON lines": "\n".join(
        json.dumps({"file_name": name, "text": text}) for name, text in ROWS
    ),
    "Karpathy's JSON, split train and restval": _karpathy(split="restval"),
    "Karpathy's JSON, split train and restval, where none are named": _karpathy(),
    "CSV": 'image,caption\nb.png,A red ball .\na.png,빨간 공\nb.png,one ball\nin/c.png,"c"',
    "CSV in semicolons": '"image";"caption"\nb.png;"A\nred ball ."\na.png;빨간 공\nb.png;"one ball"\nin/c.png;c\n',
    "CSV with numbers": "image_name| comment_number| comment\n"
    "b.png| 0| A red ball .\na.png| 0| 빨간 공\nb.png| 4   one ball\nin/c.png| 1| c\n",
    "lists in JSON lines": "\n".join(
        json.dumps({"image": name, "captions": list(texts)}) for name, texts in CAPTIONS_BY_IMAGE
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_same_captions(tmp_path: Path, images: Path, kind: str) -> None:
    path = tmp_path / "captions.txt"
    path.write_text(KINDS[kind], encoding="utf-8")
    problems = Problems()
    caption_set = read_captions(path, images, problems)
    assert [(image.file, image.captions) for image in caption_set.images] == CAPTIONS_BY_IMAGE
    assert problems.by_kind == {}
    assert caption_set.captions == [text for _, texts in CAPTIONS_BY_IMAGE for text in texts]
    assert caption_set.kind in kind or caption_set.kind in ("file, tab, caption", "JSON lines")
    assert "3 images" in caption_set.lines()[0]
    assert "4 captions, 1 to 2 each" in caption_set.lines()[0]


def _read_text(
    path: Path, images: Path, text: str, skip: bool = False
) -> tuple[CaptionSet, Problems]:
    path.write_text(text, encoding="utf-8")
    problems = Problems(skip)
    return read_captions(path, images, problems), problems


def test_each_role_takes_its_split(tmp_path: Path, images: Path) -> None:
    parts = [
        json.loads(_karpathy(split=split))["images"][:1]
        for split in ("restval", "val", "test", "train")
    ]
    for number, (image,) in enumerate(parts):
        image["sentences"] = [{"raw": f"caption {number}"}]
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps({"images": [image for part in parts for image in part]}))
    for name, expected in {
        "train": ["caption 0", "caption 3"],
        "valid": ["caption 1"],
        "test": ["caption 2"],
    }.items():
        caption_set = read_captions(path, images, Problems(), name)
        assert caption_set.captions == expected
        assert (
            f"(Karpathy's JSON, split {'val' if name == 'valid' else name}"
            in caption_set.lines()[0]
        )


def test_captions_with_commas_need_no_quotes(tmp_path: Path, images: Path) -> None:
    text = (
        'image,caption\na.png,A dog , running\na.png,"A ""dog"", running"\na.png,a 5" ball, red\n'
    )
    caption_set, _ = _read_text(tmp_path / "c.csv", images, text)
    assert caption_set.captions == ["A dog , running", 'A "dog", running', 'a 5" ball, red']


def test_problems_are_reported_with_their_lines(tmp_path: Path, images: Path) -> None:
    text = (
        "a.png\tfine\nB.png\tno\n\nb.png\t  \n../images/a.png\tno\n/etc/a.png\tno\nin/d.png\tno\n"
    )
    path = tmp_path / "c.tsv"
    _, problems = _read_text(path, images, text)
    with pytest.raises(DataError) as refused:
        problems.check()
    expected = [
        f"{path}: line 2: there is no image B.png in {images}; did you mean b.png?",
        f"{path}: line 5: '../images/a.png' is not a file name in {images}",
        f"{path}: line 6: '/etc/a.png' is not a file name",
        f"{path}: line 7: there is no image in/d.png in {images}",
        f"{path}: line 4: the caption of b.png has no text",
        "data.images.skip_bad = true",
    ]
    assert len(refused.value.causes) == len(expected)
    for cause, start in zip(refused.value.causes, expected, strict=True):
        assert cause.startswith(start)


@pytest.mark.parametrize(
    ("wanted", "there", "suggested"),
    [
        ("IMG_1001.jpg", ("IMG_1051.jpg", "IMG_1001.JPG"), "IMG_1001.JPG"),
        ("img_1001.jpeg", ("img_1002.jpeg", "IMG_1001.png"), "IMG_1001.png"),
        ("Dog.png", ("dig.png", "dog.PNG"), "dog.PNG"),
        ("in/A1.jpg", ("A2.jpg", "in/A2.jpg", "in/a1.JPG"), "in/a1.JPG"),
    ],
)
def test_the_same_name_with_another_ending_or_case_is_suggested_first(
    tmp_path: Path, wanted: str, there: tuple[str, ...], suggested: str
) -> None:
    folder = tmp_path / "images"
    for name in there:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    _, problems = _read_text(tmp_path / "c.tsv", folder, f"{wanted}\ta caption\n")
    with pytest.raises(DataError) as refused:
        problems.check()
    assert refused.value.causes[0].endswith(
        f"there is no image {wanted} in {folder}; did you mean {suggested}?"
    )


def test_problems_can_be_skipped_and_are_counted(tmp_path: Path, images: Path) -> None:
    text = "a.png\tfine\n" + "".join(f"no{i}.png\tno\n" for i in range(9)) + "b.png\t \n"
    caption_set, problems = _read_text(tmp_path / "c.tsv", images, text, skip=True)
    problems.check()
    assert [image.file for image in caption_set.images] == ["a.png"]
    lines = problems.lines()
    assert lines[0] == "  skipped: 9 captions of images that do not exist"
    assert lines[6] == "    … and 4 more"
    assert lines[7] == "  skipped: 1 caption with no text"


def test_many_problems_of_one_kind_are_counted(tmp_path: Path, images: Path) -> None:
    _, problems = _read_text(
        tmp_path / "c.tsv", images, "".join(f"no{i}.png\tno\n" for i in range(30))
    )
    with pytest.raises(DataError) as refused:
        problems.check()
    assert len(refused.value.causes) == 22
    assert refused.value.causes[20] == "… and 10 more of this kind"


@pytest.mark.parametrize(
    ("text", "causes"),
    [
        (
            "a.png\tx\na.png x\na.png\tx\ty\n",
            ["line 2 does not hold exactly one tab", "line 3 does not hold exactly"],
        ),
        (
            'image,caption\na.png,x\na.png,"x" y\na.png\n',
            ["line 3 does not hold a file and a cap", "line 4 does not"],
        ),
        (
            '{"images": [{"filename": "a.png"}, 3]}',
            ["image 1 is not as wanted", "image 2 is not as wanted"],
        ),
        (
            '{"images": [{"filename": "a.png", "split": "val"}]}',
            ["holds no image of the split train or restval"],
        ),
        ("a.png,x\n", ["line 1 holds no tab ('a.png,x')"]),
        ("\n\na.png,x\n", ["line 3 holds no tab ('a.png,x')"]),
        (
            '{"image": "a.png"}\n{"image": 3, "caption": "x"}\n',
            ["line 1 is not as wanted", "line 2 is not as wanted"],
        ),
        ('{"image": "a.png", "captions": "x"}\n', ["line 1 is not as wanted"]),
        ('{"images": [], "annotations": 3}', ["annotations is not a list"]),
        (
            '{"images": [{"id": 1}], "annotations": [{"image_id": 2, "caption": "x"}, {"caption": "x"}]}',
            ["image 1 lacks", "annotation 1 is of image 2, which is not", "annotation 2 lacks"],
        ),
        ("file\tcaption\n", ["there is no caption of an image in it"]),
        ("", ["the file is empty"]),
    ],
)
def test_malformed_files_are_refused(
    tmp_path: Path, images: Path, text: str, causes: list[str]
) -> None:
    with pytest.raises(DataError) as refused:
        _read_text(tmp_path / "c.tsv", images, text)
    assert len(refused.value.causes) == len(causes)
    for cause, part in zip(refused.value.causes, causes, strict=True):
        assert cause.startswith(f"{tmp_path / 'c.tsv'}: {part}")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("name", ["café.png", "사진 하나.png", "깊이/사진.png"])
def test_names_are_compared_after_normalisation(
    tmp_path: Path, name: str, form: Literal["NFC", "NFD"]
) -> None:
    stored_name = unicodedata.normalize(form, name)
    listed_name = unicodedata.normalize("NFD" if form == "NFC" else "NFC", name)
    image = tmp_path / "images" / stored_name
    image.parent.mkdir(parents=True)
    image.touch()
    caption_set, problems = _read_text(
        tmp_path / "c.tsv", tmp_path / "images", f"{listed_name}\tx\n{stored_name}\ty\n"
    )
    assert problems.by_kind == {}
    assert caption_set.paths == [image]
    assert caption_set.references == [["x", "y"]]


def test_an_image_may_be_called_like_json(tmp_path: Path) -> None:
    names = ["[001] a.png", "{b}.png"]
    for name in names:
        (tmp_path / name).touch()
    for order in (names, names[::-1]):
        caption_set, _ = _read_text(
            tmp_path / "c.tsv", tmp_path, "".join(f"{name}\tx\n" for name in order)
        )
        assert [image.file for image in caption_set.images] == order
        assert caption_set.kind == "file, tab, caption"


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        _read_text(tmp_path / "c.tsv", tmp_path / "nowhere", "a.png\tx\n")


def test_long_captions_are_dropped_from_training(tmp_path: Path, images: Path) -> None:
    path = tmp_path / "c.tsv"
    path.write_text(
        "a.png\tone two three\na.png\tone two\nb.png\tone two three four\n", encoding="utf-8"
    )
    caption_set = read_captions(path, images, Problems(), max_words=2)
    assert [(image.file, image.captions) for image in caption_set.images] == [
        ("a.png", ("one two",))
    ]
    assert caption_set.notes == (
        "left out: 2 captions of more than 2 words, the first in line 1 (data.max_length)",
    )
    with pytest.raises(
        DataError, match=r"left out: 3 captions of more than 1 words.*; set data.max_length higher"
    ):
        read_captions(path, images, Problems(), max_words=1)


def test_spellings_of_a_path_are_one_image(tmp_path: Path, images: Path) -> None:
    (images / "s").mkdir()
    shutil.copy(images / "a.png", images / "s" / "a.png")
    caption_set, _ = _read_text(
        tmp_path / "c.tsv", images, "./a.png\tx\na.png\ty\ns//a.png\tz\n./s/a.png\tu\ns/a.png\tv\n"
    )
    assert [(image.file, len(image.captions)) for image in caption_set.images] == [
        ("a.png", 2),
        ("s/a.png", 3),
    ]


@pytest.mark.parametrize(
    ("caption", "is_sided"),
    [
        ("A ball left of a cube", True),
        ("the rightmost one", True),
        ("Der linke Ball", True),
        ("공의 왼쪽에 상자가 있다", True),
        ("상자의 오른편", True),
        ("球在左边", True),
        ("le ballon à gauche", True),
        ("мяч слева", True),
        ("a bright leftover", False),
        ("빨간 공", False),
        ("copyright", False),
    ],
)
def test_left_and_right_in_captions_are_recognised(caption: str, is_sided: bool) -> None:
    assert mentions_side(["a ball", caption]) is is_sided


def test_images_are_held_out(tmp_path: Path, images: Path) -> None:
    caption_set, _ = _read_text(tmp_path / "c.tsv", images, KINDS["file, tab, caption"])
    train, valid = hold_out_images(caption_set, seed=3)
    assert (len(train), len(valid)) == (2, 1)
    assert {*train.paths, *valid.paths} == set(caption_set.paths)
    assert hold_out_images(caption_set, seed=3) == (train, valid)
    with pytest.raises(DataError, match="1 image only"):
        hold_out_images(valid, seed=3)
