"""Rows of caption files, each an image with a caption: delimited text, JSON lines, COCO JSON and
Karpathy's JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.common.reading import parse_json
from regard.data.delimited import Dialect

SHOWN = 20  # causes of one kind that are listed
_FILES = (
    "file filename file_name image_file image image_name picture photo foto datei dateiname bild "
    "bilddatei bildname fichier nom_du_fichier archivo imagen "
    "파일 파일명 파일_이름 이미지 그림 사진 name 이름"
)
_CAPTIONS = (
    "caption captions description text beschreibung bildunterschrift bildbeschreibung légende "
    "legende descripción texto 캡션 설명 문장 title titel titre título 제목 comment kommentar"
)
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")
"""File name endings of images; the format of a file is recognised by its first bytes."""
FILE_NAMES = _FILES.split()
"""Names of the column or key that holds the image, the clearest first."""
CAPTION_NAMES = _CAPTIONS.split()
"""Names of the column of the captions, the clearest first."""
CSV_HEADER = (
    rf"""(?i)\s*"?(?:{"|".join(FILE_NAMES)})"?\s*([,;|])(\s*\w*(?:number|index|id)\s*\1)?\s*"""
    rf"""(?:"?(?:{"|".join(CAPTION_NAMES)})"?\s*\Z)"""
)
"""Pattern of the first line of a file of CSV: its groups are the delimiter, and a column of caption
numbers between file and caption.
"""

CaptionRow = tuple[int, str, str]
"""The number of a line, annotation or image; the name of the image; the caption."""
CaptionRows = tuple[str, str, Iterable[CaptionRow | str]]
"""The format of a caption file in words, the word for one of its entries, and the entries; text
instead of an entry says what is wrong with it.
"""


@dataclass(frozen=True)
class CaptionFile:
    """The entries of a caption file."""

    kind: str
    """Its format, in words."""
    unit: str
    """The word for one of its entries."""
    rows: Sequence[CaptionRow]
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()
    """Sentences on how the file was read."""

    @property
    def is_table(self) -> bool:
        """True if rows may lack a caption."""
        return self.kind in ("CSV", "table")


def read_tabs(lines: Sequence[str], *_: object) -> CaptionRows:
    """Read lines of file, tab, caption."""
    dialect = Dialect("\t", quoted=False)
    rows = _delimited_rows(lines, dialect, dialect.fields)
    return "file, tab, caption", "line", rows


def read_flickr_tokens(lines: Sequence[str], *_: object) -> CaptionRows:
    """Read lines of name.jpg#0, tab, caption."""
    dialect = Dialect("\t", quoted=False)

    def sides(record: str) -> list[str]:
        name, *captions = dialect.fields(record)
        return [re.sub(r"#\d+$", "", name), *captions]

    return "Flickr tokens", "line", _delimited_rows(lines, dialect, sides)


def read_csv(lines: Sequence[str], header: re.Match[str], *_: object) -> CaptionRows:
    """Read CSV below a header that matches `CSV_HEADER`."""
    delimiter, has_numbers = header.groups()
    dialect = Dialect(delimiter)

    def sides(record: str) -> list[str]:
        name, *fields = dialect.fields(record) or [record]
        if not fields:
            return record.split("\t")  # a tab is a delimiter too
        # Captions may hold delimiters without quotes.
        caption = delimiter.join(fields[bool(has_numbers) :])
        if not caption:
            # A line of Flickr30k lacks the delimiter between number and caption.
            caption = "".join(fields).lstrip(" 0123456789")
        return [*name.split("\t"), " ".join(caption.split())]

    wanted = "a file and a caption, each quoted as a whole or not at all"
    return "CSV", "line", _delimited_rows(lines, dialect, sides, wanted)


def read_json(
    lines: Sequence[str], start: re.Match[str], splits: Sequence[str]
) -> CaptionRows | None:
    """Read COCO JSON, Karpathy's JSON or JSON lines; of a file with splits, only entries of
    `splits`.

    Returns None for lines of file, tab, caption, which begin like JSON if an image is called
    [1].jpg.
    """
    content = _json("\n".join(lines))
    if "\t" in start.string and content is None and _json(start.string) is None:
        return None
    if not isinstance(content, dict) or "images" not in content:
        values = (_json(line) if line.strip() else () for line in lines)
        return "JSON lines", "line", _object_rows(values, "line")

    kind = f"Karpathy's JSON, split {' and '.join(splits)}"
    for key in ("images", "annotations"):
        if not isinstance(content.get(key, []), list):
            problem = f"{key} is not a list; wanted COCO JSON with lists of images and annotations"
            return kind, "image", [problem]
    if "annotations" in content:
        return "COCO JSON", "annotation", _coco_rows(**content)
    images = content["images"]
    for index, image in enumerate(images):
        if isinstance(image, dict) and image.get("split", splits[0]) not in splits:
            images[index] = ()
    if not any(images):
        problem = (
            f"holds no image of the split {' or '.join(splits)}; give another file"
        )
        return kind, "image", [problem]
    return kind, "image", _object_rows(images, "image")


