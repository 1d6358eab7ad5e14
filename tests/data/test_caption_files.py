"""Every caption format gives the same captions; all problems are reported at once with their
lines.
"""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Literal

import pytest
from helpers.image_folders import noise
from helpers.text_table import lines, rows

from regard.common.errors import DataError
from regard.data.caption_files import (
    CaptionSet,
    Problems,
    mentions_side,
    read_captions,
)

Form = Literal["NFC", "NFD"]
ROWS = [
    ("b.png", "A red  ball ."),
    ("a.png", "빨간 공"),
    ("b.png", "one ball"),
    ("in/c.png", "c"),
]
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
    names = ["b.png", "a.png", "in/c.png"]
    images = [{"id": 10 + i, "file_name": name} for i, name in enumerate(names)]
    annotations = [
        {"id": i, "image_id": 10 + names.index(name), "caption": text}
        for i, (name, text) in enumerate(ROWS)
    ]
    return json.dumps(
        {"info": {}, "images": images, "annotations": annotations}, indent=1
    )


def _karpathy(**more: str) -> str:
    images = []
    for name, texts in CAPTIONS_BY_IMAGE:
        path, _, file = name.rpartition("/")
        sentences = [{"raw": text, "tokens": []} for text in texts]
        folder = {"filepath": path} if path else {}
        images.append({"filename": file, "sentences": sentences, **more, **folder})

    return json.dumps({"dataset": "flickr8k", "images": images})


def _json_lines(image: str, caption: str) -> str:
    return "\n".join(
        json.dumps({image: name, caption: text, "id": 3}) for name, text in ROWS
    )


KINDS = {
    "file, tab, caption": "".join(f"{name}\t{text}\n" for name, text in ROWS),
    "with a header": "image\tcaption\n"
    + "".join(f"{name}\t{text}\r\n" for name, text in ROWS),
    "Flickr tokens": "".join(
        f"{name}#{i}\t{text}\n" for i, (name, text) in enumerate(ROWS)
    ),
    "COCO JSON": _coco(),
    "JSON lines": _json_lines("image", "caption"),
    "other JSON lines": _json_lines("file_name", "text"),
    "Karpathy's JSON, split train and restval": _karpathy(split="restval"),
    "Karpathy's JSON, split train and restval, where none are named": _karpathy(),
    "CSV": 'image,caption\nb.png,A red ball .\na.png,빨간 공\nb.png,one ball\nin/c.png,"c"',
    "CSV in semicolons": '"image";"caption"\nb.png;"A\nred ball ."\na.png;빨간 공\nb.png;"one ball"\nin/c.png;c\n',
    "CSV with numbers": "image_name| comment_number| comment\n"
    "b.png| 0| A red ball .\na.png| 0| 빨간 공\nb.png| 4   one ball\nin/c.png| 1| c\n",
    "lists in JSON lines": "\n".join(
        json.dumps({"image": name, "captions": list(texts)})
        for name, texts in CAPTIONS_BY_IMAGE
    ),
}


def _read_text(
    path: Path, images: Path, text: str, skip: bool = False
) -> tuple[CaptionSet, Problems]:
    path.write_text(text, encoding="utf-8")
    problems = Problems(skip)
    return read_captions(path, images, problems), problems


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_same_captions(
    tmp_path: Path, images: Path, kind: str
) -> None:
    caption_set, problems = _read_text(tmp_path / "captions.txt", images, KINDS[kind])
    by_image = [(image.file, image.captions) for image in caption_set.images]

    assert by_image == CAPTIONS_BY_IMAGE
    assert problems.by_kind == {}

    captions = [text for _, texts in CAPTIONS_BY_IMAGE for text in texts]
    assert caption_set.captions == captions

    kinds = (kind, "file, tab, caption", "JSON lines")
    assert any(caption_set.kind in each for each in kinds)
    assert "3 images" in caption_set.lines()[0]
    assert "4 captions, 1 to 2 each" in caption_set.lines()[0]


def causes_of(problems: Problems) -> tuple[str, ...]:
    with pytest.raises(DataError) as refused:
        problems.check()
    return refused.value.causes


def test_each_role_takes_its_split(tmp_path: Path, images: Path) -> None:
    parts = []
    for split in ("restval", "val", "test", "train"):
        sentences = [{"raw": f"caption of {split}"}]
        parts.append({"filename": "a.png", "split": split, "sentences": sentences})

    path = tmp_path / "dataset.json"
    path.write_text(json.dumps({"images": parts}))

    for name, split, expected in (
        ("train", "train", ["caption of restval", "caption of train"]),
        ("valid", "val", ["caption of val"]),
        ("test", "test", ["caption of test"]),
    ):
        caption_set = read_captions(path, images, Problems(), name)
        assert caption_set.captions == expected
        assert f"(Karpathy's JSON, split {split}" in caption_set.lines()[0]


