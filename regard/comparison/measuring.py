"""Measurements of a run: its outputs, learning curve, calibration, alignments, and cost.

Measurements are cached in the comparison's folder, under a digest of all their inputs, so that a
comparison that is restarted, or repeated with a further system, does not decode again.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from pydantic import TypeAdapter

from regard.common.atomic import file_sha256, write_text
from regard.common.checksums import json_digest
from regard.common.errors import LineError
from regard.common.reading import file_bytes, parse_json
from regard.common.version import __version__
from regard.comparison.entries import Entry
from regard.comparison.result import Alignment, Cost, Point
from regard.comparison.test_data import TestData
from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.examples import encode_pairs
from regard.data.prepare_captions import caption_examples, read_caption_corpus
from regard.data.text import clean
from regard.evaluation.aer import (
    alignment_scores,
    extract_choice_links,
    most_consistent_choice,
    read_all,
)
from regard.evaluation.calibration import Calibration, calibration
from regard.evaluation.line_warnings import caught_warnings
from regard.evaluation.speed import Timing
from regard.explain.explanation import describe_choice
from regard.model_folder import CONFIG, WEIGHTS
from regard.models import Batch, Model, count_parameters, device_of
from regard.models.operations import count_multiply_adds
from regard.pipeline import Captioner, FolderTranslator, load
from regard.search import SearchOptions
from regard.training.journal import (
    cross_attention_entropy,
    last_update,
    of_kind,
    read,
    scores_of,
)

COUNTED = 25
"""Number of sentences or images, of all lengths, whose operations are counted."""
ALIGNED = 1000
"""Number of test pairs by whose attention a head is chosen if the folder names none."""
Pipeline = FolderTranslator | Captioner


@dataclass(frozen=True)
class Measured:
    """Measurements of a run, except scores and times."""

    outputs: tuple[str, ...]
    operations: float
    weights: int
    calibration: Calibration
    alignment: Alignment | None
    decoding: str
    warned: Mapping[str, int]


def measure_run(
    entry: Entry, data: TestData, device: str, options: SearchOptions, cache: Path
) -> Measured:
    """Decode the test set and measure a run, or read the cached measurements of the same files."""
    alignment = entry.path / "alignment.json"
    key = {
        "files": file_sha256(entry.path / WEIGHTS, entry.path / CONFIG),
        "test": data.test.digest,
        "options": dict(options),
        "version": __version__,
        "device": device,
        "gold": json_digest(
            [[sorted(item.sure), sorted(item.possible)] for item in data.gold]
        ),
        "choice": file_sha256(alignment) if alignment.is_file() else "",
    }
    path = cache / f"{json_digest(key)[:32]}.json"
    measured = _load(path, key)
    if measured is None:
        measured = _measure(load(entry.path, device), data, options)
        cache.mkdir(parents=True, exist_ok=True)
        write_text(
            path,
            json.dumps({"key": key, "values": asdict(measured)}, ensure_ascii=False),
        )
    return measured


def _load(path: Path, key: Mapping[str, object]) -> Measured | None:
    """Read cached measurements; None if there are none, or if they are damaged or have another
    key.
    """
    if not path.is_file():
        return None
    try:
        content = parse_json(file_bytes(path))
        if content["key"] != key:
            return None
        return TypeAdapter(Measured).validate_python(content["values"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _measure(pipeline: Pipeline, data: TestData, options: SearchOptions) -> Measured:
    with caught_warnings() as caught:  # the report counts them
        outputs = decode(pipeline, data, options)
    for text in caught.others:
        warnings.warn(text, stacklevel=2)
    engine = pipeline.engine.describe()
    examples = _examples(pipeline, data)
    model = pipeline.model
    assert isinstance(model, Model), "a run is one model"
    return Measured(
        tuple(outputs),
        operations_per_token(model, _of_all_lengths(examples)),
        count_parameters(model),
        calibration(model, examples),
        _alignment(pipeline, data),
        engine,
        caught.kinds,
    )


def decode(pipeline: Pipeline, data: TestData, options: SearchOptions) -> list[str]:
    """Decode the test set. Raises DataError, with file and line, if a line cannot be decoded."""
    if isinstance(pipeline, Captioner):
        captions = pipeline.caption(list(data.images), **options)
        return [caption.text for caption in captions]
    try:
        translations = pipeline.translate(data.test.sources, **options)
        return [translation.text for translation in translations]
    except LineError as problem:
        raise problem.in_file(data.test.name) from None


def decode_sample(pipeline: Pipeline, data: TestData, options: SearchOptions) -> None:
    """Decode the longest line of the test set, one of medium length, and the shortest."""
    lines = data.test.sources
    order = sorted(range(len(lines)), key=lambda line: len(lines[line].split()))
    chosen = {order[-1], order[len(order) // 2], order[0]}
    test = replace(data.test, sources=tuple(lines[line] for line in chosen))
    images = tuple(data.images[line] for line in chosen if data.images)
    with caught_warnings():
        decode(pipeline, replace(data, test=test, images=images), options)


def _examples(pipeline: Pipeline, data: TestData) -> list[Example]:
    """Encode the test set with its first references.

    Pairs with an empty side are left out, and so are those that are too long for the model.
    """
    if isinstance(pipeline, Captioner):
        return _caption_examples(pipeline, data)
    sources = list[str]()
    targets = list[str]()
    for source, texts in zip(data.test.sources, data.test.references, strict=True):
        target = clean(texts[0])
        if source and target:
            sources.append(source)
            targets.append(target)
    encoded = encode_pairs(sources, targets, pipeline.tokenizer)

    search = pipeline.settings.search
    max_source = search.longest_source or search.max_whole
    max_target = pipeline.max_target or max(max_source, search.max_whole)
    usable = [
        example
        for example in encoded
        if len(example.source_ids) <= max_source and len(example.target) <= max_target
    ]
    return usable or encoded[:1]


def _caption_examples(captioner: Captioner, data: TestData) -> list[Example]:
    assert data.captions is not None, "a captioner is tested on captions"
    corpus = read_caption_corpus(
        *data.captions, captioner.image_size, False, lambda _: None
    )
    limit = captioner.max_target or math.inf
    examples, numbers = caption_examples(
        corpus, captioner.tokenizer, captions_per_image=1
    )
    first_examples = dict[int, Example]()
    for number, example in zip(numbers, examples, strict=True):
        first_examples.setdefault(number, example)
    in_order = [first_examples[number] for number in sorted(first_examples)]
    return [example for example in in_order if len(example.target) <= limit]


def _of_all_lengths(examples: Sequence[Example]) -> list[Example]:
    """Select examples evenly from all examples sorted by length."""

    def lengths(example: Example) -> tuple[int, int]:
        is_text = isinstance(example.source, list)
        return len(example.source) if is_text else 0, len(example.target)

    by_length = sorted(examples, key=lengths)
    count = min(COUNTED, len(by_length))
    indices = [
        (2 * number + 1) * len(by_length) // (2 * count) for number in range(count)
    ]
    return [by_length[index] for index in indices]


def operations_per_token(model: Model, examples: Sequence[Example]) -> float:
    """Count the multiply-adds per target token in forward passes over single examples, encoder
    included.
    """
    total = tokens = 0
    model.eval()
    for example in examples:
        plan = BatchStream([example], BatchingSettings(), seed=0).epoch(0)[0]
        batch = plan.batch().to(device_of(model))
        source = Batch(batch.source, batch.source_keep)
        total += count_multiply_adds(
            lambda s=source, t=batch.target_in: model.project(model(s, t))  # type: ignore[misc]
        )
        tokens += batch.tokens
    return total / max(1, tokens)


def _alignment(pipeline: Pipeline, data: TestData) -> Alignment | None:
    """Score the attention against gold links.

    If the folder names no head, the head whose attention agrees best with itself is used.
    """
    if (
        not data.gold
        or isinstance(pipeline, Captioner)
        or not pipeline.cross_attention()
    ):
        return None
    rows = [
        row
        for row, (source, target) in enumerate(data.linked)
        if clean(source) and clean(target)
    ]
    sources = [data.linked[row][0] for row in rows]
    targets = [data.linked[row][1] for row in rows]
    readings = read_all(pipeline, sources, targets)
    choice = pipeline.choice
    if choice is None:
        choice, _ = most_consistent_choice(readings[:ALIGNED])
    links = extract_choice_links(readings, choice)
    scores = alignment_scores(links, [data.gold[row] for row in rows])
    description = describe_choice(choice, readings[0])
    if not pipeline.choice:
        description += ", chosen without gold links"
    return Alignment(scores.aer, scores.precision, scores.recall, description)


def learning_curve(folder: Path) -> tuple[Point, ...]:
    """Return the validations of a run, from its journal."""
    points = []
    for event in of_kind(read(folder / "journal.jsonl"), "valid"):
        point = Point(
            update=event["update"],
            tokens=int(event.get("tokens") or 0),
            seconds=float(event.get("seconds") or 0.0),
            scores=scores_of(event),
            entropy=cross_attention_entropy(event),
        )
        points.append(point)
    return tuple(points)


def cost_of(measured: Measured, folder: Path, timing: Timing | None) -> Cost:
    """Return the known costs of a run; `timing`: speed and memory if they were measured."""
    events = [
        event
        for event in read(folder / "journal.jsonl")
        if event["event"] in ("train", "valid", "end")
    ]
    ends = of_kind(events, "end")
    with_tokens = [event for event in events if event.get("tokens")]
    timed = ends or with_tokens
    cost = Cost(
        weights=measured.weights,
        operations=measured.operations,
        updates=last_update(events) or None,
        training_tokens=int(with_tokens[-1]["tokens"]) if with_tokens else None,
        training_seconds=float(timed[-1]["seconds"]) if timed else None,
        decoding=measured.decoding,
    )
    if timing is None:
        return cost
    return replace(
        cost,
        tokens_per_second=median(timing.speeds),
        latency=median(timing.latencies),
        **asdict(timing),
    )
