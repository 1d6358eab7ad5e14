"""Data preparation for training: from settings to batches, with the vocabulary learnt, in memory or
in shards.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from regard.common.atomic import write_text
from regard.common.counting import counted
from regard.common.errors import DataError
from regard.common.reading import file_bytes, parse_json, reason_of
from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchSource, BatchStream
from regard.data.corpus import (
    EVALUATION,
    Corpus,
    CorpusDigest,
    CorpusFacts,
    CorpusSettings,
    Overlap,
    Read,
    read_corpora,
    read_corpus,
)
from regard.data.examples import encode_pairs, pair_variation, resampler
from regard.data.holdout import TrainingCorpus, held_out_report, hold_out
from regard.data.image_cache import Log
from regard.data.images import ImageSettings
from regard.data.language_id import spread
from regard.data.mixture import Mixture
from regard.data.pair_filters import Pair, chunks
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
from regard.data.shards import REMEDY, Shards, write_shards
from regard.data.streamed_corpus import scan
from regard.data.text import data_path
from regard.data.text_augmentation import VariationSettings
from regard.data.tokenizer import Tokenizer, TokenizerSettings, sampling_stride
from regard.data.word_alignments import WordLinks, read_word_links

IMAGES, SHARDS = "images", "shards"  # in a run folder
SUMMARY = "summary.json"  # in the folder of shards
# Bytes of training text above which `shards = "auto"` uses shards.
SHARD_BYTES = 1_000_000_000
# Or if the text times this exceeds the memory: a byte of text takes 18, and half is left free.
MEMORY_FACTOR = 36
GZIP_RATIO = 4  # text is about so many times larger than its .gz

TextSample = tuple[list[str], list[str]]
"""Both sides of some training pairs, evenly spread; of images the captions alone; empty where
shards are reused.
"""
Inspect = Callable[[Sequence[str], Sequence[str]], None]


@dataclass(frozen=True)
class PreparedData:
    """Everything that a run needs of its data."""

    report: tuple[str, ...]  # on the corpora, line by line
    tokenizer: Tokenizer
    longest_source: (
        # Tokens of the longest training source with its EOS; of images, of the longest
        # caption.
        int
    )
    valid: Corpus | CaptionCorpus
    test: Corpus | None
    batches: BatchSource
    pairs: int  # to train on
    facts: dict[str, CorpusFacts]  # of each corpus by name, for the model card
    # Sentences on how the data differ from those that the run started with.
    changes: tuple[str, ...]
    sample: TextSample  # of the training text


@dataclass(frozen=True)
class _DataRequest:
    """The arguments of `prepare_data`."""

    data: CorpusSettings
    tokenizer: TokenizerSettings | Tokenizer
    batching: BatchingSettings
    seed: int
    run: Path
    log: Log
    inspect: Inspect
    fingerprints: Fingerprints
    variation: VariationSettings
    resumed: bool = False

    def check_files(self) -> None:
        """Raise DataError if a run is resumed whose data files have changed."""
        if self.resumed:
            refuse_changed_files(self.run, self.fingerprints)

    def compare(self) -> tuple[str, ...]:
        """Return how the data of a resumed run have changed; record those of a new run."""
        if isinstance(self.tokenizer, Tokenizer) and (self.run / DATA_FILE).exists():
            return describe_changes(self.data, self.run, self.fingerprints)
        write_fingerprints(self.data, self.fingerprints, self.run)
        return ()


def prepare_data(  # noqa: PLR0913 - keyword options of a public function
    data: CorpusSettings,
    tokenizer: TokenizerSettings | Tokenizer,
    batching: BatchingSettings,
    seed: int,
    run: Path,
    *,
    variation: VariationSettings | None = None,
    log: Log | None = None,
    inspect: Inspect | None = None,
    resumed: bool = False,
) -> PreparedData:
    """Read the corpora of a run and make batches of them. Raises DataError with all causes at once.

    Given tokenizer settings, a vocabulary is learnt from the training text; a tokenizer is used as
    it is, and if it is that of a resumed run, the data are compared with those the run started
    with. `batching` is resolved already. Training text up to about a gigabyte is held in memory;
    longer text (see `CorpusSettings.shards`) is tokenised once, into `run/shards`, which are reused
    as long as text, filters and vocabulary stay the same. `log` is called with messages about slow
    steps. `inspect` is called with both sides of the training text (of a long one, with evenly
    sampled lines) before it is tokenised, and may raise. `resumed`: changed files are refused.
    """
    _check_rereadable(data)
    functions = (log or _ignore, inspect or _ignore)
    varied = variation or VariationSettings()
    request = _DataRequest(
        data,
        tokenizer,
        batching,
        seed,
        run,
        *functions,
        fingerprint_files(data),
        varied,
        resumed,
    )
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
    """Raise DataError, with all causes, for pipes, and for addresses that nothing can be read
    from.
    """
    causes = []
    for path in (*data.paths.values(), *map(data_path, data.alignment_files.values())):
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
                raise  # what opens addresses raises exceptions of any class
            causes.append(
                f"{path}: cannot be read ({reason_of(problem)}); check the address"
            )
    DataError.raise_all(causes)


def _prepare_captions(request: _DataRequest, images: ImageSettings) -> PreparedData:
    """Prepare images and their captions."""
    data = request.data
    tokenizer = request.tokenizer
    train, valid, notes = read_caption_corpora(
        images, data.max_length, request.seed, request.run / IMAGES, request.log
    )
    captions = train.caption_set.captions
    request.inspect([], captions)
    if isinstance(tokenizer, TokenizerSettings):
        tokenizer = Tokenizer.train(
            [] if tokenizer.joint else captions, captions, tokenizer
        )
    batches, flip_note = caption_batches(
        train, images, tokenizer, request.batching, request.seed
    )
    by_name = {corpus.caption_set.name: corpus for corpus in (train, valid)}
    request.fingerprints.update(
        {
            f"{name}.images": corpus.image_fingerprint()
            for name, corpus in by_name.items()
        }
    )
    request.check_files()
    mirroring = f"  mirroring (data.images.flip): {flip_note}"
    return PreparedData(
        report=(
            *train.caption_set.lines(),
            mirroring,
            *valid.caption_set.lines(),
            *notes,
        ),
        tokenizer=tokenizer,
        longest_source=max(
            len(target) for example in batches.examples for target in example.targets
        )
        - 1,
        valid=valid,
        test=None,
        batches=batches,
        pairs=len(captions),
        facts={name: corpus.facts() for name, corpus in by_name.items()},
        changes=request.compare(),
        sample=([], spread(captions)),
    )


def _read_links(
    data: CorpusSettings, train: Mapping[str, TrainingCorpus]
) -> dict[str, WordLinks]:
    """Read the word links of the corpora that have some. Raises DataError with all causes at
    once.
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


