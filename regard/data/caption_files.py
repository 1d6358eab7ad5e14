"""Caption files: TSV, CSV, Flickr8k tokens, COCO JSON, Karpathy's and JSON lines, recognised by
their content.
"""

from __future__ import annotations

import difflib
import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.common.reading import parse_json
from regard.data.delimited import Dialect
from regard.data.images import SUFFIXES
from regard.data.pair_filters import word_count
from regard.data.text import clean, nfc, read_file

MAX_JSON = 1 << 28  # characters of a line, since COCO JSON is one line
LONGEST_NAME, LONGEST_PATH = 255, 1_000  # bytes and letters that every system allows
SHOWN = 20  # causes of one kind that are listed
# Held out for validation: at most a thousand images, at most a twentieth.
MAX_IMAGES, FRACTION = (
    1000,
    20,
)
HEADERS = {"file", "filename", "file_name", "image", "image_name", "name", "picture"}
_CSV_HEADER = re.compile(
    rf"""\s*"?(?:{"|".join(HEADERS)})"?\s*([,;|])(\s*\w+\s*\1)?\s*"?(?:caption|comment|text)"?\s*""",
    re.IGNORECASE,
)
_SPLITS = {"train": ("train", "restval"), "valid": ("val",), "test": ("test",)}

# Number of the line, annotation or image, name of the image, caption.
Row = tuple[int, str, str]

_SIDES = re.compile(
    r"\b(left|right)(most|wards?)?\b|\b(links|rechts|link|recht|linke[nrsm]?|rechte[nrsm]?|(linker|rechter)hand)\b"
    r"|\b(vänster|höger|venstre|højre|høyre|gauche|droite|trái|kiri|kanan)\b"
    r"|\b(izquierd[ao]|derech[ao]|sinistr[ao]|destr[ao]|esquerd[ao]|direit[ao])s?\b"
    r"|\b(lew[aoey]j?|praw[aoey]j?|(v|na)?(levo|pravo|lijevo|desno)|(lev|prav)[áéý])\b"
    r"|\b(слева|справа|влево|вправо|лев(ый|ая|ой|ое|ую)|прав(ый|ая|ой|ое|ую)|ліворуч|праворуч|зліва)\b"
    r"|\b(sol|sağ)([aı]|da|dan|un|dak[ií]|unda|ında)?\b"
    r"|왼|오른|좌측|우측|좌우|左|右|ซ้าย|ขวา|يسار|يمين|बाएँ|बाएं|दाएँ|दाएं",
    re.IGNORECASE,
)
"""Left and right in English, German, Dutch, the Scandinavian, Romance and Slavonic languages and
others.
"""


@dataclass(frozen=True)
class CaptionedImage:
    """An image by its file name in the folder, and its captions, cleaned."""

    file: str
    captions: tuple[str, ...]


@dataclass
class Problems:
    """Collects all problems with some files, by kind: raised together, or counted if they are to be
    skipped.
    """

    skip: bool = False
    remedy: str = "data.images.skip_bad = true trains without what cannot be used"
    by_kind: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, cause: str) -> None:
        """Add a problem; `kind` is what is counted, such as "images that cannot be read"."""
        self.by_kind.setdefault(kind, []).append(cause)

    def check(self) -> None:
        """Raise DataError with every cause, unless they are to be skipped."""
        if self.by_kind and not self.skip:
            lines = [
                line
                for causes in self.by_kind.values()
                for line in _first([*dict.fromkeys(causes)])
            ]
            raise DataError(*lines, self.remedy)

    def lines(self) -> list[str]:
        """Return the report on what was skipped."""
        lines = []
        for kind, causes in self.by_kind.items():
            lines.append(f"  skipped: {counted(len(causes), _singular(kind), kind)}")
            lines += [f"    {cause}" for cause in causes[:5]]
            lines += [f"    … and {len(causes) - 5:,} more"] if len(causes) > 5 else []
        return lines


@dataclass(frozen=True)
class CaptionSet:
    """Captioned images of a folder, with the report on how they were read."""

    name: str  # "train", "valid" or "test"
    folder: Path
    path: Path  # the caption file
    kind: str  # its format, in words
    images: tuple[CaptionedImage, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.images)

    @property
    def paths(self) -> list[Path]:
        """The file of each image."""
        return [self.folder / image.file for image in self.images]

    @cached_property
    def captions(self) -> list[str]:
        """All captions, image by image."""
        return [caption for image in self.images for caption in image.captions]

    @property
    def references(self) -> list[list[str]]:
        """The captions of each image."""
        return [list(image.captions) for image in self.images]

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        counts = [len(image.captions) for image in self.images]
        spread = (
            f"{min(counts)}"
            if min(counts) == max(counts)
            else f"{min(counts)} to {max(counts)}"
        )
        summary = (
            f"{self.name}: {counted(len(self), 'image')} in {self.folder}, "
            f"{counted(len(self.captions), 'caption')}, {spread} each, "
            f"from {self.path} ({self.kind})"
        )
        return [summary, *(f"  {note}" for note in self.notes)]

    def select(self, keep: Callable[[int], bool], *notes: str) -> CaptionSet:
        """Return the images whose numbers are kept, with notes for the report."""
        kept = tuple(image for number, image in enumerate(self.images) if keep(number))
        return replace(self, images=kept, notes=(*self.notes, *notes))


