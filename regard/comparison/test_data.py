"""Read the test set of a comparison, and count the words of its training data."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.common.errors import DataError, UsageError
from regard.comparison.result import TestSet
from regard.data.caption_files import Problems, read_captions
from regard.data.corpus import CorpusSettings, read_corpora, read_corpus
from regard.data.holdout import hold_out
from regard.data.pair_filters import PairFiles
from regard.data.text import clean, nfc, read_parallel, write_lines
from regard.evaluation.aer import Gold, parse_gold
from regard.evaluation.caption_metrics import words

HELD_OUT = (
    "it was held out of the training data; "
    "give test files for figures that others can repeat"
)
VALIDATION = (
    "these are the validation data, which chose the weights too; give test files for figures to "
    "publish"
)


@dataclass(frozen=True)
class Files:
    """Data files of a comparison: those to train on, as in `regard.train`, and those to test on.

    `test_target` are one or more files of references, line by line. `images` is the folder of
    captioned images.
    """

    source: str | None = None
    target: str | None = None
    pairs: str | None = None
    valid_source: str | None = None
    valid_target: str | None = None
    valid_pairs: str | None = None
    test_source: str | None = None
    test_target: tuple[str, ...] = ()
    test_pairs: str | None = None
    test_alignments: str | None = None
    images: str | None = None
    captions: str | None = None
    valid_captions: str | None = None
    test_captions: str | None = None

    @property
    def training(self) -> dict[str, str | None]:
        """Training and validation files, by the names of the arguments of `regard.train`."""
        texts = (
            "source",
            "target",
            "pairs",
            "valid_source",
            "valid_target",
            "valid_pairs",
        )
        return {
            name: getattr(self, name)
            for name in (*texts, "images", "captions", "valid_captions")
        }

    @property
    def has_training(self) -> bool:
        """True if there are files to train on."""
        return bool(
            (self.source and self.target)
            or self.pairs
            or (self.images and self.captions)
        )

    @property
    def has_test(self) -> bool:
        """True if there are files to test on."""
        return bool(
            (self.test_source and self.test_target)
            or self.test_pairs
            or (self.images and self.test_captions)
        )

    def problems(self) -> list[str]:
        """Return a sentence for each file that excludes another one or lacks its counterpart."""
        texts = [
            self.source,
            self.target,
            self.pairs,
            self.valid_source,
            self.valid_target,
            self.valid_pairs,
        ]
        texts += [
            self.test_source,
            self.test_pairs,
            self.test_alignments,
            *self.test_target,
        ]
        captions = [self.captions, self.valid_captions, self.test_captions]
        causes = []
        if (self.images or any(captions)) and any(texts):
            causes.append(
                "`images=` and files of sentences: compare translators or captioners; leave one of "
                "them out"
            )
        for prefix in ("", "valid_", "test_"):
            causes += self._side_problems(prefix)
        if self.test_alignments and not self.test_source:
            causes.append(
                "`test_alignments=`: links the words of `test_source=` and `test_target=`; give "
                "them too"
            )
        if any(captions) and not self.images:
            causes.append("`images=` is missing: the folder of the captioned images")
        if self.images and not any(captions):
            causes.append(
                "`images=` is given without captions; give `test_captions=`, or `captions=` to "
                "train on"
            )
        return causes

    def _side_problems(self, prefix: str) -> list[str]:
        """Return a sentence if one of two sides is missing, or if pairs are given too."""
        causes = []
        has_source = bool(getattr(self, f"{prefix}source"))
        has_target = bool(getattr(self, f"{prefix}target"))
        if has_source and not has_target:
            causes.append(
                f"`{prefix}source=` is given without `{prefix}target=`; give both"
            )
        elif has_target and not has_source:
            causes.append(
                f"`{prefix}target=` is given without `{prefix}source=`; give both"
            )
        if has_source and getattr(self, f"{prefix}pairs"):
            causes.append(
                f"`{prefix}source=` and `{prefix}pairs=` exclude each other; give one"
            )
        return causes


@dataclass(frozen=True)
class TestData:
    """The test set with its gold alignments, or with the paths of its images.

    - `linked`: the pairs to whose words the gold alignments refer, unchanged.
    - `captions`: the caption file and the folder of its images.
    """

    test: TestSet
    gold: tuple[Gold, ...] = ()
    linked: tuple[tuple[str, str], ...] = ()
    images: tuple[Path, ...] = ()
    captions: tuple[Path, Path] | None = None


@dataclass(frozen=True)
class TrainingWords:
    """Occurrences of each word on each side of the training data; None if the data are unknown."""

    source: Mapping[str, int] | None = None
    target: Mapping[str, int] | None = None


def read_test_data(files: Files) -> TestData:
    """Read the test set. Raises DataError, with all causes, for files that are damaged or of
    different lengths.
    """
    if files.images:
        return _read_images(files)
    links = list[str]()
    if files.test_pairs:
        corpus = read_corpus(PairFiles(None, None, files.test_pairs), None, "test")
        sources = corpus.sources
        references = [corpus.targets]
        name = Path(files.test_pairs).name
    else:
        assert files.test_source, "checked before"
        gold_file = [files.test_alignments] if files.test_alignments else []
        sources, *references = read_parallel(
            [files.test_source, *files.test_target, *gold_file]
        )
        links = references.pop() if gold_file else []
        name = Path(files.test_source).name
    if not sources:
        raise DataError(f"{name}: has no lines to test on; give others")
    linked = tuple[tuple[str, str], ...]()
    gold = tuple[Gold, ...]()
    if files.test_alignments:
        linked = tuple(zip(sources, references[0], strict=True))
        gold = tuple(parse_gold(files.test_alignments, links, sources, references[0]))
    sources = [clean(line) for line in sources]
    references = [[nfc(line) for line in lines] for lines in references]
    return TestData(
        _test_set(name, sources, list(zip(*references, strict=True))), gold, linked
    )


def _read_images(files: Files) -> TestData:
    assert files.images, "checked before"
    assert files.test_captions, "checked before"
    problems = Problems(False)
    captions = read_captions(
        Path(files.test_captions), Path(files.images), problems, "test"
    )
    problems.check()
    test = _test_set(
        Path(files.test_captions).name,
        [image.file for image in captions.images],
        captions.references,
    )
    return TestData(
        test, images=tuple(captions.paths), captions=(captions.path, captions.folder)
    )


def _test_set(
    name: str, sources: Sequence[str], references: Sequence[Sequence[str]]
) -> TestSet:
    content = json.dumps(
        [list(sources), [list(lines) for lines in references]], ensure_ascii=False
    )
    digest = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()
    return TestSet(
        name, tuple(sources), tuple(tuple(lines) for lines in references), digest
    )


def split_off_test(files: Files, folder: Path) -> tuple[Files, str]:
    """Choose test data if none are given: the validation data, or else pairs held out of the
    training data. Return the files with a note on the choice.

    Held-out pairs are written to `folder`, in files named by language. The training pairs written
    beside them share neither side with a test pair.
    """
    if files.has_test:
        return files, ""
    if files.valid_source and files.valid_target:
        return replace(
            files, test_source=files.valid_source, test_target=(files.valid_target,)
        ), VALIDATION
    if files.valid_pairs or files.valid_captions:
        return replace(
            files, test_pairs=files.valid_pairs, test_captions=files.valid_captions
        ), VALIDATION
    if files.images:
        raise UsageError(
            "there is nothing to test on: give `test_captions=`, or `valid_captions=`"
        )
    codes = _training(files).languages.pair
    sides = codes if len({*codes} - {""}) == 2 else ("source", "target")
    train, test = (
        [str(folder / f"{part}.{side}") for side in sides] for part in ("train", "test")
    )
    if not all(Path(path).is_file() for path in (*train, *test)):
        corpora, held_out = hold_out(
            read_corpora(_training(files), read_corpus)[0], seed=1
        )
        folder.mkdir(parents=True, exist_ok=True)
        for (source, target), corpus in ((test, held_out), (train, corpora["train"])):
            write_lines(source, corpus.sources)
            write_lines(target, corpus.targets)
    split = replace(files, source=train[0], target=train[1], pairs=None)
    return replace(split, test_source=test[0], test_target=(test[1],)), HELD_OUT


def _training(files: Files) -> CorpusSettings:
    values = {"source": files.source, "target": files.target, "pairs": files.pairs}
    return CorpusSettings.parse(values, "the arguments")


def read_training_words(files: Files) -> TrainingWords:
    """Count the words on both sides of the training data, or the words of the captions."""
    if not files.has_training:
        return TrainingWords()
    if files.images:
        captions = read_captions(
            Path(files.captions or ""), Path(files.images), Problems(True), "train"
        )
        return TrainingWords(None, count_words(captions.captions))
    corpora = read_corpora(_training(files), read_corpus)[0].values()
    sources = count_words(line for corpus in corpora for line in corpus.sources)
    return TrainingWords(
        sources, count_words(line for corpus in corpora for line in corpus.targets)
    )


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Count the words of texts: lower-cased, without punctuation."""
    return Counter(word for text in texts for word in words(text))
