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
from regard.data.corpus import read_corpora, read_corpus
from regard.data.corpus_settings import CorpusSettings
from regard.data.file_formats import PairFiles
from regard.data.holdout import hold_out
from regard.data.text import clean, nfc, read_parallel, write_lines
from regard.evaluation.aer import Gold, parse_gold
from regard.evaluation.caption_metrics import words
from regard.requests.compare_request import ComparisonFiles

HELD_OUT = (
    "it was held out of the training data; "
    "give test files for figures that others can repeat"
)
VALIDATION = (
    "these are the validation data, which chose the weights too; give test files for figures to "
    "publish"
)


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
    """Occurrences of each word on each side of the training data; None if the data are unknown.

    `longest`: number of words of the longest source; 0 if unknown.
    """

    source: Mapping[str, int] | None = None
    target: Mapping[str, int] | None = None
    longest: int = 0


def read_test_data(files: ComparisonFiles) -> TestData:
    """Read the test set. Raises DataError, with all causes, for files that are damaged or of
    different lengths.
    """
    if files.images:
        return _read_images(files)
    links = list[str]()
    if files.test_pairs:
        pairs = PairFiles(pairs=files.test_pairs, columns=files.columns or "")
        corpus = read_corpus(pairs, name="test")
        sources = corpus.sources
        references = [corpus.targets]
        name = Path(files.test_pairs).name
    else:
        assert files.test_source, "checked before"
        gold_file = [str(files.test_alignments)] if files.test_alignments else []
        sources, *references = read_parallel(
            [str(files.test_source), *files.references, *gold_file]
        )
        links = references.pop() if gold_file else []
        name = Path(files.test_source).name
    if not sources:
        raise DataError(f"{name}: has no lines to test on; give others")
    linked = tuple[tuple[str, str], ...]()
    gold = tuple[Gold, ...]()
    if files.test_alignments:
        linked = tuple(zip(sources, references[0], strict=True))
        gold = tuple(
            parse_gold(str(files.test_alignments), links, sources, references[0])
        )
    sources = [clean(line) for line in sources]
    references = [[nfc(line) for line in lines] for lines in references]
    return TestData(
        _test_set(name, sources, list(zip(*references, strict=True))), gold, linked
    )


def _read_images(files: ComparisonFiles) -> TestData:
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


def split_off_test(files: ComparisonFiles, folder: Path) -> tuple[ComparisonFiles, str]:
    """Choose test data if none are given: the validation data, or else pairs held out of the
    training data. Return the files with a note on the choice.

    Held-out pairs are written to `folder`, in files named by language. The training pairs written
    beside them share neither side with a test pair.
    """
    if files.has_test:
        return files, ""
    if files.valid_source and files.valid_target:
        return replace(
            files, test_source=files.valid_source, test_target=files.valid_target
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
        corpora, held_out = hold_out(read_corpora(_training(files)), seed=1)
        folder.mkdir(parents=True, exist_ok=True)
        for (source, target), corpus in ((test, held_out), (train, corpora["train"])):
            write_lines(source, corpus.sources)
            write_lines(target, corpus.targets)
    split = replace(files, source=train[0], target=train[1], pairs=None)
    return replace(split, test_source=test[0], test_target=test[1]), HELD_OUT


def _training(files: ComparisonFiles) -> CorpusSettings:
    names = ("source", "target", *(("pairs", "columns") if files.pairs else ()))
    values = {name: path for name, path in files.training.items() if name in names}
    return CorpusSettings.parse(values, "the arguments")


def read_training_words(files: ComparisonFiles) -> TrainingWords:
    """Count the words on both sides of the training data, or the words of the captions."""
    if not files.has_training:
        return TrainingWords()
    if files.images:
        captions = read_captions(
            Path(files.captions or ""), Path(files.images), Problems(True), "train"
        )
        return TrainingWords(None, count_words(captions.captions))
    corpora = read_corpora(_training(files)).values()
    sources = [line for corpus in corpora for line in corpus.sources]
    targets = (line for corpus in corpora for line in corpus.targets)
    longest = max((len(source.split()) for source in sources), default=0)
    return TrainingWords(count_words(sources), count_words(targets), longest)


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Count the words of texts: lower-cased, without punctuation."""
    return Counter(word for text in texts for word in words(text))