def test_captions_with_commas_need_no_quotes(tmp_path: Path, images: Path) -> None:
    text = 'image,caption\na.png,A dog , running\na.png,"A ""dog"", running"\na.png,a 5" ball, red\n'
    caption_set, _ = _read_text(tmp_path / "c.csv", images, text)

    assert caption_set.captions == [
        "A dog , running",
        'A "dog", running',
        'a 5" ball, red',
    ]


def test_problems_are_reported_with_their_lines(tmp_path: Path, images: Path) -> None:
    names = [
        "a.png",
        "bb.png",
        "../images/a.png",
        "/etc/a.png",
        "in/d.png",
        "a" * 6000,
        ".",
    ]
    text = "".join(f"{name}\tno\n" for name in names) + "b.png\t  \n"
    path = tmp_path / "c.tsv"
    _, problems = _read_text(path, images, text)
    expected = [
        f"line 2: there is no image bb.png in {images}; did you mean b.png?",
        f"line 3: '../images/a.png' is not a file name in {images}",
        "line 4: '/etc/a.png' is not a file name",
        f"line 5: there is no image in/d.png in {images}",
        "line 6: ",
        "line 7: ",
        "line 8: the caption of b.png has no text",
    ]
    *causes, advice = causes_of(problems)

    assert "`data.images.skip_bad=true`" in advice
    for cause, start in zip(causes, expected, strict=True):
        assert cause.startswith(f"{path}: {start}")
    assert "is longer than file names are" in causes[4]
    assert len(causes[4]) < 300
    assert "is longer than file names are" not in causes[5]


def _folder(path: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"")
    return path


@pytest.mark.parametrize(
    ("name", "there", "file"),
    [
        ("IMG_1001.jpg", ("IMG_1051.jpg", "IMG_1001.JPG"), "IMG_1001.JPG"),
        ("img_1001.jpeg", ("img_1002.jpeg", "IMG_1001.png"), "IMG_1001.png"),
        ("Dog.png", ("dig.png", "dog.PNG", "dog.jpg"), "dog.PNG"),
        ("in/A1.jpg", ("A2.jpg", "in/A2.jpg", "in/a1.JPG", "a1.jpg"), "in/a1.JPG"),
        ("dog", ("dog.jpg", "dog.txt", "dogs.jpg"), "dog.jpg"),
        ("dog.1", ("dog.jpg", "dog.1.jpg"), "dog.1.jpg"),
    ],
)
def test_a_name_with_another_ending_or_case_is_taken(
    tmp_path: Path, name: str, there: tuple[str, ...], file: str
) -> None:
    folder = _folder(tmp_path / "images", there)
    text = f"{name}\ta caption\n{name}\tanother\n"
    caption_set, problems = _read_text(tmp_path / "c.tsv", folder, text)

    assert problems.by_kind == {}
    assert [image.file for image in caption_set.images] == [file]
    (note,) = caption_set.notes
    assert note.startswith("1 name differs from the file by case or ending only: ")
    assert note.endswith(f"{name} as {file}")


@pytest.mark.parametrize(
    ("name", "there", "suggested"),
    [
        ("dog.gif", ("dog.jpg", "dog.png"), "dog."),
        ("dog", ("dog.jpg", "dog.png"), "dog."),
        ("dgo.jpg", ("dog.jpg", "cat.jpg"), "dog.jpg"),
        ("dog.jpg", ("dog.txt", "cat.jpg"), "dog.txt"),
        # Another row names that file, so this row means another image.
        ("a.jpg", ("a.png",), "a.png"),
    ],
)
def test_a_name_that_fits_no_file_or_several_is_refused(
    tmp_path: Path, name: str, there: tuple[str, ...], suggested: str
) -> None:
    folder = _folder(tmp_path / "images", there)
    text = f"{name}\ta caption\na.png\tanother\n"
    _, problems = _read_text(tmp_path / "c.tsv", folder, text)
    message = f"there is no image {name} in {folder}; did you mean {suggested}"

    assert message in causes_of(problems)[0]


def test_repeated_captions_are_noted(tmp_path: Path, images: Path) -> None:
    text = "a.png\tx\nb.png\tx\na.png\ty\na.png\t x\nb.png\tx\n"
    caption_set, _ = _read_text(tmp_path / "c.tsv", images, text)

    (note,) = caption_set.notes
    assert note == "2 lines repeat the image and caption of another (4, 5)"
    assert len(caption_set.captions) == 5