def read_captions(
    path: Path,
    folder: Path,
    problems: Problems,
    name: str = "train",
    max_words: int | None = None,
) -> CaptionSet:
    """Read a caption file, grouped by image in the order of their first captions.

    Captions of more than `max_words` words are dropped and counted. Problems are added to
    `problems`; DataError is raised for a file that cannot be read at all.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; give the folder of the images with `images=`"
        )
    text_file = read_file(path, MAX_JSON)
    notes = list(text_file.notes)
    kind, unit, rows = _rows(text_file.lines, path, _SPLITS[name])
    captions: dict[str, list[str]] = {}
    index = _FolderIndex(folder)
    long = list[int]()
    for number, image, text in rows:
        caption = clean(text)
        file, cause = index.find(image)
        if cause:
            problems.add(
                "captions of images that do not exist",
                f"{path}: {unit} {number}: {cause}",
            )
        elif not caption:
            problems.add(
                "captions with no text",
                f"{path}: {unit} {number}: the caption of {image} has no text",
            )
        elif max_words is not None and word_count(caption) > max_words:
            long.append(number)
        else:
            captions.setdefault(file, []).append(caption)
    if long:
        notes.append(
            f"left out: {counted(len(long), 'caption')} of more than {max_words} words, the first "
            f"in {unit} {long[0]} (data.max_length)"
        )
    if long and not captions and not problems.by_kind:
        raise DataError(
            f"{path}: {notes[-1]}, and there are no others; set data.max_length higher"
        )
    if not captions and not problems.by_kind:
        raise DataError(
            f"{path}: there is no caption of an image in it; each line holds a file, a tab and a "
            "caption"
        )
    images = tuple(
        CaptionedImage(file, tuple(texts)) for file, texts in captions.items()
    )
    return CaptionSet(name, folder, path, kind, images, tuple(notes))


def report_uncaptioned(caption_sets: Sequence[CaptionSet]) -> list[str]:
    """Return a sentence for each folder that holds images without a caption."""
    lines = []
    for folder in dict.fromkeys(part.folder for part in caption_sets):
        used = {
            image.file
            for part in caption_sets
            if part.folder == folder
            for image in part.images
        }
        names = {
            entry.name
            for entry in folder.iterdir()
            if entry.name.lower().endswith(SUFFIXES)
        }
        if rest := len(names - used):
            others = counted(
                rest,
                "more image has no caption and is",
                "more images have no caption and are",
            )
            lines.append(f"{folder}: {others} not used")
    return lines


def hold_out_images(captions: CaptionSet, seed: int) -> tuple[CaptionSet, CaptionSet]:
    """Split off images for validation."""
    if len(captions) < 2:
        raise DataError(
            f"{captions.path}: has captions of {len(captions)} image only, and none is left to "
            "train on when some are held out for validation; give more, or `valid_captions=`"
        )
    count = min(MAX_IMAGES, max(1, len(captions) // FRACTION))
    held_out = set(random.Random(seed).sample(range(len(captions)), count))
    note = (
        f"no validation captions were given: {counted(count, 'image was', 'images were')} held out "
        "for it"
    )
    valid = replace(
        captions.select(lambda number: number in held_out), name="valid", notes=()
    )
    return captions.select(lambda number: number not in held_out, note), valid


def mentions_side(captions: Sequence[str]) -> bool:
    """Return whether a caption says left or right, in English, Korean or one of some twenty other
    languages.
    """
    return any(_SIDES.search(caption) for caption in captions)


class _FolderIndex:
    """Index of the file names in a folder; names are compared after Unicode normalisation.

    An accented letter, or a syllable of Hangul, can be written in one code point or in several, and
    file systems do it differently from people.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listed = {nfc(entry.name): entry.name for entry in folder.iterdir()}
        self._guesses = 0
        self.find = cache(self._look_up)

    def _look_up(self, name: str) -> tuple[str, str]:
        """Return the name as the folder has it, and what is wrong with it; empty if it is a
        file.
        """
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if not name or name.startswith(("/", "\\")) or ".." in parts or "\0" in name:
            return (
                name,
                f"{name!r} is not a file name in {self.folder}; names are relative to that folder",
            )
        if (
            max((len(part.encode("utf-8", "replace")) for part in parts), default=0)
            > LONGEST_NAME
            or len(name) > LONGEST_PATH
        ):
            return (
                name,
                f"{name[:40]}… is longer than file names are ({len(name):,} characters); correct "
                "it",
            )
        if "\\" not in name:  # ./a.jpg and b//c.jpg are a.jpg and b/c.jpg
            name = str(PurePosixPath(name))
        if len(parts) > 1:
            forms = (name, *(nfc(name), unicodedata.normalize("NFD", nfc(name))))
            matches = [form for form in forms if (self.folder / form).exists()]
        else:
            listed = self._listed.get(nfc(name))
            matches = (
                []
                if listed is None
                else [name if (self.folder / name).exists() else listed]
            )
        if matches:
            return matches[0], ""
        return name, f"there is no image {name} in {self.folder}{self._nearest(name)}"

    def _nearest(self, name: str) -> str:
        self._guesses += 1
        if self._guesses > SHOWN:
            return ""
        parent = PurePosixPath(name).parent
        names = list(self._listed)
        if parent.parts and (self.folder / parent).is_dir():
            names = [
                str(parent / entry.name) for entry in (self.folder / parent).iterdir()
            ]
        # Cameras write .JPG, and lists .jpg: such a name is nearer than that of the next image.
        near = [
            other for other in names if nfc(other).casefold() == nfc(name).casefold()
        ]
        near += [other for other in names if _stem(other) == _stem(name)]
        near = near or difflib.get_close_matches(name, names, 1, 0.6)
        return f"; did you mean {near[0]}?" if near else ""