def _reuse_shards(request: _DataRequest) -> PreparedData:
    """Reuse the shards of an earlier start of this run if they are undamaged and still fit; else
    make new ones.
    """
    reason = None
    if isinstance(request.tokenizer, Tokenizer):
        try:
            return _reopen_shards(request, request.tokenizer)
        except DataError as problem:
            reason = f"{problem.causes[0].removesuffix(REMEDY)}: made anew"
    prepared = _encode(request, on_disk=True)
    return (
        prepared
        if reason is None
        else replace(prepared, report=(reason, *prepared.report))
    )


def _reopen_shards(request: _DataRequest, tokenizer: Tokenizer) -> PreparedData:
    """Open the shards of this run. Raises DataError if they are damaged or of other data."""
    folder = request.run / SHARDS
    cache_key = _cache_key(request, tokenizer)
    try:
        summary = parse_json(file_bytes(folder / SUMMARY))
        facts = TypeAdapter(dict[str, CorpusFacts]).validate_python(summary["facts"])
        rows = TypeAdapter(dict[str, list[tuple[str, str, int]]]).validate_python(
            summary["held_out"]
        )
        held_out = {
            name: tuple(Pair(*row) for row in pairs) for name, pairs in rows.items()
        }
        report, shared = (
            TypeAdapter(list[str]).validate_python(summary[key])
            for key in ("report", "shared")
        )
        compared = summary["compared_with"]
        old_key = dict(summary["cache_key"])
    except FileNotFoundError:
        raise DataError(f"{folder}: there are no complete shards{REMEDY}") from None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise DataError(
            f"{folder / SUMMARY}: damaged ({reason_of(problem)}){REMEDY}"
        ) from None
    if changed := sorted({_subject(key) for key in differences(old_key, cache_key)}):
        raise DataError(
            f"{folder}: the shards were made with other {' and '.join(changed)}{REMEDY}"
        )
    shards = {name: Shards.open(folder / name) for name in request.data.training_files}
    if any(part.cache_key != cache_key for part in shards.values()):
        raise DataError(f"{folder}: its parts do not belong together{REMEDY}")
    _, others = read_corpora(request.data, _ignore)
    files = [pair_files.names for pair_files in request.data.training_files.values()]
    others |= {
        name: Corpus(pairs, held_out_report(files, len(pairs), name))
        for name, pairs in held_out.items()
    }
    if compared != _evaluation_hashes(request.fingerprints):
        shared = [
            "what valid and test share with train was not compared again: the shards hold no text"
        ]
    report = [
        *report,
        *(line for other in others.values() for line in other.report.lines()),
        *shared,
    ]
    return _prepared(request, tokenizer, shards, {}, report, others, facts, ([], []))