def test_many_problems_are_counted_and_can_be_skipped(
    tmp_path: Path, images: Path
) -> None:
    missing = [f"no{i}.png\tno\n" for i in range(30)]
    text = "".join(["a.png\tfine\n", *missing, "b.png\t \n"])
    caption_set, problems = _read_text(tmp_path / "c.tsv", images, text, skip=True)

    assert [image.file for image in caption_set.images] == ["a.png"]

    problems.check()
    lines = problems.lines()

    assert lines[0] == "  skipped: 30 captions of images that do not exist"
    assert lines[6] == "    … and 25 more"
    assert lines[7] == "  skipped: 1 caption with no text"

    _, problems = _read_text(tmp_path / "c.tsv", images, text)
    assert causes_of(problems)[20] == "… and 10 more of this kind"


@pytest.mark.parametrize(("form", "other"), [("NFC", "NFD"), ("NFD", "NFC")])
@pytest.mark.parametrize("name", ["café.png", "깊이/사진.png"])
def test_names_are_compared_after_normalisation(
    tmp_path: Path, name: str, form: Form, other: Form
) -> None:
    stored = unicodedata.normalize(form, name)
    listed = unicodedata.normalize(other, name)
    image = tmp_path / "images" / stored
    image.parent.mkdir(parents=True)
    image.touch()
    text = f"{listed}\tx\n{stored}\ty\n./{stored}\tz\n"
    caption_set, problems = _read_text(tmp_path / "c.tsv", tmp_path / "images", text)

    assert problems.by_kind == {}
    assert caption_set.paths == [image]
    assert caption_set.references == [["x", "y", "z"]]


def test_an_image_may_be_called_like_json(tmp_path: Path) -> None:
    for name in ("[001] a.png", "{b}.png"):
        (tmp_path / name).touch()
        caption_set, _ = _read_text(tmp_path / "c.tsv", tmp_path, f"{name}\tx\n")

        assert [image.file for image in caption_set.images] == [name]
    with pytest.raises(DataError, match="no such folder"):
        _read_text(tmp_path / "c.tsv", tmp_path / "nowhere", "a.png\tx\n")


def test_long_captions_are_dropped_from_training(tmp_path: Path, images: Path) -> None:
    path = tmp_path / "c.tsv"
    text = "a.png\tone two three\na.png\tone two\nb.png\tone two three four\n"
    path.write_text(text, encoding="utf-8")
    caption_set = read_captions(path, images, Problems(), max_words=2)
    (image,) = caption_set.images

    assert (image.file, image.captions) == ("a.png", ("one two",))

    (note,) = caption_set.notes
    assert note.startswith(
        "left out: 2 captions of more than 2 words, the first in line 1"
    )

    message = r"left out: 3 captions of more than 1 words.*; set data.max_length higher"
    with pytest.raises(DataError, match=message):
        read_captions(path, images, Problems(), max_words=1)


SIDED = lines("""
    A ball left of a cube
    the rightmost one
    Der linke Ball
    공의 왼쪽에 상자가 있다
    상자의 오른편
    球在左边
    le ballon à gauche
    мяч слева
""")


def test_left_and_right_in_captions_are_recognised() -> None:
    for caption in SIDED:
        assert mentions_side(["a ball", caption])
    assert not mentions_side(["a bright leftover", "빨간 공", "copyright"])


@pytest.mark.parametrize(
    ("text", "causes"),
    rows(r"""
        a.png⇥x⏎a.png⇥x⇥y⏎ | line 2 does not hold exactly one tab
        image,caption⏎a.png,x⏎a.png,"x" y⏎ | line 3 does not hold a file and a cap
        {"images": [{"filename": "a.png"}, 3]} | image 1 is not; image 2 is not as wanted
        {"images": [{"filename": "a.png", "split": "val"}]} | holds no image of the split
        ⏎⏎a red ball⏎ | line 3 holds no tab ('a red ball')
        {"image": "a.png"}⏎{"image": 3, "caption": "x"}⏎ | line 1 is not; line 2 is not
        {"images": [], "annotations": 3} | annotations is not a list
        {"images": [{"id": 1}], "annotations": [{"caption": "x"}]} | image 1 lacks; annotation 1 lacks
        {"images": [], "annotations": [{"image_id": 2, "caption": "x"}]} | annotation 1 is of image 2, which is not
        file⇥caption⏎ | there is no caption of an image in it
         | the file is empty
    """),
)
def test_malformed_files_are_refused(
    tmp_path: Path, images: Path, text: str, causes: str
) -> None:
    """⇥ is a tab, and ⏎ a line break."""
    path = tmp_path / "c.tsv"
    with pytest.raises(DataError) as refused:
        _read_text(path, images, text.replace("⇥", "\t").replace("⏎", "\n"))
    for cause, part in zip(refused.value.causes, causes.split("; "), strict=True):
        assert cause.startswith(f"{path}: {part}")
