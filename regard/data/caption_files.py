"""Caption files: the captions of each image of a folder, and the problems with them."""

from __future__ import annotations

import difflib
import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.caption_formats import SHOWN, CaptionFile, CaptionRow, truncated
from regard.data.caption_tables import has_image_ending
from regard.data.file_formats import read_caption_rows
from regard.data.pair_filters import word_count
from regard.data.text import clean, did_you_mean, nfc

LONGEST_NAME = 255  # bytes of a file name that every system allows
LONGEST_PATH = 1_000  # characters of a path that every system allows
_EXAMPLES = 5
"""Number of lines or names that a sentence shows."""
_ENDING = re.compile(r"\.[^\W\d]\w{1,4}\Z")
"""The ending of a file's name."""
MAX_IMAGES = 1000
"""Images that are held out for validation, at most."""
IMAGES_PER_HELD_OUT = 10
"""One of so many images is held out for validation."""
LEAST_HELD_OUT = 8
"""Images that are held out for validation, at least, if they are a fifth at most."""
_SPLITS = {"train": ("train", "restval"), "valid": ("val",), "test": ("test",)}
"""Splits of Karpathy's JSON that belong to each corpus."""
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
"""The words for left and right in some twenty languages: English, Germanic, Romance, Slavonic and
others.
"""


@dataclass(frozen=True)
class CaptionedImage:
    """An image, by its file name in the folder, and its cleaned captions."""

    file: str
    captions: tuple[str, ...]


@dataclass
class Problems:
    """Collects the problems with files by kind, to raise them together, or to count them if bad
    entries are skipped.
    """

    skip: bool = False
    remedy: str = "`data.images.skip_bad=true` trains without what cannot be used"
    by_kind: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, cause: str) -> None:
        """Add a problem; `kind` is what is counted, such as "images that cannot be read"."""
        self.by_kind.setdefault(kind, []).append(cause)

    def check(self) -> None:
        """Raise DataError with the causes of all kinds, unless bad entries are skipped."""
        if self.by_kind and not self.skip:
            lines = []
            for causes in self.by_kind.values():
                lines += truncated([*dict.fromkeys(causes)])
            raise DataError(*lines, self.remedy)

    def lines(self) -> list[str]:
        """Return the report on the skipped entries."""
        lines = []
        for kind, causes in self.by_kind.items():
            lines.append(f"  skipped: {counted(len(causes), _singular(kind), kind)}")
            lines += [f"    {cause}" for cause in causes[:5]]
            if len(causes) > 5:
                lines.append(f"    … and {len(causes) - 5:,} more")
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
        captions_each = f"{min(counts)}"
        if max(counts) > min(counts):
            captions_each += f" to {max(counts)}"
        summary = (
            f"{self.name}: {counted(len(self), 'image')} in {self.folder}, "
            f"{counted(len(self.captions), 'caption')}, {captions_each} each, "
            f"from {self.path} ({self.kind})"
        )
        return [summary, *(f"  {note}" for note in self.notes)]

    def select(self, keep: Callable[[int], bool], *notes: str) -> CaptionSet:
        """Return the images for whose numbers `keep` is true; add notes to the report."""
        kept = tuple(image for number, image in enumerate(self.images) if keep(number))
        return replace(self, images=kept, notes=(*self.notes, *notes))


