"""Caption data for training: read captions, decode their images once, and make batches of both."""

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
from regard.data.corpus_facts import CorpusFacts, texts_sha256
from regard.data.corpus_settings import EVALUATION_WORDS, CorpusSettings
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

FEW_IMAGES = 300
"""Fewer images than these teach nothing that holds for others."""
UNREADABLE = "images that cannot be read"


@dataclass(frozen=True)
class CaptionCorpus:
    """Captions with their decoded images."""

    caption_set: CaptionSet
    images: tuple[SourcePixels, ...] = field(repr=False)
    digest: str  # SHA-256 of the image files
    file_bytes: int  # size of the image files

    def __len__(self) -> int:
        return len(self.images)

    def facts(self) -> CorpusFacts:
        """Return the facts for the model card: the number of captions, and the hashes of images and
        captions.
        """
        captions = self.caption_set.captions
        return CorpusFacts(len(captions), self.digest, texts_sha256(captions))

    def image_fingerprint(self) -> dict[str, Any]:
        """Return folder, size and hash of the image files, which a resumed run compares."""
        return {
            "path": str(self.caption_set.folder),
            "bytes": self.file_bytes,
            "sha256": self.digest,
        }


def read_caption_corpora(
    data: CorpusSettings, seed: int, cache_folder: Path, log: Log
) -> tuple[dict[str, CaptionCorpus], list[str]]:
    """Read and decode the images to train, to validate and, if some are held out, to test on; also
    return notes on skipped and shared images.

    Raises DataError with all causes at once, unless bad images are skipped.
    """
    assert data.images is not None, "images and captions are given"
    problems = Problems(data.images.skip_bad)
    image_size = data.images.size_settings
    caption_sets = _read_caption_sets(data, data.images, seed, problems)
    log(f"reading {counted(sum(map(len, caption_sets)), 'image')}")
    caches = [
        cached_images(part.paths, image_size, cache_folder / part.name, log)
        for part in caption_sets
    ]
    for part, cache in zip(caption_sets, caches, strict=True):
        _add_problems(problems, part, cache)
    problems.check()

    corpora = {
        part.name: _usable_images(part, cache, image_size)
        for part, cache in zip(caption_sets, caches, strict=True)
    }
    train = corpora["train"].caption_set
    notes = [
        *_describe_size(len(train)),
        *(
            _shared_images(train, corpus.caption_set)
            for name, corpus in corpora.items()
            if name != "train"
        ),
        *report_uncaptioned(caption_sets),
        *problems.lines(),
    ]
    return corpora, notes


def read_caption_corpus(
    captions: Path,
    folder: Path,
    image_size: ImageSizeSettings,
    skip_bad: bool,
    log: Log,
    columns: str = "",
) -> CaptionCorpus:
    """Read and decode captioned images for evaluation; the images are kept in memory."""
    problems = Problems(skip_bad, "`skip_bad=True` leaves out what cannot be used")
    caption_set = read_captions(captions, folder, problems, "test", columns=columns)
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
    """Make the batch stream of a caption corpus; also return a note on mirroring.

    Images are augmented and captions segmented anew in each epoch, if the settings say so.
    """
    shows_writing = tokenizer.settings.kind in ("char", "whitespace")
    may_flip, flip_note = flippable(train.caption_set, images, shows_writing)
    examples, image_numbers = caption_examples(
        train, tokenizer, images.captions_per_image
    )
    dropout = batching.subword_dropout
    resample = None
    if dropout or varies(images, may_flip, train.images):
        example_may_flip = [may_flip[number] for number in image_numbers]
        resample = augmented(examples, example_may_flip, images, tokenizer, dropout)
    return BatchStream(examples, batching, seed, resample), flip_note


