"""From the settings of a run to its batches: text read and checked, a vocabulary, pieces in memory or in shards."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

from regard.atomic import write_bytes
from regard.data.batch import Example, Resample
from regard.data.batching import BatchingSettings, BatchSource, BatchStream
from regard.data.corpus import (
    EVALUATION,
    Corpus,
    CorpusDigest,
    CorpusFacts,
    CorpusSettings,
    Overlap,
    Pair,
    read_all,
    read_files,
)
from regard.data.corpus import corpora_report as lines_of
from regard.data.examples import corpus_resampler, encode_pairs, stored_resampler
from regard.data.holdout import held_out_report, hold_out_of
from regard.data.job import DataRequest, Inspect, Log, silent
from regard.data.mixture import Mixture
from regard.data.pairs import chunks
from regard.data.prepare_captions import CaptionCorpus, prepare_caption_data
from regard.data.provenance import (
    DATA_FILE,
    Fingerprints,
    describe_changes,
    differences,
    fingerprint_files,
    write_fingerprints,
)
from regard.data.shards import REMEDY, Shards, write_shards
from regard.data.streaming import FilteredCorpus, scan
from regard.data.text import clean
from regard.data.tokenizer import Tokenizer, TokenizerSettings, sampling_stride
from regard.data.word_alignments import WordLinks, read_word_links
from regard.errors import DataError

__all__ = ["SHARDS", "PreparedData", "describe_changes", "prepare_data"]

SHARDS = "shards"  # in a run folder
SHARD_BYTES = 1_000_000_000  # bytes of training text, from which on `shards = "auto"` means shards
MEMORY_FACTOR = (
    36  # or where so many times as much is more than memory: a byte of text takes 18, and half is left to others
)
GZIP_RATIO = 4  # text is so many times larger than its .gz
SUMMARY = "summary.json"


@dataclass(frozen=True)
class PreparedData:
    """Everything a run needs of its data."""

    report: tuple[str, ...]  # what there is to say of the corpora, line by line
    tokenizer: Tokenizer
    longest_source: (
        int  # pieces of the longest training source, end of sentence included; of pictures, the longest caption
    )
    valid: Corpus | CaptionCorpus
    batches: BatchSource
    pairs: int  # to train on
    facts: dict[str, CorpusFacts]  # of each corpus by its name, for the model card
    changes: tuple[str, ...]  # sentences: in what the data are not those that the run began with


@dataclass(frozen=True)
class _EncodedCorpora:
    """Training corpora as pieces, by name, and what else was found out on the way."""

    report: list[str]
    tokenizer: Tokenizer
    longest: int
    valid: Corpus
    examples: dict[str, Sequence[Example]]
    again: dict[str, Resample | None]
    facts: dict[str, CorpusFacts]


class _PairObserver(Protocol):
    def update(self, pairs: Iterable[Pair]) -> None: ...


def prepare_data(
    data: CorpusSettings,
    tokenizer: TokenizerSettings | Tokenizer,
    batching: BatchingSettings,
    seed: int,
    run: Path,
    *,
    log: Log | None = None,
    inspect: Inspect | None = None,
) -> PreparedData:
    """Read the corpora of a run and make batches of them. Raises DataError with all causes at once.

    Settings of a tokenizer stand for a vocabulary that is to be learnt from the training text; a tokenizer is taken as
    it is. Where it is that of a run that goes on, the data are compared with those the run began with. `batching` is
    resolved already.
    Training text up to about a gigabyte is held in memory; beyond that (see `CorpusSettings.shards`) it is cut into
    pieces once, into `run/shards`, and those are used again as long as text, filters and vocabulary stay the same.
    `tell` is told what is being done where that takes long. `look` is shown both sides of the training text (of a
    long one, lines spread evenly over it) before it is cut into pieces, and may raise.
    """
    once = [path for path in data.paths.values() if path.is_fifo() or path.is_char_device()]
    once += [Path(path) for path in data.alignment_files.values() if Path(path).is_fifo()]
    if once:
        raise DataError(
            *(
                f"{path}: can be read only once, and training reads its files more often; write it to a file"
                for path in once
            )
        )
    stamps = fingerprint_files(data)
    if data.images is not None:
        return _captioned(DataRequest(data, tokenizer, batching, seed, run, log or silent, inspect or silent), stamps)
    begun = isinstance(tokenizer, Tokenizer) and (run / DATA_FILE).exists()
    changed = describe_changes(data, run, stamps) if begun else ()
    job = DataRequest(data, tokenizer, batching, seed, run, log or silent, inspect or silent)
    large = _large(data)
    if large and data.alignment_files:
        raise DataError(
            f"{', '.join(data.alignment_files.values())}: training pairs in shards have no word links; set "
            "data.shards = false, which needs memory for all pairs, or leave the alignments out"
        )
    pieces = _on_disk(job, stamps) if large else _in_memory(job)
    batches = [
        BatchStream(pieces.examples[name], batching, seed + number, pieces.again[name])
        for number, name in enumerate(pieces.examples)
    ]
    weights = [data.weights[name] for name in pieces.examples]
    if not begun:
        write_fingerprints(data, stamps, run)
    return PreparedData(
        report=tuple(pieces.report),
        tokenizer=pieces.tokenizer,
        longest_source=pieces.longest,
        valid=pieces.valid,
        batches=batches[0] if len(batches) == 1 else Mixture(batches, weights, seed),
        pairs=sum(map(len, pieces.examples.values())),
        facts=pieces.facts,
        changes=changed,
    )


def _captioned(job: DataRequest, stamps: Fingerprints) -> PreparedData:
    """The same for pictures and their captions."""
    data, run = job.data, job.run
    found = prepare_caption_data(job)
    stamps = stamps | {f"{some.caption_set.name}.pictures": some.stamp() for some in (found.train, found.valid)}
    begun = isinstance(job.tokenizer, Tokenizer) and (run / DATA_FILE).exists()
    changed = describe_changes(data, run, stamps) if begun else ()
    if not begun:
        write_fingerprints(data, stamps, run)
    return PreparedData(
        report=tuple(found.report),
        tokenizer=found.tokenizer,
        longest_source=found.longest_caption,
        valid=found.valid,
        batches=found.batches,
        pairs=len(found.train.caption_set.captions),
        facts={some.caption_set.name: some.facts() for some in (found.train, found.valid)},
        changes=changed,
    )


def _in_memory(job: DataRequest) -> _EncodedCorpora:
    train, others = read_all(job.data, read_files)
    if "valid" not in others:
        train, others["valid"] = hold_out_of(train, job.seed)
    links = _links(job.data, train)
    sources = [text for corpus in train.values() for text in corpus.sources]
    targets = [text for corpus in train.values() for text in corpus.targets]
    tokenizer = _vocabulary(job, sources, targets)
    dropout = job.batching.subword_dropout
    kept = {
        name: encode_pairs(corpus.sources, corpus.targets, tokenizer, links.get(name)) for name, corpus in train.items()
    }
    return _EncodedCorpora(
        report=[*lines_of({**train, **others}), *(some.report for some in links.values())],
        tokenizer=tokenizer,
        longest=max(len(pair.source) for some in kept.values() for pair in some),
        valid=others["valid"],
        examples=dict(kept),
        again={
            name: corpus_resampler(corpus, tokenizer, dropout, links.get(name)) if dropout else None
            for name, corpus in train.items()
        },
        facts={name: corpus.facts() for name, corpus in {**train, **others}.items()},
    )


def _links(data: CorpusSettings, train: Mapping[str, Corpus]) -> dict[str, WordLinks]:
    """The word links of those corpora that have some. Raises DataError with all causes at once."""
    found: dict[str, WordLinks] = {}
    causes: list[str] = []
    for name, path in data.alignment_files.items():
        try:
            found[name] = read_word_links(path, train[name].pairs, train[name].report.read, name)
        except DataError as problem:
            causes += problem.causes
    if causes:
        raise DataError(*causes)
    return found


def _vocabulary(job: DataRequest, sources: Sequence[str], targets: Sequence[str]) -> Tokenizer:
    """The tokenizer that was given, or one learnt from this text."""
    job.inspect(sources, targets)
    if isinstance(job.tokenizer, Tokenizer):
        return job.tokenizer
    return Tokenizer.train(sources, targets, job.tokenizer)


def _on_disk(job: DataRequest, stamps: Fingerprints) -> _EncodedCorpora:
    """The shards that an earlier start of this run left, where they are whole and what is wanted; else new ones."""
    reason = None
    if isinstance(job.tokenizer, Tokenizer):
        try:
            return _reopened(job, job.tokenizer, stamps)
        except DataError as problem:
            reason = f"{problem.causes[0].removesuffix(REMEDY)}: made anew"
    pieces = _written(job, stamps)
    return pieces if reason is None else replace(pieces, report=[reason, *pieces.report])


def _reopened(job: DataRequest, tokenizer: Tokenizer, stamps: Fingerprints) -> _EncodedCorpora:
    """What is in the shards of this run. Raises DataError where they are damaged or of other data."""
    folder = job.run / SHARDS
    made_of = _made_of(job, tokenizer, stamps)
    try:
        summary = json.loads((folder / SUMMARY).read_bytes())
        train = {name: CorpusFacts(**facts) for name, facts in summary["facts"].items()}
        held_out = [Pair(*row) for row in summary["held_out"] or ()]
        said, compared, lines = summary["report"], summary["compared_with"], summary["shared"]
        before = summary["made_of"]
    except FileNotFoundError:
        raise DataError(f"{folder}: there are no whole shards{REMEDY}") from None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise DataError(f"{folder / SUMMARY}: damaged ({problem}){REMEDY}") from None
    if changed := sorted({_what(key) for key in differences(before, made_of)}):
        raise DataError(f"{folder}: the shards were made with other {' and '.join(changed)}{REMEDY}")
    shards = {name: Shards.open(folder / name) for name in job.data.training_files}
    if any(part.made_of != made_of for part in shards.values()):
        raise DataError(f"{folder}: its parts do not belong together{REMEDY}")
    _, others = read_all(job.data, _skipped)
    if "valid" not in others:
        report_of = held_out_report((files.names for files in job.data.training_files.values()), len(held_out))
        others["valid"] = Corpus(tuple(held_out), report_of)
    if compared != _of_others(stamps):
        lines = ["what valid and test share with train was not looked for again: the shards hold no text"]
    report = [*said, *(line for other in others.values() for line in other.report.lines()), *lines]
    return _pieces_of(job, tokenizer, shards, report, others, train)


def _written(job: DataRequest, stamps: Fingerprints) -> _EncodedCorpora:
    """Shards made from the text: it is gone through a few times, with little of it in memory."""
    folder = job.run / SHARDS
    job.log("reading the training text, which stays on disk")
    kept, others = read_all(job.data, scan)
    shutil.rmtree(folder, ignore_errors=True)  # only now: text that is not there must not cost the shards made of it
    held_out: Corpus | None = None
    if "valid" not in others:
        job.log("holding out pairs for validation")
        kept, held_out = hold_out_of(kept, job.seed)
        others["valid"] = held_out
    job.log("learning the vocabulary" if isinstance(job.tokenizer, TokenizerSettings) else "looking at the text")
    tokenizer = _vocabulary(job, *_sample([*kept.values()]))
    made_of = _made_of(job, tokenizer, stamps)
    shared = {name: Overlap(other) for name, other in others.items()}
    shards, facts = {}, {}
    for name, some in kept.items():
        job.log(f"cutting the {len(some):,} pairs of {name} into pieces, into {folder / name}")
        digest = CorpusDigest()
        pairs = _watched(some, [digest, *shared.values()])
        shards[name] = write_shards(folder / name, pairs, tokenizer, made_of)
        facts[name] = digest.facts()
    said = [line for some in kept.values() for line in some.report.lines()]
    lines = [line for name, some in shared.items() for line in some.lines(name)]
    summary = {
        "made_of": made_of,
        "report": said,
        "facts": {name: asdict(some) for name, some in facts.items()},
        "held_out": held_out and [(pair.source, pair.target, pair.line) for pair in held_out],
        "compared_with": _of_others(stamps),
        "shared": lines,
    }
    write_bytes(folder / SUMMARY, json.dumps(summary, indent=1).encode())  # last: without it nothing here counts
    report = [*said, *(line for other in others.values() for line in other.report.lines()), *lines]
    return _pieces_of(job, tokenizer, shards, report, others, facts)


def _pieces_of(
    job: DataRequest,
    tokenizer: Tokenizer,
    shards: Mapping[str, Shards],
    report: list[str],
    others: Mapping[str, Corpus],
    train: Mapping[str, CorpusFacts],
) -> _EncodedCorpora:
    dropout = job.batching.subword_dropout
    return _EncodedCorpora(
        report=report,
        tokenizer=tokenizer,
        longest=max(some.longest for some in shards.values()),
        valid=others["valid"],
        examples=dict(shards),
        again={name: stored_resampler(some, tokenizer, dropout) if dropout else None for name, some in shards.items()},
        facts={**train, **{name: corpus.facts() for name, corpus in others.items()}},
    )


def _sample(corpora: Sequence[FilteredCorpus]) -> tuple[list[str], list[str]]:
    """Both sides of pairs spread evenly over all corpora: those that `Tokenizer.train` would take of all of them."""
    step = sampling_stride(sum(len(some) for some in corpora))
    rows = islice(chain.from_iterable(some.rows() for some in corpora), 0, None, step)
    pairs = [(clean(source), clean(target)) for _, source, target in rows]
    return [source for source, _ in pairs], [target for _, target in pairs]


def _watched(pairs: Iterable[Pair], watchers: Sequence[_PairObserver]) -> Iterator[Pair]:
    """The pairs, each shown to the watchers as it goes by."""
    for some in chunks(pairs):
        for watcher in watchers:
            watcher.update(some)
        yield from some


def _large(data: CorpusSettings) -> bool:
    """Whether the training pairs are to be kept on disk."""
    if data.shards != "auto":
        return data.shards
    paths = [path for files in data.training_files.values() for path in files.paths.values() if path.is_file()]
    return sum(path.stat().st_size * (GZIP_RATIO if path.suffix == ".gz" else 1) for path in paths) > min(
        SHARD_BYTES, _memory() / MEMORY_FACTOR
    )


def _memory() -> float:
    """Bytes that this machine has."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows, and who does not say
        return math.inf


def _made_of(job: DataRequest, tokenizer: Tokenizer, stamps: Fingerprints) -> dict[str, Any]:
    """All that decides what is in the shards, as plain values."""
    held_out = "valid" not in job.data.evaluation_files
    return {
        "files": {key: stamp["sha256"] for key, stamp in stamps.items() if key not in _of_others(stamps)},
        "filters": asdict(job.data.filters),
        "held out by seed": job.seed if held_out else None,
        "vocabulary": tokenizer.fingerprint,
    }


def _what(key: str) -> str:
    """What a difference of `_made_of` is about."""
    return {"files": "text", "held out by seed": "held-out pairs"}.get(kind := key.split(".")[0], kind)


def _of_others(stamps: Fingerprints) -> dict[str, str]:
    return {key: stamp["sha256"] for key, stamp in stamps.items() if key.split(".")[0] in EVALUATION}


def _skipped(*_: object) -> None:
    """Reads nothing of a training corpus."""