def _encode(request: _DataRequest, on_disk: bool) -> PreparedData:
    """Read and tokenise the text: into memory, or `on_disk`, in a few passes with little of the
    text in memory.
    """
    data = request.data
    folder = request.run / SHARDS
    log = request.log if on_disk else _ignore
    log("reading the training text, which stays on disk")
    read: Read[TrainingCorpus] = scan if on_disk else read_corpus
    train, others = read_corpora(data, read)
    if on_disk:
        # Only now: if text is missing, the shards made from it are kept.
        shutil.rmtree(folder, ignore_errors=True)
    held_out = dict[str, Corpus]()
    if data.test_count is not None:
        train, held_out["test"] = hold_out(train, request.seed, data.test_count, "test")
    if "valid" not in others:
        log("holding out pairs for validation")
        train, held_out["valid"] = hold_out(train, request.seed)
    others |= held_out
    links = _read_links(data, train)
    tokenizer = request.tokenizer
    log(
        "learning the vocabulary"
        if isinstance(tokenizer, TokenizerSettings)
        else "inspecting the text"
    )
    sources, targets = _sample([*train.values()])
    request.inspect(sources, targets)
    if isinstance(tokenizer, TokenizerSettings):
        tokenizer = Tokenizer.train(sources, targets, tokenizer)
    sample = spread(sources), spread(targets)
    del sources, targets  # millions of lines
    cache_key = _cache_key(request, tokenizer)
    overlaps = {name: Overlap(other) for name, other in others.items()}
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
    report = [line for corpus in train.values() for line in corpus.report.lines()]
    shared = [
        line for name, overlap in overlaps.items() for line in overlap.lines(name)
    ]
    if on_disk:
        summary = {
            "cache_key": cache_key,
            "report": report,
            "facts": {name: asdict(values) for name, values in facts.items()},
            "held_out": {
                held: [(pair.source, pair.target, pair.line) for pair in pairs]
                for held, pairs in held_out.items()
            },
            "compared_with": _evaluation_hashes(request.fingerprints),
            "shared": shared,
        }
        # Last: without it the folder does not count.
        write_text(folder / SUMMARY, json.dumps(summary, indent=1))
    report += [
        *(line for other in others.values() for line in other.report.lines()),
        *shared,
    ]
    return _prepared(request, tokenizer, examples, links, report, others, facts, sample)


