"""Data preparation for training: from corpus settings to batches, in memory or in shards; the
vocabulary is learnt on the way.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.common.reading import reason_of
from regard.common.requests import takes
from regard.data.batch import Example, Resample
from regard.data.batch_stream import BatchingSettings, BatchSource, BatchStream
from regard.data.checking.check import CheckReport
from regard.data.checking.checked_corpus import checked
from regard.data.corpus import Corpus, read_corpora
from regard.data.corpus_facts import CorpusDigest, CorpusFacts, Overlap
from regard.data.corpus_settings import EVALUATION, CorpusSettings
from regard.data.examples import encode_pairs, pair_variation, resampler
from regard.data.holdout import held_out_report, hold_out
from regard.data.image_cache import Log
from regard.data.images import ImageSettings
from regard.data.language_id import spread
from regard.data.mixture import Mixture
from regard.data.pairs import Pair, chunks
from regard.data.prepare_captions import (
    CaptionCorpus,
    caption_batches,
    read_caption_corpora,
)
from regard.data.provenance import (
    DATA_FILE,
    Fingerprints,
    describe_changes,
    differences,
    fingerprint_files,
    refuse_changed_files,
    write_fingerprints,
)
from regard.data.shard_summary import ShardSummary, TextSample
from regard.data.shards import REMEDY, Shards, write_shards
from regard.data.text_augmentation import VariationSettings
from regard.data.tokenizer import Tokenizer, TokenizerSettings, sampling_stride
from regard.data.word_alignments import WordLinks, read_word_links

IMAGES, SHARDS = "images", "shards"  # subfolders of a run
SUSPECTS = "suspects.tsv"
"""The suspect training pairs, in a run folder."""

SHARD_BYTES = 1_000_000_000
"""Bytes of training text above which `shards = "auto"` uses shards."""
MEMORY_FACTOR = 36
"""`shards = "auto"` also uses shards if the bytes of text times this factor exceed the memory: a
byte of text takes 18 bytes in memory, and half of the memory is left free.
"""
GZIP_RATIO = 4
"""Approximate size of text relative to its .gz."""

CheckText = Callable[[Sequence[str], Sequence[str]], None]
"""Check of both sides of the training text, which may raise DataError."""


@dataclass(frozen=True)
class PreparedData:
    """The batches, evaluation corpora, tokenizer and report that a run needs."""

    report: tuple[str, ...]  # lines on the corpora
    tokenizer: Tokenizer
    # Tokens of the longest training source with its EOS; for images, of the longest caption
    # without its EOS.
    longest_source: int
    valid: Corpus | CaptionCorpus
    test: Corpus | CaptionCorpus | None
    batches: BatchSource
    pairs: int  # number of training pairs
    facts: dict[str, CorpusFacts]  # by corpus name, for the model card
    # Sentences on how the data differ from those that the run started with.
    changes: tuple[str, ...]
    sample: TextSample
    images: int = 0  # number of training images


def _ignore(*_: object) -> None:
    """Do nothing: the default callback."""


@dataclass(frozen=True)
class DataRequest:
    """The arguments of `prepare_data`."""

    data: CorpusSettings
    tokenizer: TokenizerSettings | Tokenizer
    batching: BatchingSettings
    seed: int
    run: Path
    variation: VariationSettings = field(
        default_factory=VariationSettings, kw_only=True
    )
    log: Log = field(default=_ignore, kw_only=True)
    check_text: CheckText = field(default=_ignore, kw_only=True)
    resumed: bool = field(default=False, kw_only=True)

    @cached_property
    def fingerprints(self) -> Fingerprints:
        """The hashes of the data files."""
        return fingerprint_files(self.data)

    def check_files(self) -> None:
        """Raise DataError if a run is resumed whose data files have changed."""
        if self.resumed:
            refuse_changed_files(self.run, self.fingerprints)

    def describe_or_record_data(self) -> tuple[str, ...]:
        """Return how the data of a resumed run have changed; for a new run, record its data
        instead.
        """
        if isinstance(self.tokenizer, Tokenizer) and (self.run / DATA_FILE).exists():
            return describe_changes(self.data, self.run, self.fingerprints)
        write_fingerprints(self.data, self.fingerprints, self.run)
        return ()


@takes(DataRequest)
def prepare_data(request: DataRequest) -> PreparedData:
    """Read the corpora of a run and make batches of them. Raises DataError with all causes at once.

    If `tokenizer` is given as settings, a vocabulary is learnt from the training text. A given
    tokenizer is used as it is; if the run is resumed, its data are compared with the data that it
    started with. `batching` must be resolved (see `BatchingSettings.resolved`). Training text up
    to about a gigabyte is held in memory. Longer text (see `CorpusSettings.shards`) is tokenised
    once into `run/shards`, which are reused as long as text, filters and vocabulary stay the same.

    `log` is called with messages about slow steps. `check_text` is called with both sides of the
    training text before it is tokenised (with evenly sampled lines if the text is long), and may
    raise. If `resumed` is True, changed files are refused.
    """
    data = request.data
    _check_rereadable(data)
    request.check_files()

    if data.images is not None:
        return _prepare_captions(request, data.images)
    if not _needs_shards(data):
        return _encode(request, on_disk=False)
    if data.alignment_files:
        raise DataError(
            f"{', '.join(data.alignment_files.values())}: training pairs in shards have no word "
            "links; set data.shards = false, which needs memory for all pairs, or leave the "
            "alignments out"
        )
    return _reuse_shards(request)


def _check_rereadable(data: CorpusSettings) -> None:
    """Raise DataError, with all causes, for pipes and for addresses that cannot be read."""
    causes = []
    for path in data.paths.values():
        is_address = not isinstance(path, Path)
        try:
            if is_address:
                path.exists()
            elif path.is_fifo() or path.is_char_device():
                causes.append(
                    f"{path}: can be read only once, and training reads its files more often; "
                    "write it to a file"
                )
        except Exception as problem:
            if not is_address:
                raise  # only the libraries that open addresses raise exceptions of any class
            causes.append(
                f"{path}: cannot be read ({reason_of(problem)}); check the address"
            )
    DataError.raise_all(causes)


def _prepare_captions(request: DataRequest, images: ImageSettings) -> PreparedData:
    """Prepare images and their captions."""
    data = request.data
    tokenizer = request.tokenizer
    corpora, notes = read_caption_corpora(
        data, request.seed, request.run / IMAGES, request.log
    )
    train = corpora["train"]
    captions = train.caption_set.captions
    request.check_text([], captions)
    if isinstance(tokenizer, TokenizerSettings):
        sources = [] if tokenizer.joint else captions
        tokenizer = Tokenizer.train(sources, captions, tokenizer)

    batches, flip_note = caption_batches(
        train, images, tokenizer, request.batching, request.seed
    )
    for name, corpus in corpora.items():
        request.fingerprints[f"{name}.images"] = corpus.image_fingerprint()
    request.check_files()

    report = (
        *train.caption_set.lines(),
        f"  mirroring (data.images.flip): {flip_note}",
        *(
            line
            for name, corpus in corpora.items()
            if name != "train"
            for line in corpus.caption_set.lines()
        ),
        *notes,
    )
    longest_target = max(
        len(target) for example in batches.examples for target in example.targets
    )
    changes = request.describe_or_record_data()
    return PreparedData(
        report=report,
        tokenizer=tokenizer,
        longest_source=longest_target - 1,  # without EOS
        valid=corpora["valid"],
        test=corpora.get("test"),
        batches=batches,
        pairs=len(captions),
        facts={name: corpus.facts() for name, corpus in corpora.items()},
        changes=changes,
        sample=([], spread(captions)),
        images=len(train),
    )


def _read_links(
    data: CorpusSettings, train: Mapping[str, Corpus]
) -> dict[str, WordLinks]:
    """Read the word links of each corpus that has a file of them.

    Raises DataError with all causes at once.
    """
    links: dict[str, WordLinks] = {}
    causes: list[str] = []
    for name, path in data.alignment_files.items():
        try:
            links[name] = read_word_links(
                path, train[name], train[name].report.read, name, data.max_line
            )
        except DataError as problem:
            causes += problem.causes
    DataError.raise_all(causes)
    return links


def _reuse_shards(request: DataRequest) -> PreparedData:
    """Reuse the shards of an earlier start of this run if they are undamaged and still fit;
    otherwise make new shards.
    """
    if not isinstance(request.tokenizer, Tokenizer):
        return _encode(request, on_disk=True)
    try:
        return _reopen_shards(request, request.tokenizer)
    except DataError as problem:
        reason = f"{problem.causes[0].removesuffix(REMEDY)}: made anew"
    prepared = _encode(request, on_disk=True)
    return replace(prepared, report=(reason, *prepared.report))


def _reopen_shards(request: DataRequest, tokenizer: Tokenizer) -> PreparedData:
    """Open the shards of this run. Raises DataError if they are damaged or hold other data."""
    folder = request.run / SHARDS
    cache_key = _cache_key(request, tokenizer)
    summary = ShardSummary.read(folder)
    changed = {_subject(key) for key in differences(summary.cache_key, cache_key)}
    if changed:
        raise DataError(
            f"{folder}: the shards were made with other {' and '.join(sorted(changed))}{REMEDY}"
        )
    shards = {name: Shards.open(folder / name) for name in request.data.training_files}
    if any(part.cache_key != cache_key for part in shards.values()):
        raise DataError(f"{folder}: its parts do not belong together{REMEDY}")

    # The training text is in the shards, so that only the evaluation corpora are read.
    evaluation = read_corpora(request.data, request.data.evaluation_files)
    files = [pair_files.names for pair_files in request.data.training_files.values()]
    for name, rows in summary.held_out.items():
        report = held_out_report(files, len(rows), name)
        evaluation[name] = Corpus(tuple(Pair(*row) for row in rows), report)

    if summary.evaluation_hashes != _hashes(request, of_evaluation=True):
        unknown = "what valid and test share with train was not compared again"
        summary = replace(
            summary, overlap_lines=[f"{unknown}: the shards hold no text"]
        )
    return _prepared(request, tokenizer, shards, evaluation, summary, {})


def _encode(request: DataRequest, on_disk: bool) -> PreparedData:
    """Read and tokenise the text into memory or, if `on_disk`, into shards.

    Shards take a few passes over the text and keep little of it in memory.
    """
    data = request.data
    folder = request.run / SHARDS
    log = request.log if on_disk else _ignore
    log("reading the training text, which stays on disk")
    train = read_corpora(data, on_disk=on_disk)
    evaluation = {name: train.pop(name) for name in data.evaluation_files}
    if on_disk:
        # Old shards are removed only after the text was read, so that missing text loses nothing.
        shutil.rmtree(folder, ignore_errors=True)
    suspects = dict[str, CheckReport]()
    if data.check:
        log("looking for suspect pairs")
        suspects = _check(data, train)

    held_out = dict[str, Corpus]()
    if data.test_count is not None:
        train, held_out["test"] = hold_out(train, request.seed, data.test_count, "test")
    if "valid" in data.holds_out:
        log("holding out pairs for validation")
        train, held_out["valid"] = hold_out(train, request.seed)
    evaluation.update(held_out)
    links = _read_links(data, train)

    tokenizer, sample = _fit_tokenizer(request, train.values(), log)
    cache_key = _cache_key(request, tokenizer)
    overlaps = {name: Overlap(corpus) for name, corpus in evaluation.items()}
    examples = dict[str, Sequence[Example]]()
    facts = dict[str, CorpusFacts]()
    for name, corpus in train.items():
        log(
            f"tokenising the {counted(len(corpus), 'pair')} of {name}, into {folder / name}"
        )
        digest = CorpusDigest()
        pairs = _observed(corpus, [digest, *overlaps.values()])
        if on_disk:
            examples[name] = write_shards(folder / name, pairs, tokenizer, cache_key)
        else:
            examples[name] = encode_pairs(*_sides(pairs), tokenizer, links.get(name))
        facts[name] = digest.facts()

    summary = ShardSummary(
        cache_key=cache_key,
        report=_report_lines(train),
        facts=facts,
        held_out={
            name: [(pair.source, pair.target, pair.line) for pair in corpus]
            for name, corpus in held_out.items()
        },
        evaluation_hashes=_hashes(request, of_evaluation=True),
        overlap_lines=[
            line for name, overlap in overlaps.items() for line in overlap.lines(name)
        ],
        sample=sample,
    )
    if on_disk:
        summary.write(folder)
    prepared = _prepared(request, tokenizer, examples, evaluation, summary, links)
    for table, check_report in suspects.items():
        if check_report.suspects and (kept := check_report.write(request.run / table)):
            note = f"another {table} was there, and is {kept.name} now"
            prepared = replace(prepared, report=(*prepared.report, note))
    return prepared


def _check(data: CorpusSettings, train: dict[str, Corpus]) -> dict[str, CheckReport]:
    """Leave out or repair the suspect pairs of the training corpora; return the report on each, by
    the name of its table in the run folder.
    """
    reports = dict[str, CheckReport]()
    for name, corpus in train.items():
        table = SUSPECTS if name == "train" else f"suspects-{name}.tsv"
        has_links = name in data.alignment_files
        train[name], reports[table] = checked(corpus, table, has_links)
    return reports


def _fit_tokenizer(
    request: DataRequest, corpora: Collection[Corpus], log: Log
) -> tuple[Tokenizer, TextSample]:
    """Inspect pairs spread evenly over all corpora, with the stride of `Tokenizer.train`, and learn
    the vocabulary unless the run has one.

    Returns the tokenizer and a sample of the text.
    """
    tokenizer = request.tokenizer
    learns = isinstance(tokenizer, TokenizerSettings)
    log("learning the vocabulary" if learns else "inspecting the text")
    stride = sampling_stride(sum(map(len, corpora)))
    sources, targets = _sides(islice(chain.from_iterable(corpora), 0, None, stride))
    request.check_text(sources, targets)
    if isinstance(tokenizer, TokenizerSettings):
        tokenizer = Tokenizer.train(sources, targets, tokenizer)
    return tokenizer, (spread(sources), spread(targets))


def _report_lines(corpora: Mapping[str, Corpus]) -> list[str]:
    return [line for corpus in corpora.values() for line in corpus.report.lines()]


def _prepared(
    request: DataRequest,
    tokenizer: Tokenizer,
    corpora: Mapping[str, Sequence[Example]],
    evaluation: Mapping[str, Corpus],
    summary: ShardSummary,
    links: Mapping[str, WordLinks],
) -> PreparedData:
    """Make batches of tokenised training corpora."""
    streams = []
    for index, (name, examples) in enumerate(corpora.items()):
        resample = _resample(request, tokenizer, examples, links.get(name))
        seed = request.seed + index
        streams.append(BatchStream(examples, request.batching, seed, resample))

    batches: BatchSource = streams[0]
    if len(streams) > 1:
        weights = [request.data.weights[name] for name in corpora]
        batches = Mixture(streams, weights, request.seed)
    changes = request.describe_or_record_data()
    return PreparedData(
        report=(
            *summary.report,
            *_report_lines(evaluation),
            *summary.overlap_lines,
            *(word_links.report for word_links in links.values()),
        ),
        tokenizer=tokenizer,
        longest_source=max(map(_longest_source, corpora.values())),
        valid=evaluation["valid"],
        test=evaluation.get("test"),
        batches=batches,
        pairs=sum(map(len, corpora.values())),
        facts={
            **summary.facts,
            **{name: corpus.facts() for name, corpus in evaluation.items()},
        },
        changes=changes,
        sample=summary.sample,
    )


def _resample(
    request: DataRequest,
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    links: WordLinks | None,
) -> Resample | None:
    """Return the function that tokenises examples anew in each epoch; None if they never change."""
    dropout = request.batching.subword_dropout
    vary = None
    if links is None:  # variation would invalidate word links
        vary = pair_variation(request.variation, examples, tokenizer)
    if dropout or vary:
        return resampler(examples, tokenizer, dropout, links, vary)
    return None


def _longest_source(examples: Sequence[Example]) -> int:
    if isinstance(examples, Shards):
        return examples.longest_source
    return max(len(example.source) for example in examples)


def _sides(pairs: Iterable[Pair]) -> tuple[list[str], list[str]]:
    sides = [(pair.source, pair.target) for pair in pairs]
    return [source for source, _ in sides], [target for _, target in sides]


def _observed(
    pairs: Iterable[Pair], observers: Sequence[CorpusDigest | Overlap]
) -> Iterator[Pair]:
    """Yield the pairs, and pass each to the observers before."""
    for chunk in chunks(pairs):
        for observer in observers:
            observer.update(chunk)
        yield from chunk


def _needs_shards(data: CorpusSettings) -> bool:
    """Return whether the training pairs are kept on disk."""
    if data.shards != "auto":
        return data.shards
    text_bytes = 0
    for files in data.training_files.values():
        for path in files.paths.values():
            if path.is_file():
                ratio = GZIP_RATIO if path.suffix == ".gz" else 1
                text_bytes += path.stat().st_size * ratio
    return text_bytes > min(SHARD_BYTES, _memory_bytes() / MEMORY_FACTOR)


def _memory_bytes() -> float:
    """Return the memory of this machine; infinity if it is unknown."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        # Windows has no sysconf, and other systems may not know the names.
        return math.inf


def _cache_key(request: DataRequest, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return everything that determines the content of the shards, as plain values."""
    return {
        "files": _hashes(request, of_evaluation=False),
        "filters": {**asdict(request.data.filters), "check": request.data.check},
        "held_out_seed": request.seed if request.data.holds_out else None,
        "held_out_test": request.data.test_count,
        "vocabulary": tokenizer.fingerprint,
    }


def _subject(key: str) -> str:
    """Name the part of the data that a key of `_cache_key` describes."""
    part = key.split(".")[0]
    if part.startswith("held_out"):
        return "held-out pairs"
    return "text" if part == "files" else part


def _hashes(request: DataRequest, of_evaluation: bool) -> dict[str, str]:
    """Return the hashes of the files of the evaluation corpora, or of the training corpora."""
    return {
        role: entry["sha256"]
        for role, entry in request.fingerprints.items()
        if (role.split(".")[0] in EVALUATION) == of_evaluation
    }