def _stem(name: str) -> str:
    """Return a file's name without its ending, in Unicode's form NFC and without case."""
    return nfc(PurePosixPath(name).stem).casefold()


def _singular(kind: str) -> str:
    """Return "caption with no text" for "captions with no text", and so on."""
    noun, _, rest = kind.partition(" ")
    return f"{noun.removesuffix('s')} {rest.replace('of images that do', 'of an image that does')}"


def _first(causes: Sequence[str]) -> list[str]:
    rest = len(causes) - SHOWN
    return [
        *causes[:SHOWN],
        *([f"… and {rest:,} more of this kind"] if rest > 0 else []),
    ]


def _rows(
    lines: list[str], path: Path, splits: Sequence[str]
) -> tuple[str, str, Iterator[Row]]:
    """Return the format of a file, what its entries are called, and the entries. Raises DataError
    with all causes.

    Of a file with splits the entries are those of these `splits`.
    """
    start, first = next(
        ((n, line) for n, line in enumerate(lines, 1) if line.strip()), (1, "")
    )
    whole = _json("\n".join(lines)) if first.lstrip()[:1] in ("{", "[") else None
    # An image may be called [1].jpg.
    if first.lstrip()[:1] in ("{", "[") and (
        "\t" not in first or whole is not None or _json(first) is not None
    ):
        if isinstance(whole, dict) and {"images", "annotations"} <= whole.keys():
            return "COCO JSON", "annotation", iter(_coco(whole, path))
        if isinstance(whole, dict) and "images" in whole:
            images = [
                ()
                if isinstance(image, dict)
                and image.get("split", splits[0]) not in splits
                else image
                for image in _list_of(whole, "images", path)
            ]
            if not any(images):
                raise DataError(
                    f"{path}: holds no image of the split {' or '.join(splits)}; give another file"
                )
            return (
                f"Karpathy's JSON, split {' and '.join(splits)}",
                "image",
                iter(_objects(images, "image", path)),
            )
        values = (_json(line) if line.strip() else () for line in lines)
        return "JSON lines", "line", iter(_objects(values, "line", path))
    if header := _CSV_HEADER.fullmatch(first):
        wanted = "a file and a caption, each quoted as a whole or not at all"
        return (
            "CSV",
            "line",
            iter(_tabs([*_csv(lines, header[1], bool(header[2]))], path, wanted)),
        )
    if "\t" not in first:
        raise DataError(
            f"{path}: line {start} holds no tab ({first[:40]!r}); wanted lines of file, tab, "
            "caption; or name.jpg#0, tab, caption (Flickr8k); or CSV below a line image,caption; "
            "or the JSON of COCO or Karpathy; or one JSON object a line with image and caption"
        )
    if re.match(r"[^\t]+#\d+\t", first):
        return (
            "Flickr tokens",
            "line",
            iter(
                _tabs([re.sub(r"#\d+\t", "\t", line, count=1) for line in lines], path)
            ),
        )
    return "file, tab, caption", "line", iter(_tabs(lines, path))


