"""Measurements of a run: its outputs, learning curve, calibration, alignments, and cost.

Outputs and calibration of a run are kept in the comparison's folder under the digest of all that
they depend on, so that a comparison that is started again, or made again with another system, does
not decode anew.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from regard.common.atomic import file_sha256, write_text
from regard.common.checksums import json_digest
from regard.common.errors import LineError, LineWarning
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
    agreeing_choices,
    alignment_scores,
    extract_choice_links,
    read_all,
)
from regard.evaluation.calibration import Calibration, calibration
from regard.explain.explanation import describe_choice
from regard.model_folder import CONFIG, WEIGHTS
from regard.models import Batch, Model, count_parameters, device_of
from regard.models.operations import count_multiply_adds
from regard.pipeline import Captioner, FolderTranslator, load
from regard.search import SearchOptions
from regard.training.journal import cross_attention_entropy, read

COUNTED = 25
"""Sentences or images whose operations are counted, of all lengths."""
ALIGNED = 1000
"""Pairs of the test set whose attention chooses a head, if the folder names none."""
Pipeline = FolderTranslator | Captioner


@dataclass(frozen=True)
class Measured:
    """Measurements of a run, apart from scores and times."""

    outputs: tuple[str, ...]
    operations: float
    weights: int
    calibration: Calibration
    alignment: Alignment | None
    decoding: str


def measure_run(
    entry: Entry, data: TestData, device: str, options: SearchOptions, cache: Path
) -> Measured:
    """Decode the test set and measure a run, or read what an earlier call measured of the same
    files.
    """
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


def _load(path: Path, key: Mapping[str, Any]) -> Measured | None:
    """Read a cached measurement; None if there is none, or if it is damaged or of something
    else.
    """
    if not path.is_file():
        return None
    try:
        content = parse_json(file_bytes(path))
        return (
            TypeAdapter(Measured).validate_python(content["values"])
            if content["key"] == key
            else None
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _measure(pipeline: Pipeline, data: TestData, options: SearchOptions) -> Measured:
    outputs = decode(pipeline, data, options)
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
    )


def decode(pipeline: Pipeline, data: TestData, options: SearchOptions) -> list[str]:
    """Decode the test set. Raises DataError, by file and line, for lines that cannot be."""
    with warnings.catch_warnings():
        # Repetitions are there to see in the report.
        warnings.simplefilter("ignore", LineWarning)
        if isinstance(pipeline, Captioner):
            return [
                caption.text
                for caption in pipeline.caption(list(data.images), **options)
            ]
        try:
            return [
                translation.text
                for translation in pipeline.translate(data.test.sources, **options)
            ]
        except LineError as problem:
            raise problem.in_file(data.test.name) from None


def _examples(pipeline: Pipeline, data: TestData) -> list[Example]:
    """Encode the test set with its first references; sentences that are empty on a side are left
    out.
    """
    if isinstance(pipeline, Captioner):
        return _caption_examples(pipeline, data)
    longest = (
        pipeline.settings.search.longest_source or pipeline.settings.search.max_whole
    )
    pairs = [
        (source, clean(texts[0]))
        for source, texts in zip(data.test.sources, data.test.references, strict=True)
    ]
    pairs = [pair for pair in pairs if all(pair)]
    encoded = encode_pairs(
        [source for source, _ in pairs],
        [target for _, target in pairs],
        pipeline.tokenizer,
    )
    limit = pipeline.max_target or max(longest, pipeline.settings.search.max_whole)
    usable = [
        item
        for item in encoded
        if len(item.source_ids) <= longest and len(item.target) <= limit
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
    first = dict(reversed(list(zip(numbers, examples, strict=True))))
    return [
        first[number] for number in sorted(first) if len(first[number].target) <= limit
    ]


def _of_all_lengths(examples: Sequence[Example]) -> list[Example]:
    """Take examples evenly from those sorted by length."""
    by_length = sorted(
        examples,
        key=lambda item: (
            len(item.source) if isinstance(item.source, list) else 0,
            len(item.target),
        ),
    )
    count = min(COUNTED, len(by_length))
    return [
        by_length[(2 * place + 1) * len(by_length) // (2 * count)]
        for place in range(count)
    ]


def operations_per_token(model: Model, examples: Sequence[Example]) -> float:
    """Count multiply-adds of forward passes over single examples, encoder included, per target
    token.
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
    """Score the attention against gold links; without a chosen head the one that agrees best with
    itself.
    """
    if (
        not data.gold
        or isinstance(pipeline, Captioner)
        or not pipeline.cross_attention()
    ):
        return None
    rows = [i for i, pair in enumerate(data.linked) if all(map(clean, pair))]
    readings = read_all(
        pipeline, [data.linked[i][0] for i in rows], [data.linked[i][1] for i in rows]
    )
    choice = pipeline.choice or agreeing_choices(readings[:ALIGNED])[0]
    scores = alignment_scores(
        extract_choice_links(readings, choice), [data.gold[i] for i in rows]
    )
    chosen = "" if pipeline.choice else ", chosen without gold links"
    return Alignment(
        scores.aer,
        scores.precision,
        scores.recall,
        f"{describe_choice(choice, readings[0])}{chosen}",
    )


def learning_curve(folder: Path) -> tuple[Point, ...]:
    """Return the validations of a run, from its journal."""
    points = []
    for event in read(folder / "journal.jsonl"):
        if event["event"] != "valid":
            continue
        scores = {
            name: event[name]
            for name in ("loss", "chrf", "bleu", "cider")
            if event.get(name) is not None
        }
        tokens = int(event.get("tokens") or 0)
        seconds = float(event.get("seconds") or 0.0)
        points.append(
            Point(
                event["update"], tokens, seconds, scores, cross_attention_entropy(event)
            )
        )
    return tuple(points)


def cost_of(measured: Measured, folder: Path, times: Mapping[str, float]) -> Cost:
    """Return the known costs of a run; `times` are speed and memory, if they were measured."""
    events = [
        event
        for event in read(folder / "journal.jsonl")
        if event["event"] in ("train", "valid", "end")
    ]
    ends = [event for event in events if event["event"] == "end"]
    with_tokens = [event for event in events if event.get("tokens")]
    return Cost(
        measured.weights,
        measured.operations,
        max((event.get("update", 0) for event in events), default=0) or None,
        int(with_tokens[-1]["tokens"]) if with_tokens else None,
        float((ends or with_tokens)[-1]["seconds"]) if ends or with_tokens else None,
        times.get("tokens_per_second"),
        times.get("latency"),
        times.get("memory"),
        measured.decoding,
    )