def read_captions(
    path: Path,
    folder: Path,
    problems: Problems,
    name: str = "train",
    max_words: int | None = None,
    columns: str = "",
) -> CaptionSet:
    """Read a caption file and group its captions by image, in the order of the first captions.

    Captions of more than `max_words` words are dropped and counted. Problems with single captions
    are added to `problems`. The `columns` of a table are found if they are empty. Raises DataError
    for a file that cannot be read at all.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; give the folder of the images with `images=`"
            f"{did_you_mean(folder)}"
        )
    index = _FolderIndex(folder)
    content = read_caption_rows(path, _SPLITS[name], columns, index.is_image)
    index.named = {_folded(image) for _, image, _ in content.rows}
    groups = _CaptionGroups(content, path, max_words)
    for row in content.rows:
        groups.add(row, index, problems)
    captions = groups.captions
    too_long = groups.note_too_long()
    if too_long and not captions and not problems.by_kind:
        raise DataError(
            f"{path}: {too_long}, and there are no others; set data.max_length higher"
        )
    if not captions and not problems.by_kind:
        raise DataError(
            f"{path}: there is no caption of an image in it; each line holds a file, a tab and a "
            "caption"
        )

    images = tuple(
        CaptionedImage(file, tuple(texts)) for file, texts in captions.items()
    )
    notes = (*content.notes, *index.notes(), *groups.notes())
    return CaptionSet(name, folder, path, content.kind, images, notes)


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
            entry.name for entry in folder.iterdir() if has_image_ending(entry.name)
        }
        uncaptioned = len(names - used)
        if uncaptioned:
            images = counted(
                uncaptioned,
                "more image has no caption and is",
                "more images have no caption and are",
            )
            lines.append(f"{folder}: {images} not used")
    return lines


def hold_out_images(
    captions: CaptionSet, seed: int, count: int | None = None
) -> tuple[CaptionSet, CaptionSet]:
    """Split off images for validation, or `count` to test on; return the training images and
    these.
    """
    if len(captions) < 2:
        raise DataError(
            f"{captions.path}: has captions of {len(captions)} image only, and none is left to "
            "train on when some are held out for validation; give more, or `valid_captions=`"
        )
    if count is not None and count > len(captions) // 2:
        raise DataError(
            f"data.test_count = {count:,}: at most half of the {len(captions):,} images can be "
            f"held out to test on; take {len(captions) // 2:,} or fewer"
        )
    least = LEAST_HELD_OUT if len(captions) >= 5 * LEAST_HELD_OUT else 1
    share = min(MAX_IMAGES, max(least, len(captions) // IMAGES_PER_HELD_OUT))
    number = share if count is None else count
    held_out = set(random.Random(seed).sample(range(len(captions)), number))
    note = f"{counted(number, 'image was', 'images were')} held out"
    if count is None:
        note = f"no validation captions were given: {note} for it"
    else:
        note = f"{note} to test on"
    train = captions.select(lambda number: number not in held_out, note)
    valid = captions.select(lambda number: number in held_out)
    name = "valid" if count is None else "test"
    return train, replace(valid, name=name, notes=())


def mentions_side(captions: Sequence[str]) -> bool:
    """Return whether a caption says left or right in one of some twenty languages."""
    return any(_SIDES.search(caption) for caption in captions)


@dataclass
class _CaptionGroups:
    """Groups the captions of a file by image."""

    content: CaptionFile
    path: Path
    max_words: int | None
    captions: dict[str, list[str]] = field(default_factory=dict)
    empty: list[int] = field(default_factory=list)
    too_long: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)

    def add(self, row: CaptionRow, index: _FolderIndex, problems: Problems) -> None:
        """Add the caption of a row, or what is wrong with it to `problems`."""
        number, image, text = row
        caption = clean(text)
        if not caption and self.content.is_table:
            self.empty.append(number)
            return
        start = f"{self.path}: {self.content.unit} {number}: "
        file, cause = index.find(image)
        if cause:
            problems.add("captions of images that do not exist", start + cause)
        elif not caption:
            cause = f"the caption of {image} has no text"
            problems.add("captions with no text", start + cause)
        elif self.max_words is not None and word_count(caption) > self.max_words:
            self.too_long.append(number)
        else:
            texts = self.captions.setdefault(file, [])
            if caption in texts:
                self.repeated.append(number)
            texts.append(caption)

    def note_too_long(self) -> str:
        """Return a sentence on the captions that were too long; nothing if there are none."""
        if not self.too_long:
            return ""
        return (
            f"left out: {counted(len(self.too_long), 'caption')} of more than {self.max_words} "
            f"words, the first in {self.content.unit} {self.too_long[0]} (data.max_length)"
        )

    def notes(self) -> Iterator[str]:
        """Yield sentences on what was left out, and on what is there twice."""
        unit = self.content.unit
        if self.empty:
            lines = counted(len(self.empty), f"{unit} has", f"{unit}s have")
            yield f"skipped: {lines} no caption{_numbers(self.empty)}"
        if self.too_long:
            yield self.note_too_long()
        if self.repeated:
            lines = counted(len(self.repeated), f"{unit} repeats", f"{unit}s repeat")
            yield f"{lines} the image and caption of another{_numbers(self.repeated)}"


def _numbers(numbers: Sequence[int]) -> str:
    """Return the first numbers in brackets."""
    shown = ", ".join(map(str, numbers[:_EXAMPLES]))
    return f" ({shown}{' …' if len(numbers) > _EXAMPLES else ''})"


class _FolderIndex:
    """Index of the file names in a folder; names are compared after Unicode normalisation.

    An accented letter or a Hangul syllable can be written as one code point or as several, and file
    systems often choose another form than the captions.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listed = {nfc(entry.name): entry.name for entry in folder.iterdir()}
        self._stems = {_stem(name) for name in self._listed} - {""}
        self._guesses = 0
        self.named: AbstractSet[str] = frozenset()
        """The names that are looked up, case-folded."""
        self._others: dict[str, str] = {}  # files that were taken for other names
        self._files_beside = cache(self._list_files)
        self.find = cache(self._look_up)

    def is_image(self, name: str) -> bool:
        """Return whether a cell names an image of the folder, or ends as names of images do."""
        return has_image_ending(name) or _stem(name) in self._stems

    def _look_up(self, name: str) -> tuple[str, str]:
        """Return the name as the folder has it, and the problem with it; empty if it is a file."""
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if not name or name.startswith(("/", "\\")) or ".." in parts or "\0" in name:
            cause = (
                f"{name!r} is not a file name in {self.folder}; names are relative to that "
                "folder"
            )
            return name, cause
        sizes = [len(part.encode("utf-8", "replace")) for part in parts]
        if max(sizes, default=0) > LONGEST_NAME or len(name) > LONGEST_PATH:
            cause = (
                f"{name[:40]}… is longer than file names are ({len(name):,} characters); correct "
                "it"
            )
            return name, cause

        if "\\" not in name:  # ./a.jpg and b//c.jpg are a.jpg and b/c.jpg
            name = str(PurePosixPath(name))
        if len(parts) > 1:
            forms = (name, nfc(name), unicodedata.normalize("NFD", nfc(name)))
            existing = [form for form in forms if (self.folder / form).exists()]
            file = existing[0] if existing else None
        else:
            file = self._listed.get(nfc(name))
            if file is not None and (self.folder / name).exists():
                file = name
        if file is None:
            file = self._nearly(name)
        if file is not None:
            return file, ""
        return name, f"there is no image {name} in {self.folder}{self._suggest(name)}"

    def _nearly(self, name: str) -> str | None:
        """Return the only file whose name differs by case or ending alone; None if there is none,
        or several.

        A file that another row names is not taken for a name with another ending.
        """
        by_name, by_stem = self._files_beside(PurePosixPath(name).parent)
        files = by_name.get(_folded(name), [])
        if not files and _ENDING.search(name):
            files = by_stem.get(_stem(name), [])
            files = [file for file in files if _folded(file) not in self.named]
        elif not files:
            files = by_stem.get(_folded(PurePosixPath(name).name), [])
        if len(files) != 1:
            return None
        self._others[name] = files[0]
        return files[0]

    def _list_files(
        self, parent: PurePosixPath
    ) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Return the images of a folder by their names and by their stems, case-folded."""
        by_name: dict[str, list[str]] = {}
        by_stem: dict[str, list[str]] = {}
        folder = self.folder / parent
        names = (
            sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        )
        for file in filter(has_image_ending, names):
            path = str(parent / file)
            by_name.setdefault(_folded(path), []).append(path)
            by_stem.setdefault(_stem(path), []).append(path)
        return by_name, by_stem

    def notes(self) -> Iterator[str]:
        """Yield a sentence on the names that differ from those of their files."""
        if self._others:
            pairs = [f"{name} as {file}" for name, file in self._others.items()]
            names = counted(len(pairs), "name differs", "names differ")
            more = " …" if len(pairs) > _EXAMPLES else ""
            examples = ", ".join(pairs[:_EXAMPLES]) + more
            yield f"{names} from the file by case or ending only: {examples}"

    def _suggest(self, name: str) -> str:
        """Return the end of a message that suggests a file of a similar name, for the first
        `SHOWN` names.
        """
        self._guesses += 1
        if self._guesses > SHOWN:
            return ""
        parent = PurePosixPath(name).parent
        names = list(self._listed)
        if parent.parts and (self.folder / parent).is_dir():
            names = [
                str(parent / entry.name) for entry in (self.folder / parent).iterdir()
            ]

        # Cameras write .JPG and caption files .jpg, so a file of the same stem is the best guess.
        similar = [other for other in names if _folded(other) == _folded(name)]
        similar += [other for other in names if _stem(other) == _stem(name)]
        similar = similar or difflib.get_close_matches(name, names, 1, 0.6)
        return f"; did you mean {similar[0]}?" if similar else ""


def _folded(name: str) -> str:
    return nfc(name).casefold()


def _stem(name: str) -> str:
    """Return a file's name without its ending, normalised to NFC and case-folded."""
    return _folded(PurePosixPath(name).stem)


def _singular(kind: str) -> str:
    """Return the singular of a kind of problem, such as "caption with no text"."""
    noun, _, relative = kind.partition(" ")
    relative = relative.replace("of images that do", "of an image that does")
    return f"{noun.removesuffix('s')} {relative}"
