"""From a folder of pictures and a file of captions to batches: read, checked, decoded once, cut into pieces."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.augmentation import ImageSettings, augmented, flippable, varies
from regard.data.batch import Example
from regard.data.batching import BatchingSettings, BatchStream
from regard.data.caption_files import CaptionSet, Problems, hold_out_images, read_captions, report_uncaptioned
from regard.data.corpus import CorpusFacts, texts_sha256
from regard.data.image_cache import ImageCache, cached_images
from regard.data.images import ImageSizeSettings, SourcePixels, source_pixels
from regard.data.job import DataRequest, Log
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS
from regard.errors import DataError

__all__ = [
    "IMAGES",
    "CaptionCorpus",
    "PreparedCaptions",
    "caption_examples",
    "prepare_caption_data",
    "read_caption_corpus",
]

IMAGES = "pictures"  # in a run folder
UNREADABLE = "pictures that cannot be read"


@dataclass(frozen=True)
class CaptionCorpus:
    """Captioned pictures, decoded."""

    caption_set: CaptionSet
    images: tuple[SourcePixels, ...] = field(repr=False)
    digest: str  # SHA-256 of their files
    file_bytes: int

    def __len__(self) -> int:
        return len(self.images)

    def facts(self) -> CorpusFacts:
        """What a model card says of them: captions, and the hashes of pictures and captions."""
        return CorpusFacts(len(self.caption_set.captions), self.digest, texts_sha256(self.caption_set.captions))

    def stamp(self) -> dict[str, Any]:
        """What the pictures were when a run began."""
        return {"path": str(self.caption_set.folder), "bytes": self.file_bytes, "sha256": self.digest}


@dataclass(frozen=True)
class PreparedCaptions:
    """Everything a run needs of its pictures and captions."""

    report: list[str]
    tokenizer: Tokenizer
    longest_caption: int  # pieces of the longest training caption, end of sentence not counted
    train: CaptionCorpus
    valid: CaptionCorpus
    batches: BatchStream


def prepare_caption_data(job: DataRequest) -> PreparedCaptions:
    """Read pictures and captions and make batches of them. Raises DataError with all causes at once, unless what cannot
    be used is to be skipped.
    """
    images, tokenizer = job.data.images, job.tokenizer
    assert images is not None, "pictures are wanted"
    complaints = Problems(images.skip_bad)
    train, valid = _albums(images, job.data.max_length, job.seed, complaints)
    job.log(f"looking at {len(train) + len(valid):,} pictures")
    galleries = [
        cached_images(a.paths, images.size_settings, job.run / IMAGES / a.name, job.log) for a in (train, valid)
    ]
    for album, found in zip((train, valid), galleries, strict=True):
        for cause in found.problems.values():
            complaints.add(UNREADABLE, f"{album.path}: {cause}")
    complaints.check()
    shown = [_scenes(a, found, images.size_settings) for a, found in zip((train, valid), galleries, strict=True)]
    captions = shown[0].caption_set.captions
    job.inspect([], captions)
    if isinstance(tokenizer, TokenizerSettings):
        tokenizer = Tokenizer.train([] if tokenizer.joint else captions, captions, tokenizer)
    free, decision = flippable(shown[0].caption_set, images, tokenizer.settings.kind in ("char", "whitespace"))
    batches, most = _batches(shown[0], images, free, tokenizer, job.batching, job.seed)
    report = [
        *shown[0].caption_set.lines(),
        f"  mirroring (data.images.flip): {decision}",
        *shown[1].caption_set.lines(),
    ]
    report += [_shared(shown[0].caption_set, shown[1].caption_set)]
    report += [*report_uncaptioned([train, valid]), *complaints.lines()]
    return PreparedCaptions(report, tokenizer, most, shown[0], shown[1], batches)


def read_caption_corpus(
    captions: Path, folder: Path, image_size: ImageSizeSettings, skip_bad: bool, log: Log
) -> CaptionCorpus:
    """Captioned pictures to be judged by, in memory."""
    complaints = Problems(skip_bad, "--skip-bad goes on without what cannot be used")
    album = read_captions(captions, folder, complaints, "test")
    found = cached_images(album.paths, image_size)
    for cause in found.problems.values():
        complaints.add(UNREADABLE, f"{album.path}: {cause}")
    complaints.check()
    scenes = _scenes(album, found, image_size)
    for line in [*scenes.caption_set.lines(), *complaints.lines()]:
        log(line)
    return scenes


def caption_examples(
    corpus: CaptionCorpus, tokenizer: Tokenizer, captions_per_image: int
) -> tuple[list[Example], list[int], list[list[str]]]:
    """Pictures with up to `together` of their captions as ids; which picture each is of, and its captions."""
    ids = iter(tokenizer.target.encode_all(corpus.caption_set.captions))
    found, numbers, texts = list[Example](), list[int](), list[list[str]]()
    for number, (picture, captioned) in enumerate(zip(corpus.images, corpus.caption_set.images, strict=True)):
        own = [[*next(ids), EOS] for _ in captioned.captions]
        for start in range(0, len(own), captions_per_image):
            first, *more = own[start : start + captions_per_image]
            found.append(Example(picture, first, tuple(more)))
            numbers.append(number)
            texts.append(list(captioned.captions[start : start + captions_per_image]))
    return found, numbers, texts


def _albums(images: ImageSettings, longest: int, seed: int, complaints: Problems) -> tuple[CaptionSet, CaptionSet]:
    assert images.folder is not None, "ImageSettings sees to it"
    assert images.captions is not None, "ImageSettings sees to it"
    folder, causes, albums = Path(images.folder), list[str](), list[CaptionSet]()
    files: list[tuple[str, str, Path, int | None]] = [("train", images.captions, folder, longest)]
    if images.valid_captions is not None:
        files.append(("valid", images.valid_captions, Path(images.valid_folder or folder), None))
    for where, path, place, most in files:
        try:
            albums.append(read_captions(Path(path), place, complaints, where, most))
        except DataError as problem:
            causes += [cause for cause in problem.causes if cause not in causes]
    if causes:
        raise DataError(*causes)
    empty = [album for album in albums if not len(album)]
    if empty and complaints.skip:
        raise DataError(*(f"{album.path}: nothing is left of it when what is bad is skipped" for album in empty))
    if empty:
        complaints.check()
    return (albums[0], albums[1]) if len(albums) > 1 else hold_out_images(albums[0], seed)


def _scenes(album: CaptionSet, found: ImageCache, frame: ImageSizeSettings) -> CaptionCorpus:
    """The pictures that can be used. Raises DataError where none is left."""
    numbers = [number for number in range(len(found)) if number not in found.problems]
    if not numbers:
        raise DataError(f"{album.path}: none of its {len(album):,} pictures can be used; give others")
    kept = album.select(lambda number: number not in found.problems)
    pictures = tuple(source_pixels(found[number], frame) for number in numbers)
    return CaptionCorpus(kept, pictures, found.digest, found.file_bytes)


def _batches(
    train: CaptionCorpus,
    images: ImageSettings,
    free: list[bool],
    tokenizer: Tokenizer,
    batching: BatchingSettings,
    seed: int,
) -> tuple[BatchStream, int]:
    """The batches, and the pieces of the longest caption."""
    examples, numbers, texts = caption_examples(train, tokenizer, images.captions_per_image)
    dropout = batching.subword_dropout
    again = None
    if dropout or varies(images, free, train.images):
        recut = texts if dropout else None
        again = augmented(examples, [free[number] for number in numbers], images, recut, tokenizer, dropout)
    most = max(len(target) for example in examples for target in example.targets) - 1
    return BatchStream(examples, batching, seed, again), most


def _shared(train: CaptionSet, valid: CaptionSet) -> str:
    """Whether the pictures that training is watched by are also trained on."""
    known = set(train.paths)
    both = [path.name for path in valid.paths if path in known]
    if not both:
        return f"valid: none of its {len(valid):,} pictures is also in train"
    named = ", ".join(both[:5]) + " …" * (len(both) > 5)
    return f"valid: {len(both):,} of {len(valid):,} pictures are also in train ({named})"