def _tabs(
    lines: Sequence[str],
    path: Path,
    wanted: str = "exactly one tab, between file and caption",
) -> list[Row]:
    """Parse lines of file, tab, caption."""
    wrong = []
    rows = list[Row]()
    for number, line in enumerate(lines, 1):
        sides = line.split("\t")
        if number == 1 and sides[0].strip().lower() in HEADERS:
            continue
        if len(sides) == 2:
            rows.append((number, sides[0].strip(), sides[1]))
        elif line.strip():
            wrong.append(f"{path}: line {number} does not hold {wanted}; correct it")
    DataError.raise_all(_first(wrong))
    return rows


def _csv(lines: Sequence[str], delimiter: str, numbered: bool) -> Iterator[str]:
    """Turn lines of CSV, perhaps with a number between file and caption, into lines of file, tab,
    caption.
    """
    dialect = Dialect(delimiter)
    for record, count in dialect.records(iter(lines)):
        file, *rest = dialect.fields(record) or [record]
        # Captions may hold commas without quotes; one of Flickr30k's numbers has no bar after it.
        caption = delimiter.join(rest[numbered:]) or "".join(rest).lstrip(" 0123456789")
        yield f"{file}\t{' '.join(caption.split())}" if rest else record
        yield from [""] * (count - 1)


def _objects(values: Iterable[Any], unit: str, path: Path) -> list[Row]:
    """Parse objects {"image": …, "caption": …} or {"image": …, "captions": […]}, also with other
    names of the keys.
    """
    wrong = []
    rows = list[Row]()
    for number, value in enumerate(values, 1):
        if value == ():  # an empty line, or an image of another split
            continue
        name, texts = (
            _name_and_captions(value) if isinstance(value, dict) else (None, None)
        )
        if name is None or texts is None:
            wrong.append(
                f'{path}: {unit} {number} is not as wanted: {{"image": "a.jpg", "caption": "…"}}, '
                'or "captions" with a list; or, for the whole file, COCO JSON with images and '
                "annotations, or Karpathy's with sentences"
            )
        else:
            rows += [(number, name, text) for text in texts]
    DataError.raise_all(_first(wrong))
    return rows


def _name_and_captions(value: Mapping[str, Any]) -> tuple[str | None, list[str] | None]:
    """Return the image and the captions of an object; None for what is missing."""
    name: Any = next(
        (value[key] for key in ("image", *sorted(HEADERS)) if key in value), None
    )
    texts: Any = (
        value["captions"]
        if "captions" in value
        else [value.get("caption", value.get("text"))]
    )
    # Karpathy's; of COCO with the folder.
    if isinstance(sentences := value.get("sentences"), list):
        texts = [
            sentence.get("raw") if isinstance(sentence, dict) else None
            for sentence in sentences
        ]
        name = (
            f"{value['filepath']}/{name}"
            if "filepath" in value and isinstance(name, str)
            else name
        )
    fine = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    return name if isinstance(name, str) else None, list(texts) if fine else None


def _coco(value: Mapping[str, Any], path: Path) -> list[Row]:
    """Parse COCO: images with id and file_name, annotations with image_id and caption, numbered in
    file order.
    """
    wrong = []
    rows = list[Row]()
    names = dict[Any, str]()
    for number, image in enumerate(_list_of(value, "images", path), 1):
        if (
            isinstance(image, dict)
            and isinstance(image.get("file_name"), str)
            and "id" in image
        ):
            names[str(image["id"])] = image["file_name"]
        else:
            wrong.append(f"{path}: image {number} lacks id or file_name")
    for number, annotation in enumerate(_list_of(value, "annotations", path), 1):
        if (
            not isinstance(annotation, dict)
            or not isinstance(annotation.get("caption"), str)
            or "image_id" not in annotation
        ):
            wrong.append(f"{path}: annotation {number} lacks image_id or caption")
        elif str(annotation["image_id"]) not in names:
            wrong.append(
                f"{path}: annotation {number} is of image {annotation['image_id']}, which is not "
                "among the images"
            )
        else:
            rows.append(
                (number, names[str(annotation["image_id"])], annotation["caption"])
            )
    DataError.raise_all(_first(wrong))
    return rows


def _list_of(value: Mapping[str, Any], key: str, path: Path) -> list[Any]:
    if not isinstance(value[key], list):
        raise DataError(
            f"{path}: {key} is not a list; wanted COCO JSON with lists of images and annotations"
        )
    return list(value[key])


def _json(text: str) -> Any:
    """Parse JSON; None if it is not JSON."""
    try:
        return parse_json(text)
    except ValueError:
        return None
