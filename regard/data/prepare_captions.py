"""Caption data for training: read images and caption files, decode them once, and make batches of
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.caption_files import (
    CaptionSet,
    Problems,
    hold_out_images,
    read_captions,
    report_uncaptioned,
)
from regard.data.corpus import EVALUATION_WORDS, CorpusFacts, texts_sha256
from regard.data.image_augmentation import augmented, flippable, varies
from regard.data.image_cache import ImageCache, Log, cached_images
from regard.data.images import (
    ImageSettings,
    ImageSizeSettings,
    SourcePixels,
    source_pixels,
)
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import EOS

UNREADABLE = "images that cannot be read"


@dataclass(frozen=True)
class CaptionCorpus:
    """Captioned images, decoded."""

    caption_set: CaptionSet
    images: tuple[SourcePixels, ...] = field(repr=False)
    digest: str  # SHA-256 of their files
    file_bytes: int

    def __len__(self) -> int:
        return len(self.images)

    def facts(self) -> CorpusFacts:
        """Return what a model card says of the corpus: its captions, and the hashes of images and
        captions.
        """
        captions = self.caption_set.captions
        return CorpusFacts(len(captions), self.digest, texts_sha256(captions))

    def image_fingerprint(self) -> dict[str, Any]:
        """Return folder, size and hash of the image files, to compare a resumed run with."""
        return {
            "path": str(self.caption_set.folder),
            "bytes": self.file_bytes,
            "sha256": self.digest,
        }


def read_caption_corpora(
    images: ImageSettings, max_words: int, seed: int, cache_folder: Path, log: Log
) -> tuple[CaptionCorpus, CaptionCorpus, list[str]]:
    """Read and decode training and validation images; also return what was skipped and what both
    share.

    Raises DataError with all causes at once, unless skipping.
    """
    problems = Problems(images.skip_bad)
    caption_sets = _read_caption_sets(images, max_words, seed, problems)
    log(f"reading {counted(sum(map(len, caption_sets)), 'image')}")
    caches = [
        cached_images(s.paths, images.size_settings, cache_folder / s.name, log)
        for s in caption_sets
    ]
    for caption_set, cache in zip(caption_sets, caches, strict=True):
        _add_problems(problems, caption_set, cache)
    problems.check()
    train, valid = (
        _usable_images(caption_set, cache, images.size_settings)
        for caption_set, cache in zip(caption_sets, caches, strict=True)
    )
    notes = [
        _shared_images(train.caption_set, valid.caption_set),
        *report_uncaptioned(caption_sets),
    ]
    return train, valid, [*notes, *problems.lines()]


def read_caption_corpus(
    captions: Path,
    folder: Path,
    image_size: ImageSizeSettings,
    skip_bad: bool,
    log: Log,
) -> CaptionCorpus:
    """Read and decode captioned images for evaluation, in memory."""
    problems = Problems(skip_bad, "`skip_bad=True` leaves out what cannot be used")
    caption_set = read_captions(captions, folder, problems, "test")
    cache = cached_images(caption_set.paths, image_size)
    _add_problems(problems, caption_set, cache)
    problems.check()
    corpus = _usable_images(caption_set, cache, image_size)
    for line in [*corpus.caption_set.lines(), *problems.lines()]:
        log(line)
    return corpus


def caption_batches(
    train: CaptionCorpus,
    images: ImageSettings,
    tokenizer: Tokenizer,
    batching: BatchingSettings,
    seed: int,
) -> tuple[BatchStream, str]:
    """Make the batch stream of a caption corpus, with image augmentation and subword regularisation
    if set.

    Also return what was decided about mirroring.
    """
    free, flip_note = flippable(
        train.caption_set, images, tokenizer.settings.kind in ("char", "whitespace")
    )
    examples, numbers = caption_examples(train, tokenizer, images.captions_per_image)
    dropout = batching.subword_dropout
    resample = None
    if dropout or varies(images, free, train.images):
        resample = augmented(
            examples, [free[n] for n in numbers], images, tokenizer, dropout
        )
    return BatchStream(examples, batching, seed, resample), flip_note


def caption_examples(
    corpus: CaptionCorpus, tokenizer: Tokenizer, captions_per_image: int
) -> tuple[list[Example], list[int]]:
    """Encode images with up to `captions_per_image` of their captions; also return the number of
    each one's image.
    """
    ids = iter(tokenizer.target.encode_all(corpus.caption_set.captions))
    examples = list[Example]()
    numbers = list[int]()
    for number, (image, captioned) in enumerate(
        zip(corpus.images, corpus.caption_set.images, strict=True)
    ):
        targets = [[*next(ids), EOS] for _ in captioned.captions]
        for start in range(0, len(targets), captions_per_image):
            first, *rest = targets[start : start + captions_per_image]
            examples.append(Example(image, first, tuple(rest)))
            numbers.append(number)
    return examples, numbers


def _read_caption_sets(
    images: ImageSettings, max_words: int, seed: int, problems: Problems
) -> tuple[CaptionSet, CaptionSet]:
    """Read the training and validation captions; hold validation images out if there are none."""
    assert images.folder is not None, "ImageSettings checks it"
    assert images.captions is not None, "ImageSettings checks it"
    folder = Path(images.folder)
    causes = list[str]()
    caption_sets = list[CaptionSet]()
    files: list[tuple[str, str, Path, int | None]] = [
        ("train", images.captions, folder, max_words)
    ]
    if images.valid_captions is not None:
        longest = max(max_words, EVALUATION_WORDS)
        files.append(
            (
                "valid",
                images.valid_captions,
                Path(images.valid_folder or folder),
                longest,
            )
        )
    for name, path, image_folder, limit in files:
        try:
            caption_sets.append(
                read_captions(Path(path), image_folder, problems, name, limit)
            )
        except DataError as problem:
            causes += [cause for cause in problem.causes if cause not in causes]
    DataError.raise_all(causes)
    empty = [caption_set for caption_set in caption_sets if not len(caption_set)]
    if empty:
        problems.check()
    DataError.raise_all(f"{part.path}: everything in it was skipped" for part in empty)
    return (
        (caption_sets[0], caption_sets[1])
        if len(caption_sets) > 1
        else hold_out_images(caption_sets[0], seed)
    )


def _add_problems(
    problems: Problems, caption_set: CaptionSet, cache: ImageCache
) -> None:
    for cause in cache.problems.values():
        problems.add(UNREADABLE, f"{caption_set.path}: {cause}")


def _usable_images(
    caption_set: CaptionSet, cache: ImageCache, image_size: ImageSizeSettings
) -> CaptionCorpus:
    """Keep the images that can be used. Raises DataError if there are none."""
    numbers = [number for number in range(len(cache)) if number not in cache.problems]
    if not numbers:
        raise DataError(
            f"{caption_set.path}: none of its {counted(len(caption_set), 'image')} can be used; "
            "give others"
        )
    usable = caption_set.select(lambda number: number not in cache.problems)
    images = tuple(source_pixels(cache[number], image_size) for number in numbers)
    return CaptionCorpus(usable, images, cache.digest, cache.file_bytes)


def _shared_images(train: CaptionSet, valid: CaptionSet) -> str:
    """Report how many validation images are also trained on."""
    known = set(train.paths)
    shared = [path.name for path in valid.paths if path in known]
    if not shared:
        return f"valid: none of its {counted(len(valid), 'image')} is also in train"
    names = ", ".join(shared[:5]) + (" …" if len(shared) > 5 else "")
    verb = "is" if len(shared) == 1 else "are"
    images = counted(len(valid), "image")
    return f"valid: {len(shared):,} of {images} {verb} also in train ({names})"