def _prepared(  # noqa: PLR0913 - the parts of which a PreparedData is made
    request: _DataRequest,
    tokenizer: Tokenizer,
    examples: Mapping[str, Sequence[Example]],
    links: Mapping[str, WordLinks],
    report: list[str],
    others: Mapping[str, Corpus],
    facts: Mapping[str, CorpusFacts],
    sample: TextSample,
) -> PreparedData:
    """Make batches of tokenised corpora."""
    batching = request.batching
    dropout = request.batching.subword_dropout

    def stream(number: int, name: str, part: Sequence[Example]) -> BatchStream:
        vary = (
            None
            if name in links
            else pair_variation(request.variation, part, tokenizer)
        )
        resample = (
            resampler(part, tokenizer, dropout, links.get(name), vary)
            if dropout or vary
            else None
        )
        return BatchStream(part, batching, request.seed + number, resample)

    streams = [
        stream(number, name, part)
        for number, (name, part) in enumerate(examples.items())
    ]
    weights = [request.data.weights[name] for name in examples]
    return PreparedData(
        report=(*report, *(word_links.report for word_links in links.values())),
        tokenizer=tokenizer,
        longest_source=max(map(_longest_source, examples.values())),
        valid=others["valid"],
        test=others.get("test"),
        batches=streams[0]
        if len(streams) == 1
        else Mixture(streams, weights, request.seed),
        pairs=sum(map(len, examples.values())),
        facts={**facts, **{name: corpus.facts() for name, corpus in others.items()}},
        changes=request.compare(),
        sample=sample,
    )


def _longest_source(examples: Sequence[Example]) -> int:
    return (
        examples.longest_source
        if isinstance(examples, Shards)
        else max(len(item.source) for item in examples)
    )


def _sample(corpora: Sequence[TrainingCorpus]) -> tuple[list[str], list[str]]:
    """Return both sides of pairs spread evenly over all corpora: those that `Tokenizer.train` would
    sample itself.
    """
    step = sampling_stride(sum(len(corpus) for corpus in corpora))
    return _sides(islice(chain.from_iterable(corpora), 0, None, step))


def _sides(pairs: Iterable[Pair]) -> tuple[list[str], list[str]]:
    sides = [(pair.source, pair.target) for pair in pairs]
    return [source for source, _ in sides], [target for _, target in sides]


def _observed(
    pairs: Iterable[Pair], observers: Sequence[CorpusDigest | Overlap]
) -> Iterator[Pair]:
    """Yield the pairs, after each was passed to the observers."""
    for chunk in chunks(pairs):
        for observer in observers:
            observer.update(chunk)
        yield from chunk


def _needs_shards(data: CorpusSettings) -> bool:
    """Return whether the training pairs are kept on disk."""
    if data.shards != "auto":
        return data.shards
    paths = [
        path
        for files in data.training_files.values()
        for path in files.paths.values()
        if path.is_file()
    ]
    text_bytes = sum(
        path.stat().st_size * (GZIP_RATIO if path.suffix == ".gz" else 1)
        for path in paths
    )
    return text_bytes > min(SHARD_BYTES, _memory_bytes() / MEMORY_FACTOR)


def _memory_bytes() -> float:
    """Return the memory of this machine; infinity if it is unknown."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        # Windows, and systems that do not say.
        return math.inf


def _cache_key(request: _DataRequest, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return everything that determines the content of the shards, as plain values."""
    evaluation = _evaluation_hashes(request.fingerprints)
    return {
        "files": {
            role: entry["sha256"]
            for role, entry in request.fingerprints.items()
            if role not in evaluation
        },
        "filters": asdict(request.data.filters),
        "held_out_seed": request.seed if request.data.holds_out else None,
        "held_out_test": request.data.test_count,
        "vocabulary": tokenizer.fingerprint,
    }


def _subject(key: str) -> str:
    """Name in words what a key of `_cache_key` is about."""
    kind = key.split(".")[0]
    return (
        "held-out pairs"
        if kind.startswith("held_out")
        else "text"
        if kind == "files"
        else kind
    )


def _evaluation_hashes(fingerprints: Fingerprints) -> dict[str, str]:
    return {
        role: entry["sha256"]
        for role, entry in fingerprints.items()
        if role.split(".")[0] in EVALUATION
    }


def _ignore(*_: object) -> None:
    """Stand in for a callback that was not given, and for reading a training corpus."""