def caption_examples(
    corpus: CaptionCorpus, tokenizer: Tokenizer, captions_per_image: int
) -> tuple[list[Example], list[int]]:
    """Encode images with up to `captions_per_image` captions each; also return the image number of
    each example.

    An image with more captions is the source of several examples.
    """
    ids = iter(tokenizer.target.encode_all(corpus.caption_set.captions))
    examples = list[Example]()
    image_numbers = list[int]()
    for image_number, (image, captioned_image) in enumerate(
        zip(corpus.images, corpus.caption_set.images, strict=True)
    ):
        targets = [[*next(ids), EOS] for _ in captioned_image.captions]
        for start in range(0, len(targets), captions_per_image):
            first, *others = targets[start : start + captions_per_image]
            examples.append(Example(image, first, tuple(others)))
            image_numbers.append(image_number)
    return examples, image_numbers


def _read_caption_sets(
    data: CorpusSettings, images: ImageSettings, seed: int, problems: Problems
) -> list[CaptionSet]:
    """Read the captions to train and to validate on; hold out images to test on, if that is
    wanted, and to validate on if there are no captions for it.
    """
    assert images.folder is not None, "ImageSettings checks it"
    assert images.captions is not None, "ImageSettings checks it"
    folder = Path(images.folder)
    files: list[tuple[str, str, Path, int]] = [
        ("train", images.captions, folder, data.max_length)
    ]
    if images.valid_captions is not None:
        valid_folder = Path(images.valid_folder or folder)
        valid_words = max(data.max_length, EVALUATION_WORDS)
        files.append(("valid", images.valid_captions, valid_folder, valid_words))

    causes = list[str]()
    caption_sets = list[CaptionSet]()
    for name, path, image_folder, limit in files:
        try:
            caption_sets.append(
                read_captions(
                    Path(path), image_folder, problems, name, limit, data.columns
                )
            )
        except DataError as problem:
            causes += [cause for cause in problem.causes if cause not in causes]
    DataError.raise_all(causes)

    empty = [caption_set for caption_set in caption_sets if not len(caption_set)]
    # If nothing is left because entries are unusable and may not be skipped, their causes are
    # raised first.
    if empty:
        problems.check()
    DataError.raise_all(f"{part.path}: everything in it was skipped" for part in empty)
    train, *others = caption_sets
    if data.test_count is not None:
        train, test = hold_out_images(train, seed, data.test_count)
        others.append(test)
    if images.valid_captions is None:
        train, valid = hold_out_images(train, seed)
        others.insert(0, valid)
    return [train, *others]


def _describe_size(count: int) -> list[str]:
    """Return a sentence if there are few images to train on."""
    if count >= FEW_IMAGES:
        return []
    images = counted(count, "training image")
    return [
        f"{images}: the captioner will learn them by heart; to describe others it needs hundreds "
        "of each kind of thing"
    ]


def _add_problems(
    problems: Problems, caption_set: CaptionSet, cache: ImageCache
) -> None:
    for cause in cache.problems.values():
        problems.add(UNREADABLE, f"{caption_set.path}: {cause}")


def _usable_images(
    caption_set: CaptionSet, cache: ImageCache, image_size: ImageSizeSettings
) -> CaptionCorpus:
    """Return the usable images. Raises DataError if there are none."""
    usable_numbers = [
        number for number in range(len(cache)) if number not in cache.problems
    ]
    if not usable_numbers:
        raise DataError(
            f"{caption_set.path}: none of its {counted(len(caption_set), 'image')} can be used; "
            "give others"
        )
    usable = caption_set.select(lambda number: number not in cache.problems)
    images = tuple(
        source_pixels(cache[number], image_size) for number in usable_numbers
    )
    return CaptionCorpus(usable, images, cache.digest, cache.file_bytes)


def _shared_images(train: CaptionSet, other: CaptionSet) -> str:
    """Report how many validation or test images are also training images."""
    train_paths = set(train.paths)
    shared = [path.name for path in other.paths if path in train_paths]
    if not shared:
        return (
            f"{other.name}: none of its {counted(len(other), 'image')} is also in train"
        )
    names = ", ".join(shared[:5]) + (" …" if len(shared) > 5 else "")
    verb = "is" if len(shared) == 1 else "are"
    images = counted(len(other), "image")
    return f"{other.name}: {len(shared):,} of {images} {verb} also in train ({names})"