def truncated(causes: Sequence[str]) -> list[str]:
    """Return the first `SHOWN` causes, and how many more there are."""
    shown = list(causes[:SHOWN])
    if len(causes) > SHOWN:
        shown.append(f"… and {len(causes) - SHOWN:,} more of this kind")
    return shown


def _delimited_rows(
    lines: Sequence[str],
    dialect: Dialect,
    sides_of: Callable[[str], list[str]],
    wanted: str = "exactly one tab, between file and caption",
) -> Iterator[CaptionRow | str]:
    """Yield the image and the caption of each record, which `sides_of` returns."""
    number = 1
    for record, count in dialect.records(iter(lines)):
        name, *captions = sides_of(record)
        name = name.strip()
        if number == 1 and name.lower() in FILE_NAMES:
            pass
        elif len(captions) == 1:
            yield number, name, captions[0]
        elif record.strip():
            yield f"line {number} does not hold {wanted}; correct it"
        number += count


def _object_rows(values: Iterable[Any], unit: str) -> Iterator[CaptionRow | str]:
    """Yield the rows of objects such as {"image": …, "caption": …} or {"image": …, "captions":
    […]}.
    """
    for number, value in enumerate(values, 1):
        if value == ():  # an empty line, or an image of another split
            continue
        name: str | None = None
        texts: list[str] | None = None
        if isinstance(value, dict):
            name, texts = _name_and_captions(value)
        if name is None or texts is None:
            yield (
                f'{unit} {number} is not as wanted: {{"image": "a.jpg", "caption": "…"}}, '
                'or "captions" with a list; or, for the whole file, COCO JSON with images and '
                "annotations, or Karpathy's with sentences"
            )
        else:
            for text in texts:
                yield number, name, text


def _name_and_captions(value: Mapping[str, Any]) -> tuple[str | None, list[str] | None]:
    """Return the image and the captions of an object; None for either if it is missing."""
    keys = ("image", *FILE_NAMES)
    name: Any = next((value[key] for key in keys if key in value), None)
    texts: Any = value.get("captions", [value.get("caption", value.get("text"))])

    # Karpathy's JSON holds sentences; that of COCO also the folder of the image.
    sentences = value.get("sentences")
    if isinstance(sentences, list):
        texts = [
            sentence.get("raw") if isinstance(sentence, dict) else None
            for sentence in sentences
        ]
        if "filepath" in value and isinstance(name, str):
            name = f"{value['filepath']}/{name}"

    is_valid = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    return name if isinstance(name, str) else None, list(texts) if is_valid else None


def _coco_rows(
    images: list[Any], annotations: list[Any], **_: object
) -> Iterator[CaptionRow | str]:
    """Yield the rows of COCO JSON: images with id and file_name, annotations with image_id and
    caption.

    Annotations are numbered in the order of the file.
    """
    names = dict[str, str]()
    for number, image in enumerate(images, 1):
        if (
            isinstance(image, dict)
            and isinstance(image.get("file_name"), str)
            and "id" in image
        ):
            names[str(image["id"])] = image["file_name"]
        else:
            yield f"image {number} lacks id or file_name"

    for number, annotation in enumerate(annotations, 1):
        if (
            not isinstance(annotation, dict)
            or not isinstance(annotation.get("caption"), str)
            or "image_id" not in annotation
        ):
            yield f"annotation {number} lacks image_id or caption"
        elif (image_id := str(annotation["image_id"])) in names:
            yield number, names[image_id], annotation["caption"]
        else:
            yield (
                f"annotation {number} is of image {image_id}, which is not among the images"
            )


def _json(text: str) -> Any:
    """Parse JSON; None if it is not JSON."""
    try:
        return parse_json(text)
    except ValueError:
        return None
